"""Figures of the chapter "A transformer and an SSM learn the same world".

Learned curves come in as arrays with one row a seed, in a mapping from the model's name; the names
that `LOOKS` knows keep their colour, line and marker throughout the chapter.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from .. import kalman
from .._validate import positive_int
from ..systems import LinearGaussianSystem
from . import style

Floats = Any  # an array of floats
Curves = Mapping[str, Floats]  # name → (seeds, points)

LOOKS = {
    "transformer": style.SERIES[0],
    "SSM": style.SERIES[1],
    "small transformer": style.SERIES[2],
    "large SSM": style.SERIES[3],
    "complex SSM": style.SERIES[4],
    "exact filter": style.SERIES[5],
}
BAND = 1.959964  # half-width of a central 95 % interval, in standard deviations


def _look(name: str) -> dict[str, Any]:
    """How the model is drawn; what follows a comma, as in "SSM, best rate", does not matter."""
    return LOOKS.get(name.partition(",")[0], {**style.SERIES[4], "color": style.GREY})


def _table(name: str, values: Any, points: int | None = None) -> np.ndarray:
    """`values` as an array (seeds, points)."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 2 or 0 in array.shape or (points and array.shape[1] != points):
        wanted = f"(seeds, {points or 'points'})"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    return array


def _spread(axes: Axes, x: np.ndarray, name: str, runs: np.ndarray, every: int = 4) -> None:
    """Mean over seeds as a line with markers, and the range from lowest to highest as a band."""
    look = _look(name)
    axes.fill_between(x, runs.min(axis=0), runs.max(axis=0), color=look["color"], alpha=0.22, lw=0)
    axes.plot(x, runs.mean(axis=0), **look, markevery=every, label=name)


def _log_ticks(axes: Axes, values: Sequence[float], axis: str = "y") -> None:
    """Label a logarithmic axis with the values given, written as plain decimals."""
    ruler = axes.yaxis if axis == "y" else axes.xaxis
    ruler.set_major_locator(FixedLocator(list(values)))
    ruler.set_major_formatter(lambda value, _: f"{value:g}")
    ruler.set_minor_locator(NullLocator())
    ruler.set_minor_formatter(NullFormatter())


def _near(values: Floats) -> str:
    """Mean of `values`, to two significant digits."""
    return f"{float(np.mean(values)):.2g}"


# 7.1 — the world


@style.styled
def trajectory(*, states: Floats, observations: Floats) -> Figure:
    """Draw the hidden states of one trajectory, and below it the readings of the sensor."""
    states, readings = _trajectory(states, observations)
    slots = np.arange(len(states))
    figure, axes = style.new_figure(4.6, rows=2, sharex=True, height_ratios=[1.2, 1])
    hidden, seen = axes[:, 0]
    for i, (look, side) in enumerate(zip(style.SERIES, ("first", "second"), strict=False)):
        hidden.plot(slots, states[:, i], color=look["color"], linestyle=look["linestyle"])
        hidden.plot([], [], color=look["color"], linestyle=look["linestyle"], label=f"{side} state")
    hidden.legend(ncols=2, loc="lower left", bbox_to_anchor=(0, 0.98))
    style.label(hidden, x="", y="hidden")
    seen.plot(slots[1:], readings[1:], color=style.BLACK, marker="o", linewidth=1)
    style.label(seen, x="slot t", y="reading $y_t$")
    return figure


def describe_trajectory(*, states: Floats, observations: Floats) -> str:
    """Say how far states and readings swing."""
    states, readings = _trajectory(states, observations)
    return (
        f"One trajectory of {len(states) - 1} transitions. The two hidden states swing between "
        f"{states.min():.1f} and {states.max():.1f}, the second ahead of the first; the sensor's "
        f"single reading swings between {readings[1:].min():.1f} and {readings[1:].max():.1f}."
    )


def _trajectory(states: Floats, observations: Floats) -> tuple[np.ndarray, np.ndarray]:
    states, readings = np.asarray(states, float), np.asarray(observations, float)
    if states.ndim != 2 or states.shape[1] != 2 or readings.shape != states.shape[:1]:
        raise ValueError(
            "states must have shape (T + 1, 2) and observations (T + 1,), got "
            f"{states.shape} and {readings.shape}"
        )
    return states, readings


# 7.4 — learning rates


@style.styled
def learning_rates(*, rates: Floats, ratios: Curves, common: float) -> Figure:
    """Draw each model's validation error, over the exact forecaster's, against the rate."""
    rates = np.asarray(rates, float)
    figure, axes = style.new_figure(3.7)
    ax = axes[0, 0]
    for name, runs in ratios.items():
        runs = _table(f"ratios[{name!r}]", runs, len(rates))
        _spread(ax, rates, name, runs, every=1)
    ax.axvline(common, color=style.GREY, linewidth=1)
    ax.axhline(1.0, color=style.BLACK, linestyle="--")
    ax.annotate("exact forecaster", (rates[0], 1.0), xytext=(0, 4), textcoords="offset points")
    ax.set(xscale="log", yscale="log", ylim=(0.93, None))
    _log_ticks(ax, rates, "x")
    _log_ticks(ax, [1, 1.5, 2, 3, 5, 8])
    ax.legend(loc="upper right")
    style.label(ax, x="learning rate at the start (log scale)", y="error ÷ exact (log)")
    return figure


def describe_learning_rates(*, rates: Floats, ratios: Curves, common: float) -> str:
    """Say at which rate each model does best, and how it does at the common one."""
    rates, parts = np.asarray(rates, float), []
    at = int(np.argmin(abs(np.log(rates / common))))
    for name, runs in ratios.items():
        mean = _table(f"ratios[{name!r}]", runs, len(rates)).mean(axis=0)
        best = int(mean.argmin())
        other = (0, f"{rates[0]:g}") if best == at else (at, f"the common rate {common:g}")
        parts.append(
            f"{name}: best at {rates[best]:g} with {mean[best]:.2f} times the exact error, "
            f"{mean[other[0]]:.2f} at {other[1]}"
        )
    return "Validation error against the learning rate. " + "; ".join(parts) + "."


# 7.5 — floors


@style.styled
def error_by_position(*, floor: Floats, curves: Curves, noise: float) -> Figure:
    """Draw one-step error at each position above the exact floor; bands span the seeds."""
    floor = np.asarray(floor, float)
    position = np.arange(len(floor))
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    for name, runs in curves.items():
        _spread(ax, position, name, _table(f"curves[{name!r}]", runs, len(floor)))
    ax.plot(position, floor, color=style.BLACK, linestyle="--", label="exact floor")
    ax.axhline(noise, color=style.GREY, linestyle=":")
    ax.annotate(
        "sensor noise alone", (position[-1], noise), xytext=(0, 4), textcoords="offset points",
        ha="right",
    )  # fmt: skip
    ax.set(yscale="log")
    _log_ticks(ax, [0.01, 0.02, 0.03, 0.05, 0.1, 0.2])
    ax.legend(loc="upper right")
    style.label(ax, x="position t of the token", y="squared error of $\\hat{y}_{t+1}$ (log)")
    return figure


def describe_error_by_position(*, floor: Floats, curves: Curves, noise: float) -> str:
    """Say where the floor starts and ends, and how far above it each model ends."""
    floor = np.asarray(floor, float)
    late = slice(-8, None)
    parts = [
        f"{name} {np.mean(_table(name, runs, len(floor))[:, late]) / floor[late].mean():.2f}"
        for name, runs in curves.items()
    ]
    return (
        f"The exact floor falls from {floor[0]:.3f} at the first token to {floor[-1]:.4f}, well "
        f"above the sensor's own noise of {noise:g}. Over the last eight positions the models lie "
        f"above the floor by these factors: {', '.join(parts)}."
    )


@style.styled
def ratios(*, scores: Mapping[str, Floats]) -> Figure:
    """Draw every forecaster's error over the exact one's; a dot a seed, a bar at the mean."""
    rows = {name: np.atleast_1d(np.asarray(s, float)) for name, s in scores.items()}
    figure, axes = style.new_figure(0.9 + 0.36 * len(rows))
    ax = axes[0, 0]
    for y, (name, values) in enumerate(rows.items()):
        look = _look(name)
        marker = look["marker"] if len(values) > 1 else "d"
        ax.plot(
            values, [y] * len(values), color=look["color"], linestyle="", marker=marker, alpha=0.6
        )
        ax.annotate(
            f"{values.mean():.2f}" if values.mean() < 10 else f"{values.mean():.0f}",
            (values.max(), y), xytext=(8, 0), textcoords="offset points", va="center",
        )  # fmt: skip
    ax.axvline(1.0, color=style.BLACK, linestyle="--")
    ax.set(
        xscale="log", yticks=range(len(rows)), yticklabels=list(rows), ylim=(len(rows) - 0.5, -0.5)
    )
    ax.set_xlim(0.9, 1.6 * max(v.max() for v in rows.values()))
    _log_ticks(ax, [1, 2, 5, 10, 50], "x")
    ax.grid(axis="y", visible=False)
    style.label(ax, x="error ÷ exact forecaster's error (log scale)", y="")
    return figure


def describe_ratios(*, scores: Mapping[str, Floats]) -> str:
    """List the mean ratios."""
    parts = [f"{name} {_three(float(np.mean(values)))}" for name, values in scores.items()]
    return "One-step error divided by the exact forecaster's: " + ", ".join(parts) + "."


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


# 7.6 — rollouts


@style.styled
def open_loop_error(*, floor: Floats, curves: Curves, pooled: Mapping[str, float]) -> Figure:
    """Draw error against horizon with its exact floor; dashes at the left: pooled one-step error."""
    floor = np.asarray(floor, float)
    horizon = np.arange(1, len(floor) + 1)
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    for name, runs in curves.items():
        _spread(ax, horizon, name, _table(f"curves[{name!r}]", runs, len(floor)))
    ax.plot(horizon, floor, color=style.BLACK, linestyle="--", label="exact floor")
    for name, level in pooled.items():
        ax.axhline(float(level), color=_look(name)["color"], linestyle=(0, (1, 2)), linewidth=1.5)
    ax.set_ylim(0, None)
    top = ax.get_ylim()[1]
    ax.set_ylim(0, 1.18 * top)
    ax.legend(loc="upper right", ncols=2)
    ax.annotate(
        "dotted: pooled one-step errors", (horizon[-1], min(pooled.values(), default=0.0)),
        xytext=(0, -6), textcoords="offset points", ha="right", va="top",
    )  # fmt: skip
    style.label(ax, x="horizon h (steps ahead)", y="squared error")
    return figure


def describe_open_loop_error(*, floor: Floats, curves: Curves, pooled: Mapping[str, float]) -> str:
    """Say how the floor moves, and how far above it the models lie on average."""
    floor = np.asarray(floor, float)
    peak = int(floor.argmax())
    parts = [
        f"{name} {np.mean(_table(name, runs, len(floor))) / floor.mean():.2f}"
        for name, runs in curves.items()
    ]
    levels = ", ".join(f"{name} {_near(level)}" for name, level in pooled.items())
    return (
        f"The exact floor goes from {floor[0]:.3f} one step ahead to {floor[peak]:.3f} at horizon "
        f"{peak + 1} and ends at {floor[-1]:.3f}. Error over floor, averaged over horizons: "
        f"{', '.join(parts)}. Pooled one-step errors, dotted: {levels}."
    )


@style.styled
def rollout(
    horizon: int,
    trajectory: int,
    *,
    truth: Floats,
    forecasts: Curves,
    mean: Floats,
    variance: Floats,
    warm: int = 1,
) -> Figure:
    """Draw a rollout up to a horizon: truth, each model, and the exact forecast with its band.

    Args:
        horizon: how many steps ahead to show, from 1.
        trajectory: which of the N, from 1.
        truth: observations that are to be forecast, (N, H).
        forecasts: name → (N, H).
        mean, variance: the exact open-loop forecast, (N, H) and (H,).
        warm: how many genuine observations came before (for the slot numbers).
    """
    y, learned, m, sd = _rollout(horizon, trajectory, truth, forecasts, mean, variance)
    slots = warm + 1 + np.arange(len(y))
    upto = slice(0, horizon)
    figure, axes = style.new_figure(4.6)
    ax = axes[0, 0]
    ax.fill_between(
        slots[upto], (m - BAND * sd)[upto], (m + BAND * sd)[upto], color=style.GREY, alpha=0.25, lw=0,
        label="exact, 95 % band",
    )  # fmt: skip
    ax.plot(slots[upto], m[upto], color=style.GREY, linestyle="--", label="exact forecast")
    for name, line in learned.items():
        ax.plot(slots[upto], line[upto], **_look(name), markevery=2, label=name)
    ax.plot(
        slots, y, color=style.BLACK, linestyle="", marker="o", markersize=4, markerfacecolor="white",
        markeredgewidth=1,
    )  # fmt: skip
    ax.plot(
        slots[upto], y[upto], color=style.BLACK, linestyle="", marker="o", label="what happened"
    )
    lines = [y, m + BAND * sd, m - BAND * sd, *learned.values()]
    low, high = min(x.min() for x in lines), max(x.max() for x in lines)
    ax.set(xlim=(slots[0] - 0.7, slots[-1] + 0.7), ylim=(low - 0.1, high + 0.1))
    ax.legend(ncols=2, loc="lower left", bbox_to_anchor=(-0.02, 0.99))
    style.label(ax, x="slot t", y="reading $y_t$")
    return figure


def describe_rollout(
    horizon: int,
    trajectory: int,
    *,
    truth: Floats,
    forecasts: Curves,
    mean: Floats,
    variance: Floats,
    warm: int = 1,
) -> str:
    """Give the root-mean-square errors up to the horizon, and how often the band held."""
    y, learned, m, sd = _rollout(horizon, trajectory, truth, forecasts, mean, variance)
    upto = slice(0, horizon)

    def rms(line: np.ndarray) -> str:
        return f"{np.sqrt(np.mean((line - y)[upto] ** 2)):.2f}"

    inside = int((abs(m - y)[upto] <= BAND * sd[upto]).sum())
    scores = ", ".join(f"{name} {rms(line)}" for name, line in learned.items())
    return (
        f"Trajectory {trajectory}, horizons 1 to {horizon}. Root-mean-square error up to there: "
        f"{scores}, exact forecast {rms(m)}. The 95 % band holds {inside} of {horizon} readings."
    )


def _rollout(
    horizon: int, trajectory: int, truth: Floats, forecasts: Curves, mean: Floats, variance: Floats
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray, np.ndarray]:
    truth, mean = np.asarray(truth, float), np.asarray(mean, float)
    variance = np.asarray(variance, float)
    if truth.ndim != 2 or mean.shape != truth.shape or variance.shape != truth.shape[1:]:
        raise ValueError(
            "truth and mean must have shape (N, H) and variance (H,), got "
            f"{truth.shape}, {mean.shape} and {variance.shape}"
        )
    N, H = truth.shape
    if positive_int("horizon", horizon) > H:
        raise ValueError(f"horizon must be at most {H}, got {horizon}")
    if positive_int("trajectory", trajectory) > N:
        raise ValueError(f"trajectory must be at most {N}, got {trajectory}")
    learned = {}
    for name, values in forecasts.items():
        values = np.asarray(values, float)
        if values.shape != truth.shape:
            raise ValueError(f"forecasts[{name!r}] must have shape {truth.shape}")
        learned[name] = values[trajectory - 1]
    return truth[trajectory - 1], learned, mean[trajectory - 1], np.sqrt(variance)


@style.styled
def open_loop_after(
    warm: int, *, floors: Mapping[int, Floats], curves: Mapping[int, Curves]
) -> Figure:
    """Draw error against horizon after `warm` genuine readings, with the exact floor.

    Args:
        warm: a key of both mappings.
        floors: warm → exact errors, (H,).
        curves: warm → name → errors, (seeds, H).
    """
    floor, runs = _after(warm, floors, curves)
    horizon = np.arange(1, len(floor) + 1)
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    for name, values in runs.items():
        _spread(ax, horizon, name, values)
    ax.plot(horizon, floor, color=style.BLACK, linestyle="--", label="exact floor")
    longest = max(len(f) for f in floors.values())
    highest = max(np.max(v) for named in curves.values() for v in named.values())
    ax.set(xlim=(0, longest + 1), ylim=(0, 1.2 * highest))
    ax.legend(loc="upper right", ncols=2)
    style.label(ax, x="horizon h (steps ahead)", y="squared error")
    return figure


def describe_open_loop_after(
    warm: int, *, floors: Mapping[int, Floats], curves: Mapping[int, Curves]
) -> str:
    """Say where floor and models begin and end, and the models' distance from it."""
    floor, runs = _after(warm, floors, curves)
    parts = [f"{name} {values.mean() / floor.mean():.2f}" for name, values in runs.items()]
    readings = "1 genuine reading" if warm == 1 else f"{warm} genuine readings"
    return (
        f"After {readings} the exact floor is {floor[0]:.3f} one step ahead, at most "
        f"{floor.max():.3f}, and {floor[-1]:.3f} at the last horizon, {len(floor)}. "
        f"Error over floor, averaged over horizons: {', '.join(parts)}."
    )


def _after(
    warm: int, floors: Mapping[int, Floats], curves: Mapping[int, Curves]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    if warm not in floors or warm not in curves:
        raise ValueError(f"warm must be one of {sorted(floors)}, got {warm}")
    floor = np.asarray(floors[warm], float)
    named = {n: _table(f"curves[{warm}][{n!r}]", v, len(floor)) for n, v in curves[warm].items()}
    return floor, named


# 7.7 — attention by lag


@style.styled
def attention_by_lag(
    *, final: Floats, pooled: Floats, pooled_uniform: Floats, lags: int = 8
) -> Figure:
    """Draw attention by lag at the final query; below it, the pooled profile that misleads."""
    final, pooled = _table("final", final), _table("pooled", pooled)
    L = final.shape[1]
    baselines = (np.full(L, 1 / L), np.asarray(pooled_uniform, float))
    titles = ("final query only: fair", "pooled over all queries: misleading")
    figure, axes = style.new_figure(5.4, rows=2, sharex=True, sharey=True)
    x = np.arange(lags)
    for ax, runs, base, title in zip(axes[:, 0], (final, pooled), baselines, titles, strict=True):
        mean = runs.mean(axis=0)[:lags]
        low, high = runs.min(axis=0)[:lags], runs.max(axis=0)[:lags]
        ax.bar(x, mean, width=0.62, color=style.SKY)
        ax.errorbar(x, mean, [mean - low, high - mean], fmt="none", ecolor=style.BLACK, capsize=3)
        ax.plot(x, base[:lags], color=style.VERMILION, linestyle="--", marker="s")
        ax.annotate(
            "uniform", (x[-1], base[lags - 1]), xytext=(14, 0), textcoords="offset points",
            va="center", color=style.VERMILION,
        )  # fmt: skip
        ax.set_xlim(-0.5, lags + 0.6)
        ax.grid(axis="x", visible=False)
        style.label(ax, x="", y="weight", title=title)
    axes[1, 0].set(xlabel="lag k: how many tokens ago", xticks=x)
    return figure


def describe_attention_by_lag(
    *, final: Floats, pooled: Floats, pooled_uniform: Floats, lags: int = 8
) -> str:
    """Give the first weights of both profiles with their baselines."""
    final, pooled = _table("final", final).mean(axis=0), _table("pooled", pooled).mean(axis=0)
    base = np.asarray(pooled_uniform, float)

    def first(profile: np.ndarray) -> str:
        return ", ".join(f"{w:.2f}" for w in profile[:3])

    return (
        f"At the final query the weights at lags 0, 1, 2 are {first(final)} against a uniform "
        f"{1 / len(final):.3f}; the first {lags} lags hold {final[:lags].sum():.2f}. Pooled over all "
        f"queries they read {first(pooled)}, but there uniform attention itself reads {first(base)}."
    )


@style.styled
def filter_weights(*, weights: Floats, lags: int = 12) -> Figure:
    """Draw the weights of the exact forecast on past observations, which change sign."""
    weights = np.asarray(weights, float)[:lags]
    figure, axes = style.new_figure(3.1)
    ax = axes[0, 0]
    colours = [style.BLUE if w >= 0 else style.VERMILION for w in weights]
    bars = ax.bar(range(len(weights)), weights, color=colours, width=0.62)
    for bar, weight in zip(bars, weights, strict=True):
        bar.set_hatch("" if weight >= 0 else "///")
        bar.set_edgecolor("white")
    ax.axhline(0, color=style.BLACK, linewidth=1)
    ax.set(xticks=range(len(weights)))
    ax.grid(axis="x", visible=False)
    style.label(ax, x="lag k: how many tokens ago", y="weight on the reading")
    return figure


def describe_filter_weights(*, weights: Floats, lags: int = 12) -> str:
    """Give the first weights, and where they turn negative."""
    weights = np.asarray(weights, float)[:lags]
    negative = np.flatnonzero(weights < 0)
    first = ", ".join(f"{w:.2f}" for w in weights[:3])
    turn = (
        f"turn negative at lag {negative[0]}, and are lowest at lag {int(weights.argmin())} with "
        f"{weights.min():.3f}"
        if len(negative)
        else "never turn negative"
    )
    return f"The exact forecast's weights on past readings begin {first}, {turn}."


# 7.8 — interventions


@style.styled
def intervention(lag: int, *, attention: Floats, effects: Mapping[str, Curves]) -> Figure:
    """Draw attention by lag; below it what replacing the token at each lag does to the forecast.

    Args:
        lag: the lag to point at.
        attention: weights of the final query by lag, (seeds, lags).
        effects: kind of replacement → name → change of the forecast by lag, (seeds, lags). The last
            kind is drawn.
    """
    attention, effects = _intervention(lag, attention, effects)
    kind, drawn = list(effects.items())[-1]
    lags = np.arange(attention.shape[1])
    figure, axes = style.new_figure(5.4, rows=2, sharex=True, height_ratios=[1, 1.7])
    looks, does = axes[:, 0]
    style.bars(looks, lags, attention.mean(axis=0), color=style.SKY, width=0.62)
    looks.set_ylim(0, 1.15 * attention.mean(axis=0).max())
    style.label(looks, x="", y="weight", title="where the transformer looks")
    for name, runs in drawn.items():
        _spread(does, lags, name, runs, every=1)
    does.set(yscale="log", xticks=lags[::2], xlim=(-0.6, lags[-1] + 0.6))
    _log_ticks(does, [0.01, 0.03, 0.1, 0.3, 1, 3])
    does.legend(loc="upper right")
    style.label(
        does, x="lag k: how many tokens ago", y="change (log scale)",
        title=f"change of the forecast: {kind}",
    )  # fmt: skip
    for ax in (looks, does):
        ax.axvline(lag, color=style.GREY, linewidth=1, linestyle=":")
        ax.grid(axis="x", visible=False)
    return figure


def describe_intervention(lag: int, *, attention: Floats, effects: Mapping[str, Curves]) -> str:
    """Give the weight at the lag, and the change under each kind of replacement."""
    attention, effects = _intervention(lag, attention, effects)
    kinds = [
        f"{kind}: " + ", ".join(f"{name} {runs[:, lag].mean():.3f}" for name, runs in named.items())
        for kind, named in effects.items()
    ]
    return (
        f"Lag {lag}. The transformer's mean attention weight there is "
        f"{attention[:, lag].mean():.3f}. Root-mean-square change of the forecast when the token "
        f"is replaced. {'. '.join(kinds)}."
    )


def _intervention(
    lag: int, attention: Floats, effects: Mapping[str, Curves]
) -> tuple[np.ndarray, dict[str, dict[str, np.ndarray]]]:
    attention = _table("attention", attention)
    lags = attention.shape[1]
    if not 0 <= lag < lags:
        raise ValueError(f"lag must be from 0 to {lags - 1}, got {lag}")
    tables = {
        kind: {n: _table(f"effects[{kind!r}][{n!r}]", v, lags) for n, v in named.items()}
        for kind, named in effects.items()
    }
    return attention, tables


# 7.9 — the predictor is not the plant


@style.styled
def noise_sweep(*, noises: Floats, ratios: Curves, turn: float) -> Figure:
    """Draw each learner's error over the exact one's against the process noise q.

    Args:
        noises: the values of q.
        ratios: name → (seeds, noises).
        turn: the q above which the predictor's eigenvalues are real.
    """
    noises = np.asarray(noises, float)
    figure, axes = style.new_figure(4.0)
    ax = axes[0, 0]
    for name, runs in ratios.items():
        _spread(ax, noises, name, _table(f"ratios[{name!r}]", runs, len(noises)), every=1)
    ax.axhline(1.0, color=style.BLACK, linestyle="--")
    ax.axvline(turn, color=style.GREY, linewidth=1)
    ax.set(xscale="log", yscale="log", ylim=(0.97, None))
    ax.annotate(
        "complex | real poles", (turn, 0.985), xytext=(0, 0), textcoords="offset points",
        ha="center", va="center", fontsize=9.5,
    )  # fmt: skip
    _log_ticks(ax, noises, "x")
    _log_ticks(ax, [1, 1.1, 1.2, 1.4, 1.7, 2])
    ax.legend(loc="upper right")
    style.label(ax, x="process noise q (log scale)", y="error ÷ exact (log scale)")
    return figure


def describe_noise_sweep(*, noises: Floats, ratios: Curves, turn: float) -> str:
    """Give each learner's mean ratio at the lowest and the highest noise."""
    noises = np.asarray(noises, float)
    parts = []
    for name, runs in ratios.items():
        mean = _table(f"ratios[{name!r}]", runs, len(noises)).mean(axis=0)
        parts.append(f"{name} {mean[0]:.2f} and {mean[-1]:.2f}")
    return (
        f"Error over the exact forecaster's at process noise {noises[0]:g} and {noises[-1]:g}: "
        f"{', '.join(parts)}. The exact predictor's eigenvalues are real above q = {turn:.3f}."
    )


@style.styled
def predictor_locus(q: float) -> Figure:
    """Draw the eigenvalues of the steady predictor for a process noise q, on their whole path."""
    figure, axes = style.new_figure(4.4)
    ax = axes[0, 0]
    angle = np.linspace(-0.6, 0.6, 200)
    ax.plot(np.cos(angle), np.sin(angle), color=style.GREY, linewidth=1)
    for branch in _locus().T:
        ax.plot(branch.real, branch.imag, ".", color=style.SKY, markersize=3)
    plant = np.linalg.eigvals(LinearGaussianSystem().A)
    ax.plot(plant.real, plant.imag, linestyle="", marker="x", color=style.BLACK, markersize=9)
    ax.annotate(
        "plant A", (plant.real.max(), plant.imag.max()), xytext=(-8, 4), ha="right",
        textcoords="offset points",
    )  # fmt: skip
    poles = _predictor_poles(q)
    ax.plot(poles.real, poles.imag, linestyle="", marker="o", color=style.VERMILION, markersize=9)
    ax.annotate(
        f"predictor, q = {q:g}", (poles[0].real, poles[0].imag), xytext=(0, -22), ha="center",
        textcoords="offset points",
    )  # fmt: skip
    ax.axhline(0, color=style.BLACK, linewidth=0.8)
    ax.set(xlim=(-0.05, 1.06), ylim=(-0.45, 0.45))
    style.label(ax, x="real part", y="imaginary part")
    return figure


def describe_predictor_locus(q: float) -> str:
    """Give the eigenvalues."""
    poles = _predictor_poles(q)
    if abs(poles[0].imag) > 1e-9:
        text = f"{poles[0].real:.3f} ± {abs(poles[0].imag):.3f}i, a pair that oscillates"
    else:
        text = f"{poles[0].real:.3f} and {poles[1].real:.3f}, both real"
    return (
        f"With process noise q = {q:g} the steady predictor's eigenvalues are {text}. "
        "The plant's are 0.92 ± 0.30i."
    )


@functools.cache
def _locus() -> np.ndarray:
    return np.array([_predictor_poles(noise) for noise in np.geomspace(0.002, 0.4, 160)])


def _predictor_poles(q: float) -> np.ndarray:
    return kalman.steady_predictor(LinearGaussianSystem(process_std=q)).eigenvalues
