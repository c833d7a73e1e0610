"""Figures of the chapter "Where is the red object?"."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..lookup import match_weight, required_margin, retained_share, window_weight
from . import style

NAMES = ("red", "green", "blue")
VALUES = np.array([9.0, 2.0, 7.0])
LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
TOKEN_COLOURS = (style.VERMILION, style.GREEN, style.BLUE)

QUERIES = {
    "red": np.array([1.0, 0.0, 0.0]),
    "red, asked ten times louder": np.array([10.0, 0.0, 0.0]),
    "between red and blue": np.array([10.0, 0.0, 10.0]),
    "nothing (zero query)": np.array([0.0, 0.0, 0.0]),
    "not red": np.array([-1.0, 0.0, 0.0]),
}


def _answer(query: str) -> tuple[np.ndarray, float]:
    """Weights and readout for a named query; the keys are the identity matrix, d_k = 3."""
    scores = QUERIES[query] / np.sqrt(3)
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    return weights, float(weights @ VALUES)


@style.styled
def lookup(query: str) -> Figure:
    """The weights that a query gives to the three tokens, and the position read out."""
    weights, readout = _answer(query)
    figure, axes = style.new_figure(4.0, rows=2, height_ratios=[2.2, 1])
    bars, line = axes[:, 0]
    for i, name in enumerate(NAMES):
        bars.bar(i, weights[i], color=TOKEN_COLOURS[i], width=0.6)
        bars.annotate(
            f"{weights[i]:.3f}", (i, weights[i]), ha="center", va="bottom", textcoords="offset points",
            xytext=(0, 3),
        )  # fmt: skip
        line.plot(
            VALUES[i], 0, marker="os^"[i], color=TOKEN_COLOURS[i], markersize=11, clip_on=False
        )
        line.annotate(
            name,
            (VALUES[i], 0),
            xytext=(0, 12),
            textcoords="offset points",
            ha="center",
            bbox=LABEL,
        )
    bars.set(xticks=range(3), xticklabels=NAMES, ylim=(0, 1.15), ylabel="weight")
    bars.grid(axis="x", visible=False)
    line.axvline(readout, color=style.BLACK, linestyle="--")
    left = readout < 7
    line.annotate(
        f"readout {readout:.2f}", (readout, -0.8), xytext=(6 if left else -6, 0),
        textcoords="offset points", ha="left" if left else "right", va="center",
    )  # fmt: skip
    line.set(xlim=(0, 10), ylim=(-1.2, 1.4), yticks=[], xlabel="position along the shelf")
    line.spines["left"].set_visible(False)
    return figure


def describe_lookup(query: str) -> str:
    """The weights and the readout in words."""
    weights, readout = _answer(query)
    shares = ", ".join(f"{name} {w:.3f}" for name, w in zip(NAMES, weights, strict=True))
    return f"Query: {query}. Weights: {shares}. The position read out is {readout:.2f}."


@style.styled
def margin(margin: float, n: int) -> Figure:
    """Weight on the match against the margin, for several numbers of tokens; one point marked."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    x = np.linspace(0, 14, 281)
    for count, look in zip((3, 10, 100, 1000), style.SERIES, strict=False):
        chosen = count == n
        curve = match_weight(x, count)
        ax.plot(
            x, curve, color=look["color"], linestyle=look["linestyle"],
            linewidth=3 if chosen else 1.6, alpha=1 if chosen else 0.75,
        )  # fmt: skip
        level = {3: 0.72, 10: 0.55}.get(count, 0.45)
        at = float(required_margin(level, count))
        ax.annotate(
            f"n = {count:,}".replace(",", " "), (at, level), xytext=(6, -9), textcoords="offset points",
            color=look["color"], fontweight="bold" if chosen else "normal", bbox=LABEL,
        )  # fmt: skip
    needed = required_margin(0.99, n)
    ax.plot([needed, needed], [0, 0.99], color=style.GREY, linestyle=":")
    ax.annotate("99 %", (needed, 0.02), xytext=(4, 0), textcoords="offset points", color="#555555")
    weight = match_weight(margin, n)
    ax.plot(margin, weight, marker="o", markersize=11, color=style.BLACK, zorder=5)
    ax.set(xlim=(0, 14), ylim=(0, 1.04))
    style.label(ax, x="margin m of the match over every other token", y="weight on the match")
    right = ax.secondary_yaxis("right", functions=(lambda w: 4.5 + 4.5 * w, lambda v: v / 4.5 - 1))
    right.set_ylabel("readout (red is at 9.0)")
    return figure


def describe_margin(margin: float, n: int) -> str:
    """Weight, readout and the margin that 99 % would need."""
    weight = match_weight(margin, n)
    return (
        f"With a margin of {margin:g} among {n} tokens the match gets weight {weight:.3f} and the "
        f"readout is {4.5 + 4.5 * weight:.2f} (red is at 9). A weight of 0.99 needs a margin of "
        f"{required_margin(0.99, n):.2f}."
    )


@style.styled
def learning(match: np.ndarray, by_hand: float) -> Figure:
    """Weight left for the wrong tokens while training, a line a seed; `match` is (seeds, steps)."""
    figure, axes = style.new_figure(3.4)
    ax = axes[0, 0]
    steps = np.arange(1, match.shape[1] + 1)
    for seed, curve in enumerate(match):
        look = style.SERIES[seed % len(style.SERIES)]
        ax.plot(
            steps, 1 - curve, color=look["color"], linestyle=look["linestyle"], label=f"seed {seed}"
        )
    ax.axhline(1 - by_hand, color=style.BLACK, linewidth=1.2)
    ax.annotate(
        f"one-hot vectors: {1 - by_hand:.2f}", (steps[-1], 1 - by_hand), xytext=(0, 5), ha="right",
        textcoords="offset points",
    )  # fmt: skip
    ax.set(xlim=(0, steps[-1]), yscale="log", ylim=(2e-3, 1))
    ax.legend(loc="upper right", ncols=2, bbox_to_anchor=(1, 0.88))
    style.label(ax, x="training step", y="weight on the wrong tokens")
    return figure


def describe_learning(match: np.ndarray, by_hand: float) -> str:
    """Where the curves start and end, in words that do not depend on the last digits."""
    passed = int((match > by_hand).argmax(axis=1).max())
    end = np.floor(100 * match[:, -1].min()) / 100
    return (
        f"Weight that the two wrong tokens still get while training from {len(match)} random starts. Every "
        f"run begins near two thirds, falls below the {1 - by_hand:.2f} of the one-hot vectors within "
        f"{20 * (passed // 20 + 1)} steps, and ends below {1 - end:.2f}, still falling."
    )


AGES = (0, 1, 2, 4, 8, 16, 24, 31, 32, 48, 64)
WINDOW = 32
DECAYS = (0.5, 0.9, 0.99)


@style.styled
def age(age: int) -> Figure:
    """What is left of one write after `age` steps: attention over a window, and three decays."""
    figure, axes = style.new_figure(3.9)
    ax = axes[0, 0]
    steps = np.arange(65)
    attention = window_weight(steps, WINDOW, 0.99)
    black = style.BLACK
    ax.step(np.append(steps, 65), np.append(attention, 0), where="post", color=black, linewidth=2.4)
    ax.annotate("attention, window of 32", (32, 0.9), xytext=(6, 0), textcoords="offset points")
    for decay, look, (at, shift) in zip(
        DECAYS, style.SERIES, ((4, (7, 0)), (17, (10, 4)), (46, (0, 9))), strict=False
    ):
        ax.plot(
            steps, retained_share(decay, steps), color=look["color"], linestyle=look["linestyle"]
        )
        ax.annotate(
            f"decay {decay:g}", (at, retained_share(decay, at)), xytext=shift,
            textcoords="offset points", color=look["color"], bbox=LABEL,
        )  # fmt: skip
        ax.plot(
            age,
            retained_share(decay, age),
            marker=look["marker"],
            color=look["color"],
            markersize=9,
        )
    ax.plot(age, window_weight(age, WINDOW, 0.99), marker="X", color=black, markersize=10)
    ax.axvline(age, color=style.GREY, linewidth=1)
    ax.set(xlim=(0, 64.8), ylim=(-0.02, 1.04))
    style.label(
        ax, x="age of the red token (steps since it was seen)", y="share that reaches the readout"
    )
    return figure


def describe_age(age: int) -> str:
    """The four shares in words."""
    kept = f"weight {window_weight(age, WINDOW, 0.99):.2f}"
    attention = kept if age < WINDOW else "weight 0, since the token has left the window"
    shares = ", ".join(f"{a:g} keeps {_share_in_words(retained_share(a, age))}" for a in DECAYS)
    steps = "1 step" if age == 1 else f"{age} steps"
    return (
        f"The red token was seen {steps} ago. Attention over the last {WINDOW} tokens gives it "
        f"{attention}. Of the same write, a recurrence with decay {shares}."
    )


def _share_in_words(share: float) -> str:
    return "less than 0.001" if share < 0.001 else f"{share:.3f}"
