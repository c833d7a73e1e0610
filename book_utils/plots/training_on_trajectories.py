"""Figures of the chapter "Learning from trajectories"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .. import rollouts
from . import style

STD = 0.1  # standard deviation of the one-step errors in the figures on error growth
RUNS = 1000  # simulated rollouts behind the dots


def _line(series: int, **changes: Any) -> dict[str, Any]:
    """Colour and line style of a series, without its marker."""
    look = style.SERIES[series]
    return {"color": look["color"], "linestyle": look["linestyle"], **changes}


def _say(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[int, int], **how: Any
) -> None:
    """Write `text` beside a point, `shift` points away."""
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **how)


# 3.3 — which element stands where

LAYOUTS = {
    "paired": (("o₀ a₀", "a₀"), ("o₁ a₁", "a₁"), ("o₂ a₂", "a₂")),
    "shifted": (("o₀  –", "a₀"), ("o₁ a₀", "a₁"), ("o₂ a₁", "a₂")),
    "interleaved": (("o₀", "a₀"), ("a₀", "o₁"), ("o₁", "a₁"), ("a₁", "o₂"), ("o₂", "a₂")),
}


@style.styled
def token_layouts() -> Figure:
    """Draw three ways to lay out a trajectory for an action head; targets that leak are hatched."""
    figure, axes = style.new_figure(4.3, rows=3)
    for ax, (name, cells) in zip(axes[:, 0], LAYOUTS.items(), strict=True):
        width = 6 / len(cells)
        for i, (token, target) in enumerate(cells):
            leaks = target in token
            _box(ax, i * width, 0.0, width, token, "#dcebf5")
            _box(ax, i * width, 1.35, width, target, "#f7d9c9" if leaks else "#d5eee4", leaks)
            ax.annotate(
                "", (i * width + width / 2 - 0.04, 1.3), (i * width + width / 2 - 0.04, 0.85),
                arrowprops={"arrowstyle": "->", "color": style.BLACK},
            )  # fmt: skip
        ax.set_title(name, loc="left")
        ax.set(xlim=(-0.75, 6), ylim=(-0.1, 2.3))
        ax.text(-0.1, 0.4, "token", ha="right", va="center")
        ax.text(-0.1, 1.75, "target", ha="right", va="center")
        ax.axis("off")
    return figure


def _box(
    ax: Axes, x: float, y: float, width: float, text: str, fill: str, hatch: bool = False
) -> None:
    ax.add_patch(
        Rectangle(
            (x, y), width - 0.08, 0.8, facecolor=fill, edgecolor=style.VERMILION if hatch else "#555555",
            hatch="///" if hatch else None, linewidth=1.2,
        )
    )  # fmt: skip
    ax.text(
        x + width / 2 - 0.04, y + 0.4, text, ha="center", va="center",
        bbox={"facecolor": fill, "edgecolor": "none", "pad": 1.5} if hatch else None,
    )  # fmt: skip


def describe_token_layouts() -> str:
    """Say which layout leaks."""
    return (
        "Tokens (below) and what each must forecast (above). In the paired layout every token already "
        "holds the action that is its target, so it leaks (hatched). In the shifted layout the token "
        "holds the action before. In the interleaved layout each token holds one element, and its "
        "target is the next one."
    )


@style.styled
def leak_errors(*, errors: Mapping[str, Any], floor: float) -> Figure:
    """Draw the held-out error of the action head for each layout, a marker a seed, on a log scale."""
    figure, axes = style.new_figure(3.2)
    ax = axes[0, 0]
    for i, found in enumerate(errors.values()):
        look, values = style.SERIES[i], np.asarray(found, dtype=float)
        ax.plot(
            values, np.full(len(values), i) + np.linspace(-0.12, 0.12, len(values)),
            color=look["color"], marker=look["marker"], linestyle="none", markersize=9,
        )  # fmt: skip
    ax.axvline(floor, color=style.BLACK, linestyle="--", linewidth=1.4)
    _say(
        ax, f"honest floor {floor:g}", (floor, len(errors) - 0.55), (-6, 0), ha="right", va="center"
    )
    ax.set(xscale="log", xlim=(1e-5, 2), ylim=(len(errors) - 0.3, -0.5))
    ax.set_yticks(range(len(errors)), list(errors))
    style.label(ax, x="mean squared error of the action forecast (log scale)", y="")
    return figure


def describe_leak_errors(*, errors: Mapping[str, Any], floor: float) -> str:
    """Say how far below or above the floor each layout lands."""
    said = []
    for name, values in errors.items():
        worst = float(np.max(values))
        if worst < floor / 100:
            said.append(f"{name} below a hundredth of the floor in every run")
        else:
            above = 5 * np.ceil(20 * (worst / floor - 1))
            said.append(f"{name} at most {above:.0f} % above it")
    return (
        f"Held-out error of an action head for each layout, one marker a random start. The floor is the "
        f"variance {floor:g} of the driver's own noise: {'; '.join(said)}."
    )


# 3.5 — equal one-step errors, different rollouts


@style.styled
def twin_rollouts(*, truth: Any, lively: Any, sluggish: Any) -> Figure:
    """Draw the true series and the rollouts of two predictors with one and the same one-step error."""
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    t = np.arange(len(truth))
    ax.plot(t, truth, color=style.GREY, linewidth=1.4)
    for series, path, name, drop in (
        (0, lively, "gain too large", -3),
        (1, sluggish, "gain too small", -11),
    ):
        ax.plot(t, path, **_line(series))
        colour = style.SERIES[series]["color"]
        _say(ax, name, (t[-1], float(path[-1])), (4, drop), color=colour)
    _say(ax, "truth", (t[-1], float(truth[-1])), (4, 2), color="#555555")
    ax.set_xlim(0, 1.32 * len(truth))
    ax.set_xticks(np.arange(0, len(truth) + 1, 20))
    style.label(ax, x="steps since the last genuine observation", y="$x$")
    return figure


def describe_twin_rollouts(*, truth: Any, lively: Any, sluggish: Any) -> str:
    """Say where the three start and end."""
    ends = [float(np.asarray(x)[-1]) for x in (truth, lively, sluggish)]
    return (
        f"Open-loop rollouts of two predictors with exactly equal one-step error, from {truth[0]:.1f} on. "
        f"After {len(truth) - 1} steps the true value is {ends[0]:.1f}; the predictor with the larger "
        f"gain says {ends[1]:.1f}, the one with the smaller gain {ends[2]:.1f}."
    )


# 3.6 — how errors grow


@style.styled
def error_growth(*, gain: float, bias: float, horizon: int) -> Figure:
    """Draw the error of a rollout against horizon: formulas as lines, simulated rollouts as dots."""
    H = np.arange(1, horizon + 1)
    random, steady, total = _growth(gain, bias, horizon)
    figure, axes = style.new_figure(3.8)
    ax = axes[0, 0]
    ax.plot(H, total, color=style.BLACK, linewidth=3)
    ax.plot(H, random, **_line(0))
    if bias:
        ax.plot(H, np.abs(steady), **_line(1))
    shown = np.unique(np.round(np.geomspace(1, horizon, 9)).astype(int))
    delta = bias + STD * np.random.default_rng(0).standard_normal((RUNS, horizon))
    simulated = np.sqrt((rollouts.propagate(gain, delta) ** 2).mean(axis=0))
    ax.plot(shown, simulated[shown - 1], "o", color=style.ORANGE, markeredgecolor="black", zorder=5)
    low = min(STD, bias or STD) / 2
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(0.94, 1.06 * horizon),
        ylim=(low, max(1.2, 4 * total.max())),
    )
    ticks = [h for h in (1, 2, 4, 8, 16, 32, 64, 128) if h <= horizon]
    ax.set_xticks(ticks, [str(h) for h in ticks])
    ax.minorticks_off()
    handles = [
        ax.plot([], [], color=style.BLACK, linewidth=3, label="RMS error")[0],
        ax.plot([], [], **_line(0), label="random part")[0],
        *([ax.plot([], [], **_line(1), label="bias part")[0]] if bias else []),
        ax.plot([], [], "o", color=style.ORANGE, markeredgecolor="black", label="simulated")[0],
    ]
    ax.legend(handles=handles, loc="upper left", ncols=2)
    style.label(ax, x="horizon H (log scale)", y="error (log scale)")
    return figure


def _growth(gain: float, bias: float, horizon: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = rollouts.rms_error(gain, STD, horizon)
    steady = rollouts.bias_error(gain, bias, horizon)
    return random, steady, np.sqrt(random**2 + steady**2)


def describe_error_growth(*, gain: float, bias: float, horizon: int) -> str:
    """Give both parts of the error at the horizon, and where they tend."""
    random, steady, total = _growth(gain, bias, horizon)
    size = abs(gain)
    if size < 1:
        limit = (
            f"they level off at {STD / np.sqrt(1 - gain**2):.3g} and {bias / (1 - gain) + 0:.3g}"
        )
    elif size == 1:
        limit = "they grow like √H and like H"
    else:
        limit = f"both end up growing by a factor {size:g} a step"
    return (
        f"Gain {gain:g}, bias {bias:g}, one-step noise {STD:g}. At horizon {horizon} the random part of "
        f"the error is {random[-1]:.3g} and the bias part {abs(steady[-1]):.3g}, together an RMS error of "
        f"{total[-1]:.3g}; with the horizon {limit}."
    )


CORRELATION = 0.8


@style.styled
def beyond_scalars(*, gain: Any, horizon: int) -> Figure:
    """Draw the norm of a matrix gain's powers, and RMS error with and without correlation."""
    figure, axes = style.new_figure(5.4, rows=2)
    top, bottom = axes[:, 0]
    norms = rollouts.gain_norms(gain, horizon)
    top.plot(np.arange(horizon + 1), norms, **_line(0))
    peak = int(norms.argmax())
    top.plot(peak, norms[peak], marker="o", color=style.BLACK, markersize=8)
    _say(top, f"{norms[peak]:.2f} after {peak} steps", (peak, norms[peak]), (8, 0))
    top.set(xlim=(0, horizon), ylim=(0, 1.2 * norms.max()))
    style.label(top, x="steps h", y="$\\|J^h\\|_2$", title="both eigenvalues 0.9")
    H = np.arange(1, horizon + 1)
    for series, rho in ((0, 0.0), (1, CORRELATION)):
        rms = rollouts.rms_error(1.0, STD, horizon, correlation=rho)
        bottom.plot(H, rms, **_line(series))
        name = "independent" if rho == 0 else f"correlation {rho:g}"
        at = int(0.72 * horizon)
        _say(bottom, name, (at, rms[at]), (-6, 8), ha="right", color=style.SERIES[series]["color"])
    bottom.set(xlim=(0, horizon), ylim=(0, None))
    style.label(bottom, x="horizon H", y="RMS error", title="gain 1, equal one-step noise")
    return figure


def describe_beyond_scalars(*, gain: Any, horizon: int) -> str:
    """Give the peak, and both errors at horizon 32."""
    norms = rollouts.gain_norms(gain, horizon)
    plain, tied = (
        rollouts.rms_error(1.0, STD, 32, correlation=rho)[-1] for rho in (0.0, CORRELATION)
    )
    return (
        f"Top: a matrix gain with both eigenvalues 0.9 first stretches an error up to {norms.max():.2f} "
        f"times, after {norms.argmax()} steps, before it shrinks it. Bottom: with gain 1 and one-step noise "
        f"{STD:g} the RMS error at horizon 32 is {plain:.2f} if the one-step errors are independent and "
        f"{tied:.2f} if neighbours have correlation {CORRELATION:g}."
    )


# 3.7 — a planner leaves the log


@style.styled
def exploited_model(
    *, speeds: Any, logged: Any, outcomes: Any, truth: Any, forecast: Any, chosen: float
) -> Figure:
    """Draw a log, the model fitted to it, the truth beyond it, and the planner's choice."""
    speeds, truth, forecast = (np.asarray(x, dtype=float) for x in (speeds, truth, forecast))
    figure, axes = style.new_figure(3.8)
    ax = axes[0, 0]
    ax.axvspan(np.min(logged), np.max(logged), color="#eeeeee")
    ax.plot(logged, outcomes, ".", color=style.GREY, markersize=4)
    ax.plot(speeds, truth, color=style.BLACK)
    ax.plot(speeds, forecast, **_line(1))
    at = int(np.abs(speeds - chosen).argmin())
    ax.plot(chosen, forecast[at], marker="s", color=style.VERMILION, markersize=10, clip_on=False)
    ax.plot(chosen, truth[at], marker="X", color=style.BLACK, markersize=11, clip_on=False)
    ax.vlines(chosen, truth[at], forecast[at], color=style.BLACK, linestyle=":", linewidth=1.2)
    _say(ax, "promised", (chosen, forecast[at]), (-10, 4), ha="right", color=style.VERMILION)
    _say(ax, "delivered", (chosen, truth[at]), (-10, 6), ha="right")
    _say(ax, "log", (float(np.mean(logged)), 0), (0, -22), ha="center", color="#555555")
    peak, late = int(truth.argmax()), int(0.72 * len(speeds))
    _say(ax, "truth", (speeds[peak], truth[peak]), (7, -16))
    _say(ax, "model", (speeds[late], forecast[late]), (-8, 6), ha="right", color=style.VERMILION)
    ax.set_xlim(speeds[0], speeds[-1])
    style.label(ax, x="push speed (the action)", y="how far the mug gets")
    return figure


def describe_exploited_model(
    *, speeds: Any, logged: Any, outcomes: Any, truth: Any, forecast: Any, chosen: float
) -> str:
    """Say what the model promises at the planner's choice and what comes of it."""
    speeds, truth, forecast = (np.asarray(x, dtype=float) for x in (speeds, truth, forecast))
    at = int(np.abs(speeds - chosen).argmin())
    return (
        f"A log of {len(outcomes)} gentle pushes (grey), a model fitted to it (dashed) and the truth "
        f"(solid). They agree on the log. The planner picks speed {chosen:.1f}, where the model promises "
        f"about {forecast[at]:.0f} and the truth is {truth[at]:.0f}: the mug has gone over the edge."
    )


# 3.8 — two histories in one state


@style.styled
def merged_histories(*, belief: Any, window: Any, chance: float = 0.5) -> Figure:
    """Draw how often each memory reaches the right place, against steps since the sighting."""
    belief, window = (np.asarray(x, dtype=float) for x in (belief, window))
    figure, axes = style.new_figure(3.3)
    ax = axes[0, 0]
    t = np.arange(len(belief))
    ax.plot(t, belief, **_line(0, linewidth=5, alpha=0.45))
    ax.step(t, window, where="mid", **_line(1))
    ax.axhline(chance, color=style.GREY, linewidth=1, linestyle=":")
    _say(ax, "belief", (t[-1], belief[-1]), (0, 6), ha="right", color=style.BLUE)
    _say(ax, "last readings only", (t[-1], window[-1]), (0, 6), ha="right", color=style.VERMILION)
    ax.set(xlim=(0, t[-1]), ylim=(0.4, 1.04))
    style.label(ax, x="steps since the mug was seen", y="best possible success")
    return figure


def describe_merged_histories(*, belief: Any, window: Any, chance: float = 0.5) -> str:
    """Give both success rates before and after the sighting has left the window."""
    belief, window = (np.asarray(x, dtype=float) for x in (belief, window))
    drop = int(np.argmax(window <= chance + 1e-9))
    return (
        f"Best possible success at fetching the mug. With the belief as memory it is {belief[-1]:.2f} "
        f"however long ago the mug was seen. With the last {drop} readings as memory it is "
        f"{window[0]:.2f} up to step {drop - 1} and {window[drop]:.2f}, a coin toss, from step {drop} on."
    )


# 3.9 — a driver who knows more than the log

SPILL = {"by speed": 0.5, "by fullness": 1.0, "driver's noise": 0.5, "noise": 0.1}


def confounded_log(
    strength: float, n: int, rng: np.random.Generator, *, randomised: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Speeds and spills of n trips; the driver slows down by `strength` for a fuller mug.

    The mug's fullness is standard normal and never logged. With `randomised` the speeds have the
    same spread but ignore it.
    """
    full, noise = rng.standard_normal((2, n))
    spread = SPILL["driver's noise"]
    speed = -strength * full + spread * noise
    if randomised:
        speed = np.hypot(strength, spread) * noise
    spill = SPILL["by speed"] * speed + SPILL["by fullness"] * full
    return speed, spill + SPILL["noise"] * rng.standard_normal(n)


def _slopes(strength: float) -> tuple[float, float]:
    """Slope that an endless log shows, and slope under intervention."""
    cause = SPILL["by speed"]
    variance = strength**2 + SPILL["driver's noise"] ** 2
    return cause - SPILL["by fullness"] * strength / variance, cause


@style.styled
def confounding(*, strength: float) -> Figure:
    """Draw a log of speeds and spills with its trend, and the trend under intervention."""
    speed, spill = confounded_log(strength, 400, np.random.default_rng(39))
    seen, done = _slopes(strength)
    figure, axes = style.new_figure(3.8)
    ax = axes[0, 0]
    ax.plot(speed, spill, ".", color=style.GREY, markersize=4)
    x = np.array([-2.6, 2.6])
    for series, slope in ((1, seen), (0, done)):
        ax.plot(x, slope * x, **_line(series, linewidth=2.6))
    handles = [
        ax.plot([], [], **_line(1, linewidth=2.6), label=f"in the log: slope {seen + 0:.2f}")[0],
        ax.plot([], [], **_line(0, linewidth=2.6), label=f"if we set it: slope {done:.2f}")[0],
    ]
    ax.legend(handles=handles, loc="upper right")
    ax.set(xlim=(-3, 3), ylim=(-3.3, 4.6))
    style.label(ax, x="speed (relative to the mean)", y="spill (relative to the mean)")
    return figure


def describe_confounding(*, strength: float) -> str:
    """Give both slopes."""
    seen, done = _slopes(strength)
    verdict = "They agree." if strength == 0 else "A model of the log has the wrong one."
    if seen * done < 0:
        verdict = "Not even the sign agrees."
    return (
        f"The driver slows by {strength:g} for each unit of fullness, which is not logged. In the log the "
        f"spill changes by {seen:.2f} for each unit of speed; when we set the speed ourselves it "
        f"changes by {done:.2f}. {verdict}"
    )


# 3.10 — multi-step losses


@style.styled
def error_by_horizon(*, errors: Mapping[str, Any], floor: Any) -> Figure:
    """Draw mean squared error against horizon for several ways to train: (seeds, H) each."""
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    H = np.arange(1, len(floor) + 1)
    for i, (name, values) in enumerate(errors.items()):
        values = np.asarray(values, dtype=float)
        look = style.SERIES[i]
        ax.plot(H, values.mean(axis=0), label=name, markevery=(0, 3), **look)
        ax.fill_between(H, values.min(axis=0), values.max(axis=0), color=look["color"], alpha=0.18)
    ax.plot(H, floor, color=style.GREY, linewidth=1.4, label="floor")
    ax.set(yscale="log", xlim=(0.6, len(floor) + 0.4), xticks=range(1, len(floor) + 1, 3))
    ax.set_ylim(0.015, 2.2)
    ax.legend(loc="upper left", ncols=2)
    style.label(ax, x="horizon", y="mean squared error (log scale)")
    return figure


def describe_error_by_horizon(*, errors: Mapping[str, Any], floor: Any) -> str:
    """Give each way's error at the first and last horizon, to what is stable across seeds."""
    said = [
        f"{name} {np.mean(values, axis=0)[0]:.2f} and {np.mean(values, axis=0)[-1]:.1f}"
        for name, values in errors.items()
    ]
    return (
        f"Error against horizon, mean and range over the seeds, on a log scale. At horizon 1 and at "
        f"horizon {len(floor)}: {'; '.join(said)}; the floor {floor[0]:.2f} and {floor[-1]:.2f}."
    )
