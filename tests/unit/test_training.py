"""Training: Adam and whole runs against torch.optim, seeds that keep to themselves, early alarms."""

import numpy as np
import pytest
import torch

from book_utils import kalman
from book_utils.evaluation import Forecaster
from book_utils.models import CausalTransformer, DiagonalSSM, stack_parameters
from book_utils.systems import LinearGaussianSystem
from book_utils.training import (
    TEST,
    VALIDATION,
    Adam,
    Recipe,
    TrainingDiverged,
    cosine_rate,
    fit_seeds,
    held_out_set,
    train_together,
    training_set,
)

F64 = torch.float64
SYSTEM = LinearGaussianSystem()


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def small_ssm(seed):
    return DiagonalSSM(4, 5, seed=seed).double()


def small_transformer(seed):
    return CausalTransformer(4, 6, T_max=8, seed=seed).double()


def data(S=None, N=12, T=8, seed=0):
    sets = [training_set(SYSTEM, seed + s, N, T) for s in range(S or 1)]
    tokens, targets = (np.stack(part) for part in zip(*sets, strict=True))
    return (tokens, targets) if S else (tokens[0], targets[0])


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_adam_equals_torchs():
    rng = np.random.default_rng(0)
    ours = torch.from_numpy(rng.normal(size=(3, 5)))
    theirs = ours.clone().requires_grad_()
    recipe = Recipe(beta1=0.8, beta2=0.99, epsilon=1e-6)
    adam = Adam(ours, recipe)
    reference = torch.optim.Adam([theirs], lr=0.05, betas=(0.8, 0.99), eps=1e-6)
    for _ in range(20):
        theirs.grad = torch.from_numpy(rng.normal(size=(3, 5)))
        adam.step(theirs.grad, 0.05)
        reference.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-14)


def test_cosine_rate():
    assert cosine_rate(0, 10) == 1.0
    assert cosine_rate(5, 10) == pytest.approx(0.5)
    assert cosine_rate(10, 10) == pytest.approx(0.0, abs=1e-15)
    rates = [cosine_rate(k, 50) for k in range(50)]
    assert rates == sorted(rates, reverse=True)
    # torch.optim's schedule as the oracle
    parameter = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.SGD([parameter], lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 50)
    for rate in rates:
        assert optimiser.param_groups[0]["lr"] == pytest.approx(rate, abs=1e-12)
        optimiser.step()
        schedule.step()


@pytest.mark.parametrize("make", [small_ssm, small_transformer])
def test_a_run_equals_a_plain_torch_loop(make):
    tokens, targets = data()
    ours, theirs = make(0), make(0)
    recipe = Recipe(steps=15, batch_size=None, learning_rate=0.02)
    history = train_together([ours], tokens, targets, recipe)
    optimiser = torch.optim.Adam(theirs.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 15)
    x, y = torch.from_numpy(tokens), torch.from_numpy(targets)
    for step in range(15):
        optimiser.zero_grad()
        loss = (theirs(x) - y).square().mean()
        loss.backward()
        assert history.losses[step, 0] == pytest.approx(loss.item(), rel=1e-7)
        optimiser.step()
        schedule.step()
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("make", [small_ssm, small_transformer])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_models_trained_together_end_where_they_would_alone(make, batch_size):
    tokens, targets = data(S=3)
    recipe, rates = Recipe(steps=12, batch_size=batch_size), [0.01, 0.03, 0.002]
    together = [make(s) for s in range(3)]
    history = train_together(
        together, tokens, targets, recipe, seeds=[4, 5, 6], learning_rates=rates
    )
    assert history.losses.shape == (12, 3)
    for i, model in enumerate(together):
        alone = make(i)
        own = train_together(
            [alone], tokens[i], targets[i], recipe, seeds=[4 + i], learning_rates=[rates[i]]
        )
        np.testing.assert_allclose(own.losses[:, 0], history.losses[:, i], rtol=1e-8)
        torch.testing.assert_close(flat(model), flat(alone), rtol=1e-7, atol=1e-8)


def test_shared_data_are_each_models_data():
    tokens, targets = data()
    recipe = Recipe(steps=5, batch_size=4)
    a, b = [small_ssm(0), small_ssm(1)], [small_ssm(0), small_ssm(1)]
    train_together(a, tokens, targets, recipe)
    train_together(b, np.stack([tokens] * 2), np.stack([targets] * 2), recipe)
    for p, q in zip(a, b, strict=True):
        torch.testing.assert_close(flat(p), flat(q))


def test_a_seed_decides_everything():
    recipe = Recipe(steps=8, batch_size=8)
    runs = [
        fit_seeds(small_ssm, SYSTEM, seeds, trajectories=16, T=8, recipe=recipe)
        for seeds in ([3, 1], [3, 1], [1])
    ]
    assert runs[0].seeds == [3, 1]
    np.testing.assert_array_equal(runs[0].history.losses, runs[1].history.losses)
    torch.testing.assert_close(flat(runs[0].models[0]), flat(runs[1].models[0]), rtol=0, atol=0)
    torch.testing.assert_close(flat(runs[0].models[1]), flat(runs[2].models[0]))
    assert not torch.allclose(flat(runs[0].models[0]), flat(runs[0].models[1]))


def test_every_trajectory_is_seen_once_a_pass():
    # Eight data, batches of two: with a rate of almost nothing the four losses of a pass average
    # to the loss on all of the data.
    tokens, targets = data(N=8)
    model = small_ssm(0)
    whole = (model(torch.from_numpy(tokens)) - torch.from_numpy(targets)).square().mean().item()
    recipe = Recipe(steps=8, batch_size=2, learning_rate=1e-13)
    losses = train_together([model], tokens, targets, recipe).losses[:, 0]
    assert losses[:4].mean() == pytest.approx(whole, rel=1e-6)
    assert losses[4:].mean() == pytest.approx(whole, rel=1e-6)
    assert not np.allclose(losses[:4], losses[4:])  # a new order in each pass


def test_float32_training_reaches_the_floor_from_above():
    fit = fit_seeds(lambda seed: DiagonalSSM(seed=seed), SYSTEM, range(3), recipe=Recipe(steps=300))
    tokens, targets = held_out_set(SYSTEM)
    p = stack_parameters(fit.models)
    with torch.no_grad():
        forecasts = fit.models[0].stacked_forward(p, torch.tensor(tokens, dtype=torch.float32))
    mse = ((forecasts.numpy() - targets) ** 2).mean(axis=(1, 2))
    exact = ((kalman.predict(SYSTEM, tokens) - targets) ** 2).mean()
    assert (mse / exact > 1.02).all()
    assert (mse / exact < 1.35).all()


def test_divergence_names_the_step_and_the_model():
    tokens, targets = data(S=2)
    models = [small_ssm(0), small_ssm(1)]
    with pytest.raises(TrainingDiverged, match=r"model 1 is not finite at step \d") as caught:
        train_together(
            models,
            tokens,
            targets,
            Recipe(steps=50, batch_size=None),
            learning_rates=[1e-3, 1e200],
        )
    assert caught.value.model == 1
    assert 0 < caught.value.step < 5
    assert isinstance(caught.value, ArithmeticError)


def test_progress_wraps_the_steps():
    seen = []

    def watch(steps):
        for step in steps:
            seen.append(step)
            yield step

    tokens, targets = data()
    train_together([small_ssm(0)], tokens, targets, Recipe(steps=6, batch_size=4), progress=watch)
    assert seen == list(range(6))


def test_data_sets_are_apart():
    x, y = training_set(SYSTEM, 0, 6, 5)
    assert x.shape == (6, 5, 2)
    assert y.shape == (6, 5)
    sets = [x, training_set(SYSTEM, 1, 6, 5)[0]]
    sets += [training_set(SYSTEM, s, 6, 5)[0] for s in (VALIDATION, TEST)]
    sets += [held_out_set(SYSTEM, kind, 6, 5)[0] for kind in (VALIDATION, TEST)]
    for i, a in enumerate(sets):
        for b in sets[:i]:
            assert not np.isin(a[..., 1], b[..., 1]).any()  # not a single control in common
    np.testing.assert_array_equal(held_out_set(SYSTEM, TEST, 6, 5)[0], sets[-1])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps must be at least 1"),
        ({"steps": 1.5}, TypeError, "steps must be an integer"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be above zero"),
        ({"learning_rate": float("nan")}, ValueError, "learning_rate must be finite"),
        ({"beta1": 1.0}, ValueError, r"beta1 must be in \[0, 1\)"),
        ({"beta2": -0.1}, ValueError, r"beta2 must be in \[0, 1\)"),
        ({"epsilon": 0}, ValueError, "epsilon must be above zero"),
    ],
)
def test_bad_recipes(changes, error, message):
    with pytest.raises(error, match=message):
        Recipe(**changes)


TOKENS, TARGETS = data(N=4, T=5)


@pytest.mark.parametrize(
    ("tokens", "targets", "options", "error", "message"),
    [
        (TOKENS, TARGETS[:, 1:], {}, ValueError, "tokens must have shape"),
        (TOKENS[..., :1], TARGETS, {}, ValueError, "tokens must have shape"),
        (TOKENS * np.nan, TARGETS, {}, ValueError, "tokens must be finite"),
        (TOKENS, TARGETS + np.inf, {}, ValueError, "targets must be finite"),
        (TOKENS[None], TARGETS[None], {}, ValueError, "1 data sets for 2 models"),
        (TOKENS + 0j, TARGETS, {}, TypeError, "tokens must hold real numbers"),
        (TOKENS, TARGETS * 1j, {}, TypeError, "targets must hold real numbers"),
        (TOKENS[:0], TARGETS[:0], {}, ValueError, "at least one trajectory"),
        (TOKENS[:0], TARGETS[:0], {"recipe": Recipe(batch_size=None)}, ValueError, "at least one"),
        (TOKENS[:, :0], TARGETS[:, :0], {}, ValueError, "at least one trajectory and token"),
        (TOKENS, TARGETS, {"seeds": [0]}, ValueError, "seeds must hold one"),
        (TOKENS, TARGETS, {"seeds": [0, -1]}, ValueError, "seed must be at least 0"),
        (TOKENS, TARGETS, {"learning_rates": [0.1]}, ValueError, "learning_rates must hold one"),
        (TOKENS, TARGETS, {"learning_rates": [0.1, 0]}, ValueError, "learning rate must be above"),
        (TOKENS, TARGETS, {"recipe": Recipe(batch_size=5)}, ValueError, "batch_size 5 is larger"),
    ],
)
def test_bad_runs(tokens, targets, options, error, message):
    options = {"recipe": Recipe(steps=2, batch_size=4), **options}
    with pytest.raises(error, match=message):
        train_together([small_ssm(0), small_ssm(1)], tokens, targets, **options)


def test_data_may_be_lists_tensors_or_read_only_arrays():
    kinds = [TOKENS.tolist(), torch.tensor(TOKENS, requires_grad=True), TOKENS.copy()]
    kinds[-1].setflags(write=False)
    losses = [train_together([small_ssm(0)], x, TARGETS, Recipe(3, None)).losses for x in kinds]
    for other in losses[1:]:
        np.testing.assert_array_equal(other, losses[0])


def test_models_with_other_heads_are_not_trained_together():
    models = [CausalTransformer(4, 6, heads, T_max=8).double() for heads in (1, 2)]
    with pytest.raises(ValueError, match="with the same settings"):
        train_together(models, TOKENS, TARGETS, Recipe(steps=1, batch_size=None))


def test_longer_sequences_than_the_model_has_positions_are_refused():
    models = [CausalTransformer(4, 6, T_max=4).double()]
    with pytest.raises(ValueError, match="only 4 slots"):
        train_together(models, TOKENS, TARGETS, Recipe(steps=1, batch_size=None))


def test_frozen_parameters_stay_and_the_others_train_as_in_a_plain_loop():
    tokens, targets = data()
    ours, reference = small_ssm(3), small_ssm(3)
    for model in (ours, reference):
        model.decay_logits.requires_grad_(False)
        model.embed.requires_grad_(False)
    free, first = small_ssm(3), flat(ours)
    recipe = Recipe(steps=5, batch_size=None)
    train_together([free, ours], tokens, targets, recipe)  # frozen in one model, free in the other
    trained = [p for p in reference.parameters() if p.requires_grad]
    adam = torch.optim.Adam(trained, lr=recipe.learning_rate)
    for step in range(recipe.steps):
        adam.param_groups[0]["lr"] = recipe.learning_rate * cosine_rate(step, recipe.steps)
        adam.zero_grad()
        loss = reference(torch.from_numpy(tokens)) - torch.from_numpy(targets)
        loss.square().mean().backward()
        adam.step()
    torch.testing.assert_close(flat(ours), flat(reference), rtol=1e-9, atol=1e-12)
    assert (flat(ours) != first).any()
    assert not torch.equal(free.decay_logits, ours.decay_logits)
    torch.testing.assert_close(ours.decay_logits, small_ssm(3).decay_logits, rtol=0, atol=0)


def test_bad_fits():
    with pytest.raises(ValueError, match="at least one model"):
        fit_seeds(small_ssm, SYSTEM, [])
    with pytest.raises(ValueError, match="each seed must be at least 0"):
        fit_seeds(small_ssm, SYSTEM, [-1])
    with pytest.raises(ValueError, match="VALIDATION or TEST"):
        held_out_set(SYSTEM, 1)


@pytest.mark.parametrize("device", ["meta", "no such device", "cuda:99", 1.5])
def test_a_device_that_cannot_compute_is_refused(device):
    with pytest.raises(ValueError, match="device must be one that torch can compute on"):
        train_together([small_ssm(0)], *data(), Recipe(steps=1, batch_size=4), device=device)
    with pytest.raises(ValueError, match="device must be"):
        Forecaster([DiagonalSSM()], device=device)


def test_naming_the_device_changes_nothing():
    fits = [
        fit_seeds(
            lambda seed: DiagonalSSM(4, 3, seed=seed),
            SYSTEM,
            [0, 1],
            trajectories=64,
            T=8,
            recipe=Recipe(steps=3, batch_size=16),
            device=device,
        )
        for device in (None, "cpu", torch.device("cpu"))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.history.losses, fits[0].history.losses)
    tokens = np.ones((3, 8, 2))
    found = [Forecaster(fit.models, device="cpu")(tokens) for fit in fits]
    np.testing.assert_array_equal(found[0], found[1])
