r"""Rollouts of trained forecasters that do each token's work once.

`evaluation.open_loop_rollout` shows a forecaster its whole history at every step: the work of a
rollout over T tokens grows with T² for an SSM and with T³ for attention. Here a *decoder* keeps
what it needs of the past: an SSM its state, a transformer the keys and values of all tokens (a
KV cache). A step then costs the same however long the past is, or grows with T for attention.
All S models of a `Forecaster` step together. The forecasts are those of the plain loop, up to
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ._validate import finite, positive_int
from .evaluation import Forecaster, open_loop_rollout
from .models import (
    CausalTransformer,
    ComplexSSM,
    DiagonalSSM,
    Parameters,
    clamped_decays,
    pairs_as_complex,
    stacked_linear,
    stacked_mlp,
    stacked_norm,
)
from .systems import Floats

Step = Callable[[Tensor], Tensor]  # the next token, (S, N, 2) → its forecast, (S, N)


def decoder(model: nn.Module, parameters: Parameters, N: int, T: int) -> Step | None:
    """What reads one token after another for S stacked models, or None for an unknown class.

    Args:
        model: says the class and its settings.
        parameters: as from `stack_parameters`, each (S, ...).
        N: how many sequences each model reads.
        T: how many tokens will come at most.

    Returns:
        A function that must be given the tokens in order: (S, N, 2) → forecasts (S, N).

    Raises:
        ValueError: the model has no position for the last of T tokens.
    """
    routes = {DiagonalSSM: _recurrent, ComplexSSM: _recurrent, CausalTransformer: _cached}
    route = routes.get(type(model))  # not for a subclass, which may compute something else
    return None if route is None else route(model, parameters, N, T)


def _recurrent(model: nn.Module, p: Parameters, N: int, T: int) -> Step:
    r"""The recurrence $h_t = a \odot h_{t-1} + B e_t + b_B$, real or in conjugate pairs."""
    decays = clamped_decays(p["decay_logits"]).unsqueeze(1)  # (S, 1, n), or (S, 1, n/2)
    pairs = isinstance(model, ComplexSSM)
    a = torch.polar(decays, p["angles"].unsqueeze(1)) if pairs else decays
    h = a.new_zeros(len(a), N, a.shape[-1])

    def step(token: Tensor) -> Tensor:
        nonlocal h
        e = stacked_linear(p, "embed", token)  # (S, N, d)
        write = stacked_linear(p, "B", e)  # (S, N, n)
        h = a * h + (pairs_as_complex(write) if pairs else write)
        state = torch.view_as_real(h).flatten(-2) if pairs else h
        o = stacked_linear(p, "C", state) + p["skip"].unsqueeze(1) * e
        if "mlp.0.weight" in p:
            o = o + stacked_mlp(p, "mlp", o)
        return stacked_linear(p, "head", o).squeeze(-1)

    return step


def _cached(model: nn.Module, p: Parameters, N: int, T: int) -> Step:
    """One query against the keys and values of all tokens so far."""
    (S, d), slots, heads = p["embed.bias"].shape, p["positions.table"].shape[1], _heads(model)
    if slots < T:
        raise ValueError(f"tokens are {T} long, but the model has only {slots} slots")
    keys, values = (p["embed.bias"].new_empty(S, N, heads, T, d // heads) for _ in "kv")
    t = -1

    def step(token: Tensor) -> Tensor:
        nonlocal t
        t += 1
        z = stacked_linear(p, "embed", token) + p["positions.table"][:, None, t]  # (S, N, d)
        normed = stacked_norm(p, "block.norm_attention", z)
        q, keys[..., t, :], values[..., t, :] = (
            stacked_linear(p, f"block.attention.{part}", normed).view(S, N, heads, d // heads)
            for part in ("query", "key", "value")
        )
        scores = keys[..., : t + 1, :] @ q.unsqueeze(-1) / math.sqrt(d // heads)
        mixed = (scores.softmax(dim=-2) * values[..., : t + 1, :]).sum(dim=-2)  # (S, N, heads, ·)
        z = z + stacked_linear(p, "block.attention.output", mixed.reshape(S, N, d))
        z = z + stacked_mlp(p, "block.mlp", stacked_norm(p, "block.norm_mlp", z))
        return stacked_linear(p, "head", z).squeeze(-1)

    return step


@torch.no_grad()
def rollout(forecaster: Forecaster, tokens: Any, warm: int = 1) -> Floats:
    r"""`evaluation.open_loop_rollout` of all models of a `Forecaster`, a token at a time.

    Genuine tokens are read up to slot `warm`; from there the decoder reads $(\hat y_t, u_t)$.
    Classes without a `decoder` go through the plain loop.

    Args:
        forecaster: of S models.
        tokens: (N, T, 2), shared by all models; or (S, N, T, 2), each model's own.
        warm: w, how many genuine observations are seen, 0 … T−1.

    Returns:
        Forecasts (S, N, T−w) of $y_{w+1}, \dots, y_T$.

    Raises:
        TypeError, ValueError: as for `open_loop_rollout`, or tokens of another shape.
    """
    p, S = forecaster.parameters, forecaster.size
    x = forecaster.tensor(tokens)
    x = x.expand(S, *x.shape[-3:])
    T, warm = x.shape[2], positive_int("warm", warm, minimum=0)
    if warm >= T:
        raise ValueError(f"warm must be below the number of tokens {T}, got {warm}")
    if decoder(forecaster.model, p, 1, 1) is None:
        return open_loop_rollout(forecaster, x.double().cpu().numpy(), warm)
    parts = [
        _roll(decoder(forecaster.model, p, part.shape[1], T), part, warm)  # type: ignore[arg-type]
        for part in x.split(forecaster.chunk, dim=1)
    ]
    return finite("the forecasts", torch.cat(parts, dim=1)).double().cpu().numpy()


def _roll(step: Step, x: Tensor, warm: int) -> Tensor:
    forecasts: list[Tensor] = []
    for t in range(x.shape[2]):
        token = x[:, :, t]
        if t > warm:
            token = torch.stack([forecasts[-1], token[..., 1]], dim=-1)
        forecasts.append(step(token))
    return torch.stack(forecasts[warm:], dim=-1)


def _heads(model: Any) -> int:
    return model.block.attention.heads
