"""Right answers and typical mistakes in “Attention over trajectories”."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from book_utils.attention import block_parameter_count


def softmax(scores, axis=-1):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def with_mask(make):
    """Attention whose weights `make(scores, allowed)` gives."""

    def attention(Q, K, V):
        return make(Q @ K.T / Q.shape[1] ** 0.5, np.tri(len(Q), dtype=bool)) @ V

    return attention


def sdpa(Q, K, V):
    tensors = (torch.tensor(x)[None] for x in (Q, K, V))
    return F.scaled_dot_product_attention(*tensors, is_causal=True)[0]


def looped(Q, K, V):
    return np.stack(
        [softmax(Q[i] @ K[: i + 1].T / math.sqrt(len(Q[0]))) @ V[: i + 1] for i in range(len(Q))]
    )


def overflowing(Q, K, V):
    e = np.where(np.tri(len(Q)), np.exp(Q @ K.T / Q.shape[1] ** 0.5), 0)
    return e / e.sum(axis=1, keepdims=True) @ V


def stable_with(maximum, hidden=-np.inf):
    """Causal attention with a maximum of its own, and a number in place of −∞."""

    def attention(Q, K, V):
        scores, allowed = Q @ K.T / Q.shape[1] ** 0.5, np.tri(len(Q), dtype=bool)
        masked = np.where(allowed, scores, hidden)
        e = np.where(allowed | np.isfinite(hidden), np.exp(masked - maximum(scores, masked)), 0)
        return e / e.sum(axis=1, keepdims=True) @ V

    return attention


def turn(x, angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]]) @ x


def autograd(w, g):
    scores = torch.tensor(w).log().requires_grad_()
    (torch.softmax(scores, 0) @ torch.tensor(g)).backward()
    return scores.grad


def null_direction(w, v):
    return np.linalg.svd(np.vstack([np.ones(len(w)), v.T]))[2][-1]


def pushed(w, v, share=0.5, sign=-1):
    u = null_direction(w, v)
    return w + sign * share * np.min(w / np.maximum(np.abs(u), 1e-12)) * u


def by_linear_programme(w, v):
    from scipy.optimize import linprog

    C = np.vstack([np.ones(len(w)), v.T])
    return linprog(np.arange(len(w)), A_eq=C, b_eq=C @ w, bounds=(0, None)).x


def searched(d, budget):
    d_ff = 0
    while block_parameter_count(d, d_ff + 1) <= budget:
        d_ff += 1
    return d_ff


def fixed(d, budget):
    return budget - 4 * d * d - 9 * d


RIGHT = [
    ("earlier_request", 0.858),
    ("earlier_request", "0.8576"),
    ("score_std", lambda a, b: np.sqrt((a * b).sum() / len(a))),
    ("score_std", lambda a, b: torch.tensor(np.trace(a @ b) / len(b)).sqrt()),
    ("softmax_gradient", lambda w, g: (np.diag(w) - np.outer(w, w)) @ g),
    ("softmax_gradient", autograd),
    ("causal", sdpa),
    ("causal", looped),
    ("causal", stable_with(lambda scores, masked: masked.max(axis=1, keepdims=True))),
    ("causal", stable_with(lambda scores, masked: masked.max(axis=1, keepdims=True), -1e9)),
    ("rotary_score", lambda q, k, s, t, o: turn(q, o * s) @ turn(k, o * t)),
    ("rotary_score", lambda q, k, s, t, o: (
        complex(*q).conjugate() * complex(*k) * np.exp(1j * o * (t - s))).real),
    ("another_row", pushed),
    ("another_row", by_linear_programme),
    ("largest_d_ff", searched),
    ("largest_d_ff", lambda d, b: math.floor(fixed(d, b) / (2 * d + 1))),
]  # fmt: skip

WRONG = [
    ("earlier_request", 0.730, "hides tokens 5 to 7"),
    ("earlier_request", 0.803, "The cup stands at position 5"),
    ("earlier_request", 0.957, "divide it by √d_k"),
    ("earlier_request", 0.703, "square root"),
    ("earlier_request", 0.889, "sees itself"),
    ("earlier_request", 0.828, "One token too many"),
    ("earlier_request", 3.182, "That is the score"),
    ("earlier_request", 7.90, "That is the readout"),
    ("earlier_request", 0.5, "0.5 is not it"),
    ("earlier_request", "much", "single number"),
    ("score_std", lambda a, b: np.trace(a @ b) / len(a), "That is the variance"),
    ("score_std", lambda a, b: np.sqrt(np.trace(a @ b)), "unscaled score; divide"),
    ("score_std", lambda a, b: np.trace(a @ b) + 0.0, "variance of the unscaled"),
    ("score_std", lambda a, b: np.sqrt(np.trace(a @ b)) / len(a), "not by d_k"),
    ("score_std", lambda a, b: np.sqrt(a.diagonal() @ b.diagonal() / len(a)), "Only the variances"),
    (
        "score_std",
        lambda a, b: np.sqrt(np.trace(a) * np.trace(b) / len(a)),
        "product of the traces",
    ),
    ("score_std", lambda a, b: 1, "identity"),
    ("score_std", lambda a, b: 7.0, "it gives 7.0000"),
    ("score_std", lambda a, b: a @ b, "single number"),
    ("softmax_gradient", lambda w, g: w * g, "second term"),
    ("softmax_gradient", lambda w, g: w * (1 - w) * g, "diagonal of J"),
    ("softmax_gradient", lambda w, g: w * (w @ g - g), "sign"),
    ("softmax_gradient", lambda w, g: g - w @ g, "factor w"),
    ("softmax_gradient", lambda w, g: w * (g - g.mean()), "weighted mean"),
    ("softmax_gradient", lambda w, g: np.outer(w, g), "should have shape"),
    ("softmax_gradient", lambda w, g: 0 * g, "off by up to"),
    ("softmax_gradient", lambda w, g: print(end=""), "return statement"),
    ("softmax_gradient", lambda w, g: w * g - w @ g, "subtracts it from every entry alike"),
    ("softmax_gradient", lambda w, g: (np.diag(w) - w * w) @ g, "np.outer(w, w)"),
    ("softmax_gradient", lambda w, g: w * (w @ g), "first term"),
    ("softmax_gradient", lambda w, g: -w * (w @ g), "first term"),
    ("softmax_gradient", lambda w, g: np.diag(w) - np.outer(w, w), "should have shape"),
    ("causal", with_mask(lambda s, m: softmax(s)), "no mask"),
    ("causal", with_mask(lambda s, m: softmax(np.where(m.T, s, -np.inf))), "turned round"),
    ("causal", with_mask(lambda s, m: softmax(s * m)), "set to 0"),
    ("causal", with_mask(lambda s, m: softmax(s) * m), "cut after the softmax"),
    ("causal", lambda Q, K, V: looped(Q * Q.shape[1] ** 0.5, K, V), "not divided by √d_k"),
    ("causal", lambda Q, K, V: looped(Q / Q.shape[1] ** 0.5, K, V), "divided by d_k"),
    ("causal", with_mask(lambda s, m: softmax(np.where(m, s, -np.inf), 0)), "down the columns"),
    ("causal", with_mask(lambda s, m: softmax(np.where(np.tri(len(m), k=-1), s, -np.inf))), "NaN"),
    ("causal", overflowing, "overflow"),
    ("causal", stable_with(lambda scores, masked: masked.max()), "each row's own maximum"),
    (
        "causal",
        stable_with(lambda scores, masked: scores.max(axis=1, keepdims=True)),
        "over the keys that it may see",
    ),
    ("causal", stable_with(lambda s, m: m.max(axis=1, keepdims=True), -30.0), "with −∞, not"),
    ("causal", lambda Q, K, V: [[1.0], [1.0, 2.0]], "array of numbers"),
    ("causal", lambda Q, K, V: "abc", "array of numbers"),
    ("causal", lambda Q, K, V: [torch.ones(2, requires_grad=True)], "array of numbers"),
    ("causal", lambda Q, K, V: looped(Q, K, V) + 0.1, "off by up to 0.1"),
    ("causal", lambda Q, K, V: V[0], "should have shape"),
    (
        "causal",
        with_mask(lambda s, m: softmax(np.where(m, -np.inf, s))),
        "hide the scores where it is False",
    ),
    ("causal", with_mask(lambda s, m: softmax(np.where(m, -1e9, s))), "mask is inverted"),
    ("causal", with_mask(lambda s, m: softmax(np.where(m, 0, s))), "mask is inverted"),
    ("causal", lambda Q, K, V: looped(Q * (Q.shape[1] / len(Q)) ** 0.5, K, V), "divided by √T"),
    ("causal", lambda Q, K, V: looped(Q, K, np.eye(len(Q))), "Those are the weights"),
    ("rotary_score", lambda q, k, s, t, o: q @ turn(k, o * (s - t)), "wrong way"),
    ("rotary_score", lambda q, k, s, t, o: q @ turn(k, o * (s + t)), "angles are added"),
    ("rotary_score", lambda q, k, s, t, o: q @ turn(k, o * t), "Only the key"),
    ("rotary_score", lambda q, k, s, t, o: turn(q, o * s) @ k, "Only the query"),
    ("rotary_score", lambda q, k, s, t, o: q @ k, "Nothing is turned"),
    ("rotary_score", lambda q, k, s, t, o: q @ k * np.cos(o * (t - s)), "mixes the two"),
    ("rotary_score", lambda q, k, s, t, o: q @ turn(k, o * (t - s)) / 2**0.5, "1/√d_k"),
    ("rotary_score", lambda q, k, s, t, o: 9.0, "it gives 9.0000"),
    ("another_row", lambda w, v: w, "same row"),
    ("another_row", lambda w, v: np.full(len(w), 1 / len(w)), "output changes"),
    ("another_row", lambda w, v: 2 * w, "sum to 2.0000"),
    ("another_row", lambda w, v: pushed(w, v, share=40), "negative"),
    ("another_row", lambda w, v: pushed(w, v, share=0.001), "same row"),
    ("another_row", lambda w, v: w[:-1], "should have shape"),
    ("largest_d_ff", lambda d, b: fixed(d, b) / (2 * d + 1), "round down"),
    ("largest_d_ff", lambda d, b: fixed(d, b) // (2 * d + 1) + 1, "One too many"),
    ("largest_d_ff", lambda d, b: (b - 4 * d * d - 8 * d) // (2 * d + 1), "second bias"),
    ("largest_d_ff", lambda d, b: (b - 4 * d * d - 5 * d) // (2 * d + 1), "norms"),
    ("largest_d_ff", lambda d, b: (b - 4 * d * d) // (2 * d), "All biases"),
    ("largest_d_ff", lambda d, b: fixed(d, b) // (2 * d), "has a bias too"),
    ("largest_d_ff", lambda d, b: b // (2 * d + 1), "Attention and the norms"),
    ("largest_d_ff", lambda d, b: (fixed(d, b) + d * d) // (2 * d + 1), "the output map counts"),
    ("largest_d_ff", lambda d, b: fixed(d, b) // (d + 1), "d weights in and d weights out"),
    ("largest_d_ff", lambda d, b: 7, "it gives 7"),
]
