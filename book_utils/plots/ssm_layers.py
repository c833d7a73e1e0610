"""Figures of the chapter "Structured and selective recurrences"."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import hippo, ssm, structured
from . import style

# ---------------------------------------------------------------------- 6.1 what HiPPO remembers

LENGTH = 240  # tokens of the signal
TIME_CONSTANT = 30.0  # tokens in which LagT's weight falls by e
MEASURES = ("LegS: all alike", "LagT: mostly recent")
SIZES = (2, 4, 8, 16, 32, 64)


def signal() -> np.ndarray:
    """Distance to the mug in metres, token by token: smooth wandering, with one quick dash."""
    t = np.arange(LENGTH) / LENGTH
    wander = 2 + 0.8 * np.sin(2 * np.pi * (1.3 * t + 0.1)) + 0.4 * np.sin(2 * np.pi * (4.1 * t))
    return wander - 1.1 * np.exp(-(((t - 0.35) / 0.02) ** 2))


@functools.cache
def _remembered(N: int, measure: str) -> np.ndarray:
    """The signal as read back from the last state, at the middle of every token."""
    f, middle = signal(), np.arange(LENGTH) + 0.5
    if measure == MEASURES[0]:
        return hippo.legs_reconstruction(hippo.legs_states(f, N)[-1], middle / LENGTH)
    age = (LENGTH - middle) / TIME_CONSTANT
    return hippo.lagt_reconstruction(hippo.lagt_states(f, N, TIME_CONSTANT)[-1], age)


def hippo_errors(N: int, measure: str) -> tuple[float, float]:
    """Root mean squared error of the memory over the first half and over the last 30 tokens."""
    gap = _remembered(N, measure) - signal()
    old, recent = gap[: LENGTH // 2], gap[-30:]
    return float(np.sqrt((old**2).mean())), float(np.sqrt((recent**2).mean()))


@style.styled
def hippo_memory(N: int, measure: str) -> Figure:
    """A signal and what N numbers remember of it, under either measure."""
    figure, axes = style.new_figure(4.3, rows=2, sharex=True, height_ratios=[3.2, 1])
    top, bottom = axes[:, 0]
    t = np.arange(LENGTH) + 0.5
    top.plot(t, signal(), color=style.GREY, linewidth=3, alpha=0.55, label="what happened")
    top.plot(
        t, _remembered(N, measure), color=style.BLUE, linestyle="--", label=f"read from {N} numbers"
    )
    top.set(ylim=(-0.5, 4.4), ylabel="distance, m")
    top.legend(loc="upper left", ncols=2, bbox_to_anchor=(-0.02, 1.16), columnspacing=1.2)
    weight = np.ones(LENGTH) if measure == MEASURES[0] else np.exp((t - LENGTH) / TIME_CONSTANT)
    bottom.fill_between(t, weight, color=style.ORANGE, alpha=0.6)
    bottom.set(ylim=(0, 1.15), yticks=[0, 1], xlim=(0, LENGTH))
    style.label(bottom, x="token (now is on the right)", y="weight")
    return figure


def describe_hippo_memory(N: int, measure: str) -> str:
    """The errors of the frame, old and recent."""
    old, recent = (min(error, 99.0) for error in hippo_errors(N, measure))
    far = "over 10 m" if old > 10 else f"{old:.2f} m"
    return (
        f"{measure.split(':')[0]} with {N} numbers: reading the signal back from the state misses it by "
        f"{far} (root mean square) over the older half and by {recent:.2f} m over the last 30 tokens."
    )


# ------------------------------------------------------------- 6.2 without 1/t, and without P

_CURVES = (0, 1, 3)


@style.styled
def warped_basis() -> Figure:
    """Weights that LegS and its time-invariant twin put on the past, for three coefficients."""
    figure, axes = style.new_figure(4.8, rows=2)
    top, bottom = axes[:, 0]
    x, age = np.linspace(0, 1, 300), np.linspace(0, 6, 300)
    uniform = hippo.legs_basis(4, x)
    warped = hippo.legs_basis(4, np.exp(-age)) * np.exp(-age)[:, None]
    for n, look in zip(_CURVES, style.SERIES, strict=False):
        how = {"color": look["color"], "linestyle": look["linestyle"], "label": f"$c_{n}$"}
        top.plot(-10 * (1 - x), uniform[:, n], **how)
        bottom.plot(-age, warped[:, n], **how)
    style.label(top, x="minutes ago, if it began ten minutes ago", y="weight")
    top.set_title("with 1/t: the ruler grows with the past", loc="left")
    style.label(bottom, x="seconds ago (A per second)", y="weight")
    bottom.set_title("without: the ruler is bent, once and for all", loc="left")
    top.legend(loc="upper center", ncols=3)
    return figure


def describe_warped_basis() -> str:
    """What the two panels show."""
    return (
        "Weights with which three coefficients see the past. With the factor 1/t they are Legendre "
        "polynomials stretched over everything seen so far, as strong at its beginning as at its end. "
        "Without it they are the same polynomials squeezed by an exponential: 3 seconds back the first "
        f"one has fallen to {np.exp(-3.0):.2f} of its present weight, however long the robot has run."
    )


@style.styled
def s4d_frequencies(n: int = 32) -> Figure:
    """Imaginary parts of the poles of three starting points of S4D."""
    figure, axes = style.new_figure(3.6)
    ax, k = axes[0, 0], np.arange(1, n + 1)
    for init, look, name in zip(
        ("legs", "inv", "lin"),
        style.SERIES,
        ("A + PPᵀ (exact)", "S4D-Inv", "S4D-Lin"),
        strict=False,
    ):
        poles = np.sort(structured.s4d_poles(n, init).imag)
        ax.plot(
            k, np.where(poles > 0, poles, np.nan), color=look["color"], linestyle=look["linestyle"],
            marker=look["marker"], markersize=4, label=name,
        )  # fmt: skip
    ax.set(yscale="log", ylim=(0.15, 3000))
    ax.legend(loc="upper left")
    style.label(ax, x="mode, slowest first", y="radians per second")
    return figure


def describe_s4d_frequencies(n: int = 32) -> str:
    """The fastest mode of each."""
    fastest = {init: structured.s4d_poles(n, init).imag.max() for init in structured.INITS}
    return (
        f"Frequencies of {n} modes; every one decays alike, with real part −1/2. The fastest turns at "
        f"{fastest['legs']:.0f} radians a second for A + PPᵀ, {fastest['inv']:.0f} for S4D-Inv and "
        f"{fastest['lin']:.0f} for S4D-Lin, whose frequencies are evenly spaced."
    )


# ----------------------------------------------------------------------- 6.4 selection

MUG, DUST_TOKENS = 6, 40
STEPS = (0.001, 0.01, 0.1, 0.5, 1.0, 3.0)


def shares(dt_mug: float, dt_dust: float) -> tuple[np.ndarray, np.ndarray]:
    """What the state holds of the mug and of the dust after each token, for A = −1, exact writes.

    The mug is one token of size 1, the dust has random sign and size 1 at every other token.
    """
    x = np.random.default_rng(4).choice([-1.0, 1.0], DUST_TOKENS)
    mug = np.zeros(DUST_TOKENS)
    x[MUG], mug[MUG] = 0.0, 1.0
    dt = np.full(DUST_TOKENS, dt_dust)
    dt[MUG] = dt_mug
    keep, write = np.exp(-dt)[:, None], -np.expm1(-dt)[:, None]
    of_mug, of_dust = (ssm.scan(keep, write * part[:, None])[:, 0] for part in (mug, x))
    return of_mug, of_dust


@style.styled
def selection(dt_mug: float, dt_dust: float) -> Figure:
    """One state fed a mug and dust, with a step for each."""
    of_mug, of_dust = shares(dt_mug, dt_dust)
    figure, axes = style.new_figure(3.7)
    ax, t = axes[0, 0], np.arange(1, DUST_TOKENS + 1)
    ax.plot(t, of_dust, color=style.VERMILION, linestyle="--", marker="s", label="of the dust")
    ax.plot(t, of_mug, color=style.BLUE, marker="o", label="of the mug")
    ax.axhline(0, color=style.GREY, linewidth=0.8)
    ax.axvline(MUG + 1, color=style.ORANGE, linewidth=1.5)
    ax.annotate("mug", (MUG + 1, 1.05), xytext=(5, 0), textcoords="offset points", va="center")
    ax.set(ylim=(-1.1, 1.2), xlim=(0, DUST_TOKENS + 0.5))
    ax.legend(loc="lower left", ncols=2, bbox_to_anchor=(-0.02, 1.0))
    style.label(ax, x="token", y="what the state holds")
    return figure


def describe_selection(dt_mug: float, dt_dust: float) -> str:
    """The mug's and the dust's share at the end."""
    of_mug, of_dust = shares(dt_mug, dt_dust)
    after = slice(MUG + 1, None)
    return (
        f"Δ = {dt_mug:g} for the mug and {dt_dust:g} for dust. The mug is written with "
        f"{of_mug[MUG]:.3f} and {of_mug[-1]:.3f} of it is left {DUST_TOKENS - MUG - 1} tokens later, "
        f"while the dust in the state reaches {abs(of_dust[after]).max():.3f}."
    )


@style.styled
def write_errors(
    *, sizes: Sequence[float], raw: np.ndarray, steady: np.ndarray, varying: np.ndarray
) -> Figure:
    """Relative difference of outputs under Mamba's write and the exact one; rows are seeds."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    floor = 1e-5
    for values, look, name in (
        (raw, style.SERIES[0], "as they are"),
        (varying, style.SERIES[1], "refitted B, Δ varies"),
        (steady, style.SERIES[2], "refitted B, Δ constant"),
    ):
        shown = np.maximum(values, floor)
        how = {"color": look["color"], "linestyle": look["linestyle"]}
        ax.plot(sizes, np.median(shown, 0), marker=look["marker"], label=name, **how)
        ax.fill_between(sizes, shown.min(0), shown.max(0), color=look["color"], alpha=0.2, lw=0)
    ax.set(xscale="log", yscale="log", ylim=(0.7 * floor, 8))
    ax.legend(loc="upper left")
    if steady.max() < floor:
        ax.annotate(
            "below 1e−5, off the chart", (sizes[-1], floor), xytext=(0, 7),
            textcoords="offset points", ha="right", color=style.GREEN,
        )  # fmt: skip
    style.label(ax, x="typical step |a|Δ", y="relative difference of outputs")
    return figure


def describe_write_errors(
    *, sizes: Sequence[float], raw: np.ndarray, steady: np.ndarray, varying: np.ndarray
) -> str:
    """The median differences at the smallest, middle and largest step."""
    at = (0, len(sizes) // 2, len(sizes) - 1)
    middle = ", ".join(f"{np.median(raw[:, i]):.1g} at |a|Δ = {sizes[i]:g}" for i in at)
    return (
        f"How far the outputs of ΔB and of the exact hold lie apart: {middle}. With one constant step a "
        "refitted B removes the difference altogether; with a step that varies from token to token it "
        f"leaves {np.median(varying[:, at[1]]):.1g} and {np.median(varying[:, at[2]]):.1g} at the two "
        "larger steps."
    )


@style.styled
def copying(
    *,
    lengths: Sequence[int],
    trained: int,
    accuracy: Mapping[str, np.ndarray],
    tokens: np.ndarray,
    steps: np.ndarray,
) -> Figure:
    """Accuracy of both recurrences against the number of tokens, and the steps of an example."""
    figure, axes = style.new_figure(5.6, rows=2, height_ratios=[1.35, 1])
    top, bottom = axes[:, 0]
    for (name, values), look in zip(accuracy.items(), style.SERIES, strict=False):
        top.plot(
            lengths, values.T, color=look["color"], linestyle=look["linestyle"], linewidth=1,
            marker=look["marker"], alpha=0.8,
        )  # fmt: skip
        top.annotate(
            name, (lengths[1], float(values[:, 1].mean())), xytext=(0, -16),
            textcoords="offset points", color=look["color"], ha="center",
        )  # fmt: skip
    top.axhline(0.625, color=style.BLACK, linewidth=1, linestyle=":")
    top.axhline(0.25, color=style.BLACK, linewidth=1, linestyle=":")
    for level, text in ((0.625, "knows which, not in what order"), (0.25, "guessing")):
        top.annotate(
            text, (lengths[-1], level), xytext=(0, 4), textcoords="offset points", ha="right",
            fontsize=10,
        )  # fmt: skip
    top.axvline(trained, color=style.GREY, linewidth=1)
    top.set(xscale="log", xticks=lengths, xticklabels=[str(n) for n in lengths], ylim=(0.15, 1.05))
    top.minorticks_off()
    style.label(top, x="tokens before the requests (trained at the grey line)", y="right answers")
    _example_steps(bottom, tokens, steps)
    return figure


def _example_steps(ax: Axes, tokens: np.ndarray, steps: np.ndarray) -> None:
    t = np.arange(1, len(tokens) + 1)
    last = tokens.max()
    for kind, colour, hatch, name in (
        (tokens == 0, style.SKY, "", "blank"),
        ((tokens > 0) & (tokens < last), style.ORANGE, "//", "symbol"),
        (tokens == last, style.GREEN, "..", "request"),
    ):
        ax.bar(t[kind], steps[kind], color=colour, hatch=hatch, edgecolor="white", label=name)
    ax.legend(loc="upper left", ncols=3)
    ax.set(ylim=(0, 1.45 * steps.max()), xlim=(0.4, len(tokens) + 0.6))
    style.label(ax, x="token of an example", y="typical step Δ")


# ----------------------------------------------------------------------- 6.5 one matrix

KEYS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
WIDTHS = (8, 16, 32, 64)
VALUE_WIDTH, TRIALS = 8, 200


@functools.cache
def capacity(d_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Relative error, and share of nearest-value answers that are right, for each of `KEYS`.

    Random unit keys and random signs as values, `TRIALS` memories for every number of keys.
    """
    rng = np.random.default_rng(0)
    errors, right = [], []
    for n in KEYS:
        k = rng.normal(size=(TRIALS, n, d_k))
        k /= np.linalg.norm(k, axis=-1, keepdims=True)
        v = rng.choice([-1.0, 1.0], (TRIALS, n, VALUE_WIDTH))
        recalled = k @ (k.swapaxes(1, 2) @ v)  # read S = Σ k vᵀ with every key
        errors.append(np.sqrt(((recalled - v) ** 2).mean()))
        right.append((np.sign(recalled) == v).all(-1).mean())
    return np.array(errors), np.array(right)


@functools.cache
def _one_recall(n: int, d_k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    k = rng.normal(size=(max(KEYS), d_k))[:n]
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v = rng.choice([-1.0, 1.0], (max(KEYS), VALUE_WIDTH))[:n]
    return v[0], k[0] @ (k.T @ v)


@style.styled
def associative(n: int, d_k: int) -> Figure:
    """One value read back among n, and the mean error against n."""
    figure, axes = style.new_figure(5.5, rows=2, height_ratios=[1, 1.25])
    top, bottom = axes[:, 0]
    stored, recalled = _one_recall(n, d_k)
    place = np.arange(1, VALUE_WIDTH + 1)
    top.bar(place - 0.2, stored, 0.36, color=style.GREY, label="stored")
    top.bar(place + 0.2, recalled, 0.36, color=style.BLUE, hatch="//", edgecolor="white",
            label="read back")  # fmt: skip
    top.axhline(0, color=style.BLACK, linewidth=0.8)
    top.set(ylim=(-4.2, 4.2), xticks=place)
    top.legend(loc="lower left", ncols=2, bbox_to_anchor=(-0.02, 1.0))
    style.label(top, x="entry of the first value", y="")
    errors, right = capacity(d_k)
    line = np.linspace(1, 64, 100)
    bottom.plot(line, np.sqrt((line - 1) / d_k), color=style.GREY, linewidth=1.2)
    bottom.plot(KEYS, errors, color=style.BLUE, marker="o", linestyle="", label="error")
    bottom.plot(KEYS, right, color=style.VERMILION, marker="s", linestyle="--",
                label="all signs right")  # fmt: skip
    bottom.axvline(n, color=style.ORANGE, linewidth=1.5)
    bottom.axvline(d_k, color=style.GREY, linewidth=1, linestyle=":")
    bottom.annotate("$d_k$", (d_k, 2.7), xytext=(-4, 0), textcoords="offset points", ha="right")
    bottom.set(ylim=(0, 2.95), xlim=(0, 66))
    bottom.legend(loc="upper center", ncols=2)
    style.label(bottom, x="keys stored, n (curve: √((n − 1)/d_k))", y="relative")
    return figure


def describe_associative(n: int, d_k: int) -> str:
    """Error and right answers at n."""
    errors, right = capacity(d_k)
    i = KEYS.index(n)
    return (
        f"{n} random keys in a matrix with d_k = {d_k}. Reading a value back misses it by "
        f"{errors[i]:.2f} of its size (√((n − 1)/d_k) = {np.sqrt((n - 1) / d_k):.2f}), and "
        f"{100 * right[i]:.0f} % of the values come back with all eight signs right."
    )


# ------------------------------------------------------------------------- 6.6 who still hears


@style.styled
def reach(*, changes: Mapping[str, np.ndarray], block: int) -> Figure:
    """Which tokens of the past can change the last output, one row a model."""
    figure, axes = style.new_figure(0.5 * len(changes) + 1.25)
    ax = axes[0, 0]
    ages = np.arange(len(next(iter(changes.values()))))[::-1]
    for row, heard in enumerate(changes.values()):
        y = np.full(len(ages), -row)
        ax.plot(ages[heard], y[heard], color=style.BLUE, marker="s", markersize=7, linestyle="")
        ax.plot(ages[~heard], y[~heard], color=style.GREY, marker="x", markersize=5, linestyle="")
    for edge in range(0, len(ages) + 1, block):
        ax.axvline(edge - 0.5, color="#d0d0d0", linewidth=0.8, zorder=0)
    ax.set(
        yticks=-np.arange(len(changes)), yticklabels=list(changes), ylim=(-len(changes) + 0.4, 0.6)
    )
    ax.set_xlim(len(ages) - 0.4, -0.6)
    ax.grid(False)
    ax.set_xlabel("age of the token")
    return figure


def describe_reach(*, changes: Mapping[str, np.ndarray], block: int) -> str:
    """How far back each model hears."""
    oldest = {name: int(heard[::-1].nonzero()[0].max()) for name, heard in changes.items()}
    parts = "; ".join(f"{name}: {age}" for name, age in oldest.items())
    return (
        f"Squares: changing this token changes the last output; crosses: it does not. Blocks have {block} "
        f"tokens. Age of the oldest token that is heard: {parts}."
    )


def describe_copying(
    *,
    lengths: Sequence[int],
    trained: int,
    accuracy: Mapping[str, np.ndarray],
    tokens: np.ndarray,
    steps: np.ndarray,
) -> str:
    """What holds in every run, without digits that training would change from machine to machine."""
    at = list(lengths).index(trained)
    low = {name: values[:, at].min() for name, values in accuracy.items()}
    high = {name: values[:, at].max() for name, values in accuracy.items()}
    good = [name for name in accuracy if low[name] > 0.9]
    poor = [name for name in accuracy if high[name] < 0.8]
    seeds = len(next(iter(accuracy.values())))
    return (
        f"{seeds} seeds of each model. At the length they were trained on, {trained} tokens, every seed "
        f"above 90 %: {', '.join(good) or 'none'}; every seed below 80 %: {', '.join(poor) or 'none'}. "
        f"Below, the selective layer's typical step for each of the {len(tokens)} tokens of an example."
    )
