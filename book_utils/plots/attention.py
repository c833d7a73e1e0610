"""Figures of the chapter "Attention over trajectories"."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Polygon, Rectangle

from .._validate import finite_number, positive_int, positive_number
from ..attention import (
    MultiHeadAttention,
    causal_mask,
    effective_tokens,
    entropy,
    gradient_by_lag,
    softmax,
    softmax_jacobian,
)
from ..positions import frequencies, rotary, sinusoidal_positions
from . import style

Grid = np.ndarray
HIDDEN = "#d9d9d9"  # what a mask covers


def _array(x: Any) -> np.ndarray:
    return np.asarray(x.detach() if isinstance(x, torch.Tensor) else x, dtype=float)


def _numbered(names: Sequence[str]) -> list[str]:
    return [f"{i} {name}" for i, name in enumerate(names)]


def _index(name: str, value: int, size: int) -> int:
    if positive_int(name, value, minimum=0) >= size:
        raise ValueError(f"{name} must be below {size}, got {value}")
    return value


def _heat(axes: Axes, grid: Grid, *, low: float, high: float, text: bool = False) -> None:
    """Draw a matrix with row 0 on top, as it is written on paper."""
    axes.imshow(grid, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    axes.grid(False)
    for i, j in np.ndindex(grid.shape if text else (0, 0)):
        ink = "white" if grid[i, j] > low + 0.6 * (high - low) else "black"
        axes.text(j, i, f"{grid[i, j] + 0.0:.1f}", ha="center", va="center", color=ink)


def _cover_future(axes: Axes, T: int) -> None:
    """Paint over the cells that a causal mask hides."""
    for i in range(T - 1):
        axes.add_patch(Rectangle((i + 0.5, i - 0.5), T - 1 - i, 1, color=HIDDEN, linewidth=0))


# 1.2 — one map or two


@style.styled
def score_matrices(*, shared: Any, separate: Any, names: Sequence[str]) -> Figure:
    """Draw the scores of tokens with one map for both roles, and with two maps."""
    grids = (_array(shared), _array(separate))
    high = max(grid.max() for grid in grids)
    low = min(0.0, *(grid.min() for grid in grids))
    figure, axes = style.new_figure(3.3, cols=2, sharey=True)
    for ax, grid, title in zip(axes[0], grids, ("one map: $W_Q = W_K$", "two maps"), strict=True):
        _heat(ax, grid, low=low, high=high, text=True)
        style.label(ax, x="is found (key)", y="", title=title)
        ax.set(xticks=range(len(names)), yticks=range(len(names)))
        ax.set(xticklabels=names, yticklabels=names)
    axes[0, 0].set_ylabel("looks (query)")
    return figure


def describe_score_matrices(*, shared: Any, separate: Any, names: Sequence[str]) -> str:
    """Say how far each matrix is from symmetric."""
    gaps = []
    for grid in (_array(shared), _array(separate)):
        gap = np.abs(grid - grid.T)
        gaps.append((gap.max(), np.unravel_index(gap.argmax(), gap.shape), grid))
    largest, (i, j), grid = gaps[1]
    i, j = (i, j) if grid[i, j] >= grid[j, i] else (j, i)
    return (
        f"Scores of {len(names)} tokens. With one map for both roles the largest difference between "
        f"a score and its mirror image is {gaps[0][0]:.1f}; with two maps it is {largest:.1f}: "
        f"{names[i]} looks at {names[j]} with {grid[i, j]:.1f}, "
        f"{names[j]} looks at {names[i]} with {grid[j, i] + 0.0:.1f}."
    )


# 1.3 — the softmax as a softened argmax

_TWO_SCORES = np.array([1.0, 0.4])


def _objective(w: np.ndarray, tau: float) -> np.ndarray:
    """w·s + τH(w) for two tokens, w being the weight of the first."""
    rows = torch.from_numpy(np.stack((w, 1 - w), axis=-1))
    return (rows.numpy() @ _TWO_SCORES) + tau * entropy(rows).numpy()


def _best_weight(tau: float) -> float:
    return float(softmax(torch.from_numpy(_TWO_SCORES / tau))[0])


@style.styled
def soft_argmax(*, tau: float) -> Figure:
    """Draw what the weights maximise: expected score plus τ times entropy, for two tokens."""
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    w = np.linspace(0, 1, 201)
    best = _best_weight(positive_number("tau", tau))
    peak = float(_objective(np.array([best]), tau)[0])
    hard, soft = style.SERIES[1], style.SERIES[0]
    ax.plot(w, _objective(w, 0.0), color=hard["color"], linestyle=hard["linestyle"])
    ax.plot(w, _objective(w, tau), color=soft["color"])
    ax.plot(1.0, 1.0, marker="s", color=hard["color"], markersize=8, clip_on=False)
    ax.plot(best, peak, marker="o", color=soft["color"], markersize=9, clip_on=False)
    ax.vlines(best, 0, peak, color=soft["color"], linewidth=1)
    ax.annotate("score alone", (0.25, 0.55), xytext=(0, -14), textcoords="offset points",
                color=hard["color"], va="center")  # fmt: skip
    ax.annotate(f"best w₁ = {best:.2f}", (best, peak), xytext=(0, 9), textcoords="offset points",
                ha="right" if best > 0.7 else "center", color=soft["color"])  # fmt: skip
    style.label(ax, x="weight w₁ of the token with score 1.0 (the other: 0.4)", y="w·s + τ H(w)")
    ax.set(xlim=(0, 1.005), ylim=(0, max(2.4, 1.1 * peak)))
    return figure


def describe_soft_argmax(*, tau: float) -> str:
    """Say where the maximum lies."""
    best = _best_weight(positive_number("tau", tau))
    return (
        f"Two tokens with scores 1.0 and 0.4, temperature τ = {tau:g}. Expected score plus τ times "
        f"entropy is largest at a weight of {best:.3f} on the better token, which is "
        f"its softmax weight; the score alone is largest at 1."
    )


# 1.4 — the convex hull

_CORNERS = np.array([[0.0, 0.0], [4.0, 0.6], [1.4, 3.2]])
_BLOCK_ADDS = np.array([1.7, 1.1])  # a residual for the picture: outside the head, outside the hull


def _triangle_outputs(sharpness: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights (24, 3) and outputs (24, 2) of queries that point all round the clock."""
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    queries = np.stack((np.cos(angles), np.sin(angles)), axis=-1)
    keys = _CORNERS - _CORNERS.mean(axis=0)
    weights = softmax(
        torch.from_numpy(finite_number("sharpness", sharpness) * queries @ keys.T)
    ).numpy()
    return weights, weights @ _CORNERS


@style.styled
def value_triangle(*, sharpness: float) -> Figure:
    """Draw the triangle of three values, and outputs of a head inside it."""
    _, outputs = _triangle_outputs(sharpness)
    figure, axes = style.new_figure(3.7)
    ax = axes[0, 0]
    ax.add_patch(Polygon(_CORNERS, facecolor="#e8f1f8", edgecolor=style.BLUE, linewidth=1.5))
    ax.plot(*outputs.T, "o", color=style.BLUE, markersize=6)
    ax.plot(*_CORNERS.T, "s", color=style.BLACK, markersize=8)
    for name, corner, shift in zip(
        ("v₁", "v₂", "v₃"), _CORNERS, ((-8, -16), (10, -4), (-8, 10)), strict=True
    ):
        ax.annotate(name, corner, xytext=shift, textcoords="offset points")
    start = outputs[1]
    ax.annotate("", start + _BLOCK_ADDS, start,
                arrowprops={"arrowstyle": "->", "color": style.VERMILION, "lw": 1.8})  # fmt: skip
    ax.plot(*(start + _BLOCK_ADDS), "X", color=style.VERMILION, markersize=9)
    ax.annotate("a whole block\nadds to it", start + _BLOCK_ADDS, xytext=(9, 0),
                textcoords="offset points", color=style.VERMILION, va="center")  # fmt: skip
    style.label(ax, x="first coordinate", y="second coordinate")
    ax.set(xlim=(-0.7, 7.6), ylim=(-0.6, 3.8), aspect="equal")
    return figure


def describe_value_triangle(*, sharpness: float) -> str:
    """Say how far the outputs reach towards the corners."""
    weights, _ = _triangle_outputs(sharpness)
    return (
        f"Outputs (dots) of one head for 24 queries over three values (squares), scores multiplied "
        f"by {sharpness:g}. All lie inside the triangle of the values; the largest weight that any "
        f"query gives is {weights.max():.2f}. The arrow shows what follows in a block: a residual "
        f"takes the token out of the triangle."
    )


# 1.5 — why the square root of d_k

_QUERIES, _KEYS, _WIDEST = 200, 16, 1024


@functools.lru_cache(maxsize=1)
def _components() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((_QUERIES, _WIDEST), dtype=np.float32)
    k = rng.standard_normal((_QUERIES, _KEYS, _WIDEST), dtype=np.float32)
    return q, k


@functools.lru_cache(maxsize=32)
def saturation_numbers(d_k: int) -> dict[str, dict[str, Any]]:
    """Scores of 200 random queries over 16 keys each, and what their softmax is like.

    Components are independent, with mean 0 and variance 1. Returns, under "raw" and "scaled", the
    scores (200, 16), their standard deviation, the weights sorted from largest to smallest and
    averaged over queries (16,), and averages over queries of the entropy in nats, of exp(entropy)
    and of the Frobenius norm of the softmax Jacobian.
    """
    if positive_int("d_k", d_k) > _WIDEST:
        raise ValueError(f"d_k must be at most {_WIDEST}, got {d_k}")
    q, k = _components()
    raw = np.einsum("qd,qkd->qk", q[:, :d_k], k[:, :, :d_k]).astype(float)
    numbers = {}
    for name, scores in (("raw", raw), ("scaled", raw / np.sqrt(d_k))):
        weights = softmax(torch.from_numpy(scores))
        norm = torch.linalg.matrix_norm(softmax_jacobian(weights))
        numbers[name] = {
            "scores": scores,
            "deviation": float(scores.std()),
            "weights": weights.sort(dim=-1, descending=True).values.mean(dim=0).numpy(),
            "entropy": float(entropy(weights).mean()),
            "effective": float(effective_tokens(weights).mean()),
            "jacobian": float(norm.mean()),
        }
    return numbers


@style.styled
def saturation(*, d_k: int) -> Figure:
    """Draw scores and softmax weights without and with the factor 1/√d_k."""
    numbers = saturation_numbers(d_k)
    figure, axes = style.new_figure(5.0, rows=2, cols=2, sharex="row", sharey="row")
    reach = 3.3 * max(np.sqrt(d_k), 1.5)
    edges = np.linspace(-reach, reach, 62)
    titles = {"raw": "$q^\\top k$", "scaled": "$q^\\top k\\,/\\sqrt{d_k}$"}
    looks = {"raw": style.SERIES[1], "scaled": style.SERIES[0]}
    for column, (name, one) in enumerate(numbers.items()):
        top, bottom = axes[:, column]
        counts, _ = np.histogram(one["scores"], edges)
        top.stairs(counts / counts.max(), edges, fill=True, color=looks[name]["color"])
        style.label(top, x="score", y="" if column else "share (peak = 1)", title=titles[name])
        corner = {"ha": "right", "va": "top"}
        top.text(0.98, 0.97, f"std {one['deviation']:.1f}", transform=top.transAxes, **corner)
        top.set(ylim=(0, 1.28), yticks=(0, 1))
        top.locator_params(axis="x", nbins=4)
        style.bars(bottom, np.arange(1, _KEYS + 1), one["weights"], color=looks[name]["color"])
        style.label(bottom, x="key, best first", y="" if column else "mean weight")
        numbers_of_row = (
            f"entropy {one['entropy']:.2f}",
            f"tokens {one['effective']:.1f}",
            f"‖J‖ {one['jacobian']:.2f}",
        )
        bottom.text(0.98, 0.97, "\n".join(numbers_of_row), transform=bottom.transAxes, **corner)
        bottom.set(ylim=(0, 1.02), xticks=(1, 8, 16), yticks=(0, 0.5, 1))
    return figure


def describe_saturation(*, d_k: int) -> str:
    """Give the numbers of both sides."""
    sides = []
    for name, one in saturation_numbers(d_k).items():
        intro = "Unscaled" if name == "raw" else "divided by √d_k"
        sides.append(
            f"{intro}, scores have standard deviation {one['deviation']:.1f}, the best key gets "
            f"{one['weights'][0]:.2f}, entropy is {one['entropy']:.2f} nats "
            f"({one['effective']:.1f} effective tokens) and the Jacobian's norm is "
            f"{one['jacobian']:.2f}"
        )
    return f"d_k = {d_k}, 16 keys, averages of 200 queries. {'; '.join(sides)}."


# 1.7 — content against a fixed decay

_LAGS = 12
_Q_NOISE, _R_NOISE = 0.2, 1.0


def kalman_weights(lags: int) -> np.ndarray:
    """Weigh past readings as a steady Kalman filter of a random walk does: K(1 − K)^lag.

    The walk's steps have variance 0.2, the readings' noise variance 1.
    """
    predicted = (_Q_NOISE + np.sqrt(_Q_NOISE**2 + 4 * _Q_NOISE * _R_NOISE)) / 2
    gain = predicted / (predicted + _R_NOISE)
    return gain * (1 - gain) ** np.arange(lags)


def _content_weights(lag: int) -> np.ndarray:
    scores = np.zeros(_LAGS)
    scores[_index("lag", lag, _LAGS)] = 4.0
    return softmax(torch.from_numpy(scores)).numpy()


@style.styled
def content_addressing(*, lag: int) -> Figure:
    """Draw attention weights by lag beside those of a steady Kalman filter."""
    lags = np.arange(_LAGS)
    figure, axes = style.new_figure(3.6)
    ax = axes[0, 0]
    weights = _content_weights(lag)
    ax.bar(lags, weights, width=0.6, color=style.SKY, edgecolor=style.BLUE, label="attention")
    look: dict[str, Any] = dict(style.SERIES[1])
    ax.plot(lags, kalman_weights(_LAGS), **look, label="steady Kalman filter")
    ax.annotate("mug", (lag, weights[lag]), xytext=(0, 4), textcoords="offset points", ha="center")
    figure.legend(loc="outside upper center", ncols=2)
    style.label(ax, x="lag of the token (0 = now)", y="weight")
    ax.set(ylim=(0, 1), xticks=lags)
    return figure


def describe_content_addressing(*, lag: int) -> str:
    """Give both weights at the matching token's lag."""
    return (
        f"The token that matches the query stands at lag {lag}. Attention gives it "
        f"{_content_weights(lag)[lag]:.2f}, wherever it stands; the steady Kalman filter of a "
        f"random walk gives that lag {kalman_weights(_LAGS)[lag]:.3f}, whatever the token says."
    )


# 1.9 — the causal mask


@style.styled
def causal_row(*, weights: Any, names: Sequence[str], query: int) -> Figure:
    """Draw causal attention weights as a matrix, and the row of one query as bars."""
    grid = _array(weights)
    T = len(grid)
    _index("query", query, T)
    figure, axes = style.new_figure(6.0, rows=2, sharex=True, height_ratios=[1.7, 1])
    top, bottom = axes[:, 0]
    _heat(top, grid, low=0.0, high=1.0)
    _cover_future(top, T)
    top.add_patch(
        Rectangle((-0.5, query - 0.5), T, 1, fill=False, edgecolor=style.VERMILION, linewidth=2.5,
                  clip_on=False)
    )  # fmt: skip
    style.label(top, x="", y="looks (query)", title="all weights; grey: masked")
    top.set(yticks=range(T), yticklabels=_numbered(names))
    row = grid[query]
    bottom.bar(range(T), row, color=style.SKY, edgecolor=style.BLUE, width=0.7)
    for j in range(T):
        if j <= query:
            bottom.text(j, row[j] + 0.03, f"{row[j]:.2f}".lstrip("0"), ha="center", va="bottom")
    if query < T - 1:
        bottom.axvspan(query + 0.5, T - 0.5, color=HIDDEN, linewidth=0)
        bottom.text((query + T) / 2, 0.5, "not yet\nseen", ha="center", va="center")
    style.label(bottom, x="", y="weight", title=f"row {query}: {names[query]}")
    bottom.set(ylim=(0, 1.25), yticks=(0, 0.5, 1), xlim=(-0.5, T - 0.5), xticks=range(T))
    bottom.set_xticklabels(_numbered(names), rotation=45, ha="right", rotation_mode="anchor")
    return figure


def describe_causal_row(*, weights: Any, names: Sequence[str], query: int) -> str:
    """Say what the row's weights are."""
    grid = _array(weights)
    row = grid[_index("query", query, len(grid)), : query + 1]
    best = int(row.argmax())
    if query == 0:
        return f"Query 0 ({names[0]}) sees itself alone: its weight is {row[0]:.2f}."
    seen = f"Query {query} ({names[query]}) sees tokens 0 to {query}"
    if np.allclose(row, row[0]):
        return f"{seen} and gives each of them the same weight, {row[0]:.2f}."
    others = np.delete(row, best)
    return (
        f"{seen}. It gives token {best} ({names[best]}) the weight {row[best]:.2f} and the others "
        f"between {others.min():.2f} and {others.max():.2f}; later tokens get exactly 0."
    )


# 1.10 — positions


@style.styled
def sinusoids(*, T: int = 48, d: int = 16) -> Figure:
    """Draw the sinusoidal vectors as a table, and their inner products with one of them."""
    table = sinusoidal_positions(T, d, dtype=torch.float64).numpy()
    middle = T // 2
    figure, axes = style.new_figure(5.0, rows=2, sharex=True, height_ratios=[1.3, 1])
    top, bottom = axes[:, 0]
    top.imshow(table.T, cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    top.grid(False)
    top.set_yticks(range(0, d, 4))
    style.label(top, x="", y="coordinate", title="$p_t$: each pair a slower wave (−1 … 1)")
    look = style.SERIES[0]
    bottom.plot(table @ table[middle], color=look["color"], marker="o", markersize=3)
    bottom.axvline(middle, color=style.BLACK, linestyle=":")
    style.label(
        bottom,
        x="position t",
        y=f"$p_t^\\top p_{{{middle}}}$",
        title=f"inner product with $p_{{{middle}}}$",
    )
    return figure


def describe_sinusoids(*, T: int = 48, d: int = 16) -> str:
    """Give the inner product at the middle and three steps off."""
    table = sinusoidal_positions(T, d, dtype=torch.float64).numpy()
    middle = T // 2
    products = table @ table[middle]
    return (
        f"Sinusoidal position vectors of width {d}: coordinates come in pairs, each pair slower "
        f"than the one before. The inner product with position {middle} is {products[middle]:.2f} "
        f"at the position itself and {products[middle - 3]:.2f} three steps away on either side."
    )


_PLACES = 24


@functools.lru_cache(maxsize=1)
def _position_scores() -> tuple[np.ndarray, np.ndarray]:
    """Scores of one content against itself at all pairs of places: positions added, and rotary."""
    rng = np.random.default_rng(3)
    d = 16
    w_q, w_k = (torch.from_numpy(rng.normal(size=(d, d)) / np.sqrt(d)) for _ in range(2))
    x = torch.from_numpy(rng.normal(size=d)).expand(_PLACES, d)
    z = x + sinusoidal_positions(_PLACES, d, dtype=torch.float64)
    added = (z @ w_q) @ (z @ w_k).T / np.sqrt(d)
    turned = rotary(x @ w_q) @ rotary(x @ w_k).T / np.sqrt(d)
    return added.numpy(), turned.numpy()


def diagonal_spread(scores: np.ndarray) -> float:
    """Find the largest standard deviation along a diagonal: 0 if only the offset matters."""
    T = len(scores)
    return max(float(np.diagonal(scores, k).std()) for k in range(1 - T, T))


@style.styled
def position_scores() -> Figure:
    """Draw the scores of one content with itself at all pairs of positions."""
    figure, axes = style.new_figure(3.5, cols=2, sharey=True)
    titles = ("sinusoidal, added", "rotary")
    for ax, grid, title in zip(axes[0], _position_scores(), titles, strict=True):
        ax.imshow(grid, cmap="cividis")
        ax.grid(False)
        style.label(ax, x="key's position", y="", title=title)
    axes[0, 0].set_ylabel("query's position")
    return figure


def describe_position_scores() -> str:
    """Say how much scores vary along a diagonal."""
    added, turned = (diagonal_spread(grid) for grid in _position_scores())
    return (
        f"Scores of the same content at {_PLACES} × {_PLACES} pairs of positions. With rotary "
        f"positions each diagonal is constant (largest standard deviation along one: "
        f"{turned:.2f}); with sinusoidal vectors added before the projections it varies (up to "
        f"{added:.2f})."
    )


_OFFSET, _HANDS = 3, 8


def _hand_angles(shift: int) -> np.ndarray:
    """Angles in radians of the query's and the key's hands, (2, pairs)."""
    places = np.array([shift, shift + _OFFSET])
    hands = torch.tensor([[1.0, 0.0] * (_HANDS // 2)] * 2, dtype=torch.float64)
    turned = rotary(hands, torch.from_numpy(places), base=100.0).numpy()
    return np.arctan2(turned[:, 1::2], turned[:, 0::2])


@style.styled
def rotary_hands(*, shift: int) -> Figure:
    """Draw rotary positions as clock hands: both turn, the angle between them stays."""
    positive_int("shift", shift, minimum=0)
    gaps = np.degrees(frequencies(_HANDS, base=100.0).numpy() * _OFFSET)
    figure, axes = style.new_figure(2.3, cols=_HANDS // 2)
    circle = np.linspace(0, 2 * np.pi, 100)
    for ax, gap in zip(axes[0], gaps, strict=True):
        ax.plot(np.cos(circle), np.sin(circle), color=style.GREY, linewidth=1)
        ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.set_xlabel(f"{gap:.0f}° apart")
    names = (f"query at {shift}", f"key at {shift + _OFFSET}")
    for name, angles, look in zip(names, _hand_angles(shift), style.SERIES, strict=False):
        for ax, angle in zip(axes[0], angles, strict=True):
            x, y = np.cos(angle), np.sin(angle)
            ax.plot([0, x], [0, y], color=look["color"], linestyle=look["linestyle"], linewidth=2.5)
            ax.plot(x, y, marker=look["marker"], color=look["color"], markersize=7, label=name)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def describe_rotary_hands(*, shift: int) -> str:
    """Give the positions and the angles."""
    omega = frequencies(_HANDS, base=100.0).numpy()
    hands = ", ".join(f"{np.degrees(w * _OFFSET):.0f}°" for w in omega)
    return (
        f"Query at position {shift}, key at {shift + _OFFSET}; each pair of coordinates is a hand "
        f"that turns at its own speed. The angles between the two hands, {hands}, are those of any "
        f"other pair {_OFFSET} steps apart."
    )


# 1.11 — heads


@style.styled
def head_weights(*, weights: Any, names: Sequence[str]) -> Figure:
    """Draw the weights of each head, side by side."""
    grids = _array(weights)
    figure, axes = style.new_figure(3.9, cols=len(grids), sharey=True)
    for r, (ax, grid) in enumerate(zip(axes[0], grids, strict=True)):
        _heat(ax, grid, low=0.0, high=1.0)
        if not np.triu(grid, 1).any():
            _cover_future(ax, len(grid))
        style.label(ax, x="", y="", title=f"head {r + 1}")
        ax.set(xticks=range(len(names)), yticks=range(len(names)), yticklabels=_numbered(names))
        ax.set_xticklabels(_numbered(names), rotation=60, ha="right", rotation_mode="anchor")
    axes[0, 0].set_ylabel("looks (query)")
    return figure


def describe_head_weights(*, weights: Any, names: Sequence[str]) -> str:
    """Say where the last token looks, head by head."""
    rows = _array(weights)[:, -1]
    parts = [
        f"head {r + 1} gives {row.max():.2f} to token {row.argmax()} ({names[int(row.argmax())]})"
        for r, row in enumerate(rows)
    ]
    return f"Weights of {len(rows)} heads on the same tokens. For the last one, {'; '.join(parts)}."


# 1.12 — the block


def _box(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    ax.add_patch(
        FancyBboxPatch((x - 0.95, y - 0.26), 1.9, 0.52, facecolor=colour, edgecolor=style.BLACK,
                       boxstyle="round,pad=0.03,rounding_size=0.12", linewidth=1)
    )  # fmt: skip
    ax.text(x, y, text, ha="center", va="center")


def _arrow(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    ax.plot(*zip(*points[:-1], strict=True), color=style.BLACK, linewidth=1.4)
    ax.add_patch(
        FancyArrowPatch(points[-2], points[-1], arrowstyle="-|>", mutation_scale=11, linewidth=1.4,
                        color=style.BLACK, shrinkA=0, shrinkB=0)
    )  # fmt: skip


_PRE = ("LayerNorm", "attention", "+", "LayerNorm", "MLP", "+")
_POST = ("attention", "+", "LayerNorm", "MLP", "+", "LayerNorm")
_BOX_COLOURS = {"LayerNorm": "#f7e7c6", "attention": "#d6e8f4", "MLP": "#d8efe5"}


def _wire(ax: Axes, steps: Sequence[str]) -> None:
    """Draw one column of boxes from bottom to top, each sum fed by a bypass on the right."""
    start, y, bypass = 0.0, 0.0, 0.35
    for step in steps:
        y += 1.0
        _arrow(ax, [(0, start), (0, y - (0.17 if step == "+" else 0.29))])
        if step == "+":
            ax.text(0, y, "+", ha="center", va="center", fontsize=15,
                    bbox={"boxstyle": "circle,pad=0.12", "fc": "white", "ec": "black"})  # fmt: skip
            _arrow(ax, [(0, bypass), (1.35, bypass), (1.35, y), (0.2, y)])
            start, bypass = y + 0.17, y + 0.36
        else:
            _box(ax, 0, y, step, _BOX_COLOURS[step])
            start = y + 0.29
            if step == "LayerNorm" and steps is _POST:
                bypass = y + 0.42
    _arrow(ax, [(0, start), (0, y + 0.85)])


@style.styled
def block_wiring() -> Figure:
    """Draw the pre-norm and the post-norm block, tokens flowing upwards."""
    figure, axes = style.new_figure(5.2, cols=2)
    titles = ("pre-norm (used here)", "post-norm (2017)")
    for ax, steps, title in zip(axes[0], (_PRE, _POST), titles, strict=True):
        _wire(ax, steps)
        ax.set(xlim=(-1.3, 1.7), ylim=(-0.2, 7.1))
        ax.axis("off")
        ax.set_title(title, loc="left")
    return figure


def describe_block_wiring() -> str:
    """Say how the two blocks are wired."""
    return (
        "Two ways to wire a block, read upwards. Pre-norm: LayerNorm, attention, add the untouched "
        "input; LayerNorm, MLP, add again: the path of sums carries no LayerNorm. Post-norm: "
        "attention, add, LayerNorm; MLP, add, LayerNorm: every sum is normalised."
    )


# 1.13 — short paths

_STEPS, _WIDTH_13 = 48, 8


@functools.lru_cache(maxsize=1)
def _attention_gradients() -> np.ndarray:
    """Gradient norms by lag of an untrained causal layer, for five random weights and inputs."""
    rng = np.random.default_rng(0)
    curves = []
    for _ in range(5):
        layer = MultiHeadAttention(_WIDTH_13, 1, seed=rng).double()
        x = torch.from_numpy(rng.normal(size=(_STEPS, _WIDTH_13)))
        curves.append(gradient_by_lag(functools.partial(_causal_output, layer), x).numpy())
    return np.stack(curves)


def _causal_output(layer: MultiHeadAttention, x: torch.Tensor) -> torch.Tensor:
    return layer(x, causal_mask(len(x)))[0]


@functools.lru_cache(maxsize=16)
def _recurrence_gradients(gain: float, nonlinear: bool) -> np.ndarray:
    """Gradient norms by lag of h_t = φ(g·Qh_{t−1} + x_t), Q orthogonal, φ the identity or tanh."""
    rng = np.random.default_rng(1)
    Q, _ = np.linalg.qr(rng.normal(size=(_WIDTH_13, _WIDTH_13)))
    h, slopes = np.zeros(_WIDTH_13), []
    for x in rng.normal(size=(_STEPS, _WIDTH_13)):
        a = gain * Q @ h + x
        h = np.tanh(a) if nonlinear else a
        slopes.append(1 - h**2 if nonlinear else np.ones(_WIDTH_13))
    # ∂h_T/∂x_{T−k} = D_T W D_{T−1} W … D_{T−k}, D_t the slopes on the diagonal
    product, norms = np.diag(slopes[-1]), []
    for k in range(_STEPS):
        norms.append(np.linalg.norm(product))
        if k + 1 < _STEPS:
            product = product @ (gain * Q) @ np.diag(slopes[-2 - k])
    return np.array(norms)


@style.styled
def gradient_paths(*, gain: float) -> Figure:
    """Draw the last output's gradient against lag: attention and two recurrences."""
    positive_number("gain", gain)
    lags = np.arange(_STEPS)
    curves = _attention_gradients()
    figure, axes = style.new_figure(4.2)
    ax = axes[0, 0]
    ax.fill_between(lags, curves.min(axis=0), curves.max(axis=0), color=style.SKY, alpha=0.35, lw=0)
    series = (
        ("attention", np.median(curves, axis=0)),
        ("linear recurrence", _recurrence_gradients(gain, False)),
        ("tanh recurrence", _recurrence_gradients(gain, True)),
    )
    for (name, curve), look in zip(series, style.SERIES, strict=False):
        style_of_line: dict[str, Any] = dict(look)
        ax.plot(lags, curve, **style_of_line, markevery=6, label=name)
    ax.set_yscale("log")
    ax.set(ylim=(1e-9, 30))
    figure.legend(loc="outside upper center", ncols=3, columnspacing=1.2, handlelength=1.8)
    style.label(ax, x="lag k", y="$\\|\\partial y_T / \\partial x_{T-k}\\|$")
    return figure


def describe_gradient_paths(*, gain: float) -> str:
    """Say how much the gradient shrinks from lag 1 to lag 40."""
    curves = (
        _recurrence_gradients(positive_number("gain", gain), False),
        _recurrence_gradients(gain, True),
        np.median(_attention_gradients(), axis=0),
    )
    linear, through_tanh, attention = (_factor(curve[40] / curve[1]) for curve in curves)
    return (
        f"Recurrences with gain {gain:g}. From lag 1 to lag 40 the gradient is multiplied by "
        f"{linear} in the linear recurrence, by {through_tanh} with a tanh, and by {attention} in "
        f"an untrained attention layer (median of five; the band is their range), where each of "
        f"{_STEPS} tokens has a small share from the start."
    )


def _factor(x: float) -> str:
    if x > 0.09:
        return f"{x:.1f}"
    exponent = str(round(np.log10(x))).replace("-", "⁻")
    return "about 10" + exponent.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


# 1.14 — different weights, same output


@style.styled
def same_output(*, rows: Any, values: Any) -> Figure:
    """Draw rows of weights over the same values, with the output of each."""
    weights, v = _array(rows), _array(values)
    figure, axes = style.new_figure(3.4)
    ax = axes[0, 0]
    width = 0.8 / len(weights)
    colours, hatches = (style.BLUE, style.VERMILION, style.GREEN), ("", "//", "..")
    for r, row in enumerate(weights):
        at = np.arange(len(v)) + (r - (len(weights) - 1) / 2) * width
        ax.bar(at, row, 0.92 * width, color=colours[r], hatch=hatches[r], edgecolor="white",
               label=f"row {'ABC'[r]}: output {row @ v:.1f}")  # fmt: skip
    ax.set(xticks=range(len(v)), xticklabels=[f"value {x:g}" for x in v], ylim=(0, 1.4))
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper center", ncols=len(weights), columnspacing=1.0, handlelength=1.2)
    style.label(ax, x="", y="weight")
    return figure


def describe_same_output(*, rows: Any, values: Any) -> str:
    """Give the rows and their outputs."""
    weights, v = _array(rows), _array(values)
    parts = [
        f"weights ({', '.join(f'{w:.2f}' for w in row)}) give {row @ v + 0.0:.1f}"
        for row in weights
    ]
    return f"Values {', '.join(f'{x:g}' for x in v)}: {'; '.join(parts)}."
