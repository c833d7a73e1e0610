"""Rollouts a token at a time equal the plain loop over whole histories."""

import numpy as np
import pytest
import torch
from torch import nn

from book_utils import decoding
from book_utils.evaluation import Forecaster, open_loop_rollout
from book_utils.models import FORECASTERS, CausalTransformer, DiagonalSSM

RNG = np.random.default_rng(0)
MAKERS = {
    **FORECASTERS,
    "heads": lambda seed: CausalTransformer(8, 12, 4, 9, seed=seed),
    "one channel": lambda seed: DiagonalSSM(3, 1, seed=seed),
}


def forecaster(name, dtype=torch.float64, seeds=(0, 1, 2), **options):
    models = [MAKERS[name](seed).to(dtype) for seed in seeds]
    with torch.no_grad():  # biases, skips and norms away from what they begin with
        for i, model in enumerate(models):
            rng = np.random.default_rng(i)
            for p in model.parameters():
                p.add_(torch.tensor(0.1 * rng.normal(size=tuple(p.shape)), dtype=dtype))
    return Forecaster(models, **options)


def plain(predict, tokens, warm):
    own = np.broadcast_to(tokens, (predict.size, *tokens.shape[-3:]))
    return open_loop_rollout(predict, own, warm)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("warm", [0, 1, 4, 8])
def test_equals_the_plain_loop(name, warm):
    tokens = RNG.normal(size=(5, 9, 2))
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-4)):
        predict = forecaster(name, dtype)
        found = decoding.rollout(predict, tokens, warm)
        assert found.shape == (3, 5, 9 - warm)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, plain(predict, tokens, warm), atol=tolerance)


@pytest.mark.parametrize("name", ["SSM", "transformer"])
def test_each_model_may_have_tokens_of_its_own_in_chunks_of_any_size(name):
    tokens = RNG.normal(size=(3, 5, 7, 2))
    for chunk in (1, 2, 5, 9):
        predict = forecaster(name, chunk=chunk)
        found = decoding.rollout(predict, tokens, 2)
        np.testing.assert_allclose(found, plain(predict, tokens, 2), atol=1e-11)


@pytest.mark.parametrize("name", ["SSM", "transformer"])
def test_later_observations_are_never_looked_at_and_controls_are(name):
    predict, tokens = forecaster(name), RNG.normal(size=(4, 8, 2))
    before = decoding.rollout(predict, tokens, 3)
    changed = tokens.copy()
    changed[:, 4:, 0] = 1e6
    np.testing.assert_array_equal(decoding.rollout(predict, changed, 3), before)
    changed[:, 5, 1] += 1.0
    after = decoding.rollout(predict, changed, 3)
    np.testing.assert_array_equal(after[..., :2], before[..., :2])
    assert (after[..., 2] != before[..., 2]).all()


def test_a_class_without_a_decoder_goes_through_the_plain_loop():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.5))

        def stacked_forward(self, p, tokens):
            return p["scale"][:, None, None] * tokens[..., 0]

    found = decoding.rollout(Forecaster([Last(), Last()]), np.ones((3, 5, 2)), 1)
    np.testing.assert_array_equal(found, np.broadcast_to(0.5 ** np.arange(1, 5), (2, 3, 4)))


@pytest.mark.parametrize(
    ("tokens", "warm", "error"),
    [
        (np.ones((3, 5, 2)), 5, ValueError),
        (np.ones((3, 5, 2)), -1, ValueError),
        (np.ones((3, 5, 2)), 1.0, TypeError),
        (np.ones((2, 3, 5, 2)), 1, ValueError),
        (np.ones((3, 5, 3)), 1, ValueError),
        (np.full((3, 5, 2), np.nan), 1, ValueError),
        (np.ones((3, 5, 2), dtype=int), 1, TypeError),
    ],
)
def test_refuses(tokens, warm, error):
    with pytest.raises(error):
        decoding.rollout(forecaster("SSM"), tokens, warm)


def test_tokens_beyond_the_last_position_are_refused():
    with pytest.raises(ValueError, match="33"):
        decoding.rollout(forecaster("transformer"), np.ones((1, 33, 2)), 1)


def test_forecasts_that_overflow_are_refused():
    model = DiagonalSSM(2, 1, seed=0)
    with torch.no_grad():
        model.head.weight.fill_(3e38)
        model.skip.fill_(10.0)
    with pytest.raises(ValueError, match="finite"):
        decoding.rollout(Forecaster([model]), np.ones((1, 6, 2)), 0)


def test_a_subclass_that_computes_something_else_is_not_taken_for_its_parent():
    class Louder(DiagonalSSM):
        def stacked_forward(self, parameters, tokens):
            return 2 * super().stacked_forward(parameters, tokens)

    predict, tokens = Forecaster([Louder(seed=0)]), RNG.normal(size=(2, 6, 2))
    np.testing.assert_allclose(
        decoding.rollout(predict, tokens, 1), plain(predict, tokens, 1), atol=1e-6
    )
