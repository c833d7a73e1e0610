r"""Position signals: sinusoidal, learned and rotary.

Attention without a mask treats its tokens as a set. These three ways tell it where a token stands:
the first two are *added* to the token, $z_t = x_t + p_t$; the third turns queries and keys inside
attention and adds nothing.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ._validate import finite, finite_number, generator, min_ndim, positive_int, positive_number


def frequencies(d: int, *, base: float = 10_000.0) -> Tensor:
    r"""Angular frequencies of the d/2 pairs of coordinates, in radians per position.

    $$ \omega_i = \text{base}^{-2i/d}, \qquad i = 0, \dots, d/2 - 1 $$

    Args:
        d: width, even.
        base: the slowest pair turns almost `base` times slower than the first (Vaswani et al. 2017,
            section 3.5, and Su et al. 2021 use 10 000).

    Returns:
        Tensor (d/2,), float64, falling from 1.

    Raises:
        TypeError, ValueError: `d` is not an even integer ≥ 2, `base` is not above zero, or so small
            that a frequency overflows.
    """
    if positive_int("d", d, minimum=2) % 2:
        raise ValueError(f"d must be even (coordinates come in pairs), got {d}")
    exponents = torch.arange(0, d, 2, dtype=torch.float64) / d
    omega = positive_number("base", base) ** -exponents
    if not bool(omega.isfinite().all()):
        raise ValueError(f"base is {base}, so small that a frequency overflows")
    return omega


def sinusoidal_positions(
    T: int, d: int, *, base: float = 10_000.0, dtype: torch.dtype | None = None
) -> Tensor:
    r"""Tabulate fixed position vectors (Vaswani et al. 2017, section 3.5).

    $$ p_{t,2i} = \sin(\omega_i t), \qquad p_{t,2i+1} = \cos(\omega_i t), \qquad 0 \le t < T $$

    The inner product of two of them, $\sum_i \cos(\omega_i(s - t))$, depends on the offset alone.
    The angles are computed in float64 and rounded once, so late positions keep their accuracy.

    Args:
        T: number of positions.
        d: width, even.
        base: see `frequencies`.
        dtype: of the result; torch's default when None.

    Returns:
        Tensor (T, d).

    Raises:
        TypeError, ValueError: `T`, `d`, `base` or `dtype` is not as stated.
    """
    dtype = dtype or torch.get_default_dtype()
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point torch dtype, got {dtype}")
    t = torch.arange(positive_int("T", T), dtype=torch.float64)
    angles = _angles(t, frequencies(d, base=base))  # (T, d/2)
    table = torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)  # pairs interleaved
    return table.to(dtype)


class LearnedPositions(nn.Module):
    r"""One trainable vector for each of T_max slots, added to the tokens: $z_t = x_t + p_t$.

    It has T_max·d parameters and says nothing about slots it has not seen: a longer sequence is an
    error, not an extrapolation.

    Args:
        T_max: number of slots.
        d: width of a token.
        std: standard deviation of the first values.
        seed: integer or numpy Generator for the first values.

    Raises:
        TypeError, ValueError: a size is not an integer ≥ 1, or `std` is not above zero.
    """

    def __init__(
        self, T_max: int, d: int, *, std: float = 0.02, seed: int | np.random.Generator = 0
    ) -> None:
        super().__init__()
        shape = (positive_int("T_max", T_max), positive_int("d", d))
        draw = generator("seed", seed).normal(0.0, positive_number("std", std), shape)
        self.table = nn.Parameter(torch.from_numpy(draw).to(torch.get_default_dtype()))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Tokens (..., T, d) that begin at slot `start`, plus their slots' vectors.

        Raises:
            TypeError: `x` is not a tensor, or `start` not an integer.
            ValueError: the width is not d, or the sequence runs past the last slot.
        """
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, got {_kind(x)}")
        min_ndim("x", x, 2, "(..., T, d)")
        T_max, d = self.table.shape
        stop = positive_int("start", start, minimum=0) + x.shape[-2]
        if x.shape[-1] != d:
            raise ValueError(f"x must have width {d}, got {x.shape[-1]}")
        if stop > T_max:
            raise ValueError(f"x needs slots {start} … {stop - 1}, but only {T_max} were made")
        return x + self.table[start:stop]


def rotary(x: Tensor, positions: Tensor | None = None, *, base: float = 10_000.0) -> Tensor:
    r"""Turn each pair of coordinates by an angle that grows with the position (Su et al. 2021).

    $$ \begin{pmatrix} x'_{2i} \\ x'_{2i+1} \end{pmatrix} =
       \begin{pmatrix} \cos\omega_i t & -\sin\omega_i t \\ \sin\omega_i t & \cos\omega_i t
       \end{pmatrix} \begin{pmatrix} x_{2i} \\ x_{2i+1} \end{pmatrix} $$

    Apply it to queries and to keys, never to values. With $R_t$ the rotation at position t,
    $(R_s q)^\top(R_t k) = q^\top R_{t-s} k$: the score depends on the offset t − s alone. Lengths
    do not change. Neighbouring coordinates form a pair here; some libraries pair i with i + d/2,
    which is the same up to a fixed reordering of the columns.

    Args:
        x: queries or keys, (..., T, d), d even.
        positions: (T,) real numbers; 0, …, T − 1 when None. Times in seconds work as well.
        base: see `frequencies`.

    Returns:
        Tensor of the shape and dtype of `x`.

    Raises:
        TypeError: `x` is not a floating-point tensor, or `positions` is not a real tensor.
        ValueError: d is odd, `positions` is not (T,), an entry is not finite, or an angle overflows.
    """
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        raise TypeError(f"x must be a floating-point torch tensor, got {_kind(x)}")
    min_ndim("x", x, 2, "(..., T, d)")
    finite("x", x)
    angles = _angles(_positions(positions, x.shape[-2]), frequencies(x.shape[-1], base=base))
    cos, sin = angles.cos().to(x), angles.sin().to(x)  # (T, d/2)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2)


def rotation_matrix(offset: float, d: int, *, base: float = 10_000.0) -> Tensor:
    r"""Write the block-diagonal $R_t$ of `rotary` out in full, for one position t = `offset`.

    The sinusoidal vectors use it too: $p_{t+k} = R_k^\top p_t$, since their pairs are (sin, cos).

    Returns:
        Tensor (d, d), float64, orthogonal: $R_s^\top R_t = R_{t-s}$.

    Raises:
        TypeError, ValueError: `d` is not an even integer ≥ 2, `offset` or `base` is not finite, or
            an angle overflows.
    """
    position = torch.tensor([finite_number("offset", offset)], dtype=torch.float64)
    angles = _angles(position, frequencies(d, base=base))[0]
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    return torch.block_diag(*blocks)


def _angles(positions: Tensor, omega: Tensor) -> Tensor:
    """ω_i t for positions (T,) and frequencies (d/2,): (T, d/2)."""
    return finite("the angles, positions times frequencies,", positions[:, None] * omega)


def _positions(positions: Tensor | None, T: int) -> Tensor:
    if positions is None:
        return torch.arange(T, dtype=torch.float64)
    if not isinstance(positions, Tensor) or positions.is_complex():
        raise TypeError(f"positions must be a torch tensor of reals, got {_kind(positions)}")
    if positions.shape != (T,):
        raise ValueError(f"positions must have shape ({T},), got {tuple(positions.shape)}")
    return finite("positions", positions.double())


def _kind(x: object) -> str:
    return str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
