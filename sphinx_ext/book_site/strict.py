"""A build that warned has failed: its exit status says so, and the next build reads every page anew.

Sphinx's own ``-W`` is not enough here: with ``--keep-going`` an incremental build of unchanged pages
would pass, since the warnings of pages that are not read again are not repeated.
"""

from pathlib import Path

from sphinx.application import ENV_PICKLE_FILENAME, Sphinx
from sphinx.errors import SphinxError


class WarningsFound(SphinxError):
    """The build gave warnings."""

    category = "Warnings are errors in this book"


def connect(app: Sphinx) -> None:
    """Hook into the end of the build, after everything else."""
    app.connect("build-finished", fail_on_warnings, priority=900)


def fail_on_warnings(app: Sphinx, error: Exception | None) -> None:
    """Forget what was read if anything warned or failed, and fail the build."""
    if error or app._warncount:
        (Path(app.doctreedir) / ENV_PICKLE_FILENAME).unlink(missing_ok=True)
    if not error and app._warncount:
        raise WarningsFound(f"{app._warncount} warnings, listed above; the book was not accepted")
