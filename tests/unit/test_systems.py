"""The simulator: the index convention, the noise's sizes, and what one reading can tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from book_utils.systems import (
    LinearGaussianSystem,
    Trajectories,
    is_observable,
    observability_matrix,
)

PROPERTY = settings(deadline=None, max_examples=30, derandomize=True)


def quiet(**changes):
    """A system whose only noise is too small to matter."""
    return LinearGaussianSystem(process_std=0.0, initial_std=0.0, observation_std=1e-12, **changes)


def test_defaults_are_the_experiments():
    system = LinearGaussianSystem()
    values = np.linalg.eigvals(system.A)
    np.testing.assert_allclose(sorted(values.imag), [-0.30, 0.30], atol=1e-12)
    np.testing.assert_allclose(values.real, 0.92, atol=1e-12)
    assert abs(values[0]) == pytest.approx(0.968, abs=5e-4)
    np.testing.assert_array_equal(system.B, [0.0, 0.5])
    np.testing.assert_array_equal(system.C, [1.0, 0.5])
    assert abs(system.R - 0.01) < 1e-12
    np.testing.assert_allclose(system.Q, 0.0025 * np.eye(2))
    np.testing.assert_allclose(system.initial_covariance, 0.09 * np.eye(2))


def test_trajectories_follow_the_equations():
    system = LinearGaussianSystem()
    drawn = system.simulate(400, 9, 0)
    assert drawn.states.shape == (400, 10, 2)
    assert drawn.controls.shape == (400, 9)
    assert drawn.observations.shape == (400, 10)
    w = drawn.states[:, 1:] - drawn.states[:, :-1] @ system.A.T
    w -= drawn.controls[..., None] * system.B
    v = drawn.observations[:, 1:] - drawn.states[:, 1:] @ system.C
    for noise, std in ((w, 0.05), (v, 0.1), (drawn.states[:, 0], 0.3), (drawn.controls, 1.0)):
        count = noise.size
        assert abs(noise.mean()) < 5 * std / np.sqrt(count)
        assert noise.std() == pytest.approx(std, rel=5 / np.sqrt(2 * count))
    for past, future in ((w[:, :-1], w[:, 1:]), (v[:, :-1], v[:, 1:])):  # white in time
        assert abs(np.corrcoef(past.ravel(), future.ravel())[0, 1]) < 5 / np.sqrt(past.size)
    pairs = np.corrcoef([w[..., 0].ravel(), w[..., 1].ravel(), v.ravel(), drawn.controls.ravel()])
    assert abs(pairs - np.eye(4)).max() < 5 / np.sqrt(v.size)


def test_the_control_of_a_token_moves_the_next_observation():
    # One push at t = 3: nothing can show before slot 4, and slot 4 shows C B.
    system, u = quiet(), np.eye(8)[3]
    drawn = system.simulate(1, 8, 0, controls=u)
    y = drawn.observations[0]
    np.testing.assert_allclose(y[:4], 0.0, atol=1e-10)
    powers = [system.C @ np.linalg.matrix_power(system.A, k) @ system.B for k in range(5)]
    np.testing.assert_allclose(y[4:], powers, atol=1e-10)
    # In the learner's indices: token 3 holds the push, and *its* target is the first to move.
    assert drawn.tokens[0, 3, 1] == 1.0
    assert drawn.targets[0, 3] == pytest.approx(0.25, abs=1e-10)


def test_tokens_and_targets_are_aligned():
    drawn = LinearGaussianSystem().simulate(5, 7, 1)
    tokens, targets = drawn.tokens, drawn.targets
    assert tokens.shape == (5, 7, 2)
    assert targets.shape == (5, 7)
    assert (tokens[:, 0, 0] == 0).all()  # the placeholder
    np.testing.assert_array_equal(tokens[:, 1:, 0], targets[:, :-1])  # a target is the next token
    np.testing.assert_array_equal(tokens[..., 1], drawn.controls)
    assert not np.shares_memory(targets, drawn.observations)


def test_a_noiseless_system_is_the_matrix_exponential_of_its_generator():
    angle, rate = 0.4, -0.05
    generator = np.array([[rate, angle], [-angle, rate]])
    system = quiet(A=expm(generator))
    s0 = np.array([1.0, -2.0])
    drawn = LinearGaussianSystem(
        A=system.A, process_std=0.0, observation_std=1e-12, initial_std=1.0
    ).simulate(1, 12, 3, controls=np.zeros(12))
    s0 = drawn.states[0, 0]
    expected = [expm(generator * t) @ s0 for t in range(13)]
    np.testing.assert_allclose(drawn.states[0], expected, atol=1e-12)


def test_a_seed_repeats_and_a_generator_goes_on():
    system = LinearGaussianSystem()
    a, b = system.simulate(2, 4, 5), system.simulate(2, 4, np.random.default_rng(5))
    np.testing.assert_array_equal(a.observations, b.observations)
    rng = np.random.default_rng(5)
    system.simulate(2, 4, rng)
    assert not np.array_equal(system.simulate(2, 4, rng).observations, a.observations)


def test_given_controls_leave_the_noise_alone():
    system, u = LinearGaussianSystem(), np.zeros(6)
    free, still = system.simulate(3, 6, 2), system.simulate(3, 6, 2, controls=u)
    np.testing.assert_array_equal(free.states[:, 0], still.states[:, 0])
    effect = system.simulate(3, 6, 2, controls=free.controls)
    np.testing.assert_array_equal(effect.observations, free.observations)
    u[0] = 9.0  # the caller's array is copied
    assert (still.controls == 0).all()


def test_observability():
    system = LinearGaussianSystem()
    np.testing.assert_allclose(observability_matrix(system), [[1.0, 0.5], [0.77, 0.76]])
    assert is_observable(system)
    # Two states that decay apart, of which the sensor sees one.
    assert not is_observable(LinearGaussianSystem(A=[[0.9, 0], [0, 0.5]], C=[1.0, 0.0]))
    # A position whose velocity is never measured, but shows in the next position.
    assert is_observable(LinearGaussianSystem(A=[[1, 0.1], [0, 1]], B=[0, 0.1], C=[1.0, 0.0]))


@PROPERTY
@given(st.integers(0, 1000))
def test_an_observable_state_is_recovered_from_noise_free_readings(seed):
    rng = np.random.default_rng(seed)
    system = LinearGaussianSystem(A=rng.normal(size=(3, 3)), B=[0, 0, 1], C=rng.normal(size=3))
    state, readings = rng.normal(size=3), []
    moved = state.copy()
    for _ in range(3):
        readings.append(system.C @ moved)
        moved = system.A @ moved
    assert is_observable(system)
    recovered = np.linalg.solve(observability_matrix(system), readings)
    np.testing.assert_allclose(recovered, state, rtol=1e-5, atol=1e-5)


def test_a_system_can_not_be_changed():
    A = np.array([[0.5]])
    system = LinearGaussianSystem(A=A, B=[1.0], C=[1.0])
    A[0, 0] = 99.0
    assert system.A[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        system.A[0, 0] = 1.0
    with pytest.raises(AttributeError):
        system.process_std = 1.0


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"A": [[1.0, 2.0]]}, ValueError, r"A must have shape \(n, n\)"),
        ({"A": [1.0, 2.0]}, ValueError, "A must have 2 axes"),
        ({"A": np.empty((0, 0))}, ValueError, "n ≥ 1"),
        ({"A": [[np.nan, 0], [0, 1]]}, ValueError, "A must be finite"),
        ({"B": [1.0]}, ValueError, r"B must have shape \(2,\)"),
        ({"B": [[1.0, 0.0]]}, ValueError, "B must have 1 axes"),
        ({"C": [1.0, np.inf]}, ValueError, "C must be finite"),
        ({"process_std": -0.1}, ValueError, "process_std must not be negative"),
        ({"process_std": np.nan}, ValueError, "process_std must be finite"),
        ({"process_std": "loud"}, TypeError, "process_std must be a real number"),
        ({"observation_std": 0.0}, ValueError, "observation_std must be above zero"),
        ({"A": [[0.5j, 0], [0, 0.5]]}, TypeError, "A must hold real numbers"),
        ({"B": np.array([1j, 0])}, TypeError, "B must hold real numbers"),
        ({"C": ["a", "b"]}, TypeError, "C must hold real numbers"),
        ({"process_std": 10**400}, ValueError, "process_std must be finite"),
        ({"initial_std": -1.0}, ValueError, "initial_std must not be negative"),
    ],
)
def test_bad_systems(changes, error, message):
    with pytest.raises(error, match=message):
        LinearGaussianSystem(**changes)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 4, 0), ValueError, "n must be at least 1"),
        ((2, 0, 0), ValueError, "T must be at least 1"),
        ((2.5, 4, 0), TypeError, "n must be an integer"),
        ((2, 4, None), TypeError, "rng must be an integer"),
        ((2, 4, 0, np.zeros(3)), ValueError, "controls must have shape"),
        ((2, 4, 0, np.full(4, np.nan)), ValueError, "controls must be finite"),
        ((2, 4, 0, np.full(4, 1j)), TypeError, "controls must hold real numbers"),
    ],
)
def test_bad_simulations(arguments, error, message):
    with pytest.raises(error, match=message):
        LinearGaussianSystem().simulate(*arguments)


def test_an_unstable_system_overflows_loudly():
    system = LinearGaussianSystem(A=[[1e30]], B=[1.0], C=[1.0])
    with pytest.raises(ValueError, match="overflow"):
        system.simulate(1, 40, 0)


@pytest.mark.parametrize(
    ("name", "covariance"),
    [("process_std", "Q"), ("observation_std", "R"), ("initial_std", "initial_covariance")],
)
def test_a_variance_that_overflows_is_named(name, covariance):
    for std in (1e200, 10**200):
        system = LinearGaussianSystem(**{name: std})
        with pytest.raises(ValueError, match=f"{name} is .* the variance, overflows"):
            getattr(system, covariance)


def test_one_step_is_enough():
    drawn = LinearGaussianSystem().simulate(1, 1, 0)
    assert isinstance(drawn, Trajectories)
    assert drawn.tokens.shape == (1, 1, 2)
    assert drawn.targets.shape == (1, 1)
