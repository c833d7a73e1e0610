"""Attention against PyTorch's own, closed forms, and the properties that the book states."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from torch import nn

from book_utils.attention import (
    MultiHeadAttention,
    TransformerBlock,
    attention_parameter_count,
    block_parameter_count,
    causal_mask,
    effective_tokens,
    entropy,
    gradient_by_lag,
    merge_heads,
    multi_head_attention,
    scaled_dot_product_attention,
    seeded_linear,
    softmax,
    softmax_jacobian,
    split_heads,
    window_mask,
)

PROPERTY = settings(deadline=None, max_examples=30, derandomize=True)
F64 = torch.float64
SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 10_000)


def normal(*shape, seed=0, dtype=F64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def qkv(T, d_k, d_v, seed=0, dtype=F64, T_k=None):
    rng = np.random.default_rng(seed)
    shapes = ((T, d_k), (T_k or T, d_k), (T_k or T, d_v))
    return tuple(torch.from_numpy(rng.normal(size=s)).to(dtype) for s in shapes)


def close(a, b, atol=1e-12, rtol=0.0):
    torch.testing.assert_close(a, b, atol=atol, rtol=rtol)


# softmax


def test_softmax_matches_scipy_along_each_axis():
    scores = normal(3, 4, 5, seed=1) * 10
    for dim in (-1, 0, 1):
        expected = scipy.special.softmax(scores.numpy(), axis=dim)
        np.testing.assert_allclose(softmax(scores, dim=dim), expected, atol=1e-15)


def test_softmax_survives_scores_that_overflow():
    huge = torch.tensor([1e4, 0.0, -1e4], dtype=torch.float32)
    assert softmax(huge).tolist() == [1.0, 0.0, 0.0]
    assert softmax(torch.full((4,), 1e4)).tolist() == [0.25] * 4
    assert softmax(torch.full((4,), -1e4)).tolist() == [0.25] * 4


@PROPERTY
@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=8), st.floats(-1e4, 1e4))
def test_softmax_ignores_a_common_shift(scores, shift):
    s = torch.tensor(scores, dtype=F64)
    close(softmax(s + shift), softmax(s), atol=1e-11)
    close(softmax(s).sum(), torch.tensor(1.0, dtype=F64))


def test_softmax_gives_minus_infinity_no_weight():
    assert softmax(torch.tensor([0.0, -math.inf, 0.0])).tolist() == [0.5, 0.0, 0.5]
    assert softmax(torch.tensor([-0.0, 0.0])).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, F64])
def test_softmax_keeps_its_dtype_and_agrees_with_torch(dtype):
    scores = (normal(5, 9, seed=2) * 3).to(dtype)
    weights = softmax(scores)
    assert weights.dtype == dtype
    close(weights, torch.softmax(scores, dim=-1), atol=2 * torch.finfo(dtype).eps)


def test_softmax_gradient_equals_torchs_even_at_ties():
    scores = torch.tensor([[1.0, 1.0, -2.0], [0.3, 0.2, 0.1]], dtype=F64, requires_grad=True)
    probe = normal(2, 3, seed=3)
    (ours,) = torch.autograd.grad((softmax(scores) * probe).sum(), scores)
    (theirs,) = torch.autograd.grad((torch.softmax(scores, -1) * probe).sum(), scores)
    close(ours, theirs)
    assert torch.autograd.gradgradcheck(softmax, (scores,))


# diagnostics of a row of weights


def test_entropy_matches_scipy():
    w = softmax(normal(3, 7, seed=4) * 2)
    np.testing.assert_allclose(entropy(w), scipy.stats.entropy(w.numpy(), axis=-1), atol=1e-14)


def test_entropy_has_finite_gradients_at_masked_tokens():
    scores = normal(4, 4).requires_grad_()
    weights = softmax(scores.masked_fill(~causal_mask(4), -math.inf))
    weights.retain_grad()
    (entropy(weights).sum() + effective_tokens(weights).sum()).backward()
    for grad in (scores.grad, weights.grad):
        assert grad is not None
        assert bool(grad.isfinite().all())
        assert bool((grad[~causal_mask(4)] == 0).all())
        assert bool((grad[1:].tril(1) != 0).any())

    def of_seen(s):  # row 2, over the three tokens that it may see
        return entropy(softmax(s)).sum()

    seen = scores.detach()[2, :3].requires_grad_()
    assert torch.autograd.gradcheck(of_seen, (seen,))
    row = scores.detach()[2].requires_grad_()
    of_seen(row.masked_fill(~causal_mask(4)[2], -math.inf)).backward()
    of_seen(seen).backward()
    close(row.grad[:3], seen.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_do_not_overflow(dtype):
    weights = softmax(torch.zeros(70_000, dtype=dtype))
    assert weights.dtype == dtype
    assert weights.double().sum().item() == pytest.approx(1.0, abs=0.01)
    assert entropy(weights).item() == pytest.approx(math.log(70_000), rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("excess", [0.9, 1.1])
def test_half_precision_rows_must_sum_to_one(dtype, excess):
    uniform = torch.full((1000,), 1 / 1000, dtype=dtype)
    assert entropy(uniform).item() == pytest.approx(math.log(1000), rel=0.01)
    with pytest.raises(ValueError, match="sum to one"):
        entropy(excess * uniform)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_effective_tokens_counts_equal_shares(m):
    w = torch.zeros(8, dtype=F64)
    w[:m] = 1 / m
    assert effective_tokens(w).item() == pytest.approx(m, abs=1e-12)


@PROPERTY
@given(st.integers(1, 9), SEEDS, st.floats(0, 50))
def test_effective_tokens_lie_between_one_and_n(n, seed, sharpness):
    count = effective_tokens(softmax(normal(n, seed=seed) * sharpness)).item()
    assert 1 - 1e-12 <= count <= n + 1e-12


def test_softmax_jacobian_is_the_derivative():
    scores = normal(5, seed=5)
    expected = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), scores)
    close(softmax_jacobian(softmax(scores)), expected)


@PROPERTY
@given(st.integers(1, 7), SEEDS)
def test_softmax_jacobian_is_symmetric_with_zero_rows(n, seed):
    J = softmax_jacobian(softmax(normal(2, n, seed=seed) * 3))
    assert J.shape == (2, n, n)
    close(J, J.mT)
    close(J.sum(dim=-1), torch.zeros(2, n, dtype=F64))
    assert torch.linalg.eigvalsh(J).min() >= -1e-12  # a covariance matrix


def test_softmax_jacobian_vanishes_at_a_vertex():
    assert softmax_jacobian(torch.tensor([0.0, 1.0, 0.0])).abs().max() == 0.0


# masks


def test_causal_mask_is_the_lower_triangle():
    assert causal_mask(3).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert causal_mask(1).tolist() == [[True]]
    assert causal_mask(2).dtype == torch.bool


@PROPERTY
@given(st.integers(1, 9), st.integers(1, 12))
def test_window_mask_sees_exactly_its_lags(T, window):
    mask = window_mask(T, window)
    for i in range(T):
        for j in range(T):
            assert mask[i, j].item() == (0 <= i - j <= window - 1)
    if window >= T:
        assert torch.equal(mask, causal_mask(T))


# scaled dot-product attention


@PROPERTY
@given(SIZES, SIZES, SIZES, SIZES, SEEDS)
def test_sdpa_matches_torch(T_q, T_k, d_k, d_v, seed):
    q, k, v = qkv(T_q, d_k, d_v, seed, T_k=T_k)
    out, weights = scaled_dot_product_attention(q, k, v)
    close(out, F.scaled_dot_product_attention(q, k, v))
    close(out, weights @ v)


@pytest.mark.parametrize("mask", [causal_mask(6), window_mask(6, 2)], ids=["causal", "window"])
def test_sdpa_mask_matches_torch(mask):
    q, k, v = (normal(2, 3, 6, 4, seed=s) for s in range(3))
    out, weights = scaled_dot_product_attention(q, k, v, mask=mask)
    close(out, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    assert weights.shape == (2, 3, 6, 6)
    assert (weights[..., ~mask] == 0).all()
    assert (weights[..., mask] > 0).all()


def test_sdpa_default_scale_is_one_over_root_d_k():
    q = torch.tensor([[3.0, 4.0, 0.0, 0.0]], dtype=F64)
    k = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]], dtype=F64)
    _, weights = scaled_dot_product_attention(q, k, k)
    # Scores 3/2 and 4/2: odds e^0.5.
    assert (weights[0, 1] / weights[0, 0]).item() == pytest.approx(math.exp(0.5))
    _, sharp = scaled_dot_product_attention(q, k, k, scale=2.0)
    assert (sharp[0, 1] / sharp[0, 0]).item() == pytest.approx(math.exp(2.0))
    _, flat = scaled_dot_product_attention(q, k, k, scale=-0.0)
    assert flat.tolist() == [[0.5, 0.5]]


@PROPERTY
@given(SIZES, SIZES, SEEDS, st.floats(0, 30))
def test_sdpa_weights_are_a_distribution(T, d, seed, scale):
    _, weights = scaled_dot_product_attention(*qkv(T, d, 2, seed), scale=scale)
    assert (weights >= 0).all()
    close(weights.sum(dim=-1), torch.ones(T, dtype=F64))


@PROPERTY
@given(st.integers(3, 7), SEEDS, st.floats(0.1, 20))
def test_sdpa_outputs_lie_in_the_convex_hull(T, seed, scale):
    q, k, v = qkv(T, 3, 2, seed)
    out, _ = scaled_dot_product_attention(q, k, v, scale=scale)
    faces = torch.from_numpy(ConvexHull(v.numpy()).equations)  # normal·x + offset ≤ 0 inside
    assert (out @ faces[:, :2].T + faces[:, 2] <= 1e-9).all()


@PROPERTY
@given(SIZES, SIZES, SEEDS)
def test_sdpa_is_permutation_equivariant(T, d, seed):
    q, k, v = qkv(T, d, 3, seed)
    order = torch.from_numpy(np.random.default_rng(seed + 1).permutation(T))
    out, weights = scaled_dot_product_attention(q, k, v)
    moved, moved_weights = scaled_dot_product_attention(q[order], k[order], v[order])
    close(moved, out[order])
    close(moved_weights, weights[order][:, order])


def test_sdpa_causal_mask_breaks_equivariance_unless_all_tokens_are_equal():
    x = normal(5, 3, seed=6)
    order = torch.tensor([4, 2, 0, 1, 3])
    mask = causal_mask(5)
    out, _ = scaled_dot_product_attention(x, x, x, mask=mask)
    moved, _ = scaled_dot_product_attention(x[order], x[order], x[order], mask=mask)
    assert (moved - out[order]).abs().max() > 0.1
    same = x[:1].expand(5, 3)
    out, _ = scaled_dot_product_attention(same, same, same, mask=mask)
    close(out, same)


def future_leak(attend, T, d, seed):
    """Largest change of outputs ≤ t, and largest gradient of them, due to tokens > t."""
    x = normal(T, d, seed=seed).requires_grad_()
    worst = 0.0
    for t in range(T - 1):
        changed = x.detach().clone()
        changed[t + 1 :] = normal(T - t - 1, d, seed=seed + 1) * 100
        before, after = attend(x)[: t + 1], attend(changed)[: t + 1]
        (gradient,) = torch.autograd.grad(before.pow(2).sum(), x)
        worst = max(
            worst, (before - after).abs().max().item(), gradient[t + 1 :].abs().max().item()
        )
    return worst


@PROPERTY
@given(st.integers(2, 6), SIZES, SEEDS)
def test_sdpa_future_cannot_change_the_past(T, d, seed):
    def attend(x):
        return scaled_dot_product_attention(x, x, x, mask=causal_mask(T))[0]

    assert future_leak(attend, T, d, seed) == 0.0


def test_future_leak_detector_sees_a_leak():
    def unmasked(x):
        return scaled_dot_product_attention(x, x, x)[0]

    assert future_leak(unmasked, 4, 3, 0) > 0.01


def test_sdpa_gradients_match_finite_differences():
    inputs = tuple(x.requires_grad_() for x in qkv(4, 3, 2, seed=7))
    assert torch.autograd.gradcheck(
        lambda q, k, v: scaled_dot_product_attention(q, k, v, mask=causal_mask(4)), inputs
    )


def test_sdpa_single_token_and_single_width():
    q, k, v = qkv(1, 1, 1, seed=8)
    out, weights = scaled_dot_product_attention(q, k, v, mask=causal_mask(1))
    assert weights.tolist() == [[1.0]]
    assert torch.equal(out, v)


@pytest.mark.parametrize("big", [1e4, -1e4])
def test_sdpa_scores_of_ten_thousand(big):
    q = torch.tensor([[big]], dtype=torch.float32, requires_grad=True)
    k = torch.tensor([[1.0], [0.0]])
    v = torch.tensor([[5.0], [7.0]])
    out, _ = scaled_dot_product_attention(q, k, v)
    assert out.item() == (5.0 if big > 0 else 7.0)
    out.backward()
    assert q.grad is not None
    assert q.grad.item() == 0.0  # saturated: no gradient, and no NaN


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sdpa_half_precision(dtype):
    q, k, v = qkv(8, 16, 4, seed=9, dtype=dtype)
    out, weights = scaled_dot_product_attention(q, k, v, mask=causal_mask(8))
    assert out.dtype == weights.dtype == dtype
    exact, _ = scaled_dot_product_attention(q.double(), k.double(), v.double(), mask=causal_mask(8))
    close(out.double(), exact, atol=20 * torch.finfo(dtype).eps)


def test_sdpa_half_precision_needs_room_for_the_scaled_scores_only():
    q = torch.full((3, 64), 50.0, dtype=torch.float16)  # q·k = 160,000, scaled 20,000
    out, weights = scaled_dot_product_attention(q, q, q)
    close(weights.double(), torch.full((3, 3), 1 / 3, dtype=torch.float64), atol=1e-3)
    close(out.double(), q.double(), atol=0.1)


def test_sdpa_half_precision_overflow_is_an_error():
    q = torch.full((1, 4), 200.0, dtype=torch.float16)
    with pytest.raises(ValueError, match="scores that are NaN or infinite"):
        scaled_dot_product_attention(q, q, q)


def test_sdpa_empty_batch_and_no_queries():
    q, k, v = torch.zeros(0, 3, 2), torch.zeros(0, 5, 2), torch.zeros(0, 5, 4)
    out, weights = scaled_dot_product_attention(q, k, v)
    assert out.shape == (0, 3, 4)
    assert weights.shape == (0, 3, 5)
    out, weights = scaled_dot_product_attention(
        torch.zeros(0, 2), *qkv(5, 2, 4, dtype=torch.float32)[1:]
    )
    assert out.shape == (0, 4)
    assert weights.shape == (0, 5)


def test_sdpa_broadcasts_leading_axes():
    q, k, v = normal(2, 3, 4, 5), normal(1, 3, 4, 5, seed=1), normal(3, 4, 6, seed=2)
    out, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(4))
    close(out[1, 2], scaled_dot_product_attention(q[1, 2], k[0, 2], v[2], mask=causal_mask(4))[0])


# heads


def test_split_and_merge_heads_undo_each_other():
    x = torch.arange(24.0).reshape(1, 3, 8)
    parts = split_heads(x, 4)
    assert parts.shape == (1, 4, 3, 2)
    assert torch.equal(parts[0, 1], x[0, :, 2:4])
    assert torch.equal(merge_heads(parts), x)


def test_multi_head_attention_is_one_attention_for_each_slice():
    q, k, v = (normal(2, 5, 6, seed=s) for s in range(3))
    out, weights = multi_head_attention(q, k, v, heads=3, mask=causal_mask(5))
    for r in range(3):
        cut = slice(2 * r, 2 * r + 2)
        o, w = scaled_dot_product_attention(
            q[..., cut], k[..., cut], v[..., cut], mask=causal_mask(5)
        )
        close(out[..., cut], o)
        close(weights[:, r], w)


def test_multi_head_attention_takes_a_mask_for_each_sequence():
    q, k, v = (normal(2, 4, 6, seed=s) for s in range(3))
    masks = torch.stack((causal_mask(4), window_mask(4, 2)))
    out, weights = multi_head_attention(q, k, v, heads=2, mask=masks)
    for b in range(2):
        o, w = multi_head_attention(q[b], k[b], v[b], heads=2, mask=masks[b])
        close(out[b], o)
        close(weights[b], w)


@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_mha_matches_torch_with_copied_weights(heads, bias, causal):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, heads, bias=bias, batch_first=True)
    if bias:
        nn.init.uniform_(theirs.in_proj_bias)
        nn.init.uniform_(theirs.out_proj.bias)
    theirs = theirs.double()
    ours = MultiHeadAttention(8, heads, bias=bias).double().load_torch(theirs)
    x = normal(3, 5, 8)
    mask = causal_mask(5) if causal else None
    opposite = None if mask is None else ~mask  # True = may not attend, over there
    for other in (theirs, ours.to_torch()):
        out, weights = other(x, x, x, attn_mask=opposite, average_attn_weights=False)
        own_out, own_weights = ours(x, mask)
        close(own_out, out)
        close(own_weights, weights)


def test_mha_mask_of_the_other_convention_fails():
    ours = MultiHeadAttention(4, 1)
    with pytest.raises(ValueError, match="no key at all for the query at"):
        ours(torch.zeros(3, 4), ~causal_mask(3))


@PROPERTY
@given(st.integers(2, 6), SEEDS, st.booleans())
def test_block_future_cannot_change_the_past(T, seed, pre_norm):
    block = TransformerBlock(4, 2, 6, pre_norm, seed=seed).double()
    assert future_leak(lambda x: block(x, causal_mask(T))[0], T, 4, seed) == 0.0


@PROPERTY
@given(SIZES, SEEDS, st.booleans())
def test_block_is_permutation_equivariant(T, seed, pre_norm):
    block = TransformerBlock(4, 2, 6, pre_norm, seed=seed).double()
    x = normal(T, 4, seed=seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(T))
    close(block(x[order])[0], block(x)[0][order])


@pytest.mark.parametrize("pre_norm", [True, False])
def test_block_matches_torchs_encoder_layer(pre_norm):
    block = TransformerBlock(8, 2, 12, pre_norm, seed=1).double()
    with torch.no_grad():
        for p in block.parameters():  # move norms and biases off their trivial first values
            p += 0.1 * normal(*p.shape, seed=p.numel())
    layer = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation="gelu", batch_first=True, norm_first=pre_norm
    ).double()
    layer.self_attn = block.attention.to_torch()
    layer.linear1, layer.linear2 = block.mlp[0], block.mlp[2]
    layer.norm1, layer.norm2 = block.norm_attention, block.norm_mlp
    x, mask = normal(3, 5, 8), causal_mask(5)
    close(block(x, mask)[0], layer(x, src_mask=~mask))


def test_block_pre_norm_leaves_the_residual_path_alone():
    block = TransformerBlock(4, 1, 8)
    with torch.no_grad():
        for p in (block.attention.output.weight, block.mlp[2].weight):
            p.zero_()
    x = normal(3, 4, dtype=torch.float32) * 50
    assert torch.equal(block(x)[0], x)


def test_block_weights_shape_and_batches():
    block = TransformerBlock(6, 3, 5)
    x = normal(2, 4, 6, dtype=torch.float32)
    out, weights = block(x, causal_mask(4))
    assert out.shape == (2, 4, 6)
    assert weights.shape == (2, 3, 4, 4)
    close(out[1], block(x[1], causal_mask(4))[0], atol=1e-6)
    assert block(x[:0], causal_mask(4))[0].shape == (0, 4, 6)
    assert block(x[:, :1], causal_mask(1))[0].shape == (2, 1, 6)


def test_mha_seeds():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    a, b, c = (MultiHeadAttention(8, 2, seed=s) for s in (1, 1, 2))
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.query.weight, c.query.weight)
    assert not torch.equal(a.query.weight, a.key.weight)
    rng = np.random.default_rng(1)
    first, second = MultiHeadAttention(8, 2, seed=rng), MultiHeadAttention(8, 2, seed=rng)
    assert torch.equal(first.query.weight, a.query.weight)
    assert not torch.equal(first.query.weight, second.query.weight)
    assert torch.equal(before, torch.get_rng_state())


def test_seeded_linear_keeps_unit_variance():
    layer = seeded_linear(400, 300, seed=0)
    y = layer(normal(500, 400, dtype=torch.float32))
    assert y.std().item() == pytest.approx(1.0, abs=0.02)
    assert layer.bias.abs().max() == 0
    assert seeded_linear(2, 3, bias=False).bias is None


@pytest.mark.parametrize(("d", "heads", "d_ff"), [(1, 1, 1), (4, 2, 7), (16, 1, 48)])
@pytest.mark.parametrize("bias", [True, False])
def test_parameter_counts_by_counting(d, heads, d_ff, bias):
    attention = MultiHeadAttention(d, heads, bias=bias)
    block = TransformerBlock(d, heads, d_ff)
    counted = [sum(p.numel() for p in m.parameters()) for m in (attention, block)]
    assert counted == [attention_parameter_count(d, bias=bias), block_parameter_count(d, d_ff)]


def test_parameter_counts_of_the_experiment():
    assert attention_parameter_count(16) == 1_088
    assert block_parameter_count(16, 48) == 1_088 + 1_600 + 64


# gradients by lag


def test_gradient_by_lag_of_a_linear_recurrence_is_its_power():
    A = torch.tensor([[0.8, 0.3], [-0.3, 0.8]], dtype=F64)

    def recurrence(x):
        h, states = torch.zeros(2, dtype=F64), []
        for x_t in x:
            h = A @ h + x_t
            states.append(h)
        return torch.stack(states)

    expected = [torch.linalg.matrix_norm(torch.linalg.matrix_power(A, k)) for k in range(6)]
    close(gradient_by_lag(recurrence, normal(6, 2)), torch.stack(expected))


def test_gradient_by_lag_of_uniform_attention_is_flat():
    def average(x):
        zeros = torch.zeros(len(x), 1, dtype=F64)
        return scaled_dot_product_attention(zeros, zeros, x, mask=causal_mask(len(x)))[0]

    norms = gradient_by_lag(average, normal(5, 3))
    close(norms, torch.full((5,), math.sqrt(3) / 5, dtype=F64))


def test_gradient_by_lag_puts_lag_zero_first():
    norms = gradient_by_lag(lambda x: 3 * x, normal(4, 1))
    assert norms.tolist() == [3.0, 0.0, 0.0, 0.0]


# bad input

X = torch.zeros(3, 4)
NAN = torch.full((3, 4), math.nan)
INTS = torch.zeros(3, 4, dtype=torch.int64)
attend = scaled_dot_product_attention
MHA = MultiHeadAttention(4, 2)
BAD = {
    "softmax list": (lambda: softmax([1.0]), TypeError, "scores must be a torch tensor, got list"),
    "softmax ints": (lambda: softmax(INTS), TypeError, "scores must hold floating"),
    "softmax nan": (lambda: softmax(NAN), ValueError, "finite maximum"),
    "softmax inf": (lambda: softmax(torch.tensor([0.0, math.inf])), ValueError, "finite maximum"),
    "softmax all -inf": (lambda: softmax(torch.tensor([-math.inf])), ValueError, "no key"),
    "softmax empty": (lambda: softmax(torch.zeros(2, 0)), ValueError, "no entry along axis -1"),
    "softmax scalar": (lambda: softmax(torch.tensor(1.0)), ValueError, r"shape \(\.\.\., n\)"),
    "softmax dim": (lambda: softmax(X, dim=2), ValueError, "dim is 2"),
    "causal 0": (lambda: causal_mask(0), ValueError, "T must be at least 1"),
    "causal float": (lambda: causal_mask(2.0), TypeError, "T must be an integer"),
    "window 0": (lambda: window_mask(3, 0), ValueError, "window must be at least 1"),
    "window bool": (lambda: window_mask(3, True), TypeError, "window must be an integer"),
    "entropy scores": (lambda: entropy(torch.tensor([1.0, 2.0])), ValueError, "sum to one"),
    "entropy negative": (lambda: entropy(torch.tensor([1.5, -0.5])), ValueError, "non-negative"),
    "entropy nan": (lambda: entropy(NAN), ValueError, "non-negative"),
    "entropy list": (lambda: entropy([1.0]), TypeError, "weights must be a torch tensor"),
    "effective": (lambda: effective_tokens(X), ValueError, "sum to one"),
    "jacobian": (lambda: softmax_jacobian(X), ValueError, "sum to one"),
    "jacobian scalar": (lambda: softmax_jacobian(torch.tensor(1.0)), ValueError, "shape"),
    "sdpa list": (lambda: attend([[1.0]], X, X), TypeError, "q must be a torch tensor"),
    "sdpa ints": (lambda: attend(INTS, INTS, INTS), TypeError, "q must hold floating"),
    "sdpa dtypes": (lambda: attend(X, X.double(), X), TypeError, "k is torch.float64"),
    "sdpa one axis": (lambda: attend(X[0], X, X), ValueError, r"q must have shape"),
    "sdpa widths": (lambda: attend(X, X[:, :3], X), ValueError, "width of k is 3"),
    "sdpa lengths": (lambda: attend(X, X, X[:2]), ValueError, "number of values is 2"),
    "sdpa d_k 0": (lambda: attend(X[:, :0], X[:, :0], X), ValueError, "d_k must be at least 1"),
    "sdpa no key": (lambda: attend(X, X[:0], X[:0]), ValueError, "T_k must be at least 1"),
    "sdpa batch": (
        lambda: attend(X.expand(2, 3, 4), X.expand(5, 3, 4), X),
        ValueError,
        "leading axes",
    ),
    "sdpa nan q": (lambda: attend(NAN, X, X), ValueError, "scores that are NaN"),
    "sdpa nan v": (lambda: attend(X, X, NAN), ValueError, "v must be finite"),
    "sdpa scale": (lambda: attend(X, X, X, scale=math.nan), ValueError, "scale must be finite"),
    "sdpa scale huge": (lambda: attend(X, X, X, scale=10**400), ValueError, "scale must be finite"),
    "sdpa scale str": (lambda: attend(X, X, X, scale="1"), TypeError, "scale must be a real"),
    "mask floats": (lambda: attend(X, X, X, mask=torch.ones(3, 3)), TypeError, "boolean tensor"),
    "mask list": (lambda: attend(X, X, X, mask=[True]), TypeError, "got list"),
    "mask shape": (lambda: attend(X, X, X, mask=causal_mask(4)), ValueError, "does not broadcast"),
    "mask empty row": (
        lambda: attend(X, X, X, mask=causal_mask(3).triu(1)),
        ValueError,
        r"query at \(0,\)",
    ),
    "split heads": (lambda: split_heads(X, 3), ValueError, "4 is not a multiple of 3"),
    "split list": (lambda: split_heads([[1.0, 2.0]], 2), TypeError, "x must be a torch tensor"),
    "merge list": (lambda: merge_heads([1.0]), TypeError, "x must be a torch tensor"),
    "split one axis": (lambda: split_heads(X[0], 2), ValueError, "x must have shape"),
    "merge": (lambda: merge_heads(X), ValueError, "heads, T, d_head"),
    "heads 0": (lambda: MultiHeadAttention(4, 0), ValueError, "heads must be at least 1"),
    "heads": (lambda: MultiHeadAttention(4, 3), ValueError, "not a multiple of 3"),
    "width": (lambda: MultiHeadAttention(0, 1), ValueError, "d must be at least 1"),
    "seed None": (lambda: MultiHeadAttention(4, 1, seed=None), TypeError, "seed must be an int"),
    "multi heads": (
        lambda: multi_head_attention(X, X, X, heads=3),
        ValueError,
        "not a multiple of 3",
    ),
    "multi widths": (
        lambda: multi_head_attention(X, X[:, :2], X, heads=2),
        ValueError,
        "width of k is 2",
    ),
    "mha width": (lambda: MHA(torch.zeros(3, 5)), ValueError, "width of x is 5"),
    "mha array": (lambda: MHA(np.zeros((3, 4))), TypeError, "x must be a torch tensor"),
    "mha dtype": (lambda: MHA(X.double()), TypeError, "dtype torch.float32, got torch.float64"),
    "mha one axis": (lambda: MHA(torch.zeros(4)), ValueError, "x must have shape"),
    "copy width": (lambda: MHA.load_torch(nn.MultiheadAttention(8, 2)), ValueError, "embed_dim is"),
    "copy heads": (lambda: MHA.load_torch(nn.MultiheadAttention(4, 1)), ValueError, "num_heads"),
    "copy bias": (
        lambda: MHA.load_torch(nn.MultiheadAttention(4, 2, bias=False)),
        ValueError,
        "has biases",
    ),
    "copy extras": (
        lambda: MHA.load_torch(nn.MultiheadAttention(4, 2, kdim=3)),
        ValueError,
        "no match",
    ),
    "copy dropout": (
        lambda: MHA.load_torch(nn.MultiheadAttention(4, 2, dropout=0.5)),
        ValueError,
        "dropout, which have no match",
    ),
    "block dtype": (
        lambda: TransformerBlock(4, 1, 3)(X.double()),
        TypeError,
        "dtype torch.float32, got torch.float64",
    ),
    "block width": (lambda: TransformerBlock(4, 1, 3)(torch.zeros(2, 5)), ValueError, "width"),
    "block d_ff": (lambda: TransformerBlock(4, 1, 0), ValueError, "d_ff must be at least 1"),
    "linear": (lambda: seeded_linear(0, 2), ValueError, "d_in must be at least 1"),
    "linear float": (lambda: seeded_linear(2, 2.0), TypeError, "d_out must be an integer"),
    "count d": (lambda: attention_parameter_count(0), ValueError, "d must be at least 1"),
    "count d_ff": (lambda: block_parameter_count(4, -1), ValueError, "d_ff must be at least 1"),
    "lag shape": (lambda: gradient_by_lag(lambda x: x, X[None]), ValueError, r"shape \(T, d\)"),
    "lag ints": (lambda: gradient_by_lag(lambda x: x, INTS), TypeError, "floating"),
    "lag output": (lambda: gradient_by_lag(lambda x: x[1:], X), ValueError, "layer must return"),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
