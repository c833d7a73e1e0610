"""Leave out what this book has no use for, and mend what the theme leaves undone.

Thebe (live code by a remote kernel) and toggle buttons are loaded on every page even when they are
switched off; Thebe's are added twice, which is a script error. Font Awesome is 1.5 MB of script for
a dozen icons, which ``_static/book.css`` draws instead. Pages without formulas get no MathJax. The
theme's sidebar is given the role that tells assistive technology what it is.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

UNUSED = ("thebe", "togglebutton", "toggleHint", "toggleOpenOnPrint")
UNUSED_FILES = (
    "_static/scripts/fontawesome.js",
    "_static/scripts/fontawesome.js.LICENSE.txt",
    "_static/vendor/fontawesome",
    "_static/sphinx-thebe.js",
    "_static/sphinx-thebe.css",
    "_static/togglebutton.js",
    "_static/togglebutton.css",
)
MENDED = (
    (re.compile(r'\s*<script[^>]*scripts/fontawesome\.js[^>]*></script>'), ""),
    (re.compile(r'\s*<link[^>]*vendor/fontawesome/[^>]*>'), ""),
    (re.compile(r'\s*<script type="text/x-thebe-config">.*?</script>', re.DOTALL), ""),
    (re.compile(r"\s*<script>kernelName = .*?</script>"), ""),
    (
        re.compile(r'<div id="pst-primary-sidebar" class="'),
        '<div id="pst-primary-sidebar" role="complementary" aria-label="The book" class="',
    ),
)  # fmt: skip


def connect(app: Sphinx) -> None:
    """Hook into the writing of pages, after every other extension, and the end of the build."""
    app.connect("html-page-context", drop_unused_assets, priority=950)
    app.connect("build-finished", mend_pages, priority=700)
    app.connect("build-finished", drop_unused_files, priority=700)


def drop_unused_assets(
    _app: Sphinx,
    _page: str,
    _template: str,
    context: dict[str, Any],
    _doctree: nodes.document | None,
) -> None:
    """Remove the unused scripts and styles from a page's lists."""
    unused = UNUSED if 'class="math' in (context.get("body") or "") else (*UNUSED, "mathjax")
    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context.get(kind, []) if not _is_any_of(asset, unused)]


def mend_pages(app: Sphinx, error: Exception | None) -> None:
    """Rewrite the theme's own markup where no setting reaches it."""
    if error or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        page = mended = path.read_text(encoding="utf-8")
        for pattern, replacement in MENDED:
            mended = pattern.sub(replacement, mended)
        if mended != page:
            path.write_text(mended, encoding="utf-8")


def drop_unused_files(app: Sphinx, error: Exception | None) -> None:
    """Delete files that no page loads: unused scripts, and maps of scripts for developers."""
    if error or app.builder.format != "html":
        return
    outdir = Path(app.outdir)
    for path in [*(outdir / name for name in UNUSED_FILES), *outdir.glob("_static/**/*.map")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _is_any_of(asset: Any, words: tuple[str, ...]) -> bool:
    body = getattr(asset, "attributes", {}).get("body") or ""
    text = f"{getattr(asset, 'filename', asset)} {body}".lower()
    return any(word.lower() in text for word in words)
