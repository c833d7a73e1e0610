"""The figures of the attention chapter show what their captions say."""

import re

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import torch
from matplotlib.figure import Figure
from matplotlib.path import Path

from book_utils.attention import causal_mask, softmax
from book_utils.plots import attention as figures
from book_utils.plots import style

NAMES = ["ask", "mug", "door", "ask"]
WEIGHTS = softmax(
    torch.tensor([[0.0, 3.0, 0.0, 0.0]] * 4).masked_fill(~causal_mask(4), -torch.inf)
).numpy()


def heights(axes):
    return np.array([bar.get_height() for bar in axes.patches])


def test_score_matrices_show_both_matrices_and_their_asymmetry():
    separate = np.array([[0.0, 3.2, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    shared = separate + separate.T
    parameters = {"shared": shared, "separate": separate, "names": NAMES[:3]}
    figure = figures.score_matrices(**parameters)
    for axes, grid in zip(figure.axes, (shared, separate), strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), grid)
        assert [text.get_text() for text in axes.texts] == [f"{x:.1f}" for x in grid.ravel()]
    caption = figures.describe_score_matrices(**parameters)
    assert "its mirror image is 0.0; with two maps it is 3.2" in caption
    assert "ask looks at mug with 3.2, mug looks at ask with 0.0" in caption


@pytest.mark.parametrize("tau", [0.05, 0.5, 3.0])
def test_soft_argmax_marks_the_maximum_of_its_curve(tau):
    figure = figures.soft_argmax(tau=tau)
    curve = figure.axes[0].lines[1]
    best = scipy.special.softmax(np.array([1.0, 0.4]) / tau)[0]
    w, value = curve.get_data()
    assert abs(w[value.argmax()] - best) <= 0.005
    found = scipy.optimize.minimize_scalar(
        lambda w: -(0.4 + 0.6 * w + tau * scipy.special.entr([w, 1 - w]).sum()),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found.x == pytest.approx(best, abs=1e-4)
    assert f"a weight of {best:.3f}" in figures.describe_soft_argmax(tau=tau)


@pytest.mark.parametrize("sharpness", [0.0, 0.2, 1.0, 8.0])
def test_value_triangle_keeps_every_output_inside(sharpness):
    figure = figures.value_triangle(sharpness=sharpness)
    axes = figure.axes[0]
    triangle = Path(axes.patches[0].get_xy())
    outputs = np.stack(axes.lines[0].get_data(), axis=-1)
    assert len(outputs) == 24
    assert (
        triangle.contains_points(outputs, radius=1e-9).all()
        or triangle.contains_points(outputs, radius=-1e-9).all()
    )
    end = np.stack(axes.lines[2].get_data(), axis=-1)
    assert not triangle.contains_points(end).any()
    caption = figures.describe_value_triangle(sharpness=sharpness)
    assert f"scores multiplied by {sharpness:g}" in caption


def test_value_triangle_reaches_the_corners_as_it_sharpens():
    reach = [
        float(re.findall(r"gives is (\d\.\d\d)", figures.describe_value_triangle(sharpness=s))[0])
        for s in (0.0, 0.2, 1.0, 8.0)
    ]
    assert reach == sorted(reach)
    assert reach[0] == 0.33
    assert reach[-1] == 1.0


@pytest.mark.parametrize("d_k", [1, 16, 64, 1024])
def test_saturation_numbers(d_k):
    numbers = figures.saturation_numbers(d_k)
    for name, deviation in (("raw", np.sqrt(d_k)), ("scaled", 1.0)):
        one = numbers[name]
        assert one["scores"].std() == pytest.approx(deviation, rel=0.06)
        w = scipy.special.softmax(one["scores"], axis=-1)
        np.testing.assert_allclose(one["weights"], np.sort(w)[:, ::-1].mean(axis=0), atol=1e-12)
        H = scipy.special.entr(w).sum(axis=-1)
        assert one["entropy"] == pytest.approx(H.mean())
        assert one["effective"] == pytest.approx(np.exp(H).mean())
        J = w[:, :, None] * (np.eye(16) - w[:, None, :])
        assert one["jacobian"] == pytest.approx(np.linalg.norm(J, axis=(1, 2)).mean())


def test_saturation_matches_the_checked_facts():
    numbers = figures.saturation_numbers(64)
    assert numbers["raw"]["weights"][0] == pytest.approx(0.847, abs=0.02)
    assert numbers["scaled"]["weights"][0] == pytest.approx(0.247, abs=0.02)
    assert numbers["raw"]["jacobian"] == pytest.approx(0.173, abs=0.02)
    assert numbers["scaled"]["jacobian"] == pytest.approx(0.305, abs=0.02)


def test_saturation_draws_the_mean_weights_and_names_them():
    figure = figures.saturation(d_k=64)
    numbers = figures.saturation_numbers(64)
    for axes, name in zip(figure.axes[2:], ("raw", "scaled"), strict=True):
        bars = axes.collections[0].get_paths()
        np.testing.assert_allclose(
            [bar.vertices[:, 1].max() for bar in bars], numbers[name]["weights"]
        )
        assert f"tokens {numbers[name]['effective']:.1f}" in axes.texts[0].get_text()
    caption = figures.describe_saturation(d_k=64)
    assert f"best key gets {numbers['raw']['weights'][0]:.2f}" in caption
    assert f"({numbers['scaled']['effective']:.1f} effective tokens)" in caption


def test_kalman_weights_are_those_of_the_filter_run_long():
    P, K = 5.0, 0.0
    for _ in range(200):
        P += 0.2
        K = P / (P + 1.0)
        P *= 1 - K
    weights = figures.kalman_weights(50)
    np.testing.assert_allclose(weights, [K * (1 - K) ** k for k in range(50)])
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("lag", [0, 5, 11])
def test_content_addressing_follows_the_token(lag):
    figure = figures.content_addressing(lag=lag)
    bars = heights(figure.axes[0])
    match = np.exp(4) / (np.exp(4) + 11)
    np.testing.assert_allclose(bars, [match if k == lag else match / np.exp(4) for k in range(12)])
    caption = figures.describe_content_addressing(lag=lag)
    assert f"Attention gives it {match:.2f}" in caption
    assert f"gives that lag {figures.kalman_weights(12)[lag]:.3f}" in caption


@pytest.mark.parametrize("query", range(4))
def test_causal_row_draws_its_row_and_covers_the_future(query):
    figure = figures.causal_row(weights=WEIGHTS, names=NAMES, query=query)
    top, bottom = figure.axes
    np.testing.assert_allclose(top.images[0].get_array(), WEIGHTS)
    np.testing.assert_allclose(heights(bottom)[:4], WEIGHTS[query])
    covered = [patch for patch in top.patches if patch.get_fill()]
    assert [(p.get_x(), p.get_width()) for p in covered] == [(0.5, 3), (1.5, 2), (2.5, 1)]
    caption = figures.describe_causal_row(weights=WEIGHTS, names=NAMES, query=query)
    expected = {
        0: "sees itself alone: its weight is 1.00",
        1: "Query 1 (mug) sees tokens 0 to 1. It gives token 1 (mug) the weight 0.95",
        2: "sees tokens 0 to 2. It gives token 1 (mug) the weight 0.91",
        3: "sees tokens 0 to 3. It gives token 1 (mug) the weight 0.87",
    }
    assert expected[query] in caption


def test_causal_row_says_when_a_row_is_uniform():
    uniform = causal_mask(4).double() / torch.arange(1, 5)[:, None]
    caption = figures.describe_causal_row(weights=uniform, names=NAMES, query=3)
    assert "gives each of them the same weight, 0.25" in caption


def test_sinusoids_show_a_symmetric_inner_product():
    curve = figures.sinusoids().axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(curve[24 - 20 : 24], curve[25 : 24 + 21][::-1])
    assert curve.argmax() == 24
    assert f"is {curve[24]:.2f} at the position itself and {curve[21]:.2f}" in (
        figures.describe_sinusoids()
    )


def test_position_scores_rotary_is_constant_along_diagonals():
    added, turned = (axes.images[0].get_array() for axes in figures.position_scores().axes)
    assert figures.diagonal_spread(turned) < 1e-12
    assert figures.diagonal_spread(added) > 0.1
    np.testing.assert_allclose(turned[1:, 1:], turned[:-1, :-1])
    assert "one: 0.00)" in figures.describe_position_scores()


@pytest.mark.parametrize("shift", [0, 7, 20])
def test_rotary_hands_keep_their_angle(shift):
    figure = figures.rotary_hands(shift=shift)
    omega = 100.0 ** (-np.arange(0, 8, 2) / 8)
    for axes, w in zip(figure.axes, omega, strict=True):
        points = [line.get_data() for line in axes.lines if len(line.get_xdata()) == 1]
        query, key = (complex(x[0], y[0]) for x, y in points)
        assert query == pytest.approx(np.exp(1j * w * shift))
        assert key / query == pytest.approx(np.exp(3j * w))
        assert axes.get_xlabel() == f"{np.degrees(3 * w):.0f}° apart"
    assert f"key at {shift + 3};" in figures.describe_rotary_hands(shift=shift)


def test_head_weights_draw_each_head():
    weights = np.stack([WEIGHTS, np.eye(4)])
    figure = figures.head_weights(weights=weights, names=NAMES)
    for axes, grid in zip(figure.axes, weights, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), grid)
        assert len(axes.patches) == 3  # the future is covered
    assert "head 1 gives 0.87 to token 1 (mug); head 2 gives 1.00 to token 3 (ask)" in (
        figures.describe_head_weights(weights=weights, names=NAMES)
    )
    open_heads = figures.head_weights(weights=np.full((2, 4, 4), 0.25), names=NAMES)
    assert len(open_heads.axes[0].patches) == 0


def test_block_wiring_orders_the_parts():
    figure = figures.block_wiring()
    pre, post = (
        [t.get_text() for t in sorted(axes.texts, key=lambda t: t.get_position()[1])]
        for axes in figure.axes
    )
    assert pre == ["LayerNorm", "attention", "+", "LayerNorm", "MLP", "+"]
    assert post == ["attention", "+", "LayerNorm", "MLP", "+", "LayerNorm"]
    assert "the path of sums carries no LayerNorm" in figures.describe_block_wiring()


@pytest.mark.parametrize("gain", [0.5, 0.9, 1.0])
def test_gradient_paths_match_autograd(gain):
    figure = figures.gradient_paths(gain=gain)
    attention, linear, tanh = (line.get_ydata() for line in figure.axes[0].lines[:3])
    np.testing.assert_allclose(linear, np.sqrt(8) * gain ** np.arange(48), rtol=1e-9)
    assert (tanh <= linear + 1e-12).all()
    assert attention[40] > 0.1 * attention[1]

    rng = np.random.default_rng(1)  # the same recurrence, differentiated by torch
    Q = torch.from_numpy(np.linalg.qr(rng.normal(size=(8, 8)))[0])
    x = torch.from_numpy(rng.normal(size=(48, 8))).requires_grad_()
    h = torch.zeros(8, dtype=torch.float64)
    for x_t in x:
        h = torch.tanh(gain * Q @ h + x_t)
    rows = [torch.autograd.grad(h[i], x, retain_graph=True)[0] for i in range(8)]
    norms = torch.stack(rows).norm(dim=(0, 2)).flip(0)
    np.testing.assert_allclose(tanh, norms, rtol=1e-7)


def test_gradient_paths_describe_the_ratio():
    caption = figures.describe_gradient_paths(gain=0.5)
    assert "multiplied by about 10⁻¹² in the linear recurrence" in caption  # 2^-39 = 1.8e-12
    assert "1.0 in the linear recurrence" in figures.describe_gradient_paths(gain=1.0)


def test_same_output_shows_rows_and_outputs():
    rows, values = [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], [1.0, 2.0, 3.0]
    figure = figures.same_output(rows=rows, values=values)
    np.testing.assert_allclose(heights(figure.axes[0]), np.ravel(rows))
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["row A: output 2.0", "row B: output 2.0"]
    caption = figures.describe_same_output(rows=rows, values=values)
    assert "weights (0.50, 0.00, 0.50) give 2.0" in caption


def test_figures_are_as_wide_as_the_text():
    for figure in (figures.sinusoids(), figures.block_wiring(), figures.rotary_hands(shift=0)):
        assert isinstance(figure, Figure)
        assert figure.get_figwidth() == pytest.approx(style.WIDTH)


ROW = {"weights": WEIGHTS, "names": NAMES}
BAD = {
    "tau": (lambda: figures.soft_argmax(tau=0), ValueError, "tau must be above zero"),
    "tau text": (lambda: figures.describe_soft_argmax(tau="1"), TypeError, "tau must be a real"),
    "sharpness": (
        lambda: figures.value_triangle(sharpness=np.nan),
        ValueError,
        "sharpness must be finite",
    ),
    "d_k 0": (lambda: figures.saturation(d_k=0), ValueError, "d_k must be at least 1"),
    "d_k": (lambda: figures.describe_saturation(d_k=1025), ValueError, "d_k must be at most 1024"),
    "lag": (lambda: figures.content_addressing(lag=12), ValueError, "lag must be below 12"),
    "query": (lambda: figures.causal_row(**ROW, query=4), ValueError, "query must be below 4"),
    "query -1": (
        lambda: figures.describe_causal_row(**ROW, query=-1),
        ValueError,
        "query must be at least 0",
    ),
    "shift": (lambda: figures.rotary_hands(shift=-1), ValueError, "shift must be at least 0"),
    "gain": (lambda: figures.gradient_paths(gain=0.0), ValueError, "gain must be above zero"),
    "gain text": (lambda: figures.describe_gradient_paths(gain=-1), ValueError, "gain must be"),
}


@pytest.mark.parametrize(("call", "error", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()
