"""The figures of the chapter on cost show what their captions say."""

import numpy as np
import pytest
import scipy.special
from matplotlib.figure import Figure

from book_utils import efficient_attention as ea
from book_utils.plots import attention_cost as figures
from book_utils.plots import style

LENGTHS = [64, 128, 256, 512]


def test_slopes_of_powers():
    np.testing.assert_allclose(figures.slopes(LENGTHS, np.array(LENGTHS) ** 2.0), 2)


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (0, "", "0"), (640, "", "640"), (99_999, "", "99999"), (1.07e14, "", "1.07·10¹⁴"),
        (512, "B", "512 B"), (3_981_312_000, "B", "3.98 GB"), (1e6, "B", "1 MB"),
    ],
)  # fmt: skip
def test_short_numbers(amount, unit, text):
    assert figures.short(amount, unit) == text


def test_lengths_are_written_in_binary_thousands():
    assert [figures.length(T) for T in (512, 1024, 65536, 108_000)] == [
        "512",
        "1K",
        "64K",
        "108000",
    ]


def test_time_by_length_draws_the_times_and_names_the_slopes():
    seconds = {"a": 1e-6 * np.array(LENGTHS) ** 2.0, "b": 1e-4 * np.array(LENGTHS)}
    figure = figures.time_by_length(lengths=LENGTHS, seconds=seconds)
    assert figure.get_size_inches()[0] == style.WIDTH
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), 1e3 * seconds["a"])
    caption = figures.describe_time_by_length(lengths=LENGTHS, seconds=seconds)
    assert "a 2.0 at the short end and 2.0 at the long end" in caption
    assert "b 1.0" in caption


def test_online_softmax_ends_at_the_softmax():
    rng = np.random.default_rng(0)
    scores, values = 10 * rng.normal(size=20), rng.normal(size=20)
    m, total, readout = figures._running(scores, values)
    for n in (1, 7, 20):
        expected = scipy.special.softmax(scores[:n]) @ values[:n]
        assert readout[n - 1] == pytest.approx(expected)
        assert m[n - 1] + np.log(total[n - 1]) == pytest.approx(scipy.special.logsumexp(scores[:n]))
    assert isinstance(figures.online_softmax(scores=scores, values=values), Figure)
    caption = figures.describe_online_softmax(scores=scores, values=values)
    assert f"ends at {readout[-1]:.2f}" in caption


def test_peak_memory_rounds_coarsely():
    peaks = {"dense": [1e6, 4.1e6], "tiled": [2e5, 3.8e5]}
    figure = figures.peak_memory(lengths=[512, 1024], peaks=peaks)
    assert len(figure.axes[0].lines) == 2
    caption = figures.describe_peak_memory(lengths=[512, 1024], peaks=peaks)
    assert "dense grows 4-fold over the last doubling, to 4 MB" in caption
    assert "tiled grows 2-fold" in caption


def test_time_by_history_gives_ratios():
    seconds = {"query": [1e-5, 4e-4], "step": [2e-5, 2e-5]}
    assert isinstance(figures.time_by_history(lengths=[256, 1024], seconds=seconds), Figure)
    caption = figures.describe_time_by_history(lengths=[256, 1024], seconds=seconds)
    assert "query takes 40.0 times as long" in caption
    assert "step takes 1.0 times" in caption


def test_longest_in_time_judges_by_the_quantile():
    seconds = np.full((3, 20), 0.01)
    seconds[1, :2] = 0.3  # a slow tail
    seconds[2] = 0.2
    assert figures.longest_in_time([10, 20, 30], seconds, 0.5) == 20
    assert figures.longest_in_time([10, 20, 30], seconds, 0.95) == 10
    assert figures.longest_in_time([10, 20], seconds[:1], 0.95) == 10
    assert figures.longest_in_time([30], seconds[2:], 0.5) == 0


def test_deadline_names_both():
    lengths, seconds = {"pass": [10, 20]}, {"pass": np.array([[0.01] * 20, [0.2] * 20])}
    figure = figures.deadline(lengths=lengths, seconds=seconds)
    assert any(np.allclose(line.get_ydata(), 100) for line in figure.axes[0].lines)
    assert "pass: 10 by the median, 10 by the 95th" in figures.describe_deadline(
        lengths=lengths, seconds=seconds
    )


@pytest.mark.parametrize(("window", "layers"), [(2, 1), (4, 2), (8, 4)])
def test_reach_colours_the_receptive_field(window, layers):
    figure = figures.reach(window=window, layers=layers)
    drawn = np.asarray(figure.axes[0].images[0].get_array())
    field = ea.receptive_field(window, layers)
    assert (drawn[-1] > 0).sum() == min(field, figures.REACH_T)
    assert drawn.max() == min(layers, drawn.max())
    assert (np.diag(drawn) == 1).all()
    assert f"the last {field}," in figures.describe_reach(window=window, layers=layers)


def test_compression_marks_the_means():
    errors = {"a": {"x": [0.1, 0.3], "y": [0.9, 1.1]}, "b": {"x": [0.5, 0.5], "y": [0.2, 0.2]}}
    figure = figures.compression(errors=errors)
    means = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() in "os"]
    np.testing.assert_allclose(sorted(means), [0.2, 0.2, 0.5, 1.0])
    caption = figures.describe_compression(errors=errors)
    assert "for x and for y" in caption
    assert "a 0.2 and 1; b 0.5 and 0.2" in caption


def test_costs_are_the_counted_ones():
    found = figures.costs(108_000)
    assert found["arithmetic"]["dense"] == 144 * 128 * 108_000 * 108_001 // 2
    assert found["carried"]["dense"] == 3_981_312_000
    assert found["carried"]["recurrence"] == 12 * 768 * 16 * 2
    assert found["scores"]["tiled"] < found["scores"]["dense"] / 1000
    assert (
        figures.costs(512)["arithmetic"]["window 1024"] == figures.costs(512)["arithmetic"]["dense"]
    )


@pytest.mark.parametrize("T", [128, 108_000, 864_000])
def test_cost_draws_each_amount_within_the_axes(T):
    figure = figures.cost(T=T)
    for ax, amounts in zip(figure.axes, figures.costs(T).values(), strict=True):
        drawn = [bar.get_width() for bar in ax.patches]
        assert drawn == [amount for amount in amounts.values() if amount]
        assert ax.get_xlim()[0] < min(drawn)
        assert max(drawn) < ax.get_xlim()[1]
    assert "60 minutes at 30 Hz" in figures.describe_cost(T=108_000)
    assert "4.27 seconds" in figures.describe_cost(T=128)
