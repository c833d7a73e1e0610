"""The figures of the red-object chapter show what their captions say."""

import numpy as np
import pytest
import scipy.special
from matplotlib.figure import Figure

from book_utils.plots import red_object as figures


@pytest.mark.parametrize("query", figures.QUERIES)
def test_lookup_bars_are_the_softmax(query):
    figure = figures.lookup(query)
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    expected = scipy.special.softmax(figures.QUERIES[query] / np.sqrt(3))
    np.testing.assert_allclose(heights, expected)
    assert f"{expected @ figures.VALUES:.2f}" in figures.describe_lookup(query)


def test_margin_marks_the_chosen_point():
    figure = figures.margin(2.0, 10)
    points = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert len(points) == 1
    x, y = points[0].get_data()
    assert (x[0], y[0]) == (2.0, pytest.approx(np.exp(2) / (np.exp(2) + 9)))
    assert "weight 0.451" in figures.describe_margin(2.0, 10)


def test_age_describes_the_cliff():
    assert "weight 0.99" in figures.describe_age(31)
    assert "weight 0, since the token has left the window" in figures.describe_age(32)
    assert "0.9 keeps 0.185" in figures.describe_age(16)
    assert isinstance(figures.age(32), Figure)


def test_learning_draws_a_line_a_seed():
    figure = figures.learning(np.linspace(0, 1, 20).reshape(2, 10), by_hand=0.47)
    assert len(figure.axes[0].lines) == 3  # two seeds and the hand-set level


def test_learning_is_described_by_its_slowest_and_worst_seed():
    curves = np.array([np.linspace(0.33, 0.999, 200), np.linspace(0.33, 0.961, 200)])
    caption = figures.describe_learning(curves, by_hand=0.47)
    assert "from 2 random starts" in caption
    assert "within 60 steps" in caption
    assert "below 0.04" in caption


def test_one_step_and_tiny_shares_read_well():
    assert "seen 1 step ago" in figures.describe_age(1)
    assert "0.5 keeps less than 0.001" in figures.describe_age(16)
