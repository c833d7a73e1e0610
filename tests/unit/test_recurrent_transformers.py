"""Transformer-XL and Block-Recurrent: where segments equal one long window, and where not."""

import math

import numpy as np
import pytest
import torch

from book_utils import recurrent_transformers as rt
from book_utils.positions import sinusoidal_positions


@pytest.fixture(autouse=True)
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def normal(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_relative_scores_are_the_four_terms_of_the_paper():
    q, k, r = normal(0, 3, 4), normal(1, 5, 4), normal(2, 5, 4)
    u, v = normal(3, 2, 4)
    found = rt.relative_scores(q, k, r, u, v)
    for i in range(3):
        for j in range(5):
            distance = i + 2 - j
            if distance < 0:
                assert found[i, j] == -math.inf
                continue
            terms = q[i] @ k[j] + q[i] @ r[distance] + u @ k[j] + v @ r[distance]
            torch.testing.assert_close(found[i, j], terms / 2)


def test_scores_depend_on_distances_alone():
    attention = rt.RelativeAttention(6, seed=0)
    token = normal(0, 1, 6).expand(9, 6)  # the same token everywhere
    table = sinusoidal_positions(9, 6, dtype=torch.float64)
    scores = rt.relative_scores(
        attention.query(token), attention.key(token), attention.distance(table),
        attention.u, attention.v,
    )  # fmt: skip
    for offset in range(9):
        diagonal = scores.diagonal(-offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


@pytest.mark.parametrize("segment", [1, 5, 8, 24])
@pytest.mark.parametrize("layers", [1, 3])
def test_segments_with_all_the_past_equal_one_long_window(segment, layers):
    model, x = rt.TransformerXL(8, layers, memory=100, seed=0), normal(0, 24, 8)
    torch.testing.assert_close(model.run(x, segment), model(x)[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("memory", [0, 4])
def test_a_short_memory_differs_exactly_where_the_past_is_cut(memory):
    model, x = rt.TransformerXL(8, 1, memory=memory, seed=0), normal(0, 24, 8)
    gap = (model.run(x, 4) - model(x)[0]).abs().amax(-1)
    assert (gap[: 4 + memory] < 1e-12).all()
    assert (gap[4 + memory :] > 1e-6).all()


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_past_reaches_one_memory_further_with_every_layer(layers):
    model, x = rt.TransformerXL(8, layers, memory=4, seed=0), normal(0, 24, 8)
    before = model.run(x, 4)[-1]
    changed = []
    for t in range(24):
        other = x.clone()
        other[t] += 1
        changed.append(bool((model.run(other, 4)[-1] - before).abs().max() > 1e-12))
    # The last segment is 20 … 23; each layer sees the four tokens before what it is built from.
    assert changed == [t >= 20 - 4 * layers for t in range(24)]


def test_values_flow_from_the_memory_and_gradients_do_not():
    model, x = rt.TransformerXL(8, 2, memory=100, seed=0), normal(0, 8, 8)
    x.requires_grad_()
    model.run(x, 4)[-1].sum().backward()
    assert (x.grad[:4] == 0).all()
    assert (x.grad[4:].abs().amax(-1) > 0).all()
    x.grad = None
    model(x)[0][-1].sum().backward()
    assert (x.grad[:4].abs().amax(-1) > 0).all()


def test_memories_hold_the_last_inputs_of_each_layer():
    model, x = rt.TransformerXL(8, 2, memory=3, seed=0), normal(0, 5, 8)
    _, memories = model(x)
    torch.testing.assert_close(memories[0], x[-3:])
    middle = x + model.layers[0](x, x[:0])
    torch.testing.assert_close(memories[1], middle[-3:])
    _, memories = model(x[:1], [m[:1] for m in memories])
    assert [len(m) for m in memories] == [2, 2]


def shut(cell):
    with torch.no_grad():
        cell.gate_bias.fill_(math.inf)
    return cell


def test_block_recurrent_with_the_gate_shut_is_transformer_xl():
    cell, x = shut(rt.BlockRecurrentCell(8, 3, seed=0)), normal(0, 22, 8)
    y, state = cell.run(x, 4, torch.zeros(3, 8))
    assert (state == 0).all()
    xl = rt.TransformerXL(8, 1, memory=4, seed=1)
    xl.layers[0].load_state_dict(cell.window.state_dict())
    torch.testing.assert_close(y, xl.run(x, 4), rtol=0, atol=1e-13)


def test_with_the_gate_open_the_state_carries_what_the_window_has_lost():
    cell, x = rt.BlockRecurrentCell(8, 3, seed=0), normal(0, 20, 8)
    other = x.clone()
    other[0] += 1
    gap = (cell.run(x, 4)[0][-1] - cell.run(other, 4)[0][-1]).abs().max()
    assert gap > 1e-6  # token 0 is four blocks away, and the window reaches one back
    shut(cell)
    gap = (cell.run(x, 4)[0][-1] - cell.run(other, 4)[0][-1]).abs().max()
    assert gap == 0


def test_the_gate_is_a_convex_combination():
    cell, x, state = rt.BlockRecurrentCell(4, 2, seed=0), normal(0, 3, 4), normal(1, 2, 4)
    with torch.no_grad():
        cell.gate_bias.fill_(-math.inf)
        z = cell(x, x[:0], state)[1]
        cell.gate_bias.fill_(math.log(3))  # sigmoid 3/4
        mixed = cell(x, x[:0], state)[1]
    torch.testing.assert_close(mixed, 0.75 * state + 0.25 * z)


def test_the_future_cannot_change_the_past():
    x = normal(0, 12, 8)
    later = torch.cat([x[:6], x[6:] + 1])
    xl, cell = rt.TransformerXL(8, 2, memory=4, seed=0), rt.BlockRecurrentCell(8, 3, seed=0)
    torch.testing.assert_close(xl.run(later, 4)[:6], xl.run(x, 4)[:6], rtol=0, atol=1e-13)
    torch.testing.assert_close(cell.run(later, 4)[0][:6], cell.run(x, 4)[0][:6], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: rt.RelativeAttention(3)(normal(0, 2, 3), normal(0, 0, 3)), ValueError, "even"),
        (lambda: rt.TransformerXL(4, 0, 2), ValueError, "layers must be at least 1"),
        (lambda: rt.TransformerXL(4, 1, -1), ValueError, "memory must be at least 0"),
        (lambda: rt.TransformerXL(4, 1, 2)(normal(0, 2, 2, 4)), ValueError, "x must have shape"),
        (lambda: rt.TransformerXL(4, 2, 2)(normal(0, 2, 4), [normal(0, 2, 4)]), ValueError, "lay"),
        (lambda: rt.TransformerXL(4, 1, 2).run(normal(0, 2, 4), 0), ValueError, "segment"),
        (lambda: rt.BlockRecurrentCell(4, 0), ValueError, "states must be at least 1"),
        (
            lambda: rt.relative_scores(
                normal(0, 3, 2), normal(0, 2, 2), normal(0, 2, 2), normal(0, 2), normal(0, 2)
            ),
            ValueError,
            "at least as many rows",
        ),
        (
            lambda: rt.BlockRecurrentCell(4, 2)(normal(0, 2, 4), normal(0, 0, 4), normal(0, 2, 3)),
            ValueError,
            "axis d",
        ),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
