"""Each checker accepts other right answers and tells the typical wrong ones apart."""

import math

import numpy as np
import pytest
import torch

from book_utils import alignment, exercises


def says(name, answer):
    return repr(exercises.check(f"training_on_trajectories.{name}", answer))


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
    ("tokens", lambda o, a: np.stack([o[:-1], a], axis=-1), "Return two arrays"),
    ("tokens", lambda o, a: (np.stack([o[:-1], a]), o[1:]), "(2, T)"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o[:-1]), "in the token itself"),
    ("tokens", lambda o, a: (np.c_[o[1:], a], o[1:]), "slip of one"),
    ("tokens", lambda o, a: (np.c_[a, o[:-1]], o[1:]), "changed places"),
    ("tokens", lambda o, a: (np.c_[o[:-1], np.r_[0, a[:-1]]], o[1:]), "a_{t−1}"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o[::-1][1:]), "in this order"),
    ("tokens", lambda o, a: (np.c_[o[:-1] ** 2, a], o[1:]), "first column"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a**2], o[1:]), "second column"),
    ("tokens", lambda o, a: (np.c_[o[:-1], a], o), "should have shape"),
    ("prefix_ratio", 100, "number of passes"),
    ("prefix_ratio", 50, "quadratic"),
    ("prefix_ratio", 33.3, "diagonal"),
    ("prefix_ratio", 33.835, "all t² pairs"),
    ("prefix_ratio", 67, "the one pass is not"),
    ("prefix_ratio", 1 / 34, "inverse"),
    ("prefix_ratio", 171_700, "divide by"),
    ("prefix_ratio", 7, "7 is not it"),
    ("leaks", lambda f, x: True, "accuses"),
    ("leaks", lambda f, x: False, "element after its target"),
    ("leaks", lambda f, x: None, "return statement"),
    ("leaks", detector(lambda s: slice(s + 1, None), lambda s: slice(0, s + 1)), "own target"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(0, s)), "own target"),
    ("leaks", one_change(1), "own target"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(s, s + 1)), "up to s"),
    ("leaks", detector(lambda s: slice(s, None), lambda s: slice(0, None)), "accuses"),
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
    ("twin", lambda x, g: g, "find the other one"),
    ("twin", lambda x, g: fit(x), "go on past it"),
    ("twin", lambda x, g: g - fit(x), "on the far side"),
    ("twin", lambda x, g: 2 * (x[:-1] @ x[1:] / (x @ x)) - g, "leave out the last"),
    ("twin", lambda x, g: 2 * (x[:-1] @ x[1:] / (x[1:] @ x[1:])) - g, "not x_{t+1}"),
    ("twin", lambda x, g: 2 * np.corrcoef(x[:-1], x[1:])[0, 1] - g, "nothing is centred"),
    ("twin", lambda x, g: 1.0, "The errors differ"),
    ("logged_slope", lambda b, g, k, n: b, "causal slope"),
    ("logged_slope", slope(lambda k, n: k), "divided by Var(a)"),
    ("logged_slope", slope(lambda k, n: 1 / k), "does not shake"),
    ("logged_slope", slope(lambda k, n: k / (k**2 + n)), "ν²"),
    ("logged_slope", slope(lambda k, n: k / n**2), "two parts"),
    ("logged_slope", slope(lambda k, n: k / math.hypot(k, n)), "not its root"),
    ("logged_slope", slope(lambda k, n: -k / (k**2 + n**2)), "turned round"),
    ("logged_slope", lambda b, g, k, n: g * k / (k**2 + n**2), "is missing"),
    ("logged_slope", lambda b, g, k, n: 0.25, "it gives 0.2500"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_right_answers_pass(name, answer):
    assert says(name, answer).startswith("Right. ")


@pytest.mark.parametrize(("name", "answer", "why"), WRONG)
def test_wrong_answers_are_told_why(name, answer, why):
    verdict = says(name, answer)
    assert verdict.startswith("Not yet. ")
    assert why in verdict


def test_every_exercise_has_right_and_wrong_answers_here():
    for name in exercises.names("training_on_trajectories"):
        short = name.partition(".")[2]
        assert sum(right[0] == short for right in RIGHT) >= 1
        assert sum(wrong[0] == short for wrong in WRONG) >= 3
