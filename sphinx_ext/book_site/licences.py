"""Put the licences of what others made into the built book; ``chapters/licences.md`` lists them."""

import shutil
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

FOLDER = "licences"
# The name of each text: the installed package that brings it, and how its path there ends.
TEXTS = {
    "sphinx.txt": ("sphinx", "LICENSE.rst"),
    "pygments.txt": ("pygments", "LICENSE"),
    "pydata-sphinx-theme.txt": ("pydata-sphinx-theme", "LICENSE"),
    "sphinx-book-theme.txt": ("sphinx-book-theme", "LICENSE"),
    "sphinx-copybutton.txt": ("sphinx-copybutton", "LICENSE"),
    "sphinx-design.txt": ("sphinx-design", "LICENSE"),
    "myst-nb.txt": ("myst-nb", "LICENSE"),
    "dejavu.txt": ("matplotlib", "LICENSE_DEJAVU"),
    "apache-2.0.txt": ("tornado", "LICENSE"),  # MathJax's; its own package brings no text
}


def connect(app: Sphinx) -> None:
    """Hook into the end of the build."""
    app.connect("build-finished", copy_texts)


def copy_texts(app: Sphinx, error: Exception | None) -> None:
    """Copy each text from the package that brings it."""
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name, (package, ending) in TEXTS.items():
        files = [file for file in metadata.files(package) or [] if file.name == ending]
        if not files:
            raise FileNotFoundError(f"{package} brings no {ending}; see {__name__}")
        shutil.copyfile(str(files[0].locate()), folder / name)
