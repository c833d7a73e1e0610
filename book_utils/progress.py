"""A progress bar for work that takes more than a few seconds.

In a live kernel it is an ipywidgets bar; its text form is constant, so that a stored notebook
does not change from run to run. While the HTML book is built there is nothing to watch, and nothing
is shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

T = TypeVar("T")


class _Bar:
    """An ipywidgets bar that displays with the same text whatever its state."""

    def __init__(self, total: int, label: str) -> None:
        import ipywidgets as widgets

        self.label = label
        self.bar = widgets.IntProgress(
            value=0, max=total, description=label, style={"description_width": "initial"}
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.bar.model_id}
        return {"text/plain": self.label, "application/vnd.jupyter.widget-view+json": view}


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Iterate over `items` while a bar called `label` fills.

    Args:
        items: what to iterate over.
        label: what is being done, a few words.
        total: how many items there are; their length when None.

    Raises:
        TypeError: `items` has no length and `total` is None.
    """
    if total is None:
        if not isinstance(items, Sized):
            raise TypeError(f"total is needed for {type(items).__name__}, which has no length")
        total = len(items)
    return _iterate(items, label, total)


def _iterate(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    if os.environ.get("BOOK_FRONT_END") == "html":
        yield from items
        return
    from IPython.display import display

    shown = _Bar(total, label)
    display(shown)
    for item in items:
        yield item
        shown.bar.value += 1
