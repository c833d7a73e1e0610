"""The figures of the chapter on learning from trajectories show what their captions say."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from book_utils import rollouts
from book_utils.plots import style
from book_utils.plots import training_on_trajectories as figures


def test_token_layouts_hatch_the_leaking_ones_only():
    figure = figures.token_layouts()
    assert figure.get_size_inches()[0] == style.WIDTH
    hatched = [sum(p.get_hatch() is not None for p in ax.patches) for ax in figure.axes]
    assert hatched == [3, 0, 0]
    assert "leaks" in figures.describe_token_layouts()


def test_leak_errors_name_what_is_below_the_floor():
    errors = {"paired": [1e-4, 2e-4], "shifted": [0.251, 0.259]}
    figure = figures.leak_errors(errors=errors, floor=0.25)
    points = [line for line in figure.axes[0].lines if line.get_marker() in "os"]
    np.testing.assert_allclose(points[0].get_xdata(), errors["paired"])
    caption = figures.describe_leak_errors(errors=errors, floor=0.25)
    assert "paired below a hundredth" in caption
    assert "shifted at most 5 % above" in caption


def test_twin_rollouts_end_where_the_caption_says():
    paths = {"truth": [1.0, 0.5], "lively": [1.0, 2.0], "sluggish": [1.0, 0.1]}
    figure = figures.twin_rollouts(**paths)
    assert [line.get_ydata()[-1] for line in figure.axes[0].lines] == [0.5, 2.0, 0.1]
    assert "After 1 steps the true value is 0.5" in figures.describe_twin_rollouts(**paths)


@pytest.mark.parametrize("gain", [-0.9, 0.0, 0.9, 1.0, 1.1])
@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_error_growth_draws_the_formula_and_simulations_agree(gain, bias):
    figure = figures.error_growth(gain=gain, bias=bias, horizon=32)
    lines = figure.axes[0].lines
    expected = np.hypot(rollouts.rms_error(gain, 0.1, 32), rollouts.bias_error(gain, bias, 32))
    np.testing.assert_allclose(lines[0].get_ydata(), expected)
    dots = next(line for line in lines if line.get_marker() == "o")
    at = dots.get_xdata().astype(int)
    np.testing.assert_allclose(dots.get_ydata(), expected[at - 1], rtol=0.12)
    caption = figures.describe_error_growth(gain=gain, bias=bias, horizon=32)
    assert f"RMS error of {expected[-1]:.3g}" in caption


def test_error_growth_says_where_it_tends():
    assert "level off at 0.229 and 0.2" in figures.describe_error_growth(
        gain=0.9, bias=0.02, horizon=8
    )
    assert "√H" in figures.describe_error_growth(gain=1.0, bias=0.0, horizon=8)
    assert "factor 1.1" in figures.describe_error_growth(gain=1.1, bias=0.0, horizon=8)


def test_beyond_scalars_marks_the_peak():
    gain = [[0.9, 1.0], [0.0, 0.9]]
    figure = figures.beyond_scalars(gain=gain, horizon=60)
    peak = next(line for line in figure.axes[0].lines if line.get_marker() == "o")
    assert peak.get_ydata()[0] == pytest.approx(3.91, abs=0.005)
    caption = figures.describe_beyond_scalars(gain=gain, horizon=60)
    assert "up to 3.91 times, after 9 steps" in caption
    assert "0.57 if" in caption
    assert "1.57 if" in caption


def test_exploited_model_reads_promise_and_outcome_at_the_choice():
    speeds = np.linspace(0, 3, 31)
    scene = dict(
        speeds=speeds, logged=[0.5, 1.0], outcomes=[0.2, 1.0], truth=np.where(speeds < 1.5, 1, -1),
        forecast=speeds**2, chosen=3.0,
    )  # fmt: skip
    assert isinstance(figures.exploited_model(**scene), Figure)
    assert "promises about 9 and the truth is -1" in figures.describe_exploited_model(**scene)


def test_merged_histories_name_the_step_of_the_drop():
    rates = {"belief": [0.9] * 6, "window": [0.9] * 3 + [0.5] * 3}
    figure = figures.merged_histories(**rates)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), rates["belief"])
    assert "from step 3 on" in figures.describe_merged_histories(**rates)


def test_confounded_log_has_the_slopes_in_the_figure():
    rng = np.random.default_rng(0)
    for strength in (0.0, 0.8, 1.6):
        seen, done = figures._slopes(strength)
        speed, spill = figures.confounded_log(strength, 100_000, rng)
        assert speed @ spill / (speed @ speed) == pytest.approx(seen, abs=0.02)
        speed, spill = figures.confounded_log(strength, 100_000, rng, randomised=True)
        assert speed @ spill / (speed @ speed) == pytest.approx(done, abs=0.02)
        assert speed.var() == pytest.approx(strength**2 + 0.25, rel=0.02)


def test_confounding_says_whether_the_slopes_agree():
    assert "They agree" in figures.describe_confounding(strength=0.0)
    assert "wrong one" in figures.describe_confounding(strength=0.1)
    assert "Not even the sign" in figures.describe_confounding(strength=0.8)
    legend = figures.confounding(strength=0.8).axes[0].get_legend()
    assert "-0.40" in legend.get_texts()[0].get_text()


def test_error_by_horizon_draws_the_mean_over_seeds():
    errors = {"a": np.array([[0.1, 0.4], [0.3, 0.8]]), "b": np.full((2, 2), 0.2)}
    figure = figures.error_by_horizon(errors=errors, floor=np.array([0.02, 0.05]))
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), [0.2, 0.6])
    caption = figures.describe_error_by_horizon(errors=errors, floor=np.array([0.02, 0.05]))
    assert "a 0.20 and 0.6; b 0.20 and 0.2; the floor 0.02 and 0.05" in caption
