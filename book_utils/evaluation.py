r"""Scores for forecasters of `systems`' trajectories, learned or exact, and simple baselines.

A *forecaster* is any function of tokens (..., T, 2) that returns forecasts (..., T) of the next
observation, entry t having seen tokens 0 … t. `Forecaster` makes one from trained models, `AR` from
least squares; `kalman.predict` with its system filled in is one. Everything here is numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ._validate import (
    finite,
    finite_number,
    generator,
    is_torch,
    positive_int,
    real_array,
    same_size,
)
from .models import on_device, stack_parameters
from .systems import Floats

Predict = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class ForecastError:
    """Mean squared errors of forecasts.

    Attributes:
        by_position: averaged over trajectories alone, (..., T).
        pooled: averaged over positions too, (...).
    """

    by_position: Floats
    pooled: Floats


class Forecaster:
    """Trained models of one class and size as one function: tokens in, forecasts of each out.

    Args:
        models: S modules with ``stacked_forward``.
        chunk: how many trajectories go through at a time (bounds the memory).
        device: where to compute, such as "cuda"; None for where the first model is.

    Raises:
        ValueError: no model, models that cannot be stacked, a device that is not there; in a call,
            tokens of another shape, or numbers that leave the range of the models' dtype.
    """

    def __init__(
        self, models: Sequence[nn.Module], *, chunk: int = 128, device: Any = None
    ) -> None:
        self.parameters = on_device(stack_parameters(models), device)
        self.model, self.size = models[0], len(models)
        self.chunk = positive_int("chunk", chunk)

    @torch.no_grad()
    def __call__(self, tokens: Floats) -> Floats:
        """Forecasts (S, N, T) for tokens (N, T, 2), shared, or (S, N, T, 2), each model's own."""
        x = self.tensor(tokens)
        parts = [
            self.model.stacked_forward(self.parameters, part)  # type: ignore[operator]
            for part in x.split(self.chunk, dim=-3)
        ]
        return finite("forecasts", torch.cat(parts, dim=1)).double().cpu().numpy()

    def tensor(self, tokens: Any) -> torch.Tensor:
        """Checked tokens (N, T, 2) or (S, N, T, 2), in the dtype and on the device of the models."""
        like = next(iter(self.parameters.values()))
        x = torch.tensor(_check_tokens(tokens), dtype=like.dtype, device=like.device)
        finite(f"tokens in {like.dtype}", x)
        if x.ndim not in (3, 4) or (x.ndim == 4 and len(x) != self.size):
            raise ValueError(
                f"tokens must have shape (N, T, 2) or ({self.size}, N, T, 2), got {tuple(x.shape)}"
            )
        return x


def teacher_forced_mse(forecasts: Any, targets: Any) -> ForecastError:
    r"""One-step error when every forecast sees the true past.

    $$ E_t = \frac1N \sum_i (\hat y^{(i)}_{t+1} - y^{(i)}_{t+1})^2, \qquad
       E = \frac1T \sum_t E_t $$

    Args:
        forecasts: (..., N, T); leading axes are models.
        targets: (N, T), raw held-out observations.

    Returns:
        `ForecastError` of shapes (..., T) and (...).

    Raises:
        TypeError: an entry is not a real number.
        ValueError: shapes do not fit, N or T is 0, or an entry is not finite.
    """
    forecasts, targets = real_array("forecasts", forecasts), real_array("targets", targets)
    if targets.ndim != 2 or targets.size == 0 or forecasts.shape[-2:] != targets.shape:
        raise ValueError(
            "forecasts must have shape (..., N, T) and targets (N, T) with N, T ≥ 1, got "
            f"{forecasts.shape} and {targets.shape}"
        )
    finite("forecasts", forecasts)
    finite("targets", targets)
    by_position = ((forecasts - targets) ** 2).mean(axis=-2)
    return ForecastError(by_position, by_position.mean(axis=-1))


def open_loop_rollout(predict: Predict, tokens: Any, warm: int = 1) -> Floats:
    r"""Let a forecaster feed on its own forecasts after `warm` genuine observations.

    It sees tokens 0 … w as they are (token 0 is the start marker), forecasts $\hat y_{w+1}$, and
    from then on reads $(\hat y_t, u_t)$: its own forecast with the control that was really
    applied. The history only grows at its end, so every token keeps its position.

    Args:
        predict: a forecaster, (..., t, 2) → (..., t) for every t ≤ T.
        tokens: (..., T, 2); observations after slot `warm` are never looked at.
        warm: w, how many genuine observations are seen, 0 … T−1.

    Returns:
        Forecasts (..., T−w) of $y_{w+1}, \dots, y_T$: horizons 1 … T−w.

    Raises:
        TypeError, ValueError: tokens do not fit or are not finite, `warm` is not in 0 … T−1, or
            `predict` returns another shape or forecasts that are not finite.
    """
    tokens = _check_tokens(tokens)
    T, warm = tokens.shape[-2], positive_int("warm", warm, minimum=0)
    if warm >= T:
        raise ValueError(f"warm must be below the number of tokens {T}, got {warm}")
    history = np.array(tokens, dtype=np.float64)
    history[..., warm + 1 :, 0] = np.nan  # nothing of the future can be used unnoticed
    forecasts = np.empty((*tokens.shape[:-2], T - warm))
    for t in range(warm, T):
        seen = history[..., : t + 1, :]
        forecasts[..., t - warm] = _last_forecast(predict(seen), seen.shape[:-1])
        if t + 1 < T:
            history[..., t + 1, 0] = forecasts[..., t - warm]
    return forecasts


def _last_forecast(forecasts: Any, shape: tuple[int, ...]) -> Floats:
    """The newest of forecasts (..., t), which a single model may give an extra axis of length 1."""
    found = real_array("the forecasts of predict", forecasts)
    if found.shape[found.ndim - len(shape) :] != shape or found.size != math.prod(shape):
        raise ValueError(f"predict must return forecasts of shape {shape}, got {found.shape}")
    return finite("the forecasts of predict", found.reshape(shape)[..., -1])


def open_loop_mse(forecasts: Any, targets: Any) -> Floats:
    """Mean squared error against horizon, (..., H), of an `open_loop_rollout`.

    Args:
        forecasts: (..., N, H).
        targets: (N, T), raw held-out observations; the last H belong to the forecasts.

    Errors as for `teacher_forced_mse`.
    """
    forecasts, targets = real_array("forecasts", forecasts), real_array("targets", targets)
    if forecasts.ndim < 2 or targets.ndim != 2 or not 1 <= forecasts.shape[-1] <= targets.shape[-1]:
        raise ValueError(
            f"forecasts must have shape (..., N, H) and targets (N, T) with H ≤ T, got "
            f"{forecasts.shape} and {targets.shape}"
        )
    return teacher_forced_mse(forecasts, targets[:, -forecasts.shape[-1] :]).by_position


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval around it.

    Attributes:
        value: the estimate from all data.
        low, high: ends of the interval.
    """

    value: float
    low: float
    high: float


def paired_bootstrap(
    first: Any,
    second: Any,
    rng: np.random.Generator | int = 0,
    *,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    r"""Estimate the difference of two learners' mean errors, with a percentile interval.

    Both were trained on the same S seeds and tested on the same N trajectories. Seeds and
    trajectories are drawn anew, with replacement and independently of each other, and always for
    both learners at once:

    $$ \Delta^* = \sum_{s,i} \frac{m_s}{S} \frac{k_i}{N}\,
       \big(e^{(1)}_{si} - e^{(2)}_{si}\big), $$

    where $m_s$ and $k_i$ count how often a seed and a trajectory were drawn. What is hard for both
    cancels. That seeds *and* trajectories vary makes the interval wider than either alone would, a
    little wider than it need be (the pigeonhole bootstrap, Owen 2007).

    Args:
        first, second: errors, (S, N) each: of every seed on every trajectory.
        rng: numpy Generator or seed.
        resamples: how many draws.
        level: share of the draws that the interval holds.

    Returns:
        `Interval` of first − second: below zero where the first errs less.

    Raises:
        TypeError, ValueError: shapes differ or are not (S, N) with S, N ≥ 2, an entry is not
            finite, `resamples` is not an integer of at least 1, or `level` not between 0 and 1.
    """
    a, b = real_array("first", first), real_array("second", second)
    if a.ndim != 2 or min(a.shape) < 2 or a.shape != b.shape:
        raise ValueError(
            f"first and second must both have shape (S, N) with S, N ≥ 2, got {a.shape} and "
            f"{b.shape}"
        )
    difference = finite("first", a) - finite("second", b)
    if not 0 < finite_number("level", level) < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    rng, resamples = generator("rng", rng), positive_int("resamples", resamples)
    S, N = difference.shape
    seeds = rng.multinomial(S, np.full(S, 1 / S), resamples) / S  # (resamples, S)
    draws = np.empty(resamples)
    for i in range(resamples):
        trajectories = rng.multinomial(N, np.full(N, 1 / N)) / N
        draws[i] = seeds[i] @ difference @ trajectories
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(difference.mean()), float(low), float(high))


# --------------------------------------------------------------------------------- attention by lag


def attention_by_lag(weights: Any) -> Floats:
    r"""Attention of the *final* query against how long ago each token came.

    $$ \bar w_k = \frac1N \sum_i w^{(i)}_{L-1,\,L-1-k}, \qquad k = 0, \dots, L-1 $$

    All L keys are allowed to the final query, so every lag is judged by the same L competitors, the
    profile sums to one, and 1/L is what a query that prefers nothing would show.

    Args:
        weights: (..., L, L), rows are queries; heads and trajectories are averaged over.

    Returns:
        Array (L,), lag 0 (the token itself) first.

    Raises:
        TypeError: an entry is not a real number.
        ValueError: not square, no matrix at all, or rows that are not causal distributions.
    """
    w = _causal_weights(weights)
    return w[:, -1, ::-1].mean(axis=0)


def pooled_attention_by_lag(weights: Any) -> Floats:
    r"""Attention against lag, averaged over every query that has such a lag: a misleading profile.

    $$ \bar w_k = \frac{1}{L-k} \sum_{i \ge k} w_{i,\,i-k} $$

    Short lags are averaged over early queries too, which have few keys and so large weights. Even
    uniform attention seems to fall with lag (`pooled_uniform_baseline`), and the sum is not one.

    Args, errors: as for `attention_by_lag`.

    Returns:
        Array (L,).
    """
    w = _causal_weights(weights).mean(axis=0)
    return np.array([np.diagonal(w, -k).mean() for k in range(len(w))])


def pooled_uniform_baseline(L: int) -> Floats:
    r"""`pooled_attention_by_lag` of uniform causal attention, $w_{ij} = 1/(i+1)$.

    $$ \bar w_k = \frac{1}{L-k}\sum_{i=k}^{L-1}\frac{1}{i+1} = \frac{H_L - H_k}{L-k},
       \qquad H_m = \sum_{j=1}^m \frac1j $$

    Raises:
        TypeError, ValueError: `L` is not an integer of at least 1.
    """
    L = positive_int("L", L)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, L + 1))])
    k = np.arange(L)
    return (harmonic[L] - harmonic[k]) / (L - k)


# ---------------------------------------------------------------------------------------- baselines


def mean_forecast(tokens: Any) -> Floats:
    """Forecast the mean of every observation, which is 0 by symmetry of the system; (..., T)."""
    return np.zeros(_check_tokens(tokens).shape[:-1])


def last_value_forecast(tokens: Any) -> Floats:
    """Forecast that the next observation equals the last one (persistence); (..., T)."""
    return np.array(_check_tokens(tokens)[..., 0], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class AR:
    r"""A linear forecast from the last p tokens, the same at every position (ARX when it uses u).

    $$ \hat y_{t+1} = \sum_{k=0}^{p-1} (\alpha_k y_{t-k} + \beta_k u_{t-k}) $$

    What lies before token 0 counts as zero.

    Attributes:
        coefficients: row k holds $(\alpha_k, \beta_k)$, (p, 2).
    """

    coefficients: Floats

    def __call__(self, tokens: Any) -> Floats:
        """Forecasts (..., T) for tokens (..., T, 2)."""
        return _lagged(_check_tokens(tokens), len(self.coefficients)) @ self.coefficients.ravel()


def fit_ar(tokens: Any, targets: Any, order: int, *, controls: bool = True) -> AR:
    r"""Fit `AR` by least squares over all trajectories and positions.

    Args:
        tokens: (N, T, 2).
        targets: (N, T).
        order: p, how many tokens back.
        controls: False for a plain AR(p) that ignores u.

    Raises:
        TypeError, ValueError: shapes do not fit, there is no trajectory, an entry is not finite, or
            `order` is not an integer from 1 to T.
    """
    tokens, targets = _check_data(tokens, targets)
    order = positive_int("order", order)
    if order > tokens.shape[1]:
        raise ValueError(
            f"order must be at most the number of tokens {tokens.shape[1]}, got {order}"
        )
    lagged = _lagged(tokens, order).reshape(-1, 2 * order)
    columns = slice(None) if controls else slice(0, None, 2)
    solution = np.linalg.lstsq(lagged[:, columns], targets.ravel(), rcond=None)[0]
    coefficients = np.zeros(2 * order)
    coefficients[columns] = solution
    return AR(coefficients.reshape(order, 2))


@dataclass(frozen=True, eq=False)
class PositionRegression:
    """Linear regression on the whole past, with coefficients of its own at every position.

    Attributes:
        coefficients: entry t maps the 2(t + 1) numbers of tokens 0 … t to the forecast.
    """

    coefficients: tuple[Floats, ...]

    def __call__(self, tokens: Any) -> Floats:
        """Forecasts (..., T) for tokens (..., T, 2), T at most the fitted length."""
        tokens = _check_tokens(tokens)
        T = tokens.shape[-2]
        if len(self.coefficients) < T:
            raise ValueError(f"tokens have {T} positions, {len(self.coefficients)} were fitted")
        flat = tokens.reshape(*tokens.shape[:-2], 2 * T)
        return np.stack(
            [flat[..., : 2 * (t + 1)] @ self.coefficients[t] for t in range(T)], axis=-1
        )


def fit_by_position(tokens: Any, targets: Any) -> PositionRegression:
    """Least squares at every position; its class holds the exact filter, time-varying gain and all.

    Raises:
        TypeError, ValueError: shapes do not fit, there is no trajectory, or an entry is not finite.
    """
    tokens, targets = _check_data(tokens, targets)
    flat = tokens.reshape(len(tokens), -1)
    return PositionRegression(
        tuple(
            np.linalg.lstsq(flat[:, : 2 * (t + 1)], targets[:, t], rcond=None)[0]
            for t in range(targets.shape[1])
        )
    )


def _lagged(tokens: Floats, order: int) -> Floats:
    """Put the last `order` tokens beside each position, newest first: (..., T, 2 order)."""
    past = np.zeros((*tokens.shape[:-2], order - 1, 2))
    padded = np.concatenate([past, tokens], axis=-2)
    T = tokens.shape[-2]
    shifted = [padded[..., order - 1 - k : order - 1 - k + T, :] for k in range(order)]
    return np.concatenate(shifted, axis=-1)


def _check_tokens(tokens: Any) -> Floats:
    array = real_array("tokens", tokens) if is_torch(tokens) else np.asarray(tokens)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"tokens must hold floating-point numbers, got {array.dtype}")
    if array.ndim < 2 or array.shape[-1] != 2 or array.shape[-2] == 0:
        raise ValueError(f"tokens must have shape (..., T, 2) with T ≥ 1, got {array.shape}")
    return finite("tokens", array)


def _check_data(tokens: Any, targets: Any) -> tuple[Floats, Floats]:
    tokens, targets = _check_tokens(tokens), real_array("targets", targets)
    if tokens.ndim != 3 or len(tokens) == 0 or targets.shape != tokens.shape[:-1]:
        raise ValueError(
            f"tokens must have shape (N, T, 2) and targets (N, T) with N ≥ 1, got {tokens.shape} "
            f"and {targets.shape}"
        )
    return tokens, finite("targets", targets)


def _causal_weights(weights: Any) -> Floats:
    w = real_array("weights", weights)
    if w.ndim < 2 or w.shape[-1] != w.shape[-2] or w.size == 0:
        raise ValueError(f"weights must have shape (..., L, L) with no empty axis, got {w.shape}")
    same_size("the number of queries", w.shape[-2], "the number of keys", w.shape[-1])
    w = w.reshape(-1, *w.shape[-2:])
    finite("weights", w)
    half = getattr(getattr(weights, "dtype", None), "itemsize", 8) == 2
    off = abs(w.sum(axis=-1) - 1).max()
    if (np.triu(w, 1) != 0).any() or (w < 0).any() or off > (0.03 if half else 1e-4):
        raise ValueError("weights must be causal rows that are non-negative and sum to one")
    return w
