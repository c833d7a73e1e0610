"""Right answers and typical mistakes in “From differential equations to tokens”."""

import math

import numpy as np
import scipy.linalg
import scipy.signal
import torch

from book_utils import ssm


def zoh_with(multiplier=math.exp, write=None):
    """A reader's zoh with one part changed; `write` is a function of (a, b, dt)."""

    def zoh(a, b, dt):
        exact = b * dt if a == 0 else b * np.expm1(a * dt) / a
        return multiplier(a * dt), exact if write is None else write(a, b, dt)

    return zoh


def augmented(a, b, dt):
    E = scipy.linalg.expm(np.array([[a * dt, b * dt], [0.0, 0.0]]))
    return E[0, 0], E[0, 1]


def by_package(a, b, dt):
    one = np.ones((1, 1))
    a_bar, b_bar = ssm.discretize_zoh_diagonal(np.array([a]), b * one, dt)
    return a_bar[0], b_bar[0, 0]


def naive(a, b, dt):
    return (np.exp(a * dt), b * (np.exp(a * dt) - 1) / a if a else b * dt)


def in_float32(a, b, dt):
    a_bar = torch.exp(torch.tensor(a * dt, dtype=torch.float32))
    if a == 0:
        return a_bar, torch.tensor(b * dt)
    return a_bar, b * torch.expm1(torch.tensor(a * dt, dtype=torch.float32)) / a


def naive_float32(a, b, dt):
    a_bar = np.exp(np.float32(a * dt))
    return a_bar, b * (a_bar - 1) / a if a else b * dt


def crude(threshold):
    """Euler's write for small a."""
    return zoh_with(
        write=lambda a, b, dt: b * dt if abs(a) < threshold else b * np.expm1(a * dt) / a
    )


def kernel_loop(a, b, c, T):
    return [sum(c * a**k * b) for k in range(T)]


def kernel_filter(a, b, c, T):
    impulse = np.eye(1, T)[0]
    return sum(
        scipy.signal.lfilter([ci * bi], [1, -ai], impulse)
        for ai, bi, ci in zip(a, b, c, strict=True)
    )


def padded(K, x):
    n = 4 * len(x)
    return np.fft.ifft(np.fft.fft(K, n) * np.fft.fft(x, n)).real[: len(x)]


def padded_torch(K, x):
    K, x = torch.tensor(K), torch.tensor(x)
    n = 2 * len(x)
    return torch.fft.irfft(torch.fft.rfft(K, n) * torch.fft.rfft(x, n), n)[: len(x)]


RIGHT = [
    ("quarter_life", 693.1),
    ("quarter_life", "693"),
    ("zoh", zoh_with()),
    ("zoh", augmented),
    ("zoh", by_package),
    ("zoh", in_float32),
    ("zoh", lambda a, b, dt: np.array(zoh_with()(a, b, dt))),
    ("zoh", lambda a, b, dt: torch.tensor(zoh_with()(a, b, dt), requires_grad=True)),
    ("zoh", crude(1e-8)),
    ("two_steps", lambda A, B: (np.linalg.matrix_power(A, 2), (A + np.eye(len(A))) @ B)),
    ("two_steps", lambda A, B: [torch.tensor(A @ A), torch.tensor(A @ B + B)]),
    ("kernel", kernel_loop),
    ("kernel", kernel_filter),
    ("convolve", padded),
    ("convolve", padded_torch),
    ("convolve", lambda K, x: np.convolve(K, x)[: len(x)]),
    ("compose", lambda f, g: (g[0] @ f[0], g[0] @ f[1] + g[1])),
    ("compose", lambda f, g: (np.einsum("ij,jk", g[0], f[0]), np.add(g[0] @ f[1], g[1]))),
    ("late_peak", ([0.9, 0.7], [1.0, -1.0])),
    ("late_peak", np.array([[0.9, 0.7], [1.0, -1.0]])),
    ("late_peak", torch.tensor([[0.9, 0.7], [1.0, -1.0]])),
    ("late_peak", ([0.9, 0.7], [1e-13, -1e-13])),
    ("late_peak", (torch.tensor([0.7, 0.9]), torch.tensor([-2.0, 2.0]))),
]

WRONG = [
    ("quarter_life", 346.6, "half-life"),
    ("quarter_life", 69.3, "time in seconds"),
    ("quarter_life", 34.66, "half-life in seconds"),
    ("quarter_life", 6.93, "1/10 of a second"),
    ("quarter_life", 301, "natural logarithm"),
    ("quarter_life", 143.8, "when a quarter has gone"),
    ("quarter_life", 375, "straight line"),
    ("quarter_life", 500, "500 is not it"),
    ("quarter_life", [1, 2], "single number"),
    ("zoh", zoh_with(lambda z: 1 + z), "Euler's 1 + aΔ"),
    ("zoh", zoh_with(lambda z: math.exp(-z)), "sign is turned round"),
    ("zoh", lambda a, b, dt: (math.exp(a), b), "does not depend on Δ"),
    ("zoh", zoh_with(lambda z: (1 + z / 2) / (1 - z / 2)), "bilinear"),
    ("zoh", lambda a, b, dt: zoh_with()(a, b, dt)[::-1], "changed places"),
    ("zoh", zoh_with(lambda z: 0.5), "should be 0.6703, not 0.5000"),
    ("zoh", zoh_with(write=lambda a, b, dt: b * dt), "Euler's bΔ"),
    ("zoh", lambda a, b, dt: zoh_with()(a, 1.0, dt), "factor b is missing"),
    ("zoh", zoh_with(write=lambda a, b, dt: -b * np.expm1(a * dt) / a), "sign is turned round"),
    ("zoh", zoh_with(write=lambda a, b, dt: b * np.expm1(a * dt)), "Divide by a"),
    ("zoh", zoh_with(write=lambda a, b, dt: b * np.expm1(a * dt) / (a * dt)), "Δ stays in"),
    ("zoh", zoh_with(write=lambda a, b, dt: b * dt * np.exp(a * dt)), "bit by bit"),
    ("zoh", zoh_with(write=lambda a, b, dt: b * np.exp(a * dt)), "one blow"),
    ("zoh", zoh_with(write=lambda a, b, dt: 7.0), "should be 0.9890, not 7.0000"),
    (
        "zoh",
        lambda a, b, dt: (math.exp(a * dt), b * math.expm1(a * dt) / a),
        "With a = 0 there is trouble",
    ),
    ("zoh", lambda a, b, dt: (np.exp(a * dt), np.float64(b) * np.expm1(a * dt) / a), "NaN"),
    ("zoh", lambda a, b, dt: zoh_with()(a, b, dt) if a else (1.0, 0.0), "just adds up"),
    ("zoh", naive, "loses its digits"),
    ("zoh", naive_float32, "loses its digits"),
    ("zoh", crude(0.1), "Euler's bΔ"),
    ("zoh", crude(2e-3), "Euler's bΔ"),
    ("zoh", crude(2e-5), "Euler's bΔ"),
    (
        "zoh",
        lambda a, b, dt: zoh_with(multiplier=math.exp if a == 0 or abs(a) > 1e-9 else abs)(
            a, b, dt
        ),
        "multiplier should be 0.9999999999",
    ),
    ("zoh", lambda a, b, dt: np.ones((3, 2)), "Return two things together"),
    ("zoh", lambda a, b, dt: [[1.0], [1.0, 2.0]], "should have shape"),
    ("zoh", lambda a, b, dt: ("a", "b"), "array of numbers"),
    ("zoh", lambda a, b, dt: math.exp(a * dt), "Return two things together"),
    ("zoh", lambda a, b, dt: None, "return statement"),
    (
        "zoh",
        lambda a, b, dt: zoh_with(lambda z: math.exp(-abs(z)))(a, b, dt),
        "sign of a must enter",
    ),
    ("zoh", crude(1e-4), "too early"),
    ("zoh", crude(1e-5), "too early"),
    ("zoh", crude(1e-6), "too early"),
    ("zoh", crude(1e-7), "too early"),
    ("two_steps", lambda A, B: (A * A, A @ B + B), "squares each entry"),
    ("two_steps", lambda A, B: (2 * A, A @ B + B), "do not double the multiplier"),
    ("two_steps", lambda A, B: (A, A @ B + B), "multiplied by Ā twice"),
    ("two_steps", lambda A, B: (A @ A, 2 * B), "already been multiplied"),
    ("two_steps", lambda A, B: (A @ A, B), "Only the second"),
    ("two_steps", lambda A, B: (A @ A, A @ B), "Only the first"),
    ("two_steps", lambda A, B: (A @ A, A @ A @ B + B), "once, not twice"),
    ("two_steps", lambda A, B: (A @ A, A @ A @ B + A @ B), "a step too old"),
    ("two_steps", lambda A, B: (A @ A, 0 * B), "the new B̄ is not"),
    ("two_steps", lambda A, B: (A @ A, 2 * A @ B), "the second is new"),
    ("kernel", lambda a, b, c, T: kernel_loop(a, a * b, c, T), "starts with ā¹"),
    ("kernel", lambda a, b, c, T: kernel_loop(a, b, c, T)[::-1], "reverse order"),
    ("kernel", lambda a, b, c, T: kernel_loop(a, b, 1, T), "readout c is missing"),
    ("kernel", lambda a, b, c, T: kernel_loop(a, 1, c, T), "write b̄ is missing"),
    ("kernel", lambda a, b, c, T: kernel_loop(a, 1, 1 + 0 * c, T), "bare powers"),
    ("kernel", lambda a, b, c, T: np.cumsum(kernel_loop(a, b, c, T)), "added up"),
    ("kernel", lambda a, b, c, T: c.sum() * np.array(kernel_loop(a, b, 1, T)), "its own c"),
    ("kernel", lambda a, b, c, T: np.zeros(T), "numbers are not"),
    ("kernel", lambda a, b, c, T: a ** np.arange(T)[:, None] * b * c, "one kernel for each mode"),
    ("kernel", lambda a, b, c, T: [sum(c * a * k * b) for k in range(T)], "to the power k"),
    ("kernel", lambda a, b, c, T: [sum(c * np.exp(a * k) * b) for k in range(T)], "without exp"),
    ("convolve", lambda K, x: np.fft.irfft(np.fft.rfft(K) * np.fft.rfft(x), len(x)), "wraps round"),
    ("convolve", lambda K, x: np.convolve(K, x), "one output a token"),
    ("convolve", lambda K, x: np.fft.ifft(np.fft.fft(K) * np.fft.fft(x)), "complex"),
    ("convolve", lambda K, x: np.convolve(K, x)[len(x) - 1 :], "last T entries"),
    ("convolve", lambda K, x: np.correlate(x, K, "full")[len(x) - 1 :], "later tokens"),
    ("convolve", lambda K, x: [[1.0], [1.0, 2.0]], "array of numbers"),
    ("convolve", lambda K, x: "abc", "array of numbers"),
    ("convolve", lambda K, x: [torch.ones(2, requires_grad=True)] * 5, "array of numbers"),
    ("convolve", lambda K, x: K * x, "entry by entry"),
    ("convolve", lambda K, x: 0 * x, "numbers are not"),
    ("convolve", lambda K, x: None, "return statement"),
    ("convolve", lambda K, x: np.convolve(K[::-1], x)[: len(x)], "kernel is reversed"),
    ("convolve", lambda K, x: np.convolve(K, x[::-1])[: len(x)], "sequence is reversed"),
    ("convolve", lambda K, x: np.cumsum(K * x), "a sum of its own"),
    ("compose", lambda f, g: (f[0] @ g[0], g[0] @ f[1] + g[1]), "order is turned round"),
    ("compose", lambda f, g: (f[0] * g[0], g[0] @ f[1] + g[1]), "use @"),
    ("compose", lambda f, g: (f[0] + g[0], f[1] + g[1]), "not the product"),
    ("compose", lambda f, g: (g[0] @ f[0], f[1] + g[1]), "passes through"),
    ("compose", lambda f, g: (g[0] @ f[0], f[0] @ g[1] + f[1]), "order is turned round"),
    ("compose", lambda f, g: (g[0] @ f[0], g[0] @ f[1]), "second write is missing"),
    ("compose", lambda f, g: (g[0] @ f[0], g[1]), "first write is missing"),
    ("compose", lambda f, g: (g[0] @ f[0], g[0] @ (f[1] + g[1])), "not multiplied"),
    ("compose", lambda f, g: (g[0] @ f[0], 0 * g[1]), "the vector is not"),
    ("compose", lambda f, g: (g[0] @ f[0], f[0] @ f[1] + g[1]), "not its own"),
    ("compose", lambda f, g: (g[0] @ f[0], f[1] @ g[0] + g[1]), "from the left"),
    ("late_peak", ([0.9, 0.7], [1.0, 1.0]), "largest at lag 0"),
    (
        "late_peak",
        ([0.9, 0.2], [1.0, -1.0]),
        "lag 2. For a peak at 5 make one of the decays slower",
    ),
    ("late_peak", ([0.99, 0.9], [1.0, -1.0]), "make one of the decays faster"),
    ("late_peak", ([1.0, 0.5], [1.0, -1.0]), "strictly between 0 and 1"),
    ("late_peak", ([0.9, -0.7], [1.0, -1.0]), "strictly between 0 and 1"),
    ("late_peak", ([0.9, 0.7], [-1.0, -1.0]), "never above zero"),
    ("late_peak", ([0.9, 0.7], [1.0, -1.05]), "never be negative"),
    ("late_peak", ([0.9 + 0.1j, 0.7], [1.0, -1.0]), "complex"),
    ("late_peak", ([0.9, 0.7, 0.5], [1.0, -1.0, 1.0]), "should have shape"),
    ("late_peak", ([0.9, 0.7], [0.0, 0.0]), "never above zero"),
    ("late_peak", ([0.8, 0.5], [1.0, -0.64]), "occurs twice"),
    ("late_peak", 0.9, "two things"),
    ("late_peak", ([[0.9], [0.7, 1.0]], [1.0, -1.0]), "array of numbers"),
    ("late_peak", ("slow", "fast"), "array of numbers"),
    ("late_peak", ([0.9, 0.7], [1e-13, -1.05e-13]), "never be negative"),
    ("late_peak", np.ones((2, 3)), "should have shape"),
]
