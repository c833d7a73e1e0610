"""The exact filter against filterpy, brute-force Gaussian conditioning and its own statistics."""

import functools

import numpy as np
import pytest
from filterpy.kalman import KalmanFilter
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import kalman
from book_utils.systems import LinearGaussianSystem

PROPERTY = settings(deadline=None, max_examples=25, derandomize=True)
T = 32


@pytest.fixture(scope="module")
def system():
    return LinearGaussianSystem()


@pytest.fixture(scope="module")
def drawn(system):
    return system.simulate(6, T, 0)


def joint_gaussian(system, u):
    """Mean and covariance of (y_1, …, y_T) given the controls, from the definition alone.

    Every observation is a linear map of the independent draws s_0, w_0 … w_{T-1}, v_1 … v_T.
    """
    n, T = system.n, len(u)
    state = np.zeros((n, n + n * T + T))
    state[:, :n] = system.initial_std * np.eye(n)
    mean, means, rows = np.zeros(n), [], []
    for t in range(T):
        mean = system.A @ mean + system.B * u[t]
        state = system.A @ state
        state[:, n + n * t : n + n * (t + 1)] += system.process_std * np.eye(n)
        row = system.C @ state
        row[n + n * T + t] += system.observation_std
        means.append(system.C @ mean)
        rows.append(row)
    loadings = np.array(rows)
    return np.array(means), loadings @ loadings.T


def condition(mean, covariance, y, seen):
    """Mean and covariance of what comes after the first `seen` observations, given them."""
    past, future = slice(0, seen), slice(seen, None)
    gain = np.linalg.solve(covariance[past, past], covariance[past, future]).T
    m = mean[future] + gain @ (y[past] - mean[past])
    return m, covariance[future, future] - gain @ covariance[past, future]


def random_system(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    A = rng.normal(size=(n, n))
    A *= rng.uniform(0.3, 1.05) / abs(np.linalg.eigvals(A)).max()
    q, r, p0 = rng.uniform(0, 1), rng.uniform(0.05, 1), rng.uniform(0, 2)
    return LinearGaussianSystem(A, rng.normal(size=n), rng.normal(size=n), q, r, p0)


@PROPERTY
@given(st.integers(0, 10_000))
def test_one_step_forecasts_equal_gaussian_conditioning(seed):
    system = random_system(seed)
    drawn = system.simulate(1, 10, seed)
    mean, covariance = joint_gaussian(system, drawn.controls[0])
    forecasts = kalman.predict(system, drawn.tokens)[0]
    variances = kalman.one_step_variances(system, 10)
    for t in range(10):  # the forecast at token t has seen y_1 … y_t
        m, c = condition(mean, covariance, drawn.targets[0], t)
        assert forecasts[t] == pytest.approx(m[0], rel=1e-9, abs=1e-9)
        assert variances[t] == pytest.approx(c[0, 0], rel=1e-9, abs=1e-9)


@PROPERTY
@given(st.integers(0, 10_000), st.integers(0, 9))
def test_open_loop_equals_gaussian_conditioning(seed, warm):
    system = random_system(seed)
    drawn = system.simulate(1, 10, seed)
    mean, covariance = joint_gaussian(system, drawn.controls[0])
    m, c = condition(mean, covariance, drawn.targets[0], warm)
    means, variances = kalman.open_loop(system, drawn.tokens, warm)
    np.testing.assert_allclose(means[0], m, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variances, np.diag(c), rtol=1e-9, atol=1e-9)


def test_filter_equals_filterpy(system, drawn):
    reference = KalmanFilter(dim_x=2, dim_z=1, dim_u=1)
    schedule = kalman.schedule(system, T)
    means = kalman.filter_means(system, drawn.tokens)
    forecasts = kalman.predict(system, drawn.tokens)
    for i in range(len(drawn.controls)):
        reference.x, reference.P = np.zeros((2, 1)), system.initial_covariance.copy()
        reference.F, reference.B = system.A, system.B[:, None]
        reference.H, reference.R, reference.Q = system.C[None], np.array([[system.R]]), system.Q
        for t in range(T):
            reference.predict(u=drawn.controls[i, t])
            assert forecasts[i, t] == pytest.approx((reference.H @ reference.x).item(), abs=1e-9)
            np.testing.assert_allclose(schedule.predicted[t], reference.P, atol=1e-9)
            reference.update(drawn.targets[i, t])
            assert schedule.variances[t] == pytest.approx(reference.S.item(), abs=1e-9)
            if t + 1 < T:
                np.testing.assert_allclose(means[i, t + 1], reference.x[:, 0], atol=1e-9)
                np.testing.assert_allclose(schedule.gains[t + 1], reference.K[:, 0], atol=1e-9)
                np.testing.assert_allclose(schedule.filtered[t + 1], reference.P, atol=1e-9)


def test_the_floors_of_the_experiment(system):
    assert kalman.one_step_variances(system, T).mean() == pytest.approx(0.02364, abs=5e-6)
    assert kalman.steady_predictor(system).variance == pytest.approx(0.01934, abs=5e-6)
    after_one = kalman.open_loop_variances(system, T, 1)
    expected = [0.031, 0.054, 0.098, 0.055, 0.076, 0.055]
    np.testing.assert_allclose(after_one[[0, 1, 3, 7, 15, 30]], expected, atol=5e-4)
    after_eight = kalman.open_loop_variances(system, T, 8)
    expected = [0.020, 0.024, 0.032, 0.034, 0.046, 0.052]
    np.testing.assert_allclose(after_eight[[0, 1, 3, 7, 15, 23]], expected, atol=8e-4)


def test_empirical_errors_lie_in_the_predicted_interval(system):
    # Mean squared errors of N Gaussian forecasts: relative standard error √(2/N) at one position.
    # Positions of a trajectory are independent: innovations are white.
    N = 20_000
    drawn = system.simulate(N, T, 1)
    errors = (kalman.predict(system, drawn.tokens) - drawn.targets) ** 2
    variances = kalman.one_step_variances(system, T)
    z = (errors.mean(axis=0) / variances - 1) / np.sqrt(2 / N)
    assert abs(z).max() < 4
    pooled_se = np.sqrt(2 * (variances**2).sum() / N) / T
    assert abs(errors.mean() - variances.mean()) < 4 * pooled_se
    means, open_variances = kalman.open_loop(system, drawn.tokens, 3)
    z = (((means - drawn.targets[:, 3:]) ** 2).mean(axis=0) / open_variances - 1) / np.sqrt(2 / N)
    assert abs(z).max() < 4


def test_innovations_are_white(system):
    drawn = system.simulate(20_000, 12, 2)
    innovations = drawn.targets - kalman.predict(system, drawn.tokens)
    correlations = np.corrcoef(innovations.T) - np.eye(12)
    assert abs(correlations).max() < 5 / np.sqrt(20_000)


def test_95_percent_bands_cover_95_percent(system):
    drawn = system.simulate(5_000, T, 3)
    means, variances = kalman.open_loop(system, drawn.tokens, 1)
    inside = abs(means - drawn.targets[:, 1:]) <= 1.959964 * np.sqrt(variances)
    assert abs(inside.mean(axis=0) - 0.95).max() < 4.5 * np.sqrt(0.95 * 0.05 / 5_000)


def test_the_future_cannot_change_a_forecast(system, drawn):
    before = kalman.predict(system, drawn.tokens)
    for t in (0, 5, T - 2):
        changed = drawn.tokens.copy()
        changed[:, t + 1 :] += 100.0
        after = kalman.predict(system, changed)
        np.testing.assert_array_equal(after[:, : t + 1], before[:, : t + 1])
        assert abs(after[:, t + 1 :] - before[:, t + 1 :]).min() > 1e-6


def test_the_placeholder_is_never_used(system, drawn):
    changed = drawn.tokens.copy()
    changed[:, 0, 0] = 1e6
    np.testing.assert_array_equal(
        kalman.predict(system, changed), kalman.predict(system, drawn.tokens)
    )


def test_open_loop_ignores_observations_after_the_prefix(system, drawn):
    changed = drawn.tokens.copy()
    changed[:, 5:, 0] = -7.0
    np.testing.assert_array_equal(
        kalman.open_loop(system, changed, 4)[0], kalman.open_loop(system, drawn.tokens, 4)[0]
    )


def test_open_loop_starts_from_the_one_step_forecast(system, drawn):
    one_step = kalman.predict(system, drawn.tokens)
    for warm in (0, 1, 7, T - 1):
        means, variances = kalman.open_loop(system, drawn.tokens, warm)
        assert means.shape == (6, T - warm)
        np.testing.assert_allclose(means[:, 0], one_step[:, warm], atol=1e-13)
        assert variances[0] == pytest.approx(kalman.one_step_variances(system, T)[warm])


def test_the_schedule_settles_at_the_steady_predictor(system):
    schedule, steady = kalman.schedule(system, 400), kalman.steady_predictor(system)
    np.testing.assert_allclose(schedule.predicted[-1], steady.covariance, atol=1e-12)
    np.testing.assert_allclose(schedule.gains[-1], steady.gain, atol=1e-12)
    assert schedule.variances[-1] == pytest.approx(steady.variance, abs=1e-12)


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (0.02, [0.811 + 0.263j, 0.811 - 0.263j]),
        (0.05, [0.671 + 0.185j, 0.671 - 0.185j]),
        (0.1, [0.673, 0.405]),
    ],
)
def test_the_predictor_is_not_the_plant(q, expected):
    steady = kalman.steady_predictor(LinearGaussianSystem(process_std=q))
    np.testing.assert_allclose(steady.eigenvalues, expected, atol=6e-4)


def test_steady_recurrence_gives_the_late_forecasts(system):
    drawn = system.simulate(3, 200, 4)
    steady, m = kalman.steady_predictor(system), np.zeros((3, 2))
    for t in range(200):
        m = m @ steady.transition.T + drawn.tokens[:, t, :1] * steady.observation_input
        m = m + drawn.tokens[:, t, 1:] * system.B
        forecast = m @ system.C
    np.testing.assert_allclose(forecast, kalman.predict(system, drawn.tokens)[:, -1], atol=1e-10)


def test_token_weights_are_the_forecast(system, drawn):
    weights = kalman.token_weights(system, T)
    by_hand = np.einsum("ntc,tc->n", drawn.tokens[:, ::-1], weights)
    np.testing.assert_allclose(by_hand, kalman.predict(system, drawn.tokens)[:, -1], atol=1e-12)
    np.testing.assert_allclose(weights[:4, 0], [0.499, 0.217, 0.049, -0.039], atol=5e-4)
    assert weights[:, 0].min() == pytest.approx(-0.083, abs=5e-4)
    assert weights[-1, 0] == 0.0  # the placeholder
    assert weights[0, 1] == pytest.approx(system.C @ system.B)


def test_joseph_is_the_short_form_at_the_best_gain_and_right_at_any_other():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    P, C, R = root @ root.T, rng.normal(size=3), 0.3
    best = P @ C / (C @ P @ C + R)
    short = (np.eye(3) - np.outer(best, C)) @ P
    np.testing.assert_allclose(kalman.joseph_update(P, best, C, R), short, atol=1e-12)
    # Any other gain: covariance of x − K(Cx + v) from samples of the definition.
    gain = np.array([0.2, -0.1, 0.4])
    x = rng.multivariate_normal(np.zeros(3), P, 200_000)
    errors = x - (x @ C + np.sqrt(R) * rng.normal(size=200_000))[:, None] * gain
    np.testing.assert_allclose(
        kalman.joseph_update(P, gain, C, R), np.cov(errors.T), rtol=0.05, atol=0.02
    )
    assert np.trace(kalman.joseph_update(P, gain, C, R)) > np.trace(short)


@pytest.mark.parametrize("r", [1e-6, 0.1])
@pytest.mark.parametrize("q", [0.0, 1e-8, 0.05])
def test_covariances_stay_symmetric_and_positive(q, r):
    system = LinearGaussianSystem(process_std=q, observation_std=r, initial_std=10.0)
    schedule = kalman.schedule(system, 5_000)
    for P in (schedule.filtered, schedule.predicted):
        assert np.array_equal(P, P.transpose(0, 2, 1))
        assert np.linalg.eigvalsh(P).min() > -1e-18
    assert (schedule.variances >= system.R).all()


@pytest.mark.parametrize(("q", "r"), [(0.05, 1e-8), (1e-6, 0.1)])
def test_covariances_stay_positive_definite_over_a_hundred_thousand_steps(q, r):
    system = LinearGaussianSystem(process_std=q, observation_std=r)
    schedule = kalman.schedule(system, 100_000)
    for P in (schedule.filtered, schedule.predicted):
        values = np.linalg.eigvalsh(P)
        assert (values[:, 0] > 0).all()
        assert np.array_equal(P, P.transpose(0, 2, 1))
    steady = kalman.steady_predictor(system)
    np.testing.assert_allclose(schedule.predicted[-1], steady.covariance, rtol=1e-6, atol=1e-18)


@pytest.mark.parametrize("q", [0.02, 0.05, 0.1])
def test_an_exact_sensor_leaves_one_direction_in_doubt(q):
    # As r → 0 a reading pins C s down: C P C' goes to zero like r², while across C doubt remains.
    spread = []
    for r in (1e-3, 1e-5):
        P = kalman.schedule(LinearGaussianSystem(process_std=q, observation_std=r), 200).filtered
        C = LinearGaussianSystem().C
        assert C @ P[-1] @ C == pytest.approx(r**2, rel=1e-2)
        spread.append(np.trace(P[-1]))
    assert spread[0] == pytest.approx(spread[1], rel=1e-2)
    assert spread[0] > q**2


def test_without_process_noise_a_stable_system_is_known_in_the_end():
    system = LinearGaussianSystem(process_std=0.0)
    assert kalman.one_step_variances(system, 3_000)[-1] == pytest.approx(system.R, rel=1e-3)
    assert kalman.steady_predictor(system).variance == pytest.approx(system.R, rel=1e-6)


def test_one_dimensional_filter_by_hand():
    # p0 = q = r = 1, A = B = C = 1: V_0 = 1 + 1 + 1 = 3, K_1 = 2/3, P = 2/3, V_1 = 2/3 + 1 + 1.
    system = LinearGaussianSystem([[1.0]], [1.0], [1.0], 1.0, 1.0, 1.0)
    schedule = kalman.schedule(system, 2)
    np.testing.assert_allclose(schedule.variances, [3.0, 8 / 3])
    np.testing.assert_allclose(schedule.gains[1], [2 / 3])
    np.testing.assert_allclose(schedule.filtered[1], [[2 / 3]])
    tokens = np.array([[0.0, 0.5], [2.0, -1.0]])  # ŷ_1 = 0.5; then m = 0.5 + (2/3)·1.5 = 1.5
    np.testing.assert_allclose(kalman.predict(system, tokens), [0.5, 0.5])


def test_leading_axes(system, drawn):
    stacked = drawn.tokens.reshape(2, 3, T, 2)
    np.testing.assert_allclose(
        kalman.predict(system, stacked).reshape(6, T), kalman.predict(system, drawn.tokens)
    )
    assert kalman.predict(system, drawn.tokens[0]).shape == (T,)


TOKENS = np.zeros((2, 4, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: kalman.predict(s, np.zeros((2, 4))), ValueError, "tokens must have shape"),
        (lambda s: kalman.predict(s, np.zeros((2, 0, 2))), ValueError, "T ≥ 1"),
        (lambda s: kalman.predict(s, np.full((4, 2), np.nan)), ValueError, "tokens must be finite"),
        (lambda s: kalman.predict(s, TOKENS + 0j), TypeError, "tokens must hold real numbers"),
        (lambda s: kalman.open_loop(s, TOKENS + 0j), TypeError, "tokens must hold real numbers"),
        (lambda s: kalman.filter_means("plant", TOKENS), TypeError, "LinearGaussianSystem"),
        (lambda s: kalman.schedule(s, 0), ValueError, "T must be at least 1"),
        (lambda s: kalman.schedule(s, 2.0), TypeError, "T must be an integer"),
        (lambda s: kalman.one_step_variances(None, 3), TypeError, "LinearGaussianSystem"),
        (lambda s: kalman.open_loop(s, TOKENS, 4), ValueError, "warm must be below"),
        (lambda s: kalman.open_loop(s, TOKENS, -1), ValueError, "warm must be at least 0"),
        (lambda s: kalman.open_loop_variances(s, 4, 4), ValueError, "warm must be below"),
        (lambda s: kalman.open_loop_variances(s, 4, 1.5), TypeError, "warm must be an integer"),
        (lambda s: kalman.token_weights(s, 0), ValueError, "T must be at least 1"),
        (lambda s: kalman.joseph_update(np.eye(2), s.C[:1], s.C, 1.0), ValueError, "must fit"),
        (lambda s: kalman.steady_predictor(3), TypeError, "LinearGaussianSystem"),
    ],
)
def test_bad_input(system, call, error, message):
    with pytest.raises(error, match=message):
        call(system)


def test_a_system_without_a_steady_filter():
    blind = LinearGaussianSystem([[1.5, 0], [0, 0.5]], [1.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match="no steady filter"):
        kalman.steady_predictor(blind)
    with pytest.raises(ValueError, match="overflows at token"):
        kalman.schedule(blind, 2_000)


EXPLODING = LinearGaussianSystem([[10.0, 1.0], [-1.0, 10.0]])
LOUD = np.full((2, 6, 2), 1e308)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kalman.open_loop_variances(EXPLODING, 400), "an open-loop variance overflows"),
        (lambda: kalman.open_loop(EXPLODING, np.ones((400, 2))), "a forecast overflows"),
        (lambda: kalman.open_loop(EXPLODING, np.zeros((400, 2))), "open-loop variance overflows"),
        (
            lambda: kalman.filter_means(LinearGaussianSystem(C=(1e3, 0.5)), LOUD),
            "a mean of the filter overflows",
        ),
        (lambda: kalman.predict(LinearGaussianSystem(C=(1e3, 0.5)), LOUD), "overflows float64"),
        (
            lambda: kalman.predict(LinearGaussianSystem(B=(10, 0), C=(1, 0)), LOUD[:, :1]),
            "a forecast overflows",
        ),
        (
            lambda: kalman.schedule(LinearGaussianSystem(C=(1e200, 0)), 3),
            "variance of a forecast overflows at token 0",
        ),
        (lambda: kalman.schedule(LinearGaussianSystem(process_std=1e200), 3), "process_std is"),
        (
            lambda: kalman.schedule(LinearGaussianSystem(observation_std=1e200), 3),
            "observation_std is",
        ),
        (
            lambda: kalman.one_step_variances(
                LinearGaussianSystem(process_std=0, initial_std=0, observation_std=1e-200), 3
            ),
            "the innovation after token 0 has variance 0: the square of observation_std = 1e-200",
        ),
    ],
)
def test_overflow_is_an_error_and_not_a_nan(call, message):
    with pytest.raises(ValueError, match=message):
        call()


SWAP = np.array([[0.0, 1.0], [1.0, 0.0]])
ROTATION = np.array([[0.6, 0.8], [-0.8, 0.6]])


@pytest.mark.parametrize(
    ("A", "process_std"),
    [
        (np.eye(2), 0.05),  # two random walks, of which C sees one sum
        (np.eye(2), 0.0),
        (ROTATION, 0.0),
        (SWAP, 0.0),
        ([[-1.0]], 0.0),
        ([[1.0]], 0.0),
        ([[1.0, 1.0], [0.0, 1.0]], 0.0),
    ],
)
def test_an_undamped_mode_that_no_noise_reaches_has_no_steady_filter(A, process_std):
    n = len(A)
    system = LinearGaussianSystem(A, np.ones(n), np.linspace(1, 0.5, n), process_std)
    with pytest.raises(ValueError, match="no steady filter"):
        kalman.steady_predictor(system)


@pytest.mark.parametrize("A", [[[1.0]], [[-1.0]], ROTATION, [[1.0, 1.0], [0.0, 1.0]], [[1.5]]])
@pytest.mark.parametrize("process_std", [1e-4, 0.05])
def test_undamped_modes_with_noise_have_one(A, process_std):
    n = len(A)
    steady = kalman.steady_predictor(
        LinearGaussianSystem(A, np.ones(n), np.linspace(1, 0.5, n), process_std)
    )
    assert abs(steady.eigenvalues[0]) < 1


def test_a_filter_fed_its_own_forecasts_is_the_open_loop(system, drawn):
    # A forecast is what the filter expects, so its innovation is zero and nothing is learned.
    from book_utils.evaluation import open_loop_rollout

    predict = functools.partial(kalman.predict, system)
    for warm in (0, 1, 8):
        np.testing.assert_allclose(
            open_loop_rollout(predict, drawn.tokens, warm),
            kalman.open_loop(system, drawn.tokens, warm)[0],
            atol=1e-12,
        )
