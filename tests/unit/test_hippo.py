"""HiPPO against the projection that it claims to be, and against published constants."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.integrate
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import hippo

# From the paper's formula, worked out by hand for N = 4 (Gu et al. 2020, theorem 2).
LEGS_4 = -np.array(
    [
        [1, 0, 0, 0],
        [math.sqrt(3), 2, 0, 0],
        [math.sqrt(5), math.sqrt(15), 3, 0],
        [math.sqrt(7), math.sqrt(21), math.sqrt(35), 4],
    ]
)


def quadrature(T, per_piece=40):
    """Nodes in [0, 1] and weights that integrate polynomials on each of T pieces exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(per_piece)
    x = (np.arange(T)[:, None] + (nodes + 1) / 2) / T
    return x.ravel(), np.tile(weights / 2 / T, T)


def weighted_fit(basis, weights, values):
    """Coefficients of the best fit under the weights, by least squares."""
    root = np.sqrt(weights)
    return np.linalg.lstsq(root[:, None] * basis, root * values, rcond=None)[0]


def test_legs_matrix_is_the_published_one():
    A, B = hippo.legs(4)
    np.testing.assert_allclose(A, LEGS_4, rtol=1e-15)
    np.testing.assert_allclose(B[:, 0], np.sqrt([1, 3, 5, 7]), rtol=1e-15)


def test_lagt_matrix_is_the_published_one():
    A, B = hippo.lagt(3)
    np.testing.assert_array_equal(A, [[-1, 0, 0], [-1, -1, 0], [-1, -1, -1]])
    np.testing.assert_array_equal(B, np.ones((3, 1)))


def test_bases_are_orthonormal_under_their_measures():
    x, w = quadrature(1)
    G = hippo.legs_basis(12, x)
    np.testing.assert_allclose(G.T @ (w[:, None] * G), np.eye(12), atol=1e-12)
    age, w = scipy.special.roots_laguerre(30)
    L = hippo.lagt_basis(12, age)
    np.testing.assert_allclose(L.T @ (w[:, None] * L), np.eye(12), atol=1e-9)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 10**6), T=st.integers(1, 40), N=st.integers(1, 24))
def test_legs_state_is_the_least_squares_fit_of_everything_so_far(seed, T, N):
    f = np.random.default_rng(seed).normal(size=T)
    x, w = quadrature(T)
    fit = weighted_fit(hippo.legs_basis(N, x), w, np.repeat(f, 40))
    np.testing.assert_allclose(hippo.legs_states(f, N)[-1], fit, atol=1e-10)


@pytest.mark.parametrize("t", [1, 2, 7, 20])
def test_every_legs_state_is_a_projection_not_only_the_last(t):
    f = np.random.default_rng(3).normal(size=20)
    states = hippo.legs_states(f, 6)
    np.testing.assert_allclose(states[t - 1], hippo.legs_states(f[:t], 6)[-1], atol=1e-13)


def test_legs_solves_its_differential_equation():
    A, B = hippo.legs(5)
    f = np.array([0.5, -1.0, 2.0])
    c = np.array([0.5, 0, 0, 0, 0])
    for k in (1, 2):
        c = scipy.integrate.solve_ivp(
            lambda t, c, k=k: (A @ c + B[:, 0] * f[k]) / t, (k, k + 1), c, rtol=1e-11, atol=1e-12
        ).y[:, -1]
    np.testing.assert_allclose(hippo.legs_states(f, 5)[-1], c, atol=1e-9)


@pytest.mark.parametrize("stretch", [2, 5])
def test_legs_does_not_mind_the_clock(stretch):
    f = np.random.default_rng(0).normal(size=30)
    fast = hippo.legs_states(f, 8)[-1]
    slow = hippo.legs_states(np.repeat(f, stretch), 8)[-1]
    np.testing.assert_allclose(fast, slow, atol=1e-12)


def test_lagt_state_is_the_exponentially_weighted_projection():
    f, tau, N = np.random.default_rng(1).normal(size=12), 3.0, 6
    nodes, weights = np.polynomial.legendre.leggauss(40)
    age = ((np.arange(12)[:, None] + (nodes + 1) / 2) / tau).ravel()  # youngest piece first
    w = np.tile(weights / 2 / tau, 12) * np.exp(-age)
    expected = hippo.lagt_basis(N, age).T @ (w * np.repeat(f[::-1], 40))
    np.testing.assert_allclose(hippo.lagt_states(f, N, tau)[-1], expected, atol=1e-12)


def test_reconstruction_of_a_polynomial_is_exact():
    # A held quadratic is not a quadratic, so project it densely instead of running over tokens.
    x, w = quadrature(1)
    c = weighted_fit(hippo.legs_basis(3, x), w, 1 - 2 * x + 3 * x**2)
    y = np.linspace(0, 1, 9)
    np.testing.assert_allclose(hippo.legs_reconstruction(c, y), 1 - 2 * y + 3 * y**2, atol=1e-12)
    s = np.linspace(0, 4, 9)
    c = np.array([1.0, -0.5])  # L_0 = 1, L_1 = 1 - s
    np.testing.assert_allclose(hippo.lagt_reconstruction(c, s), 1 - 0.5 * (1 - s), atol=1e-14)


@pytest.mark.parametrize("N", [1, 2, 10, 20])
def test_eigenvectors_satisfy_their_equation(N):
    A, V = hippo.legs(N)[0], hippo.legs_eigenvectors(N)
    np.testing.assert_allclose(A @ V, V * -np.arange(1, N + 1), atol=1e-12 * N)
    np.testing.assert_allclose(np.linalg.norm(V, axis=0), 1, rtol=1e-12)


def test_condition_number_is_the_published_size():
    assert hippo.legs_condition(10) == pytest.approx(2.4e6, rel=0.02)
    assert hippo.legs_condition(20) == pytest.approx(9e13, rel=0.01)
    assert hippo.legs_condition(10) == pytest.approx(
        np.linalg.cond(hippo.legs_eigenvectors(10)), rel=1e-6
    )
    assert hippo.legs_condition(1) == pytest.approx(1)


def test_the_inverse_behind_the_condition_number_is_exact():
    L = hippo._binomials_exact(12)
    product = np.array(L, dtype=object) @ np.array(hippo._unit_triangular_inverse(L), dtype=object)
    assert (product == np.eye(12, dtype=int)).all()
    assert L[5][2] == -int(Fraction(math.factorial(7), math.factorial(3) * math.factorial(4)))


@pytest.mark.parametrize("N", [1, 4, 20, 64])
def test_normal_plus_low_rank_is_unitary_with_real_parts_one_half(N):
    lam, p, b, V = hippo.normal_plus_low_rank(N)
    A, B = hippo.legs(N)
    np.testing.assert_allclose(V.conj().T @ V, np.eye(N), atol=1e-12)
    np.testing.assert_array_equal(lam.real, -0.5)
    rebuilt = V @ (np.diag(lam) - np.outer(p, p.conj())) @ V.conj().T
    np.testing.assert_allclose(rebuilt, A, atol=1e-10 * N)
    np.testing.assert_allclose(V @ b, B[:, 0], atol=1e-10)
    by_eig = np.linalg.eigvals(
        A + np.outer(np.sqrt(np.arange(N) + 0.5), np.sqrt(np.arange(N) + 0.5))
    )
    np.testing.assert_allclose(np.sort(by_eig.imag), lam.imag, atol=1e-8 * N)


def test_a_long_signal_stays_finite_and_bounded():
    states = hippo.legs_states(np.ones(400), 48)
    np.testing.assert_allclose(states[-1], np.eye(48)[0], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: hippo.legs(0), ValueError, "N must be at least 1"),
        (lambda: hippo.lagt(2.0), TypeError, "N must be an integer"),
        (lambda: hippo.legs_basis(3, np.array([1.5])), ValueError, "between 0 and 1"),
        (lambda: hippo.legs_basis(3, [0.5]), TypeError, "numpy array"),
        (lambda: hippo.lagt_basis(3, np.array([-1.0])), ValueError, "not be negative"),
        (lambda: hippo.lagt_basis(0, np.array([1.0])), ValueError, "at least 1"),
        (lambda: hippo.legs_states(np.ones((2, 2)), 3), ValueError, "f must have shape"),
        (lambda: hippo.legs_states(np.array([np.nan]), 3), ValueError, "f must be finite"),
        (lambda: hippo.lagt_states(np.ones(3), 2, 0.0), ValueError, "above zero"),
        (lambda: hippo.legs_reconstruction(np.ones((1, 2)), np.ones(2)), ValueError, "c must"),
        (lambda: hippo.lagt_reconstruction([1.0], np.ones(2)), TypeError, "c must"),
        (lambda: hippo.legs_eigenvectors(0), ValueError, "at least 1"),
        (lambda: hippo.legs_condition(101), ValueError, "at most 100"),
        (lambda: hippo.normal_plus_low_rank(0), ValueError, "at least 1"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
