"""Checkers of the exercises in "Events and distance"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..events import OBJECT, VALUE, WRITE, RecallTask
from . import Wrong, array, call, exercise, number


def _close(a: Any, b: Any, tolerance: float = 1e-6) -> bool:
    return bool(np.allclose(a, b, rtol=tolerance, atol=1e-9))


@exercise(
    "event_recall.window_average",
    hint="Count the distances from 1 to 39 that the window can still see. The query itself takes one of "
    "its 16 places.",
)
def window_average(answer: Any) -> str:
    """Average error of a perfect window of 16 over the distances 1 … 39."""
    value = number(answer)
    for wrong, why in (
        (23 / 39, "That lets the window reach distance 16; the query takes one of its 16 places."),
        (
            15 / 39,
            "That is the share of distances that it gets right; the error counts the others.",
        ),
        (24 / 48, "There are 48 tokens, but only the distances 1 to 39 occur."),
        (33 / 48, "That divides by the 48 tokens; only the distances 1 to 39 occur."),
        (0.5, "One half would need as many distances inside as outside."),
    ):
        if abs(value - wrong) < 0.003:
            raise Wrong(why)
    if abs(value - 24 / 39) > 0.006:
        raise Wrong(f"{value:g} is not it; it should be a share between 0 and 1.")
    return (
        "Fifteen distances at error 0 and twenty-four at error 1: no single distance has error .62."
    )


@exercise(
    "event_recall.stale_error",
    hint="Write r for decay**gap. Up to a common factor, the state holds fresh + r · stale. Answer with c "
    "times that, where fresh and stale are independent with variance 1, and choose the c with the least mean "
    "squared error.",
)
def stale_error(answer: Any) -> str:
    """Least error of a scaled fixed-decay state that holds a fresh and a stale write."""
    for decay, gap in ((0.9, 3), (0.5, 1), (0.99, 8), (1.0, 5)):
        found, r = number(call(answer, decay, gap)), decay**gap
        if _close(found, r**2 / (1 + r**2)):
            continue
        for wrong, why in (
            (r**2, "That is the error for c = 1. Shrinking the answer a little lowers it."),
            (r / (1 + r), "Variances add, so r enters squared."),
            (
                decay**2 / (1 + decay**2),
                "The stale write is `gap` steps older: its share is decay**gap.",
            ),
            (
                1 / (1 + r**2),
                "That is what the answer gets right (and the best c); the rest is the error.",
            ),
            ((r / (1 + r)) ** 2, "That makes fresh and stale sum to one; c can be chosen freely."),
            (r**2 / (1 + r**2) * decay, "A common factor of both writes is taken out by c."),
        ):
            if _close(found, wrong):
                raise Wrong(why)
        raise Wrong(f"For decay {decay} and gap {gap} it gives {found:.4f}.")
    return (
        "With a decay of 1 it is one half at any gap: the sum of two unknowns tells half of each."
    )


@exercise(
    "event_recall.needed_slope",
    hint="At a gap of one the weights are in the ratio e^m to 1, so the stale share is s = 1/(1 + e^m). "
    "The answer is off by s times the difference of two values of variance 1.",
)
def needed_slope(answer: Any) -> str:
    """Slope at which a stale write one token away costs a given error."""
    for error in (0.01, 0.001, 0.1):
        found = number(call(answer, error))
        if _close(found, math.log(1 / math.sqrt(error / 2) - 1)):
            continue
        for wrong, why in (
            (
                math.log(1 / math.sqrt(error) - 1),
                "The difference of the two values has variance 2, not 1.",
            ),
            (
                math.log(1 / math.sqrt(error / 2)),
                "That takes the share for e^(−m); it is 1/(1 + e^m).",
            ),
            (
                math.log(2 / error - 1),
                "The share enters the squared error squared: take a square root.",
            ),
            (
                math.log(1 / error - 1),
                "The share enters squared, and the difference of the values has variance 2.",
            ),
            (-math.log(1 / math.sqrt(error / 2) - 1), "The sign is turned round: m is positive."),
        ):
            if _close(found, wrong):
                raise Wrong(why)
        raise Wrong(f"For an error of {error} it gives {found:.4f}.")
    return "An error of .01 needs a slope of 2.58 per token, and so a margin of 100 at distance 39."


@exercise(
    "event_recall.overwrite",
    hint="Start from zeros of shape (N, objects) and go through the tokens. The gate is the write flag times "
    "the one-hot object, of shape (N, objects); keep (1 − gate) of the state and add gate times the value.",
)
def overwrite(answer: Any) -> str:
    """A gated state: one number an object, overwritten by each write of that object."""
    for seed, task in enumerate((RecallTask(3, True), RecallTask(1, True), RecallTask(2))):
        x = task.draw(seed, 5, 24).tokens
        found = array(call(answer, x.copy()), (5, task.objects))
        gate = x[..., WRITE, None] * x[..., OBJECT:]
        written = gate * x[..., VALUE, None]
        if _close(found, _last(x, gate)):
            continue
        for wrong, why in (
            (written.sum(1), "That adds the writes up; a new write should replace the old value."),
            (_first(written), "That keeps the first write; the last one counts."),
            (
                _last(x, x[..., OBJECT:]),
                "Distractors get in: the gate must also need the write flag.",
            ),
            (
                _last(x, np.broadcast_to(x[..., WRITE, None], gate.shape)),
                "Every write goes to every object: the gate must also need the object's name.",
            ),
        ):
            if _close(found, wrong):
                raise Wrong(why)
        raise Wrong("The state does not hold the last written value of each object.")
    return "Two lines a token, and exact at any distance."


def _last(x: np.ndarray, gate: np.ndarray) -> np.ndarray:
    h = np.zeros(gate[:, 0].shape)
    for t in range(x.shape[1]):
        h = (1 - gate[:, t]) * h + gate[:, t] * x[:, t, VALUE, None]
    return h


def _first(written: np.ndarray) -> np.ndarray:
    at = (written != 0).argmax(axis=1)
    return np.take_along_axis(written, at[:, None], axis=1)[:, 0]


@exercise(
    "event_recall.reach",
    hint="What is left after k distractors is e^(−leak·k), so the answer is off by the share "
    "1 − e^(−leak·k). Squared, that may be at most `error`. Solve for k and round down.",
)
def reach(answer: Any) -> str:
    """Largest distance at which a leaking selective state still answers well enough."""
    for leak, error in ((0.01, 0.01), (0.002, 0.1), (0.03, 0.35)):
        found = number(call(answer, leak, error))
        exact = -math.log(1 - math.sqrt(error)) / leak
        if found == math.floor(exact):
            continue
        for wrong, why in (
            (math.floor(exact) + 1, "One too far: at that distance the error is already larger."),
            (exact, "Round it down: k is a whole number of tokens."),
            (
                math.floor(-math.log(1 - error) / leak),
                "The error is the square of the lost share: take the square root first.",
            ),
            (
                math.floor(math.sqrt(error) / leak),
                "1 − e^(−x) is not quite x; solve for k with a logarithm.",
            ),
            (
                math.floor(-math.log(error) / leak),
                "What may be lost is √error; what must be left is 1 − √error.",
            ),
            (
                math.floor(-math.log(math.sqrt(error)) / leak),
                "What may be lost is √error; what must be left is 1 − √error.",
            ),
        ):
            if _close(found, wrong, 1e-9):
                raise Wrong(why)
        raise Wrong(f"For a leak of {leak} and an error of {error} it gives {found:g}.")
    return "Ten times less leak, ten times the distance: a slope, where the window has a cliff."


@exercise(
    "event_recall.sum_from_attention",
    hint="With M items, `average` is sum/(M + 1) and `share` is M/(M + 1). So 1 − share is 1/(M + 1).",
)
def sum_from_attention(answer: Any) -> str:
    """Recover a sum from a softmax average that has the query as one more token."""
    rng = np.random.default_rng(0)
    for items in (3, 1, 10):
        total = float(rng.normal())
        average, share = total / (items + 1), items / (items + 1)
        found = number(call(answer, average, share))
        if _close(found, total):
            continue
        for wrong, why in (
            (average, "That is still the average; it must be multiplied by the number of tokens."),
            (
                average / share,
                "That is the mean of the items: it divides by M, and M is not in the sum.",
            ),
            (
                average * share / (1 - share),
                "That multiplies by M; the average runs over M + 1 tokens.",
            ),
            (average * share, "Multiplying by the share makes it smaller; the sum is larger."),
            (average * (1 - share), "It should be divided by 1 − share, not multiplied."),
        ):
            if _close(found, wrong):
                raise Wrong(why)
        raise Wrong(f"With {items} items that sum to {total:.3f} it gives {found:.3f}.")
    return "The factor 1/(1 − share) is M + 1, and it multiplies every small mistake as well."
