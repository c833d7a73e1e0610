r"""How a forecaster's errors travel when it feeds on its own forecasts.

The error of a rollout obeys, to first order,

$$ e_{t+1} = J_t e_t + \delta_t, \qquad e_0 = 0, $$

where $J_t$ is the derivative of the *model* at the true state, and $\delta_t$ the model's one-step
error there. The formulas below take J constant; $\delta_t$ may have a constant part b (bias) and a
random part of standard deviation σ, independent from step to step or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validate import finite, finite_number, generator, positive_int
from .systems import Floats


def bias_error(gain: float, bias: float, horizon: int) -> Floats:
    r"""Error that a constant one-step error builds up.

    $$ m_H = b \sum_{k=0}^{H-1} J^k = b\,\frac{1 - J^H}{1 - J} \;(J \ne 1), \qquad
       m_H = bH \;(J = 1) $$

    Args:
        gain: J.
        bias: b.
        horizon: the largest H.

    Returns:
        Array (horizon,): horizons 1, 2, … in order. It tends to b/(1 − J) if \|J\| < 1.

    Raises:
        TypeError: an argument is not a number.
        ValueError: an argument is not finite, the horizon is below 1, or the error overflows.
    """
    J, b = finite_number("gain", gain), finite_number("bias", bias)
    with np.errstate(over="ignore"):
        return _bounded(b * np.cumsum(J ** np.arange(positive_int("horizon", horizon))))


def rms_error(gain: float, std: float, horizon: int, *, correlation: float = 0.0) -> Floats:
    r"""Standard deviation of the error that zero-mean one-step errors build up.

    Independent ones give $\sigma\sqrt{(1 - J^{2H})/(1 - J^2)}$, or $\sigma\sqrt H$ for \|J\| = 1.
    If $\delta_{t+1} = \rho\,\delta_t + \dots$, the error and the disturbance that follows are
    correlated, with covariance $c_t$:

    $$ p_{t+1} = J^2 p_t + 2 J c_t + \sigma^2, \qquad c_{t+1} = \rho\,(J c_t + \sigma^2) $$

    Args:
        gain: J.
        std: σ, at least 0.
        horizon: the largest H.
        correlation: ρ of neighbouring disturbances, in [−1, 1].

    Returns:
        Array (horizon,): $\sqrt{p_H}$ at horizons 1, 2, ….

    Raises:
        TypeError, ValueError: as `bias_error`; `std` is negative, `correlation` is outside [−1, 1].
    """
    J, sigma, rho = _statistics(gain, std, correlation)
    variances, p, c = np.empty(positive_int("horizon", horizon)), 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for H in range(horizon):
            p, c = J * J * p + 2 * J * c + sigma**2, rho * (J * c + sigma**2)
            variances[H] = p
    return np.sqrt(np.maximum(_bounded(variances), 0.0))  # rounding may leave −1e-20


def propagate(gain: Any, disturbances: Any) -> Floats:
    r"""Run the recursion $e_{t+1} = J e_t + \delta_t$ from $e_0 = 0$.

    Args:
        gain: a number, or a matrix (n, n).
        disturbances: (..., H) for a number, (..., H, n) for a matrix.

    Returns:
        Array of the same shape: errors at horizons 1 … H.

    Raises:
        ValueError: shapes do not fit, an entry is not finite, or the errors overflow.
    """
    J = finite("gain", np.asarray(gain, dtype=np.float64))
    delta = finite("disturbances", np.asarray(disturbances, dtype=np.float64))
    if J.shape not in ((), (*delta.shape[-1:], *delta.shape[-1:])) or delta.ndim < (J.ndim or 1):
        raise ValueError(
            "gain must be a number with disturbances (..., H), or (n, n) with (..., H, n); got "
            f"{J.shape} and {delta.shape}"
        )
    if J.ndim == 0:
        return propagate(J[None, None], delta[..., None])[..., 0]
    errors, e = np.empty_like(delta), np.zeros(delta.shape[-1])
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(delta.shape[-2]):
            e = e @ J.T + delta[..., t, :]
            errors[..., t, :] = e
    return _bounded(errors)


def correlated_noise(
    n: int, horizon: int, std: float, correlation: float, rng: np.random.Generator | int
) -> Floats:
    r"""Stationary Gaussian disturbances $\delta_{t+1} = \rho\,\delta_t + \sigma\sqrt{1-\rho^2}\,\xi_t$.

    Each has standard deviation σ, whatever ρ is.

    Args:
        n: number of sequences.
        horizon: their length H.
        std: σ, at least 0.
        correlation: ρ, in [−1, 1].
        rng: numpy Generator or integer seed.

    Returns:
        Array (n, H).

    Raises:
        TypeError, ValueError: a size is not an integer ≥ 1, or a number is out of its range.
    """
    _, sigma, rho = _statistics(1.0, std, correlation)
    shape = (positive_int("n", n), positive_int("horizon", horizon))
    delta = sigma * generator("rng", rng).standard_normal(shape)
    for t in range(1, horizon):
        delta[:, t] = rho * delta[:, t - 1] + np.sqrt(1 - rho**2) * delta[:, t]
    return delta


def gain_norms(gain: Any, horizon: int) -> Floats:
    r"""Largest factor by which h steps can stretch an error: $\|J^h\|_2$ for h = 0 … horizon.

    All eigenvalues inside the unit circle make it tend to 0, but not at once: only a matrix with
    $\|J\|_2 < 1$ shrinks every error at every step.

    Args:
        gain: J, (n, n).
        horizon: the largest h.

    Raises:
        TypeError, ValueError: `gain` is not a finite square matrix, the horizon is below 1, or a
            power overflows.
    """
    J = finite("gain", np.asarray(gain, dtype=np.float64))
    if J.ndim != 2 or J.shape[0] != J.shape[1] or J.size == 0:
        raise ValueError(f"gain must have shape (n, n) with n ≥ 1, got {J.shape}")
    powers = [np.eye(len(J))]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(positive_int("horizon", horizon)):
            powers.append(J @ powers[-1])
    return np.linalg.norm(_bounded(np.stack(powers)), ord=2, axis=(1, 2))


def _statistics(gain: float, std: float, correlation: float) -> tuple[float, float, float]:
    J, sigma = finite_number("gain", gain), finite_number("std", std)
    rho = finite_number("correlation", correlation)
    if sigma < 0:
        raise ValueError(f"std must not be negative, got {sigma}")
    if abs(rho) > 1:
        raise ValueError(f"correlation must be in [-1, 1], got {rho}")
    return J, sigma, rho


def _bounded(errors: Floats) -> Floats:
    if not np.isfinite(errors).all():
        raise ValueError("the errors overflow: gain is too large for this horizon")
    return errors
