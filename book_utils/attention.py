r"""Attention as soft lookup: softmax, masks, one head, many heads, the transformer block.

Notation: a sequence has T positions. Row i of q is the query $q_i$, row j of k the key $k_j$ and
row j of v the value $v_j$. Tensors may carry any leading (batch, head) axes, written ``...``.

Modules take a `seed`: an integer or a ``numpy.random.Generator``. Their first weights are drawn
with numpy, so that they are the same on every machine, and torch's own generator is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from ._validate import (
    finite,
    finite_number,
    generator,
    min_ndim,
    positive_int,
    same_size,
)

Seed = int | np.random.Generator


def softmax(scores: Tensor, dim: int = -1) -> Tensor:
    r"""Softmax weights, computed without overflow.

    $$ w_j = \frac{e^{s_j - m}}{\sum_l e^{s_l - m}}, \qquad m = \max_l s_l $$

    Subtracting the same m from every score changes nothing (numerator and denominator both shrink
    by $e^{-m}$), but the largest exponent is now 0, so no score is too big.

    Half precision is widened inside (a sum of 70,000 ones overflows float16) and rounded once.

    Args:
        scores: floating-point tensor of any shape; entries may be $-\infty$ (weight 0).
        dim: the axis that sums to one.

    Returns:
        Tensor of the same shape and dtype.

    Raises:
        TypeError: `scores` is not a floating-point tensor.
        ValueError: a slice along `dim` has no finite entry, or holds NaN or $+\infty$.
    """
    _require_float("scores", scores)
    min_ndim("scores", scores, 1, "(..., n)")
    if not -scores.ndim <= dim < scores.ndim:
        raise ValueError(f"dim is {dim}, but scores has only {scores.ndim} axes")
    if scores.shape[dim] == 0:
        raise ValueError(f"scores has no entry along axis {dim}: shape {tuple(scores.shape)}")
    dtype, scores = scores.dtype, _at_least_single(scores)
    # A shift changes no weight, hence no derivative: the maximum may be treated as a constant.
    maximum = scores.detach().amax(dim=dim, keepdim=True)
    if not bool(maximum.isfinite().all()):
        raise ValueError(
            "scores must have a finite maximum in every slice along dim: got NaN or +inf, "
            "or a slice of -inf only (a query with no key to attend to)"
        )
    exponentials = (scores - maximum).exp()
    return (exponentials / exponentials.sum(dim=dim, keepdim=True)).to(dtype)


def causal_mask(T: int) -> Tensor:
    """Boolean (T, T) mask, True where query i may attend to key j, that is where j ≤ i.

    Raises:
        TypeError, ValueError: `T` is not an integer of at least 1.
    """
    return torch.ones(positive_int("T", T), T, dtype=torch.bool).tril()


def window_mask(T: int, window: int) -> Tensor:
    """Boolean (T, T) causal mask of a sliding window: True where i − window < j ≤ i.

    Each query sees itself and the `window` − 1 tokens before it: lags 0 … window − 1.

    Raises:
        TypeError, ValueError: `T` or `window` is not an integer of at least 1.
    """
    return causal_mask(T).triu(1 - positive_int("window", window))


def entropy(weights: Tensor) -> Tensor:
    r"""Entropy of each row of weights, in nats.

    $$ H(w) = -\sum_j w_j \ln w_j, \qquad 0 \ln 0 = 0 $$

    A weight of 0 (a masked token) gets gradient 0, not the infinite slope of $-w \ln w$ there.

    Args:
        weights: (..., n), rows non-negative with sum one.

    Returns:
        Tensor (...), from 0 (all weight on one token) to ln n (uniform).

    Raises:
        TypeError: `weights` is not a floating-point tensor.
        ValueError: a row is not a probability distribution.
    """
    w = _distribution("weights", weights)
    seen = w.where(w > 0, 1.0)  # 1 ln 1 = 0 = 0 ln 0, with a finite slope
    return -(seen * seen.log()).sum(dim=-1)


def effective_tokens(weights: Tensor) -> Tensor:
    """How many tokens a row of weights spreads over: exp(H(w)), from 1 to n.

    A row that is uniform over m tokens has exactly m. Arguments and errors as in `entropy`.
    """
    return entropy(weights).exp()


def softmax_jacobian(weights: Tensor) -> Tensor:
    r"""Differentiate the softmax weights by the scores.

    $$ \frac{\partial w_i}{\partial s_j} = w_i(\delta_{ij} - w_j), \qquad
       J = \operatorname{diag}(w) - w w^\top $$

    J is symmetric, its rows sum to zero (only differences of scores matter), and it vanishes as w
    nears a vertex of the simplex: a saturated row passes no gradient back to its scores.

    Args:
        weights: (..., n), rows non-negative with sum one.

    Returns:
        Tensor (..., n, n).

    Raises:
        TypeError: `weights` is not a floating-point tensor.
        ValueError: a row is not a probability distribution.
    """
    w = _distribution("weights", weights)
    return torch.diag_embed(w) - w.unsqueeze(-1) * w.unsqueeze(-2)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Attention of every query over every key (Vaswani et al. 2017, equation 1).

    $$ o_i = \sum_j w_{ij} v_j, \qquad w_{ij} = \mathrm{softmax}_j(\gamma\, q_i^\top k_j) $$

    Args:
        q: queries, (..., T_q, d_k).
        k: keys, (..., T_k, d_k).
        v: values, (..., T_k, d_v).
        mask: boolean, broadcastable to (..., T_q, T_k), **True = may attend**. This is the
            convention of ``torch.nn.functional.scaled_dot_product_attention``;
            ``torch.nn.MultiheadAttention`` uses the opposite (True = may *not* attend).
        scale: the factor γ on the scores; $1/\sqrt{d_k}$ when None. The queries are multiplied by
            it first, so that only the scaled scores have to fit in the dtype.

    Returns:
        (output, weights) of shapes (..., T_q, d_v) and (..., T_q, T_k), in the dtype of `q`.

    Raises:
        TypeError: an input is not a floating-point tensor, dtypes differ, or the mask is not bool.
        ValueError: shapes do not fit, a score or value is not finite, or a query has no key.
    """
    _check_attention_inputs(q, k, v)
    gamma = 1.0 / math.sqrt(q.shape[-1]) if scale is None else finite_number("scale", scale)
    scores = (q * gamma) @ k.mT
    if not bool(scores.isfinite().all()):
        raise ValueError("q and k give scores that are NaN or infinite; check their entries")
    if mask is not None:
        scores = scores.masked_fill(~_check_mask(mask, scores.shape), -math.inf)
    weights = softmax(scores, dim=-1)
    return weights @ v, weights


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(..., T, d) → (..., heads, T, d/heads): head h gets the h-th slice of the d columns.

    Raises:
        TypeError: `x` is not a tensor, or `heads` not an integer.
        ValueError: fewer than two axes, or `heads` does not divide the width d.
    """
    _require_tensor("x", x)
    min_ndim("x", x, 2, "(..., T, d)")
    d_head = _head_width(x.shape[-1], heads)
    return x.reshape(*x.shape[:-1], heads, d_head).transpose(-3, -2)  # (..., T, heads, d_head) →


def merge_heads(x: Tensor) -> Tensor:
    """(..., heads, T, d_head) → (..., T, heads·d_head): the heads' outputs side by side.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: fewer than three axes.
    """
    _require_tensor("x", x)
    min_ndim("x", x, 3, "(..., heads, T, d_head)")
    x = x.transpose(-3, -2)  # (..., T, heads, d_head)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def multi_head_attention(
    q: Tensor, k: Tensor, v: Tensor, *, heads: int, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Attention in `heads` independent slices of the width (Vaswani et al. 2017, section 3.2.2).

    $$ o_i = [\,o_i^{(1)}; \dots; o_i^{(h)}\,], \qquad
       o_i^{(r)} = \sum_j w_{ij}^{(r)} v_j^{(r)} $$

    The projections before and the mixing $W_O$ after are `MultiHeadAttention`'s.

    Args:
        q, k, v: as in `scaled_dot_product_attention`; `heads` must divide their widths.
        heads: number of heads h.
        mask: boolean, broadcastable to (..., T_q, T_k), True = may attend; the same for all heads.

    Returns:
        (output, weights) of shapes (..., T_q, d_v) and (..., heads, T_q, T_k).

    Raises:
        TypeError, ValueError: as `scaled_dot_product_attention`; `heads` does not divide a width.
    """
    _check_attention_inputs(q, k, v)
    if isinstance(mask, Tensor) and mask.ndim > 2:
        mask = mask.unsqueeze(-3)  # a batch of masks: make room for the head axis
    output, weights = scaled_dot_product_attention(
        split_heads(q, heads), split_heads(k, heads), split_heads(v, heads), mask=mask
    )
    return merge_heads(output), weights


def seeded_linear(d_in: int, d_out: int, *, seed: Seed = 0, bias: bool = True) -> nn.Linear:
    r"""Make a linear layer with weights from U(−b, b), $b = \sqrt{3/d_\mathrm{in}}$, and bias 0.

    The weights' variance is $1/d_\mathrm{in}$: independent unit-variance inputs give
    unit-variance outputs (LeCun et al. 1998).

    Raises:
        TypeError, ValueError: a width is not an integer of at least 1.
    """
    positive_int("d_in", d_in)
    positive_int("d_out", d_out)
    layer = nn.utils.skip_init(nn.Linear, d_in, d_out, bias=bias)
    bound = math.sqrt(3.0 / d_in)
    draw = generator("seed", seed).uniform(-bound, bound, (d_out, d_in))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(draw))
        if bias:
            layer.bias.zero_()
    return layer


class MultiHeadAttention(nn.Module):
    r"""Multi-head self-attention: $Q = ZW_Q$, $K = ZW_K$, $V = ZW_V$, heads, then $W_O$.

    Each projection is an ``nn.Linear(d, d)``, named `query`, `key`, `value` and `output`: with
    biases, $4d^2 + 4d$ parameters whatever the number of heads (`attention_parameter_count`).

    Args:
        d: width of a token.
        heads: number of heads; must divide d.
        bias: whether the four projections have a bias.
        seed: integer or numpy Generator for the first weights. Two layers built from the same
            integer start out equal; pass one Generator to layers that should differ.

    Raises:
        TypeError, ValueError: `d` or `heads` is not an integer ≥ 1, or `heads` does not divide `d`.
    """

    def __init__(self, d: int, heads: int, *, bias: bool = True, seed: Seed = 0) -> None:
        super().__init__()
        _head_width(d, heads)
        rng = generator("seed", seed)
        self.d, self.heads = d, heads
        self.query = seeded_linear(d, d, seed=rng, bias=bias)
        self.key = seeded_linear(d, d, seed=rng, bias=bias)
        self.value = seeded_linear(d, d, seed=rng, bias=bias)
        self.output = seeded_linear(d, d, seed=rng, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Every token attends over the sequence it stands in.

        Args:
            x: tokens, (..., T, d).
            mask: boolean, broadcastable to (..., T, T), **True = may attend**; None allows all.

        Returns:
            (output, weights) of shapes (..., T, d) and (..., heads, T, T).

        Raises:
            TypeError, ValueError: `x` has another width or dtype than the layer, or as for
                `scaled_dot_product_attention`.
        """
        _check_tokens("x", x, self.query.weight)
        mixed, weights = multi_head_attention(
            self.query(x), self.key(x), self.value(x), heads=self.heads, mask=mask
        )
        return self.output(mixed), weights

    @torch.no_grad()
    def load_torch(self, source: nn.MultiheadAttention) -> MultiHeadAttention:
        """Copy the weights of an ``nn.MultiheadAttention`` of the same shape; returns self.

        Raises:
            ValueError: width, heads or biases differ, or it has extras that this module lacks
                (dropout is one).
        """
        _check_torch_attention(self, source)
        for own, weight in zip(self._projections(), source.in_proj_weight.chunk(3), strict=True):
            own.weight.copy_(weight)
        self.output.weight.copy_(source.out_proj.weight)
        if source.in_proj_bias is not None:
            for own, bias in zip(self._projections(), source.in_proj_bias.chunk(3), strict=True):
                own.bias.copy_(bias)
            self.output.bias.copy_(source.out_proj.bias)
        return self

    @torch.no_grad()
    def to_torch(self) -> nn.MultiheadAttention:
        """Make an ``nn.MultiheadAttention`` (``batch_first=True``) with copies of these weights.

        Its masks mean the opposite: True = may *not* attend.
        """
        has_bias = self.output.bias is not None
        target = nn.utils.skip_init(
            nn.MultiheadAttention, self.d, self.heads, bias=has_bias, batch_first=True
        ).to(self.output.weight.dtype)
        target.in_proj_weight.copy_(torch.cat([p.weight for p in self._projections()]))
        target.out_proj.weight.copy_(self.output.weight)
        if has_bias:
            target.in_proj_bias.copy_(torch.cat([p.bias for p in self._projections()]))
            target.out_proj.bias.copy_(self.output.bias)
        return target

    def _projections(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        return self.query, self.key, self.value


class TransformerBlock(nn.Module):
    r"""One transformer block: attention, a two-layer MLP, two residual paths, two LayerNorms.

    Pre-norm (the default; Xiong et al. 2020) normalises what goes *into* each branch and leaves the
    residual path untouched; post-norm (Vaswani et al. 2017) normalises after each sum:

    $$ \text{pre:}\quad u = z + \mathrm{Attn}(\mathrm{LN}_1(z)),\quad
       z' = u + \mathrm{MLP}(\mathrm{LN}_2(u)) $$
    $$ \text{post:}\quad u = \mathrm{LN}_1(z + \mathrm{Attn}(z)),\quad
       z' = \mathrm{LN}_2(u + \mathrm{MLP}(u)) $$

    The MLP is d → d_ff → d with a GELU between. `block_parameter_count` gives the size.

    Args:
        d: width of a token.
        heads: number of heads; must divide d.
        d_ff: hidden width of the MLP.
        pre_norm: pre-norm if True, post-norm if False.
        seed: integer or numpy Generator for the first weights.

    Raises:
        TypeError, ValueError: a size is not an integer ≥ 1, or `heads` does not divide `d`.
    """

    def __init__(
        self, d: int, heads: int, d_ff: int, pre_norm: bool = True, *, seed: Seed = 0
    ) -> None:
        super().__init__()
        positive_int("d_ff", d_ff)
        rng = generator("seed", seed)
        self.pre_norm = pre_norm
        self.attention = MultiHeadAttention(d, heads, seed=rng)
        self.mlp = nn.Sequential(
            seeded_linear(d, d_ff, seed=rng), nn.GELU(), seeded_linear(d_ff, d, seed=rng)
        )
        self.norm_attention = nn.LayerNorm(d)
        self.norm_mlp = nn.LayerNorm(d)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Tokens (..., T, d) in; (tokens (..., T, d), weights (..., heads, T, T)) out.

        `mask` is boolean, broadcastable to (..., T, T), **True = may attend**. Errors as for
        `MultiHeadAttention`.
        """
        _check_tokens("x", x, self.attention.query.weight)
        if self.pre_norm:
            mixed, weights = self.attention(self.norm_attention(x), mask)
            x = x + mixed
            return x + self.mlp(self.norm_mlp(x)), weights
        mixed, weights = self.attention(x, mask)
        x = self.norm_attention(x + mixed)
        return self.norm_mlp(x + self.mlp(x)), weights


def attention_parameter_count(d: int, *, bias: bool = True) -> int:
    """Parameters of `MultiHeadAttention`: 4d², and 4d more with biases; heads do not matter.

    Raises:
        TypeError, ValueError: `d` is not an integer of at least 1.
    """
    positive_int("d", d)
    return 4 * d * d + (4 * d if bias else 0)


def block_parameter_count(d: int, d_ff: int) -> int:
    """Parameters of `TransformerBlock`: attention 4d² + 4d, MLP 2·d·d_ff + d_ff + d, two norms 4d.

    Raises:
        TypeError, ValueError: `d` or `d_ff` is not an integer of at least 1.
    """
    positive_int("d_ff", d_ff)
    return attention_parameter_count(d) + 2 * d * d_ff + d_ff + d + 4 * d


def gradient_by_lag(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    r"""How strongly the last output depends on the input k steps before it.

    $$ g_k = \left\lVert \frac{\partial y_T}{\partial x_{T-k}} \right\rVert_F,
       \qquad k = 0, \dots, T-1 $$

    Args:
        layer: differentiable map of a sequence (T, d) to a sequence (T, d_out).
        x: the point at which to differentiate, (T, d).

    Returns:
        Tensor (T,): Frobenius norms of the Jacobian blocks, lag 0 first.

    Raises:
        TypeError: `x` is not a floating-point tensor.
        ValueError: `x` is not (T, d), or the layer's output is not (T, d_out).
    """
    _require_float("x", x)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (T, d), got {tuple(x.shape)}")

    def last_output(sequence: Tensor) -> Tensor:
        y = layer(sequence)
        if y.ndim != 2 or y.shape[0] != x.shape[0]:
            raise ValueError(f"layer must return shape ({x.shape[0]}, d_out), got {tuple(y.shape)}")
        return y[-1]

    jacobian = torch.autograd.functional.jacobian(last_output, x)  # (d_out, T, d)
    return torch.linalg.vector_norm(jacobian, dim=(0, 2)).flip(0)


def _at_least_single(x: Tensor) -> Tensor:
    """Half precision as float32, for sums that would overflow or lose their digits."""
    return x.float() if x.dtype.itemsize == 2 else x


def _require_tensor(name: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(x).__name__}")


def _require_float(name: str, x: Tensor) -> None:
    _require_tensor(name, x)
    if not x.dtype.is_floating_point:
        raise TypeError(f"{name} must hold floating-point numbers, got {x.dtype}")


def _check_attention_inputs(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x, shape in (
        ("q", q, "(..., T_q, d_k)"),
        ("k", k, "(..., T_k, d_k)"),
        ("v", v, "(..., T_k, d_v)"),
    ):
        _require_float(name, x)
        min_ndim(name, x, 2, shape)
        if x.dtype != q.dtype:
            raise TypeError(f"q, k and v must share a dtype: q is {q.dtype}, {name} is {x.dtype}")
    same_size("the width of q", q.shape[-1], "the width of k", k.shape[-1])
    same_size("the number of keys", k.shape[-2], "the number of values", v.shape[-2])
    for name, size in (("d_k", k.shape[-1]), ("T_k", k.shape[-2])):
        if size == 0:
            raise ValueError(f"{name} must be at least 1, got 0")
    try:
        torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except RuntimeError:
        raise ValueError(
            "the leading axes of q, k and v do not fit together: "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        ) from None
    finite("v", v)


def _check_mask(mask: Tensor, shape: torch.Size) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a boolean tensor (True = may attend), got {got}")
    try:
        allowed = mask.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not broadcast to the scores' {tuple(shape)}"
        ) from None
    empty = ~mask.any(dim=-1)
    if bool(empty.any()):
        where = tuple(int(i) for i in empty.nonzero()[0])
        raise ValueError(
            f"mask allows no key at all for the query at {where}: its weights are undefined"
        )
    return allowed


def _check_tokens(name: str, x: Tensor, weight: Tensor) -> None:
    """Check that x (..., T, d) fits a layer whose first weight, (·, d), is given."""
    _require_float(name, x)
    min_ndim(name, x, 2, "(..., T, d)")
    same_size(f"the width of {name}", x.shape[-1], "the layer's width d", weight.shape[1])
    if x.dtype != weight.dtype:
        raise TypeError(f"{name} must have the layer's dtype {weight.dtype}, got {x.dtype}")


def _head_width(d: int, heads: int) -> int:
    positive_int("d", d)
    if d % positive_int("heads", heads):
        raise ValueError(f"heads must divide the width, but {d} is not a multiple of {heads}")
    return d // heads


def _distribution(name: str, weights: Tensor) -> Tensor:
    """`weights` if every row is non-negative with sum one, to the rounding of its dtype."""
    _require_float(name, weights)
    min_ndim(name, weights, 1, "(..., n)")
    eps = torch.finfo(weights.dtype).eps
    # Each weight is rounded to its dtype; the sum that divided it is at least a float32 sum.
    tolerance = 4.0 * (eps + min(eps, 2.0**-23) * weights.shape[-1])
    off = (weights.detach().double().sum(dim=-1) - 1.0).abs()
    if not bool((weights >= 0).all()) or not bool((off <= tolerance).all()):
        raise ValueError(f"{name} must hold non-negative rows that sum to one (softmax first?)")
    return weights


def _check_torch_attention(own: MultiHeadAttention, source: nn.MultiheadAttention) -> None:
    same_size("d", own.d, "the source's embed_dim", source.embed_dim)
    same_size("heads", own.heads, "the source's num_heads", source.num_heads)
    extras = source.in_proj_weight is None or source.bias_k is not None or source.add_zero_attn
    if extras or source.dropout:
        raise ValueError(
            "source uses kdim, vdim, add_bias_kv, add_zero_attn or dropout, which have no match"
        )
    if (own.output.bias is None) != (source.in_proj_bias is None):
        raise ValueError("one of the two modules has biases and the other has none")
