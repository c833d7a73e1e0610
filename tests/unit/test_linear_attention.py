"""Linear attention and RWKV: recurrences against the sums that they compute."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import linear_attention as la

SEEDS = st.integers(0, 10**6)


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def qkv(seed, T=8, d_k=3, d_v=4, batch=()):
    q, k, v = normal(seed, 3, *batch, T, max(d_k, d_v))
    return la.positive_features(q[..., :d_k]), la.positive_features(k[..., :d_k]), v[..., :d_v]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(seed=SEEDS, T=st.integers(1, 20), normalise=st.booleans())
def test_recurrent_equals_the_masked_quadratic_form(seed, T, normalise):
    given_ = qkv(seed, T, batch=(2,))
    form = la.linear_attention(*given_, normalise=normalise)
    loop = la.linear_attention_recurrent(*given_, normalise=normalise)
    torch.testing.assert_close(loop, form, rtol=1e-11, atol=1e-12)


def test_outputs_are_the_double_sum_of_the_definition():
    q, k, v = qkv(0, T=5)
    found = la.linear_attention(q, k, v)
    for t in range(5):
        weights = [float(q[t] @ k[j]) for j in range(t + 1)]
        expected = sum(w * v[j] for j, w in enumerate(weights)) / sum(weights)
        torch.testing.assert_close(found[t], expected)


def test_normalised_outputs_stay_in_the_range_of_the_values():
    q, k, v = qkv(3, T=30)
    out = la.linear_attention(q, k, v)
    assert (out <= v.max(0).values + 1e-12).all()
    assert (out >= v.min(0).values - 1e-12).all()


def test_gradients_agree():
    gradients = []
    for f in (la.linear_attention, la.linear_attention_recurrent):
        given_ = [z.requires_grad_() for z in qkv(1)]
        f(*given_).square().sum().backward()
        gradients.append([z.grad for z in given_])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


def test_features_are_positive_and_have_the_stated_values():
    x = torch.tensor([-2.0, 0.0, 3.0])
    torch.testing.assert_close(la.positive_features(x), torch.tensor([math.exp(-2), 1.0, 4.0]))


def test_orthogonal_keys_are_recalled_exactly_and_one_more_is_not():
    keys = torch.linalg.qr(normal(0, 6, 6)).Q
    values = normal(1, 6, 5)
    torch.testing.assert_close(la.recall(la.store(keys, values), keys), values)
    extra = torch.cat([keys, torch.nn.functional.normalize(normal(2, 1, 6), dim=-1)])
    more = torch.cat([values, normal(3, 1, 5)])
    error = (la.recall(la.store(extra, more), extra) - more).abs().max()
    assert error > 0.1


def test_interference_is_the_overlap_of_the_keys():
    keys = torch.nn.functional.normalize(normal(0, 9, 4), dim=-1)
    values = normal(1, 9, 3)
    overlap = keys @ keys.T - torch.eye(9)
    torch.testing.assert_close(la.recall(la.store(keys, values), keys), values + overlap @ values)


def test_the_state_has_at_most_d_k_ranks():
    S = la.store(normal(0, 50, 4), normal(1, 50, 9))
    assert S.shape == (4, 9)
    assert torch.linalg.matrix_rank(S) == 4
    assert torch.linalg.matrix_rank(la.store(normal(0, 2, 4), normal(1, 2, 9))) == 2


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=SEEDS)
def test_delta_write_replaces_what_its_key_held(seed):
    S, v = normal(seed, 5, 3), normal(seed + 1, 3)
    basis = torch.linalg.qr(normal(seed + 2, 5, 5)).Q
    after = la.delta_write(S, basis[0], v)
    torch.testing.assert_close(la.recall(after, basis[:1])[0], v)
    torch.testing.assert_close(la.recall(after, basis[1:]), la.recall(S, basis[1:]))


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=SEEDS, T=st.integers(1, 25), scale=st.sampled_from([1.0, 30.0, 1e3, 1e5]))
def test_stable_recurrence_equals_the_direct_sum_at_any_exponent(seed, T, scale):
    k, v = scale * normal(seed, 2, T, 3), normal(seed + 1, 2, T, 3)
    decay, bonus = normal(seed + 2, 3).abs(), normal(seed + 3, 3)
    found = la.wkv(k, v, decay, bonus)
    torch.testing.assert_close(found, la.wkv_direct(k, v, decay, bonus), rtol=1e-9, atol=1e-10)
    assert (found.abs() <= v.abs().amax(-2, keepdim=True) * (1 + 1e-12)).all()


def test_wkv_is_the_definition_at_small_exponents():
    k, v = normal(0, 6, 2), normal(1, 6, 2)
    w, u = torch.tensor([0.5, 0.0]).double(), torch.tensor([1.0, -1.0]).double()
    t = 4
    weights = torch.stack([torch.exp(-(t - 1 - j) * w + k[j]) for j in range(t)])
    now = torch.exp(u + k[t])
    expected = ((weights * v[:t]).sum(0) + now * v[t]) / (weights.sum(0) + now)
    torch.testing.assert_close(la.wkv(k, v, w, u)[t], expected)


def test_wkv_in_float32_survives_where_the_plain_sums_overflow():
    k = torch.tensor([[200.0], [0.0], [210.0]])
    v = torch.tensor([[1.0], [2.0], [3.0]])
    assert torch.isinf(k.exp()).any()
    out = la.wkv(k, v, torch.tensor([0.1]), torch.tensor([0.0]))
    assert torch.isfinite(out).all()
    torch.testing.assert_close(out[1], torch.tensor([1.0]))
    torch.testing.assert_close(out[2], torch.tensor([3.0]), rtol=0, atol=1e-3)


def test_the_future_cannot_change_the_past():
    q, k, v = qkv(0)
    moved = [torch.cat([z[:5], z[5:] + 1]) for z in (q, k, v)]
    for f in (la.linear_attention, la.linear_attention_recurrent):
        torch.testing.assert_close(f(*moved)[:5], f(q, k, v)[:5], rtol=0, atol=1e-14)
    ones = torch.ones(3).double()
    for f in (la.wkv, la.wkv_direct):
        past = f(k, moved[1], ones, ones)[:5]
        torch.testing.assert_close(past, f(k, torch.cat([moved[1][:5], k[5:]]), ones, ones)[:5])


Q = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: la.linear_attention(Q, -Q, Q), ValueError, "normaliser is not above zero"),
        (lambda: la.linear_attention_recurrent(Q, -Q, Q), ValueError, "normaliser"),
        (lambda: la.linear_attention(Q, Q[:2], Q), ValueError, "axis T is 3 in q but 2 in k"),
        (lambda: la.linear_attention(Q, Q.double(), Q), TypeError, "share one dtype"),
        (lambda: la.positive_features(np.ones(2)), TypeError, "x must be a torch tensor"),
        (lambda: la.store(Q, Q[:1]), ValueError, "axis n"),
        (lambda: la.recall(Q, Q), ValueError, "axis d_k"),
        (lambda: la.delta_write(Q, torch.ones(3), torch.ones(2)), ValueError, "length 1"),
        (lambda: la.wkv(Q, Q, -torch.ones(2), torch.ones(2)), ValueError, "decay must not be"),
        (lambda: la.wkv_direct(Q, Q, torch.ones(1), torch.ones(2)), ValueError, "axis D"),
        (lambda: la.wkv(Q * torch.nan, Q, torch.ones(2), torch.ones(2)), ValueError, "finite"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
