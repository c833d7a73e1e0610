r"""Attention whose memory is one matrix: linear attention, fast weights and RWKV.

Softmax attention keeps every key and value. Drop the exponential and the sum over the past can be
kept instead of the past (Katharopoulos et al. 2020):

$$ S_t = S_{t-1} + k_t v_t^\top, \qquad o_t = S_t^\top q_t. $$

S has d_k × d_v entries whatever T is. Leading axes, written ``...``, broadcast.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ._shapes import check_arrays


def positive_features(x: Tensor) -> Tensor:
    r"""Feature map $\phi(x) = \mathrm{elu}(x) + 1$, entry by entry: positive, smooth, 1 at 0.

    (Katharopoulos et al. 2020, equation 7.) With positive features the normaliser of
    `linear_attention` is never zero.

    Raises:
        TypeError, ValueError: `x` is not a finite floating-point tensor.
    """
    check_arrays("torch", x=(x, "..."))
    return functional.elu(x) + 1


def linear_attention(q: Tensor, k: Tensor, v: Tensor, *, normalise: bool = True) -> Tensor:
    r"""Causal linear attention as a masked quadratic form, all positions at once.

    $$ o_t = \frac{\sum_{j\le t} (q_t^\top k_j)\,v_j}{\sum_{j\le t} q_t^\top k_j} $$

    Args:
        q, k: queries and keys after the feature map, (..., T, d_k).
        v: values, (..., T, d_v).
        normalise: whether to divide; without, only the numerator.

    Returns:
        (..., T, d_v).

    Raises:
        TypeError: arguments are not floating-point tensors of one dtype.
        ValueError: shapes do not fit, entries are not finite, or a normaliser is not above zero
            (the features must be positive).
    """
    check_arrays("torch", q=(q, "... T d_k"), k=(k, "... T d_k"), v=(v, "... T d_v"))
    scores = (q @ k.mT).tril()  # the quadratic form, and nobody sees the future
    if not normalise:
        return scores @ v
    return scores @ v / _positive(scores.sum(-1, keepdim=True))


def linear_attention_recurrent(
    q: Tensor, k: Tensor, v: Tensor, *, normalise: bool = True
) -> Tensor:
    r"""Compute the same outputs token by token, from a matrix and a vector that never grow.

    $$ S_t = S_{t-1} + k_t v_t^\top, \quad c_t = c_{t-1} + k_t, \quad
       o_t = \frac{S_t^\top q_t}{c_t^\top q_t} $$

    Arguments, result and errors are those of `linear_attention`.
    """
    check_arrays("torch", q=(q, "... T d_k"), k=(k, "... T d_k"), v=(v, "... T d_v"))
    S = torch.zeros_like(k[..., 0, :, None] * v[..., 0, None, :])
    c, outputs = torch.zeros_like(k[..., 0, :]), []
    for t in range(k.shape[-2]):
        S = S + k[..., t, :, None] * v[..., t, None, :]
        c = c + k[..., t, :]
        o = (S.mT @ q[..., t, :, None])[..., 0]
        if normalise:
            o = o / _positive((c * q[..., t, :]).sum(-1, keepdim=True))
        outputs.append(o)
    return torch.stack(outputs, dim=-2)


def store(keys: Tensor, values: Tensor) -> Tensor:
    r"""Sum up all pairs in one matrix, $S = \sum_j k_j v_j^\top$.

    Args:
        keys: (..., n, d_k).
        values: (..., n, d_v).

    Returns:
        S, (..., d_k, d_v), of rank at most min(n, d_k, d_v).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", keys=(keys, "... n d_k"), values=(values, "... n d_v"))
    return keys.mT @ values


def recall(S: Tensor, queries: Tensor) -> Tensor:
    r"""Read the matrix memory, $o = S^\top q$ for every row q.

    Asked with a stored key of length 1, it returns the value plus interference,

    $$ S^\top k_i = v_i + \sum_{j \ne i} (k_j^\top k_i)\,v_j, $$

    which vanishes if the keys are orthogonal: at most d_k keys can be.

    Args:
        S: (..., d_k, d_v).
        queries: (..., m, d_k).

    Returns:
        (..., m, d_v).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("torch", S=(S, "... d_k d_v"), queries=(queries, "... m d_k"))
    return queries @ S


def delta_write(S: Tensor, k: Tensor, v: Tensor) -> Tensor:
    r"""Write by correction: what the memory holds under k is replaced by v (Schlag et al. 2021).

    $$ S' = S + k\,(v - S^\top k)^\top, \qquad \lVert k\rVert = 1 $$

    Afterwards $S'^\top k = v$ exactly, whatever S held; keys orthogonal to k notice nothing.

    Args:
        S: (..., d_k, d_v).
        k: (..., d_k), of length 1.
        v: (..., d_v).

    Returns:
        (..., d_k, d_v).

    Raises:
        TypeError, ValueError: arguments are not as stated, or a key's length is not 1.
    """
    check_arrays("torch", S=(S, "... d_k d_v"), k=(k, "... d_k"), v=(v, "... d_v"))
    length = torch.linalg.vector_norm(k, dim=-1)
    if not bool(((length - 1).abs() < 1e-4).all()):
        raise ValueError(f"k must have length 1, got {length.tolist()}")
    held = (S.mT @ k[..., None])[..., 0]
    return S + k[..., :, None] * (v - held)[..., None, :]


def wkv(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor) -> Tensor:
    r"""RWKV's weighted average of values, by a recurrence that no exponent can overflow.

    $$ o_t = \frac{\sum_{j<t} e^{-(t-1-j)w + k_j}\,v_j + e^{u + k_t}\,v_t}
                  {\sum_{j<t} e^{-(t-1-j)w + k_j} + e^{u + k_t}} $$

    for every channel on its own (Peng et al. 2023). Numerator a and denominator b are
    kept as $a e^{-m}$ and $b e^{-m}$ with a running exponent m, the largest so far: the trick of
    the stable softmax, carried along in time.

    Args:
        k, v: (..., T, D), real; k may be as large as the dtype allows.
        decay: w, (D,), not below zero.
        bonus: u, (D,).

    Returns:
        (..., T, D): for every channel a weighted mean of its values.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    _check_wkv(k, v, decay, bonus)
    a, b = torch.zeros_like(v[..., 0, :]), torch.zeros_like(v[..., 0, :])
    m, outputs = torch.full_like(a, torch.finfo(k.dtype).min / 4), []
    for k_t, v_t in zip(k.unbind(-2), v.unbind(-2), strict=True):
        top = torch.maximum(m, bonus + k_t)
        past, now = (m - top).exp(), (bonus + k_t - top).exp()
        outputs.append((past * a + now * v_t) / (past * b + now))
        top = torch.maximum(m - decay, k_t)  # now age the past by a step, and add the token
        past, now = (m - decay - top).exp(), (k_t - top).exp()
        a, b, m = past * a + now * v_t, past * b + now, top
    return torch.stack(outputs, dim=-2)


def wkv_direct(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor) -> Tensor:
    """Compute `wkv` from its definition: a softmax over the T exponents of every query.

    Arguments, result and errors are those of `wkv`; it takes O(T²) memory.
    """
    _check_wkv(k, v, decay, bonus)
    t = torch.arange(k.shape[-2])
    lag = (t[:, None] - t[None, :])[..., None]  # (T, T, 1)
    aged = -(lag - 1) * decay + k[..., None, :, :]  # (..., T, T, D)
    exponent = torch.where(lag == 0, bonus + k[..., None, :, :], aged)
    exponent = exponent.masked_fill(lag < 0, -torch.inf)
    return (exponent.softmax(-2) * v[..., None, :, :]).sum(-2)


def _positive(normaliser: Tensor) -> Tensor:
    if not bool((normaliser > 0).all()):
        raise ValueError(
            "a normaliser is not above zero: q and k must be positive features "
            "(see positive_features), or pass normalise=False"
        )
    return normaliser


def _check_wkv(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor) -> None:
    check_arrays(
        "torch", k=(k, "... T D"), v=(v, "... T D"), decay=(decay, "D"), bonus=(bonus, "D")
    )
    if not bool((decay >= 0).all()):
        raise ValueError(f"decay must not be below zero, got {decay.min().item()}")
