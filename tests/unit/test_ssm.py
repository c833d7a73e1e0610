"""`book_utils.ssm` against SciPy, PyTorch, ODE integration, closed forms and exact arithmetic."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.signal
import scipy.special
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import ssm

steady = settings(deadline=None, max_examples=40, derandomize=True)

CONVERT = {"numpy": np.asarray, "torch": torch.as_tensor}
both_kinds = pytest.mark.parametrize("kind", ["numpy", "torch"])

# Every kind of matrix that a formula with an inverse, or with eigenvectors, would trip over.
DOUBLE_INTEGRATOR = np.array([[0.0, 1.0], [0.0, 0.0]])
MATRICES = {
    "stable": np.array([[-1.0, 0.5, 0.0], [0.2, -2.0, 0.3], [0.0, 0.1, -0.5]]),
    "oscillating": np.array([[-0.1, 2.0], [-2.0, -0.1]]),
    "double integrator (singular, defective)": DOUBLE_INTEGRATOR,
    "zero": np.zeros((2, 2)),
    "singular, diagonalisable": np.array([[-1.0, 1.0], [1.0, -1.0]]),
    "Jordan block": np.array([[-0.5, 1.0, 0.0], [0.0, -0.5, 1.0], [0.0, 0.0, -0.5]]),
    "unstable": np.array([[0.3, 0.1], [0.0, 0.2]]),
    "n = 1": np.array([[-0.7]]),
}
all_matrices = pytest.mark.parametrize("A", MATRICES.values(), ids=MATRICES.keys())


def inputs_for(A: np.ndarray, m: int = 2) -> np.ndarray:
    return np.random.default_rng(len(A)).normal(size=(len(A), m))


def to_numpy(x) -> np.ndarray:
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


def relative_error(got, expected) -> float:
    got, expected = to_numpy(got), to_numpy(expected)
    assert got.shape == expected.shape
    return float(np.max(np.abs(got - expected)) / max(np.max(np.abs(expected)), 1e-300))


def loop(a, b):
    """The recurrence that `scan` must reproduce, token by token."""
    h, states = torch.zeros_like(b[..., 0, :]), []
    for t in range(b.shape[-2]):
        h = a[..., t, :] * h + b[..., t, :]
        states.append(h)
    return torch.stack(states, -2)


# ------------------------------------------------------------------------ zero-order hold, dense


@both_kinds
@all_matrices
@pytest.mark.parametrize("dt", [1e-8, 0.1, 1.0, 7.0])
def test_zoh_equals_scipy(A, dt, kind):
    B = inputs_for(A)
    expected = scipy.signal.cont2discrete((A, B, np.eye(len(A)), np.zeros(B.shape)), dt, "zoh")
    A_bar, B_bar = ssm.discretize_zoh(CONVERT[kind](A), CONVERT[kind](B), dt)
    assert relative_error(A_bar, expected[0]) < 1e-12
    assert relative_error(B_bar, expected[1]) < 1e-12


@all_matrices
def test_zoh_transition_equals_torch_matrix_exponential(A):
    A_bar, _ = ssm.discretize_zoh(A, inputs_for(A), 0.3)
    assert relative_error(A_bar, torch.linalg.matrix_exp(torch.tensor(A) * 0.3)) < 1e-13


@pytest.mark.parametrize("name", ["stable", "oscillating", "Jordan block", "n = 1"])
def test_zoh_equals_formula_with_inverse_where_there_is_one(name):
    A, dt = MATRICES[name], 0.4
    B = inputs_for(A)
    expected = np.linalg.solve(A, (scipy.linalg.expm(A * dt) - np.eye(len(A))) @ B)
    assert relative_error(ssm.discretize_zoh(A, B, dt)[1], expected) < 1e-12


@both_kinds
@pytest.mark.parametrize("dt", [1e-6, 0.5, 1e6])
def test_zoh_of_double_integrator_is_exact(dt, kind):
    B = CONVERT[kind](np.array([[0.0], [1.0]]))
    A_bar, B_bar = ssm.discretize_zoh(CONVERT[kind](DOUBLE_INTEGRATOR), B, dt)
    np.testing.assert_allclose(to_numpy(A_bar), [[1, dt], [0, 1]], rtol=1e-14, atol=0)
    np.testing.assert_allclose(to_numpy(B_bar), [[dt * dt / 2], [dt]], rtol=1e-14, atol=0)


def test_zoh_of_jordan_block_is_its_closed_form():
    dt, decay = 0.8, math.exp(-0.5 * 0.8)
    A_bar, _ = ssm.discretize_zoh(MATRICES["Jordan block"], np.ones((3, 1)), dt)
    expected = decay * np.array([[1, dt, dt * dt / 2], [0, 1, dt], [0, 0, 1]])
    np.testing.assert_allclose(A_bar, expected, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("name", ["oscillating", "double integrator (singular, defective)"])
def test_zoh_is_exact_at_samples_of_the_differential_equation(name):
    A, dt, T = MATRICES[name], 0.5, 8
    B, x = inputs_for(A), np.random.default_rng(1).normal(size=(T, 2))
    states, h = [], np.zeros(len(A))
    for t in range(T):  # token t is held over its whole interval

        def slope(_, h, held=x[t]):
            return A @ h + B @ held

        h = scipy.integrate.solve_ivp(slope, (0, dt), h, rtol=1e-11, atol=1e-12).y[:, -1]
        states.append(h)
    A_bar, B_bar = ssm.discretize_zoh(A, B, dt)
    got = ssm.recurrence(A_bar, B_bar, np.eye(len(A)), x)
    np.testing.assert_allclose(got, states, rtol=1e-8, atol=1e-9)


@both_kinds
@pytest.mark.parametrize("size", [1e-200, 1e10, 1e200])
@pytest.mark.parametrize("dt", [1e-3, 1.0, 1e6])
def test_zoh_keeps_its_digits_whatever_the_units_of_the_input(size, dt, kind):
    A = CONVERT[kind](np.array([[-1.0]]))
    A_bar, B_bar = ssm.discretize_zoh(A, CONVERT[kind](np.array([[size]])), dt)
    assert float(A_bar[0, 0]) == pytest.approx(math.exp(-dt), rel=1e-13, abs=1e-300)
    assert float(B_bar[0, 0]) == pytest.approx(-math.expm1(-dt) * size, rel=1e-13)


@both_kinds
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize(
    ("a", "coupling", "exact"),
    [
        (-1.0, 1e8, 1e8 * math.exp(-1)),  # far from normal: e^A = e⁻¹ (I + coupling)
        (-1e5, 1.0, math.exp(-1) / (1e5 - 1)),  # stiff
    ],
)
def test_zoh_in_single_precision_is_as_good_as_its_dtype(a, coupling, exact, dtype, kind):
    A, B = np.array([[a, coupling], [0, -1]], dtype), np.array([[0.0], [1.0]], dtype)
    A_bar, B_bar = ssm.discretize_zoh(CONVERT[kind](A), CONVERT[kind](B), 1.0)
    assert to_numpy(A_bar).dtype == to_numpy(B_bar).dtype == dtype
    expected = np.array([[math.exp(a), exact], [0, math.exp(-1)]])
    np.testing.assert_allclose(to_numpy(A_bar), expected, rtol=4e-7)
    write = np.linalg.solve(A.astype(complex), (expected - np.eye(2)) @ B)
    np.testing.assert_allclose(to_numpy(B_bar), write, rtol=4e-7)


def test_zoh_of_zero_input_writes_nothing():
    np.testing.assert_array_equal(
        ssm.discretize_zoh(DOUBLE_INTEGRATOR, np.zeros((2, 1)), 1.0)[1], 0
    )


@st.composite
def systems(draw, n_max=4):
    """A stable-ish random (A, B): entries of a few units, a shifted spectrum."""
    n, m = draw(st.integers(1, n_max)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    A = rng.normal(size=(n, n)) - draw(st.sampled_from([0.0, 1.0, 3.0])) * np.eye(n)
    return A, rng.normal(size=(n, m))


@steady
@given(systems(), st.floats(1e-3, 2), st.floats(1e-3, 2))
def test_zoh_steps_compose(system, first, second):
    """Semigroup: two held steps in a row are one of the total length."""
    A, B = system
    A1, B1 = ssm.discretize_zoh(A, B, first)
    A2, B2 = ssm.discretize_zoh(A, B, second)
    whole_A, whole_B = ssm.discretize_zoh(A, B, first + second)
    np.testing.assert_allclose(A2 @ A1, whole_A, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(A2 @ B1 + B2, whole_B, rtol=1e-9, atol=1e-9)


@both_kinds
def test_zoh_broadcasts_batches_of_systems_and_steps(kind):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(3, 1, 2, 2)), rng.normal(size=(4, 2, 3))
    dt = rng.uniform(0.1, 1, size=(3, 4, 1, 1))
    A_bar, B_bar = ssm.discretize_zoh(*(CONVERT[kind](z) for z in (A, B, dt)))
    assert A_bar.shape == (3, 4, 2, 2)
    assert B_bar.shape == (3, 4, 2, 3)
    for i, j in np.ndindex(3, 4):
        one_A, one_B = ssm.discretize_zoh(A[i, 0], B[j], float(dt[i, j, 0, 0]))
        assert relative_error(A_bar[i, j], one_A) < 1e-13
        assert relative_error(B_bar[i, j], one_B) < 1e-13


@both_kinds
@pytest.mark.parametrize(
    "discretize", [ssm.discretize_zoh, ssm.discretize_bilinear, ssm.discretize_euler]
)
def test_dense_rules_accept_an_empty_batch(discretize, kind):
    A, B = CONVERT[kind](np.zeros((0, 2, 2))), CONVERT[kind](np.zeros((2, 1)))
    A_bar, B_bar = discretize(A, B, 0.1)
    assert (A_bar.shape, B_bar.shape) == ((0, 2, 2), (0, 2, 1))


# ---------------------------------------------------------------------- zero-order hold, diagonal


@both_kinds
@pytest.mark.parametrize("dt", [1e-7, 0.2, 3.0])
def test_diagonal_zoh_equals_dense_zoh(dt, kind):
    a = np.array([-2.0, -0.3 + 4j, -0.3 - 4j, 0.0, 0.2])
    B = inputs_for(np.eye(5))
    a_bar, B_bar = ssm.discretize_zoh_diagonal(CONVERT[kind](a), CONVERT[kind](B), dt)
    dense_A, dense_B = ssm.discretize_zoh(np.diag(a), B + 0j, dt)
    assert relative_error(a_bar, np.diagonal(dense_A)) < 1e-13
    assert relative_error(B_bar, dense_B) < 1e-13


@both_kinds
@pytest.mark.parametrize("product", [-1e-30, -1e-8, -1e-4, -0.1, -0.6, -5.0, -80.0, 1e-8, 5.0])
def test_diagonal_zoh_is_accurate_in_float32(product, kind):
    """At a·Δ = −1e-8 the textbook form (e^{aΔ} − 1)/a is exactly 0 in float32."""
    dt = np.float32(0.01)
    a = np.float32(product) / dt
    B_bar = ssm.discretize_zoh_diagonal(
        CONVERT[kind](np.array([a])), CONVERT[kind](np.ones((1, 1), np.float32)), float(dt)
    )[1]
    exact = math.expm1(float(a) * float(dt)) / float(a)
    assert str(B_bar.dtype).endswith("float32")
    assert float(B_bar[0, 0]) == pytest.approx(exact, rel=1e-6)


@both_kinds
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_diagonal_zoh_of_an_integrator_writes_exactly_its_step(dtype, kind):
    a, B = CONVERT[kind](np.zeros(1, dtype)), CONVERT[kind](np.full((1, 1), 3, dtype))
    a_bar, B_bar = ssm.discretize_zoh_diagonal(a, B, 0.25)
    assert a_bar[0] == 1
    assert B_bar[0, 0] == 0.75


@both_kinds
def test_large_steps_forget_and_settle(kind):
    a, B = CONVERT[kind](np.array([-0.5, -2 + 30j])), CONVERT[kind](np.ones((2, 1)))
    a_bar, B_bar = ssm.discretize_zoh_diagonal(a, B, 1e30)
    np.testing.assert_array_equal(to_numpy(a_bar), 0)
    assert relative_error(B_bar[:, 0], -1 / to_numpy(a)) < 1e-14


@both_kinds
def test_diagonal_zoh_gives_every_mode_its_own_step_or_several_layers(kind):
    a, B = np.array([-1.0, -2.0, -3.0]), inputs_for(np.eye(3))
    own = np.array([0.1, 0.2, 0.3])
    got = ssm.discretize_zoh_diagonal(*(CONVERT[kind](z) for z in (a, B, own)))
    for i in range(3):
        one = ssm.discretize_zoh_diagonal(a[i : i + 1], B[i : i + 1], float(own[i]))
        assert relative_error(got[0][i : i + 1], one[0]) < 1e-15
        assert relative_error(got[1][i : i + 1], one[1]) < 1e-15
    several = ssm.discretize_zoh_diagonal(*(CONVERT[kind](z) for z in (a, B, own[:2, None])))
    assert several[0].shape == (2, 3)
    assert several[1].shape == (2, 3, 2)
    assert relative_error(several[1][1], ssm.discretize_zoh_diagonal(a, B, 0.2)[1]) < 1e-15


def exact_phi1(z: float, derivative: bool = False) -> float:
    """φ₁(z) or φ₁′(z) with 80 digits, so that no cancellation survives."""
    with localcontext() as context:
        context.prec = 80
        z = Decimal(z)
        value = (z.exp() * (z - 1) + 1) / z**2 if derivative else (z.exp() - 1) / z
        return float(value)


@steady
@given(st.floats(-50, 50).filter(lambda z: abs(z) > 1e-30))
def test_phi1_is_accurate(z):
    got = float(ssm.phi1(np.array([z]))[0])
    assert got == pytest.approx(exact_phi1(z), rel=1e-14)
    assert got == pytest.approx(scipy.special.exprel(z), rel=1e-14)


@steady
@given(st.floats(-30, 3), st.floats(-30, 30))
def test_phi1_of_complex_numbers_is_the_integral_of_exponentials(re, im):
    nodes, weights = np.polynomial.legendre.leggauss(60)
    z = complex(re, im)
    expected = np.sum(weights / 2 * np.exp(z * (nodes + 1) / 2))  # ∫₀¹ e^{zs} ds
    for convert in CONVERT.values():
        got = complex(ssm.phi1(convert(np.array([z])))[0])
        assert abs(got - expected) < 1e-12 * max(1, abs(expected))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("z", [-1e-30, 1e-8, -1e-4, -0.03, 0.49, -0.51, 2.0, -20.0])
def test_gradient_of_phi1_does_not_cancel(z, dtype, tolerance):
    """Differentiating expm1(z)/z gives e^z/z − expm1(z)/z², which is all rounding error near 0."""
    x = torch.tensor([z], dtype=dtype, requires_grad=True)
    (gradient,) = torch.autograd.grad(ssm.phi1(x).sum(), x)
    exact = exact_phi1(float(x.detach()), derivative=True)
    assert float(gradient) == pytest.approx(exact, rel=tolerance)


@both_kinds
@pytest.mark.parametrize("z", [1000.0, 1000 + 1j])
def test_phi1_that_overflows_is_an_error(z, kind):
    with pytest.raises(ValueError, match=r"exp\(z\) overflows"):
        ssm.phi1(CONVERT[kind](np.array([z, 0.1])))
    assert abs(to_numpy(ssm.phi1(CONVERT[kind](np.array([-z]))))[0] - 1 / z) < 1e-12


def test_gradient_of_phi1_is_one_half_at_zero():
    for dtype in (torch.float32, torch.complex64):
        z = torch.zeros(1, dtype=dtype, requires_grad=True)
        (gradient,) = torch.autograd.grad(ssm.phi1(z).real.sum(), z)
        assert complex(gradient) == 0.5


def test_gradients_of_the_rules_equal_finite_differences():
    rng = np.random.default_rng(3)
    A, B = (torch.tensor(rng.normal(size=s), requires_grad=True) for s in ((3, 3), (3, 2)))
    dt = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    a = torch.tensor([0.0, -0.7, -3.0], dtype=torch.float64, requires_grad=True)
    z = torch.tensor([0.0, -0.2 + 3j, -2 - 1j], dtype=torch.complex128, requires_grad=True)
    for rule in (ssm.discretize_zoh, ssm.discretize_bilinear, ssm.discretize_euler):
        assert torch.autograd.gradcheck(rule, (A, B, dt))
    for diagonal in (a, z):
        for rule in (ssm.discretize_zoh_diagonal, ssm.discretize_mamba):
            assert torch.autograd.gradcheck(rule, (diagonal, B, dt))


# ---------------------------------------------------------------------------------- other rules


@both_kinds
@all_matrices
@pytest.mark.parametrize("method", ["bilinear", "euler"])
def test_bilinear_and_euler_equal_scipy(A, method, kind):
    B, dt = inputs_for(A), 0.3
    expected = scipy.signal.cont2discrete((A, B, np.eye(len(A)), np.zeros(B.shape)), dt, method)
    rule = getattr(ssm, f"discretize_{method}")
    got = rule(CONVERT[kind](A), CONVERT[kind](B), dt)
    assert relative_error(got[0], expected[0]) < 1e-12
    assert relative_error(got[1], expected[1]) < 1e-12


@pytest.mark.parametrize(
    ("rule", "order"), [(ssm.discretize_euler, 1), (ssm.discretize_bilinear, 2)]
)
def test_orders_of_convergence(rule, order):
    """At a fixed time the error falls like Δ to the rule's order."""
    A, B, errors = MATRICES["stable"], inputs_for(MATRICES["stable"]), []
    exact = scipy.linalg.expm(A)
    for steps in (64, 128):
        A_bar, _ = rule(A, B, 1 / steps)
        errors.append(np.abs(np.linalg.matrix_power(A_bar, steps) - exact).max())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)


@steady
@given(st.floats(-50, -1e-3), st.floats(-50, 50), st.floats(1e-3, 100))
def test_stable_modes_stay_stable_except_under_euler(re, im, dt):
    a, B = np.array([complex(re, im)]), np.ones((1, 1))
    exact, _ = ssm.discretize_zoh_diagonal(a, B, dt)
    tustin, _ = ssm.discretize_bilinear(np.diag(a), B, dt)
    euler, _ = ssm.discretize_euler(np.diag(a), B, dt)
    assert abs(exact[0]) < 1
    assert abs(tustin[0, 0]) < 1
    assert (abs(euler[0, 0]) > 1) == (abs(1 + a[0] * dt) > 1)


def test_euler_is_unstable_beyond_its_limit():
    for dt, stable in ((0.19, True), (0.21, False)):  # the limit for a = −10 is Δ = 2/10
        A_bar, _ = ssm.discretize_euler(np.array([[-10.0]]), np.ones((1, 1)), dt)
        assert bool(abs(A_bar[0, 0]) < 1) is stable


@pytest.mark.parametrize(("z", "ratio"), [(0.1, 0.952), (1.0, 0.632), (5.0, 0.199)])
def test_mamba_shortcut_writes_too_much(z, ratio):
    a, B = np.array([-4.0]), np.array([[2.0]])
    exact, shortcut = (
        rule(a, B, z / 4) for rule in (ssm.discretize_zoh_diagonal, ssm.discretize_mamba)
    )
    np.testing.assert_array_equal(exact[0], shortcut[0])
    assert float(exact[1][0, 0] / shortcut[1][0, 0]) == pytest.approx(ratio, abs=5e-4)
    assert float(shortcut[1][0, 0]) == pytest.approx(z / 2, rel=1e-15)


def test_bilinear_names_the_pole_that_it_cannot_map():
    with pytest.raises(ValueError, match="2/dt is an eigenvalue of A"):
        ssm.discretize_bilinear(np.array([[4.0]]), np.ones((1, 1)), 0.5)
    with pytest.raises(ValueError, match="2/dt is an eigenvalue of A"):
        ssm.discretize_bilinear(torch.tensor([[4.0]]), torch.ones(1, 1), 0.5)


def test_half_life_halves():
    assert ssm.half_life(-0.5) == pytest.approx(2 * math.log(2))
    assert ssm.half_life(-0.5 + 3j, dt=0.1) == pytest.approx(20 * math.log(2))
    a = np.array([-1.0, -4.0 + 2j])
    np.testing.assert_allclose(np.abs(np.exp(a * 0.1)) ** ssm.half_life(a, 0.1), 0.5, rtol=1e-14)
    tokens = ssm.half_life(torch.tensor([-0.25]), 2.0)
    torch.testing.assert_close(tokens, torch.tensor([2 * math.log(2)]))


# --------------------------------------------------------------------------- dtypes and precision

NUMPY_DTYPES = list(map(np.dtype, ["float16", "float32", "float64", "complex64", "complex128"]))
TORCH_DTYPES = [torch.bfloat16, *(getattr(torch, dtype.name) for dtype in NUMPY_DTYPES)]


@pytest.mark.parametrize("dtype", NUMPY_DTYPES + TORCH_DTYPES, ids=str)
def test_every_function_keeps_the_dtype_and_is_about_right(dtype):
    kind = CONVERT["torch" if isinstance(dtype, torch.dtype) else "numpy"]
    exact = [
        np.array([[-0.5, 0.25], [0.0, -1.0]]),
        np.array([[1.0], [2.0]]),
        np.array([[1.0, 0.5]]),
    ]
    x = np.array([[1.0], [-1.0], [0.5]])
    single = dtype.itemsize == (8 if "complex" in str(dtype) else 4)
    tolerance = 0.05 if dtype.itemsize == 2 else 1e-5 if single else 1e-13

    def convert(z):
        return kind(z).to(dtype) if isinstance(dtype, torch.dtype) else z.astype(dtype)

    def run(A, B, C, x):
        dense, diagonal = ssm.discretize_zoh(A, B, 0.5), ssm.discretize_zoh_diagonal(A[0], B, 0.5)
        yield from (*dense, *ssm.discretize_bilinear(A, B, 0.5), *ssm.discretize_euler(A, B, 0.5))
        yield from (*diagonal, *ssm.discretize_mamba(A[0], B, 0.5), ssm.phi1(A))
        K = ssm.kernel(*dense, C, 3)
        yield from (K, ssm.causal_convolution(K, x), ssm.recurrence(*dense, C, x))
        yield from (ssm.scan(A[0], x), ssm.chunked_recurrence(*diagonal, C, x, 2))

    for got, expected in zip(run(*map(convert, (*exact, x))), run(*exact, x), strict=True):
        assert got.dtype == dtype
        got = to_numpy(got.to(torch.complex128)) if isinstance(got, torch.Tensor) else got
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_mixed_dtypes_are_promoted():
    a, B = np.array([-1.0 + 1j]), np.ones((1, 1), np.float32)
    assert ssm.discretize_zoh_diagonal(a, B, 0.1)[1].dtype == np.complex128
    y = ssm.recurrence(
        torch.tensor([0.5]), torch.ones(1, 1), torch.ones(1, 1) + 0j, torch.ones(2, 1)
    )
    assert y.dtype == torch.complex64


# ----------------------------------------------------------- recurrence, kernel, convolution, scan


def second_order_system():
    A = np.array([[0.9, 0.3], [-0.3, 0.9]])
    return A, np.array([[0.0], [0.5]]), np.array([[1.0, 0.5]])


@both_kinds
def test_recurrence_equals_lfilter(kind):
    """H(z) = C(I − Āz⁻¹)⁻¹B̄: `ss2tf` gives it one step late, so drop its leading zero."""
    A, B, C = second_order_system()
    x = np.random.default_rng(0).normal(size=(60, 1))
    numerator, denominator = scipy.signal.ss2tf(A, B, C, np.zeros((1, 1)))
    expected = scipy.signal.lfilter(numerator[0, 1:], denominator, x[:, 0])
    y = ssm.recurrence(*(CONVERT[kind](z) for z in (A, B, C, x)))
    assert relative_error(y[:, 0], expected) < 1e-12


def test_recurrence_of_diagonal_modes_equals_lfilter():
    a, B, C = np.array([0.9, -0.5, 0.2]), np.array([[1.0], [2.0], [3.0]]), np.array([[1, -1, 0.5]])
    x = np.random.default_rng(0).normal(size=(60, 1))
    expected = sum(scipy.signal.lfilter([C[0, i] * B[i, 0]], [1, -a[i]], x[:, 0]) for i in range(3))
    assert relative_error(ssm.recurrence(a, B, C, x)[:, 0], expected) < 1e-13


def test_dlsim_is_one_step_late():
    A, B, C = second_order_system()
    x = np.random.default_rng(0).normal(size=(20, 1))
    _, late, _ = scipy.signal.dlsim((A, B, C, np.zeros((1, 1)), 1.0), x)
    y = ssm.recurrence(A, B, C, x)
    np.testing.assert_allclose(late[1:], y[:-1], atol=1e-12)
    assert np.abs(late - y).max() > 0.1


@both_kinds
def test_first_output_has_seen_the_first_token(kind):
    A, B, C = (CONVERT[kind](z) for z in second_order_system())
    x = CONVERT[kind](np.array([[2.0]]))
    assert float(ssm.recurrence(A, B, C, x)[0, 0]) == pytest.approx(0.5, rel=1e-15)  # C B̄ x₁


@both_kinds
def test_initial_state_is_carried(kind):
    A, B, C = (CONVERT[kind](z) for z in second_order_system())
    x = CONVERT[kind](np.random.default_rng(0).normal(size=(3, 7, 1)))
    eye = CONVERT[kind](np.eye(2))
    whole = ssm.recurrence(A, B, C, x)
    state = ssm.recurrence(A, B, eye, x[:, :4])[:, -1]  # C = I reads out the states
    rest = ssm.recurrence(A, B, C, x[:, 4:], h0=state)
    assert relative_error(rest, to_numpy(whole[:, 4:])) < 1e-13


@both_kinds
@pytest.mark.parametrize("T", [1, 2, 3, 13, 64])
def test_kernel_is_the_powers_of_the_transition(T, kind):
    A, B, C = MATRICES["stable"] * 0.4, inputs_for(MATRICES["stable"]), np.ones((2, 3))
    expected = [C @ np.linalg.matrix_power(A, k) @ B for k in range(T)]
    K = ssm.kernel(*(CONVERT[kind](z) for z in (A, B, C)), T)
    np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-11, atol=1e-13)
    a = np.array([0.9 + 0.3j, 0.0, -0.99])
    K = ssm.kernel(*(CONVERT[kind](z) for z in (a, B, C)), T)
    expected = [C @ np.diag(a**k) @ B for k in range(T)]
    np.testing.assert_allclose(to_numpy(K), expected, rtol=1e-11, atol=1e-13)


def test_kernel_of_an_unstable_system_does_not_overflow_early():
    K = ssm.kernel(np.array([[1e30]]), np.ones((1, 1)), np.ones((1, 1)), 11)
    assert K[-1, 0, 0] == pytest.approx(1e300, rel=1e-12)


def test_two_decaying_modes_can_make_a_kernel_that_first_grows():
    K = ssm.kernel(np.array([0.8, 0.3]), np.ones((2, 1)), np.array([[1.0, -0.5]]), 3)
    np.testing.assert_allclose(K[:, 0, 0], [0.5, 0.65, 0.595], rtol=1e-14)


@both_kinds
@pytest.mark.parametrize(("L", "T"), [(1, 1), (1, 9), (9, 1), (5, 9), (9, 9), (20, 9)])
def test_convolution_equals_numpy_convolve(L, T, kind):
    rng = np.random.default_rng(L + T)
    K, x = rng.normal(size=(L, 1, 1)), rng.normal(size=(T, 1))
    y = ssm.causal_convolution(CONVERT[kind](K), CONVERT[kind](x))
    assert relative_error(y[:, 0], np.convolve(K[:, 0, 0], x[:, 0])[:T]) < 1e-13


@both_kinds
def test_convolution_does_not_wrap_round(kind):
    """A token at the end must not reach the beginning."""
    x = np.zeros((8, 1))
    x[-1] = 1.0
    y = ssm.causal_convolution(CONVERT[kind](np.ones((8, 1, 1))), CONVERT[kind](x))
    np.testing.assert_allclose(to_numpy(y)[:, 0], [0, 0, 0, 0, 0, 0, 0, 1], atol=1e-14)


def random_layer(seed, n, m, p, T, *, dense, is_complex, batch=()):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        z = rng.normal(size=shape)
        return z + 1j * rng.normal(size=shape) if is_complex else z

    if dense:
        A = draw(*batch, n, n)
        A *= 0.95 / np.abs(np.linalg.eigvals(A)).max(-1)[..., None, None]
    else:
        A = draw(*batch, n)
        A *= rng.uniform(0, 1, size=A.shape) / np.abs(A)
    return A, draw(n, m), draw(p, n), draw(*batch, T, m)


@steady
@given(
    seed=st.integers(0, 10_000),
    sizes=st.tuples(*[st.integers(1, 4)] * 3),
    T=st.integers(1, 40),
    chunk=st.integers(1, 20),
    is_complex=st.booleans(),
    dense=st.booleans(),
    kind=st.sampled_from(["numpy", "torch"]),
)
def test_all_routes_agree(seed, sizes, T, chunk, is_complex, dense, kind):
    """Recurrence = convolution = scan = chunks, in float64."""
    A, B, C, x = random_layer(seed, *sizes, T, dense=dense, is_complex=is_complex)
    scale = max(1.0, np.abs(ssm.recurrence(A, B, C, x)).max())
    A, B, C, x = (CONVERT[kind](z) for z in (A, B, C, x))
    y = ssm.recurrence(A, B, C, x)
    routes = [
        ssm.causal_convolution(ssm.kernel(A, B, C, T), x),
        ssm.chunked_recurrence(A, B, C, x, chunk),
    ]
    if not dense:
        routes.append(ssm.scan(A, x @ B.swapaxes(-1, -2)) @ C.swapaxes(-1, -2))
    for other in routes:
        assert np.abs(to_numpy(other) - to_numpy(y)).max() < 1e-10 * scale


@both_kinds
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("batch", [(3,), (2, 3), (0,)])
def test_routes_broadcast_over_a_batch_of_layers(batch, dense, kind):
    A, B, C, x = random_layer(0, 3, 2, 2, 11, dense=dense, is_complex=False, batch=(2, 3))
    A, x = (z[0] if len(batch) == 1 else z for z in (A, x))
    A, x = (z[:0] if 0 in batch else z for z in (A, x))
    B = np.broadcast_to(B, (*batch, 3, 2))
    A, B, C, x = (CONVERT[kind](np.array(z)) for z in (A, B, C, x))
    say = {} if dense or batch == (2, 3) else {"diagonal": True}  # (3, 3) could be a matrix
    routes = (
        ssm.recurrence(A, B, C, x, **say),
        ssm.chunked_recurrence(A, B, C, x, 4, **say),
        ssm.causal_convolution(ssm.kernel(A, B, C, 11, **say), x),
    )
    for y in routes:
        assert y.shape == (*batch, 11, 2)
        for i in np.ndindex(*batch):
            one = ssm.recurrence(A[i], B[i], C, x[i])
            assert relative_error(y[i], to_numpy(one)) < 1e-12


def routes_of(A, B, C, x, **say):
    return [
        ssm.recurrence(A, B, C, x, **say),
        ssm.chunked_recurrence(A, B, C, x, 4, **say),
        ssm.causal_convolution(ssm.kernel(A, B, C, x.shape[-2], **say), x),
    ]


@both_kinds
@pytest.mark.parametrize("say", [True, False])
def test_a_square_transition_for_a_batch_must_say_what_it_is(say, kind):
    """Ā (n, n) with B̄ (n, n, m): n diagonals, or one matrix for n layers."""
    A, _, C, x = random_layer(1, 3, 2, 2, 9, dense=True, is_complex=False)
    B = np.random.default_rng(2).normal(size=(3, 3, 2))
    A, B, C, x = (CONVERT[kind](z) for z in (A, B, C, x))
    for call in (
        lambda **say: ssm.recurrence(A, B, C, x, **say),
        lambda **say: ssm.chunked_recurrence(A, B, C, x, 4, **say),
        lambda **say: ssm.kernel(A, B, C, 9, **say),
    ):
        with pytest.raises(ValueError, match="say diagonal=True or diagonal=False"):
            call()
        with pytest.raises(ValueError, match="diagonal must be one of"):
            call(diagonal="yes")
    for y in routes_of(A, B, C, x, diagonal=say):
        assert y.shape == (3, 9, 2)
        for i in range(3):
            one = ssm.recurrence(A[i] if say else A, B[i], C, x)
            assert relative_error(y[i], to_numpy(one)) < 1e-12


@both_kinds
def test_a_transition_is_read_in_the_only_way_that_fits(kind):
    rng, convert = np.random.default_rng(3), CONVERT[kind]
    x, C = convert(rng.normal(size=(9, 2))), convert(rng.normal(size=(2, 3)))
    dense, B = rng.uniform(-0.3, 0.3, size=(3, 3)), rng.normal(size=(5, 3, 2))
    for y in routes_of(convert(dense), convert(B), C, x):  # one matrix for five layers
        for i in range(5):
            one = ssm.recurrence(convert(dense), convert(B[i]), C, x)
            assert relative_error(y[i], to_numpy(one)) < 1e-12
    several = rng.uniform(-0.9, 0.9, size=(5, 3))
    for y in routes_of(convert(several), convert(B[0]), C, x):  # five diagonals, one write
        for i in range(5):
            one = ssm.recurrence(convert(np.diag(several[i])), convert(B[0]), C, x)
            assert relative_error(y[i], to_numpy(one)) < 1e-12
    three = routes_of(convert(several[:3]), convert(B[0]), C, x, diagonal=True)
    for y in three:  # (3, 3) with one B̄ is a matrix, unless told otherwise
        one = ssm.recurrence(convert(several[2]), convert(B[0]), C, x)
        assert relative_error(y[2], to_numpy(one)) < 1e-12
    y = ssm.recurrence(
        convert(np.full((1, 1), 0.5)), convert(np.ones((4, 1, 1))), C[:, :1], x[:, :1]
    )
    assert tuple(y.shape) == (4, 9, 2)  # with one state the two readings are the same


def test_one_chunk_needs_no_power_beyond_its_kernel():
    one, x = np.ones((1, 1)), np.zeros((1024, 1))
    x[-1] = 1.0
    for A in (np.array([[2.0]]), np.array([2.0])):
        for chunk in (1024, 2000, 512):  # 2¹⁰²⁴ is out of range
            y = ssm.chunked_recurrence(A, one, one, x, chunk)
            np.testing.assert_array_equal(y, ssm.recurrence(A, one, one, x))


@pytest.mark.parametrize(
    ("route", "missing"),
    [(ssm.kernel, name) for name in ("A_bar", "B_bar", "C")]
    + [
        (r, n)
        for r in (ssm.recurrence, ssm.chunked_recurrence)
        for n in ("A_bar", "B_bar", "C", "x")
    ],
)
def test_a_missing_array_is_named(route, missing):
    layer = {"A_bar": A2, "B_bar": B2, "C": C2} | ({"T": 3} if route is ssm.kernel else {"x": X2})
    with pytest.raises(TypeError, match=f"{missing} must be a numpy array or a torch tensor"):
        route(**(layer | {missing: None}))


def test_numpys_own_warnings_are_left_as_they_were():
    before = np.geterr()  # numpy 1.26 forgets it when one errstate is entered twice
    ssm.discretize_zoh_diagonal(np.array([-1.0]), np.ones((1, 1)), 0.1)
    ssm.half_life(-1.0)
    assert np.geterr() == before


def test_float32_routes_agree_to_single_precision():
    A, B, C, x = (
        z.astype(np.float32) for z in random_layer(0, 8, 2, 2, 500, dense=False, is_complex=False)
    )
    exact = ssm.recurrence(*(z.astype(np.float64) for z in (A, B, C, x)))
    for y in (
        ssm.recurrence(A, B, C, x),
        ssm.causal_convolution(ssm.kernel(A, B, C, 500), x),
        ssm.chunked_recurrence(A, B, C, x),
        ssm.scan(A, x @ B.T) @ C.T,
    ):
        assert y.dtype == np.float32
        assert np.abs(y - exact).max() < 1e-5 * np.abs(exact).max()


ROUTES = {
    "recurrence": ssm.recurrence,
    "convolution": lambda A, B, C, x: ssm.causal_convolution(ssm.kernel(A, B, C, x.shape[-2]), x),
    "scan": lambda A, B, C, x: ssm.scan(A, x @ B.mT) @ C.mT,
    "chunks": lambda A, B, C, x: ssm.chunked_recurrence(A, B, C, x, 4),
}


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES.keys())
def test_the_future_cannot_change_the_past(route):
    A, B, C, x = map(torch.tensor, random_layer(1, 3, 2, 1, 12, dense=False, is_complex=False))
    x.requires_grad_(True)
    y = route(A, B, C, x)
    changed = x.detach().clone()
    changed[7:] += 100.0
    difference = (route(A, B, C, changed) - y.detach()).abs()[:, 0]
    assert float(difference[:7].max()) < 1e-12
    assert float(difference[7]) > 1.0
    (gradient,) = torch.autograd.grad(y[6].sum(), x)
    assert float(gradient[7:].abs().max()) < 1e-14
    assert float(gradient[:7].abs().min()) > 1e-9


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES.keys())
def test_gradients_of_every_route_equal_the_recurrence(route):
    arrays = random_layer(2, 3, 2, 2, 11, dense=False, is_complex=True)
    inputs = [torch.tensor(z, requires_grad=True) for z in arrays]
    weight = torch.tensor(np.random.default_rng(0).normal(size=(11, 2)))

    def gradients(f):
        return torch.autograd.grad((f(*inputs).real * weight).sum(), inputs)

    for got, expected in zip(gradients(route), gradients(ssm.recurrence), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@steady
@given(
    st.integers(1, 33),
    st.integers(1, 3),
    st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 10_000),
    st.booleans(),
)
def test_scan_and_its_gradients_equal_the_loop(T, n, batch, seed, is_complex):
    rng = np.random.default_rng(seed)
    a, b, weight = rng.uniform(-1.2, 1.2, size=(3, *batch, T, n))
    a[rng.random(a.shape) < 0.2] = 0.0  # a gate that is shut: a division by a would fail
    if is_complex:
        a, b = a * np.exp(1j * b), b + 1j * a
    a, b = (torch.tensor(z, requires_grad=True) for z in (a, b))
    fast, slow = ssm.scan(a, b), loop(a, b)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    gradients = (
        torch.autograd.grad(
            (h.real * torch.tensor(weight)).sum(), (a, b), materialize_grads=True
        )  # at T = 1 the scan does not read a at all
        for h in (fast, slow)
    )
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        ssm.scan(to_numpy(a), to_numpy(b)), to_numpy(slow), rtol=1e-10, atol=1e-10
    )


@both_kinds
def test_scan_takes_a_fixed_decay_and_an_initial_state(kind):
    a, b, h0 = np.array([0.9, -0.5]), np.random.default_rng(0).normal(size=(3, 9, 2)), np.ones(2)
    first = b.copy()
    first[:, 0] += a * h0
    expected = ssm.recurrence(a, np.eye(2), np.eye(2), b, h0=h0)
    assert relative_error(ssm.scan(CONVERT[kind](a), CONVERT[kind](first)), expected) < 1e-13


@both_kinds
@pytest.mark.parametrize("T", [1, 4])
def test_scan_returns_a_new_array(T, kind):
    a, b = CONVERT[kind](np.full(2, 0.5)), CONVERT[kind](np.ones((T, 2)))
    shared = CONVERT[kind](np.ones((3, 1, 2)))
    states = ssm.scan(a, b)
    states[:] = 7.0
    assert (b == 1).all()
    batch = ssm.scan(shared, b)  # b is repeated three times: no two may share memory
    batch[0] = 7.0
    assert (batch[1:] != 7).all()


def test_scan_leaves_its_arguments_alone():
    a, b = np.full((4, 1), 0.5), np.ones((4, 1))
    ssm.scan(a, b)
    np.testing.assert_array_equal(a, 0.5)
    np.testing.assert_array_equal(b, 1.0)


# -------------------------------------------------------------------------------------- bad input

A2, B2, C2, X2 = np.eye(2) * -1.0, np.ones((2, 1)), np.ones((1, 2)), np.ones((5, 1))
DENSE = [ssm.discretize_zoh, ssm.discretize_bilinear, ssm.discretize_euler]
DIAGONAL = [ssm.discretize_zoh_diagonal, ssm.discretize_mamba]


@pytest.mark.parametrize("rule", DENSE + DIAGONAL)
@pytest.mark.parametrize(
    ("dt", "error", "message"),
    [
        (0.0, ValueError, "dt must be above zero"),
        (-0.1, ValueError, "dt must be above zero"),
        (math.nan, ValueError, "dt must be finite"),
        (math.inf, ValueError, "dt must be finite"),
        pytest.param(10**400, ValueError, "dt must be finite", id="huge"),
        (True, TypeError, "dt must be a real number"),
        (1j, TypeError, "dt must be a real number"),
        ("0.1", TypeError, "dt must be a numpy array or a torch tensor"),
        (None, TypeError, "dt must be a numpy array or a torch tensor"),
        (np.array(1), TypeError, "dt must hold floating-point"),
        (np.array([[0.1j]]), TypeError, "dt must be real"),
        (torch.tensor(0.1), TypeError, "same kind"),
        (np.array([[[0.1]], [[0.0]]]), ValueError, "dt must be above zero"),
        (np.array([[[0.1]], [[np.nan]]]), ValueError, "dt must be finite"),
    ],
)
def test_bad_steps_are_refused(rule, dt, error, message):
    A = A2 if rule in DENSE else np.array([-1.0, -1.0])
    with pytest.raises(error, match=message):
        rule(A, B2, dt)


@pytest.mark.parametrize("rule", DENSE)
@pytest.mark.parametrize(
    ("A", "B", "dt", "error", "message"),
    [
        ([[1.0]], B2, 0.1, TypeError, "A must be a numpy array or a torch tensor"),
        (np.eye(2, dtype=int), B2, 0.1, TypeError, "A must hold floating-point"),
        (A2, torch.ones(2, 1), 0.1, TypeError, "do not mix"),
        (np.ones(2), B2, 0.1, ValueError, r"A must have shape \(..., n, n\)"),
        (np.ones((2, 3)), B2, 0.1, ValueError, "number of rows of A is 2"),
        (A2, np.ones((3, 1)), 0.1, ValueError, "rows of B is 3"),
        (A2, np.ones(2), 0.1, ValueError, r"B must have shape \(..., n, m\)"),
        (A2, np.ones((2, 0)), 0.1, ValueError, "no empty axis"),
        (np.ones((0, 0)), np.ones((0, 1)), 0.1, ValueError, "no empty axis"),
        (A2 * np.nan, B2, 0.1, ValueError, "A must be finite"),
        (A2, B2 * np.inf, 0.1, ValueError, "B must be finite"),
        (A2, B2, np.array([0.1, 0.2]), ValueError, r"dt must be a number or have shape"),
        (np.ones((3, 2, 2)), np.ones((4, 2, 1)), 0.1, ValueError, "do not broadcast"),
    ],
)
def test_bad_dense_systems_are_refused(rule, A, B, dt, error, message):
    with pytest.raises(error, match=message):
        rule(A, B, dt)


@pytest.mark.parametrize("rule", DIAGONAL)
@pytest.mark.parametrize(
    ("a", "B", "dt", "error", "message"),
    [
        (-1.0, B2, 0.1, TypeError, "a must be a numpy array or a torch tensor"),
        (np.array([1, 2]), B2, 0.1, TypeError, "a must hold floating-point"),
        (np.ones(3), B2, 0.1, ValueError, "number of states in a is 3"),
        (np.array(1.0), B2, 0.1, ValueError, "a must have shape"),
        (np.ones(0), np.ones((0, 1)), 0.1, ValueError, "no empty axis"),
        (np.array([np.nan, 1]), B2, 0.1, ValueError, "a must be finite"),
        (np.ones(2), B2, np.full(3, 0.1), ValueError, "do not broadcast"),
        (np.ones(1), np.ones((1, 1)), np.full(3, 0.1), ValueError, "last axis of dt is 3"),
        (np.ones(2), B2, 1e4, ValueError, r"exp\(a dt\) overflows"),
        (np.full(2, -1e200), B2, 1e200, ValueError, "a dt overflows"),
    ],
)
def test_bad_diagonal_systems_are_refused(rule, a, B, dt, error, message):
    with pytest.raises(error, match=message):
        rule(a, B, dt)


@both_kinds
def test_overflow_is_an_error_and_not_a_nan(kind):
    def convert(*shape, value):
        return CONVERT[kind](np.full(shape, value))

    with pytest.raises(ValueError, match=r"exp\(A dt\) overflows"):
        ssm.discretize_zoh(convert(1, 1, value=1.0), convert(1, 1, value=1.0), 1e4)
    with pytest.raises(ValueError, match="A dt overflows"):
        ssm.discretize_zoh(convert(1, 1, value=1e200), convert(1, 1, value=1.0), 1e200)
    with pytest.raises(ValueError, match="I \\+ A dt overflows"):
        ssm.discretize_euler(convert(1, 1, value=1e200), convert(1, 1, value=1.0), 1e200)
    layer = (convert(1, value=1e10), convert(1, 1, value=1.0), convert(1, 1, value=1.0))
    with pytest.raises(ValueError, match="the kernel overflows"):
        ssm.kernel(*layer, 64)
    for route in (ssm.recurrence, ssm.chunked_recurrence):
        with pytest.raises(ValueError, match="the response overflows"):
            route(*layer, convert(64, 1, value=1.0))
    with pytest.raises(ValueError, match="the scan overflows"):
        ssm.scan(layer[0], convert(64, 1, value=1.0))
    with pytest.raises(ValueError, match="the convolution overflows"):
        ssm.causal_convolution(convert(4, 1, 1, value=1e200), convert(4, 1, value=1e200))


def test_a_step_that_vanishes_in_half_precision_is_refused():
    with pytest.raises(ValueError, match="above zero in float16"):
        ssm.discretize_zoh_diagonal(np.ones(1, np.float16), np.ones((1, 1), np.float16), 1e-9)


@pytest.mark.parametrize("route", [ssm.recurrence, ssm.chunked_recurrence])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"A_bar": np.eye(3)}, ValueError, "A_bar must have shape"),
        ({"A_bar": np.ones(3)}, ValueError, "A_bar must have shape"),
        ({"A_bar": np.ones((2, 1))}, ValueError, "A_bar must have shape"),
        ({"A_bar": np.array(1.0)}, ValueError, "A_bar must have shape"),
        ({"A_bar": np.eye(2, dtype=int)}, TypeError, "A_bar must hold floating-point"),
        ({"A_bar": A2 * np.nan}, ValueError, "A_bar must be finite"),
        ({"B_bar": np.ones(2)}, ValueError, "B_bar must have shape"),
        ({"C": np.ones((1, 3))}, ValueError, "the states in C is 3"),
        ({"C": np.ones((0, 2))}, ValueError, "no empty axis"),
        ({"C": torch.ones(1, 2)}, TypeError, "do not mix"),
        ({"x": np.ones(5)}, ValueError, r"x must have shape \(..., T, m\)"),
        ({"x": np.ones((0, 1))}, ValueError, "no empty axis"),
        ({"x": np.ones((5, 2))}, ValueError, "the width m of x is 2"),
        ({"x": X2 * np.inf}, ValueError, "x must be finite"),
        ({"x": [[1.0]]}, TypeError, "x must be a numpy array or a torch tensor"),
        ({"A_bar": np.ones((3, 2, 2)), "x": np.ones((4, 5, 1))}, ValueError, "do not broadcast"),
    ],
)
def test_bad_layers_are_refused(route, changes, error, message):
    layer = {"A_bar": A2, "B_bar": B2, "C": C2, "x": X2} | changes
    with pytest.raises(error, match=message):
        route(**layer)


@pytest.mark.parametrize(
    ("h0", "error", "message"),
    [
        (np.ones(3), ValueError, "the states in h0 is 3"),
        (np.array(1.0), ValueError, "h0 must have shape"),
        (np.ones((4, 2)), ValueError, "do not broadcast"),
        (np.array([np.nan, 0]), ValueError, "h0 must be finite"),
        (torch.ones(2), TypeError, "do not mix"),
    ],
)
def test_bad_initial_states_are_refused(h0, error, message):
    with pytest.raises(error, match=message):
        ssm.recurrence(A2, B2, C2, np.ones((3, 5, 1)), h0=h0)


@pytest.mark.parametrize(
    ("T", "error", "message"),
    [(0, ValueError, "T must be at least 1"), (2.0, TypeError, "T must be an integer")],
)
def test_kernel_refuses_bad_lengths(T, error, message):
    with pytest.raises(error, match=message):
        ssm.kernel(A2, B2, C2, T)


def test_chunked_recurrence_refuses_bad_chunks():
    with pytest.raises(ValueError, match="chunk must be at least 1"):
        ssm.chunked_recurrence(A2, B2, C2, X2, 0)
    with pytest.raises(TypeError, match="chunk must be an integer"):
        ssm.chunked_recurrence(A2, B2, C2, X2, 2.5)


@pytest.mark.parametrize(
    ("kernel", "x", "error", "message"),
    [
        (np.ones((5, 1)), X2, ValueError, r"kernel must have shape \(..., L, p, m\)"),
        (np.ones((0, 1, 1)), X2, ValueError, "no empty axis"),
        (np.ones((5, 1, 2)), X2, ValueError, "inputs m of kernel is 2"),
        (np.ones((5, 1, 1)), np.ones(5), ValueError, "x must have shape"),
        (np.full((5, 1, 1), np.nan), X2, ValueError, "kernel must be finite"),
        (np.ones((5, 1, 1), int), X2, TypeError, "kernel must hold floating-point"),
        (np.ones((2, 5, 1, 1)), np.ones((3, 5, 1)), ValueError, "do not broadcast"),
        (torch.ones(5, 1, 1), X2, TypeError, "do not mix"),
    ],
)
def test_convolution_refuses_bad_input(kernel, x, error, message):
    with pytest.raises(error, match=message):
        ssm.causal_convolution(kernel, x)


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (np.ones(5), np.ones(5), ValueError, r"b must have shape \(..., T, n\)"),
        (np.ones((5, 2)), np.ones((5, 3)), ValueError, "do not broadcast"),
        (np.ones((5, 1)), np.ones((1, 1)), ValueError, "the length T of b is 1"),
        (np.ones((0, 1)), np.ones((0, 1)), ValueError, "no empty axis"),
        (np.full((5, 1), np.nan), np.ones((5, 1)), ValueError, "a must be finite"),
        (np.ones((5, 1)), np.full((5, 1), np.inf), ValueError, "b must be finite"),
        (0.5, np.ones((5, 1)), TypeError, "a must be a numpy array or a torch tensor"),
        (np.ones((5, 1), int), np.ones((5, 1)), TypeError, "a must hold floating-point"),
        (torch.ones(5, 1), np.ones((5, 1)), TypeError, "do not mix"),
    ],
)
def test_scan_refuses_bad_input(a, b, error, message):
    with pytest.raises(error, match=message):
        ssm.scan(a, b)


@pytest.mark.parametrize(
    ("a", "dt", "error", "message"),
    [
        (0.0, None, ValueError, "negative real part"),
        (0.1 - 1j, None, ValueError, "negative real part"),
        (math.nan, None, ValueError, "negative real part"),
        (np.array([-1.0, 0.0]), None, ValueError, "negative real part"),
        (torch.tensor([1.0]), None, ValueError, "negative real part"),
        ("fast", None, TypeError, "a must be a numpy array or a torch tensor"),
        (np.array([-1]), None, TypeError, "a must hold floating-point"),
        (-1e-320, None, ValueError, "the half-life overflows"),
        (np.array([-1.0, -1e-320]), None, ValueError, "the half-life overflows"),
        (-1e-300, 1e-200, ValueError, "the half-life overflows"),
        (-1.0, 0.0, ValueError, "dt must be above zero"),
        (-1.0, "s", TypeError, "dt must be a real number"),
    ],
)
def test_half_life_refuses_modes_that_do_not_decay(a, dt, error, message):
    with pytest.raises(error, match=message):
        ssm.half_life(a, dt)


@pytest.mark.parametrize(
    ("z", "error", "message"),
    [
        (0.5, TypeError, "z must be a numpy array or a torch tensor"),
        (np.array([1]), TypeError, "z must hold floating-point"),
        (np.array([np.inf]), ValueError, "z must be finite"),
    ],
)
def test_phi1_refuses_bad_input(z, error, message):
    with pytest.raises(error, match=message):
        ssm.phi1(z)


def test_numpy_route_needs_no_torch():
    program = """
import sys
sys.modules["torch"] = None  # any import of torch now raises
import numpy as np
from book_utils import ssm
A, B = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0], [1.0]])
for rule in (ssm.discretize_zoh, ssm.discretize_bilinear, ssm.discretize_euler):
    layer = (*rule(A, B, 0.5), np.array([[1.0, 0.0]]))
x = np.ones((5, 1))
layer = (*ssm.discretize_zoh_diagonal(np.array([-1.0, 0.0]), B, 0.5), layer[2])
ssm.recurrence(*layer, x), ssm.chunked_recurrence(*layer, x, 2), ssm.discretize_mamba(A[1], B, 1.0)
ssm.causal_convolution(ssm.kernel(*layer, 5), x), ssm.scan(layer[0], x), ssm.half_life(-1.0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


# ------------------------------------------------------------------- the quickest of the routes


def channels(T, dtype, *, inputs=1, outputs=1, n=5, seed=0):
    """Diagonal layers as a batch of 3, stable, with tokens, as tensors that want a gradient."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        values = rng.normal(size=shape)
        return values + 1j * rng.normal(size=shape) if dtype.is_complex else values

    a = rng.uniform(0.5, 0.999, size=(3, n))
    turned = a * np.exp(1j * rng.uniform(-3, 3, size=(3, n))) if dtype.is_complex else a
    arrays = (turned, draw(3, n, inputs), draw(3, outputs, n), draw(3, T, inputs))
    return [torch.tensor(z, dtype=dtype, requires_grad=True) for z in arrays]


def plain_loop(a, B, C, x):
    h, outputs = torch.zeros_like(B[..., 0]), []
    for t in range(x.shape[-2]):
        h = a * h + (B @ x[..., t, :, None])[..., 0]
        outputs.append((C @ h[..., None])[..., 0])
    return torch.stack(outputs, dim=-2)


FAST = {
    "the quickest": ssm.respond,
    "FFT": lambda a, B, C, x: ssm.causal_convolution(ssm.kernel(a, B, C, x.shape[-2]), x),
    "chunks": lambda a, B, C, x: ssm.chunked_recurrence(a, B, C, x, 3),
}


@pytest.mark.parametrize("route", FAST)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float32, 3e-5),
        (torch.float64, 1e-12),
        (torch.complex64, 3e-5),
        (torch.complex128, 1e-12),
    ],
)
@pytest.mark.parametrize(("T", "sizes"), [(1, (1, 1)), (7, (1, 1)), (200, (1, 1)), (61, (2, 3))])
def test_fast_routes_and_their_gradients_equal_the_plain_loop(route, dtype, tolerance, T, sizes):
    given = channels(T, dtype, inputs=sizes[0], outputs=sizes[1])
    right, found = plain_loop(*given), FAST[route](*given)
    assert found.dtype == dtype
    assert (found - right).abs().max() <= tolerance * right.abs().max()
    weights = torch.linspace(-1, 1, right.numel(), dtype=right.real.dtype).view(right.shape)
    gradients = [
        torch.autograd.grad((y.abs().square() * weights).sum(), given, materialize_grads=True)
        for y in (right, found)
    ]
    for ours, theirs in zip(*gradients[::-1], strict=True):
        assert (ours - theirs).abs().max() <= 10 * tolerance * max(theirs.abs().max(), 1.0)


@pytest.mark.parametrize(("T", "chunk"), [(9000, 64), (33000, 128)])
def test_the_quickest_route_beyond_the_cache_equals_the_plain_loop(T, chunk):
    given = [z.detach() for z in channels(T, torch.float64, n=2)]
    assert ssm.quickest_route(T) == chunk
    right = plain_loop(*given)
    assert (ssm.respond(*given) - right).abs().max() <= 1e-12 * right.abs().max()


def test_which_route_is_quickest():
    assert ssm.quickest_route(8192) is None
    assert ssm.quickest_route(8193) == 64
    assert ssm.quickest_route(32, 2, 2) == 32
    assert ssm.quickest_route(32768) == 64
    assert ssm.quickest_route(32769) == 128
    assert ssm.quickest_route(108000, 16, 16) == 8


def test_respond_takes_numpy_and_dense_transitions_and_refuses_what_does_not_fit():
    rng = np.random.default_rng(0)
    A, B, C, x = (
        0.3 * rng.normal(size=(3, 3)),
        *(rng.normal(size=s) for s in ((3, 1), (1, 3), (20, 1))),
    )
    np.testing.assert_allclose(ssm.respond(A, B, C, x), ssm.recurrence(A, B, C, x), atol=1e-12)
    for bad, error in (
        (x[:0], ValueError),
        (x[:, :0], ValueError),
        (x[0], ValueError),
        (1, TypeError),
    ):
        with pytest.raises(error):
            ssm.respond(A, B, C, bad)


def test_the_kernel_needs_no_memory_for_every_power():
    a, B, C, _ = (z.detach() for z in channels(1, torch.float64, n=64))
    T = 40_000
    with torch.profiler.profile(profile_memory=True) as profile:
        K = ssm.kernel(a, B, C, T)
    used = sum(max(event.self_cpu_memory_usage, 0) for event in profile.key_averages())
    assert used < 10 * K.numel() * 8  # the powers alone would be 64 times the kernel
    np.testing.assert_allclose(
        K[:, -1, 0, 0], (C[:, 0] * a ** (T - 1) * B[..., 0]).sum(-1), atol=1e-12
    )
