"""Execute chapters again whenever something that they import may have changed.

Jupyter's cache looks at the code cells alone. Here it lives in a folder named after a hash of the
helpers, the pinned requirements and the Python version, so an outdated result cannot be found.
Sphinx, for its part, looks at the pages alone: a change of style, script or extension counts here as
a change of every page.
"""

import hashlib
import os
import platform
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

CACHE = ".jupyter_cache"
SOURCES = ("book_utils/**/*", "requirements.txt")
LOOK = ("_static/**/*", "assets/**/*", "sphinx_ext/**/*")


def source_hash(root: Path) -> str:
    """A short hash of everything outside a chapter that its outputs depend on."""
    return _hash(root, SOURCES, platform.python_version())


def look_hash(root: Path) -> str:
    """A short hash of everything outside a page that its look depends on."""
    return _hash(root, LOOK)


def _hash(root: Path, patterns: tuple[str, ...], start: str = "") -> str:
    digest = hashlib.sha256(start.encode())
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.relative_to(root).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def connect(app: Sphinx) -> None:
    """Register the hashes as settings, so that Sphinx reads every page again when one changes."""
    app.add_config_value("book_source_hash", "", "env", [str])
    app.add_config_value("book_look_hash", "", "env", [str])
    app.connect("config-inited", set_cache, priority=100)


def set_cache(app: Sphinx, config: Config) -> None:
    """Choose the cache folder of these sources and drop the folders of earlier ones."""
    os.environ["BOOK_FRONT_END"] = "html"  # tells book_utils.explore in the kernels
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: more threads are slower
    config.book_source_hash = source_hash(Path(app.srcdir))
    config.book_look_hash = look_hash(Path(app.srcdir))
    caches = Path(app.outdir).parent / CACHE
    current = caches / config.book_source_hash
    if caches.is_dir():
        for old in caches.iterdir():
            if old != current:
                shutil.rmtree(old)
    config.nb_execution_cache_path = str(current)
