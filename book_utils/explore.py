"""Sliders and figures that work in every front end, from one pure figure function.

``explore(figure, describe=…, d_k=control([1, 4, 16]))`` shows a figure with a slider for each keyword;
``show(figure, caption)`` shows a plain one. Which form the reader gets is decided here alone:

* in a live kernel, ipywidgets sliders above a picture that is redrawn;
* in the built HTML book, one picture for every position of the sliders, drawn at build time and
  swapped by ``_static/explore.js``;
* on GitHub and wherever a notebook is only looked at, the default picture with its caption.

The caption is at the same time the picture's text for readers who cannot see it.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import itertools
import json
import numbers
import os
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from .plots.style import STYLE

FRONT_END = "BOOK_FRONT_END"  # the environment variable that says "html" while the site is built
MAX_FRAMES = 150
PNG_DPI = 110
LARGE_SVG = 150_000  # bytes; a frame whose drawing is larger than this is shipped as a bitmap

# A number of at least one with three or more decimals; scales, below one, keep all of theirs.
_LONG_COORDINATE = re.compile(rb"(?<![\w.#-])-?\d*[1-9]\d*\.\d{3,}(?![\w.])")

Figures = Callable[..., Figure]
Captions = Callable[..., str]


@dataclass(frozen=True)
class Control:
    """The positions of one slider: its values, the default, a label and a unit."""

    values: tuple[Any, ...]
    default: Any
    label: str | None = None
    unit: str = ""

    def text(self, value: Any) -> str:
        """How a value is shown beside the slider, with its unit."""
        return f"{_text(value)} {self.unit}".strip()


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def control(
    values: Sequence[Any], default: Any = None, label: str | None = None, unit: str = ""
) -> Control:
    """A slider over `values` in the order given.

    Args:
        values: at least two different numbers, strings or booleans.
        default: the position shown first; the middle one when None.
        label: what the slider is called; the name of the parameter when None.
        unit: written after the value.

    Raises:
        TypeError: `values` is a string or not a sequence, or holds NaN or anything else.
        ValueError: fewer than two values, values that look alike, or a default that is not among them.
    """
    if isinstance(values, str) or not isinstance(values, Sequence | range):
        raise TypeError(f"values must be a list of slider positions, got {values!r}")
    positions = tuple(values)
    if len(positions) < 2:
        raise ValueError(f"values must hold at least two slider positions, got {positions!r}")
    for value in positions:
        if not isinstance(value, (str, numbers.Real)) or value != value:
            raise TypeError(f"values must be numbers, strings or booleans, got {value!r}")
    if len({_text(value) for value in positions}) != len(positions):
        raise ValueError(f"values must differ from each other as shown, got {positions!r}")
    if default is None:
        default = positions[len(positions) // 2]
    if default not in positions:
        raise ValueError(f"default must be one of {positions!r}, got {default!r}")
    return Control(positions, default, label, unit)


def explore(
    figure: Figures, *, describe: Captions, name: str | None = None, **controls: Any
) -> Explorer:
    """A figure with a slider for each keyword argument.

    Args:
        figure: keyword parameters in, a matplotlib ``Figure`` out.
        describe: the same parameters in, one or two sentences with the figure's numbers out.
        name: identifies the slider within its page; the figure function's name when None.
        controls: for each parameter a `control` or a plain list of values.

    Raises:
        TypeError: `figure` or `describe` is not callable.
        ValueError: no control, more than `MAX_FRAMES` combinations of values, or a name that cannot
            stand in a link.
    """
    for what, function in (("figure", figure), ("describe", describe)):
        if not callable(function):
            raise TypeError(f"{what} must be a function, got {type(function).__name__}")
    if not controls:
        raise ValueError("explore needs at least one control, such as d_k=[1, 4, 16]")
    made = {
        key: value if isinstance(value, Control) else control(value)
        for key, value in controls.items()
    }
    explorer = Explorer(figure, describe, made, name or _function_name(figure))
    if not explorer.name.isidentifier() or not explorer.name.isascii():
        raise ValueError(f"name must be letters, digits and underscores, got {explorer.name!r}")
    if len(explorer) > MAX_FRAMES:
        raise ValueError(
            f"the sliders of {explorer.name} have {len(explorer)} positions in all; "
            f"the built book draws each of them, so at most {MAX_FRAMES} are allowed"
        )
    return explorer


@dataclass(frozen=True)
class Explorer:
    """What `explore` returns: it displays itself in whichever front end it finds itself."""

    figure: Figures
    describe: Captions
    controls: Mapping[str, Control]
    name: str

    def __len__(self) -> int:
        total = 1
        for one in self.controls.values():
            total *= len(one.values)
        return total

    @property
    def default(self) -> dict[str, Any]:
        """The parameters shown first."""
        return {key: one.default for key, one in self.controls.items()}

    def positions(self) -> Iterator[dict[str, Any]]:
        """Every combination of slider values; the last slider moves fastest."""
        values = (one.values for one in self.controls.values())
        for combination in itertools.product(*values):
            yield dict(zip(self.controls, combination, strict=True))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        if os.environ.get(FRONT_END) == "html":
            caption = self.describe(**self.default)
            return {"text/html": _explorer_html(self), "text/plain": caption}
        data, metadata = _picture(self.figure(**self.default), self.describe(**self.default))
        data["application/vnd.jupyter.widget-view+json"] = {
            "version_major": 2,
            "version_minor": 0,
            "model_id": widget(self).model_id,
        }
        return data, metadata


@dataclass(frozen=True)
class Shown:
    """What `show` returns: a figure that displays itself with its caption."""

    figure: Figure
    caption: str

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        if os.environ.get(FRONT_END) == "html":
            return {
                "text/html": _figure_html(self.figure, self.caption),
                "text/plain": self.caption,
            }
        return _picture(self.figure, self.caption)


def show(figure: Figure, caption: str) -> Shown:
    """A plain figure with its caption, which is also its text for those who cannot see it.

    Raises:
        TypeError: `figure` is not a matplotlib ``Figure``, or `caption` not a text.
        ValueError: the caption is empty.
    """
    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib Figure, got {type(figure).__name__}")
    if not isinstance(caption, str):
        raise TypeError(f"caption must be a text, got {type(caption).__name__}")
    if not caption.strip():
        raise ValueError("caption must say what the figure shows, got an empty text")
    return Shown(figure, caption)


def widget(explorer: Explorer) -> Any:
    """The live form of an explorer: an ipywidgets box of sliders, picture and caption.

    The picture is an ``HTML`` widget, which keeps its alternative text and never flickers. A redraw
    that fails says so in the picture's place.
    """
    import ipywidgets as widgets

    sliders = {
        key: widgets.SelectionSlider(
            options=[(one.text(value), value) for value in one.values],
            value=one.default,
            description=one.label or key,
            style={"description_width": "initial"},
            layout={"width": "95%", "max_width": "640px"},
        )
        for key, one in explorer.controls.items()
    }
    draw = pen()
    picture = widgets.HTML(_live_picture(explorer, explorer.default, draw))

    def redraw(_change: object) -> None:
        parameters = {key: s.value for key, s in sliders.items()}
        picture.value = _live_picture(explorer, parameters, draw)

    for slider in sliders.values():
        slider.observe(redraw, names="value")
    return widgets.VBox([*sliders.values(), picture])


def png(figure: Figure, dpi: int = PNG_DPI) -> bytes:
    """The figure as a PNG of at most 256 colours, the same bytes for the same figure."""
    picture = _bitmap(figure, dpi).quantize(256, dither=Image.Dither.NONE)
    return _saved(picture, optimize=True)


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure.

    Coordinates are rounded to a hundredth of a point, which nobody sees and which halves the size.
    """
    drawing = _render(figure, "svg", metadata={"Date": None, "Creator": None})
    return _LONG_COORDINATE.sub(lambda match: b"%.2f" % float(match[0]), drawing)


def _bitmap(figure: Figure, dpi: int, *, formulas: Any = None) -> Image.Image:
    """The figure drawn once; ``savefig`` would go through it twice, first to lay it out.

    `formulas` is the parser of formulas of an earlier figure, which remembers what it has parsed.
    """
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    if formulas is not None:
        canvas.get_renderer().mathtext_parser = formulas
    with mpl.rc_context(STYLE):
        canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _saved(picture: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format="png", **options)
    return buffer.getvalue()


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def lay_out(figure: Figure, places: Sequence[Bbox] | None = None) -> list[Bbox]:
    """Put the axes of a figure in their places: those given, or else those that its layout engine finds.

    Finding them takes about as long as drawing. A slider finds them once, and its axes then stand
    still while it moves.
    """
    if places is None or len(places) != len(figure.axes):
        engine = figure.get_layout_engine()
        if engine is not None:
            engine.execute(figure)
        places = [axes.get_position(original=True).frozen() for axes in figure.axes]
    figure.set_layout_engine("none")
    for axes, place in zip(figure.axes, places, strict=True):
        axes.set_position(place)
        axes.set_in_layout(True)  # which set_position turns off
    return list(places)


def pen() -> Callable[[Figure], bytes]:
    """A function that draws one figure after another as PNG, with the axes where they were before.

    Where something would be cut off at the picture's edge, the axes get new places.
    """
    places: list[Bbox] | None = None
    formulas: Any = None

    def draw(figure: Figure) -> bytes:
        nonlocal places, formulas
        figure.set_dpi(PNG_DPI)
        engine, kept = figure.get_layout_engine(), places
        places = lay_out(figure, kept)
        picture = _bitmap(figure, PNG_DPI, formulas=formulas)
        if kept is not None and _is_cut_off(figure, picture):
            figure.set_layout_engine(engine)
            places = lay_out(figure)
            picture = _bitmap(figure, PNG_DPI, formulas=formulas)
        canvas: Any = figure.canvas
        formulas = formulas or canvas.get_renderer().mathtext_parser
        return _saved(picture, compress_level=1)

    return draw


def _is_cut_off(figure: Figure, picture: Image.Image) -> bool:
    """Whether the drawn figure reaches its edge, or an axis label lies beyond it."""
    ink = np.asarray(picture.convert("L")) < 255
    if ink[[0, -1]].any() or ink[:, [0, -1]].any():
        return True
    labels = (axis.label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis))
    extents = [label.get_window_extent() for label in labels if label.get_text()]
    inside = (figure.bbox.containsx(e.x0) and figure.bbox.containsy(e.y0) for e in extents)
    return not all(inside)


def _function_name(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _picture(figure: Figure, caption: str) -> tuple[dict[str, Any], dict[str, Any]]:
    data = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": caption}
    return data, {"image/png": {"alt": caption}}


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _live_picture(
    explorer: Explorer,
    parameters: Mapping[str, Any],
    draw: Callable[[Figure], bytes],
) -> str:
    """The picture and caption as HTML; an error while drawing becomes the message shown."""
    try:
        source = _data_uri("image/png", draw(explorer.figure(**parameters)))
        caption = html.escape(explorer.describe(**parameters))
    except Exception as error:  # shown to the reader in the figure's place, with its cause
        lines = "".join(traceback.format_exception(error)[-2:])
        return f'<pre role="alert">This position could not be drawn.\n{html.escape(lines)}</pre>'
    return (
        f'<img src="{source}" alt="{caption}" style="max-width: 100%">'
        f'<p aria-live="polite" style="max-width: 640px; line-height: 1.4">{caption}</p>'
    )


def _frame(figure: Figure) -> str:
    """A frame for the built book: an SVG text where that is small, else a PNG as a data URI."""
    drawing = svg(figure)
    if len(drawing) <= LARGE_SVG:
        return drawing.decode()
    return _data_uri("image/png", png(figure, dpi=2 * 72))


def _source(frame: str) -> str:
    """What an ``<img>`` takes to show the frame."""
    return frame if frame.startswith("data:") else _data_uri("image/svg+xml", frame.encode())


def _pack(frames: list[str]) -> dict[str, Any]:
    """Frames with every line stored once: neighbouring drawings share most of their lines.

    A frame is a list of indices into ``lines``, or a data URI where it is a bitmap.
    """
    lines: dict[str, int] = {}
    packed: list[str | list[int]] = [
        frame
        if frame.startswith("data:")
        else [lines.setdefault(line, len(lines)) for line in frame.splitlines()]
        for frame in frames
    ]
    return {"lines": list(lines), "frames": packed}


def _image_tag(figure: Figure, source: str, caption: str) -> str:
    width, height = (round(inches * 96) for inches in figure.get_size_inches())
    return f'<img src="{source}" alt="{html.escape(caption)}" width="{width}" height="{height}">'


def _figure_html(figure: Figure, caption: str) -> str:
    return (
        f'<figure class="book-figure">\n{_image_tag(figure, _source(_frame(figure)), caption)}\n'
        f"<figcaption>{html.escape(caption)}</figcaption>\n</figure>"
    )


def _slider_html(identity: str, key: str, one: Control) -> str:
    slider = f"{identity}-{key}"
    position = one.values.index(one.default)
    shown = html.escape(one.text(one.default))
    return (
        f'<div class="explore-control"><label for="{slider}">{html.escape(one.label or key)}</label>'
        f'<input type="range" id="{slider}" name="{key}" min="0" max="{len(one.values) - 1}" step="1"'
        f' value="{position}" aria-valuetext="{shown}"><output for="{slider}">{shown}</output></div>'
    )


def _explorer_html(explorer: Explorer) -> str:
    """The explorer for the built book: the default frame, sliders, and every frame's data."""
    identity = f"explore-{explorer.name}".replace("_", "-")
    parameters = list(explorer.positions())
    figures = [explorer.figure(**p) for p in parameters]
    captions = [explorer.describe(**p) for p in parameters]
    frames = [_frame(figure) for figure in figures]
    default = parameters.index(explorer.default)
    data = {
        "controls": [
            {"name": key, "texts": [one.text(v) for v in one.values]}
            for key, one in explorer.controls.items()
        ],
        "captions": captions,
        **_pack(frames),
    }
    sliders = "\n".join(_slider_html(identity, k, one) for k, one in explorer.controls.items())
    payload = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return (
        f'<figure class="book-figure explore" id="{identity}">\n'
        f'<form class="explore-controls" hidden>\n{sliders}\n'
        '<button type="reset">Reset</button>\n</form>\n'
        f"{_image_tag(figures[default], _source(frames[default]), captions[default])}\n"
        f'<figcaption aria-live="polite">{html.escape(captions[default])}</figcaption>\n'
        f'<script type="application/json">{payload}</script>\n</figure>'
    )
