"""Turn the pictures that chapters embed as data URIs into files, each stored once.

The name of a file is a hash of its content, so that equal frames share a file and building twice
gives the same pages.
"""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "_frames"
DATA_URI = re.compile(r"data:image/(svg\+xml|png|webp);base64,([A-Za-z0-9+/=]+)")
SUFFIX = {"svg+xml": "svg", "png": "png", "webp": "webp"}


def connect(app: Sphinx) -> None:
    """Hook into the writing of pages and the end of the build."""
    app.connect("html-page-context", store_images)
    app.connect("build-finished", drop_unused)


def store_images(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    """Write each embedded picture of a page to a file and point the page at it."""
    body = context.get("body")
    if not body or "data:image/" not in body:
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    back = "../" * page.count("/")

    def store(match: re.Match[str]) -> str:
        content = base64.b64decode(match[2])
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.{SUFFIX[match[1]]}"
        if not (folder / name).exists():
            partial = folder / f"{name}.part"  # a file of the final name is always whole
            partial.write_bytes(content)
            partial.replace(folder / name)
        return f"{back}{FOLDER}/{name}"

    context["body"] = DATA_URI.sub(store, body)


def drop_unused(app: Sphinx, error: Exception | None) -> None:
    """Remove pictures that no page shows any more."""
    folder = Path(app.outdir) / FOLDER
    if error or not folder.is_dir():
        return
    pages = (path.read_text(encoding="utf-8") for path in Path(app.outdir).rglob("*.html"))
    used = {name for page in pages for name in re.findall(rf"{FOLDER}/([\w.]+)", page)}
    for picture in folder.iterdir():
        if picture.name not in used:
            picture.unlink()
