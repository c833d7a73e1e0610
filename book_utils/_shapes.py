"""One check for the arrays that a function takes: their kind, their dtype, and shapes that fit.

A shape is written as in a docstring, ``"... T d"``. Equal letters must have equal sizes in all the
arrays of one call; ``...`` stands for any leading axes, which must broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validate import finite, is_floating, is_torch

KINDS = {"numpy": "a numpy array", "torch": "a torch tensor"}


def check_arrays(kind: str, **arrays: tuple[Any, str]) -> dict[str, int]:
    """Check arrays given as ``name=(array, "... T d")``; the size of every letter.

    Args:
        kind: "numpy" or "torch".
        arrays: the array and its shape, by the name that messages use. All must hold finite
            floating-point numbers (real or complex), torch tensors in one common dtype.

    Raises:
        TypeError: an array is of another kind, or does not hold floating-point numbers.
        ValueError: a shape does not fit, an axis is empty, or an entry is NaN or infinite.
    """
    sizes: dict[str, tuple[int, str]] = {}
    leading: dict[str, tuple[int, ...]] = {}
    for name, (array, shape) in arrays.items():
        _check_kind(kind, name, array)
        letters = shape.split()
        batched = letters[0] == "..."
        letters = letters[1:] if batched else letters
        found = tuple(int(size) for size in array.shape)
        if len(found) < len(letters) or (len(found) > len(letters) and not batched):
            raise ValueError(f"{name} must have shape ({', '.join(shape.split())}), got {found}")
        for letter, size in zip(letters, found[len(found) - len(letters) :], strict=True):
            _bind(sizes, letter, size, name)
        if batched:
            leading[name] = found[: len(found) - len(letters)]
        finite(name, array)
    _check_leading(leading)
    _check_dtypes(kind, arrays)
    return {letter: size for letter, (size, _) in sizes.items()}


def _check_kind(kind: str, name: str, array: Any) -> None:
    right = is_torch(array) if kind == "torch" else isinstance(array, np.ndarray)
    if not right:
        raise TypeError(f"{name} must be {KINDS[kind]}, got {type(array).__name__}")
    if not is_floating(array):
        raise TypeError(f"{name} must hold floating-point numbers, got {array.dtype}")


def _bind(sizes: dict[str, tuple[int, str]], letter: str, size: int, name: str) -> None:
    if size == 0:
        raise ValueError(f"{name} must not have an empty axis, but its axis {letter} is empty")
    known, where = sizes.setdefault(letter, (size, name))
    if known != size:
        raise ValueError(f"axis {letter} is {known} in {where} but {size} in {name}")


def _check_leading(leading: dict[str, tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items())
        raise ValueError(f"leading axes do not broadcast: {listed}") from None


def _check_dtypes(kind: str, arrays: dict[str, tuple[Any, str]]) -> None:
    found = {name: str(array.dtype) for name, (array, _) in arrays.items()}
    if kind == "torch" and len(set(found.values())) > 1:
        raise TypeError(f"tensors must share one dtype, got {found}")
