"""Linear probes against numpy's own regression, and against the filter's floor."""

import numpy as np
import pytest

from book_utils import kalman
from book_utils.probes import LinearProbe, fit_probe
from book_utils.systems import LinearGaussianSystem


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_an_affine_relation_is_found_exactly():
    W, b, f = draw(2, 5, seed=1), draw(2, seed=2), draw(40, 5)
    probe = fit_probe(f, f @ W.T + b)
    np.testing.assert_allclose(probe.weights, W, atol=1e-12)
    np.testing.assert_allclose(probe.bias, b, atol=1e-12)
    assert probe.error(draw(3, 7, 5, seed=3), draw(3, 7, 5, seed=3) @ W.T + b).max() < 1e-20


def test_the_fit_equals_regression_with_a_column_of_ones():
    f, s = draw(30, 4), draw(30, 2, seed=1)
    solution = np.linalg.lstsq(np.column_stack([f, np.ones(30)]), s, rcond=None)[0]
    probe = fit_probe(f, s)
    np.testing.assert_allclose(probe.weights, solution[:4].T, atol=1e-12)
    np.testing.assert_allclose(probe.bias, solution[4], atol=1e-12)


def test_leading_axes_are_examples():
    f, s = draw(6, 7, 4), draw(6, 7, 2, seed=1)
    whole, flat = fit_probe(f, s), fit_probe(f.reshape(42, 4), s.reshape(42, 2))
    np.testing.assert_allclose(whole.weights, flat.weights)
    np.testing.assert_allclose(whole.error(f, s), flat.error(f.reshape(42, 4), s.reshape(42, 2)))


def test_redundant_features_do_no_harm():
    f = draw(50, 3)
    twice = np.concatenate([f, f, np.ones((50, 1))], axis=1)
    s = draw(50, 2, seed=1)
    np.testing.assert_allclose(fit_probe(twice, s)(twice), fit_probe(f, s)(f), atol=1e-10)


def test_the_filters_mean_is_a_perfect_feature_and_its_error_the_floor():
    world = LinearGaussianSystem()
    train, test = world.simulate(4000, 20, 1), world.simulate(8000, 20, 2)
    mean = [kalman.filter_means(world, drawn.tokens)[:, -1] for drawn in (train, test)]
    probe = fit_probe(mean[0], train.states[:, 19])
    floor = np.diag(kalman.schedule(world, 20).filtered[-1])
    np.testing.assert_allclose(probe.weights, np.eye(2), atol=0.02)
    np.testing.assert_allclose(probe.error(mean[1], test.states[:, 19]), floor, rtol=0.06)
    # The raw tokens of the last three slots hold less.
    raw = [drawn.tokens[:, -3:].reshape(len(drawn.tokens), -1) for drawn in (train, test)]
    worse = fit_probe(raw[0], train.states[:, 19]).error(raw[1], test.states[:, 19])
    assert (worse > 1.05 * floor).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fit_probe(draw(9), draw(9)), ValueError, "features must have shape"),
        (lambda: fit_probe(draw(9, 2), draw(8, 2)), ValueError, "same leading axes"),
        (lambda: fit_probe(draw(9, 0), draw(9, 2)), ValueError, "features must have shape"),
        (lambda: fit_probe(draw(5, 4), draw(5, 2)), ValueError, "needs more examples"),
        (lambda: fit_probe(draw(9, 2) * np.inf, draw(9, 2)), ValueError, "features"),
        (lambda: fit_probe(draw(9, 2), draw(9, 2) * np.nan), ValueError, "states"),
        (lambda: fit_probe(draw(9, 2) * 1j, draw(9, 2)), TypeError, "features"),
        (lambda: LinearProbe(draw(2, 3), draw(2))(draw(4, 2)), ValueError, "last axis of features"),
        (
            lambda: LinearProbe(draw(2, 3), draw(2)).error(draw(4, 3), draw(5, 2)),
            ValueError,
            "states must have shape",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
