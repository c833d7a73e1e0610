"""Checkers of the exercises in "What attention costs"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number, parts, shape_of


@exercise(
    "attention_cost.cache",
    hint="Use (4.5). Ten minutes at 30 Hz are 18,000 tokens; a 32-bit number has 4 bytes; and do not forget "
    "that keys and values are both stored.",
)
def cache(answer: Any) -> str:
    """Megabytes of a KV cache after ten minutes at 30 Hz."""
    value, right = number(answer), 147.456
    for wrong, why in (
        (
            right / 2,
            "Half of it is missing: keys and values are both stored, and a 32-bit number has 4 bytes.",
        ),
        (right / 4, "A factor of 4 is missing: the 4 layers, or the 4 bytes of a number."),
        (right / 8, "A factor of 8 is missing: the 8 heads, or the bytes of both keys and values."),
        (right / 32, "A factor of 32 is missing: each head is 32 wide."),
        (right / 60, "Ten minutes are 600 seconds, so 18,000 tokens."),
        (right * 8, "That is in bits; 32 bits are 4 bytes."),
        (right * 1e6, "That is in bytes; divide by 10⁶."),
        (right * 1e6 / 2**20, "That is in MiB (2²⁰ bytes); the question asks for 10⁶ bytes."),
        (right / 30, "The robot takes 30 tokens a second, not one."),
        (right / 3, "The robot runs at 30 Hz, not at 10."),
    ):
        if abs(value / wrong - 1) < 4e-3:
            raise Wrong(why)
    if abs(value / right - 1) > 4e-3:
        raise Wrong(f"{value:g} MB is not it.")
    return "A larger network, or more than one token a frame, soon makes gigabytes of it."


@exercise(
    "attention_cost.parity",
    hint="For each token the linear maps cost as many multiply-adds as they have weights: 4d² in the "
    "projections and 8d² in the MLP. Attention costs T²(d_k + d_v) = 2dT² in all heads together.",
)
def parity(answer: Any) -> str:
    """Length at which attention costs as much as the linear maps, d = 256."""
    value = number(answer)
    for wrong, why in (
        (
            3072,
            "That is twice too long: count d_k and d_v both, and all T² pairs, since nothing is masked.",
        ),
        (512, "That leaves out the MLP, which has 8d² weights."),
        (1024, "That leaves out the projections, which have 4d² weights."),
        (3071, "That is with a causal mask; here every query meets every key."),
        (768, "That counts FLOPs on one side and multiply-adds on the other."),
        (256, "That is d itself; work out both sides: 2dT² and 12d²T."),
        (6, "That is T/d; multiply by d."),
    ):
        if abs(value - wrong) < 0.5:
            raise Wrong(why)
    if abs(value - 1536) > 0.5:
        raise Wrong(f"{value:g} is not it; set 2dT² equal to 12d²T.")
    return "Below six times its width a block spends most of its work outside attention."


@exercise(
    "attention_cost.combine",
    hint="The new maximum is the larger of the two. Each pair (ℓ, u) is relative to its own m; multiply both "
    "by e^(m − new maximum) to make them relative to the new one. Then they can be added.",
)
def combine(answer: Any) -> str:
    """Combine two reports of an online softmax."""
    rng = np.random.default_rng(0)

    def report(scores: np.ndarray, values: np.ndarray) -> tuple[float, float, np.ndarray]:
        e = np.exp(scores - scores.max())
        return float(scores.max()), float(e.sum()), e @ values

    for shift in (0.0, 3.0, -3.0, 2000.0, -2000.0):
        scores = [rng.normal(size=4), rng.normal(size=3) + shift]
        values = [rng.normal(size=(4, 2)), rng.normal(size=(3, 2))]
        both = [report(s, v) for s, v in zip(scores, values, strict=True)]
        wanted = (("the maximum m", ()), ("the sum ℓ", ()), ("the weighted sum u", (2,)))
        m, total, u = parts(call(answer, *both), wanted)
        right = report(np.concatenate(scores), np.concatenate(values))
        if close(m, right[0]) and close(total, right[1]) and close(u, right[2]):
            continue
        if close(m, min(both[0][0], both[1][0])) and not close(m, right[0]):
            raise Wrong("The first entry should be the larger of the two maxima.")
        if total <= 0:
            raise Wrong("ℓ is a sum of exponentials, so it should be above zero.")
        if close(u / total, right[2] / right[1]):
            raise Wrong("The readout u/ℓ is right, but m is not the maximum that ℓ is relative to.")
        if close(u, right[2] / right[1]):
            raise Wrong(
                "u is divided by ℓ already; report the sums, so that they can be combined again."
            )
        if close(total, both[0][1] + both[1][1]):
            if close(parts(call(answer, both[1], both[0]), wanted)[1], right[1]):
                raise Wrong("Only one of the two is rescaled; either may hold the smaller maximum.")
            raise Wrong("The sums are added as they are; each is relative to its own maximum.")
        if close(u, right[2]) or close(total, right[1]):
            raise Wrong("One of ℓ and u is right; rescale the other in the same way.")
        raise Wrong("Check the factors: e^(m − new maximum), which is never above one.")
    return "Reports can be combined in any grouping, so the keys may lie on many machines."


@exercise(
    "attention_cost.chunk_mask",
    hint="Row i belongs to the token at position total − new + i. It may look at every column j up to and "
    "including that position.",
)
def chunk_mask(answer: Any) -> str:
    """Mask of new queries over all cached keys."""
    for new, total in ((3, 7), (1, 5), (4, 4), (1, 1), (2, 9)):
        result = call(answer, new, total)
        row, column = np.arange(new)[:, None], np.arange(total)
        if new != total:
            if shape_of(result) == (total, total):
                raise Wrong(
                    "That is the mask of all tokens; only the last `new` rows are asked for."
                )
            if shape_of(result) == (total, new):
                raise Wrong("Rows are new queries, columns are keys; yours is transposed.")
        found = array(result, (new, total), finite=False)
        if np.isneginf(found).any():
            raise Wrong(
                "Those are numbers to add to scores; a boolean mask is asked for, True where a query may "
                "look."
            )
        if not np.isin(found, (0, 1)).all():
            raise Wrong("A boolean mask is asked for; yours holds other numbers than 0 and 1.")
        first = total - new
        right = column <= row + first
        if close(found, right):
            continue
        explain(
            found,
            [
                (column <= row,
                 "The rows start at position 0; a new query stands at total − new + i. With one new query "
                 "only the first key would be seen."),
                (np.ones_like(right), "Within the chunk a query still may not see later ones."),
                (column < row + first, "A query may look at itself."),
                (column <= row + first + 1, "One too many: a query may not see the token right after it."),
                (~right, "The mask is inverted: True should mean that it may look."),
                (column < first + 0 * row, "The new tokens may see each other too, up to themselves."),
                (column >= row, "That looks at what comes later, not at what came before."),
                (column >= row + first, "That looks at what comes later, not at what came before."),
                ((column >= first) & right, "The cached tokens may be seen too; that is what they are for."),
            ],
            f"For new = {new}, total = {total} it gives {found.astype(int).tolist()}.",
        )  # fmt: skip
    return "One new query sees everything; a whole sequence of new ones gets the causal mask."


@exercise(
    "attention_cost.layers",
    hint="One layer reaches back W − 1 steps beyond the token itself, so L layers reach lag L(W − 1). You "
    "need the smallest whole L with L(W − 1) ≥ k, and at least one layer.",
)
def layers(answer: Any) -> str:
    """Layers of a window W that reach lag k."""
    for k, W in ((24, 4), (7, 4), (18_000, 1024), (3, 4), (5, 2), (0, 8)):
        found, exact = number(call(answer, k, W)), k / (W - 1)
        right = max(1, math.ceil(exact))
        if found == right:
            continue
        if k == 0:
            raise Wrong("For k = 0 one layer is needed: without a layer nothing is heard at all.")
        if close(found, exact):
            raise Wrong("Layers are whole; round up.")
        if found == math.floor(exact):
            raise Wrong(f"For k = {k}, W = {W} it gives {found:g}, which reaches only lag "
                        f"{found * (W - 1):g}. Round up.")  # fmt: skip
        if found == math.ceil(k / W) or close(found, k / W):
            raise Wrong(
                "A layer reaches back W − 1 steps, not W: the token itself is in the window."
            )
        if found == math.ceil((k + 1) / W):
            raise Wrong("The windows of two layers share a token; each adds only W − 1 steps.")
        if found == right + 1:
            raise Wrong(
                f"For k = {k}, W = {W} one layer fewer is enough: it reaches lag {right * (W - 1)}. Lag k "
                "is k steps back, and the present token is lag 0."
            )
        if found == math.ceil((k - 1) / (W - 1)):
            raise Wrong(f"For k = {k}, W = {W} it gives {found:g}, which reaches only lag "
                        f"{found * (W - 1):g}.")  # fmt: skip
        if found == right * (W - 1) + 1:
            raise Wrong("That is how many tokens are heard; the number of layers is asked for.")
        raise Wrong(f"For k = {k}, W = {W} it gives {found:g}.")
    return "Ten minutes at 30 Hz through a window of 1024 take 18 layers, each of them a relay."


@exercise(
    "attention_cost.merged",
    hint="In the softmax over all original tokens, the n equal tokens contribute n times the same "
    "exponential to the sum. Multiply each exponential by its count, or add ln(count) to the score, "
    "after the division by √d_k.",
)
def merged(answer: Any) -> str:
    """Readout over tokens that stand for several."""
    rng = np.random.default_rng(1)
    counts = np.array([1.0, 4.0, 2.0])
    repeat = counts.astype(int)
    for d_k in (4, 9):
        query, keys, values = (
            rng.normal(size=d_k),
            rng.normal(size=(3, d_k)),
            rng.normal(size=(3, 2)),
        )
        found = array(call(answer, query, keys, values, counts), (2,))
        scores = keys @ query

        def readout(s: np.ndarray, v: np.ndarray) -> np.ndarray:
            e = np.exp(s - s.max())
            return e @ v / e.sum()

        scaled = scores / math.sqrt(d_k)
        if close(found, readout(np.repeat(scaled, repeat), np.repeat(values, repeat, axis=0))):
            continue
        e = np.exp(scaled)
        counted = e * counts / (e @ counts)
        explain(
            found,
            [
                (readout(scaled, values), "Each entry counts once; one for four tokens counts four times."),
                (readout(scaled + counts, values), "The count is added to the score; add its logarithm."),
                (readout(scaled * counts, values), "The score is multiplied by the count, which is not the "
                 "same as counting an exponential several times."),
                (readout(scores + np.log(counts), values), "The scores are not divided by √d_k."),
                (readout((scores + np.log(counts)) / math.sqrt(d_k), values),
                 "The logarithm is divided by √d_k too; add it afterwards."),
                (e * counts @ values / e.sum(), "The weights do not sum to one: count below as well."),
                (e @ values / (e @ counts), "The counts are missing above the fraction line."),
                (readout(scaled - np.log(counts), values), "The sign of the logarithm is turned round."),
                (counted * counts @ values, "Counted twice: in the weights, and then in the values."),
                (counts @ values / counts.sum(), "The scores do not enter at all."),
            ],
            "It is not what attention over all the original tokens would give.",
        )  # fmt: skip
    large = np.array([[100.0, 0.0], [0.0, 1.0]])
    result = call(
        answer, np.array([100.0, 0.0]), large, np.array([[3.0], [5.0]]), np.array([2.0, 1.0])
    )
    if not close(array(result, (1,), finite=False), [3.0]):
        raise Wrong("Large scores overflow: subtract the largest before exponentiating.")
    return "And it survives scores in the thousands."
