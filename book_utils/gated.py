r"""RG-LRU: the gated linear recurrence of Griffin and Hawk (De et al. 2024)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from . import ssm
from ._shapes import check_arrays
from ._validate import generator, positive_int
from .attention import Seed, seeded_linear

SHARPNESS = 8.0  # the constant c of the paper


def rg_lru_multipliers(rate: Tensor, recurrence_gate: Tensor) -> tuple[Tensor, Tensor]:
    r"""Multiplier and input scale of every token.

    $$ \ln a_t = c\,r_t \ln \sigma(\Lambda), \qquad s_t = \sqrt{1 - a_t^2}, \qquad c = 8 $$

    A gate of 0 keeps everything (a = 1, s = 0), a gate of 1 decays by $\sigma(\Lambda)^8$. With
    $a^2 + s^2 = 1$ a state of variance 1 that is fed independent inputs of variance 1 keeps
    variance 1, at any gate. s is computed as $\sqrt{-\mathrm{expm1}(2\ln a)}$: 1 − a² would lose
    its digits where a is close to 1.

    Args:
        rate: Λ, (D,).
        recurrence_gate: r, (..., T, D), between 0 and 1.

    Returns:
        (a, s), both (..., T, D).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", rate=(rate, "D"), recurrence_gate=(recurrence_gate, "... T D"))
    if not bool(((recurrence_gate >= 0) & (recurrence_gate <= 1)).all()):
        raise ValueError("recurrence_gate must lie between 0 and 1 (apply a sigmoid first)")
    log_a = SHARPNESS * recurrence_gate * functional.logsigmoid(rate)
    return log_a.exp(), (-torch.expm1(2 * log_a)).sqrt()


def rg_lru(x: Tensor, rate: Tensor, recurrence_gate: Tensor, input_gate: Tensor) -> Tensor:
    r"""States of the real-gated linear recurrent unit, all tokens at once by a scan.

    $$ h_t = a_t \odot h_{t-1} + \sqrt{1 - a_t^2} \odot (i_t \odot x_t) $$

    Both gates come from the token alone, never from $h_{t-1}$: that keeps the update affine in h,
    and a scan possible.

    Args:
        x: (..., T, D).
        rate: Λ, (D,).
        recurrence_gate, input_gate: r and i, (..., T, D), between 0 and 1.

    Returns:
        h, (..., T, D).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    a, write = _updates(x, rate, recurrence_gate, input_gate)
    return ssm.scan(a, write)


def rg_lru_loop(x: Tensor, rate: Tensor, recurrence_gate: Tensor, input_gate: Tensor) -> Tensor:
    """Compute `rg_lru` token by token. Arguments, result and errors are the same."""
    a, write = _updates(x, rate, recurrence_gate, input_gate)
    h, states = torch.zeros_like(write[..., 0, :]), []
    for t in range(x.shape[-2]):
        h = a[..., t, :] * h + write[..., t, :]
        states.append(h)
    return torch.stack(states, dim=-2)


class RGLRU(nn.Module):
    r"""The layer: gates $r_t = \sigma(W_r x_t + b_r)$, $i_t = \sigma(W_i x_t + b_i)$, then `rg_lru`.

    Λ starts such that $\sigma(\Lambda)^8$ is uniform between 0.9 and 0.999, as in the paper.

    Args:
        width: D.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: `width` is not an integer of at least 1.
    """

    def __init__(self, width: int, *, seed: Seed = 0) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.recurrence_gate = seeded_linear(positive_int("width", width), width, seed=rng)
        self.input_gate = seeded_linear(width, width, seed=rng)
        base = rng.uniform(0.9, 0.999, width) ** (1 / SHARPNESS)
        rate = torch.from_numpy(np.log(base) - np.log1p(-base))
        self.rate = nn.Parameter(rate.to(torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (..., T, D) in, states (..., T, D) out."""
        gates = torch.sigmoid(self.recurrence_gate(x)), torch.sigmoid(self.input_gate(x))
        return rg_lru(x, self.rate, *gates)


def _updates(
    x: Tensor, rate: Tensor, recurrence_gate: Tensor, input_gate: Tensor
) -> tuple[Tensor, Tensor]:
    check_arrays(
        "torch",
        x=(x, "... T D"),
        rate=(rate, "D"),
        recurrence_gate=(recurrence_gate, "... T D"),
        input_gate=(input_gate, "... T D"),
    )
    a, scale = rg_lru_multipliers(rate, recurrence_gate)
    return a, scale * (input_gate * x)
