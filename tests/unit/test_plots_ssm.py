"""The figures of the chapter on discretization show what their captions say."""

import math

import numpy as np
import pytest
import scipy.signal
from matplotlib.figure import Figure

from book_utils.plots import ssm as figures


def lines(figure: Figure, panel: int, marker: str) -> list[np.ndarray]:
    """The y-values of every line in a panel that is drawn with `marker`."""
    return [line.get_ydata() for line in figure.axes[panel].lines if line.get_marker() == marker]


def spring() -> dict:
    A, B = np.array([[0.0, 1.0], [-4.0, -0.4]]), np.array([[0.0], [4.0]])
    x, dt = np.array([1.0, 1.0, 0.0, -0.5, 0.5])[:, None], 0.6
    A_bar, B_bar, *_ = scipy.signal.cont2discrete((A, B, np.eye(2), np.zeros((2, 1))), dt)
    h, samples = np.zeros(2), []
    for held in x:
        h = A_bar @ h + B_bar @ held
        samples.append(h[0])
    return {"A": A, "B": B, "x": x, "dt": dt, "samples": np.array(samples)}


def test_held_tokens_puts_the_samples_on_the_curve():
    given = spring()
    figure = figures.held_tokens(**given)
    np.testing.assert_array_equal(lines(figure, 1, "o")[0], given["samples"])
    curve = figure.axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(curve[40::40], given["samples"], atol=1e-10)
    assert "every dot lies on the curve" in figures.describe_held_tokens(**given)
    given["samples"] = given["samples"] + 0.25
    assert "the largest gap is 0.25" in figures.describe_held_tokens(**given)


def test_index_convention_shows_the_same_numbers_one_token_apart():
    figure = figures.index_convention()
    here, there = lines(figure, 0, "o")[0], lines(figure, 0, "s")[0]
    write = (1 - math.exp(-0.5)) / 0.5
    np.testing.assert_allclose(here, write * np.exp(-0.5 * np.arange(7)), rtol=1e-12)
    np.testing.assert_array_equal(there, [0, *here[:-1]])
    assert "reads 0.79, 0.48, 0.29" in figures.describe_index_convention()


@pytest.mark.parametrize("mode", figures.MODES)
@pytest.mark.parametrize("dt", [0.01, 1.0, 10.0])
def test_step_size_draws_the_response_and_the_multiplier(mode, dt):
    figure = figures.step_size(dt, mode)
    a_bar = np.exp(figures.MODES[mode] * dt)
    x = np.r_[np.ones(12), np.zeros(28)]
    expected = scipy.signal.lfilter([1 - a_bar], [1, -a_bar], x).real
    np.testing.assert_allclose(lines(figure, 0, "o")[0], expected, atol=1e-12)
    (pole,) = (line for line in figure.axes[1].lines if line.get_marker() == "X")
    assert complex(pole.get_xdata()[0], pole.get_ydata()[0]) == pytest.approx(a_bar)
    words = figures.describe_step_size(dt, mode)
    assert f"|ā| = {abs(a_bar):.3f}" in words
    assert f"|b̄| = {abs(1 - a_bar):.3f}" in words
    assert f"{math.log(2) / -figures.MODES[mode].real:.3g} s at any Δ" in words


@pytest.mark.parametrize(
    ("dt", "fate"), [(0.5, "dies out"), (1.9, "dies out"), (2.0, "never"), (2.5, "blows up")]
)
def test_decay_by_rule(dt, fate):
    figure = figures.decay_by_rule(dt)
    k = np.arange(math.floor(12 / dt + 1e-9) + 1)
    for marker, multiplier in (
        ("o", math.exp(-dt)),
        ("s", (1 - dt / 2) / (1 + dt / 2)),
        ("^", 1 - dt),
    ):
        expected = multiplier**k
        drawn = lines(figure, 0, marker)[0]
        np.testing.assert_allclose(drawn, expected[abs(expected) <= 2.5], atol=1e-12)
    assert fate in figures.describe_decay_by_rule(dt)


@pytest.mark.parametrize("steps", [1, 8, 100])
def test_rule_errors_are_those_of_the_closed_forms(steps):
    dt, exact = 1 / steps, 1 - math.exp(-1)
    by_hand = {
        "Euler": abs(1 - (1 - dt) ** steps - exact),
        "Mamba's ΔB": abs(exact * dt / (1 - math.exp(-dt)) - exact),
        "bilinear": abs(1 - ((1 - dt / 2) / (1 + dt / 2)) ** steps - exact),
        "exact": 0.0,
    }
    for rule in figures.ERROR_RULES:
        assert figures.rule_error(rule, steps) == pytest.approx(by_hand[rule], abs=1e-14)


def test_rule_errors_figure_names_the_orders():
    texts = [text.get_text() for text in figures.rule_errors().axes[0].texts]
    assert {"Euler: order 1", "Mamba's ΔB: order 1", "bilinear: order 2"} <= set(texts)
    assert "Euler 0.024 (halving the step divides it by 2)" in figures.describe_rule_errors()
    with pytest.raises(ValueError, match="rule must be one of"):
        figures.rule_error("Runge", 3)


def test_warping_is_the_angle_of_the_bilinear_multiplier():
    omega = np.array([0.5, 1.0, 2.0, 3.0])
    angle = np.angle((1 + 0.5j * omega) / (1 - 0.5j * omega))
    line = figures.frequency_warping().axes[0].lines[1]
    np.testing.assert_allclose(np.interp(omega, *line.get_data()), angle, atol=1e-4)
    for w, a in zip(omega, angle, strict=True):
        assert f"{a:.2f} instead of {w:g}" in figures.describe_frequency_warping()


def test_write_errors_show_the_cancellation():
    errors = figures.write_errors(np.array([-1e-8, -1e-6, -0.5], np.float32))
    naive, careful = errors["(exp(z) − 1)/z"], errors["expm1(z)/z"]
    assert naive[0] == 1
    assert naive[1] > 1e-3
    assert naive[2] < 1e-6
    assert max(careful) < 3e-7
    slope = figures.write_errors(-np.geomspace(1e-7, 1e-6, 20))["gradient of expm1(z)/z"]
    assert max(slope) > 0.01
    assert len(figures.cancellation().axes[0].lines) == 4
    assert "exactly 0" in figures.describe_cancellation()


def test_mode_shapes_are_the_closed_forms():
    k = np.arange(41)
    figure = figures.mode_shapes()
    np.testing.assert_allclose(lines(figure, 0, "o")[0], 0.9**k, atol=1e-13)
    np.testing.assert_allclose(lines(figure, 0, "s")[0], 0.95**k * np.cos(0.4 * k), atol=1e-13)
    assert "changes sign 5 times" in figures.describe_mode_shapes()


def test_jordan_limit_is_approached_from_below():
    curves = [line.get_ydata() for line in figures.jordan_limit().axes[0].lines]
    t = np.linspace(0, 8, 161)
    np.testing.assert_allclose(curves[0], t * np.exp(-t))
    np.testing.assert_allclose(curves[1], np.exp(-t) - np.exp(-2 * t), atol=1e-15)
    assert (np.diff([curve[20] for curve in curves[1:]]) > 0).all()
    assert "0.250 at ε = 1" in figures.describe_jordan_limit()


@pytest.mark.parametrize("layer", figures.LAYERS)
@pytest.mark.parametrize("dt", [0.02, 0.3, 4.0])
def test_kernel_by_step_is_the_sum_of_its_modes(layer, dt):
    a, weight = figures.LAYERS[layer]
    k = np.arange(48)
    expected = sum(
        w * (np.exp(p * dt) - 1) / p * np.exp(p * dt * k) for p, w in zip(a, weight, strict=True)
    )
    drawn = lines(figures.kernel_by_step(dt, layer), 0, "o")[0]
    np.testing.assert_allclose(drawn, expected.real, atol=1e-12)
    envelope = figures.kernel_by_step(dt, layer).axes[0].lines[0].get_ydata()
    assert (abs(drawn) <= envelope + 1e-12).all()
    words = figures.describe_kernel_by_step(dt, layer)
    assert f"starts at {drawn[0]:.3f}" in words
    assert f"{drawn[np.argmax(abs(drawn))]:.3f}, at lag" in words


def test_a_difference_of_decays_peaks_late():
    assert "at lag 9." in figures.describe_kernel_by_step(0.2, "difference of two")


def test_wraparound_shows_the_circular_convolution():
    kernel, x = 0.9 ** np.arange(40), np.zeros(40)
    x[30] = 1.0
    figure = figures.wraparound(kernel=kernel, x=x)
    right, wrong = lines(figure, 1, "o")[0], lines(figure, 1, "s")[0]
    np.testing.assert_allclose(right, np.convolve(kernel, x)[:40], atol=1e-12)
    np.testing.assert_allclose(wrong[:30], kernel[10:], atol=1e-12)
    words = figures.describe_wraparound(kernel=kernel, x=x)
    assert "comes at t = 31" in words
    assert f"returns {0.9**10:.2f} at t = 1" in words


@pytest.mark.parametrize(("T", "levels", "work"), [(2, 1, 1), (8, 3, 17), (13, 4, 37), (16, 4, 49)])
def test_doubling_names_what_each_circle_has_composed(T, levels, work):
    names = [text.get_text() for text in figures.doubling(T).axes[0].texts]
    assert len(names) == T * (levels + 1)
    assert names[-T:] == ["1"] + [f"1–{t}" for t in range(2, T + 1)]
    assert len(figures.doubling(T).axes[0].patches) == work
    assert f"{levels} levels, {work} compositions" in figures.describe_doubling(T)


def test_timings_draw_a_line_a_route():
    given = {"lengths": [10, 1000], "seconds": {"loop": [0.123, 0.456], "chunks": [0.1, 0.2]}}
    figure = figures.timings(**given)
    np.testing.assert_array_equal(lines(figure, 0, "o")[0], [0.123, 0.456])
    np.testing.assert_array_equal(lines(figure, 0, "s")[0], [0.1, 0.2])
    words = figures.describe_timings(**given)
    assert "1 000 tokens: loop 460 ms, chunks 200 ms." in words


def test_stored_timings_are_complete():
    assert len(lines(figures.timings(), 0, "^")[0]) == len(figures.LENGTHS)
    assert all(len(times) == len(figures.LENGTHS) for times in figures.MEASURED.values())
