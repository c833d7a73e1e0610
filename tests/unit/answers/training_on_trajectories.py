"""Right answers and typical mistakes in “Learning from trajectories”."""

import math

import numpy as np
import torch

from book_utils import alignment


def detector(change, upto):
    """A leak detector that replaces part of the sequence and compares part of the forecasts."""

    def leaks(forecast, x):
        before = forecast(x)
        for s in range(len(x)):
            changed = x.copy()
            changed[change(s)] += 10
            if not np.array_equal(forecast(changed)[upto(s)], before[upto(s)]):
                return True
        return False

    return leaks


def one_change(s):
    """A detector that changes the sequence from s on, once."""

    def leaks(forecast, x):
        changed = x.copy()
        changed[s:] += 10
        moved = forecast(changed)[: len(x) + s if s < 0 else s]
        return not np.array_equal(moved, forecast(x)[: len(moved)])

    return leaks


def rms(variance, bias):
    return lambda J, sigma, b, H: math.hypot(sigma * math.sqrt(variance(J, H)), b * bias(J, H))


def geometric(r, n):
    return sum(r**k for k in range(n))


def slope(formula):
    return lambda beta, gamma, kappa, nu: beta + gamma * formula(kappa, nu)


def fit(x):
    return x[:-1] @ x[1:] / (x[:-1] @ x[:-1])


def in_place(forecast, x):
    """A leak detector that forgets to copy."""
    before = forecast(x)
    for s in range(len(x)):
        changed = x
        changed[s:] += 10
        if not np.array_equal(forecast(changed)[: s + 1], before[: s + 1]):
            return True
    return False


def guarded(J, sigma, b, H):
    """The fractions of (3.9), with an exception for |J| = 1 that is right for J = 1."""
    if abs(J) == 1:
        return math.hypot(sigma * H**0.5, H * b)
    return math.hypot(sigma * geometric(J * J, H) ** 0.5, b * geometric(J, H))


RIGHT = [
    ("tokens", lambda o, a: (np.array([o[:-1], a]).T, np.roll(o, -1)[:-1])),
    ("tokens", lambda o, a: [alignment.paired_tokens(o[:-1], a), o[1:]]),
    ("tokens", lambda o, a: (torch.tensor(np.c_[o[: len(a)], a]), torch.tensor(o)[1:])),
    ("prefix_ratio", 34),
    ("prefix_ratio", "34.0"),
    ("leaks", lambda f, x: alignment.future_leak(f, x) > 0),
    ("leaks", detector(lambda s: slice(s, s + 1), lambda s: slice(0, s + 1))),
    ("rollout_rms", rms(lambda J, H: geometric(J * J, H), geometric)),
    (
        "rollout_rms",
        lambda J, s, b, H: np.sqrt(
            s**2 * np.polyval(np.ones(H), J**2) + b**2 * np.polyval(np.ones(H), J) ** 2
        ),
    ),
    ("twin", lambda x, g: 2 * np.linalg.lstsq(x[:-1, None], x[1:], rcond=None)[0][0] - g),
    ("twin", lambda x, g: torch.tensor(2 * fit(x) - g)),
    ("logged_slope", lambda b, g, k, n: (b * (k**2 + n**2) + g * k) / (k**2 + n**2)),
    ("logged_slope", slope(lambda k, n: 1 / (k + n**2 / k))),
]

WRONG = [
    ("tokens", lambda o, a: np.stack([o[:-1], a], axis=-1), "Return two things together"),
    ("tokens", lambda o, a: (np.stack([o[:-1], a]), o[1:]), "(2, T)"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o[:-1]), "in the token itself"),
    ("tokens", lambda o, a: (np.c_[o[1:], a], o[1:]), "slip of one"),
    ("tokens", lambda o, a: (np.c_[a, o[:-1]], o[1:]), "changed places"),
    ("tokens", lambda o, a: (np.c_[o[:-1], np.r_[0, a[:-1]]], o[1:]), "a_{t−1}"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o[::-1][1:]), "in this order"),
    ("tokens", lambda o, a: (np.c_[o[:-1] ** 2, a], o[1:]), "first column"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a**2], o[1:]), "second column"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o), "T targets, not T + 1"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], a), "targets are the actions"),
    ("tokens", lambda o, a: (o[:-1], o[1:]), "should have shape"),
    ("prefix_ratio", 100, "number of passes"),
    ("prefix_ratio", 50, "quadratic"),
    ("prefix_ratio", 33.3, "diagonal"),
    ("prefix_ratio", 33.835, "all t² pairs"),
    ("prefix_ratio", 67, "the one pass is not"),
    ("prefix_ratio", 1 / 34, "inverse"),
    ("prefix_ratio", 171_700, "divide by"),
    ("prefix_ratio", 7, "7 is not it"),
    ("prefix_ratio", 101 / 3, "not t²/2"),
    ("prefix_ratio", 1, "count their pairs"),
    ("leaks", lambda f, x: True, "accuses"),
    ("leaks", lambda f, x: False, "element after its target"),
    ("leaks", lambda f, x: None, "return statement"),
    ("leaks", detector(lambda s: slice(s + 1, None), lambda s: slice(0, s + 1)), "own target"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(0, s)), "own target"),
    ("leaks", one_change(1), "own target"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(s, s + 1)), "up to s"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(0, None)), "accuses"),
    ("leaks", in_place, "changes the sequence itself"),
    ("leaks", one_change(-1), "It misses"),
    ("leaks", lambda f, x: f(x + 10) != f(x), "single True or False"),
    ("rollout_rms", lambda J, s, b, H: s**2 * geometric(J * J, H), "take its root"),
    (
        "rollout_rms",
        lambda J, s, b, H: s * geometric(J * J, H) ** 0.5 + b * geometric(J, H),
        "add their squares",
    ),
    ("rollout_rms", rms(lambda J, H: geometric(J * J, H), lambda J, H: 0), "bias is left out"),
    ("rollout_rms", rms(lambda J, H: 0, geometric), "noise is left out"),
    ("rollout_rms", rms(lambda J, H: geometric(J, H) ** 2, geometric), "like a bias"),
    ("rollout_rms", rms(lambda J, H: geometric(abs(J), H), geometric), "J^(2k)"),
    (
        "rollout_rms",
        rms(lambda J, H: geometric(J * J, H + 1), lambda J, H: geometric(J, H + 1)),
        "One term too many",
    ),
    ("rollout_rms", rms(lambda J, H: H, lambda J, H: H), "J = 1 only"),
    (
        "rollout_rms",
        rms(lambda J, H: (1 - J ** (2 * H)) / (1 - J**2), lambda J, H: (1 - J**H) / (1 - J)),
        "divides by zero",
    ),
    (
        "rollout_rms",
        lambda J, s, b, H: np.float64(np.nan) if J == 1 else RIGHT[7][1](J, s, b, H),
        "0/0",
    ),
    ("rollout_rms", lambda J, s, b, H: 0.5, "it gives 0.5000"),
    (
        "rollout_rms",
        lambda J, s, b, H: math.sqrt(s * geometric(J * J, H) + (b * geometric(J, H)) ** 2),
        "needs σ²",
    ),
    (
        "rollout_rms",
        lambda J, s, b, H: math.sqrt(s**2 * geometric(J * J, H) + b * geometric(J, H) ** 2),
        "bias must be squared",
    ),
    (
        "rollout_rms",
        rms(lambda J, H: geometric(J * J, H), lambda J, H: geometric(J * J, H) ** 0.5),
        "added up like noise",
    ),
    (
        "rollout_rms",
        lambda J, s, b, H: math.hypot(
            s * (geometric(J * J, H) - 1) ** 0.5, b * (geometric(J, H) - 1)
        ),
        "One term is missing",
    ),
    ("rollout_rms", guarded, "J = 1 only"),
    ("twin", lambda x, g: g, "find the other one"),
    ("twin", lambda x, g: fit(x), "go on past it"),
    ("twin", lambda x, g: g - fit(x), "on the far side"),
    ("twin", lambda x, g: 2 * (x[:-1] @ x[1:] / (x @ x)) - g, "leave out the last"),
    ("twin", lambda x, g: 2 * (x[:-1] @ x[1:] / (x[1:] @ x[1:])) - g, "not x_{t+1}"),
    ("twin", lambda x, g: 2 * np.corrcoef(x[:-1], x[1:])[0, 1] - g, "nothing is centred"),
    ("twin", lambda x, g: 1.0, "The errors differ"),
    ("twin", lambda x, g: -g, "mirrors g at zero"),
    ("twin", lambda x, g: 2 * np.polyfit(x[:-1], x[1:], 1)[0] - g, "intercept"),
    ("twin", lambda x, g: 2 * fit(x) + g, "turns the sign"),
    ("twin", lambda x, g: 2 * g - fit(x), "other way round"),
    ("twin", lambda x, g: (g + fit(x)) / 2, "half-way"),
    ("logged_slope", lambda b, g, k, n: b, "causal slope"),
    ("logged_slope", slope(lambda k, n: k), "divided by Var(a)"),
    ("logged_slope", slope(lambda k, n: 1 / k), "does not shake"),
    ("logged_slope", slope(lambda k, n: k / (k**2 + n)), "ν²"),
    ("logged_slope", slope(lambda k, n: k / n**2), "two parts"),
    ("logged_slope", slope(lambda k, n: k / math.hypot(k, n)), "not its root"),
    ("logged_slope", slope(lambda k, n: -k / (k**2 + n**2)), "turned round"),
    ("logged_slope", lambda b, g, k, n: g * k / (k**2 + n**2), "is missing"),
    ("logged_slope", lambda b, g, k, n: 0.25, "it gives 0.2500"),
    ("logged_slope", lambda b, g, k, n: b * (k**2 + n**2) + g * k, "That is Cov(a, y)"),
    ("logged_slope", lambda b, g, k, n: b + k / (k**2 + n**2), "γ is missing"),
    ("logged_slope", slope(lambda k, n: 1 / (k**2 + n**2)), "κ is missing"),
    ("logged_slope", slope(lambda k, n: k / (k + n) ** 2), "their variances add"),
    (
        "logged_slope",
        lambda b, g, k, n: (b * (k**2 + n**2) + g * k) / ((b * k + g) ** 2 + (b * n) ** 2 + 1),
        "a on y",
    ),
]
