r"""A memory matrix outside the network, read and written by soft addresses (Graves et al. 2014).

The memory of a Neural Turing Machine has m rows of width d. An address is a weighting w over the
rows, $w_i \ge 0$, $\sum_i w_i = 1$. Reading averages the rows with it, writing erases and adds
in proportion to it. Everything is differentiable; with sharp addresses it is a dictionary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._shapes import check_arrays
from ._validate import positive_number
from .attention import softmax


def content_address(memory: Tensor, key: Tensor, strength: float) -> Tensor:
    r"""Address the rows that look like `key`.

    $$ w = \mathrm{softmax}(\beta\,\kappa), \qquad
       \kappa_i = \frac{M_i^\top k}{\lVert M_i\rVert\,\lVert k\rVert} $$

    The cosine makes the length of a row irrelevant; an all-zero row, or key, has cosine 0.

    Args:
        memory: (m, d).
        key: (d,).
        strength: β, above zero: the larger, the sharper.

    Returns:
        w, (m,).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", memory=(memory, "m d"), key=(key, "d"))
    lengths = torch.linalg.vector_norm(memory, dim=-1) * torch.linalg.vector_norm(key)
    cosine = torch.where(lengths > 0, memory @ key / lengths.where(lengths > 0, 1.0), 0.0)
    return softmax(positive_number("strength", strength) * cosine)


def interpolate(content: Tensor, previous: Tensor, gate: float) -> Tensor:
    r"""Choose between a new address and the last one, $w = g\,w^c + (1-g)\,w'$.

    Args:
        content, previous: addresses, (m,).
        gate: g, from 0 (stay where you were) to 1 (look it up).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", content=(content, "m"), previous=(previous, "m"))
    if not 0 <= gate <= 1:
        raise ValueError(f"gate must lie between 0 and 1, got {gate}")
    return gate * content + (1 - gate) * previous


def shift(address: Tensor, amounts: Tensor) -> Tensor:
    r"""Move an address along the rows, as on a ring (a circular convolution).

    $$ \tilde w_i = \sum_j w_j\,s_{i-j} $$

    Args:
        address: (m,).
        amounts: (3,): how much to move by −1, 0 and +1 rows; they sum to one.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", address=(address, "m"), amounts=(amounts, "3"))
    if amounts.shape != (3,):
        raise ValueError(f"amounts must have shape (3,), got {tuple(amounts.shape)}")
    back, stay, forth = amounts
    return back * address.roll(-1) + stay * address + forth * address.roll(1)


def sharpen(address: Tensor, power: float) -> Tensor:
    r"""Undo the blur of a soft shift, $w_i = \tilde w_i^\gamma / \sum_j \tilde w_j^\gamma$.

    Args:
        address: (m,), non-negative.
        power: γ, at least 1.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", address=(address, "m"))
    if positive_number("power", power) < 1:
        raise ValueError(f"power must be at least 1, got {power}")
    raised = address**power
    return raised / raised.sum()


def read(memory: Tensor, address: Tensor) -> Tensor:
    r"""What lies at an address, $r = \sum_i w_i M_i$.

    Args:
        memory: (m, d).
        address: (m,).

    Returns:
        (d,).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", memory=(memory, "m d"), address=(address, "m"))
    return address @ memory


def write(memory: Tensor, address: Tensor, erase: Tensor, add: Tensor) -> Tensor:
    r"""Overwrite in proportion to the address: first erase, then add.

    $$ M_i' = M_i \odot (1 - w_i e) + w_i a $$

    Args:
        memory: (m, d).
        address: (m,).
        erase: e, (d,), from 0 (leave) to 1 (wipe).
        add: a, (d,).

    Returns:
        The new memory, (m, d); the old one is left as it was.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays(
        "torch", memory=(memory, "m d"), address=(address, "m"), erase=(erase, "d"), add=(add, "d")
    )
    if not bool(((erase >= 0) & (erase <= 1)).all()):
        raise ValueError("erase must lie between 0 and 1 in every entry")
    return memory * (1 - address[:, None] * erase) + address[:, None] * add
