"""What this book adds to Jupyter Book: a strict, fresh and self-contained HTML site.

* `backmatter`: the bibliography and the list of claims, made from what stands elsewhere.
* `borrowed`: a chapter's slider on another page, such as the cover.
* `freshness`: chapters are executed again whenever the helpers or the environment change.
* `images`: pictures that chapters embed become files, each stored once.
* `interrupted`: a build that was killed leaves nothing stale; one build at a time in a folder.
* `launch`: buttons for Colab and Binder, once the book has an address.
* `lean`: scripts and styles that no page uses are left out.
* `licences`: the licences of what others made.
* `mathematics`: MathJax served from the book; numbered equations with several lines.
* `strict`: a build with any warning fails, an incremental one too.
"""

from importlib import import_module

from sphinx.application import Sphinx

PARTS = (
    "backmatter",
    "borrowed",
    "freshness",
    "images",
    "interrupted",
    "launch",
    "lean",
    "licences",
    "mathematics",
    "strict",
)


def setup(app: Sphinx) -> dict[str, object]:
    """Connect the parts to Sphinx."""
    for part in PARTS:
        import_module(f".{part}", __package__).connect(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
