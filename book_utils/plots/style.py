"""The one place for how figures look: palette, sizes, fonts.

Figures are `matplotlib.figure.Figure` objects, never made through ``pyplot``, so that no two figures
share state. Settings apply inside `styled` functions only; importing this module changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

P = ParamSpec("P")

# Okabe & Ito's palette, told apart by readers with any kind of colour vision.
BLACK = "#000000"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREEN = "#009e73"
YELLOW = "#f0e442"
BLUE = "#0072b2"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
GREY = "#767676"

# Colour is never the only sign: give each series one of these (colour, line, marker) too.
SERIES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-", "marker": "o"},
    {"color": VERMILION, "linestyle": "--", "marker": "s"},
    {"color": GREEN, "linestyle": "-.", "marker": "^"},
    {"color": PURPLE, "linestyle": ":", "marker": "D"},
    {"color": ORANGE, "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    {"color": BLACK, "linestyle": (0, (1, 1)), "marker": "x"},
)

WIDTH = 6.0  # inches, 576 px: wide enough for the column, and text stays legible on a phone

STYLE: Any = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 11.5,
    "axes.titlesize": 12.0,
    "axes.labelsize": 11.5,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "legend.fontsize": 10.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "memory",
}


def styled(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorate a figure function so that it draws with the book's style."""

    @functools.wraps(make)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with mpl.rc_context(STYLE):
            return make(*args, **kwargs)

    return wrapper


def new_figure(
    height: float = 3.4, *, rows: int = 1, cols: int = 1, **subplots: Any
) -> tuple[Figure, np.ndarray]:
    """An empty figure as wide as the text, and its axes as an array of shape (rows, cols)."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(rows, cols, squeeze=False, **subplots)
    return figure, axes


def bars(
    axes: Axes, at: np.ndarray, heights: np.ndarray, *, color: str, width: float = 0.75
) -> None:
    """Bars as one artist: many of them are drawn in a third of the time that ``Axes.bar`` takes."""
    left, right = np.asarray(at) - width / 2, np.asarray(at) + width / 2
    floor, heights = np.zeros(len(left)), np.asarray(heights)
    corners = np.stack((left, floor, left, heights, right, heights, right, floor), axis=-1)
    axes.add_collection(
        PolyCollection(list(corners.reshape(-1, 4, 2)), facecolors=color, linewidths=0)
    )
    axes.autoscale_view()


def label(axes: Axes, *, x: str, y: str, title: str = "") -> None:
    """Name both axes, and the panel where there are several."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, loc="left")
