"""Clear errors for bad arguments: every message names the argument, what it got and what it needs.

Each function returns the value it was given (an integer or float where it says so), so that a
check reads as an assignment: ``heads = positive_int("heads", heads)``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def is_torch(x: object) -> bool:
    """Whether `x` is a torch tensor, found out without importing torch."""
    return any(cls.__module__.partition(".")[0] == "torch" for cls in type(x).__mro__)


def is_floating(x: Any) -> bool:
    """Whether the array or tensor `x` holds real or complex floating-point numbers."""
    if is_torch(x):
        return bool(x.dtype.is_floating_point or x.dtype.is_complex)
    return bool(np.issubdtype(x.dtype, np.inexact))


def positive_int(name: str, value: Any, *, minimum: int = 1) -> int:
    """`value` as an int, at least `minimum`; TypeError or ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}")
    return int(value)


def finite_number(name: str, value: Any) -> float:
    """`value` as a finite float; TypeError or ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a real number, got {value!r} of type {type(value).__name__}"
        )
    try:
        number = float(value)
    except OverflowError:  # an integer or fraction; it may have too many digits to print
        raise ValueError(f"{name} must be finite, but it is too large for a float") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value}")
    return number


def positive_number(name: str, value: Any) -> float:
    """`value` as a finite float above zero; TypeError or ValueError otherwise."""
    number = finite_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above zero, got {number}")
    return number


def one_of(name: str, value: T, allowed: Collection[T]) -> T:
    """`value` if it is among `allowed`; ValueError otherwise."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {sorted(map(str, allowed))}, got {value!r}")
    return value


def finite(name: str, x: Any) -> Any:
    """The array or tensor `x` if it holds no NaN and no infinity; ValueError otherwise."""
    if bad := count_not_finite(x):
        raise ValueError(f"{name} must be finite, but {bad} of its entries are NaN or infinite")
    return x


def count_not_finite(x: Any) -> int:
    """How many entries of the array or tensor `x` are NaN or infinite.

    One such entry makes the sum NaN or infinite, so a finite sum, which is ten times quicker than
    a look at each entry, settles the matter; an infinite one may also have overflowed.
    """
    if is_torch(x):
        x = x.detach()
        return 0 if bool(x.sum().isfinite()) else int((~x.isfinite()).sum())
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.sum(x)
    return 0 if np.isfinite(total) else int(np.count_nonzero(~np.isfinite(x)))


def real_array(name: str, x: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The numbers in `x` (a list, array or tensor, without its gradient) as a float64 array.

    TypeError if they are complex, or no numbers: an imaginary part is never dropped.
    """
    if is_torch(x):
        x = x.detach().cpu()
        return real_array(name, (x if x.is_complex() else x.double()).numpy())
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, or tensors with a gradient
        raise TypeError(f"{name} must be an array of real numbers ({error})") from None
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
    return np.asarray(array, dtype=np.float64)


def min_ndim(name: str, x: Any, ndim: int, shape: str) -> Any:
    """`x` if it has at least `ndim` axes; `shape` describes them, as in ``(..., T, d)``."""
    if x.ndim < ndim:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(x.shape)}")
    return x


def same_size(name_a: str, size_a: int, name_b: str, size_b: int) -> None:
    """Raise a ValueError unless two sizes that must agree do."""
    if size_a != size_b:
        raise ValueError(f"{name_a} is {size_a} but {name_b} is {size_b}; they must be equal")


def generator(name: str, seed: Any) -> np.random.Generator:
    """A numpy Generator from an integer of at least 0, or `seed` itself if it is a Generator.

    None is refused: a seed that nobody chose cannot be repeated.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(positive_int(name, seed, minimum=0))
