"""What the exercises on the experiment say agrees with the package."""

import numpy as np
import pytest
import torch
from answers.transformer_vs_ssm import floor

from book_utils import evaluation, kalman
from book_utils.models import CausalTransformer, DiagonalSSM, count_parameters
from book_utils.systems import LinearGaussianSystem
from book_utils.training import Recipe, fit_seeds, held_out_set, training_set


def test_the_answers_agree_with_the_package():
    assert count_parameters(DiagonalSSM(n=64)) == 2273
    walk = LinearGaussianSystem([[1.0]], [1.0], [1.0], 1.0, 1.0)
    assert kalman.steady_predictor(walk).variance == pytest.approx(2.618, abs=5e-4)
    system = LinearGaussianSystem()
    P = kalman.schedule(system, 2).filtered[1]
    np.testing.assert_allclose(
        floor()(P, system.A, system.C, system.Q, system.R, 31),
        kalman.open_loop_variances(system, 32, 1),
    )


@pytest.mark.parametrize(
    ("q", "transformer", "ssm", "arx"), [(0.02, 1.41, 1.18, 1.14), (0.1, 1.09, 1.02, 1.01)]
)
def test_the_numbers_told_in_the_open_exercise(q, transformer, ssm, arx):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    system = LinearGaussianSystem(process_std=q)
    tokens, targets = held_out_set(system)
    exact = evaluation.teacher_forced_mse(kalman.predict(system, tokens), targets).pooled

    def ratio(forecasts):
        return np.mean(evaluation.teacher_forced_mse(forecasts, targets).pooled / exact)

    regression = evaluation.fit_ar(*training_set(system, 0), order=16)
    assert ratio(regression(tokens)) == pytest.approx(arx, abs=0.006)
    for make, told, tolerance in ((CausalTransformer, transformer, 0.04), (DiagonalSSM, ssm, 0.02)):
        fit = fit_seeds(
            lambda seed, make=make: make(seed=seed),
            system,
            range(2),
            recipe=Recipe(learning_rate=0.03),
        )
        assert ratio(evaluation.Forecaster(fit.models)(tokens)) == pytest.approx(
            told, abs=tolerance
        )
    torch.set_num_threads(before)
