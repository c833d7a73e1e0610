r"""Offline MathJax, and display mathematics that may carry a \tag.

MathJax is copied from the PyPI package ``sphinx-mathjax-offline`` into ``vendor/mathjax`` of the
site: under ``_static`` Jupyter Book would load each of its scripts on every page. Only the parts
that the book uses are copied and loaded.
"""

import shutil
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

VENDOR = "vendor/mathjax"
PARTS = (
    "startup.js",
    "core.js",
    "input/tex-base.js",
    "input/tex/extensions/ams.js",
    "output/chtml.js",
    "output/chtml/fonts/tex.js",
    "output/chtml/fonts/woff-v2",
    "a11y/assistive-mml.js",
    "a11y/semantic-enrich.js",
)
SETTINGS = {
    "loader": {
        "load": [
            "core",
            "input/tex-base",
            "[tex]/ams",
            "output/chtml",
            "a11y/assistive-mml",
        ]
    },
    "tex": {"packages": ["base", "ams"], "inlineMath": [["\\(", "\\)"]]},
    "options": {
        "processHtmlClass": "tex2jax_process|mathjax_process|math|output_area",
        "ignoreHtmlClass": "tex2jax_ignore|mathjax_ignore|document",
    },
}


def connect(app: Sphinx) -> None:
    """Hook into configuration, doctrees and the end of the build."""
    app.connect("config-inited", configure)
    app.connect("doctree-resolved", keep_tagged_mathematics)
    app.connect("build-finished", copy_mathjax)


def configure(_app: Sphinx, config: Config) -> None:
    """Point Sphinx at the copy in the book."""
    config.mathjax_path = f"../{VENDOR}/startup.js"  # relative to _static
    config.mathjax3_config = SETTINGS
    config.mathjax_options = {"defer": "defer"}


def keep_tagged_mathematics(_app: Sphinx, doctree: nodes.document, _page: str) -> None:
    r"""Pass tagged and aligned mathematics through as written.

    Sphinx wraps display mathematics that contains a line break in ``split``, where ``\tag`` is an
    error.
    """
    for block in doctree.findall(nodes.math_block):
        text = block.astext()
        if (r"\tag" in text or r"\begin" in text) and not block["nowrap"]:
            block["nowrap"] = True
            block.children = [nodes.Text(f"\\[{text}\\]")]


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Copy the parts of MathJax that the pages load."""
    if error or app.builder.format != "html":
        return
    files = metadata.files("sphinx-mathjax-offline") or []
    roots = {Path(str(f.locate())).parent for f in files if f.match("static/mathjax/core.js")}
    if len(roots) != 1:
        raise FileNotFoundError("MathJax was not found; install requirements.txt")
    source, target = roots.pop(), Path(app.outdir) / VENDOR
    for part in PARTS:
        destination = target / part
        destination.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, destination, dirs_exist_ok=True)
        else:
            shutil.copyfile(source / part, destination)
