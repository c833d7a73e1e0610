"""Figures of the chapter "From differential equations to tokens"."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch

from .. import ssm
from . import style


def _say(
    axes: Axes, text: str, at: tuple[float, float], shift: tuple[float, float] = (6, 0), **how: Any
) -> None:
    """Write `text` beside a point of the data."""
    how.setdefault("va", "center")
    axes.annotate(text, at, xytext=shift, textcoords="offset points", **how)


def _hold(axes: Axes, x: np.ndarray, dt: float) -> None:
    """Draw tokens as the steps that they are held on."""
    edges = dt * np.arange(len(x) + 1)
    axes.stairs(x, edges, color=style.ORANGE, linewidth=2.2, baseline=None)
    axes.axhline(0, color=style.GREY, linewidth=0.8)
    for edge in edges:
        axes.axvline(edge, color="#d0d0d0", linewidth=0.8, zorder=0)


# ------------------------------------------------------ 5.2 held tokens, and which index they have


def _continuous(A: np.ndarray, B: np.ndarray, x: np.ndarray, dt: float, fine: int) -> np.ndarray:
    """First state at `fine` times a token, by small exact steps."""
    A_bar, B_bar = ssm.discretize_zoh(A, B, dt / fine)
    first = np.eye(len(A))[:1]
    states = ssm.recurrence(A_bar, B_bar, first, np.repeat(x, fine, axis=0))
    return np.concatenate([[0.0], states[:, 0]])


@style.styled
def held_tokens(
    *, A: np.ndarray, B: np.ndarray, x: np.ndarray, dt: float, samples: np.ndarray
) -> Figure:
    """Tokens held for a step each, the state's motion in between, and the samples of the recurrence."""
    figure, axes = style.new_figure(4.2, rows=2, sharex=True, height_ratios=[1, 1.7])
    top, bottom = axes[:, 0]
    _hold(top, x[:, 0], dt)
    for t in range(len(x)):
        top.text((t + 0.5) * dt, x[t, 0], f"$x_{{{t + 1}}}$", ha="center", va="bottom", fontsize=10)
    top.set_ylabel("input x")
    top.margins(y=0.3)
    curve = _continuous(A, B, x, dt, 40)
    bottom.plot(np.linspace(0, len(x) * dt, len(curve)), curve, color=style.BLUE)
    bottom.plot(
        dt * np.arange(1, len(x) + 1),
        samples,
        color=style.VERMILION,
        marker="o",
        ls="",
        clip_on=False,
    )
    for t in (1, 2, 3):
        _say(bottom, f"$h_{t}$", (t * dt, samples[t - 1]), (7, -8), color=style.VERMILION)
    for edge in dt * np.arange(len(x) + 1):
        bottom.axvline(edge, color="#d0d0d0", linewidth=0.8, zorder=0)
    for ax in (top, bottom):
        ax.grid(False)
    bottom.set(xlim=(0, len(x) * dt))
    style.label(bottom, x="time in seconds", y="first state")
    return figure


def describe_held_tokens(
    *, A: np.ndarray, B: np.ndarray, x: np.ndarray, dt: float, samples: np.ndarray
) -> str:
    """How far the samples are from the curve, which is not at all."""
    curve = _continuous(A, B, x, dt, 40)[40::40]
    gap = np.abs(curve - samples).max()
    verdict = "every dot lies on the curve" if gap < 1e-9 else f"the largest gap is {gap:.2f}"
    return (
        f"Above, {len(x)} tokens, each held for {dt:g} seconds. Below, the first state between the tokens "
        f"(curve) and the states of the recurrence at the end of each token (dots): {verdict}."
    )


@functools.cache
def _two_indices() -> tuple[np.ndarray, np.ndarray]:
    """Outputs of one leaky state by this book's convention and by the control texts'."""
    a_bar, b_bar = ssm.discretize_zoh_diagonal(np.array([-0.5]), np.ones((1, 1)), 1.0)
    x = np.zeros((7, 1))
    x[0] = 1.0
    here = ssm.recurrence(a_bar, b_bar, np.ones((1, 1)), x)[:, 0]
    return here, np.concatenate([[0.0], here[:-1]])


@style.styled
def index_convention() -> Figure:
    """The same single token, read out by two conventions."""
    here, there = _two_indices()
    t = np.arange(1, len(here) + 1)
    figure, axes = style.new_figure(3.5)
    ax = axes[0, 0]
    for y, look, shift in ((here, style.SERIES[0], -0.07), (there, style.SERIES[1], 0.07)):
        ax.vlines(t + shift, 0, y, color=look["color"], linewidth=1.4)
        ax.plot(t + shift, y, color=look["color"], marker=look["marker"], ls="", markersize=8)
    _say(ax, f"this book: y₁ = C B̄ x₁ = {here[0]:.2f}", (0.93, here[0]), (0, 16), color=style.BLUE)
    _say(
        ax, "control texts: read first,\nthen update, one token later", (3.07, there[2]), (10, 14),
        color=style.VERMILION,
    )  # fmt: skip
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.set(ylim=(-0.03, 1.0), xlim=(0.6, 7.4))
    style.label(ax, x="token t (only x₁ is not zero)", y="output $y_t$")
    return figure


def describe_index_convention() -> str:
    """The first outputs by both conventions."""
    here, there = _two_indices()
    return (
        f"One token, x₁ = 1, through a leaky state. This book reads {here[0]:.2f}, {here[1]:.2f}, "
        f"{here[2]:.2f} at t = 1, 2, 3; the control convention reads {there[0]:.2f}, {there[1]:.2f}, "
        f"{there[2]:.2f}: the same numbers, one token later."
    )


# ------------------------------------------------------------------------- 5.4 the step as a dial

MODES: dict[str, complex] = {
    "slow decay": -0.1 + 0j,
    "fast decay": -1.0 + 0j,
    "oscillating": -0.1 + 1.0j,
}
_TOKENS, _ON = 40, 12


def _mode(mode: str, dt: float | np.ndarray) -> tuple[complex, np.ndarray, np.ndarray]:
    """Pole a, multiplier ā and write b̄ at the step(s) dt, with b = −a (steady state 1)."""
    a = MODES[mode]
    steps = np.reshape(np.asarray(dt, dtype=float), (-1, 1))
    a_bar, b_bar = ssm.discretize_zoh_diagonal(np.array([a]), np.array([[-a]]), steps)
    return a, a_bar[:, 0], b_bar[:, 0, 0]


def _pulse_response(a_bar: complex, b_bar: complex) -> np.ndarray:
    x = np.zeros((_TOKENS, 1))
    x[:_ON] = 1.0
    one = np.ones((1, 1), complex)
    return ssm.recurrence(np.array([a_bar]), b_bar * one, one, x)[:, 0].real


@style.styled
def step_size(dt: float, mode: str) -> Figure:
    """What one mode does with a pulse of tokens when each token is `dt` seconds long."""
    _, a_bar, b_bar = _mode(mode, dt)
    figure = Figure(figsize=(style.WIDTH, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.05])
    response, circle, dial = (figure.add_subplot(g) for g in (grid[0, :], grid[1, 0], grid[1, 1]))

    t = np.arange(1, _TOKENS + 1)
    response.stairs(
        np.r_[np.ones(_ON), np.zeros(_TOKENS - _ON)], np.arange(_TOKENS + 1), color=style.ORANGE,
        baseline=None,
    )  # fmt: skip
    response.plot(
        t, _pulse_response(a_bar[0], b_bar[0]), color=style.BLUE, marker="o", markersize=4, lw=1
    )
    response.axhline(0, color=style.GREY, linewidth=0.8)
    _say(response, "tokens", (_ON, 0.93), color="#8a5f00")
    response.set(xlim=(0, _TOKENS + 0.5), ylim=(-1.05, 1.9))
    style.label(response, x=f"token (each {dt:g} s long)", y="state (dots), real part")

    path = _mode(mode, np.r_[0.002, np.linspace(0.02, 30, 180)])[1]
    circle.add_patch(Circle((0, 0), 1, fill=False, color=style.GREY, linewidth=1.2))
    circle.plot(path.real, path.imag, color=style.SKY, linewidth=1.4)
    circle.plot(a_bar.real, a_bar.imag, color=style.VERMILION, marker="X", markersize=11, ls="")
    circle.set(
        xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1]
    )
    circle.set_title("multiplier ā", loc="left")

    steps = np.geomspace(0.005, 20, 110)
    _, kept, written = _mode(mode, steps)
    for series, now, look in (
        (kept, a_bar, style.SERIES[0]), (written, b_bar, style.SERIES[1]),
    ):  # fmt: skip
        dial.plot(steps, abs(series), color=look["color"], linestyle=look["linestyle"])
        dial.plot(dt, abs(now[0]), color=look["color"], marker=look["marker"], markersize=8)
    dial.set(xscale="log", ylim=(0, 1.9), xlim=(0.005, 20), xticks=[0.01, 0.1, 1, 10])
    dial.set_xticklabels(["0.01", "0.1", "1", "10"])
    dial.minorticks_off()
    dial.set_title("— kept |ā|   - - written |b̄|", loc="left", fontsize=11.5)
    dial.set_xlabel("step Δ in seconds")
    return figure


def describe_step_size(dt: float, mode: str) -> str:
    """Multiplier, write and half-life of the frame."""
    a, a_bar, b_bar = _mode(mode, dt)
    pole = f"{a.real:g}" if a.imag == 0 else f"{a.real:g} + {a.imag:g}i"
    return (
        f"{mode.capitalize()}, a = {pole} per second, Δ = {dt:g} s. Each token keeps |ā| = "
        f"{abs(a_bar[0]):.3f} of the state and writes |b̄| = {abs(b_bar[0]):.3f} of the input. The "
        f"half-life is {ssm.half_life(a, dt):.3g} tokens, which is {ssm.half_life(a):.3g} s at any Δ."
    )


# --------------------------------------------------------------------------------- 5.5 other rules

RULES = ("exact (zero-order hold)", "bilinear", "Euler")


def _multipliers(dt: float) -> tuple[float, float, float]:
    """The multiplier of a = −1 by the three rules."""
    A, B = np.array([[-1.0]]), np.ones((1, 1))
    rules = (ssm.discretize_zoh, ssm.discretize_bilinear, ssm.discretize_euler)
    exact, tustin, euler = (float(rule(A, B, dt)[0][0, 0]) for rule in rules)
    return exact, tustin, euler


@style.styled
def decay_by_rule(dt: float) -> Figure:
    """A state that should die out like e^(−t), stepped by three rules."""
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    t = np.arange(0, 12.0001, dt)
    fine = np.linspace(0, 12, 200)
    ax.plot(fine, np.exp(-fine), color=style.GREY, linewidth=1.2)
    for i, (name, multiplier) in enumerate(zip(RULES, _multipliers(dt), strict=True)):
        look = style.SERIES[i]
        values = multiplier ** np.arange(len(t))
        shown = abs(values) <= 2.5
        ax.plot(
            t[shown], values[shown], color=look["color"], linestyle=look["linestyle"], linewidth=1.2,
            marker=look["marker"], markersize=6, label=name,
        )  # fmt: skip
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.set(xlim=(-0.1, 12), ylim=(-2.5, 2.5))
    ax.legend(loc="lower left", ncols=3, bbox_to_anchor=(-0.02, 1.0), columnspacing=1.2)
    style.label(ax, x="time in seconds", y="state, started at 1")
    return figure


def describe_decay_by_rule(dt: float) -> str:
    """The three multipliers, and whether Euler's is stable."""
    exact, tustin, euler = _multipliers(dt)
    size = abs(euler)
    fate = (
        "it dies out"
        if size < 1 - 1e-12
        else "it never dies out"
        if size < 1 + 1e-12
        else "it blows up"
    )
    return (
        f"With a = −1 per second and Δ = {dt:g} s a token multiplies the state by {exact:.3f} (exact), "
        f"{tustin:.3f} (bilinear) or {euler:.3f} (Euler). Under Euler {fate}."
    )


ERROR_RULES = ("Euler", "Mamba's ΔB", "bilinear", "exact")


def rule_error(rule: str, steps: int) -> float:
    """Error after one second of h' = −h + 1 from 0, in `steps` steps.

    Raises:
        ValueError: `rule` is not one of the four.
    """
    a, A, B, dt = np.array([-1.0]), np.array([[-1.0]]), np.ones((1, 1)), 1 / steps
    if rule == "exact":
        a_bar, b_bar = ssm.discretize_zoh_diagonal(a, B, dt)
    elif rule == "Mamba's ΔB":
        a_bar, b_bar = ssm.discretize_mamba(a, B, dt)
    elif rule in ("Euler", "bilinear"):
        dense = ssm.discretize_euler if rule == "Euler" else ssm.discretize_bilinear
        A_bar, b_bar = dense(A, B, dt)
        a_bar = A_bar[0]
    else:
        raise ValueError(f"rule must be one of {ERROR_RULES}, got {rule!r}")
    state = ssm.recurrence(a_bar, b_bar, np.ones((1, 1)), np.ones((steps, 1)))[-1, 0]
    return float(abs(state + np.expm1(-1.0)))


_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@style.styled
def rule_errors() -> Figure:
    """Error of the rules after one second, against the length of the step."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    dt = 1 / np.array(_STEPS)
    for rule, look, at, shift in (
        ("Mamba's ΔB", style.SERIES[1], 3, (-4, 14)),
        ("Euler", style.SERIES[0], 5, (6, -14)),
        ("bilinear", style.SERIES[2], 4, (8, -6)),
    ):
        errors = [rule_error(rule, steps) for steps in _STEPS]
        ax.plot(dt, errors, color=look["color"], linestyle=look["linestyle"], marker=look["marker"])
        order = round(np.log2(errors[-2] / errors[-1]))
        place = "right" if shift[0] < 0 else "left"
        _say(
            ax, f"{rule}: order {order}", (dt[at], errors[at]), shift, color=look["color"], ha=place
        )
    _say(ax, "zero-order hold: below 1e−15, off the chart", (1, 2.2e-7), (0, 0), ha="right")
    ax.set(xscale="log", yscale="log", ylim=(1e-7, 1))
    style.label(ax, x="step Δ in seconds (a = −1)", y="error after one second")
    return figure


def describe_rule_errors() -> str:
    """Errors at a step of 1/8 s, and what halving the step does."""
    parts = []
    for rule in ERROR_RULES[:3]:
        coarse, fine, finer = (rule_error(rule, n) for n in (8, 128, 256))
        parts.append(f"{rule} {coarse:.2g} (halving the step divides it by {fine / finer:.2g})")
    return (
        "Error of h' = −h + 1 after one second. At Δ = 1/8 s: "
        + ", ".join(parts)
        + ". The zero-order "
        "hold is exact to rounding, because the input really is held."
    )


@style.styled
def frequency_warping() -> Figure:
    """The frequency per token that the bilinear rule gives to an oscillation, against the true one."""
    figure, axes = style.new_figure(3.4)
    ax = axes[0, 0]
    true = np.linspace(0, np.pi, 200)
    ax.plot(true, true, color=style.BLUE)
    ax.plot(true, 2 * np.arctan(true / 2), color=style.GREEN, linestyle="-.")
    _say(ax, "exact: ωΔ", (2.2, 2.2), (-8, 8), ha="right", color=style.BLUE)
    _say(ax, "bilinear: 2 arctan(ωΔ/2)", (2.0, 2 * np.arctan(1.0)), (6, -14), color=style.GREEN)
    ax.set(xlim=(0, np.pi), ylim=(0, np.pi), xticks=[0, 1, 2, 3], yticks=[0, 1, 2, 3])
    style.label(ax, x="true frequency ωΔ, radians a token", y="after the rule")
    return figure


def describe_frequency_warping() -> str:
    """Three values of the warped frequency."""
    return (
        "A mode that turns by ωΔ radians a token turns by 2 arctan(ωΔ/2) under the bilinear rule: "
        + ", ".join(f"{2 * np.arctan(w / 2):.2f} instead of {w:g}" for w in (0.5, 1, 2, 3))
        + ". Slow oscillations are right, fast ones are slowed down."
    )


def write_errors(z: np.ndarray) -> dict[str, np.ndarray]:
    """Relative float32 errors of the write (e^z − 1)/z at z, by three formulas.

    Args:
        z: float32 array of values a·Δ.

    Returns:
        For "(exp(z) − 1)/z", "expm1(z)/z" and "gradient of expm1(z)/z" (term by term) the error.
    """
    z = np.asarray(z, dtype=np.float32)
    exact = ssm.phi1(z.astype(np.float64))
    one = np.float32(1)
    naive, careful = (np.exp(z) - one) / z, np.expm1(z) / z
    slope = np.exp(z) / z - np.expm1(z) / z / z
    wide = z.astype(np.float64)
    # φ₁′ by its series, which is accurate for the |z| ≤ 1 that is drawn
    exact_slope = sum(
        (k - 1) * wide ** (k - 2) / float(np.prod(np.arange(1.0, k + 1))) for k in range(2, 25)
    )
    return {
        "(exp(z) − 1)/z": abs(naive / exact - 1),
        "expm1(z)/z": abs(careful / exact - 1),
        "gradient of expm1(z)/z": abs(slope / exact_slope - 1),
    }


@style.styled
def cancellation() -> Figure:
    """How wrong the write is in float32 near a = 0, by three ways of computing it."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    z = -np.geomspace(1e-10, 1, 81).astype(np.float32)
    floor = 2e-9
    for (name, error), look, at, shift in zip(
        write_errors(z).items(), (style.SERIES[1], style.SERIES[0], style.SERIES[3]),
        (2e-9, 1e-9, 1.5e-5), ((-40, 12), (-30, 24), (8, 22)), strict=True,
    ):  # fmt: skip
        ax.plot(
            abs(z),
            np.maximum(error, floor),
            color=look["color"],
            linestyle=look["linestyle"],
            lw=1.6,
        )
        y = float(np.interp(np.log(at), np.log(abs(z)), np.maximum(error, floor)))
        _say(ax, name, (at, y), shift, color=look["color"])
    ax.axhline(1, color=style.GREY, linewidth=0.8)
    ax.set(xscale="log", yscale="log", ylim=(1e-9, 1e2), xlim=(1e-10, 1))
    ax.set_yticks([1e-8, 1e-6, 1e-4, 1e-2, 1])
    style.label(ax, x="|aΔ| (float32)", y="relative error")
    return figure


def describe_cancellation() -> str:
    """What is left of the naive formula at 1e-8."""
    return (
        "Relative error of the write in float32 against |aΔ|. The textbook formula (exp(z) − 1)/z loses "
        "digits as |aΔ| shrinks and is wrong by 100 % at 1e-8, where it returns exactly 0; expm1 keeps "
        "about seven digits everywhere. Differentiating expm1(z)/z term by term brings the cancellation back."
    )


# -------------------------------------------------------------------------- 5.7 what modes can draw


@style.styled
def mode_shapes() -> Figure:
    """Kernels of a real mode, a complex pair, and three real modes, beside their multipliers."""
    k = np.arange(41)
    kernels = _mode_kernels()
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    for (name, kernel), look, at, shift in zip(
        kernels.items(), style.SERIES, (6, 10, 25), ((8, 6), (8, -4), (0, 12)), strict=False
    ):
        ax.plot(
            k, kernel, color=look["color"], linestyle=look["linestyle"], marker=look["marker"],
            markersize=4, linewidth=1.2,
        )  # fmt: skip
        _say(ax, name, (at, kernel[at]), shift, color=look["color"])
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.set(xlim=(-0.5, 40.5))
    style.label(ax, x="lag k in tokens", y="kernel $K_k$")
    return figure


def _mode_kernels() -> dict[str, np.ndarray]:
    one = np.ones((1, 1))
    pair = np.array([0.95 * np.exp(0.4j), 0.95 * np.exp(-0.4j)])
    return {
        "real: 0.9ᵏ": ssm.kernel(np.array([0.9]), one, one, 41)[:, 0, 0],
        "pair: 0.95ᵏ cos 0.4k": ssm.kernel(pair, np.ones((2, 1)), np.full((1, 2), 0.5 + 0j), 41)[
            :, 0, 0
        ].real,
    }


def describe_mode_shapes() -> str:
    """Zero crossings of the two kernels."""
    crossings = [
        int(np.count_nonzero(np.diff(np.sign(kernel)) != 0)) for kernel in _mode_kernels().values()
    ]
    return (
        f"The kernel of a real positive multiplier, 0.9ᵏ, never changes sign ({crossings[0]} times in 41 "
        f"tokens). That of a complex pair, 0.95ᵏ cos 0.4k, changes sign {crossings[1]} times while its "
        "envelope shrinks."
    )


_EPSILONS = (1.0, 0.3, 0.1)


@style.styled
def jordan_limit() -> Figure:
    """Two decays that move together, read out by their scaled difference, become t·e^(−t)."""
    figure, axes = style.new_figure(3.5)
    ax = axes[0, 0]
    t = np.linspace(0, 8, 161)
    ax.plot(t, t * np.exp(-t), color=style.BLACK, linewidth=2.4)
    _say(ax, "Jordan block: t·e⁻ᵗ", (1.0, np.exp(-1.0)), (10, 6))
    for eps, look in zip(_EPSILONS, style.SERIES, strict=False):
        y = np.exp(-t) * -np.expm1(-eps * t) / eps
        ax.plot(
            t,
            y,
            color=look["color"],
            linestyle=look["linestyle"],
            linewidth=1.5,
            label=f"ε = {eps:g}",
        )
    ax.set(xlim=(0, 8), ylim=(0, 0.45))
    ax.legend(loc="upper right")
    style.label(ax, x="time in seconds", y=r"$(e^{-t} - e^{-(1+\epsilon)t})\,/\,\epsilon$")
    return figure


def describe_jordan_limit() -> str:
    """Peak heights on the way to the limit."""
    t = np.linspace(0, 8, 1601)
    peaks = [float((np.exp(-t) * -np.expm1(-eps * t) / eps).max()) for eps in _EPSILONS]
    listed = ", ".join(f"{p:.3f} at ε = {e:g}" for p, e in zip(peaks, _EPSILONS, strict=True))
    return (
        f"The scaled difference of two decays, with poles −1 and −(1+ε), peaks at {listed}; as ε "
        f"shrinks it becomes t·e⁻ᵗ, the response of a Jordan block, which peaks at {np.exp(-1):.3f}."
    )


# --------------------------------------------------------------------------- 5.8 kernels and the FFT

LAYERS: dict[str, tuple[np.ndarray, np.ndarray]] = {  # poles a, and c·b of each
    "one decay": (np.array([-0.5 + 0j]), np.array([0.5 + 0j])),
    "difference of two": (np.array([-0.25 + 0j, -1.0 + 0j]), np.array([0.5 + 0j, -0.5 + 0j])),
    "oscillating pair": (np.array([-0.2 + 2j, -0.2 - 2j]), np.array([0.5 + 0j, 0.5 + 0j])),
}
_LAGS = 48


def _layer_kernel(layer: str, dt: float) -> np.ndarray:
    a, weight = LAYERS[layer]
    a_bar, b_bar = ssm.discretize_zoh_diagonal(a, np.ones((len(a), 1)), dt)
    return ssm.kernel(a_bar, b_bar, weight[None, :], _LAGS)[:, 0, 0].real


def _envelope(layer: str, dt: float) -> np.ndarray:
    """The bound Σ |c b̄| |ā|^k on the kernel's size."""
    a, weight = LAYERS[layer]
    a_bar, b_bar = ssm.discretize_zoh_diagonal(a, np.ones((len(a), 1)), dt)
    return (abs(a_bar) ** np.arange(_LAGS)[:, None]) @ abs(weight * b_bar[:, 0])


@style.styled
def kernel_by_step(dt: float, layer: str) -> Figure:
    """The kernel of a small layer at one step, with the envelope that bounds it."""
    K, envelope, k = _layer_kernel(layer, dt), _envelope(layer, dt), np.arange(_LAGS)
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    ax.fill_between(k, -envelope, envelope, color="#e8eef4", linewidth=0)
    ax.plot(k, envelope, color=style.GREY, linestyle="--", linewidth=1)
    ax.plot(k, -envelope, color=style.GREY, linestyle="--", linewidth=1)
    ax.vlines(k, 0, K, color=style.BLUE, linewidth=1.4)
    ax.plot(k, K, color=style.BLUE, marker="o", markersize=4.5, ls="")
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.set(xlim=(-0.8, _LAGS - 0.2), ylim=(-1.12 * envelope[0], 1.12 * envelope[0]))
    _say(
        ax, "envelope", (0.98, 0.95), (0, 0), xycoords="axes fraction", ha="right", color="#555555"
    )
    style.label(ax, x=f"lag k in tokens of {dt:g} s", y="kernel $K_k$")
    return figure


def describe_kernel_by_step(dt: float, layer: str) -> str:
    """First value, largest value and where it is, and the slowest half-life."""
    K = _layer_kernel(layer, dt)
    peak = int(np.argmax(abs(K) > 0.999999 * abs(K).max()))
    slowest = float(ssm.half_life(LAYERS[layer][0], dt).max())
    return (
        f'Kernel of the layer "{layer}" at Δ = {dt:g} s: it starts at {K[0]:.3f} and is largest, '
        f"{K[peak]:.3f}, at lag {peak}. Its slowest mode has a half-life of {slowest:.3g} tokens."
    )


def wrapped(kernel: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What an FFT of the sequence's own length computes: a circular convolution (the bug)."""
    return np.fft.irfft(np.fft.rfft(kernel) * np.fft.rfft(x), len(x))


@style.styled
def wraparound(*, kernel: np.ndarray, x: np.ndarray) -> Figure:
    """Outputs by the padded FFT and by one without padding, for one-channel kernel and tokens (T,)."""
    right = ssm.causal_convolution(kernel[:, None, None], x[:, None])[:, 0]
    wrong, t = wrapped(kernel, x), np.arange(1, len(x) + 1)
    figure, axes = style.new_figure(4.1, rows=2, sharex=True, height_ratios=[1, 2])
    top, ax = axes[:, 0]
    top.bar(t, x, color=style.ORANGE, width=0.6)
    top.set_ylabel("tokens")
    for y, look, name in (
        (right, style.SERIES[0], "padded"),
        (wrong, style.SERIES[1], "not padded"),
    ):
        ax.plot(
            t, y, color=look["color"], linestyle=look["linestyle"], marker=look["marker"], markersize=4,
            linewidth=1.3, label=name,
        )  # fmt: skip
    ax.fill_between(t, right, wrong, color="#f6d9c6", zorder=0)
    ax.legend(loc="upper left")
    ax.set(xlim=(0.3, len(x) + 0.7))
    style.label(ax, x="token t", y="output $y_t$")
    return figure


def describe_wraparound(*, kernel: np.ndarray, x: np.ndarray) -> str:
    """The largest error, and the output before anything was written."""
    right = ssm.causal_convolution(kernel[:, None, None], x[:, None])[:, 0]
    wrong = wrapped(kernel, x)
    first = int(np.flatnonzero(x)[0]) + 1
    return (
        f"The first token that is not zero comes at t = {first}. Until then the padded FFT returns 0, but "
        f"the FFT without padding already returns {wrong[0]:.2f} at t = 1: the end of the sequence wraps "
        f"round into its beginning. The largest error is {np.abs(right - wrong).max():.2f}."
    )


# -------------------------------------------------------------------------------------- 5.9 the scan


@style.styled
def doubling(T: int) -> Figure:
    """Which pairs a doubling scan composes, level by level."""
    levels = int(np.ceil(np.log2(T)))
    figure, axes = style.new_figure(1.2 + 1.0 * levels)
    ax = axes[0, 0]
    for level in range(levels + 1):
        span, y = 2**level, -float(level)
        for t in range(1, T + 1):
            first = max(1, t - span + 1)
            done = first == 1
            ax.plot(
                t, y, marker="o", markersize=28 if T <= 8 else 13, color=style.SKY if done else "white",
                markeredgecolor=style.BLACK, markeredgewidth=1,
            )  # fmt: skip
            name = f"{t}" if first == t else f"{first}–{t}"
            ax.text(
                t, y, name, ha="center", va="center", fontsize=11.5 if T <= 8 else 6.5, zorder=4
            )
            if level and t - span // 2 >= 1:
                ax.add_patch(
                    FancyArrowPatch(
                        (t - span // 2, y + 1), (t, y), arrowstyle="-|>", mutation_scale=9, shrinkA=14,
                        shrinkB=14, color=style.VERMILION, linewidth=1.1,
                    )
                )  # fmt: skip
            if level:
                ax.plot([t, t], [y + 0.78, y + 0.22], color="#b0b0b0", linewidth=1, zorder=0)
    ax.set(xlim=(0.4, T + 0.6), ylim=(-levels - 0.5, 0.5))
    ax.set_yticks([-level for level in range(levels + 1)])
    ax.set_yticklabels([f"span {2**level}" for level in range(levels + 1)])
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.grid(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return figure


def describe_doubling(T: int) -> str:
    """Levels and compositions against the loop's."""
    levels = int(np.ceil(np.log2(T)))
    work = sum(T - 2**level for level in range(levels))
    return (
        f"A doubling scan over {T} tokens: {levels} levels, {work} compositions in all, where a loop does "
        f"{T - 1} one after another. A circle names the tokens whose updates it has composed; shaded ones "
        "reach back to token 1 and are finished."
    )


# Processor seconds of one thread on a server without GPU (AMD EPYC, 2 MB of second-level cache), the
# best of 8 to 300 runs; 16 inputs and outputs, 64 real modes, float32, as in the chapter's cell.
LENGTHS = (256, 2048, 16_384, 108_000)
MEASURED = {
    "loop": (0.0021, 0.017, 0.14, 1.1),
    "doubling scan": (0.00037, 0.0018, 0.030, 0.36),
    "chunks of 64": (0.0024, 0.0058, 0.013, 0.073),
}


@style.styled
def timings(
    *, lengths: Sequence[int] = LENGTHS, seconds: Mapping[str, Sequence[float]] = MEASURED
) -> Figure:
    """Seconds against the length of the sequence, one line a route."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    for (name, measured), look in zip(seconds.items(), style.SERIES, strict=False):
        ax.plot(
            lengths, measured, color=look["color"], linestyle=look["linestyle"], marker=look["marker"],
            label=name,
        )  # fmt: skip
    ax.set(xscale="log", yscale="log")
    ax.legend(loc="upper left")
    style.label(ax, x="tokens T", y="seconds")
    return figure


def _milliseconds(seconds: float) -> str:
    """Two digits, without an exponent."""
    return f"{float(f'{1000 * seconds:.2g}'):g} ms"


def describe_timings(
    *, lengths: Sequence[int] = LENGTHS, seconds: Mapping[str, Sequence[float]] = MEASURED
) -> str:
    """The times at the shortest and at the longest sequence."""
    ends = [
        f"{T:,} tokens: ".replace(",", " ")
        + ", ".join(f"{name} {_milliseconds(measured[at])}" for name, measured in seconds.items())
        for at, T in ((0, lengths[0]), (-1, lengths[-1]))
    ]
    return "Seconds for one sequence, by route, on logarithmic axes. " + "; ".join(ends) + "."
