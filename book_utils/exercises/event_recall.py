"""Checkers of the exercises in "Events and distance"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..events import OBJECT, VALUE, WRITE, RecallTask
from . import Wrong, array, call, close, exercise, explain, number, shape_of


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
        (16 / 39, "The query takes one of the 16 places; and the error counts what is missed."),
        (24 / 48, "There are 48 tokens, but only the distances 1 to 39 occur."),
        (33 / 48, "That divides by the 48 tokens; only the distances 1 to 39 occur."),
        (32 / 48, "That divides by the 48 tokens; only the distances 1 to 39 occur."),
        (24 / 40, "From 1 to 39 there are 39 distances; 0 is the query itself."),
        (25 / 40, "From 1 to 39 there are 39 distances; 0 is the query itself."),
        (48 / 39, "Outside the window the error is 1, that of somebody who knows nothing; not 2."),
        (24.0, "That is how many distances are missed; divide by how many there are."),
        (100 * 24 / 39, "That is in per cent; give it as a share, where 1 means knowing nothing."),
    ):
        if abs(value - wrong) < (0.003 if wrong < 2 else 0.6):
            raise Wrong(why)
    if abs(value - 24 / 39) > 0.006:
        raise Wrong(
            f"{value:g} is not it; it is the share of the distances 1 to 39 that are missed."
        )
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
        if close(found, r**2 / (1 + r**2)):
            continue
        best = r**2 / (1 + r**2)
        explain(
            found,
            [
                (r**2, "That is the error for c = 1. Shrinking the answer a little lowers it."),
                (1 / 4 + r**2 / 4, "That is the error for c = 1/2; another c may have less."),
                (r / (1 + r), "Variances add, so r enters squared."),
                (decay**2 / (1 + decay**2),
                 "The stale write is `gap` steps older: its share is decay**gap."),
                ((decay * gap) ** 2 / (1 + (decay * gap) ** 2),
                 "`gap` steps multiply `gap` times: r is decay**gap, not decay · gap."),
                (1 / (1 + r**2),
                 "That is what the answer gets right (and the best c); the rest is the error."),
                ((r / (1 + r)) ** 2, "That makes fresh and stale sum to one; c can be chosen freely."),
                (0.5, "One half holds for a decay of 1 only; a faster one has forgotten part of the stale."),
                (math.sqrt(best), "That is its root; the mean squared error is asked for."),
                *((x**2 / (1 + x**2), "The writes are `gap` tokens apart: the power is gap itself.")
                  for x in (r * decay, r / decay)),
                (best * decay, "A common factor of both writes is taken out by c."),
            ],
            f"For decay {decay} and gap {gap} it gives {found:.4f}.",
        )  # fmt: skip
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
        if close(found, math.log(1 / math.sqrt(error / 2) - 1)):
            continue
        s = math.sqrt(error / 2)
        explain(
            found,
            [
                (math.log(1 / math.sqrt(error) - 1),
                 "The difference of the two values has variance 2, not 1."),
                (math.log(1 / s), "That takes the share for e^(−m); it is 1/(1 + e^m)."),
                (math.log(1 / s + 1), "From s = 1/(1 + e^m), e^m is 1/s − 1, not 1/s + 1."),
                (1 / s - 1, "That is e^m; take its logarithm."),
                (s, "That is the share s; solve s = 1/(1 + e^m) for m."),
                (math.log(2 / error - 1),
                 "The share enters the squared error squared: take a square root."),
                (math.log(1 / error - 1),
                 "The share enters squared, and the difference of the values has variance 2."),
                (-math.log(1 / s - 1), "The sign is turned round: m is positive."),
                (39 * math.log(1 / s - 1), "That is the margin at distance 39; the slope is per token."),
                (math.log10(1 / s - 1), "The weights are powers of e; use the natural logarithm."),
            ],
            f"For an error of {error} it gives {found:.4f}.",
        )  # fmt: skip
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
        result = call(answer, x)
        if shape_of(result) == (5,):
            raise Wrong("That is one number a sequence; return the state of every object.")
        found = array(result, (5, task.objects))
        name, write, value = x[..., OBJECT:], x[..., WRITE, None], x[..., VALUE, None]
        gate = write * name
        if close(found, _last(gate, gate * value)):
            continue
        explain(
            found,
            [
                ((gate * value).sum(1), "That adds the writes up; a new write should replace the old value."),
                (_first(gate * value), "That keeps the first write; the last one counts."),
                (_last(name, name * value), "Distractors get in: the gate must also need the write flag."),
                (_last(write + 0 * name, write * value + 0 * name),
                 "Every write goes to every object: the gate must also need the object's name."),
                (_last(write + 0 * name, gate * value),
                 "Each write wipes the other objects, too: keep 1 − gate of the state, with the same gate."),
                (_last(name, gate * value),
                 "Distractors wipe their object: what is kept must look at the write flag, too."),
                ((gate * value)[:, -1],
                 "Only the last token is left: the state must be kept where nothing is written."),
                (_last(gate, gate), "That stores the write flag; the value stands in column 0."),
                (_last(gate / 2, gate * value / 2),
                 "That moves half-way to each new value: a write should replace it altogether."),
            ],
            "The state does not hold the last written value of each object.",
        )  # fmt: skip
    return "Two lines a token, and exact at any distance."


def _last(gate: np.ndarray, write: np.ndarray) -> np.ndarray:
    """The state after h = (1 − gate) h + write, token by token; both are (N, T, objects)."""
    h = np.zeros(gate[:, 0].shape)
    for t in range(gate.shape[1]):
        h = (1 - gate[:, t]) * h + write[:, t]
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
        lost = math.sqrt(error)
        explain(
            found,
            [
                (math.floor(exact) + 1, "One too far: at that distance the error is already larger."),
                (exact, "Round it down: k is a whole number of tokens."),
                (math.floor(-math.log(1 - error) / leak),
                 "The error is the square of the lost share: take the square root first."),
                (math.floor(lost / leak), "1 − e^(−x) is not quite x; solve for k with a logarithm."),
                *((math.floor(-math.log(part) / leak),
                   "What may be lost is √error; what must be left is 1 − √error.") for part in (error, lost)),
                *((value, "The sign is turned round: ln(1 − √error) is negative, k is not.")
                  for value in (-exact, math.floor(-exact), math.ceil(-exact))),
                (math.floor(exact * leak), "The leak must enter: divide by it."),
                (math.floor(exact / 2), "That takes the square into the exponent: e^(−2ℓk). What is squared "
                 "is 1 − e^(−ℓk)."),
            ],
            f"For a leak of {leak} and an error of {error} it gives {found:g}.",
        )  # fmt: skip
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
        if close(found, total):
            continue
        explain(
            found,
            [
                (average, "That is still the average; it must be multiplied by the number of tokens."),
                (average / share,
                 "That is the mean of the items: it divides by M, and M is not in the sum."),
                (average * items, "That multiplies by M; the average runs over M + 1 tokens."),
                (average * (items + 2), "One token too many: the average runs over M + 1."),
                (average * share, "Multiplying by the share makes it smaller; the sum is larger."),
                (average * (1 - share), "It should be divided by 1 − share, not multiplied."),
                (average * (1 + 1 / share),
                 "The share is M/(M + 1), so M is share/(1 − share); it is not 1/share."),
                (48 * average, "The weight is shared by M + 1 tokens, however long the sequence is."),
                (items, "That is M, how many items there are; their sum is asked for."),
                (items + 1, "That is M + 1; multiply the average by it."),
            ],
            f"With {items} items that sum to {total:.3f} it gives {found:.3f}.",
        )  # fmt: skip
    return "The factor 1/(1 − share) is M + 1, and it multiplies every small mistake as well."
