"""Leave out scripts and styles of Jupyter Book that this book has no use for.

Thebe (live code by a remote kernel) and toggle buttons are loaded on every page even when they are
switched off; Thebe's are added twice, which is a script error.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

UNUSED = ("thebe", "togglebutton", "toggleHint", "toggleOpenOnPrint")


def connect(app: Sphinx) -> None:
    """Hook into the writing of pages, after every other extension has added its files."""
    app.connect("html-page-context", drop_unused_assets, priority=950)


def drop_unused_assets(
    _app: Sphinx,
    _page: str,
    _template: str,
    context: dict[str, Any],
    _doctree: nodes.document | None,
) -> None:
    """Remove the unused scripts and styles from a page's lists."""
    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context.get(kind, []) if not _is_unused(asset)]


def _is_unused(asset: Any) -> bool:
    body = getattr(asset, "attributes", {}).get("body") or ""
    text = f"{getattr(asset, 'filename', asset)} {body}".lower()
    return any(word.lower() in text for word in UNUSED)
