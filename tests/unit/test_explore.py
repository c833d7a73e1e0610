"""Sliders: controls, the live widget, the built book's HTML, what is stored in a notebook."""

import base64
import functools
import io
import json
import re

import ipywidgets
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from book_utils.explore import (
    FRONT_END,
    MAX_FRAMES,
    PNG_DPI,
    _render,
    control,
    explore,
    lay_out,
    pen,
    png,
    show,
    svg,
    widget,
)
from book_utils.plots import style


@style.styled
def line(slope, offset=0):
    figure, axes = style.new_figure(2.0)
    axes[0, 0].plot([0, 1], [offset, offset + slope])
    return figure


def describe(slope, offset=0):
    return f"A line of slope {slope} <starting> at {offset}."


@pytest.fixture
def slider():
    return explore(
        line,
        describe=describe,
        slope=control([1, 2, 4], default=2, label="slope", unit="m/s"),
        offset=[0.0, 0.5],
    )


def test_control_defaults_to_the_middle():
    assert control([1, 2, 3]).default == 2
    assert control(range(4)).values == (0, 1, 2, 3)


def test_control_text_carries_the_unit():
    assert control([0.01, 0.1], unit="s").text(0.01) == "0.01 s"
    assert control([1, 64]).text(64) == "64"


@pytest.mark.parametrize(
    ("values", "default", "error", "message"),
    [
        ([1], None, ValueError, "at least two"),
        ([1, 1], None, ValueError, "must differ"),
        ([1, 2], 3, ValueError, "default must be one of"),
        ([1000001.0, 1000002.0], None, ValueError, "must differ .* as shown"),
        ([1, "1"], None, ValueError, "must differ"),
        ([1.0, float("nan")], None, TypeError, "numbers, strings or booleans, got nan"),
        ([[1], [2]], None, TypeError, r"numbers, strings or booleans, got \[1\]"),
        ("ab", None, TypeError, "must be a list"),
        (5, None, TypeError, "must be a list"),
    ],
)
def test_control_rejects(values, default, error, message):
    with pytest.raises(error, match=message):
        control(values, default)


def test_explore_rejects():
    with pytest.raises(TypeError, match="figure must be a function"):
        explore(3, describe=describe, slope=[1, 2])
    with pytest.raises(TypeError, match="describe must be a function"):
        explore(line, describe="a line", slope=[1, 2])
    for name in ("a b", 'a"><b', "größe", "a?b"):
        with pytest.raises(ValueError, match="name must be letters, digits and underscores"):
            explore(line, describe=describe, name=name, slope=[1, 2])
    with pytest.raises(ValueError, match=r"name must be .*<lambda>"):
        explore(lambda slope: line(slope), describe=describe, slope=[1, 2])
    with pytest.raises(ValueError, match="at least one control"):
        explore(line, describe=describe)
    with pytest.raises(ValueError, match=f"at most {MAX_FRAMES}"):
        explore(line, describe=describe, slope=range(20), offset=range(20))


def test_positions_run_over_every_combination(slider):
    positions = list(slider.positions())
    assert len(positions) == len(slider) == 6
    assert positions[:3] == [
        {"slope": 1, "offset": 0.0},
        {"slope": 1, "offset": 0.5},
        {"slope": 2, "offset": 0.0},
    ]


def test_name_is_the_function_behind_a_partial():
    assert (
        explore(functools.partial(line, offset=1), describe=describe, slope=[1, 2]).name == "line"
    )


def test_notebook_bundle_has_picture_text_and_widget(slider, monkeypatch):
    monkeypatch.delenv(FRONT_END, raising=False)
    data, metadata = slider._repr_mimebundle_()
    caption = describe(2, 0.5)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert data["text/plain"] == caption
    assert metadata["image/png"]["alt"] == caption
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "text/html" not in data


def test_moving_a_slider_redraws_picture_and_caption(slider):
    box = widget(slider)
    slope, _offset, picture = box.children
    before = picture.value
    slope.value = 4
    assert picture.value != before
    assert "slope 4 &lt;starting&gt; at 0.5" in picture.value
    assert 'alt="A line of slope 4' in picture.value


def test_a_slider_draws_once_for_each_move(slider):
    """So nothing queues: front ends send the next position only when the last was answered."""
    drawn = []

    def counted(slope, offset):
        drawn.append((slope, offset))
        return line(slope, offset)

    slope, offset, _ = widget(explore(counted, describe=describe, **slider.controls)).children
    assert slope.continuous_update
    assert drawn == [(2, 0.5)]
    for value in (4, 1, 1):
        slope.value = value
    offset.value = 0.0
    assert drawn == [(2, 0.5), (4, 0.5), (1, 0.5), (1, 0.0)]


def labelled(text, ylabel=""):
    figure, axes = style.new_figure(2.0)
    axes[0, 0].plot([0, 1])
    axes[0, 0].set_yticks([0, 1], ["0", text])
    axes[0, 0].set_ylabel(ylabel)
    return figure


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def test_a_live_picture_looks_as_matplotlib_saves_it():
    draw = pen()
    for ylabel in ("$q^\\top k$", "plain", "$q^\\top k$", "$\\sqrt{d_k}$"):
        expected = pixels(_render(labelled("1", ylabel), "png", dpi=PNG_DPI))
        assert np.array_equal(pixels(pen()(labelled("1", ylabel))), expected)
        draw(line(1))
        kept = pixels(draw(labelled("1", ylabel)))
        assert np.abs(kept.astype(int).sum() / expected.astype(int).sum() - 1) < 0.01


def test_axes_stand_still_while_a_slider_moves():
    draw = pen()
    before, after = (pixels(draw(labelled(text))) for text in ("100", "10"))
    fresh = pixels(pen()(labelled("10")))
    assert np.array_equal(before[:, -200:], after[:, -200:])
    assert not np.array_equal(fresh, after), "by itself it would have had more room"


def margin(picture):
    """Columns without ink at the left of a picture."""
    return int((picture != picture[0, 0]).any(axis=(0, 2)).argmax())


@pytest.mark.parametrize("ylabel", ["", "height"])
@pytest.mark.parametrize("text", ["10000", "100000", "1000000", "a wide label"])
def test_a_label_that_would_be_cut_off_gets_room(text, ylabel):
    draw = pen()
    draw(labelled("1", ylabel))
    after = margin(pixels(draw(labelled(text, ylabel))))
    own = margin(pixels(pen()(labelled(text, ylabel))))
    assert after > 0
    assert abs(after - own) <= 4  # how exactly the layout settles depends on matplotlib's version


def test_a_figure_with_other_axes_is_laid_out_anew():
    places = lay_out(line(1))
    figure, _ = style.new_figure(cols=2)
    assert len(lay_out(figure, places)) == 2


def test_an_error_while_redrawing_is_shown_in_place():
    def broken(slope):
        if slope == 4:
            raise RuntimeError("no such slope")
        return line(slope)

    box = widget(explore(broken, describe=describe, slope=[1, 2, 4]))
    box.children[0].value = 4
    assert 'role="alert"' in box.children[-1].value
    assert "no such slope" in box.children[-1].value
    box.children[0].value = 1
    assert "<img" in box.children[-1].value


def test_two_sliders_do_not_disturb_each_other(slider):
    one, other = widget(slider), widget(slider)
    before = other.children[-1].value
    one.children[0].value = 1
    assert other.children[-1].value == before


def test_widget_is_made_of_parts_that_ipywidgets_7_has(slider):
    box = widget(slider)
    assert isinstance(box, ipywidgets.VBox)
    kinds = {type(child) for child in box.children}
    assert kinds == {ipywidgets.SelectionSlider, ipywidgets.HTML}


def built_html(thing, monkeypatch):
    monkeypatch.setenv(FRONT_END, "html")
    return thing._repr_mimebundle_()["text/html"]


def test_built_html_has_a_frame_and_caption_for_every_position(slider, monkeypatch):
    page = built_html(slider, monkeypatch)
    data = json.loads(re.search(r'<script type="application/json">(.*)</script>', page)[1])
    positions = list(slider.positions())
    assert data["captions"] == [describe(**p) for p in positions]
    drawings = ["\n".join(data["lines"][i] for i in frame) for frame in data["frames"]]
    assert drawings == [svg(line(**p)).decode().rstrip("\n") for p in positions]
    assert len(data["lines"]) == len(set(data["lines"]))
    assert data["controls"][0] == {"name": "slope", "texts": ["1 m/s", "2 m/s", "4 m/s"]}


def test_captions_cannot_end_the_script_that_carries_them(monkeypatch):
    def hostile(slope):
        return f"A </script><!--<script> caption, {slope}."

    page = built_html(explore(line, describe=hostile, slope=[1, 2]), monkeypatch)
    payload = re.search(r'<script type="application/json">(.*?)</script>', page)[1]
    assert "<" not in payload
    assert json.loads(payload)["captions"] == [hostile(1), hostile(2)]


def test_large_drawings_become_bitmaps(slider, monkeypatch):
    monkeypatch.setattr("book_utils.explore.LARGE_SVG", 100)
    page = built_html(slider, monkeypatch)
    data = json.loads(re.search(r'<script type="application/json">(.*)</script>', page)[1])
    assert data["lines"] == []
    frame = base64.b64decode(data["frames"][0].removeprefix("data:image/png;base64,"))
    assert frame.startswith(b"\x89PNG")


def test_rounding_coordinates_moves_nothing_by_more_than_it_may():
    figure = line(1.2345)
    number = re.compile(rb"(?<![\w.#-])-?\d+\.\d+(?![\w.])")
    full = number.findall(_render(figure, "svg", metadata={"Date": None, "Creator": None}))
    short = number.findall(svg(figure))
    for before, after in zip(full, short, strict=True):
        allowed = 0.00501 if abs(float(before)) >= 1 else 0
        assert abs(float(before) - float(after)) <= allowed


def test_built_html_shows_the_default_without_javascript(slider, monkeypatch):
    page = built_html(slider, monkeypatch)
    assert '<form class="explore-controls" hidden>' in page
    alt = re.search(r'<img [^>]*alt="([^"]*)"', page)[1]
    assert alt == "A line of slope 2 &lt;starting&gt; at 0.5."
    assert f'<figcaption aria-live="polite">{alt}</figcaption>' in page


def test_built_html_labels_its_sliders(slider, monkeypatch):
    page = built_html(slider, monkeypatch)
    labelled = re.findall(r'<label for="([^"]+)">', page)
    ranges = re.findall(r'<input type="range" id="([^"]+)"', page)
    assert labelled == ranges == ["explore-line-slope", "explore-line-offset"]
    assert 'aria-valuetext="2 m/s"' in page
    assert 'min="0" max="2" step="1" value="1"' in page


def test_drawing_twice_gives_the_same_bytes():
    assert svg(line(2)) == svg(line(2))
    assert png(line(2)) == png(line(2))


def test_show_stores_picture_and_caption(monkeypatch):
    monkeypatch.delenv(FRONT_END, raising=False)
    data, metadata = show(line(1), "A line.")._repr_mimebundle_()
    assert set(data) == {"image/png", "text/plain"}
    assert data["text/plain"] == metadata["image/png"]["alt"] == "A line."


def test_show_in_the_built_book(monkeypatch):
    page = built_html(show(line(1), "A & B."), monkeypatch)
    assert 'alt="A &amp; B."' in page
    assert "<figcaption>A &amp; B.</figcaption>" in page


def test_show_rejects():
    with pytest.raises(TypeError, match="figure must be a matplotlib Figure"):
        show("picture.png", "A line.")
    with pytest.raises(TypeError, match="caption must be a text"):
        show(Figure(), None)
    with pytest.raises(ValueError, match="caption must say"):
        show(Figure(), "  ")
