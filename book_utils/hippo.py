r"""HiPPO: a state that is the best polynomial summary of everything seen so far.

A signal f on [0, t] is projected onto polynomials of degree below N, best in the least-squares
sense under a weight (a *measure*) that says how much each moment of the past matters. The N
coefficients are the state c(t). For the right bases c obeys a linear differential equation, so the
projection can be kept up to date without keeping the signal (Gu et al. 2020).

* LegS weighs all of [0, t] equally; basis $g_n(x) = \sqrt{2n+1}\,P_n(2x/t - 1)$, P_n Legendre.
* LagT weighs by age s = t − x as $e^{-s}$; basis $L_n(s)$, Laguerre.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import laguerre, legendre

from . import ssm
from ._shapes import check_arrays
from ._validate import positive_int, positive_number

Pair = tuple[np.ndarray, np.ndarray]


def legs(N: int) -> Pair:
    r"""Matrices of the scaled Legendre measure: $\dot c(t) = \frac1t\,(A\,c(t) + B\,f(t))$.

    $$ A_{nk} = -\begin{cases} \sqrt{(2n+1)(2k+1)} & n > k \\ n + 1 & n = k \\ 0 & n < k
       \end{cases} \qquad B_n = \sqrt{2n+1} $$

    The sign is that of the book's $\dot h = Ah + Bx$; Gu et al. (2020, theorem 2) print −A.

    Returns:
        (A, B) of shapes (N, N) and (N, 1).

    Raises:
        TypeError, ValueError: `N` is not an integer of at least 1.
    """
    n = np.arange(positive_int("N", N), dtype=float)
    root = np.sqrt(2 * n + 1)
    return np.diag(n) - np.tril(np.outer(root, root)), root[:, None]


def lagt(N: int) -> Pair:
    r"""Matrices of the translated Laguerre measure: $\dot c(t) = A\,c(t) + B\,f(t)$.

    $$ A_{nk} = \begin{cases} -1 & n \ge k \\ 0 & n < k \end{cases} \qquad B_n = 1 $$

    From $L_n(0) = 1$ and $L_n' = -\sum_{k<n} L_k$ (Gu et al. 2020, theorem 1). One unit of time is
    the time in which the weight falls by a factor e.

    Returns:
        (A, B) of shapes (N, N) and (N, 1).

    Raises:
        TypeError, ValueError: `N` is not an integer of at least 1.
    """
    return -np.tril(np.ones((positive_int("N", N), N))), np.ones((N, 1))


def legs_basis(N: int, x: np.ndarray) -> np.ndarray:
    r"""Basis of LegS at the places x = (moment)/t between 0 (the beginning) and 1 (now).

    $$ g_n(x) = \sqrt{2n+1}\,P_n(2x - 1), \qquad \int_0^1 g_n g_k\,dx = \delta_{nk} $$

    Args:
        N: number of polynomials.
        x: (m,), each in [0, 1].

    Returns:
        (m, N).

    Raises:
        TypeError, ValueError: `N` or `x` is not as stated.
    """
    positive_int("N", N)
    check_arrays("numpy", x=(x, "m"))
    if x.min() < 0 or x.max() > 1:
        raise ValueError(f"x must lie between 0 and 1, got values from {x.min()} to {x.max()}")
    return legendre.legvander(2 * x - 1, N - 1) * np.sqrt(2 * np.arange(N) + 1)


def lagt_basis(N: int, age: np.ndarray) -> np.ndarray:
    r"""Laguerre polynomials $L_n(s)$ at ages s ≥ 0: $\int_0^\infty L_n L_k e^{-s}ds = \delta_{nk}$.

    Args:
        N: number of polynomials.
        age: (m,), in units of the measure's time constant.

    Returns:
        (m, N).

    Raises:
        TypeError, ValueError: `N` or `age` is not as stated.
    """
    positive_int("N", N)
    check_arrays("numpy", age=(age, "m"))
    if age.min() < 0:
        raise ValueError(f"age must not be negative, got {age.min()}")
    return laguerre.lagvander(age, N - 1)


def legs_states(f: np.ndarray, N: int) -> np.ndarray:
    r"""Run LegS over a signal that is held at $f_k$ on (k − 1, k]; exact at the integers.

    With $\tau = \ln t$ the factor 1/t goes: $dc/d\tau = Ac + Bf$. So one token is an ordinary
    zero-order hold with the step $\ln k - \ln(k-1)$, and the first token's projection is the
    constant $f_1$ itself.

    Args:
        f: (T,).
        N: number of coefficients.

    Returns:
        States c(1), …, c(T), shape (T, N).

    Raises:
        TypeError, ValueError: `f` is not a finite float array of shape (T,), or `N` no integer ≥ 1.
    """
    A, B = legs(N)
    T = check_arrays("numpy", f=(f, "T"))["T"]
    states = np.zeros((T, N))
    states[0, 0] = f[0]
    if T > 1:
        k = np.arange(2, T + 1)
        A_bar, B_bar = ssm.discretize_zoh(A, B, np.log(k / (k - 1))[:, None, None])
        for t in range(1, T):
            states[t] = A_bar[t - 1] @ states[t - 1] + B_bar[t - 1, :, 0] * f[t]
    return states


def lagt_states(f: np.ndarray, N: int, time_constant: float) -> np.ndarray:
    """Run LagT over a held signal; the measure's weight falls by e in `time_constant` tokens.

    Args:
        f: (T,); before the first token the signal counts as zero.
        N: number of coefficients.
        time_constant: in tokens, above zero.

    Returns:
        States, (T, N).

    Raises:
        TypeError, ValueError: an argument is not as stated.
    """
    check_arrays("numpy", f=(f, "T"))
    step = 1 / positive_number("time_constant", time_constant)
    A_bar, B_bar = ssm.discretize_zoh(*lagt(N), step)
    return ssm.recurrence(A_bar, B_bar, np.eye(N), f[:, None])


def legs_reconstruction(c: np.ndarray, x: np.ndarray) -> np.ndarray:
    r"""Signal that the state remembers, $\hat f(x) = \sum_n c_n\,g_n(x)$ at x = (moment)/t.

    Args:
        c: one state, (N,).
        x: (m,), each in [0, 1].

    Returns:
        (m,).

    Raises:
        TypeError, ValueError: as for `legs_basis`; `c` is not a float array of shape (N,).
    """
    N = check_arrays("numpy", c=(c, "N"))["N"]
    return legs_basis(N, x) @ c


def lagt_reconstruction(c: np.ndarray, age: np.ndarray) -> np.ndarray:
    r"""Signal that the state remembers, $\hat f = \sum_n c_n\,L_n(s)$ at the ages s.

    Args:
        c: one state, (N,).
        age: (m,), in units of the measure's time constant.

    Returns:
        (m,).

    Raises:
        TypeError, ValueError: as for `lagt_basis`; `c` is not a float array of shape (N,).
    """
    N = check_arrays("numpy", c=(c, "N"))["N"]
    return lagt_basis(N, age) @ c


def legs_eigenvectors(N: int) -> np.ndarray:
    r"""Unit eigenvectors of the LegS matrix, in closed form, for the eigenvalues −1, …, −N.

    $$ V_{nk} \propto \sqrt{2n+1}\,(-1)^{n-k} \binom{n+k}{n-k} \quad (n \ge k) $$

    (Gu, Goel & Ré 2022, lemma 3.2.) Binomials are integers, so no digit is lost; a numerical
    eigensolver would report its own rounding errors instead.

    Returns:
        V, (N, N), lower triangular, columns of length 1.

    Raises:
        TypeError, ValueError: `N` is not an integer of at least 1.
    """
    V = _binomials(N) * np.sqrt(2 * np.arange(N) + 1)[:, None]
    return V / np.linalg.norm(V, axis=0)


def legs_condition(N: int) -> float:
    r"""Condition number $\lVert V\rVert_2\,\lVert V^{-1}\rVert_2$ of the LegS eigenvectors.

    How many times larger than the state its modes can be: the digits lost by changing to modes.
    The inverse is computed in whole numbers, so that the result is right even when it exceeds what
    inverting V in floating point could resolve.

    Raises:
        TypeError, ValueError: `N` is not an integer from 1 to 100 (later entries overflow a float).
    """
    if positive_int("N", N) > 100:
        raise ValueError(f"N must be at most 100, got {N}")
    V = legs_eigenvectors(N)
    root = np.sqrt(2 * np.arange(N) + 1)
    length = np.linalg.norm(_binomials(N) * root[:, None], axis=0)
    inverse = np.array(_unit_triangular_inverse(_binomials_exact(N)), dtype=float)
    return float(np.linalg.norm(V, 2) * np.linalg.norm(length[:, None] * inverse / root, 2))


def normal_plus_low_rank(N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""LegS as a diagonal minus a rank-one matrix, in unitary coordinates (Gu, Goel & Ré 2022).

    $$ A + PP^\top = -\tfrac12 I + S = V \Lambda V^*, \quad S^\top = -S, \quad
       P_n = \sqrt{n + \tfrac12} $$

    S is skew-symmetric, so iS is Hermitian: V is unitary and every eigenvalue has the real part
    −1/2. In the coordinates $V^*c$, A is $\Lambda - pp^*$ with $p = V^*P$.

    Returns:
        (lam, p, b, V): Λ's diagonal (N,), p (N,), b = V*B (N,), V (N, N), all complex; the
        eigenvalues in order of their imaginary parts.

    Raises:
        TypeError, ValueError: `N` is not an integer of at least 1.
    """
    A, B = legs(N)
    P = np.sqrt(np.arange(N) + 0.5)
    S = A + np.outer(P, P) + 0.5 * np.eye(N)
    frequencies, V = np.linalg.eigh(-1j * S)
    to_modes = V.conj().T
    return -0.5 + 1j * frequencies, to_modes @ P, to_modes @ B[:, 0], V


def _binomials_exact(N: int) -> list[list[int]]:
    return [
        [(-1) ** (n - k) * math.comb(n + k, n - k) if n >= k else 0 for k in range(N)]
        for n in range(N)
    ]


def _binomials(N: int) -> np.ndarray:
    return np.array(_binomials_exact(positive_int("N", N)), dtype=float)


def _unit_triangular_inverse(L: list[list[int]]) -> list[list[int]]:
    """Inverse of a lower triangular integer matrix with ones on its diagonal, in integers."""
    N = len(L)
    inverse = [[int(i == j) for j in range(N)] for i in range(N)]
    for i in range(N):
        for j in range(i):
            inverse[i][j] = -sum(L[i][m] * inverse[m][j] for m in range(j, i))
    return inverse
