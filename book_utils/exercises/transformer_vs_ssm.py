"""Checkers of the exercises in "A transformer and an SSM learn the same world"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number, parts


@exercise(
    "transformer_vs_ssm.count",
    hint="Only three parts know n: the decays, the map into the state with its bias, and the map out "
    "of it, whose bias has d entries.",
)
def count(answer: Any) -> str:
    """Parameters of the diagonal SSM with 64 channels."""
    value = number(answer)
    right = "It grows by 34 for every channel: 1 decay, 17 to write it, 16 to read it."
    if value != 2273:
        explain(
            value,
            (
                (
                    2370,
                    "2 · 1185: that doubles everything, but embedding, skip and head do not grow.",
                ),
                (
                    2273 - 64,
                    "The decays are missing, or the bias of the map into the state: 64 of them.",
                ),
                (
                    2273 - 16,
                    "Sixteen are missing: the skip, or the bias of the map out of the state.",
                ),
                (2273 - 64 - 16, "Two biases are missing: one with 64 and one with 16 entries."),
                (2273 - 17, "The linear head is missing: 16 weights and a bias."),
                (2273 - 48, "The embedding is missing: 2 · 16 weights and 16 biases."),
                (
                    2 * 64 * 16,
                    "That is the two large maps alone, without biases and the small parts.",
                ),
                (
                    2273 - 64 + 64 * 64,
                    "That is a full 64 × 64 transition; a diagonal one has one decay a channel.",
                ),
            ),
            f"{value:g} is not it. Go through the parts one by one, biases too.",
        )
    return right


@exercise(
    "transformer_vs_ssm.line_up",
    hint="Token t is (y_t, u_t) and its target is y_{t+1}. Slot 0 was never observed: its token must hold 0, "
    "whatever the log says.",
)
def line_up(answer: Any) -> str:
    """Tokens and targets of a log."""
    rng = np.random.default_rng(0)
    for T in (5, 1):
        log, u = rng.normal(size=T + 1), rng.normal(size=T)
        tokens, targets = parts(
            call(answer, log, u), (("the tokens", (T, 2)), ("the targets", (T,)))
        )
        if close(targets, log[:-1]):
            raise Wrong("The target is the reading that the token itself holds. That is the leak.")
        if not close(targets, log[1:]):
            raise Wrong("The targets should be the readings of slots 1 to T, in order.")
        if T > 1 and close(tokens[1:, 1], log[1:-1]):
            raise Wrong("The two entries of a token have changed places: first y, then u.")
        if close(tokens[:, 0], log[1:]):
            raise Wrong("The tokens hold the next reading, which is their own target.")
        if not close(tokens[1:, 0], log[1:-1]):
            raise Wrong("The first entries of tokens 1, 2, … should be the readings y_1, y_2, ….")
        if tokens[0, 0] != 0:
            raise Wrong("Token 0 must hold the placeholder 0: nobody looked at slot 0.")
        if T > 1 and close(tokens[1:, 1], u[:-1]):
            raise Wrong("The controls are one late: u_t is the push that is about to be given.")
        if not close(tokens[:, 1], u):
            raise Wrong("The second entry of token t should be the control u_t.")
    return "Each token's target is what the next token will show."


@exercise(
    "transformer_vs_ssm.lag_profile",
    hint="The final query is the last row of each matrix. Its last entry is the token itself, lag 0, so the "
    "row has to be turned round before it is averaged over the N matrices.",
)
def lag_profile(answer: Any) -> str:
    """Profile of the final query."""
    rng = np.random.default_rng(1)
    for N, L in ((4, 5), (3, 8)):
        w = np.tril(rng.exponential(size=(N, L, L)))
        w /= w.sum(axis=-1, keepdims=True)
        found = array(call(answer, w), (L,))
        right = w[:, -1, ::-1].mean(axis=0)
        if close(found, right):
            continue
        mean = w.mean(axis=0)
        slips = (
            (right[::-1], "That starts with the oldest token; lag 0 is the token itself."),
            (N * right, "That is a sum over the N matrices; take the mean."),
            (w[0, -1, ::-1], "That is the profile of the first matrix alone; average over all N."),
            (
                [np.diagonal(mean, -k).mean() for k in range(L)],
                "That pools over all queries: early ones have few keys, and lift the short lags.",
            ),
            (
                [np.diagonal(mean, -k).sum() / L for k in range(L)],
                "That pools over all queries and divides by L; use the final query only.",
            ),
            (
                w[:, ::-1, -1].mean(axis=0),
                "That is the last column: who looks at the final token. Queries are rows.",
            ),
            (
                w[:, :, -1].mean(axis=0),
                "That is the last column: who looks at the final token. Queries are rows.",
            ),
            (
                mean.mean(axis=0)[::-1],
                "That averages over the queries too; take the last row only.",
            ),
        )
        explain(found, slips, f"It sums to {found.sum():.3f}, but it is not the last row by lag.")
    return "It sums to one, so it can be compared with 1/L."


@exercise(
    "transformer_vs_ssm.filter_step",
    hint="Go through (7.7), (7.8) and (7.9) in this order with numbers in place of matrices. The gain uses "
    "the predicted variance, and so does the updated one.",
)
def filter_step(answer: Any) -> str:
    """One scalar step of the Kalman filter."""
    for m, P, u, y, a, b, c, Q, R in (
        (0.5, 0.4, 1.0, 2.0, 0.9, 0.5, 1.5, 0.3, 0.2),
        (-1.0, 2.0, -0.5, 0.3, 1.1, 1.0, 0.7, 0.1, 1.0),
    ):
        names = ("the forecast", "its variance", "the new mean", "the new variance")
        result = call(answer, m, P, u, y, a, b, c, Q, R)
        found = parts(result, [(name, ()) for name in names])
        prior, spread = a * m + b * u, a * P * a + Q
        forecast, V = c * prior, c * spread * c + R
        K = spread * c / V
        right = (forecast, V, prior + K * (y - forecast), spread - K * V * K)
        slips: tuple[tuple[tuple[Any, str], ...], ...] = (
            (
                (prior, "The forecast is of the reading: multiply the predicted state by c."),
                (c * a * m, "The control is left out of the forecast."),
                (c * m, "That reads out the old state; let the world move on first."),
                (right[2] * c, "That uses the reading y that it is meant to forecast."),
            ),
            (
                (spread, "The variance is that of the state; the sensor adds c²… and R."),
                (c * spread * c, "The sensor's noise R is left out of the forecast's variance."),
                (c * a * P * a * c + R, "The process noise Q is left out of the prediction."),
                (c * P * c + R, "That is the variance before the world has moved on."),
                (math.sqrt(V), "That is the standard deviation; the variance is asked for."),
            ),
            (
                (prior, "The reading is not used: add K times the innovation to the mean."),
                (prior + K * y, "The gain multiplies the innovation y − forecast, not y itself."),
                (prior - K * (y - forecast), "The sign of the innovation is turned round."),
                (
                    prior + P * c / (c * P * c + R) * (y - forecast),
                    "The gain uses the old variance; it must use the predicted one.",
                ),
            ),
            (
                (spread, "The variance is not updated: take off what the reading explains."),
                (P, "The variance is the old one; predict it, then update it."),
                (spread - K * K, "K² must be multiplied by V: the reading's variance."),
                (spread + K * V * K, "A reading can only lessen the uncertainty: subtract."),
                (P - K * V * K, "Take it off the predicted variance, not off the old one."),
            ),
        )
        for value, wanted, mistakes, name in zip(found, right, slips, names, strict=True):
            if not close(value, wanted):
                explain(
                    value, mistakes, f"For {name} it gives {value:.4f} where {wanted:.4f} is right."
                )
    return "Chain such steps and you have the whole filter."


@exercise(
    "transformer_vs_ssm.golden",
    hint="Let p be the predicted variance. After the update it is p − p²/(p + 1) = p/(p + 1), after the next "
    "prediction p/(p + 1) + 1. At rest that equals p again. Then V is p + 1.",
)
def golden(answer: Any) -> str:
    """Steady forecast variance of a random walk with equal noises."""
    value, ratio = number(answer), (1 + math.sqrt(5)) / 2
    for wrong, why in (
        (ratio, "That is the variance of the predicted state; the sensor's noise comes on top."),
        (ratio - 1, "That is the state's variance after the update; predict, then add R."),
        (2.0, "That would be right if the walk's present place were known exactly. It is not."),
        (1.0, "That is the sensor's noise alone."),
        (3.0, "That is the variance after one step from variance 1; let the filter settle."),
        (math.sqrt(ratio + 1), "That is the standard deviation; the variance is asked for."),
    ):
        if abs(value - wrong) < 0.0015:
            raise Wrong(why)
    if abs(value - (ratio + 1)) >= 0.0015:
        raise Wrong(f"{value:g} is not it; give three decimals.")
    return "The golden ratio's square: p = 1.618 and V = p + 1."


@exercise(
    "transformer_vs_ssm.open_loop_floor",
    hint="In each step first carry the covariance on, P becomes A P Aᵀ + Q, and only then look: C P Cᵀ + R. "
    "Horizon 1 has already moved once.",
)
def open_loop_floor(answer: Any) -> str:
    """Variances of open-loop forecasts."""
    rng = np.random.default_rng(2)
    for n, H in ((2, 6), (3, 4)):
        A, C = rng.normal(size=(n, n)) / math.sqrt(n), rng.normal(size=n)
        root = rng.normal(size=(n, n))
        start, Q, R = root @ root.T, np.diag(rng.uniform(0.1, 1, n)), 0.3
        found = array(call(answer, start, A, C, Q, R, H), (H,))
        right = _floor(start, A, C, Q, R, H)
        if close(found, right):
            continue
        slips = (
            (_floor(start, A, C, 0 * Q, R, H), "The process noise Q is left out of the steps."),
            (right - R, "The sensor's noise R is left out."),
            (
                np.r_[C @ start @ C + R, right[:-1]],
                "That starts at horizon 0, before the world has moved.",
            ),
            (_floor(start, A.T, C, Q, R, H), "A and its transpose have changed places."),
            (
                [C @ np.linalg.matrix_power(A, h) @ start @ np.linalg.matrix_power(A, h).T @ C
                 + C @ Q @ C + R for h in range(1, H + 1)],
                "Q is added once; each step adds its own, and carries the earlier ones on.",
            ),
            (np.sqrt(right), "Those are standard deviations; variances are asked for."),
            (np.cumsum(right), "The variances are summed up over horizons; each stands alone."),
        )  # fmt: skip
        explain(found, slips, f"For a random system it gives {found[0]:.4f}, …, {found[-1]:.4f}.")
    return "With the chapter's world it rises to 0.102 at horizon 5, and falls again."


def _floor(P: Any, A: Any, C: Any, Q: Any, R: float, H: int) -> np.ndarray:
    variances = []
    for _ in range(H):
        P = A @ P @ A.T + Q
        variances.append(C @ P @ C + R)
    return np.array(variances)


@exercise(
    "transformer_vs_ssm.roll_out",
    hint="Start with the history tokens[:warm + 1]. The last forecast for it is that of the next slot. The "
    "next token pairs it with the control of that same slot. Never drop a token from the front.",
)
def roll_out(answer: Any) -> str:
    """A rollout of one trajectory."""
    rng = np.random.default_rng(3)
    for T, warm in ((7, 1), (6, 3), (5, 4), (4, 0)):
        given = rng.normal(size=(T, 2))
        given[0, 0] = 0.0
        found = array(call(answer, _probe, given, warm), (T - warm,))
        right = _roll(_probe, given, warm)
        if close(found, right):
            continue
        slips = (
            (_probe(given)[warm:], "The true readings are used after the warm start: no rollout."),
            (_slide(given, warm), "A token was dropped from the front, so positions have shifted."),
            (_roll(_probe, _late(given), warm), "The controls are one slot late."),
            (
                _roll(
                    _probe, np.c_[given[:, 0], np.where(np.arange(T) > warm, 0, given[:, 1])], warm
                ),
                "The controls after the warm start are left out; they are known.",
            ),
            (
                _roll(_probe, given, max(warm - 1, 0))[-(T - warm) :],
                "The warm start is one reading too short: slots 0 to warm are genuine.",
            ),
        )
        explain(found, slips, f"With T = {T} and warm = {warm} it gives {found.round(3).tolist()}.")
    return "The history grew at its end only, and every token kept its position."


def _probe(history: Any) -> np.ndarray:
    """A causal forecaster that minds readings, controls and positions."""
    history = np.asarray(history, float)
    position = np.arange(len(history))
    return np.cumsum(history @ [0.6, -0.4] * np.cos(position)) / (1 + position) + 0.1 * position


def _roll(forecast: Callable[[Any], Any], tokens: np.ndarray, warm: int) -> np.ndarray:
    history, result = tokens.copy(), []
    for t in range(warm, len(tokens)):
        result.append(forecast(history[: t + 1])[-1])
        if t + 1 < len(tokens):
            history[t + 1, 0] = result[-1]
    return np.array(result)


def _slide(tokens: np.ndarray, warm: int) -> np.ndarray:
    history, result = tokens[: warm + 1], []
    for t in range(warm, len(tokens)):
        result.append(_probe(history)[-1])
        if t + 1 < len(tokens):
            history = np.vstack([history[1:], [result[-1], tokens[t + 1, 1]]])
    return np.array(result)


def _late(tokens: np.ndarray) -> np.ndarray:
    late = tokens.copy()
    late[1:, 1] = tokens[:-1, 1]
    return late
