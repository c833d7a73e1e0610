"""Execute chapters again whenever something that they import may have changed.

Jupyter's cache looks at the code cells alone. Here it lives in a folder named after a hash of the
helpers, the pinned requirements and the Python version, so an outdated result cannot be found.
"""

import hashlib
import os
import platform
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

CACHE = ".jupyter_cache"
SOURCES = ("book_utils/**/*.py", "book_utils/**/*.csv", "book_utils/**/*.yml", "requirements.txt")


def source_hash(root: Path) -> str:
    """A short hash of everything outside a chapter that its outputs depend on."""
    digest = hashlib.sha256(platform.python_version().encode())
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def connect(app: Sphinx) -> None:
    """Register the hash as a setting, so that Sphinx reads every page again when it changes."""
    app.add_config_value("book_source_hash", "", "env", [str])
    app.connect("config-inited", set_cache, priority=100)


def set_cache(app: Sphinx, config: Config) -> None:
    """Choose the cache folder of these sources and drop the folders of earlier ones."""
    os.environ["BOOK_FRONT_END"] = "html"  # tells book_utils.explore in the kernels
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # small tensors: more threads are slower
    config.book_source_hash = source_hash(Path(app.srcdir))
    caches = Path(app.outdir).parent / CACHE
    current = caches / config.book_source_hash
    if caches.is_dir():
        for old in caches.iterdir():
            if old != current:
                shutil.rmtree(old)
    config.nb_execution_cache_path = str(current)
