"""The selective scan against a loop, values and gradients, and what selectivity breaks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import selective as sel
from book_utils import ssm

WRITES = ["euler", "zoh"]


def draw(seed, batch=(), T=7, D=3, N=2):
    rng = np.random.default_rng(seed)
    shapes = {"x": (*batch, T, D), "dt": (*batch, T, D), "A": (D, N), "B": (*batch, T, N)}
    made = {name: torch.from_numpy(rng.normal(size=shape)) for name, shape in shapes.items()}
    made["dt"], made["A"] = made["dt"].exp(), -made["A"].exp()
    made["C"] = torch.from_numpy(rng.normal(size=(*batch, T, N)))
    return made


@settings(deadline=None, max_examples=25, derandomize=True)
@given(seed=st.integers(0, 10**6), T=st.integers(1, 20), write=st.sampled_from(WRITES))
def test_scan_equals_the_loop(seed, T, write):
    given_ = draw(seed, (2,), T)
    scan, loop = (f(**given_, write=write) for f in (sel.selective_scan, sel.selective_loop))
    torch.testing.assert_close(scan, loop, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("write", WRITES)
def test_gradients_of_the_scan_equal_those_of_the_loop(write):
    gradients = []
    for function in (sel.selective_scan, sel.selective_loop):
        given_ = {name: z.requires_grad_() for name, z in draw(0).items()}
        function(**given_, write=write).square().sum().backward()
        gradients.append([z.grad for z in given_.values()])
    for by_scan, by_loop in zip(*gradients, strict=True):
        torch.testing.assert_close(by_scan, by_loop, rtol=1e-9, atol=1e-11)


def test_gradients_are_those_of_finite_differences():
    given_ = {name: z.requires_grad_() for name, z in draw(1, T=4).items()}
    assert torch.autograd.gradcheck(
        lambda *z: sel.selective_scan(*z, write="zoh"), tuple(given_.values())
    )


def test_one_channel_by_hand():
    x, dt = torch.tensor([[2.0], [1.0]]), torch.tensor([[math.log(2)], [math.log(4)]])
    A, B, C = torch.tensor([[-1.0]]), torch.tensor([[1.0], [3.0]]), torch.tensor([[1.0], [2.0]])
    h1 = math.log(2) * 2  # the multiplier does not matter for an empty state
    h2 = h1 / 4 + math.log(4) * 3
    torch.testing.assert_close(sel.selective_scan(x, dt, A, B, C), torch.tensor([[h1], [2 * h2]]))


def test_zoh_is_the_exact_hold_and_euler_is_delta_B():
    given_ = draw(2, T=5)
    del given_["C"]
    a, euler = sel.selective_coefficients(**given_)
    _, exact = sel.selective_coefficients(**given_, write="zoh")
    x, dt, A, B = (given_[name] for name in ("x", "dt", "A", "B"))
    for t, d, n in ((0, 0, 0), (4, 2, 1)):
        a_bar, b_bar = ssm.discretize_zoh_diagonal(
            A[d, n : n + 1].numpy(), B[t, n].reshape(1, 1).numpy(), dt[t, d].item()
        )
        assert a[t, d, n].item() == pytest.approx(a_bar[0])
        assert exact[t, d, n].item() == pytest.approx(b_bar[0, 0] * x[t, d].item())
        assert euler[t, d, n].item() == pytest.approx((dt[t, d] * B[t, n] * x[t, d]).item())


def test_equal_coefficients_give_back_the_fixed_layer():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 1))
    a, B, C = -rng.uniform(0.1, 2, 3), rng.normal(size=(3, 1)), rng.normal(size=(1, 3))
    fixed = ssm.recurrence(*ssm.discretize_zoh_diagonal(a, B, 0.2), C, x)
    tensor = torch.from_numpy
    found = sel.selective_scan(
        tensor(x), torch.full((12, 1), 0.2).double(), tensor(a)[None], tensor(B.T).expand(12, 3),
        tensor(C).expand(12, 3), write="zoh",
    )  # fmt: skip
    np.testing.assert_allclose(found, fixed, atol=1e-12)


def test_the_future_cannot_change_the_past():
    given_ = draw(0, T=9)
    later = {name: z.clone() for name, z in given_.items()}
    for name in ("x", "dt", "B", "C"):
        later[name][6:] += 0.5
    torch.testing.assert_close(
        sel.selective_scan(**later)[:6], sel.selective_scan(**given_)[:6], rtol=0, atol=0
    )


def layer(selective, seed=0):
    return sel.SelectiveSSM(4, 3, selective=selective, copies=2, step=0.5, seed=seed)


def tokens(seed, T=11):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(2, 3, T, 4))).float()


@pytest.mark.parametrize("selective", [True, False])
def test_superposition_holds_for_the_fixed_layer_alone(selective):
    with torch.no_grad():
        gap = sel.superposition_gap(layer(selective), tokens(0), tokens(1))
    assert (gap > 0.05) if selective else (gap < 1e-5)


@pytest.mark.parametrize("selective", [True, False])
def test_module_equals_the_functions_copy_by_copy(selective):
    module, x = layer(selective), tokens(0)
    dt, B, C = module.coefficients(x)
    for copy in range(2):
        A = -module.log_rate[copy].exp()
        for d in range(4):
            C_d = C[copy] if selective else C[copy, :, d, :]
            y = sel.selective_scan(
                x[copy, ..., d : d + 1], dt[copy, ..., d : d + 1], A[d : d + 1],
                B[copy].expand(3, 11, 3), C_d.expand(3, 11, 3),
            )  # fmt: skip
            found = module(x)[copy, ..., d] - module.skip[copy, ..., d] * x[copy, ..., d]
            torch.testing.assert_close(found, y[..., 0], rtol=1e-4, atol=1e-5)


def test_module_is_causal_and_starts_from_the_stated_step():
    module, x = layer(True), tokens(0)
    later = x.clone()
    later[:, :, 7:] += 1
    torch.testing.assert_close(module(later)[:, :, :7], module(x)[:, :, :7], rtol=0, atol=0)
    steps = module.coefficients(torch.zeros_like(x))[0]
    torch.testing.assert_close(steps, torch.full_like(steps, 0.5))
    assert (module.coefficients(x)[0] > 0).all()


def test_copies_are_independent_and_seeds_repeat():
    module = layer(True)
    assert not torch.equal(module.to_B[0], module.to_B[1])
    assert torch.equal(module.to_B, layer(True).to_B)
    assert not torch.equal(module.to_B, layer(True, seed=1).to_B)


def test_selective_copying_has_the_symbols_in_order():
    x, answers = sel.selective_copying(50, 9, 3, seed=0, kinds=5)
    assert x.shape == (50, 12)
    assert answers.shape == (50, 3)
    for row, answer in zip(x, answers, strict=True):
        assert (row[9:] == 6).all()
        assert (row[:9][row[:9] > 0] - 1 == answer).all()
    assert set(answers.flatten().tolist()) == set(range(5))
    places = (x[:, :9] > 0).float().mean(0)
    assert (places > 0.1).all()


def test_copying_needs_room_and_repeats_with_its_seed():
    full, _ = sel.selective_copying(2, 3, 3, seed=0)
    assert (full[:, :3] > 0).all()
    a, b = (sel.selective_copying(4, 8, 2, seed=5)[0] for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, sel.selective_copying(4, 8, 2, seed=6)[0])


OK = draw(0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: sel.selective_scan(**{**OK, "dt": -OK["dt"]}), ValueError, "dt must be above"),
        (lambda: sel.selective_scan(**{**OK, "A": -OK["A"]}), ValueError, "A must be below zero"),
        (lambda: sel.selective_loop(**{**OK, "B": OK["B"][:3]}), ValueError, "axis T"),
        (lambda: sel.selective_scan(**{**OK, "C": OK["C"][:, :1]}), ValueError, "axis N"),
        (lambda: sel.selective_scan(**OK, write="exact"), ValueError, "write must be one of"),
        (lambda: sel.selective_scan(**{**OK, "x": OK["x"].float()}), TypeError, "share one dtype"),
        (lambda: sel.SelectiveSSM(0, 2), ValueError, "width must be at least 1"),
        (lambda: sel.SelectiveSSM(2, 2)(torch.ones(3, 2)), ValueError, "x must have shape"),
        (lambda: sel.superposition_gap(3, torch.ones(1), torch.ones(1)), TypeError, "function"),
        (
            lambda: sel.superposition_gap(torch.relu, torch.ones(1), torch.ones(2)),
            ValueError,
            "share a shape",
        ),
        (
            lambda: sel.superposition_gap(torch.relu, -torch.ones(1), -torch.ones(1)),
            ValueError,
            "is zero",
        ),
        (lambda: sel.selective_copying(2, 3, 4, seed=0), ValueError, "length must be at least 4"),
        (lambda: sel.selective_copying(2, 3, 1, seed=None), TypeError, "seed"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
