"""Figures of the chapter "Events and distance".

Errors come in as arrays with one row a seed, in a mapping from the model's name; each model keeps its
colour, line and marker throughout the chapter.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from .. import events
from ..events import OBJECT, WRITE, Batch, RecallTask, Sweep, Task
from . import style

Profiles = Mapping[str, tuple[Any, Any]]  # name → (x (K,), errors (seeds, K))

LOOKS: dict[str, dict[str, Any]] = {
    "attention": {"color": style.BLUE, "linestyle": "-", "marker": "o"},
    "window": {"color": style.SKY, "linestyle": "--", "marker": "s"},
    "linear attention": {"color": style.PURPLE, "linestyle": ":", "marker": "D"},
    "fast decay": {"color": style.ORANGE, "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "v"},
    "slow decay": {"color": style.BLACK, "linestyle": (0, (1, 1)), "marker": "x"},
    "complex decay": {"color": style.GREY, "linestyle": (0, (4, 2, 1, 2)), "marker": "*"},
    "selective": {"color": style.VERMILION, "linestyle": "-.", "marker": "^"},
    "hybrid": {"color": style.GREEN, "linestyle": (0, (7, 2)), "marker": "P"},
}
OTHER = {"color": style.BLACK, "linestyle": "-", "marker": "."}
THINGS = ("mug", "plate", "book", "keys")  # what the objects stand for in drawings
MARKS = "osD^"
SHADES = (style.VERMILION, style.BLUE, style.GREEN, style.PURPLE)
TRAINED = 39  # the longest distance in training


def _look(name: str) -> dict[str, Any]:
    return LOOKS.get(name, OTHER)


def _table(name: str, errors: Any, points: int) -> np.ndarray:
    """`errors` as an array (seeds, points)."""
    array = np.asarray(errors, dtype=float)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != points:
        raise ValueError(f"{name} must have shape (seeds, {points}), got {array.shape}")
    return array


def _lines(axes: Axes, profiles: Profiles) -> None:
    """Mean over seeds as a line with markers, and the range over seeds as a band."""
    for name, (x, errors) in profiles.items():
        x, look = np.asarray(x), _look(name)
        runs = _table(f"errors of {name!r}", errors, len(x))
        axes.fill_between(
            x, runs.min(axis=0), runs.max(axis=0), color=look["color"], alpha=0.16, lw=0
        )
        axes.plot(x, runs.mean(axis=0), **look, label=name)


def _rows(axes: Axes, scores: Mapping[str, Any], largest: float = np.inf) -> None:
    """A row a model: a mark a seed, and a bar at the mean; what is larger stands at the edge."""
    for y, (name, values) in enumerate(scores.items()):
        look, values = _look(name), np.atleast_1d(np.asarray(values, dtype=float))
        shown, mean = np.minimum(values, largest), min(values.mean(), largest)
        axes.plot(
            shown, np.full(len(shown), y), color=look["color"], linestyle="",
            marker=look["marker"], alpha=0.75, clip_on=False,
        )  # fmt: skip
        axes.plot(
            [mean, mean], [y - 0.32, y + 0.32], color=look["color"], linewidth=2, clip_on=False
        )
    axes.set(yticks=range(len(scores)), yticklabels=list(scores), ylim=(len(scores) - 0.4, -0.6))
    axes.grid(axis="y", visible=False)


def _nothing(axes: Axes, along: str = "x") -> None:
    """Mark the error of knowing nothing."""
    line = axes.axhline if along == "x" else axes.axvline
    line(1.0, color=style.GREY, linestyle="--", linewidth=1.1, zorder=1)


def _decimals(axes: Axes, values: Sequence[float], axis: str = "y") -> None:
    """Label a logarithmic axis with plain decimals."""
    ruler = axes.yaxis if axis == "y" else axes.xaxis
    ruler.set_major_locator(FixedLocator(list(values)))
    ruler.set_major_formatter(lambda value, _: f"{value:g}")
    ruler.set_minor_locator(NullLocator())
    ruler.set_minor_formatter(NullFormatter())


def _word(errors: Any) -> str:
    """The size of a mean error in words that hold on any processor."""
    words = ("below .002", "below .06", "about .15", "about .4", "about .6", "about .8", "about 1")
    edges = (0.002, 0.06, 0.28, 0.57, 0.75, 0.9, 1.15)  # where no result of the chapter lies
    mean = float(np.mean(errors))
    return next((word for edge, word in zip(edges, words, strict=True) if mean < edge), "above 1")


# 8.1 — the task


@style.styled
def sequence(*, tokens: Any) -> Figure:
    """Draw one sequence: distractors pale, writes with the mark of their object, the query last."""
    figure, axes = style.new_figure(2.7)
    _draw_sequence(axes[0, 0], np.asarray(tokens, dtype=float))
    return figure


def describe_sequence(*, tokens: Any) -> str:
    """Say what was written where, and what is asked."""
    x = np.asarray(tokens, dtype=float)
    T, things = len(x), x[:, OBJECT:].argmax(axis=1)
    parts = [
        f"{THINGS[things[t]]} written {T - 1 - t} tokens before the query with value {x[t, 0]:.2f}"
        for t in np.flatnonzero(x[:, WRITE])
    ]
    return (
        f"A sequence of {T} tokens: {'; '.join(parts)}. All other values are distractors. "
        f"The query asks for the {THINGS[things[-1]]}."
    )


def _draw_sequence(axes: Axes, x: np.ndarray) -> None:
    T, things, writes = len(x), x[:, OBJECT:].argmax(axis=1), x[:, WRITE] == 1
    age = T - 1 - np.arange(T)
    noise = ~writes & (age > 0)
    size = 4.5 if T < 100 else 2.2
    axes.vlines(age[noise], 0, x[noise, 0], color="#c4c4c4", linewidth=1)
    axes.plot(age[noise], x[noise, 0], ".", color="#9a9a9a", markersize=size)
    asked = things[-1]
    for t in np.flatnonzero(writes):
        mine = things[t] == asked
        colour = SHADES[things[t]]
        axes.vlines(age[t], 0, x[t, 0], color=colour, linewidth=2.6 if mine else 1.4)
        axes.plot(age[t], x[t, 0], MARKS[things[t]], color=colour, markersize=9 if mine else 6)
    last = age[writes & (things == asked)].min()
    axes.annotate(
        f"{THINGS[asked]}, k = {last}", (last, 2.15), color=SHADES[asked], fontweight="bold",
        ha="left" if last > 0.72 * T else "right" if last < 0.22 * T else "center",
    )  # fmt: skip
    axes.text(
        0, 0, "?", color=SHADES[asked], fontsize=15, fontweight="bold", ha="center", va="center"
    )
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    axes.set(xlim=(T - 0.2, -0.02 * T), ylim=(-2.1, 2.75), yticks=[-1, 0, 1])
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x", visible=False)
    style.label(axes, x="distance: tokens before the query", y="value")


# 8.2 — weights by hand


@style.styled
def weights(*, tokens: Any, rules: Mapping[str, Any]) -> Figure:
    """Draw the weight that each rule gives to every token of one sequence, a panel a rule."""
    x = np.asarray(tokens, dtype=float)
    age = len(x) - 1 - np.arange(len(x))
    figure, axes = style.new_figure(1.3 + 1.05 * len(rules), rows=len(rules), sharex=True)
    mine = (x[:, WRITE] == 1) & (x[:, OBJECT:].argmax(1) == x[-1, OBJECT:].argmax())
    for ax, (name, w) in zip(axes[:, 0], rules.items(), strict=True):
        w = np.asarray(w, dtype=float)
        ax.vlines(age, 0, w, color="#9a9a9a", linewidth=2)
        ax.vlines(age[mine], 0, w[mine], color=style.VERMILION, linewidth=3.5)
        ax.plot(age[mine], w[mine], "o", color=style.VERMILION, markersize=6)
        ax.axhline(0, color=style.GREY, linewidth=0.8)
        ax.set(ylim=(-0.05, 1.2), yticks=[0, 1])
        ax.set_title(name, loc="left", fontsize=11, pad=3)
        ax.grid(axis="x", visible=False)
    axes[-1, 0].set_xlim(len(x), -1)
    axes[-1, 0].set_xlabel("distance: tokens before the query")
    figure.supylabel("weight", fontsize=11.5)
    return figure


def describe_weights(*, tokens: Any, rules: Mapping[str, Any]) -> str:
    """Say what weight each rule gives to the writes of the asked object and to all the rest."""
    x = np.asarray(tokens, dtype=float)
    mine = (x[:, WRITE] == 1) & (x[:, OBJECT:].argmax(1) == x[-1, OBJECT:].argmax())
    at = np.flatnonzero(mine)
    parts = []
    for name, w in rules.items():
        w = np.asarray(w, dtype=float)
        own = " and ".join(f"{w[t]:.2f}" for t in at)
        parts.append(f"{name}: {own}, all other tokens together {w[~mine].sum():.2f}")
    ages = " and ".join(str(len(x) - 1 - t) for t in at)
    return f"Weights on the writes at distance {ages}. " + "; ".join(parts) + "."


# 8.3 — the average and what it hides


@style.styled
def average_and_distance(*, averages: Mapping[str, Any], profiles: Profiles) -> Figure:
    """Draw the average error, a mark a seed, above the error by distance."""
    height = 3.9 + 0.28 * len(averages)
    figure, axes = style.new_figure(height, rows=2, height_ratios=[0.75 + 0.3 * len(averages), 3])
    top, bottom = axes[:, 0]
    _rows(top, averages)
    _nothing(top, "y")
    top.set(xlim=(0, 1.19))
    style.label(top, x="error, averaged over all distances", y="")
    _lines(bottom, profiles)
    _nothing(bottom)
    bottom.set(ylim=(-0.02, 1.2), xlim=(0, None))
    style.label(bottom, x="distance k of the last write (tokens)", y="error")
    return figure


def describe_average_and_distance(*, averages: Mapping[str, Any], profiles: Profiles) -> str:
    """Say each model's average, and its error near and far, in words that any processor gives."""
    parts = []
    for name, (x, errors) in profiles.items():
        runs = _table(name, errors, len(x))
        parts.append(
            f"{name} {_word(averages[name])}, made of {_word(runs[:, :3])} up to k = {x[2]} and "
            f"{_word(runs[:, -3:])} from k = {x[-3]}"
        )
    return (
        "Average error (1 means knowing nothing) and error by distance, the range over seeds "
        "shaded: " + "; ".join(parts) + "."
    )


# 8.4 — overwriting


@style.styled
def by_gap(*, profiles: Profiles) -> Figure:
    """Draw the error against the gap between stale and fresh write; optionally a derived curve."""
    figure, axes = style.new_figure(3.5)
    ax = axes[0, 0]
    _lines(ax, profiles)
    ax.set(yscale="log", ylim=(1e-5, 3))
    _decimals(ax, [1e-4, 1e-3, 0.01, 0.1, 1])
    ax.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 1.24), columnspacing=1.2)
    style.label(ax, x="gap between the stale and the fresh write (tokens)", y="error (log)")
    return figure


def describe_by_gap(*, profiles: Profiles) -> str:
    """Say how the error goes from the smallest to the largest gap."""
    parts = [
        f"{name} {_word(np.asarray(e)[:, 0])} at gap {x[0]}, {_word(np.asarray(e)[:, -1])} at gap {x[-1]}"
        for name, (x, e) in profiles.items()
    ]
    return "Error against the gap between the two writes: " + "; ".join(parts) + "."


# 8.5 — all tasks


@style.styled
def all_tasks(*, scores: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the error of every model on every task, a mark a seed: two panels a row."""
    rows = -(-len(scores) // 2)
    names = list(next(iter(scores.values())))
    figure, axes = style.new_figure(
        rows * (1.0 + 0.27 * len(names)), rows=rows, cols=2, sharex=True, sharey=True
    )
    for ax, (task, values) in zip(axes.flat, scores.items(), strict=False):
        _rows(ax, values)
        _nothing(ax, "y")
        ax.set_title(task, loc="left")
        ax.set_xlim(0, 1.15)
    for ax in axes[-1]:
        ax.set_xlabel("error")
    return figure


def describe_all_tasks(*, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Say the mean error of every model on every task, and where seeds differ."""
    parts = []
    for task, values in scores.items():
        means = ", ".join(f"{name} {np.mean(v):.2f}" for name, v in values.items())
        split = [name for name, v in values.items() if np.ptp(v) > 0.3]
        note = f" (seeds more than .3 apart: {', '.join(split)})" if split else ""
        parts.append(f"{task}: {means}{note}")
    return "Mean error by task. " + ". ".join(parts) + "."


@style.styled
def longer_training(*, pairs: Mapping[str, tuple[Any, Any]], times: int) -> Figure:
    """Draw each run's error after the usual training and after `times` as many steps."""
    figure, axes = style.new_figure(1.1 + 0.52 * len(pairs))
    ax = axes[0, 0]
    for y, (before, after) in enumerate(pairs.values()):
        for shift, values, look in (
            (-0.15, before, style.SERIES[1]),
            (0.15, after, style.SERIES[0]),
        ):
            ax.plot(
                np.maximum(values, 1e-5), np.full(len(values), y + shift), linestyle="",
                marker=look["marker"], color=look["color"], alpha=0.8,
            )  # fmt: skip
        ax.axhline(y, color="#e4e4e4", linewidth=0.8, zorder=0)
    ax.plot([], [], linestyle="", color=style.VERMILION, marker="s", label="usual training")
    ax.plot([], [], linestyle="", color=style.BLUE, marker="o", label=f"{times} times as long")
    ax.set(
        yticks=range(len(pairs)), yticklabels=list(pairs), ylim=(len(pairs) - 0.5, -0.5),
        xscale="log", xlim=(8e-6, 2),
    )  # fmt: skip
    ax.grid(axis="y", visible=False)
    _decimals(ax, [1e-4, 0.01, 1], "x")
    ax.legend(loc="lower center", ncols=2, bbox_to_anchor=(0.35, 1.0))
    style.label(ax, x="error (log)", y="")
    return figure


def describe_longer_training(*, pairs: Mapping[str, tuple[Any, Any]], times: int) -> str:
    """Say the mean error before and after."""
    parts = [
        f"{name.replace(chr(10), ', ')} {np.mean(a):.3f} → {np.mean(b):.3f}"
        for name, (a, b) in pairs.items()
    ]
    return f"Mean error after the usual training and after {times} times as many steps: " + (
        "; ".join(parts) + "."
    )


@style.styled
def by_object(*, errors: Any) -> Figure:
    """Draw the error of every run on every object as a grid: dark for blind, white for exact."""
    grid = np.asarray(errors, dtype=float)
    figure, axes = style.new_figure(1.0 + 0.42 * len(grid))
    ax = axes[0, 0]
    ax.imshow(np.clip(grid, 0, 1), cmap="Greys", vmin=0, vmax=1.25, aspect="auto")
    for (run, thing), error in np.ndenumerate(grid):
        colour = "white" if error > 0.7 else "black"
        ax.text(thing, run, f"{error:.2f}", ha="center", va="center", color=colour)
    ax.set(
        xticks=range(grid.shape[1]), xticklabels=THINGS[: grid.shape[1]],
        yticks=range(len(grid)), yticklabels=[f"run {i}" for i in range(len(grid))],
    )  # fmt: skip
    ax.set_xticks(np.arange(1, grid.shape[1]) - 0.5, minor=True)
    ax.set_yticks(np.arange(1, len(grid)) - 0.5, minor=True)
    ax.grid(visible=False)
    ax.grid(which="minor", color="#c4c4c4")
    ax.tick_params(which="both", length=0)
    style.label(ax, x="object that is asked for", y="")
    return figure


def describe_by_object(*, errors: Any) -> str:
    """Say how many runs there are, and that most cells are near 0 or near 1 if they are."""
    grid = np.asarray(errors, dtype=float)
    decided = np.mean((grid < 0.1) | (grid > 0.9))
    words = "Most" if decided > 0.6 else "Some"
    return (
        f"Error of {len(grid)} runs on each of {grid.shape[1]} objects. {words} of the "
        f"{grid.size} are below .1 or above .9: a run knows an object or it does not."
    )


# 8.6 — beyond training


@style.styled
def far(*, panels: Mapping[str, Profiles], trained: int = TRAINED) -> Figure:
    """Draw error against distance in long sequences, a panel a task; shaded where trained."""
    figure, axes = style.new_figure(1.0 + 2.55 * len(panels), rows=len(panels), sharex=True)
    for ax, (task, profiles) in zip(axes[:, 0], panels.items(), strict=True):
        ax.axvspan(1, trained, color="#f0f0f0", zorder=0)
        floored = {name: (x, np.maximum(e, 1e-4)) for name, (x, e) in profiles.items()}
        _lines(ax, floored)
        _nothing(ax)
        ax.set(xscale="log", yscale="log", ylim=(7e-5, 20), xlim=(14, 260))
        _decimals(ax, [1e-4, 1e-3, 0.01, 0.1, 1, 10])
        _decimals(ax, [16, 39, 64, 96, 128, 192, 247], "x")
        ax.set_title(task, loc="left")
        ax.set_ylabel("error (log)")
    axes[0, 0].legend(loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.13), columnspacing=1.2)
    axes[-1, 0].set_xlabel("distance k (log); shaded: as in training")
    return figure


def describe_far(*, panels: Mapping[str, Profiles], trained: int = TRAINED) -> str:
    """Say the mean error at the longest trained distance and at the longest of all."""
    parts = []
    for task, profiles in panels.items():
        each = []
        for name, (x, errors) in profiles.items():
            mean = np.asarray(errors, dtype=float).mean(axis=0)
            at = int(np.flatnonzero(np.asarray(x) <= trained)[-1])
            each.append(f"{name} {mean[at]:.2f} and {mean[-1]:.2f}")
        parts.append(f"{task}: {', '.join(each)}")
    x = next(iter(next(iter(panels.values())).values()))[0]
    return (
        f"Error in sequences of 256 tokens at distance {trained}, which training had, and at "
        f"{x[-1]}, which it had not. " + ". ".join(parts) + "."
    )


# 8.7 — the running sum


@style.styled
def running_sum(*, near: Profiles, long: Profiles) -> Figure:
    """Draw the error of the sum against the number of items, at the trained length and beyond."""
    figure, axes = style.new_figure(5.6, rows=2)
    titles = ("48 tokens, as in training", "256 tokens")
    for ax, profiles, title in zip(axes[:, 0], (near, long), titles, strict=True):
        floored = {name: (x, np.maximum(e, 1e-4)) for name, (x, e) in profiles.items()}
        _lines(ax, floored)
        _nothing(ax)
        x = next(iter(profiles.values()))[0]
        ax.set(xscale="log", yscale="log", ylim=(7e-5, 100))
        _decimals(ax, [1e-4, 0.01, 1], "y")
        _decimals(ax, list(x), "x")
        ax.set_title(title, loc="left")
        ax.set_ylabel("error (log)")
    axes[0, 0].legend(loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.13), columnspacing=1.2)
    axes[-1, 0].set_xlabel("items to add up (log)")
    return figure


def describe_running_sum(*, near: Profiles, long: Profiles) -> str:
    """Say the mean error with the most items, at either length."""
    parts = [
        f"{name} {np.mean(np.asarray(near[name][1])[:, -1]):.3f} and "
        f"{np.mean(np.asarray(long[name][1])[:, -1]):.2f}"
        for name in near
    ]
    x, far_x = (next(iter(p.values()))[0][-1] for p in (near, long))
    return (
        f"Error of the sum of {x} items in 48 tokens, and of {far_x} items in 256: "
        + ", ".join(parts)
        + "."
    )


# 8.8 — the slider

POSITIONS: dict[str, tuple[int, int]] = {  # a slider position's text → (T, distance)
    **{str(k): (48, k) for k in (1, 2, 4, 8, 12, 15, 16, 20, 24, 32, 39)},
    **{f"{k} of 256": (256, k) for k in (39, 64, 96, 128, 192, 247)},
}
QUESTIONS = {
    "1 object": "1 object",
    "1 object, moved": "1 object, moved",
    "4 objects": "4 objects",
    "4 objects, moved": "4 objects, moved",
}


@style.styled
def recall(
    distance: str, task: str, *, sweep: Sweep, models: tuple[str, ...] | None = None
) -> Figure:
    """Draw an example with the write at that distance, and every model's error on such sequences."""
    T, k = POSITIONS[distance]
    scores = _scores(sweep, task, T, k, models)
    figure, axes = style.new_figure(
        2.9 + 0.29 * len(scores), rows=2, height_ratios=[1.9, 0.5 + 0.29 * len(scores)]
    )
    _draw_sequence(axes[0, 0], _example(task, T, k).tokens[0])
    ax = axes[1, 0]
    _rows(ax, scores, largest=1.5)
    _nothing(ax, "y")
    ax.annotate(
        "knows nothing", (1.0, -0.6), xytext=(0, 3), textcoords="offset points", ha="center",
        color="#555555",
    )  # fmt: skip
    for y, values in enumerate(scores.values()):
        mean = float(np.mean(values))
        text = f"{mean:.1f}" if mean > 1.5 else f"{mean:.2f}"
        ax.annotate(
            text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(11, 0),
            textcoords="offset points", va="center",
        )  # fmt: skip
    ax.set_xlim(0, 1.5)
    ax.set_xticks([0, 0.5, 1.0])
    style.label(ax, x="error (a mark a seed, the mean at the right)", y="")
    return figure


def describe_recall(
    distance: str, task: str, *, sweep: Sweep, models: tuple[str, ...] | None = None
) -> str:
    """Name the models that recall, those that partly do and those that do not, with mean errors."""
    T, k = POSITIONS[distance]
    scores = {name: float(np.mean(v)) for name, v in _scores(sweep, task, T, k, models).items()}
    groups = (
        ("Recalled (error below .1)", [n for n, e in scores.items() if e < 0.1]),
        ("partly", [n for n, e in scores.items() if 0.1 <= e < 0.9]),
        ("lost", [n for n, e in scores.items() if e >= 0.9]),
    )
    words = [
        f"{title}: " + (", ".join(f"{n} {scores[n]:.2f}" for n in names) or "none")
        for title, names in groups
    ]
    return f"{task}; the last write is {k} tokens before the query, of {T} in all. " + (
        "; ".join(words) + "."
    )


def _scores(
    sweep: Sweep, task: str, T: int, k: int, models: tuple[str, ...] | None
) -> dict[str, np.ndarray]:
    return {name: sweep.errors(task, name, T, k) for name in models or LOOKS}


@functools.lru_cache(maxsize=128)
def _example(task: str, T: int, k: int) -> Batch:
    chosen: Task = events.TASKS[task]
    if not isinstance(chosen, RecallTask):
        raise ValueError(f"task must be one of recall, got {task!r}")
    return chosen.draw(np.random.default_rng([7, T, k]), 1, T, distance=k)
