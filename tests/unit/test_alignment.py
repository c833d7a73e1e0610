"""Tokens and targets stand where they should, and leaks are found wherever they are."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import alignment
from book_utils.attention import causal_mask, scaled_dot_product_attention

O = np.array([1.0, 2.0, 3.0])  # noqa: E741
A = np.array([10.0, 20.0, 30.0])


def test_chain_is_the_order_of_events():
    np.testing.assert_array_equal(alignment.chain(O, A), [1, 10, 2, 20, 3, 30])


def test_chain_keeps_leading_axes_apart():
    both = alignment.chain(np.stack([O, -O]), np.stack([A, -A]))
    np.testing.assert_array_equal(both[0], -both[1])
    assert both.shape == (2, 6)


def test_paired_tokens():
    np.testing.assert_array_equal(alignment.paired_tokens(O, A), [[1, 10], [2, 20], [3, 30]])


def test_shifted_tokens_hold_the_action_before():
    np.testing.assert_array_equal(alignment.shifted_tokens(O, A), [[1, 0], [2, 10], [3, 20]])


def test_interleaved_tokens_are_the_chain_with_a_column_a_kind():
    tokens = alignment.interleaved_tokens(np.stack([O, O]), np.stack([A, A]))
    assert tokens.shape == (2, 6, 2)
    np.testing.assert_array_equal(tokens.sum(axis=-1)[0], alignment.chain(O, A))
    np.testing.assert_array_equal(tokens[0, ::2, 1], 0)
    np.testing.assert_array_equal(tokens[0, 1::2, 0], 0)


def test_one_moment():
    assert alignment.shifted_tokens([5.0], [7.0]).tolist() == [[5.0, 0.0]]
    assert alignment.interleaved_tokens([5.0], [7.0]).tolist() == [[5.0, 0.0], [0.0, 7.0]]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(n=st.integers(2, 9), late=st.integers(-3, 3), seed=st.integers(0, 99))
def test_future_leak_is_zero_exactly_for_what_looks_back(n, late, seed):
    x = np.random.default_rng(seed).normal(size=n)

    def forecast(x):  # of element k it reads element k − late
        places = np.arange(n) - late
        inside = (places >= 0) & (places < n)
        return np.where(inside, x[np.clip(places, 0, n - 1)], 0.0)

    leak = alignment.future_leak(forecast, x)
    if late >= 1 or -late >= n:
        assert leak == 0.0
    else:
        assert leak > 1.0


def test_a_forecast_may_not_see_its_own_target():
    assert alignment.future_leak(lambda x: x, np.arange(4.0)) > 0


def test_a_leak_at_the_last_element_alone_is_found():
    def forecast(x):
        found = np.zeros(5)
        found[4] = x[4]
        return found

    assert alignment.future_leak(forecast, np.zeros(5)) >= 1.0


def test_only_the_elements_forecast_are_judged():
    x = alignment.chain(O, A)
    actions = [1, 3, 5]

    def policy(x):  # a_t from o_t: allowed, since o_t comes before a_t in the chain
        return -x[0::2]

    assert alignment.future_leak(policy, x, of=actions) == 0.0
    assert alignment.future_leak(lambda x: x[1::2], x, of=actions) > 1.0  # copies a_t


def test_causal_attention_leaks_only_its_own_position():
    x = np.random.default_rng(3).normal(size=6)

    def attend(x, mask):
        z = torch.tensor(x)[:, None]
        return scaled_dot_product_attention(z, z, z, mask=mask)[0][:, 0].numpy()

    shifted = lambda x: attend(np.concatenate([[0.0], x[:-1]]), causal_mask(6))  # noqa: E731
    assert alignment.future_leak(shifted, x) == 0.0
    assert alignment.future_leak(lambda x: attend(x, causal_mask(6)), x) > 0.01
    assert alignment.future_leak(lambda x: attend(x, causal_mask(6).T), x) > 0.01


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alignment.chain(O, A[:2]), "same shape"),
        (lambda: alignment.paired_tokens([], []), "T ≥ 1"),
        (lambda: alignment.shifted_tokens(1.0, 2.0), "T ≥ 1"),
        (lambda: alignment.interleaved_tokens([np.nan], [1.0]), "observations must be finite"),
        (lambda: alignment.chain([1.0], [np.inf]), "actions must be finite"),
        (lambda: alignment.future_leak(lambda x: x, np.eye(2)), "sequence must have shape"),
        (lambda: alignment.future_leak(lambda x: x, []), "sequence must have shape"),
        (lambda: alignment.future_leak(lambda x: x, [np.nan]), "sequence must be finite"),
        (lambda: alignment.future_leak(lambda x: x, [1.0], of=[1]), "below 1, got 1"),
        (lambda: alignment.future_leak(lambda x: x, [1.0], of=[-1]), "at least 0"),
        (lambda: alignment.future_leak(lambda x: x[1:], [1.0, 2.0]), "forecast must return"),
        (lambda: alignment.future_leak(lambda x: x * np.nan, [1.0]), "forecasts must be finite"),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_types_are_named():
    with pytest.raises(TypeError, match="must be an integer"):
        alignment.future_leak(lambda x: x, [1.0, 2.0], of=[0.5])
