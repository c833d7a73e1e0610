"""Right answers and typical mistakes in “What attention costs”."""

import math

import numpy as np
import scipy.special
import torch

from book_utils import efficient_attention


def combined(f1, f2, m=max):
    """Combine reports with factors f1 on the sums and f2 on the values."""

    def combine(a, b):
        top = m(a[0], b[0])
        return top, f1(a, top) * a[1] + f1(b, top) * b[1], f2(a, top) * a[2] + f2(b, top) * b[2]

    return combine


def one(report, top):
    return 1.0


def right(report, top):
    return math.exp(report[0] - top)


def inverse(report, top):
    return math.exp(min(top - report[0], 600.0))


def zero_based(a, b):
    """Relative to 0 instead of the maximum: the ratio is right while nothing overflows."""
    x, y = np.exp(a[0]), np.exp(b[0])
    return 0.0, x * a[1] + y * b[1], x * a[2] + y * b[2]


def logsumexp(a, b):
    m = np.logaddexp(a[0] + np.log(a[1]), b[0] + np.log(b[1]))
    top = np.maximum(a[0], b[0])
    return top, np.exp(m - top), a[2] * np.exp(a[0] - top) + b[2] * np.exp(b[0] - top)


def masked(compare):
    return lambda new, total: compare(np.arange(new)[:, None], np.arange(total), total - new)


def attend(scores, counts=1.0):
    def readout(q, k, v, n):
        s = scores(k @ q, math.sqrt(len(q)), n)
        return scipy.special.softmax(s) @ v

    return readout


def overflowing(q, k, v, n):
    e = n * np.exp(k @ q / math.sqrt(len(q)))
    return e @ v / e.sum()


def repeated(q, k, v, n):
    n = n.astype(int)
    k, v = np.repeat(k, n, axis=0), np.repeat(v, n, axis=0)
    return torch.softmax(torch.tensor(k @ q / len(q) ** 0.5), 0) @ torch.tensor(v)


def one_rescaled(a, b):
    """Only the first report is made relative to the common maximum."""
    top = max(a[0], b[0])
    factor = math.exp(a[0] - top)
    return top, factor * a[1] + b[1], factor * a[2] + b[2]


def normalised(a, b):
    """The readout in place of the weighted sum."""
    m, total, u = combined(right, right)(a, b)
    return m, total, u / total


RIGHT = [
    ("cache", 147.5),
    ("cache", efficient_attention.cache_bytes(4, 18_000, 8, 32, 4) / 1e6),
    ("parity", 1536),
    ("parity", "1536.0"),
    ("combine", combined(right, right)),
    ("combine", logsumexp),
    ("chunk_mask", lambda new, total: efficient_attention.chunk_mask(new, total)),
    ("chunk_mask", lambda new, total: np.tri(total, dtype=bool)[-new:]),
    ("layers", lambda k, W: max(1, math.ceil(k / (W - 1)))),
    ("layers", lambda k, W: next(L for L in range(1, k + 2) if k <= L * (W - 1))),
    ("merged", repeated),
    ("merged", attend(lambda s, root, n: s / root + np.log(n))),
]

WRONG = [
    ("cache", 73.728, "both stored"),
    ("cache", 36.864, "4 bytes"),
    ("cache", 18.432, "8 heads"),
    ("cache", 2.4576, "600 seconds"),
    ("cache", 1179.6, "in bits"),
    ("cache", 147_456_000, "in bytes"),
    ("cache", 140.6, "MiB"),
    ("cache", 49.15, "30 Hz"),
    ("cache", 4.915, "not one"),
    ("cache", 1.0, "1 MB is not it"),
    ("cache", 4.608, "32 wide"),
    ("parity", 3072, "d_k and d_v both"),
    ("parity", 512, "leaves out the MLP"),
    ("parity", 1024, "leaves out the projections"),
    ("parity", 3071, "causal mask"),
    ("parity", 768, "FLOPs"),
    ("parity", 256, "d itself"),
    ("parity", 6, "multiply by d"),
    ("parity", 99, "99 is not it"),
    ("combine", lambda a, b: a[2] + b[2], "three things"),
    ("combine", combined(one, one), "as they are"),
    ("combine", combined(right, one), "One of ℓ and u"),
    ("combine", combined(right, right, m=min), "larger of the two maxima"),
    ("combine", combined(inverse, inverse), "never above one"),
    ("combine", zero_based, "u/ℓ is right"),
    ("combine", lambda a, b: (max(a[0], b[0]), 0.0, 0 * a[2]), "above zero"),
    ("combine", one_rescaled, "Only one of the two"),
    ("combine", normalised, "divided by ℓ already"),
    ("chunk_mask", masked(lambda i, j, first: j <= i), "rows start at position 0"),
    ("chunk_mask", masked(lambda i, j, first: (j >= 0) & (i >= 0)), "later ones"),
    ("chunk_mask", masked(lambda i, j, first: j < i + first), "look at itself"),
    ("chunk_mask", masked(lambda i, j, first: j > i + first), "inverted"),
    ("chunk_mask", masked(lambda i, j, first: j < first + 0 * i), "see each other"),
    ("chunk_mask", masked(lambda i, j, first: j >= i), "comes later"),
    ("chunk_mask", masked(lambda i, j, first: (i + j) % 2), "it gives"),
    ("chunk_mask", lambda new, total: np.tri(total), "only the last"),
    ("chunk_mask", masked(lambda i, j, first: first + i - j), "other numbers than 0 and 1"),
    ("chunk_mask", masked(lambda i, j, first: j <= i + first + 1), "One too many"),
    (
        "chunk_mask",
        masked(lambda i, j, first: np.where(j <= i + first, 0, -np.inf)),
        "to add to scores",
    ),
    (
        "chunk_mask",
        lambda new, total: masked(lambda i, j, first: j <= i + first)(new, total).T,
        "transposed",
    ),
    (
        "chunk_mask",
        masked(lambda i, j, first: (j >= first) & (j <= i + first)),
        "cached tokens may be seen",
    ),
    ("chunk_mask", masked(lambda i, j, first: j >= i + first), "comes later"),
    ("layers", lambda k, W: k / (W - 1), "round up"),
    ("layers", lambda k, W: k // (W - 1), "Round up"),
    ("layers", lambda k, W: -(-k // (W - 1)), "one layer is needed"),
    ("layers", lambda k, W: max(1, -(-k // W)), "not W"),
    ("layers", lambda k, W: max(1, -(-(k + 1) // W)), "share a token"),
    ("layers", lambda k, W: 1 + k // (W - 1), "one layer fewer"),
    ("layers", lambda k, W: 40, "it gives 40"),
    ("layers", lambda k, W: max(1, round(k / (W - 1))), "Round up"),
    ("layers", lambda k, W: max(1, -(-(k + 1) // (W - 1))), "the present token is lag 0"),
    ("layers", lambda k, W: max(1, -(-k // (W - 1))) * (W - 1) + 1, "how many tokens"),
    ("merged", attend(lambda s, root, n: s / root), "counts once"),
    ("merged", attend(lambda s, root, n: s / root + n), "add its logarithm"),
    ("merged", attend(lambda s, root, n: s / root * n), "multiplied by the count"),
    ("merged", attend(lambda s, root, n: s + np.log(n)), "not divided"),
    ("merged", attend(lambda s, root, n: (s + np.log(n)) / root), "divided by √d_k too"),
    ("merged", attend(lambda s, root, n: s / root - np.log(n)), "turned round"),
    (
        "merged",
        lambda q, k, v, n: scipy.special.softmax(k @ q / len(q) ** 0.5) * n @ v,
        "do not sum to one",
    ),
    (
        "merged",
        lambda q, k, v, n: np.exp(k @ q / len(q) ** 0.5) @ v / (np.exp(k @ q / len(q) ** 0.5) @ n),
        "above the fraction line",
    ),
    ("merged", overflowing, "overflow"),
    ("merged", lambda q, k, v, n: v.mean(axis=0), "not what attention"),
    (
        "merged",
        lambda q, k, v, n: attend(lambda s, root, n: s / root + np.log(n))(q, k, n[:, None] * v, n),
        "Counted twice",
    ),
    ("merged", lambda q, k, v, n: n @ v / n.sum(), "do not enter"),
]
