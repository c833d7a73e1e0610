"""S4, S4D and S5 against plain recurrences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import hippo, ssm
from book_utils import structured as layers

SEEDS = st.integers(0, 10**6)


def complexes(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def legs_system(N, seed=0):
    """LegS as diagonal minus rank one, with a real readout in its coordinates."""
    lam, p, b, V = hippo.normal_plus_low_rank(N)
    real = np.random.default_rng(seed).normal(size=N)
    return (lam, p, b, real @ V), real


@pytest.mark.parametrize("T", [1, 2, 7, 64, 129])
def test_s4_kernel_equals_the_naive_one(T):
    (lam, p, b, c), real = legs_system(16)
    A_bar, B_bar = ssm.discretize_bilinear(*hippo.legs(16), 1 / 50)
    naive = [(real @ np.linalg.matrix_power(A_bar, k) @ B_bar).item() for k in range(T)]
    np.testing.assert_allclose(layers.s4_kernel(lam, p, b, c, 1 / 50, T), naive, atol=1e-12)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(seed=SEEDS, N=st.integers(1, 6), dt=st.floats(0.01, 2))
def test_generating_function_equals_the_resolvent(seed, N, dt):
    rng = np.random.default_rng(seed)
    lam, p, b, c = -rng.uniform(0.1, 1, N) + 1j * rng.normal(size=N), *complexes(rng, 3, N)
    z = np.exp(2j * np.pi * rng.uniform(size=5))
    A_bar, b_bar = layers.bilinear_dplr(lam, p, b, dt)
    direct = [c @ np.linalg.solve(np.eye(N) - w * A_bar, b_bar) for w in z]
    np.testing.assert_allclose(
        layers.generating_function(lam, p, b, c, dt, z), direct, rtol=1e-7, atol=1e-9
    )


def test_minus_one_is_an_ordinary_point():
    (lam, p, b, c), _ = legs_system(4)
    A_bar, b_bar = layers.bilinear_dplr(lam, p, b, 0.1)
    direct = c @ np.linalg.solve(np.eye(4) + A_bar, b_bar)
    found = layers.generating_function(lam, p, b, c, 0.1, np.array([-1.0 + 0j]))[0]
    assert found == pytest.approx(direct, abs=1e-12)


def test_s4d_poles_are_those_of_the_paper():
    np.testing.assert_allclose(layers.s4d_poles(3, "lin"), -0.5 + 1j * np.pi * np.arange(3))
    inv = layers.s4d_poles(2, "inv")  # N = 4: 4/π (4 − 1) and 4/π (4/3 − 1)
    np.testing.assert_allclose(inv, -0.5 + 1j * np.array([12 / np.pi, 4 / 3 / np.pi]))
    legs = layers.s4d_poles(8, "legs")
    lam = hippo.normal_plus_low_rank(16)[0]
    np.testing.assert_allclose(np.sort(np.r_[legs, legs.conj()].imag), lam.imag, atol=1e-10)
    assert (np.diff(legs.imag) < 0).all()


def test_inv_follows_legs_and_lin_does_not():
    legs, inv, lin = (layers.s4d_poles(32, init).imag for init in ("legs", "inv", "lin"))
    assert abs(inv / legs - 1).max() < 0.25
    assert legs.max() > 10 * lin.max()


@settings(deadline=None, max_examples=30, derandomize=True)
@given(seed=SEEDS, n=st.integers(1, 5), T=st.integers(1, 30))
def test_vandermonde_kernel_equals_the_recurrence_of_both_conjugates(seed, n, T):
    rng = np.random.default_rng(seed)
    a = -rng.uniform(0.1, 1, n) + 1j * rng.normal(size=n)
    B, c = complexes(rng, n, 1), complexes(rng, n)
    a_bar, b_bar = ssm.discretize_zoh_diagonal(a, B, 0.3)
    both = [np.concatenate([w, w.conj()]) for w in (a_bar, b_bar, c)]
    impulse = np.eye(1, T)[0][:, None].astype(complex)
    expected = ssm.recurrence(both[0], both[1], both[2][None], impulse)[:, 0]
    np.testing.assert_allclose(expected.imag, 0, atol=1e-12)
    found = layers.vandermonde_kernel(a_bar, b_bar[:, 0], c, T)
    np.testing.assert_allclose(found, expected.real, atol=1e-11)


def test_s4d_layer_is_one_recurrence_a_channel():
    rng = np.random.default_rng(0)
    a = np.stack([layers.s4d_poles(4, init) for init in ("lin", "inv")])
    B, C, x = complexes(rng, 2, 4), complexes(rng, 2, 4), rng.normal(size=(40, 2))
    dt = np.array([0.1, 0.02])
    expected = []
    for d in range(2):
        a_bar, b_bar = ssm.discretize_zoh_diagonal(a[d], B[d][:, None], dt[d])
        states = ssm.recurrence(a_bar, b_bar, C[d][None], x[:, d : d + 1].astype(complex))
        expected.append(2 * states[:, 0].real)
    np.testing.assert_allclose(
        layers.s4d_layer(a, B, C, dt, x), np.stack(expected, axis=1), atol=1e-11
    )


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=SEEDS, n=st.integers(1, 5), m=st.integers(1, 3), p=st.integers(1, 3))
def test_s5_scan_equals_the_loop_with_many_inputs_and_outputs(seed, n, m, p):
    rng = np.random.default_rng(seed)
    a = -rng.uniform(0.1, 1, n) + 1j * rng.normal(size=n)
    B, C, x = complexes(rng, n, m), complexes(rng, p, n), rng.normal(size=(33, m))
    a_bar, B_bar = np.exp(0.2 * a), ((np.exp(0.2 * a) - 1) / a)[:, None] * B
    h, expected = np.zeros(n, complex), []
    for x_t in x:
        h = a_bar * h + B_bar @ x_t
        expected.append(2 * (C @ h).real)
    np.testing.assert_allclose(layers.s5_layer(a, B, C, 0.2, x), expected, atol=1e-11)


def test_the_future_cannot_change_the_past():
    rng = np.random.default_rng(0)
    a, x = layers.s4d_poles(4, "lin"), rng.normal(size=(20, 2))
    B, C = complexes(rng, 4, 2), complexes(rng, 2, 4)
    later = x.copy()
    later[12:] += 1
    before = layers.s5_layer(a, B, C, 0.1, x)[:12]
    np.testing.assert_array_equal(layers.s5_layer(a, B, C, 0.1, later)[:12], before)
    poles = np.stack([a, a])
    bank = (poles, B.T.copy(), C, np.array([0.1, 0.1]))
    np.testing.assert_allclose(
        layers.s4d_layer(*bank, later)[:12], layers.s4d_layer(*bank, x)[:12], atol=1e-12
    )


ONE = np.ones(2, complex)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: layers.bilinear_dplr(ONE, ONE, ONE, 0.0), ValueError, "dt must be above zero"),
        (lambda: layers.bilinear_dplr(ONE, ONE[:1], ONE, 0.1), ValueError, "axis N is 2 in lam"),
        (
            lambda: layers.generating_function(ONE, ONE, ONE, ONE, 0.1, np.ones((1, 1))),
            ValueError,
            "z must",
        ),
        (lambda: layers.s4_kernel(ONE, ONE, ONE, ONE, 0.1, 0), ValueError, "T must be at least 1"),
        (lambda: layers.s4_kernel(ONE, ONE, ONE, ONE, -1, 4), ValueError, "above zero"),
        (lambda: layers.s4d_poles(0, "lin"), ValueError, "n must be at least 1"),
        (lambda: layers.s4d_poles(4, "real"), ValueError, "init must be one of"),
        (lambda: layers.vandermonde_kernel(ONE, ONE, ONE, 0), ValueError, "T must"),
        (lambda: layers.vandermonde_kernel(ONE, ONE, [1.0], 3), TypeError, "c must"),
        (
            lambda: layers.s4d_layer(ONE[None], ONE[None], ONE[None], np.ones(2), np.ones((3, 1))),
            ValueError,
            "axis D is 1",
        ),
        (
            lambda: layers.s5_layer(ONE, np.ones((2, 3)), np.ones((1, 2)), 0.1, np.ones((4, 2))),
            ValueError,
            "axis m is 3 in B but 2 in x",
        ),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
