r"""Linear state-space models: from a differential equation to one update per token, and back.

A layer's continuous-time model, with n states, m inputs and p outputs, is

$$ \dot h(t) = A\,h(t) + B\,x(t), \qquad y(t) = C\,h(t). $$

A discretization turns it into the recurrence that reads tokens $x_1, x_2, \dots$ a time Δ apart,

$$ h_t = \bar A\,h_{t-1} + \bar B\,x_t, \qquad y_t = C\,h_t, \qquad h_0 = 0. $$

Index convention, everywhere in this book: token $x_t$ is held on $((t-1)\Delta, t\Delta]$ and $h_t$
is the state at the *end* of that interval, so $y_t$ has already seen $x_t$. (Control texts and
``scipy.signal.dlsim`` write $x_{k+1} = \bar A x_k + \bar B u_k$ and read out before the update: the
same numbers, one step later.)

Every function takes numpy arrays or torch tensors and returns the same kind, real or complex, in
the common dtype of its inputs; the numpy route imports no torch, the torch route is differentiable.
Leading (batch) axes, written ``...``, broadcast. A system matrix may be dense, ``(..., n, n)``, or
diagonal, ``(..., n)``. Where a function takes both, the shape tells them apart: what doesn't end in
(n, n) is diagonal, and (..., n, n) with as many axes as B̄ or more is dense. With fewer axes it is
whatever broadcasts against B̄; if it does both as n diagonals and as one matrix shared by a batch,
``diagonal`` has to say which.
"""

from __future__ import annotations

import functools
import math
import numbers
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from ._validate import (
    count_not_finite,
    finite,
    is_floating,
    is_torch,
    min_ndim,
    one_of,
    positive_int,
    positive_number,
    same_size,
)

Array = Any  # a numpy array or a torch tensor


def _quiet() -> np.errstate:
    """Silence numpy's warnings, as torch is silent: `_finite_result` raises instead.

    Each function gets an errstate of its own: before numpy 2 a nested one forgets the outer state.
    """
    return np.errstate(over="ignore", invalid="ignore")


# --------------------------------------------------------------------------------- discretization


@_quiet()
def discretize_zoh(A: Array, B: Array, dt: float | Array) -> tuple[Array, Array]:
    r"""Zero-order hold: the exact update when the input is constant over each step.

    $$ \bar A = e^{A\Delta}, \qquad \bar B = \int_0^\Delta e^{As}\,ds\;B, \qquad
       \exp\!\left(\begin{bmatrix} A & B \\ 0 & 0 \end{bmatrix}\Delta\right) =
       \begin{bmatrix} \bar A & \bar B \\ 0 & I \end{bmatrix} $$

    The augmented exponential (Van Loan 1978) needs no $A^{-1}$, so A may be singular or defective.
    It is taken in double precision whatever the dtype of A: scaling and squaring loses about
    log10 of the norm of AΔ in digits, which is more than single precision has for a stiff system.
    (torch's can lose that much, SciPy's usually loses less: beyond a norm of $10^8$ use numpy.)

    Args:
        A: (..., n, n), per second.
        B: (..., n, m).
        dt: step Δ in seconds, a number or an array of shape (..., 1, 1) that broadcasts against A.

    Returns:
        (A_bar, B_bar) of shapes (..., n, n) and (..., n, m).

    Raises:
        TypeError: arrays are not floating-point, or numpy and torch are mixed.
        ValueError: shapes do not fit, an entry is not finite, a step is not above zero, or
            $e^{A\Delta}$ overflows.
    """
    A, B, dt = _dense_inputs(A, B, dt)
    dtype, (A, B, dt) = A.dtype, (_at_least_double(z) for z in (A, B, dt))
    (n, m), join = B.shape[-2:], _namespace(A).concatenate
    # B̄ is linear in B: give B unit size first, or a huge B costs the exponential its digits.
    size = _largest_entry(B)
    top = join([_finite_result("A dt", A * dt), B / size], -1)
    exponential = _expm(join([top, _zeros((*B.shape[:-2], m, n + m), like=B)], -2))
    A_bar, B_bar = exponential[..., :n, :n], exponential[..., :n, n:] * size * dt
    A_bar, B_bar = _cast(A_bar, dtype), _cast(B_bar, dtype)
    return _finite_result("exp(A dt)", A_bar), _finite_result("B_bar", B_bar)


@_quiet()
def discretize_zoh_diagonal(a: Array, B: Array, dt: float | Array) -> tuple[Array, Array]:
    r"""Zero-order hold for a diagonal A: every mode on its own, accurate down to a = 0.

    $$ \bar a = e^{a\Delta}, \qquad \bar B = \frac{e^{a\Delta} - 1}{a}\,B
       = \Delta\,\varphi_1(a\Delta)\,B, \qquad \varphi_1(z) = \frac{e^z - 1}{z} $$

    Args:
        a: the diagonal of A, (..., n), real or complex, per second.
        B: (..., n, m).
        dt: step Δ in seconds, a number or an array that broadcasts against `a`: shape (n,) gives
            each mode its own step, shape (k, 1) gives k discretizations of the whole layer.

    Returns:
        (a_bar, B_bar) of shapes (..., n) and (..., n, m).

    Raises:
        TypeError, ValueError: as for `discretize_zoh`.
    """
    a, B, dt = _diagonal_inputs(a, B, dt)
    z = _finite_result("a dt", a * dt)
    a_bar = _finite_result("exp(a dt)", _namespace(z).exp(z))
    return a_bar, _finite_result("B_bar", (dt * phi1(z))[..., None] * B)


@_quiet()
def discretize_mamba(a: Array, B: Array, dt: float | Array) -> tuple[Array, Array]:
    r"""Discretize as Mamba's released code does: exact decay, Euler write.

    $$ \bar a = e^{a\Delta}, \qquad \bar B = \Delta B $$

    The exact write is $\varphi_1(a\Delta)$ times this one; for a decaying mode and a small step it
    is smaller by the fraction |a|Δ/2. Args, returns and errors are those of
    `discretize_zoh_diagonal`. Source: ``selective_scan_ref`` in the repository of Gu & Dao (2023).
    """
    a, B, dt = _diagonal_inputs(a, B, dt)
    z = _finite_result("a dt", a * dt)
    a_bar = _finite_result("exp(a dt)", _namespace(z).exp(z))
    return a_bar, _finite_result("B_bar", dt[..., None] * B)


@_quiet()
def discretize_bilinear(A: Array, B: Array, dt: float | Array) -> tuple[Array, Array]:
    r"""Bilinear rule (Tustin): the trapezium rule for the state, second order in Δ.

    $$ \bar A = \left(I - \tfrac{\Delta}{2}A\right)^{-1}\left(I + \tfrac{\Delta}{2}A\right), \qquad
       \bar B = \left(I - \tfrac{\Delta}{2}A\right)^{-1}\Delta B $$

    Maps the left half-plane onto the unit disc, so a stable A stays stable at any step. Args,
    returns and errors are those of `discretize_zoh`; also a ValueError where 2/Δ is an eigenvalue
    of A. For a diagonal `a`, pass ``np.diag(a)`` (``torch.diag_embed(a)``).
    """
    A, B, dt = _dense_inputs(A, B, dt)
    half_step, eye, n = A * (dt / 2), _identity_like(A), A.shape[-1]
    right = _namespace(A).concatenate([eye + half_step, B * dt], -1)
    solution = _finite_result("(I - A dt/2)^-1", _solve(eye - half_step, right))
    return solution[..., :n], solution[..., n:]


@_quiet()
def discretize_euler(A: Array, B: Array, dt: float | Array) -> tuple[Array, Array]:
    r"""Forward Euler: follow the slope at the start of the step, first order in Δ.

    $$ \bar A = I + \Delta A, \qquad \bar B = \Delta B $$

    A stable mode a becomes unstable as soon as $|1 + a\Delta| > 1$. Args, returns and errors are
    those of `discretize_zoh`. For a diagonal `a`, pass ``np.diag(a)`` (``torch.diag_embed(a)``).
    """
    A, B, dt = _dense_inputs(A, B, dt)
    A_bar = _finite_result("I + A dt", _identity_like(A) + A * dt)
    return A_bar, _finite_result("B_bar", B * dt)


@_quiet()
def phi1(z: Array) -> Array:
    r"""Scale factor of a zero-order hold's write against ΔB, entry by entry.

    $$ \varphi_1(z) = \frac{e^z - 1}{z} = 1 + \frac z2 + \frac{z^2}{6} + \dots, \qquad
       \varphi_1(0) = 1 $$

    ``expm1`` keeps the value accurate near 0. The *derivative* of expm1(z)/z would still cancel
    there, so |z| < 1/2 takes the series, and gradients are accurate too.

    Args:
        z: array or tensor of real or complex floating-point numbers.

    Returns:
        Array of the same shape, kind and dtype.

    Raises:
        TypeError: `z` is not a floating-point array or tensor.
        ValueError: an entry is not finite, or its exponential overflows.
    """
    _require_floating("z", z)
    finite("z", z)
    xp = _namespace(z)
    near = abs(z.detach() if is_torch(z) else z) < 0.5
    one = xp.ones_like(z)
    z_near, z_far = xp.where(near, z, 0 * one), xp.where(near, one, z)
    series = 0 * one
    for k in range(15, 0, -1):  # Horner's rule for the sum of z^(k-1) / k!
        series = series * z_near + 1 / math.factorial(k)
    return xp.where(near, series, _finite_result("exp(z)", xp.expm1(z_far)) / z_far)


def half_life(a: Any, dt: float | None = None) -> Any:
    r"""Time in which a mode's magnitude halves: in seconds, or in tokens when `dt` is given.

    $$ t_{1/2} = \frac{\ln 2}{-\mathrm{Re}\,a}, \qquad
       k_{1/2} = \frac{\ln 2}{-\mathrm{Re}(a)\,\Delta} $$

    Args:
        a: a number, array or tensor of continuous-time poles, per second.
        dt: step Δ in seconds.

    Returns:
        The half-lives, of the shape of `a`.

    Raises:
        TypeError: `a` does not hold numbers.
        ValueError: a pole does not decay (Re a ≥ 0 or NaN) or so slowly that its half-life
            overflows, or `dt` is not above zero.
    """
    if isinstance(a, numbers.Complex):
        return float(half_life(np.array(a, dtype=complex), dt))
    _require_floating("a", a)
    rate: Array = -a.real
    if not bool((rate > 0).all()):
        raise ValueError(
            "a must have a negative real part: a mode that does not decay never halves"
        )
    with _quiet():
        seconds = math.log(2) / rate
        return _finite_result(
            "the half-life", seconds if dt is None else seconds / positive_number("dt", dt)
        )


# --------------------------------------------------------- four routes to the same outputs


@_quiet()
def recurrence(
    A_bar: Array,
    B_bar: Array,
    C: Array,
    x: Array,
    h0: Array | None = None,
    *,
    diagonal: bool | None = None,
) -> Array:
    r"""Run the model one token at a time, keeping only the current state.

    $$ h_t = \bar A h_{t-1} + \bar B x_t, \qquad y_t = C h_t $$

    With C = I the outputs are the states themselves.

    Args:
        A_bar: (..., n, n), or (..., n) for a diagonal.
        B_bar: (..., n, m).
        C: (..., p, n).
        x: tokens, (..., T, m).
        h0: initial state, (..., n); zero when None.
        diagonal: whether `A_bar` is a diagonal; needed only where its shape leaves that open, as
            for (n, n) with `B_bar` (k, n, m). None goes by the shape.

    Returns:
        y, (..., T, p).

    Raises:
        TypeError: arrays are not floating-point, or numpy and torch are mixed.
        ValueError: shapes do not fit or leave open whether `A_bar` is a diagonal, T is 0, an entry
            is not finite, or the response overflows.
    """
    _require_floating("x", x)
    A, B, C, x, h = _system(A_bar, B_bar, C, x, h0, diagonal=diagonal)
    outputs = [C @ h for h in _states(A, x @ B.swapaxes(-1, -2), h)]  # each (..., p, 1)
    y = _namespace(x).concatenate(outputs, -1).swapaxes(-1, -2)
    return _finite_result("the response", y)


@_quiet()
def kernel(A_bar: Array, B_bar: Array, C: Array, T: int, *, diagonal: bool | None = None) -> Array:
    r"""Response to a single token: what an input k tokens ago contributes to the output.

    $$ K_k = C \bar A^k \bar B, \qquad k = 0, \dots, T-1 $$

    Powers are built by doubling: those for k < L give those for k < 2L in one product with
    $\bar A^L$, so there are about log₂ T steps.

    Args:
        A_bar: (..., n, n), or (..., n) for a diagonal.
        B_bar: (..., n, m).
        C: (..., p, n).
        T: how many lags.
        diagonal: as for `recurrence`.

    Returns:
        K, (..., T, p, m).

    Raises:
        TypeError, ValueError: as for `recurrence`; `T` is not an integer of at least 1.
    """
    A, B, C, _, _ = _system(A_bar, B_bar, C, diagonal=diagonal)
    route = _dense_kernel if _is_dense(A) else _diagonal_kernel
    return _finite_result("the kernel", route(A, B, C, positive_int("T", T)))


@_quiet()
def causal_convolution(kernel: Array, x: Array) -> Array:
    r"""Convolve with the past only, by an FFT that is padded with zeros.

    $$ y_t = \sum_{k=0}^{t-1} K_k\, x_{t-k} $$

    An FFT convolves *periodic* signals. Padding both to at least 2T − 1 keeps the end of the
    sequence from wrapping round into its beginning.

    Args:
        kernel: (..., L, p, m); lags from T on are never reached, lags from L on count as zero.
        x: tokens, (..., T, m).

    Returns:
        y, (..., T, p).

    Raises:
        TypeError: arrays are not floating-point, or numpy and torch are mixed.
        ValueError: shapes do not fit, T or L is 0, an entry is not finite, or the sum overflows.
    """
    kernel, x = _common(kernel=kernel, x=x)
    _require_sizes("kernel", kernel, 3, "(..., L, p, m)")
    _require_sizes("x", x, 2, "(..., T, m)")
    same_size("the inputs m of kernel", kernel.shape[-1], "the width m of x", x.shape[-1])
    batch, T = _broadcast_shape(kernel=kernel.shape[:-3], x=x.shape[:-2]), x.shape[-2]
    if 0 in batch:  # torch's FFT refuses an empty batch
        return _zeros((*batch, T, kernel.shape[-2]), like=x)
    return _finite_result("the convolution", _fft_convolve(kernel[..., :T, :, :], x)[..., :T, :])


@_quiet()
def scan(a: Array, b: Array) -> Array:
    r"""All states of a time-varying elementwise recurrence, in about log₂ T parallel steps.

    $$ h_t = a_t \odot h_{t-1} + b_t, \qquad h_0 = 0 $$

    The updates $h \mapsto a h + b$ compose: first (a, b), then (a', b') is the update
    $(a, b) \circ (a', b') = (aa',\, a'b + b')$, and ∘ is associative. So every step may double the
    number of tokens that each pair spans (Hillis & Steele 1986), at the price of T log₂ T work
    where the loop does T. To start from $h_0 \ne 0$, add $a_1 h_0$ to $b_1$. Products of
    multipliers that the loop never forms must stay in range: 3,000 tokens with a = 2 are an error
    here, even if all writes are zero.

    Args:
        a: multipliers, broadcastable to (..., T, n); a fixed decay may have shape (n,).
        b: writes, (..., T, n), with time on axis −2.

    Returns:
        h, (..., T, n), always a new array.

    Raises:
        TypeError: arrays are not floating-point, or numpy and torch are mixed.
        ValueError: shapes do not fit, T is 0, an entry is not finite, or a product overflows.
    """
    a, b = _common(a=a, b=b)
    _require_sizes("b", b, 2, "(..., T, n)")
    shape = _broadcast_shape(a=a.shape, b=b.shape)
    same_size("the length T of b", b.shape[-2], "the length T of a", shape[-2])
    xp, span = _namespace(b), 1
    a = xp.broadcast_to(a, shape)
    b = xp.concatenate([xp.broadcast_to(b, shape)], -2)  # a copy, also where T is 1
    while span < shape[-2]:
        # Token t has composed the updates of tokens t−span+1 … t; put those of t−span before them.
        later, earlier = a[..., span:, :], a[..., :-span, :]
        longer = later * b[..., :-span, :] + b[..., span:, :]
        b = xp.concatenate([b[..., :span, :], longer], -2)
        a = xp.concatenate([a[..., :span, :], later * earlier], -2)
        span *= 2
    return _finite_result("the scan", b)


@_quiet()
def chunked_recurrence(
    A_bar: Array,
    B_bar: Array,
    C: Array,
    x: Array,
    chunk: int = 64,
    *,
    diagonal: bool | None = None,
) -> Array:
    r"""`recurrence` by chunks of W tokens: matrix products inside a chunk, a loop between chunks.

    With s the state before a chunk and tokens counted from 0 in it, its outputs and next state are

    $$ y_k = \sum_{j \le k} K_{k-j}\, x_j + C\bar A^{k+1} s, \qquad
       s' = \bar A^W s + \sum_{j<W} \bar A^{W-1-j}\bar B\, x_j. $$

    One state a chunk is stored, not one a token; the sequential steps fall from T to T/W. Powers of
    Ā up to the W-th must stay in range (up to the (W−1)-th if T ≤ W), also where the tokens that
    they would multiply are zero.

    Args:
        A_bar: (..., n, n), or (..., n) for a diagonal.
        B_bar: (..., n, m).
        C: (..., p, n).
        x: tokens, (..., T, m).
        chunk: tokens a chunk, W.
        diagonal: as for `recurrence`.

    Returns:
        y, (..., T, p).

    Raises:
        TypeError, ValueError: as for `recurrence`; `chunk` is not an integer of at least 1.
    """
    _require_floating("x", x)
    A, B, C, x, _ = _system(A_bar, B_bar, C, x, diagonal=diagonal)
    T, W = x.shape[-2], min(positive_int("chunk", chunk), x.shape[-2])
    columns, blocks = _powers_times(A, B, W), _split(x, W)  # Ā^k B̄; (..., N, W m)
    y = blocks @ _toeplitz(C[..., None, :, :] @ columns).swapaxes(-1, -2)
    if W < T:  # else nothing came before, and no power Ā^W is needed
        y = y + _from_earlier_chunks(A, C, columns, blocks)
    y = y.reshape(*y.shape[:-2], y.shape[-2] * W, C.shape[-2])[..., :T, :]
    return _finite_result("the response", y)


def respond(
    A_bar: Array, B_bar: Array, C: Array, x: Array, *, diagonal: bool | None = None
) -> Array:
    """`recurrence` from rest, by the route that `quickest_route` names.

    The routes sum in another order, so the outputs agree up to rounding *of the largest output*: a
    response that grows by many orders of magnitude needs `recurrence` itself. All powers of Ā
    below the T-th (of a chunk, where the route is chunked) must stay in range.

    Args, returns, errors: as for `recurrence`, without an initial state.
    """
    for name, z, shape in (("x", x, "(..., T, m)"), ("C", C, "(..., p, n)")):
        _require_floating(name, z)
        _require_sizes(name, z, 2, shape)
    T, m, p = x.shape[-2], x.shape[-1], C.shape[-2]
    chunk = quickest_route(T, p, m)
    if chunk is None:
        return causal_convolution(kernel(A_bar, B_bar, C, T, diagonal=diagonal), x)
    return chunked_recurrence(A_bar, B_bar, C, x, chunk, diagonal=diagonal)


def quickest_route(T: int, p: int = 1, m: int = 1) -> int | None:
    """None for the FFT convolution, or the length of a chunk for `chunked_recurrence`.

    What keeps all states in memory waits for memory; both of these don't. One input and one output
    a system: the FFT's few large steps are quickest as long as the sequence fits into the cache;
    beyond, chunks of 64, whose work grows with T alone, and of 128 where there are hundreds.
    Between p outputs and m inputs every FFT is made p m times and a chunk's matrix has p m W²
    entries, so chunks win and are shorter. Measured on one core with 64 states; ``make bench``
    measures again.

    Args:
        T: tokens.
        p, m: outputs and inputs of one system.
    """
    if p * m == 1 and T <= 8192:
        return None
    return max(8, (64 if T <= 32768 else 128) // math.isqrt(p * m))


# ---------------------------------------------------------------------------------- pieces
# Inside this module Ā is a matrix (..., n, n), or a column (..., n, 1) that stands for a diagonal.


def _is_dense(A: Array) -> bool:
    return A.shape[-1] == A.shape[-2]


def _times(A: Array, V: Array) -> Array:
    """Ā V, for a dense Ā or the column of a diagonal one."""
    return A @ V if _is_dense(A) else A * V


def _power(A: Array, exponent: int) -> Array:
    return _namespace(A).linalg.matrix_power(A, exponent) if _is_dense(A) else A**exponent


def _powers_times(A: Array, V: Array, T: int) -> Array:
    """Ā^k V for k < T along a new axis −3, by doubling."""
    result = V[..., None, :, :]
    while result.shape[-3] < T:
        later = _times(A[..., None, :, :], result[..., : T - result.shape[-3], :, :])
        result = _namespace(V).concatenate([result, later], -3)
        A = _times(A, A) if result.shape[-3] < T else A
    return result


def _dense_kernel(A: Array, B: Array, C: Array, T: int) -> Array:
    return C[..., None, :, :] @ _powers_times(A, B, T)


def _diagonal_kernel(A: Array, B: Array, C: Array, T: int) -> Array:
    """K_{cV+k}[p, m] = Σ_n ā_n^{cV} · ā_n^k C[p, n] B̄[n, m], with V ≈ √T: no (T, n) powers stored."""
    V = math.isqrt(T - 1) + 1
    outer = C.swapaxes(-1, -2)[..., None] * B[..., None, :]  # (..., n, p, m)
    flat = outer.reshape(*outer.shape[:-2], outer.shape[-2] * outer.shape[-1])
    near = _powers_times(A, flat, V).swapaxes(-3, -2)  # (..., n, V, p m)
    far = _powers_times(_power(A, V), _namespace(A).ones_like(A), -(-T // V))[..., 0]  # (…, T/V, n)
    K = far @ near.reshape(*near.shape[:-2], V * flat.shape[-1])
    return K.reshape(*K.shape[:-2], K.shape[-2] * V, *outer.shape[-2:])[..., :T, :, :]


def _states(A: Array, writes: Array, h: Array) -> Iterator[Array]:
    """h_t = Ā h_{t−1} + writes_t, as columns (..., n, 1), one after another."""
    for t in range(writes.shape[-2]):
        h = _times(A, h) + writes[..., t, :, None]
        yield h


def _fft_convolve(kernel: Array, x: Array) -> Array:
    """Linear convolution along time, in full: the first L + T − 1 tokens are right."""
    xp, dtype = _namespace(x), x.dtype
    kernel, x = (_at_least_single(z) for z in (kernel, x))
    forward, back = (xp.fft.fft, xp.fft.ifft) if _is_complex(x) else (xp.fft.rfft, xp.fft.irfft)
    size = 1 << (kernel.shape[-3] + x.shape[-2] - 2).bit_length()  # a power of two ≥ L + T − 1
    K = forward(xp.moveaxis(kernel, -3, -1), size)  # (..., p, m, frequency)
    X = forward(x.swapaxes(-1, -2), size)  # (..., m, frequency)
    if x.shape[-1] == 1:  # one product a frequency, not a matrix product of one
        Y = K[..., 0, :] * X
    else:
        Y = (xp.moveaxis(K, -1, -3) @ xp.moveaxis(X, -1, -2)[..., None])[..., 0].swapaxes(-1, -2)
    return _cast(back(Y, size).swapaxes(-1, -2), dtype)


def _from_earlier_chunks(A: Array, C: Array, columns: Array, blocks: Array) -> Array:
    """What the states before each chunk add to its outputs, (..., N, W p)."""
    into_state, out_of_state = _chunk_operators(A, C, columns)
    writes = blocks @ into_state.swapaxes(-1, -2)  # (..., N, n)
    before = _states_before(_power(A, columns.shape[-3]), writes)  # (..., n, N)
    return (out_of_state @ before).swapaxes(-1, -2)


def _states_before(A: Array, writes: Array) -> Array:
    """The states before each of N writes (..., N, n), from zero on: (..., n, N).

    For a diagonal these are N numbers a mode, and N may be thousands: chunks of V ≈ √N once more.
    """
    n, N, V = writes.shape[-1], writes.shape[-2], math.isqrt(writes.shape[-2])
    zero = _zeros((*writes.shape[:-2], n, 1), like=writes)
    join, earlier = _namespace(A).concatenate, writes[..., :-1, :]
    if _is_dense(A) or V < 4:
        return join([zero, *_states(A, earlier, zero)], -1)
    powers = _powers_times(A, _namespace(A).ones_like(A), V).swapaxes(-3, -2)[..., None]
    blocks = _split(earlier.swapaxes(-1, -2)[..., None], V)  # (..., n, N/V, V)
    inside = blocks @ _toeplitz(powers).swapaxes(-1, -2)
    carried = _states(_power(A, V), inside[..., -1].swapaxes(-1, -2)[..., :-1, :], zero)
    start = join([zero, *carried], -1)[..., None]  # (..., n, N/V, 1)
    states = inside + start * (A[..., None] * powers[..., 0]).swapaxes(-1, -2)
    return join([zero, states.reshape(*states.shape[:-2], -1)[..., : N - 1]], -1)


def _chunk_operators(A: Array, C: Array, columns: Array) -> tuple[Array, Array]:
    """Matrices of `chunked_recurrence`: a chunk's tokens→state, state→its outputs."""
    W, n, m = columns.shape[-3:]
    transposed = A.swapaxes(-1, -2) if _is_dense(A) else A
    Ct = C.swapaxes(-1, -2)
    rows = _powers_times(transposed, _times(transposed, Ct), W).swapaxes(-1, -2)  # C Ā^{k+1}
    last_first = _namespace(A).flip(columns, (-3,)).swapaxes(-3, -2)  # (..., n, W, m)
    into_state = last_first.reshape(*last_first.shape[:-2], W * m)
    return into_state, rows.reshape(*rows.shape[:-3], W * C.shape[-2], n)


def _toeplitz(kernel: Array) -> Array:
    """Matrix (..., W p, W m) whose block (k, j) is K_{k−j}, zero above the diagonal."""
    W, p, m = kernel.shape[-3:]
    padded = _namespace(kernel).concatenate([kernel, 0 * kernel[..., :1, :, :]], -3)
    lag = np.subtract.outer(np.arange(W), np.arange(W))
    blocks = padded[..., np.where(lag < 0, W, lag), :, :]  # (..., k, j, p, m)
    return blocks.swapaxes(-3, -2).reshape(*kernel.shape[:-3], W * p, W * m)


def _split(x: Array, W: int) -> Array:
    """Tokens (..., T, m) in blocks (..., N, W m), the last one filled up with zeros."""
    short = -x.shape[-2] % W
    filled = _namespace(x).concatenate([x, _zeros((*x.shape[:-2], short, x.shape[-1]), like=x)], -2)
    return filled.reshape(*x.shape[:-2], filled.shape[-2] // W, W * x.shape[-1])


# --------------------------------------------------------------------- numpy or torch, and checks


def _namespace(x: Array) -> ModuleType:
    """Return the module for `x`: torch if it is a tensor (torch is loaded then), or numpy."""
    return sys.modules["torch"] if is_torch(x) else np


def _is_complex(x: Array) -> bool:
    return bool(x.is_complex() if is_torch(x) else np.iscomplexobj(x))


def _cast(x: Array, dtype: Any) -> Array:
    return x.to(dtype) if is_torch(x) else x.astype(dtype, copy=False)


def _at_least_single(x: Array) -> Array:
    """Half precision as float32, for routines that have no half-precision version."""
    return _cast(x, _namespace(x).float32) if x.dtype.itemsize == 2 else x


def _at_least_double(x: Array) -> Array:
    """Return x in float64, or complex128 if it is complex."""
    if is_torch(x):
        torch = _namespace(x)
        return x.to(torch.promote_types(x.dtype, torch.float64))
    return x.astype(np.promote_types(x.dtype, np.float64), copy=False)


def _zeros(shape: tuple[int, ...], *, like: Array) -> Array:
    return like.new_zeros(shape) if is_torch(like) else np.zeros(shape, like.dtype)


def _identity_like(A: Array) -> Array:
    if is_torch(A):
        return _namespace(A).eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return np.eye(A.shape[-1], dtype=A.dtype)


def _largest_entry(B: Array) -> Array:
    """Largest |entry| of each matrix of B, or 1 if all are 0; a constant to autograd."""
    xp = _namespace(B)
    size = abs(B.detach()).amax((-2, -1)) if is_torch(B) else abs(B).max((-2, -1))
    return xp.where(size > 0, size, xp.ones_like(size))[..., None, None]


def _expm(X: Array) -> Array:
    """Matrix exponential of every matrix in X."""
    if is_torch(X):
        return _namespace(X).linalg.matrix_exp(X)
    import scipy.linalg  # imported here: only the dense rule needs it

    return scipy.linalg.expm(X)


def _finite_result(name: str, x: Array) -> Array:
    """`x`, or a ValueError where the arithmetic left the range of its dtype."""
    if count_not_finite(x):
        raise ValueError(f"{name} overflows {x.dtype}: an entry of it is too large to represent")
    return x


def _solve(M: Array, right: Array) -> Array:
    linalg = _namespace(M).linalg
    try:
        solution = linalg.solve(_at_least_single(M), _at_least_single(right))
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise ValueError(f"I - A dt/2 is singular: 2/dt is an eigenvalue of A ({error})") from None
    return _cast(solution, M.dtype)


def _require_floating(name: str, x: object) -> None:
    if not (is_torch(x) or isinstance(x, np.ndarray)):
        raise TypeError(f"{name} must be a numpy array or a torch tensor, got {type(x).__name__}")
    if not is_floating(x):
        raise TypeError(f"{name} must hold floating-point numbers, got {x.dtype}")  # type: ignore[attr-defined]


def _common(**arrays: Array) -> list[Array]:
    """Check the named arrays and bring them to their common dtype."""
    kinds = {}
    for name, x in arrays.items():
        _require_floating(name, x)
        kinds[name] = "torch" if is_torch(x) else "numpy"
        finite(name, x)
    if len(set(kinds.values())) > 1:
        raise TypeError(f"numpy arrays and torch tensors do not mix: got {kinds}")
    dtypes = [x.dtype for x in arrays.values()]
    promote = np.promote_types if "numpy" in kinds.values() else sys.modules["torch"].promote_types
    dtype = functools.reduce(promote, dtypes)
    return [_cast(x, dtype) for x in arrays.values()]


def _require_sizes(name: str, x: Array, ndim: int, shape: str) -> None:
    """At least `ndim` axes, and the last `ndim` of them not empty (a batch may be)."""
    min_ndim(name, x, ndim, shape)
    if 0 in x.shape[-ndim:]:
        raise ValueError(f"{name} must have shape {shape} with no empty axis, got {tuple(x.shape)}")


def _broadcast_shape(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes.values()))
    except ValueError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"leading axes do not broadcast: {listed}") from None


def _broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _step(dt: Any, like: Array) -> Array:
    """Δ as an array of `like`'s kind and real dtype."""
    dtype = like.real.dtype
    if isinstance(dt, numbers.Number):
        dt = _namespace(like).asarray(positive_number("dt", dt), dtype=dtype)
    _require_floating("dt", dt)
    if is_torch(dt) != is_torch(like):
        raise TypeError("dt must be a number, or an array of the same kind (numpy, torch) as A")
    if _is_complex(dt):
        raise TypeError(f"dt must be real, got {dt.dtype}")
    dt = finite("dt", _cast(dt, dtype))
    if not bool((dt > 0).all()):
        raise ValueError(f"dt must be above zero in {dtype}, got a smallest entry of {dt.min()}")
    return dt


def _dense_inputs(A: Array, B: Array, dt: Any) -> tuple[Array, Array, Array]:
    """Check A (..., n, n), B (..., n, m) and dt (..., 1, 1); A and B get the same leading axes."""
    A, B = _common(A=A, B=B)
    _require_sizes("A", A, 2, "(..., n, n)")
    _require_sizes("B", B, 2, "(..., n, m)")
    same_size("the number of rows of A", A.shape[-2], "its number of columns", A.shape[-1])
    same_size("the number of states in A", A.shape[-1], "the number of rows of B", B.shape[-2])
    dt = _step(dt, A)
    if dt.ndim == 0:
        dt = dt.reshape(1, 1)
    if tuple(dt.shape[-2:]) != (1, 1):
        raise ValueError(
            "dt must be a number or have shape (..., 1, 1), to broadcast against A "
            f"{tuple(A.shape)}; got {tuple(dt.shape)}"
        )
    batch = _broadcast_shape(A=A.shape[:-2], B=B.shape[:-2], dt=dt.shape[:-2])
    xp = _namespace(A)
    return (
        xp.broadcast_to(A, (*batch, *A.shape[-2:])),
        xp.broadcast_to(B, (*batch, *B.shape[-2:])),
        dt,
    )


def _diagonal_inputs(a: Array, B: Array, dt: Any) -> tuple[Array, Array, Array]:
    """Check a (..., n), B (..., n, m) and dt; a and B get the same leading axes."""
    a, B = _common(a=a, B=B)
    _require_sizes("a", a, 1, "(..., n)")
    _require_sizes("B", B, 2, "(..., n, m)")
    same_size("the number of states in a", a.shape[-1], "the number of rows of B", B.shape[-2])
    dt = _step(dt, a)
    shape = _broadcast_shape(a=a.shape, B=B.shape[:-1], dt=dt.shape)
    same_size("the number of states in a", a.shape[-1], "the last axis of dt", shape[-1])
    xp = _namespace(a)
    return xp.broadcast_to(a, shape), xp.broadcast_to(B, (*shape, B.shape[-1])), dt


def _system(
    A_bar: Array,
    B_bar: Array,
    C: Array,
    x: Array = None,
    h0: Array = None,
    *,
    diagonal: bool | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Check the arrays; Ā comes back as matrix or column, h_0 as a column (0 if None)."""
    optional = {name: z for name, z in (("x", x), ("h0", h0)) if z is not None}
    arrays = {"A_bar": A_bar, "B_bar": B_bar, "C": C, **optional}
    arrays = dict(zip(arrays, _common(**arrays), strict=True))
    A, B, C = arrays["A_bar"], arrays["B_bar"], arrays["C"]
    _require_sizes("B_bar", B, 2, "(..., n, m)")
    _require_sizes("C", C, 2, "(..., p, n)")
    n = B.shape[-2]
    A = _matrix_or_column(A, B, diagonal)
    same_size("the states in C", C.shape[-1], "the states in B_bar", n)
    batch = _broadcast_shape(A_bar=A.shape[:-2], B_bar=B.shape[:-2], C=C.shape[:-2])
    A, B, C = (_namespace(z).broadcast_to(z, (*batch, *z.shape[-2:])) for z in (A, B, C))
    x, h = arrays.get("x"), arrays.get("h0")
    if x is not None:
        _require_sizes("x", x, 2, "(..., T, m)")
        same_size("the inputs m of B_bar", B.shape[-1], "the width m of x", x.shape[-1])
        batch = _broadcast_shape(system=batch, x=x.shape[:-2])
    if h is None:
        return A, B, C, x, _zeros((n, 1), like=B)
    _require_sizes("h0", h, 1, "(..., n)")
    same_size("the states in h0", h.shape[-1], "the states in B_bar", n)
    _broadcast_shape(system=batch, h0=h.shape[:-1])
    return A, B, C, x, h[..., None]


def _matrix_or_column(A: Array, B: Array, diagonal: bool | None) -> Array:
    """Ā as (..., n, n) if dense, as (..., n, 1) if diagonal; the shape decides where it can."""
    n = B.shape[-2]
    if one_of("diagonal", diagonal, (None, True, False)) is None:
        diagonal = _reads_as_diagonal(tuple(A.shape), tuple(B.shape))
    if tuple(A.shape[-1:] if diagonal else A.shape[-2:]) != ((n,) if diagonal else (n, n)):
        raise ValueError(
            "A_bar must have shape (..., n, n), or (..., n) for a diagonal; got "
            f"{tuple(A.shape)} for n = {n} states in B_bar {tuple(B.shape)}"
        )
    return A[..., None] if diagonal else A


def _reads_as_diagonal(A: tuple[int, ...], B: tuple[int, ...]) -> bool:
    """Whether an Ā of this shape is a diagonal; ValueError where it could as well be a matrix."""
    if A[-2:] != (B[-2], B[-2]):
        return True
    if len(A) >= len(B):
        return False
    as_matrix, as_diagonal = (_broadcasts(A[:-axes], B[:-2]) for axes in (2, 1))
    if as_matrix and as_diagonal and A != (1, 1):  # for (1, 1) the two are the same
        raise ValueError(
            f"A_bar {A} could be {A[-1]} diagonals or one matrix for the whole batch of B_bar {B}: "
            "say diagonal=True or diagonal=False"
        )
    return as_diagonal
