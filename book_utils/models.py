r"""The two tiny learned forecasters: a one-block causal transformer and a diagonal SSM.

Both read tokens (y_t, u_t) of shape (..., T, 2) and forecast, at every token, the next observation:
shape (..., T), where entry t has seen tokens 0 … t and nothing later. First weights are drawn with
numpy, so that a seed gives the same model on every machine.

Each also has ``stacked_forward``: the same map for S models at once, whose parameters are stacked
on a leading axis. `training` uses it to fit several seeds in one go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from . import ssm
from ._validate import generator, positive_int, positive_number
from .attention import TransformerBlock, causal_mask, seeded_linear
from .positions import LearnedPositions

Seed = int | np.random.Generator
Parameters = Mapping[str, Tensor]

DECAY_MARGIN = 1e-4  # decays stay in [1e-4, 1 − 1e-4]
FIRST_GAIN = 3**-0.5  # turns `seeded_linear`'s U(±√(3/d_in)) into PyTorch's own U(±1/√d_in)


def count_parameters(model: nn.Module) -> int:
    """Count the trainable numbers in a module."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


class CausalTransformer(nn.Module):
    r"""One pre-norm transformer block over embedded tokens with learned positions.

    $$ z_t = W_\mathrm{in}[y_t; u_t] + b_\mathrm{in} + p_t, \qquad
       \hat y_{t+1} = w^\top \mathrm{Block}(z_0, \dots, z_t)_t + b $$

    It has 4d² + (2 d_ff + T_max + 13) d + d_ff + 1 parameters: 3,329 by default.

    Args:
        d: width of a token inside.
        d_ff: hidden width of the MLP.
        heads: number of attention heads; must divide d.
        T_max: longest sequence; later positions have no vector, so they are an error.
        seed: integer or numpy Generator for the first weights.
        gain: factor on the first weights of every linear layer; the default gives PyTorch's own
            distribution, U(±1/√d_in).

    Raises:
        TypeError, ValueError: a size is not an integer ≥ 1, `heads` does not divide `d`, or `gain`
            is not above zero.
    """

    def __init__(
        self,
        d: int = 16,
        d_ff: int = 48,
        heads: int = 1,
        T_max: int = 32,
        *,
        seed: Seed = 0,
        gain: float = FIRST_GAIN,
    ) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.embed = seeded_linear(2, d, seed=rng)
        self.positions = LearnedPositions(T_max, d, std=0.1, seed=rng)
        self.block = TransformerBlock(d, heads, d_ff, seed=rng)
        self.head = seeded_linear(d, 1, seed=rng)
        _scale_linear_layers(self, gain)

    def forward(
        self, tokens: Tensor, *, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Forecasts (..., T); with `return_weights` also the weights, (..., heads, T, T).

        Raises:
            TypeError: `tokens` is not a floating-point tensor of the model's dtype.
            ValueError: tokens are not (..., T, 2), or longer than T_max.
        """
        _check_tokens(tokens, self.embed.weight)
        z = self.positions(self.embed(tokens))  # (..., T, d)
        z, weights = self.block(z, causal_mask(tokens.shape[-2]).to(tokens.device))
        forecasts = self.head(z).squeeze(-1)
        return (forecasts, weights) if return_weights else forecasts

    def stacked_forward(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        """Forecasts of S models of this shape at once.

        Args:
            parameters: as from `stack_parameters`, each (S, ...).
            tokens: (S, N, T, 2), each model's own; or (N, T, 2), the same for all.

        Returns:
            Tensor (S, N, T).

        Raises:
            TypeError: `tokens` is not a floating-point tensor of the parameters' dtype.
            ValueError: tokens are not (..., N, T, 2), or longer than T_max.
        """
        p = parameters
        _check_tokens(tokens, p["embed.weight"], ndim=3)
        if tokens.shape[-2] > p["positions.table"].shape[1]:
            raise ValueError(
                f"tokens are {tokens.shape[-2]} long, but the model has only "
                f"{p['positions.table'].shape[1]} slots"
            )
        S, T, d = p["embed.weight"].shape[0], tokens.shape[-2], self.head.in_features
        heads = self.block.attention.heads
        x = tokens.expand(S, *tokens.shape[-3:])
        N = x.shape[1]

        def linear(name: str, x: Tensor) -> Tensor:  # (S, N·T, d_in) → (S, N·T, d_out)
            return torch.baddbmm(p[f"{name}.bias"].unsqueeze(1), x, p[f"{name}.weight"].mT)

        def norm(name: str, x: Tensor) -> Tensor:
            x = nn.functional.layer_norm(x, (d,))
            return torch.addcmul(
                p[f"{name}.bias"].unsqueeze(1), x, p[f"{name}.weight"].unsqueeze(1)
            )

        def heads_first(x: Tensor) -> Tensor:  # (S, N·T, d) → (S·N·heads, T, d/heads)
            x = x.reshape(S * N, T, heads, d // heads)
            return x.transpose(1, 2).reshape(S * N * heads, T, d // heads)

        z = linear("embed", x.reshape(S, N * T, 2)).view(S, N, T, d)
        z = (z + p["positions.table"][:, None, :T]).view(S, N * T, d)
        normed = norm("block.norm_attention", z)
        q, k, v = (
            heads_first(linear(f"block.attention.{part}", normed))
            for part in ("query", "key", "value")
        )
        allowed = causal_mask(T).to(tokens.device)
        barrier = torch.zeros(T, T, dtype=z.dtype, device=z.device).masked_fill(~allowed, -math.inf)
        scores = torch.baddbmm(barrier, q, k.mT, alpha=1 / math.sqrt(d // heads))
        mixed = (scores.softmax(dim=-1) @ v).view(S * N, heads, T, d // heads)
        mixed = mixed.transpose(1, 2).reshape(S, N * T, d)
        z = z + linear("block.attention.output", mixed)
        hidden = nn.functional.gelu(linear("block.mlp.0", norm("block.norm_mlp", z)))
        return linear("head", z + linear("block.mlp.2", hidden)).view(S, N, T)


class DiagonalSSM(nn.Module):
    r"""A diagonal state-space layer with real decays between an embedding and a linear head.

    $$ e_t = W_\mathrm{in}[y_t; u_t] + b_\mathrm{in}, \qquad
       h_t = a \odot h_{t-1} + B e_t + b_B, \qquad h_{-1} = 0, $$
    $$ \hat y_{t+1} = w^\top (C h_t + b_C + D \odot e_t) + b, \qquad
       a = \mathrm{clip}(\sigma(\theta), 10^{-4}, 1 - 10^{-4}) $$

    Nothing here depends on the input except through the state: B and C are fixed, and the whole map
    is affine in the tokens. It has 2nd + 2n + 6d + 1 parameters: 1,185 by default.

    Args:
        d: width of a token inside.
        n: number of state channels.
        seed: integer or numpy Generator for the first weights.
        gain: as for `CausalTransformer`.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1, or `gain` is not above zero.
    """

    def __init__(
        self, d: int = 16, n: int = 32, *, seed: Seed = 0, gain: float = FIRST_GAIN
    ) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.embed = seeded_linear(2, d, seed=rng)
        first = np.linspace(0.05, 0.95, positive_int("n", n) + 2)[1:-1]
        self.decay_logits = nn.Parameter(_tensor(np.log(first / (1 - first))))
        self.B = seeded_linear(d, n, seed=rng)
        self.C = seeded_linear(n, d, seed=rng)
        self.skip = nn.Parameter(_tensor(rng.standard_normal(d) / math.sqrt(d)))
        self.head = seeded_linear(d, 1, seed=rng)
        _scale_linear_layers(self, gain)

    @property
    def decays(self) -> Tensor:
        """The multipliers a, (n,)."""
        return clamped_decays(self.decay_logits)

    def forward(self, tokens: Tensor) -> Tensor:
        """Forecasts (..., T), by running the state over the tokens (all states in one scan).

        Raises:
            TypeError: `tokens` is not a floating-point tensor of the model's dtype.
            ValueError: tokens are not (..., T, 2) or not finite.
        """
        _check_tokens(tokens, self.embed.weight)
        e = self.embed(tokens)  # (..., T, d)
        h = ssm.scan(self.decays, self.B(e))  # (..., T, n)
        return self.head(self.C(h) + self.skip * e).squeeze(-1)

    def step(self, h: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        """Advance by one token, at a cost that does not depend on how many came before.

        Args:
            h: state, (..., n); zeros at the start.
            token: (..., 2).

        Returns:
            (new state (..., n), forecast (...)).
        """
        e = self.embed(token)
        h = self.decays * h + self.B(e)
        return h, self.head(self.C(h) + self.skip * e).squeeze(-1)

    def stacked_forward(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        r"""Forecasts of S models of this shape at once, each whole model folded into one kernel.

        The map is affine and time-invariant, so with $g = w^\top$ in front of everything

        $$ \hat y_{t+1} = \sum_{k=0}^{t} K_k x_{t-k} + c_t, \qquad
           K_k = g\,(C\,\mathrm{diag}(a^k) B + [k = 0]\,\mathrm{diag}(D))\,W_\mathrm{in}, $$

        with c_t the response to the biases. Arguments, result and errors as for
        `CausalTransformer.stacked_forward`, but for the length.
        """
        _check_tokens(tokens, parameters["embed.weight"], ndim=3)
        kernel, offset = _folded(parameters, tokens.shape[-2])
        T = kernel.shape[1]
        t = torch.arange(T, device=tokens.device)
        lag = t[:, None] - t  # row t, column j
        toeplitz = kernel[:, lag.clamp(min=0)] * (lag >= 0).unsqueeze(-1)  # (S, T, T, 2)
        toeplitz = toeplitz.flatten(2).mT  # (S, 2T, T)
        x = tokens.flatten(-2).expand(len(kernel), *tokens.shape[-3:-2], 2 * T)
        return torch.baddbmm(offset.unsqueeze(1), x, toeplitz)


def _folded(p: Parameters, T: int) -> tuple[Tensor, Tensor]:
    """Kernel (S, T, 2) and bias response (S, T) of stacked `DiagonalSSM` parameters."""
    decays = clamped_decays(p["decay_logits"])  # (S, n)
    lags = torch.arange(T, dtype=decays.dtype, device=decays.device)
    powers = decays.unsqueeze(1) ** lags.unsqueeze(-1)  # (S, T, n)
    head = p["head.weight"]  # (S, 1, d)
    read = powers * (head @ p["C.weight"])  # (S, T, n)
    into_state = read @ p["B.weight"]  # (S, T, d): response to the embedding k tokens ago
    skip = head.squeeze(1) * p["skip"]  # (S, d)
    now = torch.cat([skip.unsqueeze(1), torch.zeros_like(into_state[:, 1:])], dim=1)
    by_lag = into_state + now
    kernel = by_lag @ p["embed.weight"]
    from_biases = (by_lag @ p["embed.bias"].unsqueeze(-1) + read @ p["B.bias"].unsqueeze(-1))[
        ..., 0
    ]
    always = (head @ p["C.bias"].unsqueeze(-1)).squeeze(1) + p["head.bias"]  # (S, 1)
    return kernel, from_biases.cumsum(dim=1) + always


# The forecasters that chapter 7 compares, by name: from a seed to a model.
FORECASTERS: dict[str, Callable[[int], nn.Module]] = {
    "transformer": lambda seed: CausalTransformer(seed=seed),
    "SSM": lambda seed: DiagonalSSM(seed=seed),
    "small transformer": lambda seed: CausalTransformer(d=8, d_ff=34, seed=seed),
    "large SSM": lambda seed: DiagonalSSM(n=95, seed=seed),
}


def clamped_decays(logits: Tensor) -> Tensor:
    r"""Decays $a = \mathrm{clip}(\sigma(\theta), 10^{-4}, 1-10^{-4})$, entry by entry.

    The clamp bounds the memory: $|h| \le 10^4 \max|b|$, a time constant of at most 9,999 tokens.
    It needs a dtype that can tell 1 − 10⁻⁴ from 1; where it acts, the gradient is zero.

    Args:
        logits: θ, any shape, float32 or float64.

    Raises:
        TypeError: the dtype is not floating-point.
        ValueError: the dtype is so coarse that 1 − 10⁻⁴ rounds to 1 (float16 and bfloat16).
    """
    if not isinstance(logits, Tensor) or not logits.dtype.is_floating_point:
        raise TypeError("logits must be a floating-point tensor")
    if torch.finfo(logits.dtype).eps > DECAY_MARGIN:
        raise ValueError(
            f"decays need float32 or finer: in {logits.dtype} 1 − {DECAY_MARGIN:g} rounds to 1"
        )
    return torch.sigmoid(logits).clamp(DECAY_MARGIN, 1 - DECAY_MARGIN)


def stack_parameters(models: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Detached copies of the parameters of models of one shape, stacked on a new leading axis.

    Raises:
        ValueError: no model, or models whose classes, names, shapes, dtypes or settings (such as
            the number of heads) differ.
    """
    if not models:
        raise ValueError("models must hold at least one model, got none")
    builds = [_build(m) for m in models]
    if any(build != builds[0] for build in builds):
        raise ValueError(
            "models must all be of one class and one size, with the same settings, to be stacked"
        )
    named = [dict(m.named_parameters()) for m in models]
    return {k: torch.stack([p[k].detach() for p in named]) for k in named[0]}


def _build(model: nn.Module) -> tuple[object, ...]:
    """All that two models must share to be stacked: classes, settings, shapes and dtypes."""
    parts = [
        (type(m), {k: v for k, v in vars(m).items() if k[0] != "_" and _is_setting(k, v)})
        for m in model.modules()
    ]
    return parts, {k: (tuple(p.shape), p.dtype) for k, p in model.named_parameters()}


def _is_setting(name: str, value: object) -> bool:
    return name != "training" and isinstance(value, int | float | str | tuple)


@torch.no_grad()
def unstack_parameters(parameters: Parameters, models: Sequence[nn.Module]) -> None:
    """Copy stacked parameters back into the models that they came from, in order."""
    for i, model in enumerate(models):
        for name, own in model.named_parameters():
            own.copy_(parameters[name][i])


@torch.no_grad()
def _scale_linear_layers(model: nn.Module, gain: float) -> None:
    positive_number("gain", gain)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.mul_(gain)


def _check_tokens(tokens: Tensor, weight: Tensor, *, ndim: int = 2) -> None:
    """Check tokens (..., T, 2), of at least `ndim` axes, for a model with such weights."""
    if not isinstance(tokens, Tensor) or not tokens.dtype.is_floating_point:
        got = getattr(tokens, "dtype", type(tokens).__name__)
        raise TypeError(f"tokens must be a floating-point torch tensor, got {got}")
    if tokens.ndim < ndim or tokens.shape[-1] != 2 or tokens.shape[-2] == 0:
        shape = "(..., T, 2)" if ndim == 2 else "(..., N, T, 2)"
        raise ValueError(f"tokens must have shape {shape}, got {tuple(tokens.shape)}")
    if tokens.dtype != weight.dtype:
        raise TypeError(f"tokens must have the model's dtype {weight.dtype}, got {tokens.dtype}")


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values)).to(torch.get_default_dtype())
