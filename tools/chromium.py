"""Find a Chromium to drive: the tests of the built pages and the print edition both need one.

``python tools/chromium.py`` prints its path, or says in one line how to get one.
"""

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
MISSING = (
    "no Chromium was found: install Chromium or Chrome, run `playwright install chromium`,"
    " or name one by CHROMIUM=path"
)


def find() -> str | None:
    """The path of a Chromium: named by CHROMIUM, installed, or Playwright's own; else None."""
    for path in (os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)):
        if path and Path(path).is_file():
            return path
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


if __name__ == "__main__":
    print(find() or sys.exit(MISSING))
