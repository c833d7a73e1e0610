"""The experiment's figures draw what they are given and say what they draw."""

import functools
import time

import numpy as np
import pytest
from matplotlib.figure import Figure

from book_utils import kalman
from book_utils.evaluation import pooled_uniform_baseline
from book_utils.plots import experiment as figures
from book_utils.systems import LinearGaussianSystem

SYSTEM = LinearGaussianSystem()
DRAWN = SYSTEM.simulate(4, 12, 0)
MEAN, VARIANCE = kalman.open_loop(SYSTEM, DRAWN.tokens, 1)
TRUTH = DRAWN.observations[:, 2:]
FLOOR = kalman.one_step_variances(SYSTEM, 12)
RUNS = {"transformer": np.stack([1.2 * FLOOR, 1.4 * FLOOR]), "SSM": np.stack([1.1 * FLOOR] * 3)}
ROLLOUT = {
    "truth": TRUTH,
    "forecasts": {"transformer": TRUTH + 0.5, "SSM": MEAN},
    "mean": MEAN,
    "variance": VARIANCE,
}


def labelled(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


def test_trajectory():
    figure = figures.trajectory(states=DRAWN.states[0], observations=DRAWN.observations[0])
    hidden, seen = figure.axes
    np.testing.assert_array_equal(hidden.lines[0].get_ydata(), DRAWN.states[0, :, 0])
    np.testing.assert_array_equal(seen.lines[0].get_ydata(), DRAWN.observations[0, 1:])
    caption = figures.describe_trajectory(
        states=DRAWN.states[0], observations=DRAWN.observations[0]
    )
    assert "12 transitions" in caption
    assert f"{DRAWN.observations[0, 1:].max():.1f}." in caption


def test_error_by_position_shows_means_and_floor():
    settings = {"floor": FLOOR, "curves": RUNS, "noise": 0.01}
    axes = figures.error_by_position(**settings).axes[0]
    np.testing.assert_allclose(labelled(axes, "transformer").get_ydata(), 1.3 * FLOOR)
    np.testing.assert_allclose(labelled(axes, "exact floor").get_ydata(), FLOOR)
    caption = figures.describe_error_by_position(**settings)
    assert "transformer 1.30, SSM 1.10" in caption
    assert "falls from 0.118" in caption


def test_learning_rates_name_the_best():
    settings = {
        "rates": [0.001, 0.01, 0.1],
        "ratios": {"SSM": [[1.5, 1.2, 1.3], [1.7, 1.4, 1.3]]},
        "common": 0.01,
    }
    axes = figures.learning_rates(**settings).axes[0]
    np.testing.assert_allclose(labelled(axes, "SSM").get_ydata(), [1.6, 1.3, 1.3])
    caption = figures.describe_learning_rates(**settings)
    assert "SSM: best at 0.01 with 1.30 times the exact error, 1.60 at 0.001." in caption
    settings["ratios"] = {"SSM": [[1.5, 1.2, 1.1]]}
    caption = figures.describe_learning_rates(**settings)
    assert "best at 0.1 with 1.10 times the exact error, 1.20 at the common rate 0.01" in caption


def test_ratios_draw_every_seed():
    scores = {"mean": 70.2, "transformer": [1.2, 1.3], "SSM": [1.05, 1.07, 1.09]}
    axes = figures.ratios(scores=scores).axes[0]
    assert [len(line.get_xdata()) for line in axes.lines[:3]] == [1, 2, 3]
    assert "mean 70, transformer 1.25, SSM 1.07" in figures.describe_ratios(scores=scores)


def test_open_loop_error():
    floor = kalman.open_loop_variances(SYSTEM, 12, 1)
    settings = {
        "floor": floor,
        "curves": {"transformer": np.stack([floor, 1.5 * floor])},
        "pooled": {"transformer": 0.03},
    }
    axes = figures.open_loop_error(**settings).axes[0]
    np.testing.assert_allclose(labelled(axes, "transformer").get_ydata(), 1.25 * floor)
    np.testing.assert_array_equal(labelled(axes, "transformer").get_xdata(), np.arange(1, 12))
    caption = figures.describe_open_loop_error(**settings)
    assert "transformer 1.25" in caption
    assert "from 0.031 one step ahead to 0.102 at horizon 5" in caption


@pytest.mark.parametrize("horizon", [1, 5, 11])
@pytest.mark.parametrize("trajectory", [1, 4])
def test_rollout_draws_up_to_the_horizon(horizon, trajectory):
    axes = figures.rollout(horizon, trajectory, **ROLLOUT).axes[0]
    shown = labelled(axes, "transformer")
    np.testing.assert_array_equal(shown.get_xdata(), np.arange(2, 2 + horizon))
    np.testing.assert_allclose(shown.get_ydata(), TRUTH[trajectory - 1, :horizon] + 0.5)
    np.testing.assert_allclose(
        labelled(axes, "what happened").get_ydata(), TRUTH[trajectory - 1, :horizon]
    )
    caption = figures.describe_rollout(horizon, trajectory, **ROLLOUT)
    assert "transformer 0.50" in caption
    error = np.sqrt(np.mean((MEAN - TRUTH)[trajectory - 1, :horizon] ** 2))
    assert f"SSM {error:.2f}, exact forecast {error:.2f}" in caption


def test_the_band_is_two_sided_95_percent():
    far = {**ROLLOUT, "truth": MEAN + 2.1 * np.sqrt(VARIANCE)}
    near = {**ROLLOUT, "truth": MEAN - 1.9 * np.sqrt(VARIANCE)}
    assert "holds 0 of 7" in figures.describe_rollout(7, 2, **far)
    assert "holds 7 of 7" in figures.describe_rollout(7, 2, **near)


def test_a_redraw_is_quick_enough_for_a_slider():
    draw = functools.partial(figures.rollout, **ROLLOUT)
    draw(5, 1).savefig("/dev/null", format="png", dpi=72)
    best = min(_seconds(draw) for _ in range(5))
    assert best < 0.4  # about 0.05 s on an idle machine; a redraw that computes would take longer


def _seconds(draw):
    start = time.perf_counter()
    draw(8, 2)
    return time.perf_counter() - start


def test_attention_by_lag():
    final = np.stack([np.full(32, 1 / 32), np.linspace(2, 0, 32) / 32])
    baseline = pooled_uniform_baseline(32)
    settings = {"final": final, "pooled": baseline[None] * 1.5, "pooled_uniform": baseline}
    figure = figures.attention_by_lag(**settings)
    top, bottom = figure.axes
    heights = [bar.get_height() for bar in top.patches]
    np.testing.assert_allclose(heights, final.mean(axis=0)[:8])
    np.testing.assert_allclose(top.lines[-1].get_ydata(), np.full(8, 1 / 32))
    np.testing.assert_allclose(bottom.lines[-1].get_ydata(), baseline[:8])
    caption = figures.describe_attention_by_lag(**settings)
    assert "0.19, 0.15, 0.13, but there uniform attention itself reads 0.13, 0.10, 0.09" in caption
    assert f"hold {final.mean(axis=0)[:8].sum():.2f}" in caption


def test_filter_weights():
    weights = kalman.token_weights(SYSTEM, 32)[:, 0]
    axes = figures.filter_weights(weights=weights).axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], weights[:12])
    caption = figures.describe_filter_weights(weights=weights)
    assert "begin 0.50, 0.22, 0.05, turn negative at lag 3" in caption
    assert "lowest at lag 5 with -0.083" in caption
    assert "never turn negative" in figures.describe_filter_weights(weights=[0.5, 0.2])


def test_predictor_locus():
    assert "0.671 ± 0.185i" in figures.describe_predictor_locus(0.05)
    assert "0.673 and 0.405, both real" in figures.describe_predictor_locus(0.1)
    assert isinstance(figures.predictor_locus(0.1), Figure)


BAD = [
    (figures.trajectory, {"states": np.zeros((3, 1)), "observations": np.zeros(3)}, "states must"),
    (figures.trajectory, {"states": np.zeros((3, 2)), "observations": np.zeros(4)}, "states must"),
    (
        figures.error_by_position,
        {"floor": FLOOR, "curves": {"SSM": FLOOR}, "noise": 0.01},
        r"curves\['SSM'\] must have shape \(seeds, 12\)",
    ),
    (
        figures.open_loop_error,
        {"floor": FLOOR, "curves": {"SSM": np.zeros((2, 3))}, "pooled": {}},
        r"must have shape \(seeds, 12\)",
    ),
    (figures.rollout, {"horizon": 12, "trajectory": 1, **ROLLOUT}, "horizon must be at most 11"),
    (figures.rollout, {"horizon": 0, "trajectory": 1, **ROLLOUT}, "horizon must be at least 1"),
    (figures.rollout, {"horizon": 3, "trajectory": 5, **ROLLOUT}, "trajectory must be at most 4"),
    (
        figures.describe_rollout,
        {"horizon": 3, "trajectory": 1, **ROLLOUT, "variance": VARIANCE[1:]},
        "truth and mean must have shape",
    ),
    (
        figures.rollout,
        {"horizon": 3, "trajectory": 1, **ROLLOUT, "forecasts": {"SSM": MEAN[:2]}},
        r"forecasts\['SSM'\] must have shape \(4, 11\)",
    ),
    (
        figures.attention_by_lag,
        {"final": np.zeros(8), "pooled": np.zeros((2, 8)), "pooled_uniform": np.zeros(8)},
        "final must have shape",
    ),
    (figures.predictor_locus, {"q": -1.0}, "process_std must not be negative"),
]


@pytest.mark.parametrize(("function", "settings", "message"), BAD)
def test_bad_input(function, settings, message):
    with pytest.raises(ValueError, match=message):
        function(**settings)


AFTER = {
    "floors": {w: kalman.open_loop_variances(SYSTEM, 12, w) for w in (1, 8)},
    "curves": {
        w: {"SSM": np.stack([k * kalman.open_loop_variances(SYSTEM, 12, w) for k in (1.0, 1.2)])}
        for w in (1, 8)
    },
}


@pytest.mark.parametrize("warm", [1, 8])
def test_open_loop_after(warm):
    axes = figures.open_loop_after(warm, **AFTER).axes[0]
    floor = AFTER["floors"][warm]
    np.testing.assert_array_equal(labelled(axes, "exact floor").get_ydata(), floor)
    np.testing.assert_allclose(labelled(axes, "SSM").get_ydata(), 1.1 * floor)
    assert axes.get_xlim() == (0, 12)
    caption = figures.describe_open_loop_after(warm, **AFTER)
    assert "SSM 1.10" in caption
    assert f"{floor[0]:.3f} one step ahead" in caption
    assert f"last horizon, {12 - warm}." in caption


def test_open_loop_after_refuses_a_start_that_was_not_computed():
    with pytest.raises(ValueError, match=r"warm must be one of \[1, 8\], got 2"):
        figures.open_loop_after(2, **AFTER)


EFFECTS = {
    "attention": [[0.5, 0.3, 0.2], [0.3, 0.3, 0.4]],
    "effects": {
        "a zero": {"exact filter": [[0.8, 0.4, 0.2]], "SSM": [[1.0, 0.3, 0.1], [1.2, 0.3, 0.1]]},
        "another's": {"exact filter": [[0.9, 0.5, 0.3]], "SSM": [[1.3, 0.4, 0.2]]},
    },
}


@pytest.mark.parametrize("lag", [0, 2])
def test_intervention_points_at_a_lag(lag):
    looks, does = figures.intervention(lag, **EFFECTS).axes
    np.testing.assert_allclose(labelled(does, "exact filter").get_ydata(), [0.9, 0.5, 0.3])
    assert all(lag in line.get_xdata() for line in (looks.lines[-1], does.lines[-1]))
    caption = figures.describe_intervention(lag, **EFFECTS)
    weight, zero = {0: ("0.400", "1.100"), 2: ("0.300", "0.100")}[lag]
    assert f"weight there is {weight}" in caption
    assert f"SSM {zero}. another's" in caption


@pytest.mark.parametrize("lag", [-1, 3])
def test_intervention_refuses_other_lags(lag):
    with pytest.raises(ValueError, match="lag must be from 0 to 2"):
        figures.describe_intervention(lag, **EFFECTS)


def test_noise_sweep():
    settings = {
        "noises": [0.02, 0.1],
        "ratios": {"SSM": [[1.2, 1.0], [1.4, 1.1]]},
        "turn": 0.0813,
    }
    axes = figures.noise_sweep(**settings).axes[0]
    np.testing.assert_allclose(labelled(axes, "SSM").get_ydata(), [1.3, 1.05])
    caption = figures.describe_noise_sweep(**settings)
    assert "SSM 1.30 and 1.05" in caption
    assert "real above q = 0.081" in caption
