"""The competing memories: each sum of weighted values is the recurrence it stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import events, ssm, tables
from book_utils import recall_models as recall
from book_utils.events import RecallTask, SumTask
from book_utils.training import Recipe, TrainingDiverged

PROPERTY = settings(deadline=None, max_examples=25, derandomize=True)
F64 = torch.float64
kinds = pytest.mark.parametrize("name", recall.MODELS)


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(F64)
    yield
    torch.set_default_dtype(before)


def draw(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def shaken(model, seed=1):
    """The model with every parameter moved off its first value."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.from_numpy(0.3 * rng.normal(size=tuple(p.shape))))
    return model


def make(name, seeds=(0, 1), width=4, **sizes):
    return shaken(recall.MODELS[name](width, seeds, **{"d": 6, "hidden": 8, **sizes}))


# ------------------------------------------------------------------------------- weights


@PROPERTY
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 99))
def test_attention_weights_are_torchs_with_a_bias(T, window, seed):
    q, k, v = draw(3, 5, seed=seed), draw(3, T, 5, seed=seed + 1), draw(3, T, 2, seed=seed + 2)
    slope = draw(3, seed=seed + 3).abs()
    age = torch.arange(T - 1, -1, -1)
    bias = (-slope[:, None] * age).masked_fill(age >= window, -torch.inf)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q[:, None], k, v, attn_mask=bias[:, None]
    )
    w = recall.attention_weights(q, k, slope, window)
    torch.testing.assert_close(w[:, None] @ v, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(w.sum(-1), torch.ones(3))


def test_without_a_window_attention_sees_everything():
    w = recall.attention_weights(draw(5), draw(40, 5), torch.tensor(0.0))
    assert (w > 0).all()


@PROPERTY
@given(st.integers(1, 20), st.integers(0, 99))
def test_linear_attention_is_the_running_matrix(T, seed):
    """S ← S + φ(k) vᵀ, c ← c + φ(k); read Sᵀφ(q) / φ(q)ᵀc."""
    q, k, v = (draw(*s, seed=seed + i) for i, s in enumerate([(5,), (T, 5), (T, 2)]))

    def phi(x):
        return torch.where(x > 0, x + 1, x.exp())

    S, c = torch.zeros(5, 2), torch.zeros(5)
    for t in range(T):
        S, c = S + torch.outer(phi(k[t]), v[t]), c + phi(k[t])
    found = recall.linear_attention_weights(q, k) @ v
    torch.testing.assert_close(found, S.T @ phi(q) / (phi(q) @ c))


@PROPERTY
@given(st.integers(1, 30), st.booleans(), st.integers(0, 99))
def test_fixed_weights_give_the_last_state_of_the_recurrence(T, rotating, seed):
    v, rate = draw(T, 3, seed=seed), draw(3, seed=seed + 1).abs() + 0.01
    log_decay = torch.complex(-rate, draw(3, seed=seed + 2)) if rotating else -rate
    eye = torch.eye(3, dtype=log_decay.dtype)
    states = ssm.recurrence(log_decay.exp(), eye, eye, v.to(log_decay.dtype))
    found = (recall.fixed_weights(log_decay, T) * v).sum(-2)
    torch.testing.assert_close(found, states[-1])


@PROPERTY
@given(st.integers(1, 30), st.integers(0, 99))
def test_selective_weights_give_the_last_output_of_the_scan(T, seed):
    n, d = 4, 3
    shapes = [(2, n), (2, T, n), (2, T, d), (2, T, d), (d,)]
    q, k, v, step, rate = (draw(*s, seed=seed + i) for i, s in enumerate(shapes))
    step, rate = step.abs(), rate.abs()
    keep = (-rate * step).exp()[..., None].expand(2, T, d, n)
    write = (step * v)[..., None] * k[..., None, :]
    H = ssm.scan(keep.reshape(2, T, d * n), write.reshape(2, T, d * n))[:, -1].view(2, d, n)
    found = (recall.selective_weights(q, k, step, rate) * v).sum(-2)
    torch.testing.assert_close(found, (H @ q[..., None]).squeeze(-1))


@PROPERTY
@given(st.integers(1, 20), st.integers(1, 25), st.integers(0, 99))
def test_selective_outputs_are_the_weights_at_every_prefix(T, last, seed):
    shapes = [(2, T, 4), (2, T, 4), (2, T, 3), (2, T, 3), (3,)]
    q, k, v, step, rate = (draw(*s, seed=seed + i) for i, s in enumerate(shapes))
    step, rate = step.abs(), rate.abs()
    found = recall.selective_outputs(q, k, v, step, rate, last)
    assert found.shape == (2, min(last, T), 3)
    for back in range(1, found.shape[1] + 1):
        stop = T - back + 1
        w = recall.selective_weights(q[:, stop - 1], k[:, :stop], step[:, :stop], rate)
        torch.testing.assert_close(found[:, -back], (w * v[:, :stop]).sum(-2))


def test_a_token_after_does_not_change_fixed_weights_but_selective_ones():
    step, k = torch.full((5, 2), 0.1), torch.ones(5, 1)
    large = step.clone()
    large[3] = 50.0
    before, after = (
        recall.selective_weights(torch.ones(1), k, s, torch.ones(2)) for s in (step, large)
    )
    assert (after[:3] < 1e-9).all()
    assert (before[:3] > 0.05).all()
    torch.testing.assert_close(after[4], before[4])


@pytest.mark.parametrize(
    ("call", "error", "why"),
    [
        (
            lambda: recall.attention_weights(draw(3), draw(4, 2), torch.tensor(0.0)),
            ValueError,
            "width",
        ),
        (
            lambda: recall.attention_weights(draw(2), draw(4, 2), torch.tensor(0.0), 0),
            ValueError,
            "window",
        ),
        (lambda: recall.linear_attention_weights(draw(3), draw(4, 2)), ValueError, "width"),
        (
            lambda: recall.selective_weights(draw(3), draw(4, 2), draw(4, 1), draw(1)),
            ValueError,
            "width",
        ),
        (lambda: recall.fixed_weights(torch.tensor([0.0]), 3), ValueError, "log_decay"),
        (lambda: recall.fixed_weights(torch.tensor([-1.0]), 0), ValueError, "T must"),
        (lambda: recall.selective_outputs(*[draw(2, 2)] * 5, last=0), ValueError, "last"),
        (lambda: recall.lags(0), ValueError, "T must"),
    ],
)
def test_bad_weights(call, error, why):
    with pytest.raises(error, match=why):
        call()


# -------------------------------------------------------------------------------- models


@kinds
def test_shapes_and_company(name):
    """Model s answers the same alone and in company, to data of its own and to common data."""
    tokens = draw(2, 3, 20, 4)
    together = make(name)
    answers = together(tokens)
    assert answers.shape == (2, 3)
    torch.testing.assert_close(together(tokens[0])[0], answers[0])
    fresh = recall.MODELS[name](4, (0, 1), 6, 8)
    alone = recall.MODELS[name](4, (1,), 6, 8)
    torch.testing.assert_close(fresh(tokens)[1], alone(tokens[1])[0])


@kinds
def test_parameters_belong_to_a_seed(name):
    model = recall.MODELS[name](4, (3, 4, 3), 6, 8)
    for p in model.parameters():
        assert len(p) == 3
        torch.testing.assert_close(p[0], p[2])
    assert any((p[0] != p[1]).any() for p in model.parameters())
    assert model.parameter_count() == sum(p.numel() for p in model.parameters()) // 3


def test_parameter_counts_by_formula():
    w, d, h, n = 4, 20, 40, recall.KEY_WIDTH
    skeleton = (w * h + h) + (h * d + d) + 3 * (d * d + d) + (2 * d * h + h) + (h + 1)
    extra = {
        "attention": 2 * (d * d + d) + 2,
        "window": 2 * (d * d + d) + 2,
        "linear attention": 2 * (d * d + d),
        "fast decay": d,
        "slow decay": d,
        "complex decay": d,
        "selective": 2 * (d * n + n) + d * d + 2 * d,
        "hybrid": 2 * (d * d + d) + 2 + 2 * (d * n + n) + d * d + 2 * d + 3 * (d * d + d),
    }
    for name, kind in recall.MODELS.items():
        assert kind(w, (0,)).parameter_count() == skeleton + extra[name]


@kinds
def test_what_each_memory_can_see(name):
    """Change one token far back: only the window does not notice (the hybrid's state does)."""
    model, tokens = make(name), draw(3, 40, 4)
    changed = tokens.clone()
    changed[:, 40 - 1 - recall.WINDOW] += 1.0
    same = torch.allclose(model(tokens), model(changed), rtol=0, atol=1e-12)
    assert same == (name == "window")
    changed = tokens.clone()
    changed[:, 40 - recall.WINDOW] += 1.0
    assert not torch.allclose(model(tokens), model(changed), rtol=0, atol=1e-12)


@kinds
def test_only_memories_with_a_clock_mind_the_order(name):
    """Shuffle all tokens but the query: linear attention cannot tell; the others can."""
    model, tokens = make(name), draw(3, 12, 4)
    order = np.append(np.random.default_rng(0).permutation(11), 11)
    same = torch.allclose(model(tokens), model(tokens[:, order]), rtol=0, atol=1e-9)
    assert same == (name == "linear attention")


def test_fast_decays_stay_below_their_limit_and_slow_ones_start_where_they_say():
    fast = shaken(recall.FastDecay(4, (0,), 6, 8))
    assert (fast.weights(draw(1, 2, 2, 6))[..., 0, :] < recall.FASTEST_ONLY).all()
    slow = recall.SlowDecay(4, (0,), 6, 8).weights(draw(1, 2, 2, 6))[0, 0, 0]
    np.testing.assert_allclose(-1 / slow.detach().log().numpy(), np.geomspace(4, 1000, 6))


def test_attention_gives_each_head_its_slice():
    model = make("attention", seeds=(0,))
    e = draw(1, 2, 9, 6)
    w = model.weights(e)
    assert w.shape == (1, 2, 9, 6)
    torch.testing.assert_close(w[..., 0], w[..., 2])
    assert (w[..., 0] != w[..., 3]).any()
    torch.testing.assert_close(w.sum(-2), torch.ones(1, 2, 6))
    q, k = model.query(e)[0, 0, -1, 3:], model.key(e)[0, 0, :, 3:]
    expected = recall.attention_weights(q, k, model.slope[0, 0, 1])
    torch.testing.assert_close(w[0, 0, :, 3], expected)


@pytest.mark.parametrize(
    ("call", "error", "why"),
    [
        (lambda: recall.Attention(4, ()), ValueError, "seeds"),
        (lambda: recall.Attention(4, (-1,)), ValueError, "seed"),
        (lambda: recall.Attention(4, (0,), 7), ValueError, "multiple"),
        (lambda: recall.Attention(0, (0,)), ValueError, "width"),
        (lambda: recall.Attention(4, (0,), 6, 0), ValueError, "hidden"),
        (lambda: make("window")(draw(2, 5)), ValueError, "tokens must have shape"),
        (lambda: make("window")(draw(3, 5, 7, 4)), ValueError, "tokens must have shape"),
        (lambda: make("window")(draw(5, 7, 3)), ValueError, "tokens must have shape"),
        (lambda: make("window")(np.zeros((5, 7, 4))), TypeError, "tensor"),
        (lambda: make("window")(torch.zeros(5, 7, 4, dtype=torch.long)), TypeError, "floating"),
    ],
)
def test_bad_models(call, error, why):
    with pytest.raises(error, match=why):
        call()


# ------------------------------------------------------------------------------ training

QUICK = Recipe(steps=25, batch_size=16, learning_rate=1e-2)


def test_training_a_model_does_not_depend_on_its_company():
    task = RecallTask()
    together, alone = recall.SlowDecay(4, (0, 1), 6, 8), recall.SlowDecay(4, (1,), 6, 8)
    both = recall.train_recall(together, task, T=12, recipe=QUICK)
    one = recall.train_recall(alone, task, T=12, recipe=QUICK)
    np.testing.assert_allclose(both[:, 1], one[:, 0], rtol=1e-6)
    assert both.shape == (25, 2)


def test_training_is_what_a_plain_loop_does():
    """One model, Adam by PyTorch, rate along half a cosine, batches in the order of the seed."""
    task, model = RecallTask(), recall.FastDecay(4, (2,), 6, 8)
    losses = recall.train_recall(model, task, T=12, recipe=QUICK)
    plain = recall.FastDecay(4, (2,), 6, 8)
    adam = torch.optim.Adam(plain.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 25)
    rng, expected = np.random.default_rng([4, 2]), []
    for _ in range(25):
        batch = task.draw(rng, 16, 12)
        loss = ((plain(torch.tensor(batch.tokens))[0] - torch.tensor(batch.targets)) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        expected.append(loss.item())
    np.testing.assert_allclose(losses[:, 0], expected, rtol=1e-9)


def test_training_learns_something_and_shows_progress():
    seen = []

    def watch(steps):
        for step in steps:
            seen.append(step)
            yield step

    model = recall.SlowDecay(4, (0,), 12, 24)
    recipe = Recipe(steps=250, batch_size=32, learning_rate=1e-2)
    recall.train_recall(model, RecallTask(), T=16, recipe=recipe, progress=watch)
    assert seen == list(range(250))
    assert recall.score(model, RecallTask().draw(9, 200, 16))[0] < 0.5


def test_training_says_when_it_breaks():
    with pytest.raises(ValueError, match="batch_size"):
        recall.train_recall(make("window"), RecallTask(), recipe=Recipe(1, None))
    with pytest.raises(ValueError, match="tokens must have shape"):
        recall.train_recall(make("window"), RecallTask(4), recipe=QUICK)
    model = make("slow decay")
    with torch.no_grad():
        model.head_out.bias[1] = float("nan")
    with pytest.raises(TrainingDiverged) as caught:
        recall.train_recall(model, RecallTask(), recipe=QUICK)
    assert (caught.value.step, caught.value.model) == (0, 1)


def test_score_does_not_depend_on_chunks():
    model, batch = make("selective"), RecallTask(1).draw(0, 50, 20)
    whole = recall.score(model, batch)
    np.testing.assert_allclose(recall.score(model, batch, chunk=7), whole)
    by_hand = model(torch.tensor(batch.tokens)).detach().numpy()
    np.testing.assert_allclose(whole, events.relative_error(by_hand, batch.targets))


def test_held_out_sequences_are_common_and_of_the_kind_asked_for():
    batch = recall.held_out(RecallTask(1, True), 48, 16, 5)
    assert (batch.at == 16).all()
    np.testing.assert_array_equal(
        batch.tokens, recall.held_out(RecallTask(1, True), 48, 16, 5).tokens
    )
    assert (recall.held_out(SumTask(), 48, 3, 5).at == 3).all()
    assert len(set(recall.held_out(RecallTask(), 48, 0, 50).at)) > 10
    training = RecallTask().draw(np.random.default_rng([4, 0]), 5, 48)
    assert (recall.held_out(RecallTask(), 48, 0, 5).tokens != training.tokens).any()


def test_error_profile_has_a_row_a_seed():
    model = make("fast decay")
    profile = recall.error_profile(model, RecallTask(), (1, 5, 9), 20, 30)
    assert profile.shape == (2, 3)
    np.testing.assert_allclose(
        profile[:, 1], recall.score(model, recall.held_out(RecallTask(), 20, 5, 30))
    )


@pytest.mark.parametrize(
    ("errors", "word"),
    [
        ([0.0019], "exact"),
        ([0.002], "close"),
        ([0.0, 0.11], "close"),
        ([0.06], "roughly"),
        ([0.28], "partly"),
        ([0.57], "little"),
        ([0.9], "nothing"),
        ([5.0], "nothing"),
    ],
)
def test_level(errors, word):
    assert recall.level(errors) == word


def test_level_refuses_nan():
    with pytest.raises(ValueError, match="errors"):
        recall.level([np.nan])


# --------------------------------------------------------------------- the committed table


def test_the_committed_table_was_made_with_these_settings_and_is_complete():
    sweep = events.read_sweep()
    assert sweep.stamp == tables.stamp(recall.sweep_settings())
    for task, kind in events.TASKS.items():
        near, far = (
            (recall.ITEMS, recall.FAR_ITEMS)
            if isinstance(kind, SumTask)
            else (recall.DISTANCES, recall.FAR_DISTANCES)
        )
        for name in recall.MODELS:
            for T, at in ((48, (0, *near)), (256, far)):
                for a in at:
                    assert len(sweep.errors(task, name, T, a)) == len(recall.SEEDS)
    for task, name in recall.LONGER_RUNS:
        errors = sweep.errors(task, recall.longer(name), 48, 0)
        assert len(errors) == len(recall.LONGER_SEEDS)


def test_a_sweep_entry_has_every_row(monkeypatch):
    monkeypatch.setattr(recall, "RECIPE", Recipe(1, 2, 1e-2))
    monkeypatch.setattr(recall, "held_out", lambda task, T, at: task.draw(at, 2, T))
    seeds, rows = recall.sweep_entry(RecallTask(), "window")
    assert seeds == list(recall.SEEDS)
    assert set(rows) == {(48, 0), *((48, k) for k in recall.DISTANCES)} | {
        (256, k) for k in recall.FAR_DISTANCES
    }
    seeds, rows = recall.sweep_entry(SumTask(), recall.longer("fast decay"))
    assert seeds == list(recall.LONGER_SEEDS)
    assert (48, 16) in rows
    assert all(len(e) == len(seeds) for e in rows.values())
