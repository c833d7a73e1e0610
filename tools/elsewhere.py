"""Execute the chapters as a reader elsewhere does: notebooks alone in a folder, without the book.

Run it with the Python of the environment in question (``nox -s colab`` makes one like Google Colab's).
It builds the wheel, shows that pip would change nothing that is installed there, puts the wheel where a
release would have it, and lets the first cell of the chapters fetch it. ``--twice`` runs each chapter a
second time in the same kernel; ``--here`` takes the chapters where they lie, with nothing installed.
"""

import argparse
import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
SHOWN = (
    *("torch", "numpy", "scipy", "matplotlib", "pillow"),
    *("ipywidgets", "ipython", "ipykernel", "jupyter_client", "nbclient", "pip"),
)
CELL_TIMEOUT = 600  # seconds


def versions() -> str:
    """What is installed here, of what matters."""
    found = [f"{name} {importlib.metadata.version(name)}" for name in SHOWN]
    return f"Python {platform.python_version()}, {', '.join(found)}"


def installed() -> set[str]:
    """Every package of this environment with its version."""
    command = [*PIP, "list", "--format=freeze"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def build_wheel(folder: Path) -> Path:
    """The wheel of the book's helpers, built in `folder`."""
    command = [*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("book_utils-*.whl")
    return wheel


def would_install(wheel: Path) -> list[str]:
    """What pip would install or change here, were the wheel installed with its dependencies."""
    command = [*PIP, "install", "--quiet", "--dry-run", "--report", "-", str(wheel)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    items = (item["metadata"] for item in report["install"])
    return [f"{item['name']}=={item['version']}" for item in items]


def at_address(path: Path, address: str) -> nbformat.NotebookNode:
    """The chapter with another address of the book in its first code cell."""
    notebook = nbformat.read(path, as_version=4)
    setup = next(cell for cell in notebook.cells if cell.cell_type == "code")
    setup.source, count = re.subn(
        r'^BOOK = ".*"$', f'BOOK = "{address}"', setup.source, flags=re.MULTILINE
    )
    if count != 1:
        raise ValueError(f"{path.name} does not begin with the setup cell")
    return notebook


def execute(notebook: nbformat.NotebookNode, folder: Path, *, times: int) -> None:
    """Run every cell in one kernel, `times` times over."""
    notebook.cells = [
        nbformat.from_dict({**cell, "id": f"run-{turn}-{number}"})
        for turn in range(times)
        for number, cell in enumerate(notebook.cells)
    ]
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=CELL_TIMEOUT, resources=resources).execute()


def execute_all(folder: Path, address: str | None, *, times: int) -> list[str]:
    """Execute the chapters in `folder`; the names of those that failed."""
    failed = []
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        start = time.monotonic()
        plain = nbformat.read(path, as_version=4)
        notebook = plain if address is None else at_address(path, address)
        try:
            execute(notebook, folder, times=times)
            verdict = "runs"
        except CellExecutionError as error:
            failed.append(path.stem)
            verdict = f"FAILED\n{error}"
        print(f"{path.stem}: {verdict}, {time.monotonic() - start:.0f} s", flush=True)
    return failed


def execute_elsewhere(folder: Path, *, times: int) -> list[str]:
    """Execute the chapters from `folder` with the wheel of a pretended release; the failures."""
    before = installed()
    if any(name.startswith("book_utils==") for name in before):
        raise SystemExit("book_utils is installed in this environment already; remove it first")
    wheel = build_wheel(folder)
    changes = would_install(wheel)
    print(f"pip would install: {', '.join(changes)}")
    version = wheel.name.split("-")[1]
    release = folder / f"book/releases/download/v{version}"
    release.mkdir(parents=True)
    shutil.move(wheel, release)
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    failed = execute_all(notebooks, (folder / "book").as_uri(), times=times)
    added, removed = installed() - before, before - installed()
    print(f"added: {', '.join(added) or 'nothing'}; removed or changed: {removed or 'nothing'}")
    subprocess.run([*PIP, "uninstall", "--quiet", "--yes", "book_utils"], check=True)
    expected = [f"book_utils=={version}"]
    if changes != expected or list(added) != expected or removed:
        failed.append("the environment was changed")
    return failed


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--twice", action="store_true", help="run all cells again in each kernel")
    parser.add_argument("--here", action="store_true", help="in chapters/, with nothing installed")
    options = parser.parse_args()
    times = 2 if options.twice else 1
    print(versions(), flush=True)
    if options.here:
        failed = execute_all(ROOT / "chapters", None, times=times)
    else:
        with tempfile.TemporaryDirectory() as folder:
            failed = execute_elsewhere(Path(folder), times=times)
    print(f"failed: {', '.join(failed)}" if failed else "All chapters ran.")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
