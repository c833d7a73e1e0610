"""Write the book's address and version wherever they must stand, from the one place that holds each.

The address is ``repository: url`` in ``_config.yml``, the version ``__version__`` in ``book_utils``.
``python tools/repository.py`` brings the rest in line with them: the first code cell of each chapter
(put there where it is missing), the badge that opens a chapter in Google Colab, the README and
CITATION.cff. ``--url URL`` sets the address first, ``--url ""`` removes it. ``--check`` only says what
differs. The buttons of the built pages follow by themselves; see ``sphinx_ext/book_site/launch.py``.
"""

import argparse
import re
import sys
from pathlib import Path

import nbformat
import yaml
from notebooks import normalise, text_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from book_utils import __version__  # noqa: E402

ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)")

SETUP_TAGS = ["remove-cell", "setup"]  # left out of the built pages: nothing runs there
BADGE_TAGS = ["colab-badge", "remove-cell"]  # the built pages have a button instead

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

# Colab opens the release that the setup cell fetches its wheel from, so that the two always match.
BADGE = (
    "[![Open this chapter in Google Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
    "(https://colab.research.google.com/github/{owner}/{name}/blob/v{version}/chapters/{chapter})"
)
README = (
    "[Read it online](https://{owner}.github.io/{name}/), take the [source]({address}), or open a\n"
    "chapter in Google Colab by the badge at its top.\n\n"
)
README_BLOCK = re.compile(r"(?<=<!-- address -->\n).*?(?=<!-- end of address -->)", re.DOTALL)


def address_of(root: Path) -> str:
    """The book's address, as _config.yml has it; empty before it is published."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return settings["repository"]["url"]


def checked(address: str) -> str:
    """The address in its one form, or a ValueError that says what is needed.

    Colab opens notebooks from GitHub, and wheels are fetched from a release there.
    """
    address = address.strip().removesuffix("/").removesuffix(".git")
    if address and not ADDRESS.fullmatch(address):
        raise ValueError(
            f"the address is {address!r}, but it must look like https://github.com/NAME/BOOK"
        )
    return address


def config_text(text: str, address: str) -> str:
    """_config.yml with `address` in it."""
    changed, count = re.subn(r'^  url: ".*?"', f'  url: "{address}"', text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f'_config.yml must have one line like `  url: ""`, and has {count}')
    return changed


def citation_text(text: str, address: str) -> str:
    """CITATION.cff with the address, if any, and the version."""
    lines = [line for line in text.splitlines() if not line.startswith("repository-code:")]
    lines = [f"version: {__version__}" if x.startswith("version:") else x for x in lines]
    if address:
        lines.append(f'repository-code: "{address}"')
    return "\n".join(lines) + "\n"


def readme_text(text: str, address: str) -> str:
    """README.md with links to the published book, or without."""
    if len(README_BLOCK.findall(text)) != 1:
        raise ValueError("README.md must have one place between <!-- address --> marks")
    links = ""
    if address:
        owner, name = ADDRESS.fullmatch(address).groups()
        links = README.format(owner=owner, name=name, address=address)
    return README_BLOCK.sub(lambda _: links, text)


def head_cells(chapter: str, address: str) -> list[nbformat.NotebookNode]:
    """What follows a chapter's title: the badge, once there is an address, and the setup cell."""
    source = SETUP.format(address=address, version=__version__)
    setup = nbformat.v4.new_code_cell(source, execution_count=1, metadata={"tags": SETUP_TAGS})
    if not address:
        return [setup]
    owner, name = ADDRESS.fullmatch(address).groups()
    badge = BADGE.format(owner=owner, name=name, version=__version__, chapter=chapter)
    return [nbformat.v4.new_markdown_cell(badge, metadata={"tags": BADGE_TAGS}), setup]


def notebook_text(path: Path, address: str) -> str:
    """The chapter at `path` with its head cells in place and its executed cells renumbered."""
    notebook = nbformat.read(path, as_version=4)
    ours = {"setup", "colab-badge"}
    title, *rest = [c for c in notebook.cells if not ours & set(c.metadata.get("tags", []))]
    notebook.cells = [title, *head_cells(path.name, address), *rest]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, start=1):
        if cell.execution_count is not None:
            cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    return text_of(normalise(notebook))


def texts(root: Path, address: str) -> dict[Path, str]:
    """What each file that holds the address or the version must be."""
    config, citation, readme = (root / x for x in ("_config.yml", "CITATION.cff", "README.md"))
    return {
        config: config_text(config.read_text(encoding="utf-8"), address),
        citation: citation_text(citation.read_text(encoding="utf-8"), address),
        readme: readme_text(readme.read_text(encoding="utf-8"), address),
        **{
            path: notebook_text(path, address)
            for path in sorted((root / "chapters").glob("*.ipynb"))
        },
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="the book's new address; empty to remove it")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    try:
        address = checked(address_of(ROOT) if options.url is None else options.url)
    except ValueError as error:
        parser.error(str(error))
    unlike = {
        path: text
        for path, text in texts(ROOT, address).items()
        if path.read_text(encoding="utf-8") != text
    }
    for path, text in unlike.items():
        name = path.relative_to(ROOT).as_posix()
        if options.check:
            print(f"{name} differs; python tools/repository.py puts it right")
        else:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"{name}: written")
    if not options.check:
        print(f"The book's address is {address or 'not set'}, its version {__version__}.")
    return int(options.check and len(unlike) > 0)


if __name__ == "__main__":
    sys.exit(main())
