"""A chapter's slider on another page: a fenced ``{slider}`` names the chapter and the slider.

The cover shows one so. Nothing is drawn twice: the figure is taken from the chapter as built.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective


class SliderNotFound(SphinxError):
    """No such slider in the chapter."""

    category = "A page asks for a slider that there is not"


class borrowed_slider(nodes.General, nodes.Element):
    """Stands for the slider until every page has been read."""


class BorrowedSlider(SphinxDirective):
    """The directive: the chapter's path without suffix, and the slider's name."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Leave a mark, and read this page again whenever the chapter changes."""
        chapter, name = self.arguments
        self.env.note_dependency(self.env.doc2path(chapter))
        return [borrowed_slider(chapter=chapter, identity=f"explore-{name}".replace("_", "-"))]


def connect(app: Sphinx) -> None:
    """Register the directive and what fills it."""
    app.add_node(borrowed_slider)
    app.add_directive("slider", BorrowedSlider)
    app.connect("doctree-resolved", put_sliders)


def put_sliders(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Replace each mark by the chapter's figure, under an id of the page's own."""
    for mark in list(doctree.findall(borrowed_slider)):
        identity = mark["identity"]
        chapter = app.env.get_doctree(mark["chapter"])
        figures = (raw.astext() for raw in chapter.findall(nodes.raw))
        figure = next((text for text in figures if f'id="{identity}"' in text), None)
        if figure is None:
            raise SliderNotFound(f"{page} wants {identity} of {mark['chapter']}")
        own = figure.replace(identity, f"here-{identity}")
        mark.replace_self(nodes.raw("", own, format="html"))
