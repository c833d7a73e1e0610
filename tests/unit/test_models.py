"""The two learners: sizes, causality, stacked forms, and the clamp that half precision breaks."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from book_utils import ssm
from book_utils.models import (
    DECAY_MARGIN,
    FORECASTERS,
    CausalTransformer,
    ComplexSSM,
    DiagonalSSM,
    clamped_decays,
    count_parameters,
    stack_parameters,
    unstack_parameters,
)

PROPERTY = settings(deadline=None, max_examples=25, derandomize=True)
F64 = torch.float64
MAKERS = {
    "transformer": lambda seed=0: CausalTransformer(seed=seed),
    "two heads": lambda seed=0: CausalTransformer(8, 12, 2, 40, seed=seed),
    "ssm": lambda seed=0: DiagonalSSM(seed=seed),
    "one channel": lambda seed=0: DiagonalSSM(3, 1, seed=seed),
    "ssm, mlp": lambda seed=0: DiagonalSSM(4, 6, 5, seed=seed),
    "complex": lambda seed=0: ComplexSSM(seed=seed),
    "one pair": lambda seed=0: ComplexSSM(3, 2, seed=seed),
    "complex, mlp": lambda seed=0: ComplexSSM(4, 6, 5, seed=seed),
}
SSMS = {name: make for name, make in MAKERS.items() if isinstance(make(), DiagonalSSM)}
ssms = pytest.mark.parametrize("make", SSMS.values(), ids=SSMS.keys())
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def draw(shape, seed=0, dtype=F64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def shaken(model, seed=1):
    """The model in float64 with every parameter moved off its first value, biases too."""
    rng, model = np.random.default_rng(seed), model.double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.from_numpy(0.3 * rng.normal(size=tuple(p.shape))))
    return model


@pytest.mark.parametrize(
    ("model", "size"),
    [
        (CausalTransformer(), 3329),
        (CausalTransformer(8, 34), 1195),
        (CausalTransformer(heads=4), 3329),
        (DiagonalSSM(), 1185),
        (DiagonalSSM(16, 95), 3327),
        (DiagonalSSM(16, 2), 165),
        (DiagonalSSM(16, 16, 16), 1185),
        (ComplexSSM(), 1185),
        (ComplexSSM(16, 48, 48), 3329),
    ],
)
def test_parameter_counts(model, size):
    assert count_parameters(model) == size == sum(p.numel() for p in model.parameters())
    with torch.no_grad():
        model.head.bias.requires_grad_(False)
    assert count_parameters(model) == size - 1


@pytest.mark.parametrize(("d", "d_ff", "T_max"), [(16, 48, 32), (8, 34, 32), (4, 5, 7)])
def test_the_formulas_of_the_docstrings(d, d_ff, T_max):
    formula = 4 * d**2 + (2 * d_ff + T_max + 13) * d + d_ff + 1
    assert count_parameters(CausalTransformer(d, d_ff, T_max=T_max)) == formula
    assert count_parameters(DiagonalSSM(d, d_ff)) == 2 * d_ff * d + 2 * d_ff + 6 * d + 1


def test_the_experiments_forecasters_come_in_two_sizes():
    for name, make in FORECASTERS.items():
        size = count_parameters(make(0))
        large = name.startswith("large") or name == "transformer"
        first, again, other = (list(make(seed).parameters()) for seed in (3, 3, 4))
        assert all(torch.equal(p, q) for p, q in zip(first, again, strict=True))
        assert not all(torch.equal(p, q) for p, q in zip(first, other, strict=True))
        assert (3293 <= size <= 3329) if large else (1185 <= size <= 1195), (name, size)
    mlp = {name: make(0).mlp for name, make in FORECASTERS.items() if "SSM" in name}
    assert {name for name, layers in mlp.items() if len(layers)} == {n for n in mlp if "MLP" in n}


@makers
def test_shapes_and_dtypes(make):
    model = make()
    for shape in ((5, 7, 2), (7, 2), (2, 3, 7, 2), (1, 1, 2)):
        out = model(draw(shape, dtype=torch.float32))
        assert out.shape == shape[:-1]
        assert out.dtype == torch.float32


@makers
def test_the_future_cannot_change_the_past(make):
    model, x = shaken(make()), draw((3, 12, 2))
    before = model(x)
    for t in range(11):
        changed = x.clone()
        changed[:, t + 1 :] += 5.0
        after = model(changed)
        torch.testing.assert_close(after[:, : t + 1], before[:, : t + 1], rtol=0, atol=1e-12)
        assert (after[:, t + 1] - before[:, t + 1]).abs().min() > 1e-6


@makers
def test_no_gradient_reaches_a_forecast_from_the_future(make):
    model, x = shaken(make()), draw((12, 2))
    jacobian = torch.autograd.functional.jacobian(model, x)  # (T, T, 2)
    size = jacobian.abs().amax(dim=-1)
    assert (size.triu(1) == 0).all()
    assert (size.tril()[torch.ones(12, 12).tril() > 0] > 0).all()


@makers
def test_the_stacked_form_is_each_models_own(make):
    models = [shaken(make(seed), seed) for seed in range(3)]
    p, x = stack_parameters(models), draw((3, 5, 12, 2))
    own = torch.stack([m(x[i]) for i, m in enumerate(models)])
    torch.testing.assert_close(models[0].stacked_forward(p, x), own, rtol=1e-9, atol=1e-10)
    shared = torch.stack([m(x[0]) for m in models])
    torch.testing.assert_close(models[0].stacked_forward(p, x[0]), shared, rtol=1e-9, atol=1e-10)


@makers
def test_the_stacked_form_has_each_models_gradients(make):
    models = [shaken(make(seed), seed) for seed in range(2)]
    x, target = draw((2, 4, 9, 2)), draw((2, 4, 9), 5)
    p = {k: v.requires_grad_() for k, v in stack_parameters(models).items()}
    (models[0].stacked_forward(p, x) - target).square().sum().backward()
    for i, model in enumerate(models):
        (model(x[i]) - target[i]).square().sum().backward()
        for name, own in model.named_parameters():
            torch.testing.assert_close(p[name].grad[i], own.grad, rtol=1e-7, atol=1e-8)


@makers
def test_stacking_round_trip(make):
    models, others = [make(s) for s in (1, 2)], [make(s) for s in (8, 9)]
    p = stack_parameters(models)
    assert all(not v.requires_grad and len(v) == 2 for v in p.values())
    unstack_parameters(p, others)
    for a, b in zip(models, others, strict=True):
        for name, value in a.state_dict().items():
            torch.testing.assert_close(b.state_dict()[name], value, rtol=0, atol=0)


@makers
def test_seeds(make):
    a, b, c = (list(make(seed).parameters()) for seed in (3, 3, 4))
    assert all(torch.equal(p, q) for p, q in zip(a, b, strict=True))
    assert any(not torch.equal(p, q) for p, q in zip(a, c, strict=True))


def test_first_weights_have_pytorchs_distribution():
    for model in (CausalTransformer(seed=1), DiagonalSSM(seed=1)):
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                assert layer.weight.abs().max() <= bound * (1 + 1e-6)
                assert layer.weight.abs().max() > 0.7 * bound
    wide, narrow = CausalTransformer(seed=1, gain=1.0), CausalTransformer(seed=1)
    ratio = wide.head.weight / narrow.head.weight
    torch.testing.assert_close(ratio, torch.full_like(ratio, 3**0.5))


def test_transformer_weights_are_causal_rows():
    model, x = shaken(CausalTransformer(heads=2)), draw((4, 32, 2))
    forecasts, weights = model(x, return_weights=True)
    torch.testing.assert_close(forecasts, model(x))
    assert weights.shape == (4, 2, 32, 32)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 2, 32, dtype=F64))


def test_the_transformers_features_are_what_its_head_reads():
    model, x = shaken(CausalTransformer(heads=2)), draw((4, 9, 2))
    features = model.features(x)
    assert features.shape == (4, 9, 16)
    torch.testing.assert_close(model.head(features)[..., 0], model(x))


def test_transformer_equals_torch_layers_with_the_same_weights():
    model, x = shaken(CausalTransformer()), draw((3, 20, 2))
    layer = nn.TransformerEncoderLayer(
        16, 1, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    block, state = model.block, layer.state_dict()
    attention = block.attention.to_torch().state_dict()
    state.update({f"self_attn.{k}": v for k, v in attention.items()})
    for theirs, ours in (
        ("linear1", block.mlp[0]),
        ("linear2", block.mlp[2]),
        ("norm1", block.norm_attention),
        ("norm2", block.norm_mlp),
    ):
        state.update({f"{theirs}.{k}": v for k, v in ours.state_dict().items()})
    layer.load_state_dict(state)
    z = model.embed(x) + model.positions.table[:20]
    forbidden = torch.ones(20, 20, dtype=torch.bool).triu(1)  # torch: True = may NOT attend
    expected = model.head(layer(z, src_mask=forbidden)).squeeze(-1)
    torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-10)


def test_the_position_matters_to_the_transformer_and_not_to_the_ssm():
    x = draw((1, 8, 2))
    shifted = torch.cat([torch.zeros(1, 3, 2, dtype=F64), x], dim=1)
    transformer, layer = shaken(CausalTransformer()), shaken(DiagonalSSM())
    assert (transformer(shifted)[:, 3:] - transformer(x)).abs().min() > 1e-6
    # The SSM is time-invariant: zero tokens before the start change only its bias's response,
    # which is the same for every input.
    y = draw((1, 8, 2), 9)
    shifted_y = torch.cat([torch.zeros(1, 3, 2, dtype=F64), y], dim=1)
    torch.testing.assert_close(layer(shifted)[:, 3:] - layer(shifted_y)[:, 3:], layer(x) - layer(y))


def test_transformer_refuses_more_tokens_than_it_has_positions():
    with pytest.raises(ValueError, match="slots"):
        CausalTransformer(T_max=8)(draw((1, 9, 2), dtype=torch.float32))


@pytest.mark.parametrize("T_max", [1, 8])  # a table of one slot would broadcast
def test_the_stacked_transformer_refuses_them_too(T_max):
    model = CausalTransformer(T_max=T_max)
    p = stack_parameters([model, model])
    x = draw((2, 3, T_max, 2), dtype=torch.float32)
    assert model.stacked_forward(p, x).shape == (2, 3, T_max)
    with pytest.raises(ValueError, match=f"tokens are {T_max + 1} long, but .* only {T_max} slots"):
        model.stacked_forward(p, torch.cat([x, x[:, :, :1]], dim=2))


def test_models_that_differ_in_a_setting_are_not_stacked():
    pairs = [
        (CausalTransformer(heads=1), CausalTransformer(heads=4)),
        (DiagonalSSM(), DiagonalSSM().double()),
    ]
    other_norm = CausalTransformer()
    other_norm.block.norm_mlp.eps = 0.1
    for pair in [*pairs, (CausalTransformer(), other_norm)]:
        with pytest.raises(ValueError, match="with the same settings"):
            stack_parameters(pair)
    assert stack_parameters([CausalTransformer().eval(), CausalTransformer(seed=1)])


@makers
def test_tokens_of_another_dtype_are_refused(make):
    model, x = make(), draw((2, 3, 4, 2))
    with pytest.raises(TypeError, match=r"model's dtype torch\.float32, got torch\.float64"):
        model(x)
    with pytest.raises(TypeError, match=r"model's dtype torch\.float32, got torch\.float64"):
        model.stacked_forward(stack_parameters([model, model]), x)


@PROPERTY
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 100))
def test_ssm_equals_a_plain_loop(T, n, seed):
    model, x = shaken(DiagonalSSM(4, n, seed=seed)), draw((2, T, 2), seed)
    with torch.no_grad():
        h, expected = torch.zeros(2, n, dtype=F64), []
        for t in range(T):
            e = x[:, t] @ model.embed.weight.T + model.embed.bias
            a = torch.sigmoid(model.decay_logits)
            h = a * h + e @ model.B.weight.T + model.B.bias
            o = h @ model.C.weight.T + model.C.bias + model.skip * e
            expected.append((o @ model.head.weight.T + model.head.bias)[:, 0])
        torch.testing.assert_close(model(x), torch.stack(expected, 1), rtol=1e-9, atol=1e-10)


@ssms
def test_the_states_are_what_the_steps_carry(make):
    model, x = shaken(make()), draw((5, 12, 2))
    with torch.no_grad():
        h, states, forecasts = torch.zeros(5, model.C.in_features, dtype=F64), [], []
        for t in range(12):
            h, forecast = model.step(h, x[:, t])
            states.append(h)
            forecasts.append(forecast)
        torch.testing.assert_close(torch.stack(states, 1), model.states(x), rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(torch.stack(forecasts, 1), model(x), rtol=1e-9, atol=1e-10)


def test_a_complex_channel_is_a_turning_pair_of_real_numbers():
    model, x = shaken(ComplexSSM(4, 6)), draw((2, 20, 2))
    turn = np.zeros((6, 6))
    with torch.no_grad():
        for j, (rho, omega) in enumerate(zip(model.decays, model.angles, strict=True)):
            c, s = rho * omega.cos(), rho * omega.sin()
            turn[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [[c, -s], [s, c]]
        h = torch.zeros(2, 6, dtype=F64)
        for t in range(20):
            h = h @ torch.from_numpy(turn).T + model.B(model.embed(x[:, t]))
            torch.testing.assert_close(model.states(x)[:, t], h, rtol=1e-9, atol=1e-10)
    assert (model.multipliers.abs() < 1).all()


def test_a_complex_channel_with_no_angle_is_two_real_ones():
    real, turning = shaken(DiagonalSSM(4, 6)), ComplexSSM(4, 6).double()
    weights = real.state_dict()
    logits = weights.pop("decay_logits")[::2]  # one decay a pair
    turning.load_state_dict({**weights, "decay_logits": logits, "angles": torch.zeros(3)})
    with torch.no_grad():
        real.decay_logits.copy_(logits.repeat_interleave(2))
        torch.testing.assert_close(turning(draw((2, 9, 2))), real(draw((2, 9, 2))))


def test_the_nonlinear_head_keeps_the_memory_and_bends_the_readout():
    model, x, y = shaken(DiagonalSSM(4, 6, 5)), draw((2, 9, 2)), draw((2, 9, 2), 1)
    zero = model(torch.zeros_like(x))
    assert (model(x + y) - model(x) - model(y) + zero).abs().max() > 1e-3
    for layer in (model.mlp[0], model.mlp[2]):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    straight = DiagonalSSM(4, 6).double()
    straight.load_state_dict({k: v for k, v in model.state_dict().items() if "mlp" not in k})
    torch.testing.assert_close(model(x), straight(x))


def test_ssm_step_by_step_is_the_scan_and_the_books_recurrence():
    model, x = shaken(DiagonalSSM()), draw((5, 32, 2))
    h, outputs = torch.zeros(5, 32, dtype=F64), []
    with torch.no_grad():
        for t in range(32):
            h, forecast = model.step(h, x[:, t])
            outputs.append(forecast)
        whole = model(x)
        torch.testing.assert_close(torch.stack(outputs, 1), whole, rtol=1e-9, atol=1e-10)
        # The same through `ssm.recurrence`, the biases fed as a third input that is always one.
        inputs = torch.cat([x, torch.ones(5, 32, 1, dtype=F64)], dim=-1)
        embed = torch.cat([model.embed.weight, model.embed.bias[:, None]], dim=1)  # (d, 3)
        B_bar = model.B.weight @ embed
        B_bar[:, 2] += model.B.bias
        states = ssm.recurrence(model.decays, B_bar, torch.eye(32, dtype=F64), inputs)
        read = states @ model.C.weight.T + model.C.bias + model.skip * (inputs @ embed.T)
        torch.testing.assert_close(model.head(read).squeeze(-1), whole, rtol=1e-9, atol=1e-10)


def test_ssm_is_affine_in_its_tokens():
    model, x, y = shaken(DiagonalSSM()), draw((2, 9, 2)), draw((2, 9, 2), 1)
    zero = model(torch.zeros_like(x))
    torch.testing.assert_close(
        model(2 * x - 3 * y) - zero, 2 * (model(x) - zero) - 3 * (model(y) - zero)
    )


def test_decays_start_spread_out_and_stay_inside_the_clamp():
    decays = DiagonalSSM(n=32).decays.detach()
    assert 0.05 < decays.min() < 0.1
    assert 0.9 < decays.max() < 0.95
    assert (decays.diff() > 0).all()
    extreme = clamped_decays(torch.tensor([-200.0, 0.0, 200.0]))
    assert extreme.tolist() == pytest.approx([1e-4, 0.5, 1 - 1e-4])
    assert extreme[2] < 1


def test_an_unclamped_float32_sigmoid_reaches_one():
    # The reason for the clamp: from about 16.75 on, float32 cannot tell σ(θ) from 1.
    assert torch.sigmoid(torch.tensor(17.0)) == 1.0
    assert clamped_decays(torch.tensor(17.0)) < 1.0


def test_the_clamp_bounds_the_state():
    model = DiagonalSSM(1, 1).double()
    with torch.no_grad():
        model.decay_logits.fill_(50.0)
    h = ssm.scan(model.decays.detach(), torch.ones(200_000, 1, dtype=F64))
    assert h.max() <= 1e4 * (1 + 1e-9)
    assert h.max() > 0.99e4


def test_a_saturated_decay_gets_no_gradient():
    theta = torch.tensor([20.0, 1.0, -20.0], requires_grad=True)
    clamped_decays(theta).sum().backward()
    assert theta.grad[0] == 0
    assert theta.grad[2] == 0
    assert theta.grad[1] > 0.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_clamp_fails_in_half_precision(dtype):
    # What would happen: the upper bound itself rounds to one, so nothing is clamped.
    assert torch.tensor(1 - DECAY_MARGIN, dtype=dtype) == 1.0
    with pytest.raises(ValueError, match="float32 or finer"):
        clamped_decays(torch.zeros(3, dtype=dtype))
    with pytest.raises(ValueError, match="float32 or finer"):
        DiagonalSSM().to(dtype)(draw((1, 4, 2), dtype=dtype))


TOKENS = torch.zeros(2, 4, 2)


@makers
@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (np.zeros((2, 4, 2)), TypeError, "floating-point torch tensor"),
        (TOKENS.long(), TypeError, "floating-point torch tensor"),
        (TOKENS[..., :1], ValueError, "tokens must have shape"),
        (TOKENS[:, :0], ValueError, "tokens must have shape"),
        (TOKENS[0, 0], ValueError, "tokens must have shape"),
        (torch.full((2, 4, 2), torch.nan), ValueError, "NaN"),
    ],
)
def test_bad_tokens(make, tokens, error, message):
    with pytest.raises(error, match=message):
        make()(tokens)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (functools.partial(CausalTransformer, 0), ValueError),
        (functools.partial(CausalTransformer, 6, heads=4), ValueError),
        (functools.partial(CausalTransformer, d_ff=1.5), TypeError),
        (functools.partial(CausalTransformer, T_max=0), ValueError),
        (functools.partial(CausalTransformer, gain=0.0), ValueError),
        (functools.partial(DiagonalSSM, n=0), ValueError),
        (functools.partial(DiagonalSSM, d="wide"), TypeError),
        (functools.partial(DiagonalSSM, d_ff=-1), ValueError),
        (functools.partial(ComplexSSM, n=5), ValueError),
        (functools.partial(DiagonalSSM, seed=None), TypeError),
        (functools.partial(DiagonalSSM, gain=float("nan")), ValueError),
        (functools.partial(clamped_decays, torch.zeros(2, dtype=torch.long)), TypeError),
        (functools.partial(clamped_decays, np.zeros(2)), TypeError),
        (functools.partial(stack_parameters, []), ValueError),
        (functools.partial(stack_parameters, [DiagonalSSM(), CausalTransformer()]), ValueError),
        (functools.partial(stack_parameters, [DiagonalSSM(), DiagonalSSM(n=2)]), ValueError),
    ],
)
def test_bad_settings(make, error):
    with pytest.raises(error):
        make()
