"""Positions against complex arithmetic, plain loops and the properties they are used for."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils.positions import (
    LearnedPositions,
    frequencies,
    rotary,
    rotation_matrix,
    sinusoidal_positions,
)

PROPERTY = settings(deadline=None, max_examples=40, derandomize=True)
WIDTHS = st.integers(1, 8).map(lambda half: 2 * half)
F64 = torch.float64


def normal(shape, seed=0, dtype=F64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(dtype)


def test_frequencies_fall_from_one():
    expected = [1.0, 10.0**-1, 10.0**-2, 10.0**-3]
    np.testing.assert_allclose(frequencies(8, base=10_000.0), expected, rtol=1e-15)
    assert frequencies(2).tolist() == [1.0]


def test_sinusoidal_matches_a_plain_loop():
    table = sinusoidal_positions(7, 6, dtype=F64)
    for t in range(7):
        for i in range(3):
            angle = t / 10_000 ** (2 * i / 6)
            assert table[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-15)
            assert table[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-15)


def test_sinusoidal_first_row_and_length():
    table = sinusoidal_positions(1, 8)
    assert table.shape == (1, 8)
    assert table.dtype == torch.get_default_dtype()
    assert table[0].tolist() == [0.0, 1.0] * 4


def test_sinusoidal_stays_accurate_at_late_positions():
    # The angle 107 999 rad rounded to float32 would be wrong by up to 0.004 rad.
    table = sinusoidal_positions(108_000, 2, dtype=torch.float32)
    assert table[-1, 0].item() == pytest.approx(math.sin(107_999.0), abs=1e-7)
    slow = sinusoidal_positions(108_000, 4, dtype=torch.float32)[-1, 2].item()
    assert slow == pytest.approx(math.sin(107_999 / 100), abs=1e-7)


@PROPERTY
@given(WIDTHS, st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_sinusoidal_inner_product_depends_on_the_offset(d, s, t, shift):
    table = sinusoidal_positions(100, d, dtype=F64)
    here = table[s] @ table[t]
    there = table[s + shift] @ table[t + shift]
    torch.testing.assert_close(here, there, atol=1e-12, rtol=0)
    assert (table[t] @ table[t]).item() == pytest.approx(d / 2)


@PROPERTY
@given(WIDTHS, st.integers(0, 40), st.integers(0, 40))
def test_sinusoidal_shift_is_a_rotation(d, t, k):
    table = sinusoidal_positions(100, d, dtype=F64)
    torch.testing.assert_close(rotation_matrix(k, d).T @ table[t], table[t + k], atol=1e-12, rtol=0)


def test_learned_adds_the_slots_vectors():
    layer = LearnedPositions(5, 4, seed=1)
    x = normal((2, 3, 4), dtype=torch.float32)
    torch.testing.assert_close(layer(x), x + layer.table[:3])
    torch.testing.assert_close(layer(x, start=2), x + layer.table[2:5])
    assert sum(p.numel() for p in layer.parameters()) == 20


def test_learned_trains_only_the_slots_it_used():
    layer = LearnedPositions(5, 4)
    layer(torch.zeros(2, 3, 4)).sum().backward()
    assert layer.table.grad is not None
    assert layer.table.grad.sum(dim=1).tolist() == [8.0, 8.0, 8.0, 0.0, 0.0]


def test_learned_seed_decides_the_values():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (LearnedPositions(64, 16, seed=s).table for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.std().item() == pytest.approx(0.02, rel=0.1)
    assert LearnedPositions(64, 16, std=1.0).table.std().item() == pytest.approx(1.0, rel=0.1)
    assert torch.equal(before, torch.get_rng_state())


def test_learned_refuses_positions_it_never_had():
    layer = LearnedPositions(4, 2)
    assert layer(torch.zeros(4, 2)).shape == (4, 2)
    with pytest.raises(ValueError, match="only 4 were made"):
        layer(torch.zeros(5, 2))
    with pytest.raises(ValueError, match="slots 3 … 4"):
        layer(torch.zeros(2, 2), start=3)


def test_rotary_is_multiplication_by_unit_complex_numbers():
    x = normal((2, 3, 5, 8)).numpy()
    turns = np.exp(1j * np.arange(5)[:, None] * 10_000.0 ** (-np.arange(0, 8, 2) / 8))
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turns
    expected = np.stack((pairs.real, pairs.imag), axis=-1).reshape(x.shape)
    np.testing.assert_allclose(rotary(torch.from_numpy(x)), expected, atol=1e-14)


def test_rotary_first_position_is_unchanged():
    x = normal((1, 6))
    assert torch.equal(rotary(x), x)


@PROPERTY
@given(WIDTHS, st.integers(0, 50), st.integers(0, 50), st.integers(-30, 1000), st.integers(0, 9))
def test_rotary_score_depends_on_the_offset(d, s, t, shift, seed):
    q, k = normal((1, d), seed), normal((1, d), seed + 100)

    def score(i, j):
        return (rotary(q, torch.tensor([i])) * rotary(k, torch.tensor([j]))).sum()

    torch.testing.assert_close(score(s, t), score(s + shift, t + shift), atol=1e-9, rtol=0)
    relative = q[0] @ rotation_matrix(t - s, d) @ k[0]
    torch.testing.assert_close(score(s, t), relative, atol=1e-9, rtol=0)


@PROPERTY
@given(WIDTHS, st.integers(1, 6), st.integers(0, 9))
def test_rotary_keeps_lengths_and_composes(d, T, seed):
    x = normal((T, d), seed)
    once = torch.arange(T)
    torch.testing.assert_close(rotary(x).norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(rotary(rotary(x, once), 2 * once), rotary(x, 3 * once))


def test_rotary_takes_real_times():
    x = normal((2, 4))
    times = torch.tensor([0.0, 0.5])
    torch.testing.assert_close(rotary(x, times)[1], rotation_matrix(0.5, 4) @ x[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rotary_keeps_dtype_and_stays_close(dtype):
    x = normal((6, 8), dtype=dtype)
    turned = rotary(x)
    assert turned.dtype == dtype
    torch.testing.assert_close(
        turned.double(), rotary(x.double()), atol=8 * torch.finfo(dtype).eps, rtol=0
    )


def test_rotary_empty_batch_and_gradient():
    assert rotary(torch.zeros(0, 3, 4)).shape == (0, 3, 4)
    x = normal((3, 4)).requires_grad_()
    assert torch.autograd.gradcheck(rotary, (x,))


def test_rotation_matrix_is_a_group():
    for s, t in ((0, 0), (1, 5), (7, 2), (-3, 3)):
        a, b = rotation_matrix(s, 6), rotation_matrix(t, 6)
        torch.testing.assert_close(a @ b, rotation_matrix(s + t, 6))
        torch.testing.assert_close(a.T @ b, rotation_matrix(t - s, 6))
    x = normal((4, 6))
    torch.testing.assert_close(rotary(x)[3], rotation_matrix(3, 6) @ x[3])


X = torch.zeros(3, 4)
BAD = {
    "odd width": (lambda: frequencies(3), ValueError, "d must be even"),
    "no width": (lambda: frequencies(0), ValueError, "d must be at least 2"),
    "float width": (lambda: frequencies(4.0), TypeError, "d must be an integer"),
    "base 0": (lambda: frequencies(4, base=0), ValueError, "base must be above zero"),
    "base tiny": (lambda: frequencies(64, base=5e-324), ValueError, "base is 5e-324, so small"),
    "sinusoidal tiny base": (
        lambda: sinusoidal_positions(3, 64, base=5e-324),
        ValueError,
        "base is 5e-324, so small",
    ),
    "rotary tiny base": (lambda: rotary(torch.zeros(3, 64), base=5e-324), ValueError, "so small"),
    "sinusoidal ints": (
        lambda: sinusoidal_positions(3, 4, dtype=torch.int64),
        TypeError,
        "dtype must be a floating-point torch dtype, got torch.int64",
    ),
    "sinusoidal name": (lambda: sinusoidal_positions(3, 4, dtype="float32"), TypeError, "dtype"),
    "learned list": (lambda: LearnedPositions(3, 2)([[1.0, 2.0]]), TypeError, "x must be a torch"),
    "rotary inf": (lambda: rotary(X + math.inf), ValueError, "x must be finite"),
    "rotary complex": (
        lambda: rotary(X, torch.ones(3, dtype=torch.complex64)),
        TypeError,
        "tensor of reals, got torch.complex64",
    ),
    "rotary angle": (
        lambda: rotary(torch.zeros(2, 4), torch.full((2,), 1e200, dtype=F64), base=1e-250),
        ValueError,
        "the angles, positions times frequencies, must be finite",
    ),
    "matrix angle": (lambda: rotation_matrix(1e200, 4, base=1e-250), ValueError, "the angles"),
    "base nan": (lambda: frequencies(4, base=math.nan), ValueError, "base must be finite"),
    "T 0": (lambda: sinusoidal_positions(0, 4), ValueError, "T must be at least 1"),
    "T float": (lambda: sinusoidal_positions(2.5, 4), TypeError, "T must be an integer"),
    "sinusoidal odd": (lambda: sinusoidal_positions(2, 5), ValueError, "d must be even"),
    "no slots": (lambda: LearnedPositions(0, 4), ValueError, "T_max must be at least 1"),
    "slot width": (lambda: LearnedPositions(3, 0), ValueError, "d must be at least 1"),
    "std 0": (lambda: LearnedPositions(3, 4, std=0.0), ValueError, "std must be above zero"),
    "no seed": (lambda: LearnedPositions(3, 4, seed=None), TypeError, "seed must be an integer"),
    "wrong width": (lambda: LearnedPositions(3, 4)(torch.zeros(2, 5)), ValueError, "width 4"),
    "start": (lambda: LearnedPositions(3, 4)(X, start=-1), ValueError, "start must be at least 0"),
    "one axis": (lambda: LearnedPositions(3, 4)(torch.zeros(4)), ValueError, r"\(\.\.\., T, d\)"),
    "array": (lambda: rotary(np.zeros((3, 4))), TypeError, "got ndarray"),
    "integers": (lambda: rotary(torch.zeros(3, 4, dtype=torch.int64)), TypeError, "int64"),
    "rotary one axis": (lambda: rotary(torch.zeros(4)), ValueError, r"\(\.\.\., T, d\)"),
    "rotary odd": (lambda: rotary(torch.zeros(3, 5)), ValueError, "d must be even"),
    "list": (lambda: rotary(X, [0, 1, 2]), TypeError, "positions must be a torch tensor"),
    "too few": (lambda: rotary(X, torch.arange(2)), ValueError, r"shape \(3,\)"),
    "nan": (lambda: rotary(X, torch.full((3,), math.nan)), ValueError, "positions must be finite"),
    "offset": (lambda: rotation_matrix(math.inf, 4), ValueError, "offset must be finite"),
    "matrix odd": (lambda: rotation_matrix(1, 3), ValueError, "d must be even"),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
