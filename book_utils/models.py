r"""The tiny learned forecasters: a one-block causal transformer and diagonal SSMs, real and complex.

Both read tokens (y_t, u_t) of shape (..., T, 2) and forecast, at every token, the next observation:
shape (..., T), where entry t has seen tokens 0 … t and nothing later. First weights are drawn with
numpy, so that a seed gives the same model on every machine.

Each also has ``stacked_forward``: the same map for S models at once, whose parameters are stacked
on a leading axis. `training` uses it to fit several seeds in one go.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
        z, weights = self._read(tokens)
        forecasts = self.head(z).squeeze(-1)
        return (forecasts, weights) if return_weights else forecasts

    def features(self, tokens: Tensor) -> Tensor:
        """What the head reads at each token, (..., T, d). Errors as for `forward`."""
        return self._read(tokens)[0]

    def _read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        _check_tokens(tokens, self.embed.weight)
        z = self.positions(self.embed(tokens))  # (..., T, d)
        z, weights = self.block(z, causal_mask(tokens.shape[-2]).to(tokens.device))
        return z, weights

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

        linear = functools.partial(stacked_linear, p)

        def heads_first(x: Tensor) -> Tensor:  # (S, N·T, d) → (S·N·heads, T, d/heads)
            x = x.reshape(S * N, T, heads, d // heads)
            return x.transpose(1, 2).reshape(S * N * heads, T, d // heads)

        z = linear("embed", x.reshape(S, N * T, 2)).view(S, N, T, d)
        z = (z + p["positions.table"][:, None, :T]).view(S, N * T, d)
        normed = stacked_norm(p, "block.norm_attention", z)
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
        z = z + stacked_mlp(p, "block.mlp", stacked_norm(p, "block.norm_mlp", z))
        return linear("head", z).view(S, N, T)


class DiagonalSSM(nn.Module):
    r"""A diagonal state-space layer with real decays between an embedding and a head.

    $$ e_t = W_\mathrm{in}[y_t; u_t] + b_\mathrm{in}, \qquad
       h_t = a \odot h_{t-1} + B e_t + b_B, \qquad h_{-1} = 0, $$
    $$ o_t = C h_t + b_C + D \odot e_t, \qquad \hat y_{t+1} = w^\top o_t + b, \qquad
       a = \mathrm{clip}(\sigma(\theta), 10^{-4}, 1 - 10^{-4}) $$

    Nothing here depends on the input except through the state: B and C are fixed, and the whole map
    is affine in the tokens. It has 2nd + 2n + 6d + 1 parameters: 1,185 by default.

    With `d_ff` the head is nonlinear, $w^\top (o_t + \mathrm{MLP}(o_t)) + b$ with one hidden layer of
    GELUs: 2 d d_ff + d_ff + d parameters more, and the same memory as before.

    Args:
        d: width of a token inside.
        n: number of state channels.
        d_ff: hidden width of the head's MLP; 0 for the linear head.
        seed: integer or numpy Generator for the first weights.
        gain: as for `CausalTransformer`.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1 (`d_ff`: 0), or `gain` is not
            above zero.
    """

    def __init__(
        self,
        d: int = 16,
        n: int = 32,
        d_ff: int = 0,
        *,
        seed: Seed = 0,
        gain: float = FIRST_GAIN,
    ) -> None:
        super().__init__()
        rng = generator("seed", seed)
        self.embed = seeded_linear(2, d, seed=rng)
        self._first_multipliers(positive_int("n", n), rng)
        self.B = seeded_linear(d, n, seed=rng)
        self.C = seeded_linear(n, d, seed=rng)
        self.skip = nn.Parameter(_tensor(rng.standard_normal(d) / math.sqrt(d)))
        self.head = seeded_linear(d, 1, seed=rng)
        self.mlp = nn.Sequential()  # nothing
        if positive_int("d_ff", d_ff, minimum=0):
            wide, narrow = seeded_linear(d, d_ff, seed=rng), seeded_linear(d_ff, d, seed=rng)
            self.mlp = nn.Sequential(wide, nn.GELU(), narrow)
        _scale_linear_layers(self, gain)

    def _first_multipliers(self, n: int, rng: np.random.Generator) -> None:
        self.decay_logits = _spread_logits(n)

    @property
    def decays(self) -> Tensor:
        """The multipliers a, (n,)."""
        return clamped_decays(self.decay_logits)

    def states(self, tokens: Tensor) -> Tensor:
        """The state after each token, h (..., T, n), all in one scan. Errors as for `forward`."""
        _check_tokens(tokens, self.embed.weight)
        return ssm.scan(self.decays, self.B(self.embed(tokens)))

    def forward(self, tokens: Tensor) -> Tensor:
        """Forecasts (..., T), by running the state over the tokens (all states in one scan).

        Raises:
            TypeError: `tokens` is not a floating-point tensor of the model's dtype.
            ValueError: tokens are not (..., T, 2) or not finite.
        """
        return self._read(self.states(tokens), self.embed(tokens))

    def step(self, h: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        """Advance by one token, at a cost that does not depend on how many came before.

        Args:
            h: state, (..., n); zeros at the start.
            token: (..., 2).

        Returns:
            (new state (..., n), forecast (...)).
        """
        e = self.embed(token)
        h = self._carry(h) + self.B(e)
        return h, self._read(h, e)

    def _carry(self, h: Tensor) -> Tensor:
        return self.decays * h

    def _read(self, h: Tensor, e: Tensor) -> Tensor:
        o = self.C(h) + self.skip * e
        if len(self.mlp):
            o = o + self.mlp(o)
        return self.head(o).squeeze(-1)

    def stacked_forward(self, parameters: Parameters, tokens: Tensor) -> Tensor:
        r"""Forecasts of S models of this shape at once, all that is linear folded into one kernel.

        The map from tokens to $G o_t$ is affine and time-invariant, for any matrix G:

        $$ G o_t = \sum_{k=0}^{t} K_k x_{t-k} + c_t, \qquad
           K_k = G\,(C\,\mathrm{diag}(a^k) B + [k = 0]\,\mathrm{diag}(D))\,W_\mathrm{in}, $$

        with c_t the response to the biases. For the linear head G is $w^\top$, and nothing is left to
        do; before an MLP it is the identity. Arguments, result and errors as for
        `CausalTransformer.stacked_forward`, but for the length.
        """
        p = parameters
        _check_tokens(tokens, p["embed.weight"], ndim=3)
        d, mlp = self.head.in_features, len(self.mlp) > 0
        G = torch.eye(d).to(p["head.weight"]).expand(len(p["skip"]), d, d)
        read = self._convolve(p, G if mlp else p["head.weight"], tokens)  # (S, N, T, rows of G)
        if mlp:
            o = read.flatten(1, 2)  # (S, N·T, d)
            read = stacked_linear(p, "head", o + stacked_mlp(p, "mlp", o))
            return read.view(*read.shape[:1], *tokens.shape[-3:-1])
        return read.squeeze(-1) + p["head.bias"].unsqueeze(-1)

    def _convolve(self, p: Parameters, G: Tensor, tokens: Tensor) -> Tensor:
        """G o_t for stacked parameters, G (S, rows, d): (S, N, T, rows), as one matrix product."""
        kernel, offset = self._folded(p, G, tokens.shape[-2])
        S, T, rows, _ = kernel.shape
        t = torch.arange(T, device=tokens.device)
        lag = t[:, None] - t  # row t, column j
        toeplitz = kernel[:, lag.clamp(min=0)] * (lag >= 0)[..., None, None]  # (S, t, j, rows, 2)
        toeplitz = toeplitz.movedim(3, 2).reshape(S, T * rows, 2 * T).mT
        x = tokens.flatten(-2).expand(S, *tokens.shape[-3:-2], 2 * T)
        return torch.baddbmm(offset.reshape(S, 1, -1), x, toeplitz).unflatten(-1, (T, rows))

    def _folded(self, p: Parameters, G: Tensor, T: int) -> tuple[Tensor, Tensor]:
        """Kernel (S, T, rows, 2) and bias response (S, T, rows) of stacked parameters."""
        read = self._carried(p, G @ p["C.weight"], T)  # (S, T, rows, n)
        into_state = read @ p["B.weight"].unsqueeze(1)  # response to the embedding k tokens ago
        skip = G * p["skip"].unsqueeze(1)  # (S, rows, d)
        now = torch.cat([skip.unsqueeze(1), torch.zeros_like(into_state[:, 1:])], dim=1)
        by_lag = into_state + now  # (S, T, rows, d)
        kernel = by_lag @ p["embed.weight"].unsqueeze(1)
        from_biases = by_lag @ _column(p["embed.bias"]) + read @ _column(p["B.bias"])
        always = G @ p["C.bias"].unsqueeze(-1)  # (S, rows, 1)
        return kernel, (from_biases.cumsum(dim=1) + always.unsqueeze(1)).squeeze(-1)

    def _carried(self, p: Parameters, read: Tensor, T: int) -> Tensor:
        r"""What `read` (S, rows, n) sees of a state written k tokens ago: (S, T, rows, n)."""
        decays = clamped_decays(p["decay_logits"])  # (S, n)
        lags = torch.arange(T, dtype=decays.dtype, device=decays.device)
        powers = decays.unsqueeze(1) ** lags.unsqueeze(-1)  # (S, T, n)
        return powers.unsqueeze(2) * read.unsqueeze(1)


class ComplexSSM(DiagonalSSM):
    r"""`DiagonalSSM` whose multipliers are conjugate pairs, so that its sums may swing as they fade.

    The state's n numbers are the real and imaginary parts of m = n/2 complex channels, each of
    which stands for itself and its conjugate:

    $$ z_t = \lambda \odot z_{t-1} + \beta_t, \qquad
       \lambda_j = \rho_j e^{i\omega_j}, \qquad
       h = (\mathrm{Re}\,z_1, \mathrm{Im}\,z_1, \mathrm{Re}\,z_2, \dots), $$

    with $\beta_t$ the pairs of $B e_t + b_B$ and ρ clamped like the real decays. In real numbers each
    pair is turned by ω and shrunk by ρ, and a real C reads it. So it has as many parameters as the
    real layer with the same n: 1,185 by default.

    Args, errors: as for `DiagonalSSM`; n must be even.
    """

    def _first_multipliers(self, n: int, rng: np.random.Generator) -> None:
        if n % 2:
            raise ValueError(f"n must be even, two real numbers a complex channel, got {n}")
        self.decay_logits = _spread_logits(n // 2)
        angles = np.linspace(0, np.pi, n // 2 + 2)[1:-1]
        self.angles = nn.Parameter(_tensor(rng.permutation(angles)))

    @property
    def multipliers(self) -> Tensor:
        """λ, complex (m,)."""
        return torch.polar(self.decays, self.angles)

    def states(self, tokens: Tensor) -> Tensor:
        """The state after each token, h (..., T, n), all in one scan. Errors as for `forward`."""
        _check_tokens(tokens, self.embed.weight)
        z = ssm.scan(self.multipliers, pairs_as_complex(self.B(self.embed(tokens))))
        return torch.view_as_real(z).flatten(-2)

    def _carry(self, h: Tensor) -> Tensor:
        return torch.view_as_real(self.multipliers * pairs_as_complex(h)).flatten(-2)

    def _carried(self, p: Parameters, read: Tensor, T: int) -> Tensor:
        r"""What `read` sees of a state written k tokens ago: (S, T, rows, n).

        Reading $r = r_1 + i r_2$ off the pair z is $\mathrm{Re}(\bar r z)$, and with
        $z = \lambda^k \beta$ that is the same as reading $\bar\lambda^k r$ off β.
        """
        rho = clamped_decays(p["decay_logits"])  # (S, m)
        lags = torch.arange(T, dtype=rho.dtype, device=rho.device).unsqueeze(-1)
        powers = torch.polar(rho.unsqueeze(1) ** lags, -p["angles"].unsqueeze(1) * lags)
        seen = powers.unsqueeze(2) * pairs_as_complex(read).unsqueeze(1)  # (S, T, rows, m)
        return torch.view_as_real(seen).flatten(-2)


def _spread_logits(n: int) -> nn.Parameter:
    """Logits of n decays spread evenly between 0.05 and 0.95."""
    first = np.linspace(0.05, 0.95, n + 2)[1:-1]
    return nn.Parameter(_tensor(np.log(first / (1 - first))))


def pairs_as_complex(h: Tensor) -> Tensor:
    """Read neighbours on the last axis as real and imaginary part: (..., 2m) → (..., m)."""
    return torch.view_as_complex(h.unflatten(-1, (-1, 2)).contiguous())


def _column(bias: Tensor) -> Tensor:
    """(S, k) → (S, 1, k, 1)."""
    return bias.unsqueeze(1).unsqueeze(-1)


def stacked_linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Apply each model's own linear layer: (S, N, d_in) → (S, N, d_out)."""
    return torch.baddbmm(p[f"{name}.bias"].unsqueeze(1), x, p[f"{name}.weight"].mT)


def stacked_norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Apply each model's own layer norm, (S, N, d)."""
    scale, shift = p[f"{name}.weight"].unsqueeze(1), p[f"{name}.bias"].unsqueeze(1)
    return torch.addcmul(shift, nn.functional.layer_norm(x, x.shape[-1:]), scale)


def stacked_mlp(p: Parameters, name: str, x: Tensor) -> Tensor:
    """Apply each model's own two-layer network with GELUs, (S, N, d)."""
    hidden = nn.functional.gelu(stacked_linear(p, f"{name}.0", x))
    return stacked_linear(p, f"{name}.2", hidden)


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


def on_device(parameters: Parameters, device: Any = None) -> dict[str, Tensor]:
    """The parameters on a device, such as "cuda"; where they are if None.

    Raises:
        ValueError: torch knows no such device, or cannot compute on it here.
    """
    if device is None:
        return dict(parameters)
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError) as error:  # whatever torch makes of it
        raise ValueError(
            f"device must be one that torch can compute on here, such as 'cpu', got {device!r} "
            f"({str(error).splitlines()[0]})"
        ) from None
    return {name: p.to(device) for name, p in parameters.items()}


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


# Every learner of the experiment by its name, from a seed to a model. The first two are the plain
# pair; each is built in the other's size as well, then with poles that turn, then with a nonlinear
# head. All of them have 1,185 to 1,195 or 3,293 to 3,329 parameters.
FORECASTERS: dict[str, Callable[[int], nn.Module]] = {
    "transformer": lambda seed: CausalTransformer(seed=seed),
    "SSM": lambda seed: DiagonalSSM(seed=seed),
    "small transformer": lambda seed: CausalTransformer(8, 34, seed=seed),
    "large SSM": lambda seed: DiagonalSSM(n=95, seed=seed),
    "complex SSM": lambda seed: ComplexSSM(seed=seed),
    "large complex SSM": lambda seed: ComplexSSM(n=94, seed=seed),
    "SSM with MLP": lambda seed: DiagonalSSM(n=16, d_ff=16, seed=seed),
    "large SSM with MLP": lambda seed: DiagonalSSM(n=48, d_ff=48, seed=seed),
    "complex SSM with MLP": lambda seed: ComplexSSM(n=16, d_ff=16, seed=seed),
    "large complex SSM with MLP": lambda seed: ComplexSSM(n=48, d_ff=48, seed=seed),
}
