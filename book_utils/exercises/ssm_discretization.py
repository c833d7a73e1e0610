"""Checkers of the exercises in "From differential equations to tokens"."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import Wrong, array, call, close, detached, exercise, explain, number, parts, rows, shape_of


def _is_complex(value: Any) -> bool:
    """Whether these are complex numbers; not where the value is no array of numbers."""
    try:
        return bool(np.iscomplexobj(np.asarray(detached(value))))
    except (TypeError, ValueError, RuntimeError):
        return False


@exercise(
    "ssm_discretization.quarter_life",
    hint="One token multiplies what is left by e^(aΔ). With a = −0.02 per second and Δ = 1/10 s, how "
    "often must you multiply to get to 1/4? Two half-lives.",
)
def quarter_life(answer: Any) -> str:
    """Tokens after which a quarter is left: a = −0.02 per second, 10 Hz."""
    value = number(answer)
    right = math.log(4) / 0.002
    for wrong, why in (
        (right / 2, "That is the half-life: half of it is left then. A quarter takes two of them."),
        (right / 10, "That is the time in seconds; there are ten tokens in a second."),
        (
            right / 20,
            "That is the half-life in seconds. The question is for a quarter, and in tokens.",
        ),
        (
            right / 100,
            "Δ is 1/10 of a second, not 10 seconds: a token lasts as long as 1/frequency.",
        ),
        (math.log10(4) / 0.002, "The decay is a power of e; use the natural logarithm."),
        (math.log(4 / 3) / 0.002, "That is when a quarter has gone; a quarter should be left."),
        (
            0.75 / 0.002,
            "The decay is not a straight line; each token takes a share of what is left.",
        ),
    ):
        if abs(value - wrong) <= 0.003 * wrong:
            raise Wrong(why)
    if abs(value - right) > 1:
        raise Wrong(f"{value:g} is not it; work out the multiplier e^(aΔ) of one token first.")
    return "At 30 Hz it would be three times as many tokens, and the same 69 seconds."


@exercise(
    "ssm_discretization.zoh",
    hint="The multiplier is e^(aΔ). The write is b times (e^(aΔ) − 1)/a; np.expm1 computes e^z − 1 without "
    "cancellation. At a = 0 the state just adds up: what is its write then?",
)
def zoh(answer: Any) -> str:
    """Exact multiplier and write of one mode, for any real a."""
    for a, b, dt in (
        (-0.5, 1.5, 0.8), (-3.0, 2.0, 0.25), (0.4, -1.0, 0.7), (-0.05, 1.0, 0.8), (0.01, 2.0, 0.5),
    ):  # fmt: skip
        a_bar, b_bar = _pair(call(answer, a, b, dt), ((), ()))
        keep, write = math.exp(a * dt), b * math.expm1(a * dt) / a
        if not close(a_bar, keep):
            raise Wrong(_why_multiplier(float(a_bar), a, b, dt))
        if not close(b_bar, write):
            raise Wrong(_why_write(float(b_bar), a, b, dt, write))
    try:
        a_bar, b_bar = _pair(call(answer, 0.0, 2.0, 0.25), ((), ()))
    except Wrong as wrong:
        raise Wrong(f"With a = 0 there is trouble: {wrong} Treat a = 0 on its own.") from None
    if not (close(a_bar, 1.0) and close(b_bar, 0.5)):
        raise Wrong("With a = 0 the state just adds up: it keeps all of itself and writes bΔ.")
    for exponent in range(-3, -14, -1):
        _check_digits(answer, -(10.0**exponent))
    return "And it keeps its digits as aΔ shrinks."


def _check_digits(answer: Any, z: float) -> None:
    """Multiplier and write at a tiny aΔ = z, to the digits that their numbers have."""
    result = call(answer, 2 * z, 2.0, 0.5)
    a_bar, b_bar = (float(part) for part in _pair(result, ((), ())))
    single = any("float32" in str(getattr(part, "dtype", "")) for part in (result, *rows(result)))
    tolerance = 1e-6 if single else 1e-9  # of 7 digits, and of 16
    keep, write = math.exp(z), math.expm1(z) / z
    if abs(a_bar / keep - 1) > tolerance:
        raise Wrong(
            f"With aΔ = {z:g} the multiplier should be {keep:.10f}, but it is {a_bar:.10f}."
        )
    if abs(b_bar / write - 1) <= tolerance:
        return
    if abs(b_bar - 1) < 1e-12:
        raise Wrong(
            f"With aΔ = {z:g} the write is Euler's bΔ, {abs(1 - write):.0e} off: you switch over too "
            "early. np.expm1 needs no other branch than a = 0."
        )
    raise Wrong(
        f"With aΔ = {z:g} the write should be {write:.10f}, but it is {b_bar:.10f}: e^z − 1 loses its "
        "digits there. Use np.expm1."
    )


def _pair(
    result: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray]:
    """The multiplier and the write, in this order."""
    first, second = parts(result, (("the multiplier", shapes[0]), ("the write", shapes[1])))
    return first, second


def _why_multiplier(found: float, a: float, b: float, dt: float) -> str:
    if close(found, 1 + a * dt):
        return "The multiplier is Euler's 1 + aΔ; the exact one is e^(aΔ)."
    if a > 0 and close(found, math.exp(-a * dt)):
        return "That decays for a positive a, too; the sign of a must enter."
    if close(found, math.exp(-a * dt)):
        return "The sign is turned round: the multiplier is e^(aΔ), and a is negative for a decay."
    if close(found, math.exp(a)):
        return "The multiplier does not depend on Δ; the state decays for Δ seconds."
    if close(found, (1 + a * dt / 2) / (1 - a * dt / 2)):
        return "The multiplier is the bilinear rule's; the exact one is e^(aΔ)."
    if close(found, b * math.expm1(a * dt) / a):
        return "The two have changed places: return the multiplier first, then the write."
    return f"With a = {a:g} and Δ = {dt:g} the multiplier should be {math.exp(a * dt):.4f}, not {found:.4f}."


def _why_write(found: float, a: float, b: float, dt: float, right: float) -> str:
    for wrong, why in (
        (b * dt, "The write is Euler's bΔ; the held input decays, too, while it is being written."),
        (right / b, "The input's factor b is missing from the write."),
        (-right, "The sign is turned round: (e^(aΔ) − 1)/a is positive."),
        (b * math.expm1(a * dt), "Divide by a: the integral of e^(as) is e^(as)/a."),
        (
            b * math.expm1(a * dt) / (a * dt),
            "That divides by aΔ; dividing by a is enough, Δ stays in.",
        ),
        (
            b * dt * math.exp(a * dt),
            "That lets the whole write decay for a whole step; it comes in bit by bit.",
        ),
        (b * math.exp(a * dt), "That writes the input in one blow at the start of the step."),
    ):
        if close(found, wrong):
            return why
    return (
        f"With a = {a:g}, b = {b:g}, Δ = {dt:g} the write should be {right:.4f}, not {found:.4f}."
    )


@exercise(
    "ssm_discretization.two_steps",
    hint="Write the recurrence down twice, with the same x both times, and put the first line into the "
    "second. What stands before h is the new Ā, what stands before x the new B̄.",
)
def two_steps(answer: Any) -> str:
    """The update for 2Δ from the update for Δ."""
    rng = np.random.default_rng(0)
    for n, m in ((2, 1), (3, 2), (1, 1)):
        A, B = rng.normal(size=(n, n)), rng.normal(size=(n, m))
        found_A, found_B = _pair(call(answer, A, B), ((n, n), (n, m)))
        if not close(found_A, A @ A):
            if close(found_A, A * A) and n > 1:
                raise Wrong(
                    "A * A squares each entry; two updates in a row are the matrix product A @ A."
                )
            if close(found_A, 2 * A):
                raise Wrong(
                    "Two updates in a row multiply twice; they do not double the multiplier."
                )
            raise Wrong("The state should be multiplied by Ā twice.")
        if close(found_B, A @ B + B):
            continue
        explain(
            found_B,
            [
                (2 * B, "The first write has already been multiplied by Ā once when the second comes."),
                (B, "Only the second write is counted; the first one is still there, multiplied by Ā."),
                (A @ B, "Only the first write is counted, multiplied by Ā; the second adds B̄."),
                (2 * A @ B, "Only the first of the two writes is multiplied by Ā; the second is new."),
                (A @ A @ B + B, "The first write is multiplied by Ā once, not twice, before the step ends."),
                (A @ A @ B + A @ B,
                 "Both writes are a step too old: the second has not been multiplied yet."),
            ],
            "The new Ā is right, the new B̄ is not.",
        )  # fmt: skip
    return "With this you can make any whole multiple of a step out of a single one."


@exercise(
    "ssm_discretization.kernel",
    hint="Mode i contributes c_i · ā_i^k · b̄_i to lag k. Build the table of powers, one row a lag, starting "
    "with the power 0, and sum over the modes.",
)
def kernel(answer: Any) -> str:
    """Kernel of a diagonal layer with one input and one output."""
    rng = np.random.default_rng(0)
    for n, T in ((3, 6), (1, 4), (2, 1)):
        a, b, c = rng.uniform(0.2, 0.95, n), rng.normal(size=n), rng.normal(size=n)
        powers = a ** np.arange(T)[:, None]
        right = powers @ (b * c)
        result = call(answer, a, b, c, T)
        if n != T and shape_of(result) in ((T, n), (n, T)):
            raise Wrong("That is one kernel for each mode; the layer's output is their sum.")
        found = array(result, (T,))
        if close(found, right):
            continue
        explain(
            found,
            [
                (powers @ (b * c * a), "It starts with ā¹: lag 0 is the token just read, with power 0."),
                (right[::-1], "The lags are in reverse order: lag 0 comes first."),
                (powers @ b, "The readout c is missing."),
                (powers @ c, "The write b̄ is missing."),
                (powers.sum(axis=1), "Both c and b̄ are missing: those are the bare powers."),
                (np.cumsum(right),
                 "The lags are added up; the kernel is what a single token leaves behind."),
                (c.sum() * (powers @ b),
                 "Each mode has its own c; multiply before you sum over the modes."),
                ((a * np.arange(T)[:, None]) @ (b * c),
                 "k steps multiply by ā k times: that is ā to the power k, not ā times k."),
                (np.exp(np.arange(T)[:, None] * a) @ (b * c),
                 "The multipliers are discrete already: raise ā to the power k, without exp."),
            ],
            "The shape is right, the numbers are not: K_k is the sum of c·ā^k·b̄ over the modes.",
        )  # fmt: skip
    return "That table of powers is a Vandermonde matrix; S4D computes its kernel just so."


@exercise(
    "ssm_discretization.convolve",
    hint="Give np.fft.rfft a second argument, the length to pad to: at least 2T − 1. Multiply, transform "
    "back with the same length, and keep the first T entries.",
)
def convolve(answer: Any) -> str:
    """Causal convolution of a kernel and a sequence by FFT."""
    rng = np.random.default_rng(0)
    for T in (5, 8, 13):
        K, x = rng.normal(size=T), rng.normal(size=T)
        right = np.convolve(K, x)
        circular = np.fft.irfft(np.fft.rfft(K) * np.fft.rfft(x), T)
        result = detached(call(answer, K, x))
        if _is_complex(result):
            raise Wrong(
                "The result is complex; two real sequences have a real convolution. Use irfft."
            )
        if isinstance(result, np.ndarray) and result.ndim == 1 and len(result) != T:
            raise Wrong(
                f"There should be one output a token, T = {T}, but there are {len(result)}."
            )
        found = array(result, (T,))
        if close(found, right[:T]):
            continue
        explain(
            found,
            [
                (circular, "The end wraps round into the beginning: pad to at least 2T − 1 before the FFT."),
                (right[T - 1 :],
                 "Those are the last T entries of the full convolution; the first T are causal."),
                (np.correlate(x, K, "full")[T - 1 :], "That reads later tokens: lag k belongs to x[t − k]."),
                (np.convolve(K[::-1], x)[:T], "The kernel is reversed; convolution does that by itself."),
                (np.convolve(K, x[::-1])[:T], "The sequence is reversed; its first token comes first."),
                (K * x, "That multiplies entry by entry; multiply the transforms instead."),
                (np.cumsum(K * x), "Token t needs K_k with x[t − k] for each k: a sum of its own."),
            ],
            "The shape is right, the numbers are not: compare with np.convolve(K, x)[:T].",
        )  # fmt: skip
    return "No token reaches back in time."


@exercise(
    "ssm_discretization.compose",
    hint="Put h' = A₁h + b₁ into h'' = A₂h' + b₂ and multiply out. What stands before h, and what is left?",
)
def compose(answer: Any) -> str:
    """Composition of two affine updates with matrices: first, then second."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 1):
        (A1, A2), (b1, b2) = rng.normal(size=(2, n, n)), rng.normal(size=(2, n))
        A, b = _pair(call(answer, (A1, b1), (A2, b2)), ((n, n), (n,)))
        if not close(A, A2 @ A1):
            if close(A, A1 @ A2):
                raise Wrong(
                    "The order is turned round: the second update acts on the result of the first."
                )
            if close(A, A1 * A2):
                raise Wrong("The matrices are multiplied entry by entry; use @.")
            raise Wrong("The matrix of the two together is not the product of theirs.")
        if close(b, A2 @ b1 + b2):
            continue
        explain(
            b,
            [
                (b1 + b2, "The first write passes through the second update: it must be multiplied by A₂."),
                (A1 @ b2 + b1,
                 "The order is turned round: it is the first write that the second update changes."),
                (A1 @ b1 + b2, "The first write meets the second update's matrix, A₂; not its own."),
                (b1 @ A2 + b2, "A matrix acts from the left: A₂ @ b₁."),
                (A2 @ b1, "The second write is missing."),
                (b2, "The first write is missing; the second update multiplies it by A₂."),
                (A2 @ (b1 + b2),
                 "The second write comes in after the multiplication, so it is not multiplied."),
            ],
            "The matrix is right, the vector is not.",
        )  # fmt: skip
    return "With matrices the order matters: the operation is associative, but not commutative."


@exercise(
    "ssm_discretization.late_peak",
    hint="Take weights of opposite sign, so that the kernel starts small: w₁ā₁^k − w₂ā₂^k. It grows as "
    "long as what the fast mode loses exceeds what the slow mode loses. Start from ā = (0.9, 0.6), print "
    "the kernel, and see where it peaks.",
)
def late_peak(answer: Any) -> str:
    """Two real decays whose kernel is positive and largest at lag 5."""
    if answer is None or answer is Ellipsis:
        raise NotImplementedError("put two decays and two weights in place of the dots.")
    answer = rows(answer)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise Wrong("Give two things: the pair of decays, and the pair of weights.")
    if any(_is_complex(part) for part in answer):
        raise Wrong("Real decays and real weights are asked for; these are complex.")
    decays, weights = (array(part, (2,)) for part in answer)
    if not ((decays > 0) & (decays < 1)).all():
        raise Wrong(
            f"Both decays should lie strictly between 0 and 1, but they are {decays.tolist()}."
        )
    K = decays ** np.arange(400)[:, None] @ weights
    peak = int(K.argmax())
    if K.max() <= 0:
        raise Wrong("The kernel is never above zero; turn the signs of the weights round.")
    if not K[peak] > 1.0000001 * np.delete(K, peak).max():
        raise Wrong("There is no single largest lag; the largest value occurs twice.")
    if peak == 0:
        raise Wrong(
            "It is largest at lag 0. The weights need opposite signs, so that it starts small."
        )
    if peak != 5:
        way = "slower" if peak < 5 else "faster"
        raise Wrong(f"It is largest at lag {peak}. For a peak at 5 make one of the decays {way}.")
    if K.min() < -1e-9 * K.max():
        raise Wrong(
            f"The peak is at lag 5, but the kernel falls to {K.min():.3g}; it should never be negative."
        )
    return "Two modes that only ever decay, and a memory that is strongest five tokens late."
