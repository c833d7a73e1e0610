"""Checkers of the exercises in "Learning from trajectories"."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import Wrong, array, call, close, exercise, explain, number, parts, shape_of


@exercise(
    "training_on_trajectories.tokens",
    hint="Token t pairs an observation with the action taken right after it; the target is the observation "
    "that comes next. One slice drops the last observation, the other drops the first.",
)
def tokens(answer: Any) -> str:
    """Tokens and targets of a next-observation model."""
    rng = np.random.default_rng(0)
    for T in (5, 2):
        o, a = rng.normal(size=T + 1), rng.normal(size=T)
        result = call(answer, o, a)
        if isinstance(result, tuple | list) and len(result) == 2:
            if T != 2 and shape_of(result[0]) == (2, T):
                raise Wrong(
                    "The tokens have shape (2, T); stack along the last axis to get (T, 2)."
                )
            if shape_of(result[1]) == (T + 1,):
                raise Wrong(
                    "There are T targets, not T + 1: nothing comes before o_0 to forecast it."
                )
        found, targets = parts(result, (("the tokens", (T, 2)), ("the targets", (T,))))
        if close(targets, o[:-1]):
            raise Wrong("The target of token t is o_t, which is in the token itself; use the next.")
        if close(targets, a):
            raise Wrong("Those targets are the actions; this model forecasts the next observation.")
        if not close(targets, o[1:]):
            raise Wrong("The targets should be o_1 … o_T, in this order.")
        if close(found[:, 0], o[1:]):
            raise Wrong("Token t holds o_{t+1}, its own target: a leak by a slip of one.")
        if close(found, np.stack([a, o[:-1]], axis=-1)):
            raise Wrong("The two columns have changed places; the observation comes first.")
        if not close(found[:, 0], o[:-1]):
            raise Wrong("The first column should be o_0 … o_{T−1}.")
        if close(found[1:, 1], a[:-1]):
            raise Wrong("Token t holds a_{t−1}; what is done at t decides what is seen at t + 1.")
        if not close(found[:, 1], a):
            raise Wrong("The second column should be a_0 … a_{T−1}.")
    return "T transitions give T tokens and T targets, and no target stands in its own token."


@exercise(
    "training_on_trajectories.prefix_ratio",
    hint="One causal pass over T tokens has T(T+1)/2 allowed pairs. A pass on the prefix of length t has "
    "t(t+1)/2. Add those up for t = 1 … T and divide.",
)
def prefix_ratio(answer: Any) -> str:
    """Pairs of T prefix passes over those of one pass, T = 100."""
    value = number(answer)
    squares = sum(t * t for t in range(1, 101))
    for wrong, why in (
        (100.0, "That is the number of passes; the short prefixes cost less than the whole."),
        (50.0, "That would be so if the average prefix cost half; but the cost is quadratic."),
        (100 / 3, "Close: that is the ratio for large T. Count the diagonal as well."),
        (
            squares / 100**2,
            "That counts all t² pairs; the causal mask allows only t(t+1)/2 of them.",
        ),
        (squares / 5050, "The prefixes are counted with all t² pairs, the one pass is not."),
        (1 / 34, "That is the inverse; the prefixes cost more, not less."),
        (101 / 3, "Close: add up t(t + 1)/2, not t²/2, over all prefixes; (3.4) has the sum."),
        (1.0, "One pass is what the T passes are compared with; count their pairs, too."),
        (171_700.0, "That is the number of pairs of all prefixes; divide by that of one pass."),
    ):
        if abs(value - wrong) < 0.05 * max(1.0, abs(wrong) / 100):
            raise Wrong(why)
    if abs(value - 34) > 0.05:
        raise Wrong(f"{value:g} is not it.")
    return "In general the ratio is (T + 2)/3: the longer the log, the more one pass saves."


@exercise(
    "training_on_trajectories.leaks",
    hint="For each s, copy the sequence, change the copy from element s on (s included), and compare the "
    "forecasts of elements 0 … s with those from the unchanged sequence.",
)
def leaks(answer: Any) -> str:
    """A detector of forecasts that see their own target or later elements."""
    x = np.random.default_rng(1).integers(-20, 20, 7) / 4  # sums of these are exact

    def right(forecast: Callable[[np.ndarray], np.ndarray], leaky: bool) -> bool:
        seen: list[tuple[Any, np.ndarray]] = []

        def watched(sequence: Any) -> np.ndarray:
            seen.append((sequence, np.array(sequence, dtype=float)))
            return forecast(np.array(sequence, dtype=float))

        verdict = call(answer, watched, x)
        if shape_of(verdict) != ():
            raise Wrong("Return a single True or False, not one for each element.")
        if bool(verdict) == leaky:
            return True
        if any(not np.array_equal(now, then) for now, then in seen):
            raise Wrong(
                "It changes the sequence itself, so each change comes on top of those before. Change "
                "a copy, and make a new one for every s."
            )
        return False

    for forecast, why in (
        (lambda x: np.zeros(7), "a forecast that is always zero"),
        (lambda x: np.concatenate([[0.0], x[:-1]]), "a forecast that repeats the last value"),
        (
            lambda x: np.concatenate([[0.0], np.cumsum(x)[:-1]]),
            "a forecast that adds up all elements before",
        ),
    ):
        if not right(forecast, leaky=False):
            raise Wrong(f"It accuses {why}, which is honest: it uses earlier elements only.")
    for forecast, why in (
        (
            lambda x: np.concatenate([x[1:], [0.0]]),
            "It misses a forecast that reads the element after its target.",
        ),
        (lambda x: x, "It misses a forecast that copies its own target."),
        (
            lambda x: np.where(np.arange(7) == 3, x[3], 0.0),
            "It misses a leak at a single element in the middle; try every s.",
        ),
        (
            lambda x: np.where(np.arange(7) == 6, x, 0.0),
            "It misses a leak at the very last element.",
        ),
        (
            lambda x: np.where(np.arange(7) == 0, x[6], 0.0),
            "It misses a first forecast that reads the last element.",
        ),
        (
            lambda x: np.where(np.arange(7) == 2, x[2] - x[3], 0.0),
            "It misses a forecast of element 2 that reads the difference of elements 2 and 3. For each "
            "s, compare all forecasts up to s, not the one at s alone.",
        ),
    ):
        if not right(forecast, leaky=True):
            raise Wrong(why)
    return "It finds every leak tried, and accuses none of the honest."


@exercise(
    "training_on_trajectories.rollout_rms",
    hint="Work from the sum (3.8) instead of the fractions in (3.9): the bias part is b times the sum of "
    "J^k, the random part has variance σ² times the sum of J^(2k), both for k = 0 … H−1. The mean "
    "square is variance plus squared bias.",
)
def rollout_rms(answer: Any) -> str:
    """RMS error of a rollout with gain, noise and bias."""
    cases = ((0.9, 0.1, 0.0, 7), (0.9, 0.0, 0.1, 7), (0.8, 0.2, 0.1, 3), (1.1, 0.1, 0.02, 9))
    for J, sigma, b, H in (*cases, (1.0, 0.1, 0.05, 16), (-1.0, 0.1, 0.05, 15), (0, 0.3, 0.4, 5)):
        try:
            raw = call(answer, J, sigma, b, H)
        except Wrong as wrong:
            if "ZeroDivision" in str(wrong):
                raise Wrong(f"At J = {J:g} your formula divides by zero.") from wrong
            raise
        if shape_of(raw) == () and not np.isfinite(array(raw, (), finite=False)):
            raise Wrong(f"At J = {J:g} it gives {raw}; the fractions in (3.9) are 0/0 there.")
        found = number(raw)
        powers = float(J) ** np.arange(H)
        random, bias = sigma * np.sqrt((powers**2).sum()), b * powers.sum()
        right = math.hypot(random, bias)
        if close(found, right):
            continue
        longer = float(J) ** np.arange(H + 1)
        explain(
            found,
            [
                (right**2, "That is the mean square; take its root."),
                (random + bias, "The two parts are added; add their squares and take the root."),
                (random, "The bias is left out."),
                (bias, "The noise is left out."),
                (math.hypot(sigma * powers.sum(), bias),
                 "The noise is added up like a bias; independent errors add in their squares."),
                (math.hypot(sigma * np.sqrt(np.abs(powers).sum()), bias),
                 "The variance needs the sum of J^(2k), not of |J|^k."),
                (math.sqrt(sigma * (powers**2).sum() + bias**2),
                 "σ is a standard deviation; the sum of variances needs σ²."),
                (math.sqrt(random**2 + abs(b) * powers.sum() ** 2),
                 "The bias must be squared with its sum: (b · ΣJ^k)²."),
                (math.hypot(random, b * math.sqrt((powers**2).sum())),
                 "The bias is added up like noise; a constant adds up as it is, without squares."),
                (math.hypot(sigma * np.sqrt((longer**2).sum()), b * longer.sum()),
                 "One term too many: k runs from 0 to H − 1."),
                (math.hypot(sigma * np.sqrt((powers[1:] ** 2).sum()), b * powers[1:].sum()),
                 "One term is missing: the last error, with k = 0, counts in full."),
                (math.hypot(sigma * np.sqrt(H), H * b), "That is right for J = 1 only."),
            ],
            f"For J = {J:g}, σ = {sigma:g}, b = {b:g}, H = {H} it gives {found:.4f}.",
        )  # fmt: skip
    return "It holds on both sides of J = 1, and at 1 and −1 as well."


@exercise(
    "training_on_trajectories.twin",
    hint="The one-step error is a parabola in g. Find its lowest point, the least-squares gain: the sum of "
    "x_t x_{t+1} over the sum of x_t², with x_t from x_0 to x_{n−1}. Then mirror g at it.",
)
def twin(answer: Any) -> str:
    """The other gain with the same one-step squared error."""
    rng = np.random.default_rng(2)
    for n, g in ((30, 1.05), (8, 0.4), (50, 2.0)):
        x = np.cumsum(rng.normal(size=n + 1))
        found = number(call(answer, x, g))
        past, following = x[:-1], x[1:]
        fitted = past @ following / (past @ past)
        if close(found, 2 * fitted - g):
            continue

        def error(gain: float, past: Any = past, following: Any = following) -> float:
            return float(np.mean((gain * past - following) ** 2))

        other_fits = (
            (past @ following / (x @ x), "The sum of squares takes all of x; leave out the last."),
            (past @ following / (following @ following), "Divide by the squares of x_t, not x_{t+1}."),
            (np.corrcoef(past, following)[0, 1],
             "A correlation is not the gain: nothing is centred here."),
            (np.polyfit(past, following, 1)[0],
             "That line has an intercept, and the predictor has none: fit through the origin."),
        )  # fmt: skip
        explain(
            found,
            [
                (g, "That is the gain you were given; find the other one."),
                (fitted, "That is the least-squares gain, where the error is smallest; go on past it."),
                *((side, "That is the distance to the least-squares gain; step it off on the far side.")
                  for side in (fitted - g, g - fitted)),
                ((fitted + g) / 2, "That is half-way to the least-squares gain; go on to the far side."),
                (2 * fitted + g, "Mirroring g at the least-squares gain turns the sign of g."),
                (2 * g - fitted, "That mirrors the least-squares gain at g; it is the other way round."),
                (-g, "That mirrors g at zero; the parabola has its lowest point elsewhere."),
                *((value, why) for fit, why in other_fits for value in (2 * fit - g, fit)),
            ],
            f"The errors differ: {error(g):.4f} at the gain given, {error(found):.4f} at yours.",
        )  # fmt: skip
    return "One-step error cannot tell the two apart; a rollout can."


@exercise(
    "training_on_trajectories.logged_slope",
    hint="The slope is Cov(a, y) / Var(a). Put y = βa + γh + w into the covariance: it becomes "
    "β Var(a) + γ Cov(a, h), and Cov(a, h) is κ.",
)
def logged_slope(answer: Any) -> str:
    """Slope of y on a in a confounded log."""
    for beta, gamma, kappa, nu in (
        (0.5, 1.0, -0.8, 0.5),
        (2.0, -1.5, 0.3, 0.7),
        (1.0, 0.5, 2.0, 3.0),
    ):
        found = number(call(answer, beta, gamma, kappa, nu))
        variance = kappa**2 + nu**2
        if close(found, beta + gamma * kappa / variance):
            continue
        covariance = beta * variance + gamma * kappa
        explain(
            found,
            [
                (beta, "That is the causal slope, what you would see if you set a yourself."),
                (covariance, "That is Cov(a, y); divide it by Var(a)."),
                (beta + gamma * kappa, "Cov(a, h) must be divided by Var(a)."),
                (beta + kappa / variance, "γ is missing: by it h acts on y."),
                (beta + gamma / variance, "κ is missing: Cov(a, h) is κ, not 1."),
                (beta + gamma / kappa, "That holds if the driver's hand does not shake at all, ν = 0."),
                (beta + gamma * kappa / (kappa**2 + nu),
                 "ν multiplies ξ, so its contribution to Var(a) is ν²."),
                (beta + gamma * kappa / (kappa + nu) ** 2,
                 "h and ξ are independent: their variances add, κ² + ν², and not their sizes."),
                (beta + gamma * kappa / nu**2, "Var(a) has two parts, from h and from ξ."),
                (beta + gamma * kappa / math.sqrt(variance), "Divide by the variance, not its root."),
                (beta - gamma * kappa / variance, "The sign of the second term is turned round."),
                (gamma * kappa / variance,
                 "The slope β of a itself is missing; this is only what h adds."),
                (covariance / ((beta * kappa + gamma) ** 2 + (beta * nu) ** 2 + 1),
                 "That is the slope of a on y; divide by Var(a), not by Var(y)."),
            ],
            f"For β = {beta:g}, γ = {gamma:g}, κ = {kappa:g}, ν = {nu:g} it gives {found:.4f}.",
        )  # fmt: skip
    return "It is β when γ = 0, when κ = 0, and nearly so when ν is large."
