r"""S4, S4D and S5: state-space layers with fixed coefficients, and how to compute them fast.

All three run $h_t = \bar A h_{t-1} + \bar B x_t$ with the same $\bar A, \bar B$ at every token.
S4 is a bank of single-input, single-output systems whose A is diagonal plus rank one; S4D keeps
the diagonal alone; S5 is one system with many inputs and outputs, computed by a scan.

A real system has its complex modes in conjugate pairs, whose contributions are conjugate too. So
S4D and S5 store one mode of each pair and take twice the real part.
"""

from __future__ import annotations

import numpy as np

from . import hippo, ssm
from ._shapes import check_arrays
from ._validate import one_of, positive_int, positive_number

INITS = ("lin", "inv", "legs")


def bilinear_dplr(
    lam: np.ndarray, p: np.ndarray, b: np.ndarray, dt: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Discretize $A = \operatorname{diag}(\lambda) - pp^*$ by the bilinear rule, as S4 does.

    Args:
        lam, p, b: (N,), complex.
        dt: step Δ, above zero.

    Returns:
        (A_bar, b_bar) of shapes (N, N) and (N,).

    Raises:
        TypeError, ValueError: arrays are not complex (N,), or `dt` is not above zero.
    """
    check_arrays("numpy", lam=(lam, "N"), p=(p, "N"), b=(b, "N"))
    A = np.diag(lam) - np.outer(p, p.conj())
    A_bar, B_bar = ssm.discretize_bilinear(A, b[:, None].astype(A.dtype), dt)
    return A_bar, B_bar[:, 0]


def generating_function(
    lam: np.ndarray, p: np.ndarray, b: np.ndarray, c: np.ndarray, dt: float, z: np.ndarray
) -> np.ndarray:
    r"""$c\,(I - z\bar A)^{-1}\,\bar b$ at the points z, without forming $\bar A$ or a power of it.

    For the bilinear rule and $A = \operatorname{diag}(\lambda) - pp^*$,

    $$ c\,(I - z\bar A)^{-1}\bar b = c R b - \frac{u\; (cRp)\,(p^*Rb)}{1 + u\; p^*Rp}, \qquad
       u = \frac{1+z}{2}, \qquad R = \operatorname{diag} \frac{\Delta}{1 - z - u\Delta\lambda}. $$

    The rank-one part is handled by the Sherman–Morrison formula; what is left are sums over the N
    modes of products divided by differences (Gu, Goel & Ré 2022, appendix C, there with 1/(1+z)
    in front, which this form avoids: z = −1 is an ordinary point).

    Args:
        lam, p, b, c: (N,), complex.
        dt: step Δ, above zero.
        z: (m,), complex.

    Returns:
        (m,), complex.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("numpy", lam=(lam, "N"), p=(p, "N"), b=(b, "N"), c=(c, "N"), z=(z, "m"))
    step, u = positive_number("dt", dt), (1 + z) / 2
    R = step / (1 - z[:, None] - step * u[:, None] * lam)  # (m, N)
    cRb, cRp, pRb, pRp = (R @ w for w in (c * b, c * p, p.conj() * b, p.conj() * p))
    return cRb - u * cRp * pRb / (1 + u * pRp)


def s4_kernel(
    lam: np.ndarray, p: np.ndarray, b: np.ndarray, c: np.ndarray, dt: float, T: int
) -> np.ndarray:
    r"""Kernel $K_k = c\bar A^k\bar b$, k < T, from the generating function at T roots of unity.

    $$ \sum_{k<T} K_k z^k = \tilde c\,(I - z\bar A)^{-1}\,\bar b, \qquad
       \tilde c = c\,(I - \bar A^T), \qquad z^T = 1 $$

    An inverse FFT turns the T values into the T coefficients: O(TN + T log T) instead of the
    O(TN²) of stepping a dense Ā. S4 learns $\tilde c$ itself and never forms $\bar A^T$; here it is
    computed from c so that the kernel can be compared.

    Args:
        lam, p, b, c: (N,), complex, all modes of a real system (both of each conjugate pair).
        dt: step Δ, above zero.
        T: how many lags.

    Returns:
        K, (T,), real.

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    A_bar, _ = bilinear_dplr(lam, p, b, dt)
    z = np.exp(-2j * np.pi * np.arange(positive_int("T", T)) / T)
    c_tilde = c - c @ np.linalg.matrix_power(A_bar, T)
    return np.fft.ifft(generating_function(lam, p, b, c_tilde, dt, z)).real


def s4d_poles(n: int, init: str) -> np.ndarray:
    r"""Starting poles of S4D, one of each conjugate pair: N = 2n states (Gu et al. 2022).

    $$ \text{lin: } -\tfrac12 + i\pi k, \qquad
       \text{inv: } -\tfrac12 + i\,\frac{N}{\pi}\left(\frac{N}{2k+1} - 1\right), \qquad
       \text{legs: the eigenvalues of } A + PP^\top $$

    Args:
        n: number of stored modes, k = 0, …, n − 1.
        init: "lin", "inv" or "legs".

    Returns:
        (n,), complex; for "legs" the poles with positive imaginary part, largest first.

    Raises:
        TypeError, ValueError: `n` is not an integer of at least 1, or `init` is another.
    """
    k, N = np.arange(positive_int("n", n)), 2 * n
    if one_of("init", init, INITS) == "lin":
        return -0.5 + 1j * np.pi * k
    if init == "inv":
        return -0.5 + 1j * N / np.pi * (N / (2 * k + 1) - 1)
    lam = hippo.normal_plus_low_rank(N)[0]
    return lam[::-1][:n]


def vandermonde_kernel(a_bar: np.ndarray, b_bar: np.ndarray, c: np.ndarray, T: int) -> np.ndarray:
    r"""Kernel of S4D: a sum over the modes, and a table of their powers.

    $$ K_k = 2\,\mathrm{Re} \sum_n c_n\,\bar b_n\,\bar a_n^{\,k} $$

    Args:
        a_bar, b_bar, c: (n,), one mode of each conjugate pair.
        T: how many lags.

    Returns:
        K, (T,), real.

    Raises:
        TypeError, ValueError: arrays are not (n,), or `T` is not an integer of at least 1.
    """
    check_arrays("numpy", a_bar=(a_bar, "n"), b_bar=(b_bar, "n"), c=(c, "n"))
    powers = a_bar ** np.arange(positive_int("T", T))[:, None]  # (T, n): a Vandermonde matrix
    return 2 * (powers @ (c * b_bar)).real


def s4d_layer(
    a: np.ndarray, B: np.ndarray, C: np.ndarray, dt: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Run a bank of S4D systems, one a channel, each by FFT with its own kernel and step.

    Args:
        a, B, C: (D, n), complex: poles, writes and reads of channel d's modes.
        dt: (D,), steps, above zero.
        x: (T, D), real.

    Returns:
        y, (T, D).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    sizes = check_arrays(
        "numpy", a=(a, "D n"), B=(B, "D n"), C=(C, "D n"), dt=(dt, "D"), x=(x, "T D")
    )
    a_bar, b_bar = ssm.discretize_zoh_diagonal(a, B[..., None], dt[:, None])
    kernels = np.stack(
        [vandermonde_kernel(a_bar[d], b_bar[d, :, 0], C[d], sizes["T"]) for d in range(sizes["D"])]
    )
    y = ssm.causal_convolution(kernels[..., None, None], x.T[..., None])  # (D, T, 1)
    return y[..., 0].T


def s5_layer(a: np.ndarray, B: np.ndarray, C: np.ndarray, dt: float, x: np.ndarray) -> np.ndarray:
    r"""S5: one diagonal system for all channels, computed by an associative scan.

    $$ h_t = \bar a \odot h_{t-1} + \bar B x_t, \qquad y_t = 2\,\mathrm{Re}(C h_t) $$

    Every mode listens to every input and every output to every mode, which is all the mixing of
    channels that there is; nothing depends on the input (Smith, Warrington & Linderman 2023).

    Args:
        a: (n,), complex poles, one of each conjugate pair.
        B: (n, m), complex.
        C: (p, n), complex.
        dt: step Δ, above zero.
        x: (T, m), real.

    Returns:
        y, (T, p).

    Raises:
        TypeError, ValueError: arguments are not as stated.
    """
    check_arrays("numpy", a=(a, "n"), B=(B, "n m"), C=(C, "p n"), x=(x, "T m"))
    a_bar, B_bar = ssm.discretize_zoh_diagonal(a, B, dt)
    return 2 * (ssm.scan(a_bar, x @ B_bar.T) @ C.T).real
