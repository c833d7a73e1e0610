"""Tiled, cached and chunked attention equal the dense one; bounded memories lose what they should."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import efficient_attention as ea
from book_utils.attention import causal_mask, scaled_dot_product_attention, window_mask

sizes = st.integers(1, 9)
steady = settings(deadline=None, max_examples=40, derandomize=True)


def draw(seed, *shape, scale=1.0):
    return torch.tensor(scale * np.random.default_rng(seed).normal(size=shape))


# ------------------------------------------------------------------------------------- tiles


@steady
@given(
    T_q=sizes, T_k=sizes, block=st.integers(1, 11), scale=st.sampled_from([0.0, 1.0, 60.0]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_tiled_equals_dense(T_q, T_k, block, scale, seed):
    q, k = draw(seed, 2, T_q, 3, scale=scale), draw(seed + 1, 2, T_k, 3)
    v = draw(seed + 2, 2, T_k, 4)
    expected = F.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(ea.tiled_attention(q, k, v, block=block), expected)


@steady
@given(T_q=sizes, before=st.integers(0, 7), block=st.integers(1, 17), seed=st.integers(0, 99))
def test_tiled_causal_equals_dense_with_the_last_rows_of_the_mask(T_q, before, block, seed):
    T_k = T_q + before
    q, k, v = draw(seed, T_q, 3), draw(seed + 1, T_k, 3), draw(seed + 2, T_k, 2)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(T_k)[-T_q:])
    torch.testing.assert_close(ea.tiled_attention(q, k, v, block=block, causal=True), expected)


def test_tiled_survives_scores_that_overflow():
    q, k = torch.tensor([[200.0]]), torch.tensor([[1.0], [2.0], [-3.0]])
    found = ea.tiled_attention(q, k, torch.tensor([[1.0], [5.0], [9.0]]), block=1)
    torch.testing.assert_close(found, torch.tensor([[5.0]]))


def test_tiled_half_precision_is_widened():
    x = torch.zeros(1, 1, dtype=torch.float16)
    values = torch.ones(70_000, 1, dtype=torch.float16)  # a float16 sum would overflow
    found = ea.tiled_attention(x, torch.zeros_like(values), values, block=7000)
    assert found.dtype == torch.float16
    assert found.item() == 1


def test_tiled_causal_ignores_later_tiles():
    q, k, v = draw(0, 8, 3), draw(1, 8, 3), draw(2, 8, 3)
    before = ea.tiled_attention(q, k, v, block=3, causal=True)
    k[5:], v[5:] = 1e6, 1e6
    torch.testing.assert_close(ea.tiled_attention(q, k, v, block=3, causal=True)[:5], before[:5])


def test_tiled_is_differentiable():
    q, k, v = (draw(i, 5, 3).requires_grad_() for i in range(3))
    ours = torch.autograd.grad(ea.tiled_attention(q, k, v, block=2).square().sum(), (q, k, v))
    dense = F.scaled_dot_product_attention(q, k, v).square().sum()
    for own, expected in zip(ours, torch.autograd.grad(dense, (q, k, v)), strict=True):
        torch.testing.assert_close(own, expected)


def test_online_softmax_does_not_depend_on_the_tiles():
    scores, v = draw(0, 2, 12, scale=20.0), draw(1, 12, 3)
    start = (torch.full((2, 1), -math.inf), torch.zeros(2, 1), torch.zeros(2, 3))
    start = tuple(x.double() for x in start)
    for cuts in ([0, 12], [0, 1, 12], [0, 5, 6, 9, 12], list(range(13))):
        state = start
        for i, j in itertools.pairwise(cuts):
            state = ea.online_softmax_step(state, scores[:, i:j], v[i:j])
        torch.testing.assert_close(state[2] / state[1], scores.softmax(dim=-1) @ v)
        torch.testing.assert_close(state[0], scores.amax(dim=-1, keepdim=True))


# ------------------------------------------------------------------------------------- cache


@steady
@given(T=sizes, chunk=st.integers(1, 10), seed=st.integers(0, 99))
def test_chunked_equals_one_pass(T, chunk, seed):
    q, k, v = draw(seed, 2, T, 3), draw(seed + 1, 2, T, 3), draw(seed + 2, 2, T, 4)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(ea.chunked_attention(q, k, v, chunk), expected)


def test_decoding_through_a_cache_equals_the_full_pass():
    q, k, v = draw(0, 4, 7, 3), draw(1, 4, 7, 3), draw(2, 4, 7, 2)
    full = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    cache = ea.KVCache(7, 3, 2, lead=(4,), dtype=torch.float64)
    for t in range(7):
        now = slice(t, t + 1)
        row = ea.cached_attention(q[:, now], k[:, now], v[:, now], cache)
        torch.testing.assert_close(row, full[:, now])
        assert len(cache) == t + 1
    torch.testing.assert_close(cache.keys, k)
    torch.testing.assert_close(cache.values, v)
    assert cache.bytes == 4 * 7 * (3 + 2) * 8


def test_a_full_cache_refuses():
    cache = ea.KVCache(2, 3, 3)
    cache.append(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match="holds 2 tokens, but 3 are needed"):
        cache.append(torch.ones(1, 3), torch.ones(1, 3))


@pytest.mark.parametrize(("new", "total"), [(1, 1), (1, 6), (4, 6), (6, 6)])
def test_chunk_mask_is_the_end_of_the_causal_mask(new, total):
    assert torch.equal(ea.chunk_mask(new, total), causal_mask(total)[-new:])


def test_a_cached_query_sees_all_keys():
    assert ea.chunk_mask(1, 5).all()


# --------------------------------------------------------------------------- bounded memories


def test_global_mask_adds_columns():
    mask = ea.global_mask(6, 2, 1)
    assert mask[5].tolist() == [True, False, False, False, True, True]
    assert torch.equal(ea.global_mask(6, 2, 0), window_mask(6, 2))
    assert torch.equal(ea.global_mask(6, 1, 6), causal_mask(6))


@steady
@given(T=st.integers(1, 10), window=st.integers(1, 4), layers=st.integers(1, 4))
def test_reachable_within_a_window_is_the_receptive_field(T, window, layers):
    found = ea.reachable(window_mask(T, window), layers)
    assert torch.equal(found, window_mask(T, ea.receptive_field(window, layers)))


@pytest.mark.parametrize("mask", [window_mask(8, 3), ea.global_mask(8, 2, 1), causal_mask(8)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_reachable_is_where_gradients_flow(mask, layers):
    z = draw(0, 8, 3).requires_grad_()
    x = z
    for _ in range(layers):
        x = x + scaled_dot_product_attention(x, x, x, mask=mask)[0]
    for i in range(8):
        (slope,) = torch.autograd.grad(x[i].sum(), z, retain_graph=True)
        assert torch.equal(slope.abs().sum(dim=-1) > 0, ea.reachable(mask, layers)[i])


def test_reachable_counts_the_residual_path():
    assert torch.equal(ea.reachable(torch.zeros(3, 3, dtype=torch.bool), 2), torch.eye(3) > 0)


def test_merging_equal_tokens_is_exact_with_counts_only():
    k, v = draw(0, 3, 4).repeat_interleave(2, dim=0), draw(1, 3, 2).repeat_interleave(2, dim=0)
    k, v = torch.cat([k, draw(2, 1, 4)]), torch.cat([v, draw(3, 1, 2)])  # 2 + 2 + 2 + 1
    q = draw(4, 5, 4)
    keys, values, counts = ea.merge_neighbours(k, v, 2)
    assert counts.tolist() == [2, 2, 2, 1]
    full, _ = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(ea.counted_attention(q, keys, values, counts)[0], full)
    plain, _ = ea.counted_attention(q, keys, values, torch.ones(4))
    assert not torch.allclose(plain, full, atol=1e-3)


def test_merging_keeps_means():
    k, v = draw(0, 2, 6, 3), draw(1, 2, 6, 2)
    keys, values, counts = ea.merge_neighbours(k, v, 3)
    torch.testing.assert_close(keys[:, 1], k[:, 3:].mean(dim=1))
    torch.testing.assert_close(values[:, 0], v[:, :3].mean(dim=1))
    assert counts.tolist() == [3, 3]


def test_counted_weights_sum_to_one():
    _, weights = ea.counted_attention(
        draw(0, 2, 3), draw(1, 4, 3), draw(2, 4, 3), torch.arange(1, 5)
    )
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, dtype=torch.float64))


@steady
@given(bits=st.integers(1, 12), d=st.integers(1, 8), seed=st.integers(0, 99))
def test_quantise_moves_by_half_a_step_and_uses_few_levels(bits, d, seed):
    x = draw(seed, 3, d)
    found = ea.quantise(x, bits)
    span = x.amax(dim=-1, keepdim=True) - x.amin(dim=-1, keepdim=True)
    assert bool(((found - x).abs() <= span / (2 * (2**bits - 1)) * (1 + 1e-9)).all())
    torch.testing.assert_close(ea.quantise(found, bits), found)
    for row, other in zip(found, x, strict=True):
        assert len(row.unique()) <= 2**bits
        assert row.min() == other.min()


def test_quantise_leaves_constant_rows_alone():
    x = torch.full((2, 3), 0.7)
    assert torch.equal(ea.quantise(x, 1), x)


# ------------------------------------------------------------------------------------ counts


def count_macs(mask, d_k, d_v):
    """Multiply-adds by actually counting, pair by pair."""
    return sum(d_k + d_v for allowed in mask.flatten().tolist() if allowed)


@steady
@given(T=sizes, window=st.integers(1, 12), d_k=sizes, d_v=sizes)
def test_counts_are_those_of_the_masks(T, window, d_k, d_v):
    everything = torch.ones(T, T, dtype=torch.bool)
    assert ea.attention_macs(T, d_k, d_v) == count_macs(everything, d_k, d_v)
    assert ea.attention_macs(T, d_k, d_v, causal=True) == count_macs(causal_mask(T), d_k, d_v)
    assert ea.window_macs(T, window, d_k, d_v) == count_macs(window_mask(T, window), d_k, d_v)


def test_recurrence_is_linear():
    assert ea.recurrence_macs(10, 64, 16) == 3 * 10 * 64 * 16


def test_cache_bytes_are_those_of_a_cache():
    cache = ea.KVCache(50, 16, 16, lead=(4,), dtype=torch.float16)
    cache.append(torch.zeros(4, 50, 16), torch.zeros(4, 50, 16))
    assert ea.cache_bytes(1, 50, 4, 16) == cache.bytes
    assert ea.cache_bytes(12, 108_000, 12, 64) == 3_981_312_000


# ------------------------------------------------------------------------------------- errors

x = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ea.tiled_attention(x, torch.ones(3, 4), x), "width of q"),
        (lambda: ea.tiled_attention(x, x, torch.ones(4, 2)), "number of keys"),
        (lambda: ea.tiled_attention(x, x, x, block=0), "block must be at least 1"),
        (lambda: ea.tiled_attention(x, x[:2], x[:2], causal=True), "at most as many queries"),
        (lambda: ea.tiled_attention(x[None], x, x), "same leading axes"),
        (lambda: ea.tiled_attention(x[:0], x, x), "no empty one"),
        (lambda: ea.tiled_attention(x * math.nan, x, x), "q must be finite"),
        (lambda: ea.tiled_attention(x[0], x, x), "q must have shape"),
        (lambda: ea.tiled_attention(x * 1e30, x * 1e30, x), "q and k too large"),
        (lambda: ea.chunked_attention(x, x, x, 0), "chunk must be at least 1"),
        (lambda: ea.cached_attention(x[:1], x, x, ea.KVCache(3, 2, 2)), "number of queries"),
        (lambda: ea.KVCache(3, 2, 2).append(torch.ones(1, 3), torch.ones(1, 2)), "k must have"),
        (lambda: ea.KVCache(3, 2, 2).append(x, x[:2]), "number of values"),
        (lambda: ea.KVCache(0, 2, 2), "capacity must be at least 1"),
        (lambda: ea.chunk_mask(3, 2), "new must be at most total 2"),
        (lambda: ea.global_mask(4, 0, 1), "window must be at least 1"),
        (lambda: ea.global_mask(4, 1, -1), "n_global must be at least 0"),
        (lambda: ea.reachable(torch.ones(2, 3, dtype=torch.bool), 1), "mask must have shape"),
        (lambda: ea.reachable(causal_mask(3), 0), "layers must be at least 1"),
        (lambda: ea.receptive_field(0, 1), "window must be at least 1"),
        (lambda: ea.merge_neighbours(x, x, 0), "group must be at least 1"),
        (lambda: ea.counted_attention(x, x, x, torch.ones(2)), "3 numbers above zero"),
        (lambda: ea.counted_attention(x, x, x, torch.zeros(3)), "3 numbers above zero"),
        (lambda: ea.quantise(x, 17), "bits must be at most 16"),
        (lambda: ea.quantise(x * math.inf, 2), "x must be finite"),
        (lambda: ea.attention_macs(0, 1, 1), "T must be at least 1"),
        (lambda: ea.window_macs(4, 0, 1, 1), "window must be at least 1"),
        (lambda: ea.recurrence_macs(4, 0, 1), "d must be at least 1"),
        (lambda: ea.cache_bytes(1, 2, 3, 0), "d_head must be at least 1"),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ea.tiled_attention(x.int(), x, x), "q must be a floating-point"),
        (lambda: ea.tiled_attention(x, x.double(), x), "share a dtype"),
        (lambda: ea.tiled_attention(x, x, [[1.0]]), "v must be a floating-point"),
        (lambda: ea.reachable(torch.ones(2, 2), 1), "mask must be a boolean"),
        (lambda: ea.quantise(x.int(), 2), "x must be a floating-point"),
        (lambda: ea.attention_macs(2.5, 1, 1), "T must be an integer"),
    ],
)
def test_bad_types_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()
