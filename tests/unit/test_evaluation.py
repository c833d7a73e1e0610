"""Scores: alignment, rollouts against a slow rewrite, profiles of attention, baselines."""

import functools

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import kalman
from book_utils.evaluation import (
    AR,
    Forecaster,
    attention_by_lag,
    fit_ar,
    fit_by_position,
    last_value_forecast,
    mean_forecast,
    open_loop_mse,
    open_loop_rollout,
    paired_bootstrap,
    pooled_attention_by_lag,
    pooled_uniform_baseline,
    teacher_forced_mse,
)
from book_utils.models import CausalTransformer, DiagonalSSM
from book_utils.systems import LinearGaussianSystem

PROPERTY = settings(deadline=None, max_examples=30, derandomize=True)
SYSTEM = LinearGaussianSystem()
EXACT = functools.partial(kalman.predict, SYSTEM)
DRAWN = SYSTEM.simulate(4_000, 32, 7)
TOKENS, TARGETS = DRAWN.tokens, DRAWN.targets


def spoiled(model, seed=0):
    rng, model = np.random.default_rng(seed), model.double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.from_numpy(0.2 * rng.normal(size=tuple(p.shape))))
    return model


MODELS = {
    "transformer": lambda seed: spoiled(CausalTransformer(seed=seed), seed),
    "ssm": lambda seed: spoiled(DiagonalSSM(seed=seed), seed),
}
makers = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


# -------------------------------------------------------------------------------- teacher forcing


def test_mse_by_hand():
    forecasts, targets = np.array([[1.0, 2.0], [0.0, 0.0]]), np.array([[0.0, 2.0], [1.0, 3.0]])
    error = teacher_forced_mse(forecasts, targets)
    np.testing.assert_allclose(error.by_position, [1.0, 4.5])
    assert error.pooled == pytest.approx(2.75)
    stacked = teacher_forced_mse(np.stack([forecasts, targets]), targets)
    np.testing.assert_allclose(stacked.by_position, [[1.0, 4.5], [0.0, 0.0]])
    np.testing.assert_allclose(stacked.pooled, [2.75, 0.0])


def test_a_shifted_target_is_noticed():
    exact = teacher_forced_mse(EXACT(TOKENS), TARGETS).pooled
    assert exact == pytest.approx(kalman.one_step_variances(SYSTEM, 32).mean(), rel=0.03)
    early = teacher_forced_mse(EXACT(TOKENS), TOKENS[..., 0]).pooled  # y_t in place of y_{t+1}
    assert early > 5 * exact
    # A "forecaster" that is handed its target as the token has no error: the off-by-one leak.
    leaked = teacher_forced_mse(last_value_forecast(TOKENS[:, 1:]), TARGETS[:, :-1]).pooled
    assert leaked == 0.0


def test_nothing_beats_the_exact_forecast():
    # Paired: the difference of squared errors on the same trajectories has a standard error.
    exact = ((EXACT(TOKENS) - TARGETS) ** 2).mean(axis=1)
    rivals = [
        fit_ar(TOKENS[:2000], TARGETS[:2000], 16),
        fit_by_position(TOKENS[:2000], TARGETS[:2000]),
        last_value_forecast,
    ]
    for rival in rivals:
        excess = ((rival(TOKENS[2000:]) - TARGETS[2000:]) ** 2).mean(axis=1) - exact[2000:]
        assert excess.mean() > -3 * excess.std() / np.sqrt(len(excess))


# --------------------------------------------------------------------------------------- rollouts


def slow_rollout(predict, tokens, warm):
    """One trajectory at a time, lists of tokens, nothing shared with the function under test."""
    result = []
    for trajectory in tokens:
        seen = [(0.0, trajectory[0, 1])]
        seen += [(trajectory[t, 0], trajectory[t, 1]) for t in range(1, warm + 1)]
        forecasts = []
        while len(forecasts) < len(trajectory) - warm:
            y = float(predict(np.array([seen]))[..., 0, -1].squeeze())
            forecasts.append(y)
            if len(seen) < len(trajectory):
                seen.append((y, trajectory[len(seen), 1]))
        result.append(forecasts)
    return np.array(result)


@makers
@pytest.mark.parametrize("warm", [0, 1, 5, 31])
def test_rollout_equals_a_slow_rewrite(make, warm):
    predict = Forecaster([make(3)])
    fast = open_loop_rollout(predict, TOKENS[None, :3], warm)[0]
    np.testing.assert_allclose(fast, slow_rollout(predict, TOKENS[:3], warm), rtol=1e-9, atol=1e-10)


def test_rollout_of_the_ssm_equals_its_own_recurrence():
    model = MODELS["ssm"](1)
    with torch.no_grad():
        x = torch.from_numpy(TOKENS[:4])
        h, forecasts = torch.zeros(4, 32, dtype=torch.float64), []
        for t in range(32):
            token = x[:, t] if t <= 1 else torch.stack([forecasts[-1], x[:, t, 1]], -1)
            h, y = model.step(h, token)
            forecasts.append(y)
    expected = torch.stack(forecasts[1:], 1).numpy()
    rolled = open_loop_rollout(Forecaster([model]), TOKENS[None, :4], 1)[0]
    np.testing.assert_allclose(rolled, expected, rtol=1e-9, atol=1e-10)


def test_rollout_keeps_positions():
    # A model that forecasts its own position: shifting the window would repeat or skip numbers.
    def position(tokens):
        return np.broadcast_to(np.arange(tokens.shape[-2], dtype=float), tokens.shape[:-1])

    rolled = open_loop_rollout(position, TOKENS[:2], 3)
    np.testing.assert_array_equal(rolled, np.tile(np.arange(3, 32), (2, 1)))


def test_rollout_feeds_back_forecasts_and_known_controls():
    seen = []

    def count(tokens):
        seen.append(tokens.copy())
        return np.full(tokens.shape[:-1], float(tokens.shape[-2]))

    open_loop_rollout(count, TOKENS[:1, :6], 1)
    last = seen[-1][0]
    np.testing.assert_array_equal(last[:2], TOKENS[0, :2])  # the marker and one true reading
    np.testing.assert_array_equal(last[2:, 0], [2.0, 3.0, 4.0, 5.0])  # its own forecasts
    np.testing.assert_array_equal(last[:, 1], TOKENS[0, :6, 1])  # the true controls
    assert [s.shape[1] for s in seen] == [2, 3, 4, 5, 6]


@makers
def test_rollout_never_looks_at_later_observations(make):
    predict, changed = Forecaster([make(0)]), TOKENS[:5].copy()
    changed[:, 4:, 0] = 1e3
    np.testing.assert_array_equal(
        open_loop_rollout(predict, changed[None], 3),
        open_loop_rollout(predict, TOKENS[None, :5], 3),
    )


def test_first_horizon_is_the_one_step_forecast():
    rolled = open_loop_rollout(EXACT, TOKENS[:9], 4)
    np.testing.assert_allclose(rolled[:, 0], EXACT(TOKENS[:9])[:, 4], atol=1e-12)


def test_open_loop_mse_scores_the_right_slots():
    for warm in (1, 8):
        rolled = open_loop_rollout(EXACT, TOKENS, warm)
        measured = open_loop_mse(rolled, TARGETS)
        assert measured.shape == (32 - warm,)
        floor = kalman.open_loop_variances(SYSTEM, 32, warm)
        assert abs(measured / floor - 1).max() < 5 * np.sqrt(2 / len(TARGETS))
    perfect = TARGETS[:, 3:]
    np.testing.assert_array_equal(open_loop_mse(perfect, TARGETS), np.zeros(29))


def test_forecaster_is_its_models():
    models = [MODELS["transformer"](s) for s in range(2)]
    predict = Forecaster(models, chunk=3)
    with torch.no_grad():
        own = np.stack([m(torch.from_numpy(TOKENS[:7])).numpy() for m in models])
    np.testing.assert_allclose(predict(TOKENS[:7]), own, rtol=1e-9, atol=1e-10)
    each = np.stack([TOKENS[:7], TOKENS[7:14]])
    np.testing.assert_allclose(predict(each)[0], own[0], rtol=1e-9, atol=1e-10)
    assert predict.size == 2
    before = predict(TOKENS[:2])
    with torch.no_grad():
        models[0].head.bias.add_(1.0)  # later training does not change a finished forecaster
    np.testing.assert_array_equal(predict(TOKENS[:2]), before)


# ------------------------------------------------------------------------------- attention by lag


def random_attention(seed, shape):
    rng, L = np.random.default_rng(seed), shape[-1]
    weights = np.tril(rng.exponential(size=shape)) + 1e-3 * np.eye(L)
    return weights / weights.sum(axis=-1, keepdims=True)


@PROPERTY
@given(st.integers(1, 20), st.integers(0, 100))
def test_profile_of_the_final_query_sums_to_one(L, seed):
    weights = random_attention(seed, (3, 2, L, L))
    profile = attention_by_lag(weights)
    assert profile.shape == (L,)
    assert profile.sum() == pytest.approx(1.0, abs=1e-12)
    assert profile[0] == pytest.approx(weights[..., -1, -1].mean())
    assert profile[-1] == pytest.approx(weights[..., -1, 0].mean())


def test_profile_by_hand():
    weights = np.array([[1.0, 0, 0], [0.5, 0.5, 0], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(attention_by_lag(weights), [0.7, 0.2, 0.1])
    pooled = [(1.0 + 0.5 + 0.7) / 3, (0.5 + 0.2) / 2, 0.1]
    np.testing.assert_allclose(pooled_attention_by_lag(weights), pooled)


@PROPERTY
@given(st.integers(1, 64))
def test_pooled_uniform_attention_is_the_harmonic_formula(L):
    uniform = np.tril(np.ones((L, L))) / np.arange(1, L + 1)[:, None]
    baseline = pooled_uniform_baseline(L)
    np.testing.assert_allclose(pooled_attention_by_lag(uniform), baseline, rtol=1e-12)
    H = [sum(1 / j for j in range(1, m + 1)) for m in range(L + 1)]
    np.testing.assert_allclose(baseline, [(H[L] - H[k]) / (L - k) for k in range(L)], rtol=1e-12)
    np.testing.assert_allclose(attention_by_lag(uniform), np.full(L, 1 / L), rtol=1e-12)
    assert (np.diff(baseline) < 0).all()  # falls with lag, though nothing was learned


def test_pooled_baseline_of_the_experiment():
    baseline = pooled_uniform_baseline(32)
    np.testing.assert_allclose(baseline[:3], [0.1268, 0.0987, 0.0853], atol=5e-5)
    assert baseline[-1] == pytest.approx(1 / 32)
    assert baseline.sum() == pytest.approx(1.61, abs=0.005)


def test_models_attention_is_accepted():
    model = MODELS["transformer"](0)
    with torch.no_grad():
        _, weights = model(torch.from_numpy(TOKENS[:9]), return_weights=True)
    assert attention_by_lag(weights.numpy()).sum() == pytest.approx(1.0)
    single = model.float()(torch.tensor(TOKENS[:9], dtype=torch.float32), return_weights=True)[1]
    assert attention_by_lag(single.detach().numpy()).sum() == pytest.approx(1.0, abs=1e-5)


# -------------------------------------------------------------------------------------- baselines


def test_simple_forecasts():
    np.testing.assert_array_equal(mean_forecast(TOKENS[:3]), np.zeros((3, 32)))
    np.testing.assert_array_equal(last_value_forecast(TOKENS[:3]), TOKENS[:3, :, 0])


def test_ar_recovers_its_own_coefficients():
    rng = np.random.default_rng(0)
    coefficients = np.array([[0.5, 1.0], [-0.3, 0.2], [0.1, -0.4]])
    tokens, y = np.zeros((50, 20, 2)), np.zeros((50, 21))
    tokens[..., 1] = rng.normal(size=(50, 20))
    for t in range(20):
        for k in range(min(3, t + 1)):
            y[:, t + 1] += (
                coefficients[k, 0] * y[:, t - k] + coefficients[k, 1] * tokens[:, t - k, 1]
            )
        if t + 1 < 20:
            tokens[:, t + 1, 0] = y[:, t + 1]
    fitted = fit_ar(tokens, y[:, 1:], 3)
    np.testing.assert_allclose(fitted.coefficients, coefficients, atol=1e-10)
    np.testing.assert_allclose(fitted(tokens), y[:, 1:], atol=1e-10)
    longer = fit_ar(tokens, y[:, 1:], 4)
    np.testing.assert_allclose(longer(tokens), y[:, 1:], atol=1e-8)


def test_ar_alignment_by_hand():
    model = AR(np.array([[10.0, 1.0], [1000.0, 100.0]]))
    tokens = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    # newest first; nothing before token 0
    np.testing.assert_allclose(model(tokens), [1.0, 20 + 3 + 100, 40 + 5 + 2000 + 300])


def test_plain_ar_ignores_controls():
    fitted = fit_ar(TOKENS[:500], TARGETS[:500], 4, controls=False)
    assert (fitted.coefficients[:, 1] == 0).all()
    changed = TOKENS[:5].copy()
    changed[..., 1] = 3.0
    np.testing.assert_array_equal(fitted(changed), fitted(TOKENS[:5]))
    with_controls = fit_ar(TOKENS[:500], TARGETS[:500], 4)
    worse = teacher_forced_mse(fitted(TOKENS), TARGETS).pooled
    assert worse > 2 * teacher_forced_mse(with_controls(TOKENS), TARGETS).pooled


def test_ratios_of_the_experiment():
    exact = teacher_forced_mse(EXACT(TOKENS), TARGETS).pooled
    train = SYSTEM.simulate(2048, 32, 8)
    for rival, ratio, tolerance in (
        (last_value_forecast, 8.9, 0.2),
        (fit_ar(train.tokens, train.targets, 2), 2.37, 0.04),
        (fit_ar(train.tokens, train.targets, 16), 1.047, 0.01),
        (fit_by_position(train.tokens, train.targets), 1.014, 0.01),
    ):
        measured = teacher_forced_mse(rival(TOKENS), TARGETS).pooled / exact
        assert measured == pytest.approx(ratio, abs=tolerance)


def test_regression_by_position_learns_the_filter():
    fitted = fit_by_position(TOKENS, TARGETS)
    weights = kalman.token_weights(SYSTEM, 32)[::-1].ravel()  # oldest token first
    np.testing.assert_allclose(fitted.coefficients[31][1:], weights[1:], atol=0.06)
    assert fitted(TOKENS[:3, :9]).shape == (3, 9)
    np.testing.assert_allclose(fitted(TOKENS[:3])[:, :9], fitted(TOKENS[:3, :9]))


def test_linear_forecasts_are_causal():
    fitted = [fit_ar(TOKENS[:300], TARGETS[:300], 8), fit_by_position(TOKENS[:300], TARGETS[:300])]
    for model in fitted:
        before, changed = model(TOKENS[:2]), TOKENS[:2].copy()
        changed[:, 11:] += 9.0
        after = model(changed)
        np.testing.assert_array_equal(after[:, :11], before[:, :11])
        assert (after[:, 11] != before[:, 11]).all()


def test_tensors_are_scored_without_their_gradients():
    forecasts = torch.tensor(TARGETS[:3, :4] + 1, requires_grad=True)
    assert teacher_forced_mse(forecasts, torch.tensor(TARGETS[:3, :4])).pooled == pytest.approx(1)
    rows = torch.tensor(random_attention(0, (2, 5, 5)), requires_grad=True)
    np.testing.assert_array_equal(attention_by_lag(rows), attention_by_lag(rows.detach().numpy()))
    model = MODELS["ssm"](0)

    def predict(tokens):
        return model(torch.from_numpy(tokens))  # keeps its graph

    tokens = torch.tensor(TOKENS[:2, :5], requires_grad=True)
    np.testing.assert_allclose(
        open_loop_rollout(predict, tokens),
        open_loop_rollout(Forecaster([model]), TOKENS[:2, :5]),
        rtol=1e-9,
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rows_have_a_profile(dtype):
    rows = random_attention(1, (3, 40, 40))
    half = attention_by_lag(torch.tensor(rows).to(dtype))
    np.testing.assert_allclose(half, attention_by_lag(rows), rtol=0.01)
    if dtype == torch.float16:
        np.testing.assert_allclose(attention_by_lag(np.float16(rows)), half, atol=1e-3)


# -------------------------------------------------------------------------------------- bad input

SMALL, AIMS = TOKENS[:4, :6], TARGETS[:4, :6]
UNIFORM = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: teacher_forced_mse(AIMS, AIMS[0]), ValueError, "targets"),
        (lambda: teacher_forced_mse(AIMS[:, 1:], AIMS), ValueError, "forecasts must have"),
        (lambda: teacher_forced_mse(AIMS * np.nan, AIMS), ValueError, "forecasts must be finite"),
        (lambda: teacher_forced_mse(AIMS, AIMS * np.inf), ValueError, "targets must be finite"),
        (lambda: teacher_forced_mse(AIMS * 1j, AIMS), TypeError, "forecasts must hold real"),
        (lambda: teacher_forced_mse(AIMS, AIMS + 0j), TypeError, "targets must hold real"),
        (lambda: teacher_forced_mse(AIMS[:0], AIMS[:0]), ValueError, "N, T ≥ 1"),
        (lambda: teacher_forced_mse(AIMS[:, :0], AIMS[:, :0]), ValueError, "N, T ≥ 1"),
        (lambda: open_loop_mse(AIMS[:0], AIMS[:0]), ValueError, "N, T ≥ 1"),
        (lambda: open_loop_mse(AIMS[0], AIMS), ValueError, "forecasts must have"),
        (lambda: open_loop_mse(TARGETS[:4, :7], AIMS), ValueError, "H ≤ T"),
        (lambda: open_loop_mse(AIMS[:, :0], AIMS), ValueError, "H ≤ T"),
        (lambda: open_loop_rollout(EXACT, SMALL, 6), ValueError, "warm must be below"),
        (lambda: open_loop_rollout(EXACT, SMALL, -1), ValueError, "warm must be at least 0"),
        (lambda: open_loop_rollout(EXACT, SMALL * np.nan), ValueError, "tokens must be finite"),
        (lambda: open_loop_rollout(EXACT, SMALL.astype(int)), TypeError, "floating-point"),
        (
            lambda: open_loop_rollout(lambda x: x[..., 0] * np.nan, SMALL),
            ValueError,
            "the forecasts of predict must be finite",
        ),
        (
            lambda: open_loop_rollout(lambda x: x[:, -1, 0], SMALL),
            ValueError,
            r"predict must return forecasts of shape \(4, 2\), got \(4,\)",
        ),
        (lambda: open_loop_rollout(lambda x: 1.0, SMALL), ValueError, "predict must return"),
        (lambda: open_loop_rollout(lambda x: x, SMALL), ValueError, "predict must return"),
        (
            lambda: open_loop_rollout(Forecaster([DiagonalSSM()] * 2), SMALL),
            ValueError,
            r"got \(2, 4, 2\)",
        ),
        (lambda: attention_by_lag(UNIFORM[None][:0]), ValueError, "no empty axis"),
        (lambda: attention_by_lag(UNIFORM + 0j), TypeError, "weights must hold real"),
        (lambda: attention_by_lag(np.float16(1.1 * UNIFORM)), ValueError, "causal rows"),
        (lambda: attention_by_lag(UNIFORM[:2]), ValueError, "weights must have shape"),
        (lambda: attention_by_lag(UNIFORM.T), ValueError, "causal rows"),
        (lambda: attention_by_lag(2 * UNIFORM), ValueError, "causal rows"),
        (lambda: pooled_attention_by_lag(np.full((2, 2), np.nan)), ValueError, "finite"),
        (lambda: pooled_uniform_baseline(0), ValueError, "L must be at least 1"),
        (lambda: mean_forecast(np.zeros(3)), ValueError, "tokens must have shape"),
        (lambda: last_value_forecast(np.zeros((3, 4))), ValueError, "tokens must have shape"),
        (lambda: fit_ar(SMALL, AIMS, 0), ValueError, "order must be at least 1"),
        (lambda: fit_ar(SMALL, AIMS, 7), ValueError, "order must be at most"),
        (lambda: fit_ar(SMALL[:0], AIMS[:0], 2), ValueError, "N ≥ 1"),
        (lambda: fit_ar(SMALL, AIMS + 0j, 2), TypeError, "targets must hold real"),
        (lambda: fit_by_position(SMALL[:0], AIMS[:0]), ValueError, "N ≥ 1"),
        (lambda: fit_ar(SMALL, AIMS[:, 1:], 2), ValueError, "targets"),
        (lambda: fit_ar(SMALL, AIMS, 2)(AIMS), ValueError, "tokens must have shape"),
        (lambda: fit_by_position(SMALL[0], AIMS[0]), ValueError, "tokens must have shape"),
        (lambda: fit_by_position(SMALL, AIMS)(TOKENS), ValueError, "6 were fitted"),
        (lambda: Forecaster([]), ValueError, "at least one model"),
        (
            lambda: Forecaster([CausalTransformer(heads=h) for h in (1, 4)]),
            ValueError,
            "with the same settings",
        ),
        (
            lambda: Forecaster([CausalTransformer(T_max=1)])(SMALL),
            ValueError,
            "tokens are 6 long, but the model has only 1 slots",
        ),
        (
            lambda: Forecaster([DiagonalSSM()])(1e300 * SMALL),
            ValueError,
            "tokens in torch.float32 must be finite",
        ),
        (
            lambda: Forecaster([MODELS["ssm"](0).float()])(np.full((1, 9, 2), 3e38)),
            ValueError,
            "forecasts must be finite",
        ),
        (lambda: Forecaster([DiagonalSSM()], chunk=0), ValueError, "chunk"),
        (lambda: Forecaster([DiagonalSSM()])(SMALL[0]), ValueError, "tokens must have shape"),
        (lambda: Forecaster([DiagonalSSM()])(SMALL[None].repeat(2, 0)), ValueError, "tokens must"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_bootstrap_of_learners_that_differ_by_a_constant():
    errors = np.random.default_rng(0).normal(size=(5, 40)) ** 2
    found = paired_bootstrap(errors + 0.25, errors)
    assert (found.value, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))


def test_bootstrap_interval_has_the_width_of_the_two_way_variance():
    # d_si = a_s + b_i: the mean of a resample varies by var(a)/S + var(b)/N.
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(12, 1)), rng.normal(size=(1, 300)) * 2
    found = paired_bootstrap(a + b, np.zeros((12, 300)), 2, resamples=4000)
    deviation = np.sqrt(a.var() / 12 + b.var() / 300)
    assert found.value == pytest.approx(a.mean() + b.mean())
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * deviation, rel=0.06)


def test_bootstrap_is_paired_and_agrees_with_scipy_where_the_seeds_agree():
    rng = np.random.default_rng(3)
    hard = rng.normal(size=200) ** 2 * 10  # what is hard for one is hard for the other
    first, second = hard + rng.normal(size=200) * 0.1, hard
    ours = paired_bootstrap(np.tile(first, (2, 1)), np.tile(second, (2, 1)), 4, resamples=4000)
    theirs = scipy.stats.bootstrap(
        (first - second,), np.mean, method="percentile", n_resamples=4000, rng=5
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=2e-3)
    assert ours.high == pytest.approx(theirs.high, abs=2e-3)
    swapped = paired_bootstrap(np.tile(second, (2, 1)), np.tile(first, (2, 1)), 4, resamples=4000)
    assert (swapped.low, swapped.high) == pytest.approx((-ours.high, -ours.low))


def test_bootstrap_level_and_seed():
    errors = np.random.default_rng(0).normal(size=(2, 4, 30)) ** 2
    narrow = paired_bootstrap(*errors, 7, level=0.5)
    wide = paired_bootstrap(*errors, 7, level=0.99)
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
    assert narrow == paired_bootstrap(*errors, 7, level=0.5)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((np.ones((3, 4)), np.ones((3, 5))), {}, r"shape \(S, N\)"),
        ((np.ones(4), np.ones(4)), {}, r"shape \(S, N\)"),
        ((np.ones((1, 4)), np.ones((1, 4))), {}, "S, N ≥ 2"),
        ((np.full((2, 4), np.nan), np.ones((2, 4))), {}, "first"),
        ((np.ones((2, 4)), np.ones((2, 4))), {"level": 1.0}, "level"),
        ((np.ones((2, 4)), np.ones((2, 4))), {"resamples": 0}, "resamples"),
    ],
)
def test_bootstrap_refuses(args, options, message):
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(*args, **options)
