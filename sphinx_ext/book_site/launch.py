"""Buttons that open a chapter in Google Colab or on Binder, once the book has an address.

They lead to the release of the book's own version, since the first code cell of a chapter fetches
the helpers from there. Without an address (``repository: url`` in ``_config.yml``) there are none.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

BUTTONS = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}


def connect(app: Sphinx) -> None:
    """Hook into configuration."""
    app.connect("config-inited", configure)


def configure(app: Sphinx, config: Config) -> None:
    """Switch the theme's buttons on where there is an address to lead to."""
    options = config.html_theme_options
    if options.get("repository_url"):
        text = (Path(app.srcdir) / "book_utils/__init__.py").read_text(encoding="utf-8")
        version = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]
        options["repository_branch"] = f"v{version}"
        options["use_repository_button"] = True
        options["launch_buttons"] = {**options.get("launch_buttons", {}), **BUTTONS}
