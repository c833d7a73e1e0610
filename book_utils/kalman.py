r"""The exact forecaster: what no learner can beat on average, and by how much the best still errs.

For a `LinearGaussianSystem` everything that a forecaster can know about the hidden state after
$y_1, \dots, y_t$ and $u_0, \dots, u_t$ is a Gaussian. Two moves keep it up to date (Kalman 1960):

$$ \text{predict:}\quad m^- = A m + B u, \qquad P^- = A P A^\top + Q $$
$$ \text{update:}\quad K = P^- C^\top / V, \qquad m = m^- + K (y - C m^-), \qquad
   P = (I - KC) P^- (I - KC)^\top + K R K^\top, $$

with innovation variance $V = C P^- C^\top + R$. The covariance update is in Joseph's form: a sum
of two positive semi-definite matrices, so rounding can't make P indefinite. Covariances and gains
don't depend on the data, so one run serves all trajectories.

Tokens are as in `systems`: token t is $(y_t, u_t)$, token 0 holds a placeholder that is never used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_are

from ._validate import finite, positive_int, real_array
from .systems import Floats, LinearGaussianSystem


def _quiet() -> np.errstate:
    """Silence numpy's warnings of an overflow: `_no_overflow` raises instead.

    Each function gets an errstate of its own: before numpy 2 a nested one forgets the outer state.
    """
    return np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True, eq=False)
class Schedule:
    r"""All of the filter that doesn't depend on data, for tokens t = 0 … T−1.

    Attributes:
        gains: $K_t$ for the observation in token t, (T, n); zero at t = 0, which has none.
        filtered: $P_{t|t}$, covariance of $s_t$ given tokens 0 … t, (T, n, n).
        predicted: $P_{t+1|t}$, covariance of $s_{t+1}$ given tokens 0 … t, (T, n, n).
        variances: $V_t = C P_{t+1|t} C^\top + R$, variance of the forecast of $y_{t+1}$, (T,).
    """

    gains: Floats
    filtered: Floats
    predicted: Floats
    variances: Floats


@_quiet()
def schedule(system: LinearGaussianSystem, T: int) -> Schedule:
    """Run the covariance half of the filter over T tokens.

    Raises:
        TypeError, ValueError: `system` is not a LinearGaussianSystem, `T` not an integer ≥ 1, the
            covariances overflow, or an innovation has variance 0 (R underflows).
    """
    _require_system(system)
    n, T = system.n, positive_int("T", T)
    gains, filtered = np.zeros((T, n)), np.empty((T, n, n))
    predicted, variances = np.empty((T, n, n)), np.empty(T)
    P = system.initial_covariance
    for t in range(T):
        if t > 0:
            gains[t] = predicted[t - 1] @ system.C / variances[t - 1]
            P = joseph_update(predicted[t - 1], gains[t], system.C, system.R)
        ahead = system.A @ P @ system.A.T + system.Q
        filtered[t], predicted[t] = P, (ahead + ahead.T) / 2
        variances[t] = system.C @ predicted[t] @ system.C + system.R
        _check_step(system, t, predicted[t], variances[t])
    return Schedule(gains, filtered, predicted, variances)


def _check_step(system: LinearGaussianSystem, t: int, predicted: Floats, variance: float) -> None:
    if not np.isfinite(predicted).all():
        raise ValueError(f"the covariance overflows at token {t}: A hides an unstable mode")
    if not np.isfinite(variance):
        raise ValueError(f"the variance of a forecast overflows at token {t}: C is too large")
    if variance <= 0:
        raise ValueError(
            f"the innovation after token {t} has variance 0: the square of observation_std = "
            f"{system.observation_std} underflows, and nothing else is uncertain"
        )


def joseph_update(P: Floats, gain: Floats, C: Floats, R: float) -> Floats:
    r"""Covariance after an observation, for any gain: $(I-KC)P(I-KC)^\top + KRK^\top$.

    Args:
        P: covariance before, (n, n).
        gain: K, (n,).
        C: observation row, (n,).
        R: variance of the observation noise.

    Returns:
        Array (n, n), symmetric to the last bit.

    Raises:
        ValueError: shapes do not fit.
    """
    n = len(gain)
    if P.shape != (n, n) or C.shape != (n,):
        raise ValueError(f"P, gain and C must fit: got {P.shape}, {gain.shape} and {C.shape}")
    keep = np.eye(n) - np.outer(gain, C)
    after = keep @ P @ keep.T + R * np.outer(gain, gain)
    return (after + after.T) / 2


@_quiet()
def filter_means(system: LinearGaussianSystem, tokens: Any) -> Floats:
    r"""Estimate the hidden state after each token: $m_{t|t} = E[s_t \mid y_{1:t}, u_{0:t}]$.

    Args:
        system: the system that made the tokens.
        tokens: (..., T, 2), token t = $(y_t, u_t)$.

    Returns:
        Array (..., T, n).

    Raises:
        TypeError, ValueError: `system` is of the wrong type, tokens do not fit or are not finite,
            or a result overflows.
    """
    y, u = _split_tokens(tokens)
    T = y.shape[-1]
    gains = schedule(system, T).gains
    means = np.zeros((*y.shape, system.n))
    for t in range(1, T):
        prior = means[..., t - 1, :] @ system.A.T + u[..., t - 1, None] * system.B
        innovation = y[..., t] - prior @ system.C
        means[..., t, :] = prior + innovation[..., None] * gains[t]
    return _no_overflow("a mean of the filter", means)


@_quiet()
def predict(system: LinearGaussianSystem, tokens: Any) -> Floats:
    r"""Forecast the next observation at every token, $\hat y_{t+1} = C(A m_{t|t} + B u_t)$.

    This is the conditional mean of $y_{t+1}$ given tokens 0 … t: no forecaster has a smaller mean
    squared error. Its variance is ``schedule(system, T).variances``.

    Args, errors: as for `filter_means`.

    Returns:
        Array (..., T).
    """
    _, u = _split_tokens(tokens)
    ahead = filter_means(system, tokens) @ system.A.T + u[..., None] * system.B
    return _no_overflow("a forecast", ahead @ system.C)


def one_step_variances(system: LinearGaussianSystem, T: int) -> Floats:
    r"""Exact mean squared error of `predict` at each token, (T,): the floor under every learner.

    Errors as for `schedule`.
    """
    return schedule(system, T).variances


@_quiet()
def open_loop(system: LinearGaussianSystem, tokens: Any, warm: int = 1) -> tuple[Floats, Floats]:
    r"""Forecast all that is left after `warm` genuine observations, the controls being known.

    $$ \hat y_{w+h} = C m_h, \quad m_h = A m_{h-1} + B u_{w+h-1}, \quad m_0 = m_{w|w} $$

    Args:
        system: the system that made the tokens.
        tokens: (..., T, 2); observations after slot `warm` are ignored, all controls are used.
        warm: w, how many genuine observations are seen, 0 … T−1.

    Returns:
        (means (..., T−w), variances (T−w,)) of $y_{w+1}, \dots, y_T$.

    Raises:
        TypeError, ValueError: as for `filter_means`; `warm` is not in 0 … T−1.
    """
    _, u = _split_tokens(tokens)
    T = u.shape[-1]
    warm = _check_warm(warm, T)
    prefix = real_array("tokens", tokens)[..., : warm + 1, :]
    m = filter_means(system, prefix)[..., -1, :]
    means = np.empty((*u.shape[:-1], T - warm))
    for h in range(T - warm):
        m = m @ system.A.T + u[..., warm + h, None] * system.B
        means[..., h] = m @ system.C
    return _no_overflow("a forecast", means), open_loop_variances(system, T, warm)


@_quiet()
def open_loop_variances(system: LinearGaussianSystem, T: int, warm: int = 1) -> Floats:
    r"""Exact open-loop error against horizon: the floor under every rollout.

    $$ V_h = C P_h C^\top + R, \qquad P_h = A P_{h-1} A^\top + Q, \qquad P_0 = P_{w|w} $$

    It need not grow with h: A turns the uncertainty like the state, and C looks from one side.

    Args:
        system: the system.
        T: number of transitions in a trajectory.
        warm: w, how many genuine observations are seen, 0 … T−1.

    Returns:
        Array (T−w,), for horizons h = 1 … T−w.

    Raises:
        TypeError, ValueError: as for `schedule`; `warm` is not in 0 … T−1, or a variance overflows.
    """
    warm = _check_warm(warm, positive_int("T", T))
    P = schedule(system, warm + 1).filtered[warm]
    variances = np.empty(T - warm)
    for h in range(T - warm):
        P = system.A @ P @ system.A.T + system.Q
        variances[h] = system.C @ P @ system.C + system.R
    return _no_overflow("an open-loop variance", variances)


@dataclass(frozen=True, eq=False)
class SteadyPredictor:
    r"""Where the filter settles: one fixed gain, so a time-invariant linear recurrence.

    $$ m^-_{t+1} = A(I - KC)\,m^-_t + A K y_t + B u_t, \qquad \hat y_{t+1} = C m^-_{t+1} $$

    Attributes:
        covariance: P⁻, of the state before its observation, (n, n).
        gain: K, (n,).
        variance: V, of a one-step forecast.
        transition: A(I − KC), (n, n): the predictor's own transition, *not* the plant's A.
        observation_input: AK, (n,).
    """

    covariance: Floats
    gain: Floats
    variance: float
    transition: Floats
    observation_input: Floats

    @property
    def eigenvalues(self) -> NDArrayComplex:
        """Of `transition`, largest modulus first; of a pair, the positive imaginary part first."""
        values = np.linalg.eigvals(self.transition).astype(complex)
        return values[np.lexsort((-values.imag, -values.real, -np.abs(values).round(12)))]


NDArrayComplex = np.ndarray[Any, np.dtype[np.complex128]]


def steady_predictor(system: LinearGaussianSystem) -> SteadyPredictor:
    r"""Solve the Riccati equation for the gain that the filter tends to.

    $$ P = A P A^\top - A P C^\top (C P C^\top + R)^{-1} C P A^\top + Q $$

    Raises:
        TypeError: `system` is not a LinearGaussianSystem.
        ValueError: there is no stabilising solution (a mode that is neither stable nor observed, or
            an undamped one that no noise reaches): every eigenvalue of the predictor's transition
            must lie inside the unit circle, or its errors would not die out.
    """
    _require_system(system)
    column = system.C[:, None]
    try:
        P = solve_discrete_are(system.A.T, column, system.Q, np.array([[system.R]]))
    except np.linalg.LinAlgError as error:
        raise ValueError(f"the system has no steady filter: {error}") from None
    P = (P + P.T) / 2
    variance = float(system.C @ P @ system.C + system.R)
    gain = P @ system.C / variance
    transition = system.A @ (np.eye(system.n) - np.outer(gain, system.C))
    largest = np.abs(np.linalg.eigvals(transition)).max()
    if not largest < 1 - 1e-9:  # on the circle, up to rounding
        raise ValueError(
            "the system has no steady filter: the predictor's transition would have an eigenvalue "
            f"of modulus {largest:.6f}, not below 1"
        )
    return SteadyPredictor(P, gain, variance, transition, system.A @ gain)


def token_weights(system: LinearGaussianSystem, T: int) -> Floats:
    r"""How the exact forecast at the last token leans on every token before it.

    The forecast is linear: $\hat y_T = \sum_{k=0}^{T-1} (a_k\, y_{T-1-k} + b_k\, u_{T-1-k})$.

    Args:
        system: the system.
        T: number of tokens.

    Returns:
        Array (T, 2): row k holds $(a_k, b_k)$, lag 0 first; $a_{T-1} = 0$ (the placeholder).

    Raises:
        TypeError, ValueError: as for `schedule`.
    """
    units = np.eye(2 * positive_int("T", T)).reshape(2 * T, T, 2)
    weights = predict(system, units)[:, -1].reshape(T, 2)  # response to a one in each place
    return weights[::-1].copy()


def _require_system(system: object) -> None:
    if not isinstance(system, LinearGaussianSystem):
        raise TypeError(f"system must be a LinearGaussianSystem, got {type(system).__name__}")


def _split_tokens(tokens: Any) -> tuple[Floats, Floats]:
    array = real_array("tokens", tokens)
    if array.ndim < 2 or array.shape[-1] != 2 or array.shape[-2] == 0:
        raise ValueError(f"tokens must have shape (..., T, 2) with T ≥ 1, got {array.shape}")
    finite("tokens", array)
    return array[..., 0], array[..., 1]


def _no_overflow(name: str, x: Floats) -> Floats:
    if not np.isfinite(x).all():
        raise ValueError(f"{name} overflows float64: A is unstable or the numbers are too large")
    return x


def _check_warm(warm: int, T: int) -> int:
    warm = positive_int("warm", warm, minimum=0)
    if warm >= T:
        raise ValueError(f"warm must be below the number of transitions {T}, got {warm}")
    return warm
