"""What the tests of the chapters share: reading them, and executing one in this process."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import torch
import yaml
from book_site.freshness import source_hash

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
NAMES = [path.stem for path in CHAPTERS]
SUMMARY = "summary"  # looks back: it claims nothing new, and its quiz stands for exercises
LESSONS = [name for name in NAMES if name != SUMMARY]


def read(name: str) -> nbformat.NotebookNode:
    """The chapter called `name` as stored."""
    return nbformat.read(ROOT / "chapters" / f"{name}.ipynb", as_version=4)


def contract(name: str) -> dict[str, Any]:
    """What the chapter must show: ``sliders`` and ``claims``."""
    path = ROOT / "chapters/claims" / f"{name}.yml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def cells(name: str, kind: str) -> list[nbformat.NotebookNode]:
    """The chapter's cells of one kind, ``code`` or ``markdown``."""
    return [cell for cell in read(name).cells if cell.cell_type == kind]


def prose(name: str) -> str:
    """The chapter's Markdown, without fenced code."""
    text = "\n\n".join(cell.source for cell in cells(name, "markdown"))
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def toc_chapters() -> list[str]:
    """The notebooks that _toc.yml names, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    files = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [Path(file).name for file in files if (ROOT / f"{file}.ipynb").exists()]


def execute(name: str) -> list[Any]:
    """Run a chapter's code cells in this process; the value of each cell's last expression."""
    torch.set_default_dtype(torch.float32)  # a chapter before may have chosen another
    namespace: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
    values = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.chdir(ROOT / "chapters"):
        for number, cell in enumerate(cells(name, "code")):
            module = ast.parse(cell.source, filename=f"{name}, code cell {number}")
            last = module.body[-1] if module.body else None
            if isinstance(last, ast.Expr):
                module.body.pop()
            exec(compile(module, f"{name}, code cell {number}", "exec"), namespace)
            if isinstance(last, ast.Expr):
                expression = ast.Expression(last.value)
                values.append(eval(compile(expression, name, "eval"), namespace))
    return values


def captions_file(name: str) -> Path:
    """Where the captions of a chapter's sliders are kept, as long as nothing they come from changes."""
    notebook = (ROOT / "chapters" / f"{name}.ipynb").read_bytes()
    digest = hashlib.sha256(notebook + source_hash(ROOT).encode()).hexdigest()[:16]
    return ROOT / "_build/captions" / f"{name}-{digest}.json"


def slider_captions(name: str, shown: list[Any] | None = None) -> list[list[str]]:
    """Every slider's captions by position, computed from the notebook (once for all tests).

    Args:
        name: the chapter.
        shown: its sliders, where the caller has executed it already.
    """
    path = captions_file(name)
    if shown is None and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    if shown is None:
        shown = sliders(name)
    captions = [[slider.describe(**p) for p in slider.positions()] for slider in shown]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(captions), encoding="utf-8")
    return captions


def sliders(name: str) -> list[Any]:
    """The sliders that the executed chapter shows."""
    os.environ["BOOK_FRONT_END"] = "html"  # no progress bars
    try:
        return [value for value in execute(name) if hasattr(value, "positions")]
    finally:
        del os.environ["BOOK_FRONT_END"]
