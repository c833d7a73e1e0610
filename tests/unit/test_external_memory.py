"""A soft memory that is a dictionary when its addresses are sharp."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from book_utils import external_memory as em


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@settings(deadline=None, max_examples=30, derandomize=True)
@given(events=st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5)), max_size=15))
def test_sharp_addresses_make_a_dictionary(events):
    keys = torch.eye(5, dtype=torch.float64)
    memory = torch.cat([keys, torch.zeros(5, 1).double()], dim=1)  # a key and a value a row
    erase, plain = torch.tensor([0, 0, 0, 0, 0, 1.0]).double(), {}
    for name, value in events:
        address = em.content_address(memory[:, :5], keys[name], 1e3)
        memory = em.write(memory, address, erase, value * erase)
        plain[name] = value
    for name, value in plain.items():
        found = em.read(memory, em.content_address(memory[:, :5], keys[name], 1e3))
        assert found[5].item() == pytest.approx(value, abs=1e-9)


def test_content_address_by_hand():
    memory = torch.tensor([[2.0, 0.0], [0.0, 5.0], [0.0, 0.0]]).double()
    w = em.content_address(memory, torch.tensor([3.0, 0.0]).double(), 2.0)
    e2 = np.exp(2)
    np.testing.assert_allclose(w, [e2 / (e2 + 2), 1 / (e2 + 2), 1 / (e2 + 2)])
    even = em.content_address(memory, torch.zeros(2).double(), 2.0)
    np.testing.assert_allclose(even, 1 / 3)


def test_the_length_of_a_row_does_not_matter():
    memory, key = normal(0, 4, 3), normal(1, 3)
    scaled = memory * torch.tensor([1.0, 10.0, 0.1, 3.0])[:, None].double()
    torch.testing.assert_close(
        em.content_address(scaled, key, 3.0), em.content_address(memory, 7 * key, 3.0)
    )


def test_a_zero_row_gives_finite_gradients():
    memory = torch.zeros(3, 2, dtype=torch.float64).requires_grad_()
    em.content_address(memory, torch.ones(2).double(), 2.0)[0].backward()
    assert torch.isfinite(memory.grad).all()


def test_shift_moves_along_a_ring():
    w = torch.tensor([1.0, 0.0, 0.0, 0.0])
    forth, back = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([1.0, 0.0, 0.0])
    assert em.shift(w, forth).tolist() == [0, 1, 0, 0]
    assert em.shift(w, back).tolist() == [0, 0, 0, 1]
    blur = em.shift(w, torch.tensor([0.1, 0.8, 0.1]))
    np.testing.assert_allclose(blur, [0.8, 0.1, 0, 0.1], rtol=1e-6)
    np.testing.assert_allclose(em.sharpen(blur, 30.0), w, atol=1e-6)
    np.testing.assert_allclose(em.sharpen(blur, 1.0), blur, rtol=1e-6)


def test_shift_is_the_circular_convolution_by_fft():
    w, s = torch.softmax(normal(0, 7), 0), torch.softmax(normal(1, 3), 0)
    kernel = torch.zeros(7).double()
    kernel[[-1, 0, 1]] = s
    expected = torch.fft.ifft(torch.fft.fft(w) * torch.fft.fft(kernel)).real
    torch.testing.assert_close(em.shift(w, s), expected)


def test_addresses_remain_addresses():
    a, b = (torch.softmax(normal(seed, 6), 0) for seed in (0, 1))
    for w in (em.interpolate(a, b, 0.3), em.shift(a, torch.tensor([0.2, 0.5, 0.3]).double()),
              em.sharpen(a, 2.5)):  # fmt: skip
        assert (w >= 0).all()
        assert w.sum().item() == pytest.approx(1)
    torch.testing.assert_close(em.interpolate(a, b, 1), a)
    torch.testing.assert_close(em.interpolate(a, b, 0), b)


def test_write_and_read_by_hand():
    memory = torch.tensor([[4.0, 2.0], [0.0, 1.0]])
    w = torch.tensor([0.5, 0.5])
    after = em.write(memory, w, torch.tensor([1.0, 0.0]), torch.tensor([6.0, 0.0]))
    assert after.tolist() == [[5, 2], [3, 1]]  # 4 (1 − .5) + 3, and 0 + 3
    assert memory.tolist() == [[4, 2], [0, 1]]
    assert em.read(after, w).tolist() == [4, 1.5]


M, W = torch.ones(3, 2), torch.ones(3) / 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: em.content_address(M, M[0], 0.0), ValueError, "strength must be above zero"),
        (lambda: em.content_address(M, torch.ones(3), 1.0), ValueError, "axis d"),
        (lambda: em.interpolate(W, W, 1.5), ValueError, "gate must lie between 0 and 1"),
        (lambda: em.shift(W, torch.ones(2)), ValueError, "amounts must have shape"),
        (lambda: em.sharpen(W, 0.5), ValueError, "power must be at least 1"),
        (lambda: em.read(M, torch.ones(2)), ValueError, "axis m"),
        (lambda: em.read(np.ones((3, 2)), W), TypeError, "memory must be a torch tensor"),
        (lambda: em.write(M, W, 2 * M[0], M[0]), ValueError, "erase must lie between"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
