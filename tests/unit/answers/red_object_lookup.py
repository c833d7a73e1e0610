"""Right answers and typical mistakes in “Where is the red object?”."""

import math

import numpy as np
import scipy.special
import torch


def softmax_of(scale):
    return lambda query, keys: scipy.special.softmax(scale(query, keys) * (keys @ query))


RIGHT = [
    ("two_tokens", 8.34),
    ("two_tokens", "8.3396"),
    ("weights", lambda q, K: torch.tensor(K @ q / len(q) ** 0.5).softmax(0)),
    ("weights", lambda q, K: scipy.special.softmax(K @ q / np.linalg.norm(np.ones(len(q))))),
    ("margin", lambda w, n: math.log(w) + math.log(n - 1) - math.log1p(-w)),
    ("margin", lambda w, n: scipy.special.logit(w) + np.log(n - 1)),
    (
        "duplicates",
        lambda match, other, m: (
            (math.exp(m) * sum(match) + sum(other)) / (math.exp(m) * len(match) + len(other))
        ),
    ),
    ("nothing_score", 3.4),
    ("nothing_score", 5.7),
    ("last_usable_age", lambda a, s: next(k for k in range(9999) if a ** (k + 1) < s)),
    ("last_usable_age", lambda a, s: int(math.log2(s) / math.log2(a))),
]

WRONG = [
    ("two_tokens", 8.46, "unscaled"),
    ("two_tokens", 8.28, "divides by √3"),
    ("two_tokens", 8.2449, "its square root"),
    ("two_tokens", 7.66, "wrong tokens"),
    ("two_tokens", 9, "hard lookup"),
    ("two_tokens", 8, "plain average"),
    ("two_tokens", 6.62, "three tokens"),
    ("two_tokens", 0.67, "red's weight"),
    ("two_tokens", 1.5, "1.5 is not it"),
    ("two_tokens", "about eight", "single number"),
    ("weights", lambda q, K: scipy.special.softmax(K @ q), "not divided by √d_k"),
    ("weights", softmax_of(lambda q, K: 1 / len(q)), "instead of its square root"),
    ("weights", softmax_of(lambda q, K: len(K) ** -0.5), "√n"),
    ("weights", softmax_of(lambda q, K: -(len(q) ** -0.5)), "sign"),
    ("weights", lambda q, K: np.exp(K @ q / len(q) ** 0.5), "should sum to one"),
    ("weights", lambda q, K: K @ q == (K @ q).max(), "hard lookup"),
    ("weights", lambda q, K: scipy.special.softmax(K * q, axis=0), "should have shape"),
    ("weights", lambda q, K: np.full(len(K), 1 / len(K)), "All weights are equal"),
    (
        "weights",
        lambda q, K: (lambda e: e / e.sum())(np.exp(K @ q / len(q) ** 0.5)),
        "overflow",
    ),
    ("weights", lambda q, K: None, "return statement"),
    ("weights", lambda q, K: K @ q / (K @ q).sum(), "exponentiate the scores first"),
    ("weights", lambda q, K: np.abs(K @ q) / np.abs(K @ q).sum(), "exponentiate the scores first"),
    ("weights", lambda q, K: np.eye(len(K))[0] * 0.4 + 0.6 / len(K), "not the softmax"),
    ("margin", lambda w, n: math.log(w * n / (1 - w)), "Only the n − 1"),
    ("margin", lambda w, n: math.log(w / (1 - w)), "two tokens"),
    ("margin", lambda w, n: w * (n - 1) / (1 - w), "take its logarithm"),
    ("margin", lambda w, n: -math.log(w * (n - 1) / (1 - w)), "sign"),
    ("margin", lambda w, n: math.log10(w * (n - 1) / (1 - w)), "natural"),
    ("margin", lambda w, n: 5.29, "it gives 5.2900"),
    ("margin", lambda w, n: math.log(w / (1 - w) / (n - 1)), "More rivals need more margin"),
    ("margin", lambda w, n: math.log(w * (n - 1)), "What the rivals get is 1 − w"),
    ("duplicates", lambda a, b, m: np.mean(a), "left out"),
    ("duplicates", lambda a, b, m: np.mean([*a, *b]), "weighted alike"),
    ("duplicates", lambda a, b, m: np.exp(m) * sum(a) + sum(b), "do not sum to one"),
    (
        "duplicates",
        lambda a, b, m: (np.exp(m) * a[0] + sum(b)) / (np.exp(m) + len(b)),
        "Only the first match",
    ),
    (
        "duplicates",
        lambda a, b, m: (np.exp(m) * np.mean(a) + sum(b)) / (np.exp(m) + len(b)),
        "e^m of its own",
    ),
    ("duplicates", lambda a, b, m: 4.0, "it gives 4.0000"),
    ("nothing_score", 3.0, "too low"),
    ("nothing_score", 0, "too low"),
    ("nothing_score", 8, "too high"),
    ("nothing_score", 1e6, "too high"),
    ("nothing_score", 100, "take the logarithm"),
    ("nothing_score", math.log(27), "just 0.9"),
    ("nothing_score", -3.4, "negative"),
    ("last_usable_age", lambda a, s: math.ceil(math.log(s) / math.log(a)), "One too late"),
    ("last_usable_age", lambda a, s: math.log(s) / math.log(a), "Round it down"),
    ("last_usable_age", lambda a, s: math.log(a) / math.log(s), "changed places"),
    ("last_usable_age", lambda a, s: math.log(0.5) // math.log(a), "half-life"),
    ("last_usable_age", lambda a, s: math.ceil(math.log(s) / math.log(a)) - 1, "at least"),
    ("last_usable_age", lambda a, s: math.log(s) // -math.log(a), "negative"),
    ("last_usable_age", lambda a, s: 3, "it gives 3"),
    ("last_usable_age", lambda a, s: 1 // (1 - a), "time constant"),
    ("last_usable_age", lambda a, s: (1 - s) // (1 - a), "not a straight line"),
]
