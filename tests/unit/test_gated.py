"""RG-LRU against its sequential loop."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import gated


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@settings(deadline=None, max_examples=30, derandomize=True)
@given(seed=st.integers(0, 10**6), T=st.integers(1, 40))
def test_scan_equals_the_loop(seed, T):
    x, r, i = normal(seed, 3, 2, T, 4)
    given_ = x, normal(seed + 1, 4), r.sigmoid(), i.sigmoid()
    torch.testing.assert_close(
        gated.rg_lru(*given_), gated.rg_lru_loop(*given_), rtol=1e-11, atol=1e-12
    )


def test_one_step_by_hand():
    x, r, i = (torch.tensor([[value]]) for value in (2.0, 0.25, 0.5))
    rate = torch.tensor([0.0])  # sigmoid 1/2, and 8 * 0.25 = 2, so a = 1/4
    a, scale = gated.rg_lru_multipliers(rate, r)
    assert a.item() == pytest.approx(0.25)
    assert scale.item() == pytest.approx(np.sqrt(15) / 4)
    two = gated.rg_lru(x.repeat(2, 1), rate, r.repeat(2, 1), i.repeat(2, 1))
    h = np.sqrt(15) / 4
    np.testing.assert_allclose(two[:, 0], [h, h / 4 + h], rtol=1e-6)


def test_gate_zero_keeps_all_and_writes_nothing():
    a, scale = gated.rg_lru_multipliers(torch.tensor([1.0]), torch.zeros(3, 1))
    assert (a == 1).all()
    assert (scale == 0).all()


@pytest.mark.parametrize("gate", [0.01, 0.3, 1.0])
def test_variance_one_stays_variance_one(gate):
    a, scale = gated.rg_lru_multipliers(normal(0, 5), torch.full((1, 5), gate).double())
    torch.testing.assert_close(a**2 + scale**2, torch.ones_like(a))
    variance = 1.0
    x = normal(1, 40_000, 1)
    gates = torch.full_like(x, gate), torch.ones_like(x)
    h = gated.rg_lru(x, torch.tensor([0.5]).double(), *gates)
    variance = h[1000:].var().item()
    assert variance == pytest.approx(1, abs=0.1)


def test_scale_keeps_its_digits_near_one():
    rate, r = torch.tensor([20.0]), torch.tensor([[0.01]])
    _, scale = gated.rg_lru_multipliers(rate, r)
    exact = gated.rg_lru_multipliers(rate.double(), r.double())[1].item()
    assert scale.item() == pytest.approx(exact, rel=1e-5)
    assert exact > 0


def test_layer_starts_between_the_paper_s_bounds_and_is_causal():
    layer = gated.RGLRU(64, seed=0)
    decay = torch.sigmoid(layer.rate) ** 8
    assert 0.899 < decay.min() < 0.92
    assert 0.98 < decay.max() < 0.9995
    layer = gated.RGLRU(4, seed=0)
    x = normal(0, 9, 4).float()
    later = torch.cat([x[:5], x[5:] + 1])
    torch.testing.assert_close(layer(later)[:5], layer(x)[:5], rtol=0, atol=0)
    r, i = torch.sigmoid(layer.recurrence_gate(x)), torch.sigmoid(layer.input_gate(x))
    torch.testing.assert_close(layer(x), gated.rg_lru_loop(x, layer.rate, r, i))


def test_gradients_are_those_of_finite_differences():
    x, r, i = normal(0, 3, 5, 2)
    given_ = [z.requires_grad_() for z in (x, normal(1, 2), r.sigmoid(), i.sigmoid())]
    given_ = [z.detach().requires_grad_() for z in given_]
    assert torch.autograd.gradcheck(gated.rg_lru, tuple(given_))


X = torch.ones(3, 2)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gated.rg_lru(X, X[0], 2 * X, X), ValueError, "between 0 and 1"),
        (lambda: gated.rg_lru(X, X[0, :1], X, X), ValueError, "axis D"),
        (lambda: gated.rg_lru_loop(X, X[0], X, X[:2]), ValueError, "axis T"),
        (lambda: gated.rg_lru_multipliers([1.0], X), TypeError, "rate"),
        (lambda: gated.RGLRU(0), ValueError, "width must be at least 1"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
