"""Closed forms of a single lookup, against a softmax written out and against each other."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import lookup

margins = st.floats(-30, 30)
counts = st.integers(1, 2000)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(margin=margins, n=counts)
def test_match_weight_is_the_softmax(margin, n):
    scores = np.zeros(n)
    scores[0] = margin
    assert lookup.match_weight(margin, n) == pytest.approx(scipy.special.softmax(scores)[0])


@settings(deadline=None, max_examples=50, derandomize=True)
@given(weight=st.floats(1e-6, 1 - 1e-6), n=st.integers(2, 10**6))
def test_required_margin_inverts_match_weight(weight, n):
    margin = lookup.required_margin(weight, n)
    assert lookup.match_weight(margin, n) == pytest.approx(weight, rel=1e-9)


def test_known_margins():
    assert lookup.required_margin(0.99, 3) == pytest.approx(np.log(198))
    assert lookup.required_margin(0.5, 2) == 0
    assert lookup.match_weight(1 / np.sqrt(3), 3) == pytest.approx(0.4711, abs=5e-5)


def test_one_token_gets_everything():
    np.testing.assert_array_equal(lookup.match_weight(np.array([-1000.0, 0, 3]), 1), 1)


def test_extreme_margins_are_finite():
    assert lookup.match_weight(-1000, 3) == 0
    assert lookup.match_weight(1000, 3) == 1
    assert np.isfinite(lookup.required_margin(0.999, 1e308))


def test_functions_broadcast():
    found = lookup.match_weight(np.arange(4.0)[:, None], np.array([1, 2, 3]))
    assert found.shape == (4, 3)
    assert np.all(np.diff(found[:, 1:], axis=0) > 0)
    assert np.all(np.diff(found[1:], axis=1) < 0)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(decay=st.floats(-1, 1), age=st.integers(0, 60))
def test_retained_share_is_what_the_recurrence_holds(decay, age):
    h = 1.0
    for _ in range(age):
        h = decay * h
    assert lookup.retained_share(decay, age) == pytest.approx(abs(h), abs=1e-12)


def test_window_is_a_cliff():
    found = lookup.window_weight(np.arange(5), 3, 0.9)
    np.testing.assert_array_equal(found, [0.9, 0.9, 0.9, 0, 0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lookup.match_weight(1.0, 0), "n must be at least 1"),
        (lambda: lookup.match_weight(float("nan"), 3), "margin must be finite"),
        (lambda: lookup.required_margin(1.0, 3), "weight must lie strictly between 0 and 1"),
        (lambda: lookup.required_margin(0.0, 3), "weight must lie strictly between 0 and 1"),
        (lambda: lookup.required_margin(0.5, 1), "n must be at least 2"),
        (lambda: lookup.retained_share(1.1, 2), "decay must lie between -1 and 1"),
        (lambda: lookup.retained_share(0.5, -1), "age must not be negative"),
        (lambda: lookup.window_weight(-1, 3, 0.5), "age must not be negative"),
        (lambda: lookup.window_weight(1, 0, 0.5), "window must be at least 1"),
        (lambda: lookup.window_weight(1, 3, 1.5), "weight must lie between 0 and 1"),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_types_are_named():
    with pytest.raises(TypeError, match="margin must be a number"):
        lookup.match_weight("large", 3)
    with pytest.raises(TypeError, match="decay must be real"):
        lookup.retained_share(np.array([0.5 + 0.5j]), 2)
    with pytest.raises(TypeError, match="margin must be a number"):
        lookup.match_weight(10**400, 3)
