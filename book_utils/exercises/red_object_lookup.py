"""Checkers of the exercises in "Where is the red object?"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number


def _softmax(scores: np.ndarray) -> np.ndarray:
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


@exercise(
    "red_object_lookup.two_tokens",
    hint="The vectors have two entries now, so d_k = 2. Work out the two scores, then their exponentials, "
    "then the weights, and only then the readout.",
)
def two_tokens(answer: Any) -> str:
    """Readout for the red query with tokens red (9.0) and blue (7.0), d_k = 2."""
    value = number(answer)

    def readout(score: float) -> float:
        return float(_softmax(np.array([score, 0.0])) @ [9.0, 7.0])

    right = readout(1 / math.sqrt(2))
    for wrong, why in (
        (readout(1.0), "That is what the unscaled score 1 gives; divide it by √d_k first."),
        (readout(1 / math.sqrt(3)), "That divides by √3, but the vectors have two entries now."),
        (readout(0.5), "That divides by d_k; the scale is its square root."),
        (16 - right, "The weights are right but stand at the wrong tokens: red matches the query."),
        (9.0, "That would be a hard lookup. The blue token still gets some weight."),
        (6.6199, "That is the readout of the three tokens in the text; here there are two."),
        (0.6698, "That is red's weight; the readout is still to come."),
        (8.0, "That is the plain average; the red token scores higher than the blue one."),
    ):
        if abs(value - wrong) < 0.006:
            raise Wrong(why)
    if abs(value - right) >= 0.006:
        raise Wrong(f"{value:g} is not it. Go through (2.2), (2.3) and (2.4) again, one at a time.")
    return "The one competitor left is closer to red, so the readout is closer too."


@exercise(
    "red_object_lookup.weights",
    hint="keys @ query gives all scores at once, one per row of keys. Divide by the square root of the "
    "query's length, subtract the largest, exponentiate, and divide by the sum.",
)
def weights(answer: Any) -> str:
    """Attention weights of one query over the rows of keys."""
    rng = np.random.default_rng(0)
    for n, width in ((3, 3), (5, 2), (4, 16)):
        query, keys = rng.normal(size=width), rng.normal(size=(n, width))
        found = array(call(answer, query, keys), (n,))
        scores = keys @ query
        if close(found, _softmax(scores / math.sqrt(width))):
            continue
        if not close(found.sum(), 1.0):
            raise Wrong(f"The weights should sum to one, but they sum to {found.sum():.3f}.")
        if close(found.max(), 1.0):
            raise Wrong("Everything goes to the best match: that is a hard lookup, not a softmax.")
        explain(
            found,
            [
                (_softmax(scores), "The scores are not divided by √d_k."),
                (_softmax(scores / width), "The scores are divided by d_k instead of its square root."),
                (_softmax(scores / math.sqrt(n)),
                 "The scores are divided by √n, the number of tokens; use √d_k."),
                (_softmax(-scores / math.sqrt(width)),
                 "The sign is turned round: the best match gets the least."),
                (np.abs(scores) / np.abs(scores).sum(),
                 "Dividing by the sum is not enough: exponentiate the scores first."),
                (scores / scores.sum(),
                 "Dividing by the sum is not enough: exponentiate the scores first."),
                (np.full(n, 1 / n), "All weights are equal; the scores must enter."),
            ],
            "The weights sum to one but are not the softmax of the scaled scores.",
        )  # fmt: skip
    result = call(answer, np.array([100.0, 0.0]), np.array([[100.0, 0.0], [0.0, 1.0]]))
    large = array(result, (2,), finite=False)
    if not np.isfinite(large).all():
        raise Wrong("Large scores overflow: subtract the largest score before exponentiating.")
    if not close(large, [1.0, 0.0]):
        raise Wrong("With scores near 7000 the weights should be 1 and 0.")
    return "It also survives scores in the thousands."


@exercise(
    "red_object_lookup.margin",
    hint="Start from w = e^m / (e^m + n − 1). Bring e^m to one side: e^m (1 − w) = w (n − 1).",
)
def margin(answer: Any) -> str:
    """The margin that gives the match a wanted weight among n tokens."""
    for weight, n in ((0.99, 3), (0.5, 10), (0.9, 1000)):
        found = number(call(answer, weight, n))
        odds = weight / (1 - weight)
        if close(found, math.log(odds * (n - 1))):
            continue
        for wrong, why in (
            (
                math.log(odds * n),
                "Only the n − 1 other tokens compete; the match is not its own rival.",
            ),
            (math.log(odds), "That is right for two tokens; the number of tokens must enter."),
            (odds * (n - 1), "That is e^m; take its logarithm."),
            (
                math.log(odds / (n - 1)),
                "More rivals need more margin: multiply by n − 1, do not divide.",
            ),
            (
                math.log(weight * (n - 1)),
                "What the rivals get is 1 − w; the odds are w/(1 − w), not w.",
            ),
            (
                -math.log(odds * (n - 1)),
                "The sign is turned round: a larger weight needs a larger margin.",
            ),
            (
                math.log10(odds * (n - 1)),
                "The exponential has base e, so the logarithm is natural.",
            ),
        ):
            if close(found, wrong):
                raise Wrong(why)
        raise Wrong(f"For a weight of {weight} among {n} tokens it gives {found:.4f}.")
    return "A thousand tokens need only ln 500 ≈ 6.2 more than three do."


@exercise(
    "red_object_lookup.duplicates",
    hint="Give every matching token the score m and every other token the score 0. The softmax does the "
    "rest: put all values in one array and all scores in another.",
)
def duplicates(answer: Any) -> str:
    """Readout when several tokens match."""
    for match, other, m in (
        ([9.0, 1.0], [4.0], 3.0),
        ([9.0], [2.0, 7.0], 1 / math.sqrt(3)),
        ([1.0, 2.0, 6.0], [0.0, 5.0], 1.0),
    ):
        found = number(call(answer, np.array(match), np.array(other), m))
        values = np.array(match + other)
        scores = np.array([m] * len(match) + [0.0] * len(other))
        if close(found, _softmax(scores) @ values):
            continue
        first = _softmax(np.array([m] + [0.0] * len(other))) @ np.array([match[0], *other])
        split = (math.exp(m) * np.mean(match) + sum(other)) / (math.exp(m) + len(other))
        for wrong, why in (
            (
                split,
                "The matches share one weight; each of them has the score m, and so e^m of its own.",
            ),
            (first, "Only the first match is used; every token that matches gets the same weight."),
            (float(np.mean(match)), "The other tokens are left out; they still get weight."),
            (float(np.exp(scores) @ values), "The weights do not sum to one yet."),
            (float(values.mean()), "All tokens are weighted alike; the matches score m higher."),
        ):
            if close(found, wrong):
                raise Wrong(why)
        raise Wrong(f"For matches {match}, others {other} and margin {m:.3f} it gives {found:.4f}.")
    return "As the margin grows, the readout tends to the mean of the matching values."


@exercise(
    "red_object_lookup.last_usable_age",
    hint="You look for the largest whole k with decay**k ≥ share. Take logarithms, and mind that ln(decay) "
    "is negative, which turns the inequality round.",
)
def last_usable_age(answer: Any) -> str:
    """The largest age at which a recurrence still holds the given share of a write."""
    for decay, share in ((0.9, 0.5), (0.5, 0.1), (0.99, 0.01), (0.95, 0.3), (0.5, 0.25)):
        found = number(call(answer, decay, share))
        exact = math.log(share) / math.log(decay)
        if found == math.floor(exact):
            continue
        if found == exact - 1:
            raise Wrong(f"{decay}**{exact:g} is exactly {share}, and “at least” lets that count.")
        if found == -math.floor(exact) or found == math.floor(-exact):
            raise Wrong("An age cannot be negative: ln(decay) is, and so is ln(share).")
        if found == math.ceil(exact):
            raise Wrong(
                f"For decay {decay} and share {share} it gives {found:g}, but {decay}**{found:g} is "
                f"{decay**found:.4f}, already below the share. One too late."
            )
        if close(found, exact):
            raise Wrong(
                f"Ages are whole steps; {found:.3f} is where the curve crosses. Round it down."
            )
        if close(found, 1 / exact) or found == math.floor(1 / exact):
            raise Wrong("The two logarithms have changed places.")
        if found == math.floor(math.log(2) / -math.log(decay)):
            raise Wrong("That is the half-life; the share that is asked for may be another.")
        if found == math.floor(1 / (1 - decay)):
            raise Wrong("1/(1 − decay) is the time constant: the age at which 1/e is left.")
        if found == math.floor((1 - share) / (1 - decay)):
            raise Wrong(
                "The decay is not a straight line; each step takes a share of what is left."
            )
        raise Wrong(f"For decay {decay} and share {share} it gives {found:g}.")
    return (
        "Decay 0.99 holds one part in a hundred for 458 steps; decay 0.5 holds a tenth for three."
    )


@exercise(
    "red_object_lookup.nothing_score",
    hint="Write the two conditions with e^b as the unknown: present, e^8 / (e^8 + 2 + e^b) > 0.9; "
    "absent, e^b / (3 + e^b) > 0.9. Each bounds e^b from one side.",
)
def nothing_score(answer: Any) -> str:
    """A score for the extra token that says "not here"."""
    b = number(answer)
    if 27 < b < math.exp(8) / 9 - 2:
        raise Wrong("That is a value for e^b; the score is b, so take the logarithm.")
    if abs(b - math.log(27)) < 0.004:
        raise Wrong(
            "Nearly: there “nothing” gets just 0.9 of the weight for an absent colour, and it should "
            "get more."
        )
    if b < 0:
        raise Wrong("A negative score loses even against tokens that do not match at all.")
    present = math.exp(8) / (math.exp(8) + 2 + math.exp(min(b, 700.0)))
    absent = 1 / (1 + 3 * math.exp(-max(b, -700.0)))
    if absent <= 0.9:
        raise Wrong(
            f"For an absent colour the token “nothing” gets only {absent:.3f}; its score is too low "
            "to win against three tokens at score 0."
        )
    if present <= 0.9:
        raise Wrong(
            f"For a red query the red token gets only {present:.3f}; “nothing” takes the rest, so its "
            "score is too high."
        )
    return f"Present: {present:.3f} on the match. Absent: {absent:.3f} on “nothing”."
