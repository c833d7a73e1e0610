"""Error recursions, against closed forms, covariance matrices and simulation."""

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import rollouts

gains = st.floats(-1.3, 1.3)


def test_unit_gain():
    np.testing.assert_allclose(rollouts.bias_error(1.0, 0.1, 4), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(rollouts.rms_error(1.0, 0.1, 32)[-1], 0.1 * np.sqrt(32))
    np.testing.assert_allclose(rollouts.rms_error(-1.0, 0.1, 9)[-1], 0.3)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(J=gains.filter(lambda J: abs(abs(J) - 1) > 1e-3), H=st.integers(1, 60))
def test_geometric_sums(J, H):
    assert rollouts.bias_error(J, 0.1, H)[-1] == pytest.approx(0.1 * (1 - J**H) / (1 - J))
    variance = 0.04 * (1 - J ** (2 * H)) / (1 - J**2)
    assert rollouts.rms_error(J, 0.2, H)[-1] == pytest.approx(np.sqrt(variance))


def test_limits_of_a_contraction():
    assert rollouts.rms_error(0.9, 0.1, 500)[-1] == pytest.approx(0.1 / np.sqrt(1 - 0.81))
    assert rollouts.bias_error(0.9, 0.1, 500)[-1] == pytest.approx(1.0)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(J=gains, rho=st.floats(-1, 1), H=st.integers(1, 25))
def test_correlated_disturbances_against_their_covariance_matrix(J, rho, H):
    weights = J ** np.arange(H)[::-1]  # e_H = Σ J^(H−1−t) δ_t
    covariance = scipy.linalg.toeplitz(rho ** np.arange(H))
    expected = weights @ covariance @ weights
    found = rollouts.rms_error(J, 1.0, H, correlation=rho)[-1] ** 2
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_correlated_closed_form_at_unit_gain():
    H, rho, sigma = 32, 0.8, 0.1
    variance = H * (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**H) / (1 - rho) ** 2
    found = rollouts.rms_error(1.0, sigma, H, correlation=rho)[-1]
    assert found == pytest.approx(sigma * np.sqrt(variance))
    assert found == pytest.approx(1.575, abs=5e-4)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(J=gains, seed=st.integers(0, 99), H=st.integers(1, 30))
def test_propagate_is_a_first_order_filter(J, seed, H):
    delta = np.random.default_rng(seed).normal(size=(3, H))
    np.testing.assert_allclose(
        rollouts.propagate(J, delta), scipy.signal.lfilter([1], [1, -J], delta), atol=1e-9
    )


def test_propagate_a_matrix_by_its_powers():
    rng = np.random.default_rng(1)
    J, delta = rng.normal(size=(3, 3)), rng.normal(size=(4, 6, 3))
    expected = sum(delta[:, t] @ np.linalg.matrix_power(J, 5 - t).T for t in range(6))
    np.testing.assert_allclose(rollouts.propagate(J, delta)[:, -1], expected)


def test_propagation_has_the_predicted_spread():
    delta = rollouts.correlated_noise(20_000, 24, 0.1, 0.8, 0)
    found = rollouts.propagate(0.9, delta).std(axis=0)
    np.testing.assert_allclose(found, rollouts.rms_error(0.9, 0.1, 24, correlation=0.8), rtol=0.03)


def test_correlated_noise_is_stationary():
    delta = rollouts.correlated_noise(40_000, 12, 0.3, 0.6, 2)
    assert delta.shape == (40_000, 12)
    np.testing.assert_allclose(delta.std(axis=0), 0.3, rtol=0.02)
    for lag in (1, 2, 3):
        found = (delta[:, :-lag] * delta[:, lag:]).mean() / 0.09
        assert found == pytest.approx(0.6**lag, abs=0.01)


def test_correlated_noise_at_its_ends():
    constant = rollouts.correlated_noise(2, 5, 1.0, 1.0, 0)
    np.testing.assert_allclose(constant, constant[:, :1].repeat(5, axis=1))
    np.testing.assert_array_equal(rollouts.correlated_noise(2, 3, 0.0, 0.5, 0), 0)


def test_gain_norms_of_a_shear_grow_first():
    norms = rollouts.gain_norms([[0.9, 1.0], [0.0, 0.9]], 200)
    assert norms[0] == 1
    assert norms.max() == pytest.approx(3.91, abs=5e-3)
    assert norms[-1] < 1e-6


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 99), h=st.integers(1, 8))
def test_gain_norms_are_the_largest_singular_values(seed, h):
    J = np.random.default_rng(seed).normal(size=(3, 3))
    expected = np.linalg.svd(np.linalg.matrix_power(J, h), compute_uv=False)[0]
    assert rollouts.gain_norms(J, h)[h] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rollouts.bias_error(np.nan, 1.0, 3), "gain must be finite"),
        (lambda: rollouts.bias_error(1.0, np.inf, 3), "bias must be finite"),
        (lambda: rollouts.bias_error(1.0, 1.0, 0), "horizon must be at least 1"),
        (lambda: rollouts.bias_error(10.0, 1.0, 400), "overflow"),
        (lambda: rollouts.rms_error(1.0, -0.1, 3), "std must not be negative"),
        (lambda: rollouts.rms_error(1.0, 0.1, 3, correlation=1.1), "correlation must be in"),
        (lambda: rollouts.rms_error(10.0, 0.1, 400), "overflow"),
        (lambda: rollouts.propagate(np.eye(2), np.ones((4, 3))), "gain must be"),
        (lambda: rollouts.propagate(np.eye(2), np.ones(2)), "gain must be"),
        (lambda: rollouts.propagate(1.0, [np.nan]), "disturbances must be finite"),
        (lambda: rollouts.propagate(10.0, np.ones(400)), "overflow"),
        (lambda: rollouts.correlated_noise(0, 3, 0.1, 0.5, 0), "n must be at least 1"),
        (lambda: rollouts.correlated_noise(1, 3, 0.1, -2, 0), "correlation must be in"),
        (lambda: rollouts.gain_norms(np.ones((2, 3)), 3), "gain must have shape"),
        (lambda: rollouts.gain_norms(np.eye(2), 0), "horizon must be at least 1"),
        (lambda: rollouts.gain_norms(10 * np.eye(2), 400), "overflow"),
    ],
)
def test_bad_values_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rollouts.bias_error("1", 1.0, 3), "gain must be a real number"),
        (lambda: rollouts.rms_error(1.0, 0.1, 3.0), "horizon must be an integer"),
        (lambda: rollouts.correlated_noise(1, 3, 0.1, 0.5, None), "rng must be an integer"),
    ],
)
def test_bad_types_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()
