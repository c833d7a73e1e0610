"""Figures of the chapter "What attention costs"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from .. import efficient_attention as ea
from ..attention import window_mask
from . import style

DEADLINE = 0.1  # seconds: one step at 10 Hz
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _line(series: int, **changes: Any) -> dict[str, Any]:
    """Colour and line style of a series, without its marker."""
    look = style.SERIES[series]
    return {"color": look["color"], "linestyle": look["linestyle"], **changes}


def _log2_ticks(axes: Axes, lengths: Any) -> None:
    """Name powers of two on a logarithmic axis, every other one if there are many."""
    lengths = [int(T) for T in lengths]
    shown = lengths[:: 2 if len(lengths) > 6 else 1]
    axes.set_xscale("log", base=2)
    axes.set_xticks(shown, [length(T) for T in shown])
    axes.minorticks_off()


def short(number: float, unit: str = "") -> str:
    """A large number in three digits: bytes as '3.98 GB', a plain count as '1.07·10¹⁴'."""
    exponent = int(np.floor(np.log10(number))) if number > 0 else 0
    if not unit:
        if exponent < 5:
            return f"{number:g}"
        return f"{number / 10**exponent:.2f}·10{str(exponent).translate(SUPERSCRIPTS)}"
    size = min(exponent // 3, 6)
    return f"{number / 1000**size:.3g} {['', 'K', 'M', 'G', 'T', 'P', 'E'][size]}{unit}"


def length(T: int) -> str:
    """A sequence length, in K = 1024 tokens where it is a multiple."""
    return f"{T // 1024}K" if T >= 1024 and T % 1024 == 0 else str(T)


# 4.1 — time against length


def slopes(lengths: Any, seconds: Any) -> np.ndarray:
    """How many times a doubling of the length doubles the time, between neighbouring lengths."""
    return np.diff(np.log(np.asarray(seconds, float))) / np.diff(np.log(np.asarray(lengths, float)))


@style.styled
def time_by_length(*, lengths: Any, seconds: Mapping[str, Any]) -> Figure:
    """Draw measured times against sequence length on log axes, with a line of slope 2."""
    figure, axes = style.new_figure(3.8)
    ax = axes[0, 0]
    T = np.asarray(lengths, dtype=float)
    for i, (name, times) in enumerate(seconds.items()):
        ax.plot(T, 1e3 * np.asarray(times), label=name, **style.SERIES[i])
    longest = 1e3 * max(float(np.asarray(times)[-1]) for times in seconds.values())
    ax.plot(
        T, 2 * longest * (T / T[-1]) ** 2, color=style.GREY, linestyle=":", label="slope 2 (T²)"
    )
    _log2_ticks(ax, lengths)
    ax.set_yscale("log")
    ax.legend(loc="upper left")
    style.label(ax, x="sequence length T (log scale)", y="milliseconds (log scale)")
    return figure


def describe_time_by_length(*, lengths: Any, seconds: Mapping[str, Any]) -> str:
    """Give the first and last slope of each line, as measured here."""
    said = []
    for name, times in seconds.items():
        found = slopes(lengths, times)
        said.append(f"{name} {found[0]:.1f} at the short end and {found[-1]:.1f} at the long end")
    return (
        f"Time of one pass against length, from T = {lengths[0]} to {lengths[-1]}, on logarithmic axes, as "
        f"measured on this machine. Slope: {'; '.join(said)}. A slope of 2 means that twice the length "
        "takes four times as long."
    )


# 4.2 — the online softmax


@style.styled
def online_softmax(*, scores: Any, values: Any) -> Figure:
    """Draw running maximum, sum and readout of one query as its keys come in."""
    m, total, readout = _running(scores, values)
    figure, axes = style.new_figure(5.0, rows=3, sharex=True)
    top, middle, bottom = axes[:, 0]
    n = np.arange(1, len(m) + 1)
    top.plot(n, scores, "o", color=style.SKY, markersize=4)
    top.step(n, m, where="post", **_line(0))
    middle.plot(n, total, **_line(1))
    bottom.plot(n, readout, **_line(2))
    bottom.axhline(readout[-1], color=style.GREY, linestyle=":", linewidth=1.2)
    jumps = n[1:][np.diff(m) > 0]
    for ax in axes[:, 0]:
        for at in jumps:
            ax.axvline(at, color="#c8c8c8", linewidth=1, zorder=0)
    style.label(top, x="", y="score")
    style.label(middle, x="", y="sum ℓ")
    style.label(bottom, x="keys seen so far", y="readout u/ℓ")
    return figure


def _running(scores: Any, values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, values = np.asarray(scores, dtype=float), np.asarray(values, dtype=float)
    m = np.maximum.accumulate(scores)
    weights = np.exp(scores - m[:, None])  # row i: relative to the maximum of the first i keys
    weights = np.tril(weights)
    total = weights.sum(axis=1)
    return m, total, weights @ values / total


def describe_online_softmax(*, scores: Any, values: Any) -> str:
    """Say how often the maximum rose, and where the readout ends."""
    m, total, readout = _running(scores, values)
    rises = int((np.diff(m) > 0).sum())
    return (
        f"One query meets {len(m)} keys one after the other. The running maximum (top, line) rises "
        f"{rises} times; each time the running sum (middle) is scaled down. The readout "
        f"(bottom) moves as keys come in and ends at {readout[-1]:.2f}, with a sum of {total[-1]:.2f}."
    )


@style.styled
def peak_memory(*, lengths: Any, peaks: Mapping[str, Any]) -> Figure:
    """Draw the largest memory in use during a pass, against length, on log axes."""
    figure, axes = style.new_figure(3.4)
    ax = axes[0, 0]
    for i, (name, amounts) in enumerate(peaks.items()):
        ax.plot(lengths, np.asarray(amounts, dtype=float) / 1e6, label=name, **style.SERIES[i])
    _log2_ticks(ax, lengths)
    ax.set_yscale("log")
    ax.legend(loc="upper left")
    style.label(ax, x="sequence length T (log scale)", y="peak MB (log scale)")
    return figure


def describe_peak_memory(*, lengths: Any, peaks: Mapping[str, Any]) -> str:
    """Give the growth over the last doubling and the amounts at the end, coarsely rounded."""
    said = [
        f"{name} grows {amounts[-1] / amounts[-2]:.0f}-fold over the last doubling, to "
        f"{float(f'{amounts[-1] / 1e6:.1g}'):g} MB"
        for name, amounts in peaks.items()
    ]
    return (
        f"Largest memory in use during one pass, inputs not counted, from T = {lengths[0]} to "
        f"{lengths[-1]}: {'; '.join(said)}."
    )


# 4.3 and 4.4 — one more step, and the deadline


@style.styled
def time_by_history(*, lengths: Any, seconds: Mapping[str, Any]) -> Figure:
    """Draw the time of one more step against the number of steps that came before."""
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    for i, (name, times) in enumerate(seconds.items()):
        ax.plot(lengths, 1e3 * np.asarray(times), label=name, **style.SERIES[i])
    _log2_ticks(ax, lengths)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(low, 4 * high)
    ax.legend(loc="upper left")
    style.label(ax, x="steps before this one (log scale)", y="milliseconds (log scale)")
    return figure


def describe_time_by_history(*, lengths: Any, seconds: Mapping[str, Any]) -> str:
    """Give how much longer the step takes at the long end, as measured here."""
    said = []
    for name, times in seconds.items():
        times = np.asarray(times, dtype=float)
        said.append(f"{name} takes {times[-1] / times[0]:.1f} times as long at the end")
    return (
        f"Time of one more step after {lengths[0]} to {lengths[-1]} steps, as measured on "
        f"this machine: {'; '.join(said)}."
    )


@style.styled
def deadline(*, lengths: Mapping[str, Any], seconds: Mapping[str, Any]) -> Figure:
    """Draw median and 95th percentile of step times against length, with the deadline."""
    figure, axes = style.new_figure(4.0)
    ax = axes[0, 0]
    everything = sorted({int(T) for Ts in lengths.values() for T in Ts})
    for i, name in enumerate(lengths):
        times = 1e3 * np.asarray(seconds[name], dtype=float)
        look = style.SERIES[i]
        ax.plot(lengths[name], np.median(times, axis=1), label=f"{name}, median", **look)
        ax.plot(
            lengths[name], np.quantile(times, 0.95, axis=1), color=look["color"], linewidth=1,
            marker="_", markersize=11, linestyle="-", label="95th percentile",
        )  # fmt: skip
    ax.axhline(1e3 * DEADLINE, color=style.BLACK, linestyle="--", linewidth=1.4)
    _log2_ticks(ax, everything)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(low, 12 * max(high, 1e3 * DEADLINE))
    middle = float(np.sqrt(everything[0] * everything[-1]))
    ax.text(
        middle, 1e3 * DEADLINE, "deadline 100 ms", ha="center", va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip
    ax.legend(loc="upper left", ncols=2)
    style.label(ax, x="sequence length T (log scale)", y="milliseconds (log scale)")
    return figure


def longest_in_time(lengths: Any, seconds: Any, quantile: float) -> int:
    """The largest tested length up to which this quantile of the times keeps the deadline; 0 if none."""
    late = np.quantile(np.asarray(seconds, dtype=float), quantile, axis=1) > DEADLINE
    kept = int(late.argmax()) if late.any() else len(late)
    return int(lengths[kept - 1]) if kept else 0


def describe_deadline(*, lengths: Mapping[str, Any], seconds: Mapping[str, Any]) -> str:
    """Give the longest tested length in time, by median and by 95th percentile."""
    said = []
    for name in lengths:
        typical, safe = (longest_in_time(lengths[name], seconds[name], q) for q in (0.5, 0.95))
        said.append(f"{name}: {typical} by the median, {safe} by the 95th percentile")
    return (
        "Time of one control step against sequence length, with a deadline of 100 ms, as measured on this "
        f"machine. Longest length tested that keeps it: {'; '.join(said)} (0 means none)."
    )


# 4.5 — bounded memories

REACH_T = 24


def _layers_needed(mask: torch.Tensor, most: int) -> np.ndarray:
    """How many layers it takes for token j to come to position i; 0 where `most` do not suffice."""
    needed = np.zeros(mask.shape, dtype=int)
    for layers in range(most, 0, -1):
        needed[ea.reachable(mask, layers).numpy()] = layers
    return needed


@style.styled
def reach(*, window: int, layers: int) -> Figure:
    """Draw which tokens can have come to which positions through stacked windows."""
    figure, axes = style.new_figure(4.6)
    ax = axes[0, 0]
    needed = _layers_needed(window_mask(REACH_T, window), layers)
    shades = ["#ffffff", "#08519c", "#4292c6", "#9ecae1", "#deebf7"]
    ax.imshow(needed, cmap=ListedColormap(shades[: layers + 1]), vmin=0, vmax=layers)
    last = int((needed[-1] > 0).argmax())
    field = ea.receptive_field(window, layers)
    ax.annotate(
        f"{min(field, REACH_T)} tokens", (last, REACH_T - 1), xytext=(-6, -2), va="bottom",
        textcoords="offset points", ha="right",
    )  # fmt: skip
    for one in range(1, layers + 1):
        ax.plot([], [], "s", color=shades[one], markeredgecolor="#888888", markersize=9,
                label=f"layer {one}")  # fmt: skip
    ax.legend(loc="upper right")
    ax.set(xticks=range(0, REACH_T, 4), yticks=range(0, REACH_T, 4))
    ax.grid(False)
    style.label(ax, x="token j", y="position i")
    return figure


def describe_reach(*, window: int, layers: int) -> str:
    """Give the receptive field."""
    field = ea.receptive_field(window, layers)
    many = "layer" if layers == 1 else "layers"
    return (
        f"Which tokens j can have come to position i with a window of {window} and {layers} {many}: the "
        f"last {field}, that is {layers} · ({window} − 1) + 1. A darker cell needs fewer layers."
    )


@style.styled
def compression(*, errors: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the readout error of several ways to shrink a cache, for two kinds of query."""
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    names = list(errors)
    kinds = list(next(iter(errors.values())))
    for i, kind in enumerate(kinds):
        look = style.SERIES[i]
        for row, name in enumerate(names):
            values = np.asarray(errors[name][kind], dtype=float)
            at = row + 0.18 * (2 * i - 1)
            ax.plot(values, np.full(len(values), at), ".", color=look["color"], alpha=0.35)
            ax.plot(
                values.mean(), at, marker=look["marker"], color=look["color"], markersize=9,
                linestyle="none", label=kind if row == 0 else None, markeredgecolor="black",
            )  # fmt: skip
    ax.set(xlim=(-0.02, None), ylim=(len(names) - 0.4, -1.2))
    ax.set_yticks(range(len(names)), names)
    ax.legend(loc="upper right", ncols=2)
    style.label(ax, x="relative error of the readout", y="")
    return figure


def describe_compression(*, errors: Mapping[str, Mapping[str, Any]]) -> str:
    """Give the mean errors."""
    said = []
    for name, kinds in errors.items():
        both = " and ".join(f"{np.mean(values):.2g}" for values in kinds.values())
        said.append(f"{name} {both}")
    asked = " and for ".join(next(iter(errors.values())))
    return (
        f"Relative error of the readout after the cache has been shrunk, for {asked}, mean of "
        f"{len(next(iter(next(iter(errors.values())).values())))} seeds: {'; '.join(said)}."
    )


# 4.6 — one length, four ways

LAYERS, HEADS, D_HEAD, BYTES = 12, 12, 64, 2  # width 768, 16-bit numbers
WINDOW, TILE, STATES = 1024, 128, 16
CONTROL_RATE = 30  # steps a second
VARIANTS = ("dense", "tiled", f"window {WINDOW}", "recurrence")


def costs(T: int) -> dict[str, dict[str, float]]:
    """Arithmetic, scores held at once and memory carried on, for the variants at length T.

    Multiply-adds of attention (or of the recurrence) in all layers for a whole causal pass, without
    projections and MLP. Scores of one layer. What must be kept to take the next step.
    """
    width, heads = HEADS * D_HEAD, LAYERS * HEADS
    tile = HEADS * (min(TILE, T) ** 2 + 2 * T) * BYTES
    full = heads * ea.attention_macs(T, D_HEAD, D_HEAD, causal=True)
    cache = ea.cache_bytes(LAYERS, T, HEADS, D_HEAD, BYTES)
    windowed = heads * ea.window_macs(T, WINDOW, D_HEAD, D_HEAD)
    kept = ea.cache_bytes(LAYERS, min(T, WINDOW), HEADS, D_HEAD, BYTES)
    return {
        "arithmetic": dict(
            zip(
                VARIANTS,
                (full, full, windowed, LAYERS * ea.recurrence_macs(T, width, STATES)),
                strict=True,
            )
        ),
        "scores": dict(zip(VARIANTS, (HEADS * T * T * BYTES, tile, tile, 0), strict=True)),
        "carried": dict(
            zip(VARIANTS, (cache, cache, kept, LAYERS * width * STATES * BYTES), strict=True)
        ),
    }


PANELS = {
    "arithmetic": ("multiply-adds for a whole pass", ""),
    "scores": ("scores held at once in one layer, in bytes", "B"),
    "carried": ("carried on to the next step, in bytes", "B"),
}
LIMITS = {"arithmetic": (1e6, 1e19), "scores": (1e3, 1e16), "carried": (1e4, 1e14)}


@style.styled
def cost(*, T: int) -> Figure:
    """Draw what one length costs in arithmetic and memory, for the variants, on log axes."""
    figure, axes = style.new_figure(5.6, rows=3)
    for ax, (key, amounts) in zip(axes[:, 0], costs(T).items(), strict=True):
        title, unit = PANELS[key]
        some = [row for row, amount in enumerate(amounts.values()) if amount]
        colours = [style.SERIES[row]["color"] for row in some]
        widths = [list(amounts.values())[row] for row in some]
        ax.barh(some, widths, color=colours, height=0.62)
        for row, amount in enumerate(amounts.values()):
            ax.annotate(
                short(amount, unit) if amount else "none", (max(amount, LIMITS[key][0]), row),
                xytext=(5, 0), textcoords="offset points", va="center",
            )  # fmt: skip
        ax.set(xscale="log", xlim=LIMITS[key], ylim=(3.6, -0.6))
        ax.set_yticks(range(4), VARIANTS)
        ax.tick_params(axis="x", labelsize=9)
        shown = [e for e in range(6, 20, 6) if LIMITS[key][0] <= 10.0**e <= LIMITS[key][1]]
        powers = [f"10{str(e).translate(SUPERSCRIPTS)}" for e in shown]
        ax.set_xticks([10.0**e for e in shown], powers)
        ax.minorticks_off()
        ax.grid(axis="y", visible=False)
        ax.set_title(title, loc="left")
    return figure


def describe_cost(*, T: int) -> str:
    """Give the length in minutes of control and the numbers in the panels."""
    found = costs(T)
    minutes = T / CONTROL_RATE / 60
    time = f"{minutes:.3g} minutes" if minutes >= 1 else f"{60 * minutes:.3g} seconds"
    said = []
    for key, what in (("arithmetic", "Multiply-adds"), ("carried", "Carried on")):
        unit = PANELS[key][1]
        amounts = ", ".join(f"{name} {short(x, unit)}" for name, x in found[key].items())
        said.append(f"{what}: {amounts}")
    scores = [short(found["scores"][name], "B") for name in ("dense", "tiled")]
    return (
        f"T = {T}, {time} at {CONTROL_RATE} Hz, for {LAYERS} layers of width {HEADS * D_HEAD} in 16-bit "
        f"numbers. {said[0]}. Scores held at once: dense {scores[0]}, tiled {scores[1]}. "
        f"{said[1]}."
    )
