"""Execute the chapters and store them in one normal form; a second run leaves no difference.

``python tools/notebooks.py`` executes every chapter (or those named); ``--check`` only says which
are not in normal form.
"""

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CHAPTERS = Path(__file__).resolve().parent.parent / "chapters"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
CELL_METADATA = ("tags",)  # everything else an editor writes is dropped
CELL_TIMEOUT = 300  # seconds


def normalise(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without widget state, timings, editor metadata and random cell ids."""
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number:03d}"
        cell.source = cell.source.rstrip()
        kept = {key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
        describe_picture(cell)
    return notebook


def describe_picture(cell: nbformat.NotebookNode) -> None:
    """Put the alt text of a cell's picture also where MyST-NB looks for one: in the cell's metadata."""
    cell.metadata.pop("mystnb", None)
    alts = [o.metadata["image/png"]["alt"] for o in pictures(cell) if "image/png" in o.metadata]
    if alts:
        cell.metadata["mystnb"] = nbformat.from_dict({"image": {"alt": " ".join(alts)}})


def pictures(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs of a cell that hold a picture."""
    return [o for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]


def keep_measurements(new: nbformat.NotebookNode, old: nbformat.NotebookNode) -> None:
    """Put back the stored outputs of cells that measure this machine, where their code is as it was."""
    stored = {cell.source: cell.outputs for cell in old.cells if _is_measurement(cell)}
    for cell in new.cells:
        if _is_measurement(cell) and stored.get(cell.source):
            cell.outputs = stored[cell.source]


def _is_measurement(cell: nbformat.NotebookNode) -> bool:
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def text_of(notebook: nbformat.NotebookNode) -> str:
    """The notebook as stored."""
    return nbformat.writes(notebook) + "\n"


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook at `path` with every cell executed in a new kernel, in its own folder."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    return client.execute()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="chapters; all of them by default")
    parser.add_argument("--check", action="store_true", help="execute nothing, write nothing")
    options = parser.parse_args()
    paths = options.paths or sorted(CHAPTERS.glob("*.ipynb"))
    unlike = 0
    for path in paths:
        start = time.monotonic()
        stored = path.read_text(encoding="utf-8")
        notebook = nbformat.reads(stored, as_version=4) if options.check else execute(path)
        keep_measurements(notebook, nbformat.reads(stored, as_version=4))
        normalise(notebook)
        text = text_of(notebook)
        unlike += text != stored
        if options.check:
            print(f"{path.name}: {'in normal form' if text == stored else 'NOT in normal form'}")
        else:
            path.write_text(text, encoding="utf-8", newline="\n")
            changed = "changed" if text != stored else "unchanged"
            print(f"{path.name}: {changed}, {time.monotonic() - start:.0f} s", flush=True)
    return int(options.check and unlike > 0)


if __name__ == "__main__":
    sys.exit(main())
