r"""What a forecast may see: the order of a trajectory, its tokens, and a test for leaks.

A trajectory of T moments is written in the order in which it happened,

$$ o_0, a_0, o_1, a_1, \dots, o_{T-1}, a_{T-1}. $$

Call it the chain. A forecast of one element may use the elements before it, and nothing else. Here
an observation and an action are one number each, as in `systems`; arrays may carry leading axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._validate import finite, generator, positive_int
from .systems import Floats


def chain(observations: Any, actions: Any) -> Floats:
    """Observations and actions in the order in which they happened, $o_0, a_0, o_1, a_1, …$.

    Args:
        observations, actions: (..., T) each.

    Returns:
        Array (..., 2T).

    Raises:
        ValueError: shapes differ, there is no moment, or an entry is not finite.
    """
    o, a = _moments(observations, actions)
    return np.stack([o, a], axis=-1).reshape(*o.shape[:-1], 2 * o.shape[-1])


def paired_tokens(observations: Any, actions: Any) -> Floats:
    """Token t is $(o_t, a_t)$, (..., T, 2): right for forecasts of $o_{t+1}$, a leak for $a_t$.

    Raises:
        ValueError: as `chain`.
    """
    return np.stack(_moments(observations, actions), axis=-1)


def shifted_tokens(observations: Any, actions: Any) -> Floats:
    """Token t is $(o_t, a_{t-1})$ with $a_{-1} := 0$, (..., T, 2): right for forecasts of $a_t$.

    Raises:
        ValueError: as `chain`.
    """
    o, a = _moments(observations, actions)
    before = np.concatenate([np.zeros_like(a[..., :1]), a[..., :-1]], axis=-1)
    return np.stack([o, before], axis=-1)


def interleaved_tokens(observations: Any, actions: Any) -> Floats:
    """One token an element of the chain, (..., 2T, 2): $(o_t, 0)$, then $(0, a_t)$.

    The token of $o_t$ may forecast $a_t$, and the token of $a_t$ may forecast $o_{t+1}$.

    Raises:
        ValueError: as `chain`.
    """
    o, a = _moments(observations, actions)
    zero = np.zeros_like(o)
    tokens = np.stack([np.stack([o, zero], axis=-1), np.stack([zero, a], axis=-1)], axis=-2)
    return tokens.reshape(*o.shape[:-1], 2 * o.shape[-1], 2)


def future_leak(
    forecast: Callable[[Floats], Any],
    sequence: Any,
    *,
    of: Sequence[int] | None = None,
    seed: int | np.random.Generator = 0,
) -> float:
    r"""How far a forecast moves when only its own target, or what comes later, changes.

    For every element s, all elements from s on are replaced by other numbers. A forecast of an
    element at or before s must not move at all: the future cannot change the past.

    Args:
        forecast: from a sequence (n,) to forecasts (m,); entry k forecasts element ``of[k]``.
        sequence: (n,), in the order in which it happened.
        of: the m elements that are forecast; all of them, in order, when None.
        seed: for the replacements, each far outside the range of the sequence.

    Returns:
        The largest change: exactly 0 for an honest forecast.

    Raises:
        TypeError, ValueError: the sequence is not (n,), an index is out of range, or the forecasts
            are not (m,) or not finite.
    """
    x = finite("sequence", np.asarray(sequence, dtype=np.float64))
    if x.ndim != 1 or len(x) == 0:
        raise ValueError(f"sequence must have shape (n,) with n ≥ 1, got {x.shape}")
    targets = np.array([_index(i, len(x)) for i in (range(len(x)) if of is None else of)])
    rng, before = generator("seed", seed), _forecasts(forecast, x, targets)
    worst = 0.0
    for s in range(len(x)):
        changed = x.copy()
        changed[s:] += (1.0 + np.abs(x).max()) * rng.uniform(1.0, 2.0, len(x) - s)
        moved = np.abs(_forecasts(forecast, changed, targets) - before)
        worst = max(worst, moved[targets <= s].max(initial=0.0))
    return float(worst)


def _moments(observations: Any, actions: Any) -> tuple[Floats, Floats]:
    o, a = (np.asarray(x, dtype=np.float64) for x in (observations, actions))
    if o.shape != a.shape or o.ndim == 0 or o.shape[-1] == 0:
        raise ValueError(
            "observations and actions must have the same shape (..., T) with T ≥ 1, got "
            f"{o.shape} and {a.shape}"
        )
    return finite("observations", o), finite("actions", a)


def _index(value: int, size: int) -> int:
    if positive_int("each element of of", value, minimum=0) >= size:
        raise ValueError(f"each element of of must be below {size}, got {value}")
    return value


def _forecasts(forecast: Callable[[Floats], Any], x: Floats, targets: np.ndarray) -> Floats:
    found = np.asarray(forecast(x.copy()), dtype=np.float64)
    if found.shape != targets.shape:
        raise ValueError(f"forecast must return shape {targets.shape}, got {found.shape}")
    return finite("the forecasts", found)
