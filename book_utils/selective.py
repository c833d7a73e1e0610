r"""Selective state-space models: coefficients that depend on the token (Mamba's recurrence, S6).

For every channel d = 1 … D with state size N, a scalar input $x_t$ of that channel and a step
$\Delta_t > 0$,

$$ h_t = e^{\Delta_t A} \odot h_{t-1} + \bar B_t\,x_t, \qquad y_t = C_t^\top h_t. $$

$\Delta_t$ (one a channel), $B_t$ and $C_t$ (shared by the channels) are computed from token t;
A < 0 is a parameter that no token changes. Given the coefficients the update is affine in h, so
the scan of `ssm.scan` applies.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from . import ssm
from ._shapes import check_arrays
from ._validate import generator, one_of, positive_int

Seed = int | np.random.Generator
WRITES = ("euler", "zoh")


def selective_coefficients(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, *, write: str = "euler"
) -> tuple[Tensor, Tensor]:
    r"""Multipliers and writes of every token: $h_t = a_t \odot h_{t-1} + w_t$.

    $$ a_t = e^{\Delta_t A}, \qquad w_t = \begin{cases} \Delta_t\,B_t\,x_t & \text{euler} \\
       \Delta_t\,\varphi_1(\Delta_t A)\,B_t\,x_t & \text{zoh} \end{cases} $$

    "zoh" is the rule that the Mamba paper prints, "euler" the one that its code computes.

    Args:
        x: inputs, (..., T, D).
        dt: steps, (..., T, D), above zero.
        A: (D, N), below zero.
        B: (..., T, N).
        write: "euler" or "zoh".

    Returns:
        (a, w), both (..., T, D, N).

    Raises:
        TypeError: arguments are not floating-point tensors of one dtype.
        ValueError: shapes do not fit, entries are not finite, a step is not above zero, an entry of
            A is not below zero, or `write` is another.
    """
    check_arrays("torch", x=(x, "... T D"), dt=(dt, "... T D"), A=(A, "D N"), B=(B, "... T N"))
    if not bool((dt > 0).all()):
        raise ValueError(f"dt must be above zero, got a smallest entry of {dt.min().item()}")
    if not bool((A < 0).all()):
        raise ValueError(f"A must be below zero, got a largest entry of {A.max().item()}")
    z = dt[..., None] * A  # (..., T, D, N)
    w = (dt * x)[..., None] * B[..., None, :]
    if one_of("write", write, WRITES) == "zoh":
        w = w * ssm.phi1(z)
    return z.exp(), w


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, *, write: str = "euler"
) -> Tensor:
    r"""Outputs $y_t = C_t^\top h_t$ of the selective recurrence, all tokens at once by a scan.

    Args:
        x, dt, A, B, write: as in `selective_coefficients`.
        C: (..., T, N).

    Returns:
        y, (..., T, D).

    Raises:
        TypeError, ValueError: as for `selective_coefficients`.
    """
    check_arrays("torch", B=(B, "... T N"), C=(C, "... T N"))
    a, w = selective_coefficients(x, dt, A, B, write=write)
    states = ssm.scan(a.flatten(-2), w.flatten(-2)).unflatten(-1, A.shape)
    return (states * C[..., None, :]).sum(-1)


def selective_loop(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, *, write: str = "euler"
) -> Tensor:
    """Compute `selective_scan` token by token, with one state of D·N numbers and nothing else.

    Arguments, result and errors are those of `selective_scan`.
    """
    check_arrays("torch", B=(B, "... T N"), C=(C, "... T N"))
    a, w = selective_coefficients(x, dt, A, B, write=write)
    h, outputs = torch.zeros_like(w[..., 0, :, :]), []
    for t in range(x.shape[-2]):
        h = a[..., t, :, :] * h + w[..., t, :, :]
        outputs.append((h * C[..., t, None, :]).sum(-1))
    return torch.stack(outputs, dim=-2)


class SelectiveSSM(nn.Module):
    r"""Layer of `width` channels with `states` states each, selective or fixed; many copies at once.

    Selective: $\Delta_t = \mathrm{softplus}(W_\Delta x_t + b_\Delta)$, $B_t = W_B x_t$,
    $C_t = W_C x_t$, and $A_{dn} = -n$ at the start (Mamba's S4D-Real). Fixed: the same recurrence
    with Δ, B and C learned constants. Both add a skip $D \odot x_t$.

    Args:
        width: channels D.
        states: states a channel, N.
        selective: whether Δ, B and C depend on the token.
        copies: independent layers that are run side by side (for several seeds at once).
        step: Δ at the start, for an average token.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1.
    """

    def __init__(
        self,
        width: int,
        states: int,
        *,
        selective: bool = True,
        copies: int = 1,
        step: float = 0.1,
        seed: Seed = 0,
    ) -> None:
        super().__init__()
        D, N, S = (
            positive_int(name, value)
            for name, value in (("width", width), ("states", states), ("copies", copies))
        )
        rng, self.selective = generator("seed", seed), selective

        def weights(*shape: int) -> nn.Parameter:
            draw = rng.normal(0.0, 1 / math.sqrt(D), (S, *shape))
            return nn.Parameter(torch.from_numpy(draw).to(torch.get_default_dtype()))

        log_rates = torch.arange(1, N + 1).to(torch.get_default_dtype()).log()
        self.log_rate = nn.Parameter(log_rates.expand(S, D, N).clone())
        self.step_bias = nn.Parameter(torch.full((S, 1, 1, D), math.log(math.expm1(step))))
        self.skip = nn.Parameter(torch.ones(S, 1, 1, D))
        if selective:
            self.to_step, self.to_B, self.to_C = weights(D, D), weights(D, N), weights(D, N)
        else:
            self.B, self.C = weights(1, 1, N), weights(1, D, N)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Steps (copies, batch, T, D), and B and C, for tokens x (copies, batch, T, D)."""
        if not self.selective:
            return functional.softplus(self.step_bias).expand(x.shape), self.B, self.C
        dt = functional.softplus(x @ self.to_step[:, None] + self.step_bias)
        return dt, x @ self.to_B[:, None], x @ self.to_C[:, None]

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (copies, batch, T, D) in, tokens of the same shape out.

        Raises:
            TypeError: `x` is not a floating-point tensor.
            ValueError: `x` does not have the shape (copies, batch, T, D).
        """
        check_arrays("torch", x=(x, "S M T D"), log_rate=(self.log_rate, "S D N"))
        dt, B, C = self.coefficients(x)
        a = (dt[..., None] * -self.log_rate.exp()[:, None, None]).exp()  # (S, M, T, D, N)
        w = (dt * x)[..., None] * B[..., None, :]
        h, states = torch.zeros_like(w[:, :, 0]), []
        for a_t, w_t in zip(a.unbind(2), w.unbind(2), strict=True):
            h = a_t * h + w_t
            states.append(h)
        read = C[..., None, :] if self.selective else C[:, :, None]
        return (torch.stack(states, 2) * read).sum(-1) + self.skip * x


def superposition_gap(layer: object, u: Tensor, v: Tensor) -> float:
    r"""Largest $\lvert L(u + v) - L(u) - L(v)\rvert$, relative to the largest $\lvert L(u+v)\rvert$.

    Zero, up to rounding, for every linear layer and hence for every one that has a kernel.

    Args:
        layer: map from a tensor to a tensor.
        u, v: two inputs of one shape.

    Raises:
        TypeError: `layer` is not callable.
        ValueError: the shapes of `u` and `v` differ, or the response to u + v is zero.
    """
    if not callable(layer):
        raise TypeError(f"layer must be a function, got {type(layer).__name__}")
    if u.shape != v.shape:
        raise ValueError(f"u and v must share a shape, got {tuple(u.shape)} and {tuple(v.shape)}")
    together = layer(u + v)
    size = together.abs().max().item()
    if size == 0:
        raise ValueError("the response to u + v is zero, so there is nothing to compare with")
    return (together - layer(u) - layer(v)).abs().max().item() / size


def selective_copying(
    batch: int, length: int, symbols: int, seed: Seed, *, kinds: int = 4
) -> tuple[Tensor, Tensor]:
    """Sequences of blanks with a few symbols at random places, to be repeated at the end.

    Token 0 is a blank, 1 … kinds are symbols, kinds + 1 asks for the next symbol. A sequence has
    `length` tokens with `symbols` symbols among them, then `symbols` requests. (After the task of
    Gu & Dao 2023, section 4.1.1.)

    Args:
        batch: number of sequences.
        length: tokens before the requests.
        symbols: how many are to be remembered, at most `length`.
        seed: integer or numpy Generator.
        kinds: how many different symbols there are.

    Returns:
        (tokens, answers): integers (batch, length + symbols) and (batch, symbols); answers are
        symbols counted from 0.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1, or symbols > length.
    """
    rng = generator("seed", seed)
    for name, value in (("batch", batch), ("symbols", symbols), ("kinds", kinds)):
        positive_int(name, value)
    positive_int("length", length, minimum=symbols)
    order = rng.permuted(np.tile(np.arange(length), (batch, 1)), axis=1)
    places = np.sort(order[:, :symbols], axis=1)
    answers = rng.integers(kinds, size=(batch, symbols))
    tokens = np.zeros((batch, length + symbols), dtype=np.int64)
    np.put_along_axis(tokens, places, answers + 1, axis=1)
    tokens[:, length:] = kinds + 1
    return torch.from_numpy(tokens), torch.from_numpy(answers)
