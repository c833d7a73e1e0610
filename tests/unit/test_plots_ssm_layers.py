"""The figures of the chapter on structured and selective recurrences show what their captions say."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from book_utils import hippo, structured
from book_utils.plots import ssm_layers as figures


def lines(figure: Figure, panel: int) -> dict:
    """The lines of a panel by their label."""
    return {line.get_label(): line for line in figure.axes[panel].lines}


@pytest.mark.parametrize("measure", figures.MEASURES)
@pytest.mark.parametrize("N", [2, 16])
def test_hippo_memory_draws_the_signal_and_the_reading(N, measure):
    figure = figures.hippo_memory(N, measure)
    drawn = lines(figure, 0)
    f = figures.signal()
    np.testing.assert_array_equal(drawn["what happened"].get_ydata(), f)
    read = drawn[f"read from {N} numbers"].get_ydata()
    middle = (np.arange(len(f)) + 0.5) / len(f)
    if measure == figures.MEASURES[0]:
        expected = hippo.legs_basis(N, middle) @ hippo.legs_states(f, N)[-1]
        np.testing.assert_allclose(read, expected, atol=1e-12)
    recent = math.sqrt(((read - f)[-30:] ** 2).mean())
    assert f"by {recent:.2f} m over the last 30" in figures.describe_hippo_memory(N, measure)


def test_more_numbers_remember_more_and_lagt_prefers_the_recent():
    old = [figures.hippo_errors(N, figures.MEASURES[0])[0] for N in figures.SIZES]
    assert (np.diff(old) < 0).all()
    old, recent = figures.hippo_errors(16, figures.MEASURES[1])
    assert old > 5 * recent


def test_warped_basis_draws_both_rulers():
    figure = figures.warped_basis()
    bottom = lines(figure, 1)["$c_1$"]
    age = -bottom.get_xdata()
    expected = math.sqrt(3) * (2 * np.exp(-age) - 1) * np.exp(-age)
    np.testing.assert_allclose(bottom.get_ydata(), expected, atol=1e-12)
    top = lines(figure, 0)["$c_0$"]
    np.testing.assert_allclose(top.get_ydata(), 1)
    assert "0.05" in figures.describe_warped_basis()


def test_s4d_frequencies():
    figure = figures.s4d_frequencies(8)
    drawn = lines(figure, 0)
    inv = np.sort(structured.s4d_poles(8, "inv").imag)
    np.testing.assert_allclose(drawn["S4D-Inv"].get_ydata(), inv)
    assert np.isnan(drawn["S4D-Lin"].get_ydata()[0])  # frequency 0 has no place on a log axis
    words = figures.describe_s4d_frequencies(8)
    assert f"{inv.max():.0f} for S4D-Inv" in words
    assert "22 for S4D-Lin" in words  # 7π


@pytest.mark.parametrize(("mug", "dust"), [(3.0, 0.001), (0.5, 0.5), (0.001, 3.0)])
def test_selection_is_the_gated_average(mug, dust):
    of_mug, of_dust = figures.shares(mug, dust)
    gate = 1 - math.exp(-mug)
    lag = np.arange(figures.DUST_TOKENS - figures.MUG)
    np.testing.assert_allclose(of_mug[figures.MUG :], gate * np.exp(-dust * lag), rtol=1e-12)
    assert (of_mug[: figures.MUG] == 0).all()
    assert abs(of_dust).max() <= 1
    figure = figures.selection(mug, dust)
    np.testing.assert_array_equal(lines(figure, 0)["of the mug"].get_ydata(), of_mug)
    assert f"written with {gate:.3f}" in figures.describe_selection(mug, dust)


def test_write_errors_draws_medians_and_says_them():
    sizes = [0.1, 1.0, 10.0]
    raw = np.array([[0.1, 0.5, 2.0], [0.2, 0.6, 4.0], [0.3, 0.7, 6.0]])
    given = {"sizes": sizes, "raw": raw, "steady": 0 * raw, "varying": raw / 10}
    figure = figures.write_errors(**given)
    np.testing.assert_allclose(lines(figure, 0)["as they are"].get_ydata(), [0.2, 0.6, 4.0])
    assert "0.2 at |a|Δ = 0.1, 0.6 at |a|Δ = 1, 4 at |a|Δ = 10" in figures.describe_write_errors(
        **given
    )
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert any("off the chart" in text for text in texts)
    given["steady"] = raw
    assert not figures.write_errors(**given).axes[0].texts


def copying_parts(selective, fixed):
    lengths = [6, 12, 24]
    return {
        "lengths": lengths,
        "trained": 12,
        "accuracy": {"fixed": np.full((2, 3), fixed), "selective": np.full((2, 3), selective)},
        "tokens": np.array([0, 3, 0, 5]),
        "steps": np.array([0.1, 1.0, 0.2, 0.5]),
    }


def test_copying_draws_every_seed_and_the_steps():
    parts = copying_parts(1.0, 0.6)
    figure = figures.copying(**parts)
    curves = [line.get_ydata() for line in figure.axes[0].lines if len(line.get_ydata()) == 3]
    assert len(curves) == 4
    heights = sorted(bar.get_height() for bar in figure.axes[1].patches)
    assert heights == [0.1, 0.2, 0.5, 1.0]
    words = figures.describe_copying(**parts)
    assert "every seed above 90 %: selective" in words
    assert "below 80 %: fixed" in words
    none = figures.describe_copying(**copying_parts(0.85, 0.85))
    assert none.count("none") == 2


@pytest.mark.parametrize("d_k", [8, 64])
def test_capacity_follows_the_square_root(d_k):
    errors, right = figures.capacity(d_k)
    n = np.array(figures.KEYS)
    np.testing.assert_allclose(errors, np.sqrt((n - 1) / d_k), rtol=0.12, atol=1e-9)
    assert (np.diff(right) <= 0.03).all()
    assert right[0] == 1


def test_associative_says_what_it_draws():
    figure = figures.associative(16, 16)
    errors, right = figures.capacity(16)
    drawn = lines(figure, 1)
    np.testing.assert_array_equal(drawn["error"].get_ydata(), errors)
    words = figures.describe_associative(16, 16)
    assert "0.97" in words  # √(15/16)
    assert f"{100 * right[5]:.0f} %" in words
    one = figures.associative(1, 16).axes[0].patches
    np.testing.assert_allclose([bar.get_height() for bar in one[:8]],
                               [bar.get_height() for bar in one[8:]], atol=1e-12)  # fmt: skip


def test_reach_marks_what_is_heard():
    changes = {"a": np.array([False, False, True, True]), "b": np.array([True] * 4)}
    figure = figures.reach(changes=changes, block=2)
    squares = [line for line in figure.axes[0].lines if line.get_marker() == "s"]
    np.testing.assert_array_equal(squares[0].get_xdata(), [1, 0])
    assert "a: 1; b: 3" in figures.describe_reach(changes=changes, block=2)
