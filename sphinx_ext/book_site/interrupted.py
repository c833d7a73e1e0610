"""Begin a build only where it can succeed, and trust nothing that a killed one left behind.

Sphinx takes a page for up to date by its time of writing. A build that was killed may have noted that a
page was read again and never written it, or have written half of it. So a mark stands in the folder as
long as a build runs; a build that finds one there reads and writes every page anew. What the chapters'
cells returned is kept elsewhere, by content, and is not computed again.

Only one build at a time writes to a folder, and none begins on a disk that is all but full.
"""

import shutil
from pathlib import Path

from filelock import FileLock, Timeout
from sphinx.application import ENV_PICKLE_FILENAME, Sphinx
from sphinx.config import Config
from sphinx.errors import SphinxError

MARK, LOCK = ".unfinished", ".lock"
NEEDED = 100  # megabytes free: a whole build takes about half of that


class CannotBuildThere(SphinxError):
    """The folder is in use, or its disk is full."""

    category = "The book cannot be built there"


def connect(app: Sphinx) -> None:
    """Hook into the very start and the very end of a build."""
    app.connect("config-inited", begin, priority=0)
    app.connect("build-finished", end, priority=999)


def begin(app: Sphinx, _config: Config) -> None:
    """Take the folder, and forget what an unfinished build noted there."""
    folder = Path(app.doctreedir)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free // 1_000_000
    if free < NEEDED:
        raise CannotBuildThere(
            f"only {free} MB are free where {folder.parent} is, and {NEEDED} MB are needed: "
            "make room, or choose another OUT"
        )
    lock = FileLock(folder / LOCK)  # released when this process ends, however it ends
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CannotBuildThere(
            f"another build is writing to {folder.parent}: wait for it, or choose another OUT"
        ) from None
    app.book_lock = lock
    if (folder / MARK).exists():
        (folder / ENV_PICKLE_FILENAME).unlink(missing_ok=True)
    (folder / MARK).touch()


def end(app: Sphinx, error: Exception | None) -> None:
    """Remove the mark from what is now complete."""
    if not error:
        (Path(app.doctreedir) / MARK).unlink()
    app.book_lock.release()
