"""Replacing a token: what changes, by how much, and what may not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import evaluation, kalman
from book_utils.interventions import KINDS, effect_by_lag, replace_token
from book_utils.systems import LinearGaussianSystem

PROPERTY = settings(deadline=None, max_examples=25, derandomize=True)
WORLD = LinearGaussianSystem()


def drawn(N=6, T=5, seed=0):
    return np.random.default_rng(seed).normal([3.0, -2.0], size=(N, T, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lag", [0, 2, 4])
def test_only_the_token_at_that_lag_changes(kind, lag):
    tokens = drawn()
    before = tokens.copy()
    changed = replace_token(tokens, lag, kind, 1)
    moved = (changed != tokens).any(axis=-1)
    assert moved[:, 4 - lag].all()
    assert moved.sum() == len(tokens)
    assert np.array_equal(tokens, before)


def test_what_stands_in_its_place():
    tokens = drawn()
    assert (replace_token(tokens, 1, "zero")[:, 3] == 0).all()
    np.testing.assert_allclose(
        replace_token(tokens, 1, "mean")[:, 3], np.tile(tokens[:, 3].mean(0), (6, 1))
    )
    slot = replace_token(tokens, 1, "resample", 3)[:, 3]
    assert np.array_equal(np.sort(slot, axis=0), np.sort(tokens[:, 3], axis=0))  # each used once


@PROPERTY
@given(st.integers(2, 9), st.integers(0, 1000))
def test_no_trajectory_keeps_its_own_token(N, seed):
    tokens = np.arange(N * 4.0).reshape(N, 2, 2)
    slot = replace_token(tokens, 0, "resample", seed)[:, 1]
    assert (slot != tokens[:, 1]).all()
    assert len(np.unique(slot[:, 0])) == N


def test_the_effect_on_a_linear_forecaster_is_its_weight_times_the_change():
    # For ŷ = Σ α_k y + β_k u the change is α_k Δy + β_k Δu, whatever the other tokens hold.
    rng = np.random.default_rng(0)
    forecaster = evaluation.AR(rng.normal(size=(4, 2)))
    tokens = drawn(500, 7)
    for kind in KINDS:
        effect = effect_by_lag(forecaster, tokens, kind, 5)
        replay = np.random.default_rng(5)
        for k in range(7):
            change = replace_token(tokens, k, kind, replay)[:, 6 - k] - tokens[:, 6 - k]
            weights = forecaster.coefficients[k] if k < 4 else np.zeros(2)
            expected = np.sqrt(np.mean((change @ weights) ** 2))
            assert effect[k] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_filters_effect_is_its_closed_form():
    # A resampled token is independent of the old one: E (a Δy + b Δu)² = 2 (a² var y + b² var u).
    tokens = WORLD.simulate(20_000, 12, 0).tokens
    a, b = kalman.token_weights(WORLD, 12).T
    variance = tokens.var(axis=0)[::-1].T  # (2, T), lag 0 first
    expected = np.sqrt(2 * (a**2 * variance[0] + b**2 * variance[1]))
    effect = effect_by_lag(lambda x: kalman.predict(WORLD, x), tokens, "resample", 1)
    np.testing.assert_allclose(effect, expected, rtol=0.05, atol=1e-4)


def test_leading_axes_and_only_the_last_forecast_counts():
    def two(tokens):  # one that repeats the last reading, one that always says 1
        last = np.array(tokens[..., 0])
        return np.stack([last, np.ones_like(last)])

    effect = effect_by_lag(two, drawn(8, 5), "zero")
    assert effect.shape == (2, 5)
    assert effect[0, 0] > 1
    assert (effect[0, 1:] == 0).all()
    assert (effect[1] == 0).all()
    first = effect_by_lag(two, drawn(8, 5), "zero", lags=2)
    assert np.array_equal(first, effect[:, :2])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: replace_token(np.zeros((3, 4)), 0), ValueError, r"\(N, T, 2\)"),
        (lambda: replace_token(np.zeros((0, 4, 2)), 0), ValueError, r"\(N, T, 2\)"),
        (lambda: replace_token(np.full((3, 4, 2), np.nan), 0), ValueError, "tokens"),
        (lambda: replace_token(drawn(), 5), ValueError, "lag must be below"),
        (lambda: replace_token(drawn(), -1), ValueError, "lag"),
        (lambda: replace_token(drawn(), 1.0), TypeError, "lag"),
        (lambda: replace_token(drawn(), 1, "noise"), ValueError, "kind"),
        (lambda: replace_token(drawn(1), 1), ValueError, "at least 2"),
        (lambda: replace_token(drawn(), 1, "resample", None), TypeError, "rng"),
        (lambda: effect_by_lag(lambda x: x[..., 0], drawn(), lags=6), ValueError, "lags"),
        (lambda: effect_by_lag(lambda x: x[..., 0], drawn(), lags=0), ValueError, "lags"),
        (lambda: effect_by_lag(lambda x: x, drawn()), ValueError, "predict must return"),
        (lambda: effect_by_lag(lambda x: x[..., 0] * np.nan, drawn()), ValueError, "forecasts"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
