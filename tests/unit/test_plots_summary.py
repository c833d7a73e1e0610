"""The figure of the last chapter shows what its caption says."""

import numpy as np
import pytest

from book_utils.plots import summary as figures

LAG = np.array([1.0, 10.0, 100.0, 1000.0])
CURVES = {"cliff": np.array([1.0, 1.0, 0.0, 0.0]), "flat": np.array([0.9, 0.8, 0.7, 0.6])}


def test_a_line_for_each_memory_as_given():
    lines = figures.forgetting(LAG, CURVES).axes[0].lines
    assert [line.get_label() for line in lines] == list(CURVES)
    for line, share in zip(lines, CURVES.values(), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), LAG)
        np.testing.assert_array_equal(line.get_ydata(), share)
    looks = {(line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == len(lines), "told apart by colour alone"


def test_the_caption_says_when_half_is_lost():
    caption = figures.describe_forgetting(LAG, CURVES)
    assert "cliff: after 100 tokens" in caption
    assert "flat: not in this picture" in caption


def test_one_token_is_not_several():
    assert "now: after 1 token;" in figures.describe_forgetting(LAG, {"now": LAG * 0, **CURVES})


@pytest.mark.parametrize("name", CURVES)
def test_every_memory_is_named(name):
    assert name in figures.describe_forgetting(LAG, CURVES)
