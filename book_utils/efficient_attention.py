r"""What attention costs, and the ways to pay less: tiles, caches, windows, compression, counts.

Tiled, cached and chunked evaluation compute *the same* attention in another order. Windows, merging,
selection and quantisation compute another, cheaper one. Shapes and masks as in `attention`:
q (..., T_q, d_k), k (..., T_k, d_k), v (..., T_k, d_v), and True = may attend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ._validate import finite, min_ndim, positive_int, same_size
from .attention import causal_mask, scaled_dot_product_attention, softmax, window_mask

# ------------------------------------------------------------------- exact, in another order


def tiled_attention(
    q: Tensor, k: Tensor, v: Tensor, *, block: int = 64, causal: bool = False
) -> Tensor:
    r"""Attention without its score matrix: exact, one tile of scores at a time.

    For each query keep the largest score so far m, the sum ℓ of exponentials and the weighted sum u
    of values, both relative to m. A new tile of scores s with values v updates them by

    $$ m' = \max(m, \max_j s_j), \qquad \ell' = e^{m - m'}\ell + \sum_j e^{s_j - m'}, \qquad
       u' = e^{m - m'}u + \sum_j e^{s_j - m'} v_j, $$

    and the output is $u / \ell$ (Milakov & Gimelshein 2018; Rabe & Staats 2021; Dao et al. 2022).
    Besides its inputs and output it needs block² scores, and two numbers a query. Half precision is
    widened tile by tile, since running sums would overflow in it.

    Args:
        q, k, v: (..., T_q, d_k), (..., T_k, d_k), (..., T_k, d_v), with equal leading axes.
        block: tile size, in queries and in keys.
        causal: the queries are the *last* T_q of the T_k positions, and see no later key.

    Returns:
        Tensor (..., T_q, d_v).

    Raises:
        TypeError: an input is not a floating-point tensor, or dtypes differ.
        ValueError: shapes do not fit, an entry or a score is not finite, or causal with T_q > T_k.
    """
    _check(q, k, v)
    block, first = positive_int("block", block), _first_position(q, k, causal)
    output = torch.cat(
        [
            _row_of_tiles(q[..., i : i + block, :], k, v, block, first + i if causal else None)
            for i in range(0, q.shape[-2], block)
        ],
        dim=-2,
    )
    return finite("the output (are q and k too large?)", output.to(q.dtype))


def _row_of_tiles(q: Tensor, k: Tensor, v: Tensor, block: int, position: int | None) -> Tensor:
    """One tile of queries over all tiles of keys; `position` is the first query's, None: no mask."""
    end = k.shape[-2] if position is None else min(k.shape[-2], position + q.shape[-2])
    q = q.to(torch.promote_types(q.dtype, torch.float32)) / math.sqrt(q.shape[-1])
    m = q.new_full((*q.shape[:-1], 1), -math.inf)
    total, weighted = torch.zeros_like(m), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for j in range(0, end, block):
        scores = q @ k[..., j : min(j + block, end), :].mT.to(q.dtype)
        if position is not None:
            query = torch.arange(position, position + q.shape[-2], device=q.device)[:, None]
            key = torch.arange(j, j + scores.shape[-1], device=q.device)
            scores = scores.masked_fill(key > query, -math.inf)
        m, total, weighted = online_softmax_step(
            (m, total, weighted), scores, v[..., j : j + scores.shape[-1], :].to(q.dtype)
        )
    return weighted / total


State = tuple[Tensor, Tensor, Tensor]


def online_softmax_step(state: State, scores: Tensor, v: Tensor) -> State:
    """Take a tile of scores (..., T_q, n) and its values (..., n, d_v) into the running state.

    Args:
        state: (m, ℓ, u) of shapes (..., T_q, 1), (..., T_q, 1), (..., T_q, d_v); at the start −∞, 0, 0.
        scores: may be −∞ where a key is masked, but not in the whole first tile of a query.
        v: the tile's values.

    Returns:
        The new (m, ℓ, u); the output so far is u/ℓ.
    """
    m, total, weighted = state
    largest = torch.maximum(m, scores.amax(dim=-1, keepdim=True))
    shrink, exponentials = (m - largest).exp(), (scores - largest).exp()
    total = shrink * total + exponentials.sum(dim=-1, keepdim=True)
    return largest, total, shrink * weighted + exponentials @ v


class KVCache:
    """Keys and values of all tokens so far, in memory set aside once.

    Args:
        capacity: largest number of tokens.
        d_k, d_v: widths of keys and values.
        lead: leading (batch, head) axes.
        dtype: of the stored numbers.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1.
    """

    def __init__(
        self,
        capacity: int,
        d_k: int,
        d_v: int,
        *,
        lead: Sequence[int] = (),
        dtype: torch.dtype = torch.float32,
    ) -> None:
        capacity = positive_int("capacity", capacity)
        shape = (*lead, capacity)
        self._keys = torch.empty(*shape, positive_int("d_k", d_k), dtype=dtype)
        self._values = torch.empty(*shape, positive_int("d_v", d_v), dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        """Count the tokens stored."""
        return self._size

    @property
    def keys(self) -> Tensor:
        """The keys so far, (..., T, d_k)."""
        return self._keys[..., : self._size, :]

    @property
    def values(self) -> Tensor:
        """The values so far, (..., T, d_v)."""
        return self._values[..., : self._size, :]

    @property
    def bytes(self) -> int:
        """What the stored tokens take up."""
        return self.keys.nbytes + self.values.nbytes

    def append(self, k: Tensor, v: Tensor) -> None:
        """Store the keys (..., n, d_k) and values (..., n, d_v) of n more tokens.

        Raises:
            ValueError: shapes do not fit the cache, or it is full.
        """
        same_size("the number of keys", k.shape[-2], "the number of values", v.shape[-2])
        end = self._size + k.shape[-2]
        if end > self._keys.shape[-2]:
            raise ValueError(f"the cache holds {self._keys.shape[-2]} tokens, but {end} are needed")
        for name, store, new in (("k", self._keys, k), ("v", self._values, v)):
            wanted = (*store.shape[:-2], new.shape[-2], store.shape[-1])
            if tuple(new.shape) != wanted:
                raise ValueError(f"{name} must have shape {wanted}, got {tuple(new.shape)}")
            store[..., self._size : end, :] = new
        self._size = end


def cached_attention(q: Tensor, k: Tensor, v: Tensor, cache: KVCache) -> Tensor:
    """Causal attention of n new tokens over all that are cached, themselves included.

    The new keys and values are stored first. With n = 1 this is decoding, with n > 1 one chunk of a
    prefill; in either case the rows are those that a pass over the whole sequence would give.

    Args:
        q, k, v: of the new tokens, (..., n, d_k), (..., n, d_k), (..., n, d_v).
        cache: holds the tokens before; the new ones are added to it.

    Returns:
        Tensor (..., n, d_v).

    Raises:
        TypeError, ValueError: as `tiled_attention` and `KVCache.append`.
    """
    _check(q, k, v)
    same_size("the number of queries", q.shape[-2], "the number of keys", k.shape[-2])
    cache.append(k, v)
    mask = chunk_mask(q.shape[-2], len(cache))
    return scaled_dot_product_attention(q, cache.keys, cache.values, mask=mask)[0]


def chunked_attention(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
    """Causal attention over a whole sequence, a chunk of tokens at a time through one cache.

    A schedule, not an approximation: the same as one pass, with at most chunk × T scores at once.

    Raises:
        TypeError, ValueError: as `cached_attention`; `chunk` is not an integer of at least 1.
    """
    _check(q, k, v)
    chunk, T = positive_int("chunk", chunk), k.shape[-2]
    cache = KVCache(T, k.shape[-1], v.shape[-1], lead=k.shape[:-2], dtype=k.dtype)
    parts = [slice(i, i + chunk) for i in range(0, T, chunk)]
    return torch.cat(
        [cached_attention(q[..., p, :], k[..., p, :], v[..., p, :], cache) for p in parts], dim=-2
    )


def chunk_mask(new: int, total: int) -> Tensor:
    """Boolean (new, total): the last `new` rows of `causal_mask(total)`, True = may attend.

    New query i stands at position total − new + i. PyTorch's ``is_causal=True`` instead lets it
    stand at position i: with one cached query it then sees the *first* key alone.

    Raises:
        TypeError, ValueError: a size is not an integer of at least 1, or new > total.
    """
    if positive_int("new", new) > positive_int("total", total):
        raise ValueError(f"new must be at most total {total}, got {new}")
    return torch.ones(new, total, dtype=torch.bool).tril(total - new)


# ------------------------------------------------------------------------- bounded memories


def global_mask(T: int, window: int, n_global: int) -> Tensor:
    """Boolean (T, T) causal mask: a sliding window, and the first `n_global` tokens for everyone.

    The global tokens stand at the start, so under the causal mask they see nothing but each other.

    Raises:
        TypeError, ValueError: `T` or `window` is not an integer ≥ 1, `n_global` not one ≥ 0.
    """
    first = torch.arange(positive_int("T", T)) < positive_int("n_global", n_global, minimum=0)
    return window_mask(T, window) | (first & causal_mask(T))


def reachable(mask: Tensor, layers: int) -> Tensor:
    """Boolean (T, T): whether anything of token j can have come to position i after some layers.

    Each layer's output i takes in the layer's inputs that `mask` lets i see, and its own
    (the residual path). That information *can* pass does not mean that it does.

    Raises:
        TypeError, ValueError: `mask` is not a square boolean matrix, `layers` not an integer ≥ 1.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError("mask must be a boolean tensor (True = may attend)")
    if mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        raise ValueError(f"mask must have shape (T, T), got {tuple(mask.shape)}")
    one = (mask | torch.eye(len(mask), dtype=torch.bool)).float()
    seen = one
    for _ in range(positive_int("layers", layers) - 1):
        seen = ((one @ seen) > 0).float()
    return seen > 0


def receptive_field(window: int, layers: int) -> int:
    r"""How many positions, itself included, a position can hear from: $L(W - 1) + 1$.

    Raises:
        TypeError, ValueError: an argument is not an integer of at least 1.
    """
    return positive_int("layers", layers) * (positive_int("window", window) - 1) + 1


def merge_neighbours(k: Tensor, v: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Replace each run of `group` neighbouring tokens by their mean; the last run may be shorter.

    Returns:
        (keys (..., M, d_k), values (..., M, d_v), counts (M,)) with M = ⌈T/group⌉.

    Raises:
        TypeError, ValueError: as `tiled_attention`; `group` is not an integer of at least 1.
    """
    _check(k, k, v)
    runs = range(0, k.shape[-2], positive_int("group", group))
    keys = torch.stack([k[..., i : i + group, :].mean(dim=-2) for i in runs], dim=-2)
    values = torch.stack([v[..., i : i + group, :].mean(dim=-2) for i in runs], dim=-2)
    counts = [min(group, k.shape[-2] - i) for i in runs]
    return keys, values, torch.tensor(counts, dtype=k.dtype)


def counted_attention(q: Tensor, k: Tensor, v: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    r"""Attention over tokens that stand for several: each score gets $\ln n_j$ added.

    $$ w_j = \frac{n_j e^{s_j}}{\sum_l n_l e^{s_l}} $$

    If the tokens behind an entry were all equal, this is exactly attention over all of them.

    Args:
        q, k, v: as in `tiled_attention`.
        counts: $n_j > 0$, (T_k,).

    Returns:
        (output (..., T_q, d_v), weights (..., T_q, T_k)).

    Raises:
        TypeError, ValueError: as `tiled_attention`; counts are not (T_k,) or not above zero.
    """
    _check(q, k, v)
    if tuple(counts.shape) != (k.shape[-2],) or not bool((counts > 0).all()):
        raise ValueError(f"counts must be {k.shape[-2]} numbers above zero, got {counts}")
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + counts.to(q.dtype).log()
    weights = softmax(scores)
    return weights @ v, weights


def quantise(x: Tensor, bits: int) -> Tensor:
    r"""Round each row to $2^b$ evenly spaced levels between its least and its largest entry.

    Every entry moves by at most half a step, $(\max - \min)/(2(2^b - 1))$. (What is stored would be
    the b-bit integers and two numbers a row; returned is what they decode to.)

    Args:
        x: (..., d).
        bits: b, 1 … 16.

    Raises:
        TypeError: `x` is not a floating-point tensor.
        ValueError: `bits` is out of range, or an entry is not finite.
    """
    _require_floating("x", x)
    min_ndim("x", finite("x", x), 1, "(..., d)")
    if positive_int("bits", bits) > 16:
        raise ValueError(f"bits must be at most 16, got {bits}")
    low, high = x.amin(dim=-1, keepdim=True), x.amax(dim=-1, keepdim=True)
    step = ((high - low) / (2**bits - 1)).clamp(min=torch.finfo(x.dtype).tiny)
    return low + ((x - low) / step).round() * step


# ------------------------------------------------------------------------------------ counts


def attention_macs(T: int, d_k: int, d_v: int, *, causal: bool = False) -> int:
    r"""Multiply-adds of one head over T tokens: $T^2 (d_k + d_v)$, or $T(T+1)/2$ pairs if causal.

    A multiply-add is one multiplication and one addition: two FLOPs. Softmax and projections are
    not counted.

    Raises:
        TypeError, ValueError: an argument is not an integer of at least 1.
    """
    T, width = positive_int("T", T), positive_int("d_k", d_k) + positive_int("d_v", d_v)
    return (T * (T + 1) // 2 if causal else T * T) * width


def window_macs(T: int, window: int, d_k: int, d_v: int) -> int:
    """Multiply-adds of one causal head with a sliding window: every query meets min(i + 1, W) keys.

    Raises:
        TypeError, ValueError: an argument is not an integer of at least 1.
    """
    W = min(positive_int("window", window), positive_int("T", T))
    pairs = W * (W + 1) // 2 + (T - W) * W
    return pairs * (positive_int("d_k", d_k) + positive_int("d_v", d_v))


def recurrence_macs(T: int, d: int, n: int) -> int:
    """Multiply-adds of a diagonal recurrence, d channels of n states: 3·d·n a token.

    One to decay each state, one to write to it, one to read it.

    Raises:
        TypeError, ValueError: an argument is not an integer of at least 1.
    """
    return 3 * positive_int("T", T) * positive_int("d", d) * positive_int("n", n)


def cache_bytes(layers: int, T: int, heads: int, d_head: int, bytes_each: int = 2) -> int:
    """Size of a KV cache: 2 · layers · T · heads · d_head · bytes (2 for keys and values).

    `heads` counts those that have keys of their own. The default is for 16-bit numbers.

    Raises:
        TypeError, ValueError: an argument is not an integer of at least 1.
    """
    sizes = dict(layers=layers, T=T, heads=heads, d_head=d_head, bytes_each=bytes_each)
    return 2 * math.prod(positive_int(name, size) for name, size in sizes.items())


# ------------------------------------------------------------------------------------ checks


def _require_floating(name: str, x: object) -> None:
    if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name} must be a floating-point torch tensor, got {got}")


def _check(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        _require_floating(name, x)
        min_ndim(name, x, 2, "(..., T, d)")
        if x.dtype != q.dtype:
            raise TypeError(f"q, k and v must share a dtype: q is {q.dtype}, {name} is {x.dtype}")
        if x.shape[:-2] != q.shape[:-2] or 0 in x.shape:
            raise ValueError(
                "q, k and v must have the same leading axes and no empty one, got "
                f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
            )
        finite(name, x)
    same_size("the width of q", q.shape[-1], "the width of k", k.shape[-1])
    same_size("the number of keys", k.shape[-2], "the number of values", v.shape[-2])


def _first_position(q: Tensor, k: Tensor, causal: bool) -> int:
    first = k.shape[-2] - q.shape[-2]
    if causal and first < 0:
        raise ValueError(
            f"causal attention needs at most as many queries as keys, got {q.shape[-2]} and "
            f"{k.shape[-2]}"
        )
    return first
