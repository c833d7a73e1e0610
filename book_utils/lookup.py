r"""Closed forms of a single lookup: one token matches the query, the others are equally wrong.

With n tokens, one of them scoring the margin m above all others, the softmax gives it the weight

$$ w(m, n) = \frac{e^m}{e^m + n - 1}. $$

All functions take and return plain floats or numpy arrays, and broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validate import finite


def match_weight(margin: Any, n: Any) -> Any:
    r"""Weight on the matching token, $w = e^m / (e^m + n - 1) = 1 / (1 + (n-1)\,e^{-m})$.

    Args:
        margin: m, how far the match's score lies above every other score (dimensionless).
        n: number of tokens attended to, the match included.

    Returns:
        The weight, between 0 and 1; float or array.

    Raises:
        ValueError: n is below 1, or an argument is not finite.
    """
    margin, n = _numbers(margin=margin, n=n)
    _require(n >= 1, "n must be at least 1 (the match itself)", n)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # e^{-m} may be infinite, and then the weight is 0
        rivals = np.where(n == 1, 0.0, (n - 1) * np.exp(-margin))
    return (1.0 / (1.0 + rivals))[()]


def required_margin(weight: Any, n: Any) -> Any:
    r"""The margin at which the match gets `weight`, $m = \ln\frac{w\,(n-1)}{1-w}$.

    Raises:
        ValueError: weight is not strictly between 0 and 1, or n is below 2.
    """
    weight, n = _numbers(weight=weight, n=n)
    _require((weight > 0) & (weight < 1), "weight must lie strictly between 0 and 1", weight)
    _require(n >= 2, "n must be at least 2 (a match and something to tell it from)", n)
    return np.log(weight) - np.log1p(-weight) + np.log(n - 1)


def retained_share(decay: Any, age: Any) -> Any:
    r"""What a fixed recurrence $h_t = a h_{t-1} + x_t$ still holds of a write, $\lvert a\rvert^k$.

    Args:
        decay: a, the multiplier per step.
        age: k, steps since the write.

    Raises:
        ValueError: |decay| is above 1, age is negative, or an argument is not finite.
    """
    decay, age = _numbers(decay=decay, age=age)
    _require(np.abs(decay) <= 1, "decay must lie between -1 and 1 (a stable recurrence)", decay)
    _require(age >= 0, "age must not be negative", age)
    return np.abs(decay) ** age


def window_weight(age: Any, window: int, weight: float) -> Any:
    """Weight of a token under attention over the last `window` tokens: `weight`, then nothing.

    Raises:
        ValueError: age is negative, window is below 1, or weight is outside [0, 1].
    """
    age, window, weight = _numbers(age=age, window=window, weight=weight)
    _require(age >= 0, "age must not be negative", age)
    _require(window >= 1, "window must be at least 1", window)
    _require((weight >= 0) & (weight <= 1), "weight must lie between 0 and 1", weight)
    return np.where(age < window, weight, 0.0)[()]


def _numbers(**arguments: Any) -> list[Any]:
    converted = []
    for name, value in arguments.items():
        if np.iscomplexobj(value):
            raise TypeError(f"{name} must be real, got {value!r}")
        try:
            number = np.asarray(value, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{name} must be a number or an array, got {value!r}") from None
        converted.append(finite(name, number)[()])
    return converted


def _require(holds: Any, message: str, got: Any) -> None:
    if not np.all(holds):
        raise ValueError(f"{message}, got {got}")
