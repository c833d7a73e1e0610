"""Checkers of the exercises in "Attention over trajectories"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number, shape_of


def _softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@exercise(
    "attention.earlier_request",
    hint="The query is (3, 1.5) and the mug's key (1, 1). How many tokens may it see, and which of them "
    "score anything but zero? Remember √d_k with d_k = 2.",
)
def earlier_request(answer: Any) -> str:
    """Weight on the mug at position 4, where five tokens are visible."""
    value = number(answer)

    def weight(score: float, others: float) -> float:
        return math.exp(score) / (math.exp(score) + others)

    right = weight(4.5 / math.sqrt(2), 4)
    for wrong, why in (
        (weight(4.5 / math.sqrt(2), 6 + math.exp(1.5 / math.sqrt(2))),
         "That is the last request's weight: at position 4 the mask hides tokens 5 to 7."),
        (weight(4.5 / math.sqrt(2), 3 + math.exp(1.5 / math.sqrt(2))),
         "The cup stands at position 5; the mask hides it from position 4."),
        (weight(4.5, 4), "That uses the score 4.5 itself; divide it by √d_k first."),
        (weight(4.5 / 2, 4), "That divides by d_k; the scale is its square root."),
        (weight(4.5 / math.sqrt(2), 3), "One token too few: the request sees itself as well."),
        (weight(4.5 / math.sqrt(2), 5), "One token too many: it sees five tokens in all, 0 to 4."),
        (4.5 / math.sqrt(2), "That is the score; the softmax is still to come."),
        (7.90, "That is the readout; the weight on the mug is asked for."),
    ):  # fmt: skip
        if abs(value - wrong) < 0.0015:
            raise Wrong(why)
    if abs(value - right) >= 0.0015:
        raise Wrong(f"{value:g} is not it; give three decimals.")
    return "With three rivals fewer, the same question gets a sharper answer than at position 7."


@exercise(
    "attention.largest_d_ff",
    hint="Collect the terms of (1.20) with d_ff in them: each hidden unit costs 2d + 1. What is left "
    "after attention, two norms and the MLP's second bias?",
)
def largest_d_ff(answer: Any) -> str:
    """The widest MLP of a block that stays within a budget."""
    cases = ((16, 3000), (16, 2752), (8, 1000), (64, 50_000), (5, 777))
    found = [number(call(answer, d, budget)) for d, budget in cases]

    def all_cases(rule: Any) -> list[float]:
        return [rule(d, budget, budget - 4 * d * d - 9 * d, 2 * d + 1) for d, budget in cases]

    right = all_cases(lambda d, budget, left, unit: left // unit)
    if found == right:
        return "With d = 16 and the 2752 parameters of chapter 7's block it is 48."
    for rule, why in (
        (lambda d, budget, left, unit: left / unit, "A width is a whole number; round down."),
        (lambda d, budget, left, unit: left // unit + 1,
         "One too many: such a block is over the budget."),
        (lambda d, budget, left, unit: -(-left // unit),
         "Round down: one more unit would be over the budget."),
        (lambda d, budget, left, unit: (left + d) // unit,
         "The MLP's second bias, d parameters, is missing."),
        (lambda d, budget, left, unit: (left + 4 * d) // unit,
         "The two norms, or the biases of attention, are missing."),
        (lambda d, budget, left, unit: (left + 9 * d) // (2 * d),
         "All biases and norms are missing."),
        (lambda d, budget, left, unit: (left + d * d) // unit,
         "Attention has four d × d maps: the output map counts as well."),
        (lambda d, budget, left, unit: left // (d + 1),
         "Each hidden unit has d weights in and d weights out: it costs 2d + 1."),
        (lambda d, budget, left, unit: left // (2 * d),
         "Each hidden unit has a bias too: it costs 2d + 1."),
        (lambda d, budget, left, unit: budget // unit,
         "Attention and the norms have to fit in the budget as well."),
    ):  # fmt: skip
        if close(found, all_cases(rule)):
            raise Wrong(why)
    at = next(i for i, (a, b) in enumerate(zip(found, right, strict=True)) if a != b)
    raise Wrong(f"For d = {cases[at][0]} and a budget of {cases[at][1]} it gives {found[at]:g}.")


@exercise(
    "attention.score_std",
    hint="(1.9) gives the variance of the unscaled score as the trace of a matrix product. Dividing a "
    "score by √d_k divides its variance by d_k. The question asks for the standard deviation.",
)
def score_std(answer: Any) -> str:
    """Standard deviation of q·k/√d_k for independent q and k of mean zero."""
    rng = np.random.default_rng(0)
    for d_k in (3, 8, 1):
        a, b = rng.normal(size=(2, d_k, d_k))
        cov_q, cov_k = a @ a.T, b @ b.T + np.eye(d_k)
        found = number(call(answer, cov_q, cov_k))
        variance = float(np.trace(cov_q @ cov_k))
        if close(found, math.sqrt(variance / d_k)):
            continue
        diagonal = float(np.diag(cov_q) @ np.diag(cov_k))
        explain(
            found,
            [
                (variance / d_k, "That is the variance; take its square root."),
                (math.sqrt(variance), "That is for the unscaled score; divide by √d_k."),
                (variance, "That is the variance of the unscaled score."),
                (math.sqrt(variance) / d_k, "The score is divided by √d_k, not by d_k."),
                (math.sqrt(diagonal / d_k),
                 "Only the variances are used; correlated coordinates add to the trace."),
                (math.sqrt(np.trace(cov_q) * np.trace(cov_k) / d_k),
                 "The trace of a product is not the product of the traces."),
                (1.0, "That holds for covariance matrices that are the identity."),
            ],
            f"For two covariance matrices of width {d_k} it gives {found:.4f}.",
        )  # fmt: skip
    return "For two identity matrices it is 1, at any width."


@exercise(
    "attention.softmax_gradient",
    hint="Multiply the two terms of (1.12) by g one at a time: diag(w) g is an elementwise product, and "
    "w wᵀ g is the vector w times the number wᵀg.",
)
def softmax_gradient(answer: Any) -> str:
    """Gradient of a loss by the scores, from its gradient by the weights."""
    rng = np.random.default_rng(1)
    for n in (2, 5, 9):
        w, g = _softmax(rng.normal(size=n)), rng.normal(size=n)
        found = array(call(answer, w, g), (n,))
        if close(found, w * (g - w @ g)):
            continue
        explain(
            found,
            [
                (w * g, "The second term of (1.12) is missing."),
                (w * (w @ g), "The first term of (1.12) is missing."),
                (-w * (w @ g), "The first term of (1.12) is missing."),
                (w * g - w @ g,
                 "w wᵀ g is the *vector* w times the number wᵀg. You subtract the bare number, and numpy "
                 "subtracts it from every entry alike."),
                (w * g - (w * w) @ g,
                 "w * w is not w wᵀ: subtracted from diag(w), numpy repeats it in every row. The outer "
                 "product is np.outer(w, w)."),
                (w * (1 - w) * g,
                 "Only the diagonal of J is used; a score changes all the other weights too."),
                (w * (w @ g - g), "The sign is turned round."),
                (g - w @ g, "The factor w in front is missing."),
                (w * (g - g.mean()), "Subtract the weighted mean wᵀg, not the plain mean of g."),
            ],
            f"For {n} tokens the result is off by up to {_gap(found, w * (g - w @ g))}.",
        )  # fmt: skip
    return "It costs n operations where the matrix would cost n²."


def _gap(found: np.ndarray, right: np.ndarray) -> str:
    return f"{np.abs(found - right).max():.3g}"


@exercise(
    "attention.causal",
    hint="np.tril(np.ones((T, T), dtype=bool)) is True where a look is allowed, and np.where(mask, "
    "scores, -np.inf) hides the rest. Subtract each row's maximum with keepdims=True before you "
    "exponentiate.",
)
def causal(answer: Any) -> str:
    """Causal attention of queries (T, d_k), keys (T, d_k) and values (T, d_v)."""
    rng = np.random.default_rng(2)
    for T, d_k, d_v in ((5, 3, 2), (1, 2, 1), (6, 1, 4)):
        Q, K, V = rng.normal(size=(T, d_k)), rng.normal(size=(T, d_k)), rng.normal(size=(T, d_v))
        result = call(answer, Q, K, V)
        if d_v != T and shape_of(result) == (T, T):
            raise Wrong("Those are the weights; the outputs are the weights times V.")
        found = array(result, (T, d_v), finite=False)
        if not np.isfinite(found).all():
            raise Wrong(_why_not_finite(~np.isfinite(found).all(axis=1)))
        scores, allowed = Q @ K.T / math.sqrt(d_k), np.tril(np.ones((T, T), dtype=bool))
        right = _softmax(np.where(allowed, scores, -np.inf)) @ V
        if close(found, right):
            continue

        def hidden(scores: np.ndarray, allowed: np.ndarray = allowed) -> np.ndarray:
            return _softmax(np.where(allowed, scores, -np.inf))

        inverted = "The mask is inverted: each row looks at the future, where it should be hidden."
        explain(
            found,
            [
                (_softmax(scores) @ V, "There is no mask: row 0 sees the future."),
                (hidden(scores, allowed.T) @ V,
                 "The mask is turned round: each row sees the future and not the past."),
                *((_softmax(np.where(allowed, low, scores)) @ V, inverted) for low in (-1e9, -1e4, 0)),
                (_softmax(scores * allowed) @ V,
                 "Hidden scores are set to 0, but e⁰ = 1 is still a share of the weight."),
                (np.where(allowed, _softmax(scores), 0) @ V,
                 "The weights are cut after the softmax and no longer sum to one."),
                (hidden(scores * math.sqrt(d_k)) @ V, "The scores are not divided by √d_k."),
                (hidden(scores / math.sqrt(d_k)) @ V,
                 "The scores are divided by d_k; the scale is its square root."),
                (hidden(scores * math.sqrt(d_k / T)) @ V,
                 "The scores are divided by √T, the number of tokens; use √d_k."),
                (_columns(scores, allowed) @ V,
                 "The softmax runs down the columns; each *row* must sum to one."),
            ],
            f"For T = {T} the outputs are off by up to {_gap(found, right)}.",
        )  # fmt: skip
    _check_large_scores(answer)
    return "Five lines, and you could have written the library."


def _why_not_finite(rows: np.ndarray) -> str:
    """What a mask has hidden, from the rows that have no finite output."""
    if rows[-1] and not rows[:-1].any() and len(rows) > 1:
        return (
            "The last row is NaN: it may see every token, and yet has nothing to look at. The mask is "
            "inverted; hide the scores where it is False."
        )
    return "Some rows are NaN: a query with nothing to look at. Row 0 may see itself."


def _check_large_scores(answer: Any) -> None:
    """Scores far above zero, and rows whose maxima differ, below a hidden score far above them."""
    for keys, expected in (
        ([1000.0, 0.0], [[1, 0], [1, 0]]),
        ([-2000.0, 0.0, 3000.0], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    ):
        n = len(keys)
        result = call(answer, np.ones((n, 1)), np.array(keys)[:, None], np.eye(n))
        found = array(result, (n, n), finite=False)
        if not np.isfinite(found).all():
            raise Wrong(
                "Large scores overflow, or all of a row's exponentials are 0: subtract each row's own "
                "maximum, over the keys that it may see, first."
            )
        if not close(found, expected):
            raise Wrong(
                f"With scores of {keys} in every row the weights should be 0 and 1: hide a score "
                "with −∞, not with a finite number."
            )


def _columns(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The softmax along the wrong axis."""
    return _softmax(np.where(allowed, scores, -np.inf).T).T


@exercise(
    "attention.rotary_score",
    hint="By (1.17) you need only one rotation, by the angle ω(t − s), applied to the key. A rotation by "
    "θ takes (x, y) to (x cos θ − y sin θ, x sin θ + y cos θ).",
)
def rotary_score(answer: Any) -> str:
    """Score of a rotary query at s with a rotary key at t, one pair of coordinates."""
    rng = np.random.default_rng(3)
    for s, t, omega in ((0, 0, 0.7), (2, 5, 0.3), (9, 4, 1.0), (100, 103, 0.3)):
        q, k = rng.normal(size=(2, 2))
        found = number(call(answer, q, k, s, t, omega))
        if close(found, _turned(q, k, omega * (t - s))):
            continue
        explain(
            found,
            [
                (_turned(q, k, omega * (s - t)),
                 "The rotation goes the wrong way: it is by t − s, from the query to the key."),
                (_turned(q, k, omega * (s + t)),
                 "The angles are added: turn the query by ωs and the key by ωt, both forwards."),
                (_turned(q, k, omega * t), "Only the key is turned; the query stands at s."),
                (_turned(q, k, -omega * s), "Only the query is turned; the key stands at t."),
                (float(q @ k), "Nothing is turned."),
                (float(q @ k) * math.cos(omega * (t - s)),
                 "A rotation mixes the two coordinates; a factor cos is not enough."),
                (_turned(q, k, omega * (t - s)) / math.sqrt(2), "Leave out the factor 1/√d_k."),
            ],
            f"For s = {s}, t = {t} and ω = {omega} it gives {found:.4f}.",
        )  # fmt: skip
    return "It is the same at (100, 103) as at any other pair three steps apart."


def _turned(q: np.ndarray, k: np.ndarray, angle: float) -> float:
    c, n = math.cos(angle), math.sin(angle)
    return float(q[0] * (c * k[0] - n * k[1]) + q[1] * (n * k[0] + c * k[1]))


@exercise(
    "attention.another_row",
    hint="Stack a row of ones on v.T and call the (d_v + 1, n) matrix C. The last row of "
    "np.linalg.svd(C)[2] is a direction u with C u = 0. How far can you go along u before a weight "
    "becomes negative?",
)
def another_row(answer: Any) -> str:
    """Other weights over the same values with the same output."""
    rng = np.random.default_rng(4)
    for n, d_v in ((3, 1), (6, 2), (9, 4)):
        w, v = _softmax(0.3 * rng.normal(size=n)), rng.normal(size=(n, d_v))
        found = array(call(answer, w, v), (n,))
        if not close(found.sum(), 1.0):
            raise Wrong(f"The new weights sum to {found.sum():.4f}; they should sum to one.")
        if not close(found @ v, w @ v):
            raise Wrong(
                f"The output changes by up to {_gap(found @ v, w @ v)}; move along a direction u "
                "with uᵀv = 0."
            )
        if found.min() < -1e-9:
            raise Wrong(f"A weight is negative ({found.min():.3f}): you went too far along u.")
        if np.abs(found - w).max() < 0.01:
            raise Wrong("This is (nearly) the same row; some weight should change by 0.01 or more.")
    return "Whoever reads the weights alone would tell two different stories."
