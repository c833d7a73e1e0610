"""The built book and a browser to look at it with."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

import chromium
import page_report
import pytest
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_SITE", ROOT / "_build/html")).resolve()
PAGES = page_report.pages(SITE)
DESKTOP = {"width": 1300, "height": 900}


def pytest_collection_modifyitems(items):
    """What looks at one page runs in one process, so that the page is opened once."""
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        group = parameters.get("page_name", item.path.stem)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def browser() -> Browser:
    """Chromium; without one the tests are skipped, or fail where REQUIRE_CHROMIUM is set."""
    path = chromium.find()
    if path is None:
        message = f"the built pages were not looked at: {chromium.MISSING}"
        if os.environ.get("REQUIRE_CHROMIUM"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=chromium.FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open a page from disk, as a reader with no network would; returns it with what it did."""
    with visits(browser) as open_page:
        yield open_page


@pytest.fixture(scope="module", params=PAGES or ["(the book has not been built)"])
def page_name(request):
    """Each page of the built book."""
    return request.param


@pytest.fixture(scope="module")
def opened(browser, page_name):
    """The page, opened once for all the tests that only look at it."""
    with visits(browser) as open_page:
        yield open_page(page_name)


@pytest.fixture
def page(opened):
    """The page as on a desktop in the light theme, at its top."""
    opened.set_viewport_size(DESKTOP)
    opened.emulate_media(media="screen", color_scheme="light", reduced_motion="no-preference")
    opened.evaluate("document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' })")
    return opened


@contextmanager
def visits(browser):
    """A function that opens pages; they are closed at the end."""
    contexts = []

    def open_page(name: str, folder: Path = SITE, **settings):
        context = browser.new_context(**{"viewport": DESKTOP, **settings})
        contexts.append(context)
        context.set_default_timeout(60_000)  # a busy machine is not a broken page
        page = context.new_page()
        page.complaints = []
        page.requests = []
        page.on("pageerror", lambda error: page.complaints.append(f"error: {error}"))
        page.on(
            "console",
            lambda line: line.type in ("error", "warning") and page.complaints.append(line.text),
        )
        page.on("requestfailed", lambda request: page.complaints.append(f"missing: {request.url}"))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(f"{folder.as_uri()}/{name}", wait_until="load")
        if settings.get("java_script_enabled", True):
            page.evaluate("window.MathJax && window.MathJax.startup?.promise.then(() => null)")
        return page

    yield open_page
    for context in contexts:
        context.close()
