"""Write the book's address and version wherever they must stand, from the one place that holds each.

The address is ``repository: url`` in ``_config.yml``, the version ``__version__`` in ``book_utils``.
``python tools/repository.py`` brings the rest in line with them, the first code cell of each chapter
included, and puts that cell where it is missing; ``--check`` only says what differs.
"""

import argparse
import sys
from pathlib import Path

import nbformat
import yaml
from notebooks import normalise, text_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from book_utils import __version__  # noqa: E402

SETUP_TAGS = ["remove-cell", "setup"]  # left out of the built pages: nothing runs there

# The first code cell of every chapter. It runs where nothing of the book is installed yet.
SETUP = """\
# Finds the book's helpers or, where they are missing, installs them and
# nothing else. In the book's own folder this cell changes nothing.
import importlib.util
import pathlib
import subprocess
import sys

BOOK = "{address}"
VERSION = "{version}"
WHEEL = f"v{{VERSION}}/book_utils-{{VERSION}}-py3-none-any.whl"
SOURCE = f"{{BOOK}}/releases/download/{{WHEEL}}" if BOOK else "THE-BOOK'S-FOLDER"
if pathlib.Path("../book_utils").is_dir():
    sys.path.insert(0, str(pathlib.Path("..").resolve()))
if BOOK and not importlib.util.find_spec("book_utils"):
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet"]
    subprocess.run([*pip, SOURCE])
    importlib.invalidate_caches()
try:
    from book_utils import __version__ as found
except ModuleNotFoundError:
    found = "no book_utils"
if found != VERSION:
    raise ImportError(
        f"This notebook needs book_utils {{VERSION}} but found {{found}}: open it "
        "in the chapters folder of that version of the book, or run "
        f'pip install --no-deps "{{SOURCE}}" and restart the kernel.'
    )"""


def setup_cell(address: str, version: str) -> nbformat.NotebookNode:
    """The first code cell of each chapter, as executed where it has nothing to do."""
    return nbformat.v4.new_code_cell(
        SETUP.format(address=address, version=version),
        execution_count=1,
        metadata={"tags": SETUP_TAGS},
    )


def put_setup(notebook: nbformat.NotebookNode, cell: nbformat.NotebookNode) -> None:
    """Make `cell` the notebook's first code cell, after its title; replaces an earlier one."""
    rest = [c for c in notebook.cells if "setup" not in c.metadata.get("tags", [])]
    notebook.cells = [rest[0], cell, *rest[1:]]
    code = (c for c in notebook.cells if c.cell_type == "code")
    for number, each in enumerate(code, start=1):
        if each.execution_count is not None:
            each.execution_count = number
        for output in each.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number


def written(root: Path) -> dict[Path, str]:
    """What each file that holds the address or the version must be."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    address = settings["repository"]["url"]
    files = {}
    for path in sorted((root / "chapters").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        put_setup(notebook, setup_cell(address, __version__))
        files[path] = text_of(normalise(notebook))
    return files


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    unlike = 0
    for path, text in written(ROOT).items():
        if path.read_text(encoding="utf-8") != text:
            unlike += 1
            name = path.relative_to(ROOT).as_posix()
            if options.check:
                print(f"{name} differs; python tools/repository.py puts it right")
            else:
                path.write_text(text, encoding="utf-8", newline="\n")
                print(f"{name}: written")
    return int(options.check and unlike > 0)


if __name__ == "__main__":
    sys.exit(main())
