r"""Change one token and look at the forecast: what a forecaster uses, rather than what it looks at.

The token k steps before the last is replaced, everything else stays, and the change of the *last*
forecast is measured, root mean square over trajectories:

$$ e_k = \sqrt{\frac1N \sum_i \big(\hat y(x^{(i)}) - \hat y(x^{(i)} : x_{T-1-k} \leftarrow x')\big)^2} $$

What stands in its place matters. A zero may be a token the model never met, and a zero reading says
something; the mean says nothing on average but hides the spread; a token taken from another
trajectory has the right distribution and no relation to the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validate import finite, generator, one_of, positive_int, real_array
from .evaluation import Predict
from .systems import Floats

KINDS = ("zero", "mean", "resample")


def replace_token(
    tokens: Any, lag: int, kind: str = "resample", rng: np.random.Generator | int = 0
) -> Floats:
    """Copy the tokens, with the one `lag` steps before the last replaced in every trajectory.

    Args:
        tokens: (N, T, 2).
        lag: k, 0 … T−1; 0 is the last token.
        kind: "zero" puts (0, 0); "mean" that slot's mean over the trajectories; "resample" the
            token that another trajectory has in that slot (each is used once, none keeps its own).
        rng: numpy Generator or seed, for "resample".

    Raises:
        TypeError, ValueError: tokens do not fit or are not finite, `lag` is not in 0 … T−1, `kind`
            is unknown, or there is one trajectory only and so no other to take from.
    """
    tokens = _check_tokens(tokens)
    N, T, _ = tokens.shape
    lag = positive_int("lag", lag, minimum=0)
    if lag >= T:
        raise ValueError(f"lag must be below the number of tokens {T}, got {lag}")
    slot = tokens[:, T - 1 - lag]
    if one_of("kind", kind, KINDS) == "zero":
        new = np.zeros_like(slot)
    elif kind == "mean":
        new = np.broadcast_to(slot.mean(axis=0), slot.shape)
    else:
        new = slot[_others(N, generator("rng", rng))]
    changed = tokens.copy()
    changed[:, T - 1 - lag] = new
    return changed


def effect_by_lag(
    predict: Predict,
    tokens: Any,
    kind: str = "resample",
    rng: np.random.Generator | int = 0,
    *,
    lags: int | None = None,
) -> Floats:
    """Root mean square change of the last forecast when the token at each lag is replaced.

    Args:
        predict: a forecaster, (N, T, 2) → (..., N, T), such as `evaluation.Forecaster`.
        tokens: (N, T, 2).
        kind, rng: as for `replace_token`.
        lags: how many, 0 … lags−1; all T when None.

    Returns:
        Array (..., lags), lag 0 first; in the units of the observation.

    Raises:
        As `replace_token`; also if `lags` is not an integer from 1 to T, or `predict` returns
            another shape or forecasts that are not finite.
    """
    tokens, rng = _check_tokens(tokens), generator("rng", rng)
    T = tokens.shape[1]
    lags = T if lags is None else positive_int("lags", lags)
    if lags > T:
        raise ValueError(f"lags must be at most the number of tokens {T}, got {lags}")
    before = _last(predict, tokens)
    effects = [
        np.sqrt(((_last(predict, replace_token(tokens, k, kind, rng)) - before) ** 2).mean(axis=-1))
        for k in range(lags)
    ]
    return np.stack(effects, axis=-1)


def _last(predict: Predict, tokens: Floats) -> Floats:
    """The last forecast for every trajectory, (..., N)."""
    forecasts = real_array("the forecasts of predict", predict(tokens))
    if forecasts.shape[-2:] != tokens.shape[:2]:
        raise ValueError(
            f"predict must return forecasts of shape (..., {tokens.shape[0]}, {tokens.shape[1]}), "
            f"got {forecasts.shape}"
        )
    return finite("the forecasts of predict", forecasts)[..., -1]


def _others(N: int, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.intp]]:
    """For each of N trajectories the index of another: everyone's neighbour on a random ring."""
    if N < 2:
        raise ValueError('kind "resample" needs at least 2 trajectories, got 1')
    ring = rng.permutation(N)
    other = np.empty(N, dtype=np.intp)
    other[ring] = np.roll(ring, 1)
    return other


def _check_tokens(tokens: Any) -> Floats:
    array = real_array("tokens", tokens)
    if array.ndim != 3 or array.shape[-1] != 2 or array.size == 0:
        raise ValueError(f"tokens must have shape (N, T, 2) with N, T ≥ 1, got {array.shape}")
    return finite("tokens", array)
