"""Right answers and typical mistakes in “Events and distance”."""

import math

import numpy as np
import torch

from book_utils.events import OBJECT, VALUE, WRITE


def gated(gate, update=lambda h, g, v: (1 - g) * h + g * v):
    """A recurrence over the tokens with the given gate."""

    def remember(x):
        h, g = np.zeros((len(x), x.shape[-1] - OBJECT)), gate(x)
        for t in range(x.shape[1]):
            h = update(h, g[:, t], x[:, t, VALUE, None])
        return h

    return remember


def both(x):
    return x[..., WRITE, None] * x[..., OBJECT:]


def by_search(x):
    """The last write of each object, found by looking for it from the end."""
    result = np.zeros((len(x), x.shape[-1] - OBJECT))
    for i, sequence in enumerate(x):
        for name in range(result.shape[1]):
            for token in sequence[::-1]:
                if token[WRITE] and token[OBJECT + name]:
                    result[i, name] = token[VALUE]
                    break
    return result


def distractors_wipe(x):
    """Each token with an object's name wipes it; only writes are stored."""
    h = np.zeros((len(x), x.shape[-1] - OBJECT))
    for t in range(x.shape[1]):
        h = (1 - x[:, t, OBJECT:]) * h + both(x)[:, t] * x[:, t, VALUE, None]
    return h


RIGHT = [
    ("window_average", 24 / 39),
    ("window_average", "0.615"),
    ("stale_error", lambda a, g: 1 / (1 + a ** (-2 * g))),
    ("stale_error", lambda a, g: (c := 1 / (1 + a ** (2 * g))) and (1 - c) ** 2 + (c * a**g) ** 2),
    ("needed_slope", lambda e: math.log(math.sqrt(2 / e) - 1)),
    ("needed_slope", lambda e: (lambda s: math.log1p(-s) - math.log(s))(math.sqrt(e / 2))),
    ("overwrite", by_search),
    ("overwrite", lambda x: torch.tensor(gated(both)(x))),
    ("reach", lambda leak, e: max(k for k in range(999) if (1 - math.exp(-leak * k)) ** 2 <= e)),
    ("reach", lambda leak, e: int(-math.log1p(-(e**0.5)) / leak)),
    ("sum_from_attention", lambda average, share: average * (share / (1 - share) + 1)),
]

WRONG = [
    ("window_average", 23 / 39, "takes one of its 16"),
    ("window_average", 15 / 39, "gets right"),
    ("window_average", 0.5, "only the distances 1 to 39"),
    ("window_average", 33 / 48, "divides by the 48"),
    ("window_average", 24, "how many distances are missed"),
    ("window_average", 16 / 39, "one of the 16 places"),
    ("window_average", 32 / 48, "divides by the 48"),
    ("window_average", 24 / 40, "39 distances"),
    ("window_average", 48 / 39, "knows nothing; not 2"),
    ("window_average", 100 * 24 / 39, "per cent"),
    ("window_average", 0.9, "0.9 is not it"),
    ("stale_error", lambda a, g: a ** (2 * g), "c = 1"),
    ("stale_error", lambda a, g: a**g / (1 + a**g), "squared"),
    ("stale_error", lambda a, g: a**2 / (1 + a**2), "decay**gap"),
    ("stale_error", lambda a, g: 1 / (1 + a ** (2 * g)), "gets right"),
    ("stale_error", lambda a, g: (a**g / (1 + a**g)) ** 2, "freely"),
    ("stale_error", lambda a, g: a ** (2 * g + 1) / (1 + a ** (2 * g)), "common factor"),
    ("stale_error", lambda a, g: 0.3, "it gives 0.3000"),
    ("stale_error", lambda a, g: 0.5, "a decay of 1 only"),
    ("stale_error", lambda a, g: (a * g) ** 2 / (1 + (a * g) ** 2), "not decay · gap"),
    ("stale_error", lambda a, g: 1 / (1 + a ** (-2 * g - 2)), "power is gap"),
    ("stale_error", lambda a, g: (1 + a ** (-2 * g)) ** -0.5, "its root"),
    ("stale_error", lambda a, g: (1 + a ** (2 * g)) / 4, "c = 1/2"),
    ("needed_slope", lambda e: math.log(1 / e**0.5 - 1), "variance 2, not 1"),
    ("needed_slope", lambda e: -math.log((e / 2) ** 0.5), "1/(1 + e^m)"),
    ("needed_slope", lambda e: math.log(2 / e - 1), "square root"),
    ("needed_slope", lambda e: math.log(1 / e - 1), "enters squared"),
    ("needed_slope", lambda e: -math.log((2 / e) ** 0.5 - 1), "sign"),
    ("needed_slope", lambda e: 1.0, "it gives 1.0000"),
    ("needed_slope", lambda e: math.log(math.sqrt(2 / e) + 1), "not 1/s + 1"),
    ("needed_slope", lambda e: math.sqrt(2 / e) - 1, "That is e^m"),
    ("needed_slope", lambda e: math.sqrt(e / 2), "the share s"),
    ("needed_slope", lambda e: 39 * math.log(math.sqrt(2 / e) - 1), "per token"),
    ("needed_slope", lambda e: math.log10(math.sqrt(2 / e) - 1), "natural logarithm"),
    ("overwrite", gated(both, lambda h, g, v: h + g * v), "adds the writes up"),
    ("overwrite", gated(both, lambda h, g, v: np.where(h == 0, g * v, h)), "first write"),
    ("overwrite", gated(lambda x: x[..., OBJECT:]), "Distractors"),
    (
        "overwrite",
        gated(lambda x: np.broadcast_to(x[..., WRITE, None], both(x).shape)),
        "every object",
    ),
    ("overwrite", lambda x: np.full((len(x), x.shape[-1] - 3), 0.3), "does not hold"),
    ("overwrite", lambda x: x[:, -1], "should have shape"),
    (
        "overwrite",
        gated(both, lambda h, g, v: (1 - g.sum(axis=1, keepdims=True)) * h + g * v),
        "wipes the other objects",
    ),
    ("overwrite", lambda x: (both(x) * x[..., VALUE, None])[:, -1], "Only the last token"),
    ("overwrite", gated(both, lambda h, g, v: (1 - g) * h + g), "stores the write flag"),
    ("overwrite", gated(both, lambda h, g, v: h + g * (v - h) / 2), "half-way"),
    (
        "overwrite",
        lambda x: (gated(both)(x) * x[:, -1, OBJECT:]).sum(axis=1),
        "one number a sequence",
    ),
    ("overwrite", distractors_wipe, "look at the write flag"),
    ("reach", lambda leak, e: math.floor(-math.log(1 - e**0.5) / leak) + 1, "too far"),
    ("reach", lambda leak, e: -math.log(1 - e**0.5) / leak, "Round"),
    ("reach", lambda leak, e: math.floor(-math.log(1 - e) / leak), "square root"),
    ("reach", lambda leak, e: math.floor(e**0.5 / leak), "logarithm"),
    ("reach", lambda leak, e: math.floor(-math.log(e) / leak), "must be left"),
    ("reach", lambda leak, e: math.floor(-math.log(e**0.5) / leak), "must be left"),
    ("reach", lambda leak, e: 39, "it gives 39"),
    ("reach", lambda leak, e: math.floor(math.log(1 - e**0.5) / leak), "sign"),
    ("reach", lambda leak, e: int(-math.log(1 - e**0.5)), "leak must enter"),
    ("reach", lambda leak, e: int(-math.log(1 - e**0.5) / leak / 2), "into the exponent"),
    ("sum_from_attention", lambda a, s: a, "still the average"),
    ("sum_from_attention", lambda a, s: a / s, "mean of the items"),
    ("sum_from_attention", lambda a, s: a * s / (1 - s), "M + 1 tokens"),
    ("sum_from_attention", lambda a, s: a * s, "smaller"),
    ("sum_from_attention", lambda a, s: a * (1 - s), "not multiplied"),
    ("sum_from_attention", lambda a, s: 7.0, "it gives 7.000"),
    ("sum_from_attention", lambda a: a, "TypeError"),
    ("sum_from_attention", lambda a, s: a * (s / (1 - s) + 2), "One token too many"),
    ("sum_from_attention", lambda a, s: a * (1 + 1 / s), "not 1/share"),
    ("sum_from_attention", lambda a, s: 48 * a, "however long"),
    ("sum_from_attention", lambda a, s: s / (1 - s), "how many items"),
    ("sum_from_attention", lambda a, s: 1 / (1 - s), "multiply the average"),
]
