"""The built book and a browser to look at it with."""

from __future__ import annotations

import os
from pathlib import Path

import chromium
import pytest
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("BOOK_SITE", ROOT / "_build/html")).resolve()
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if not {"_static", "vendor"} & set(path.relative_to(SITE).parts)
)


def pytest_generate_tests(metafunc):
    named = any(
        "page_name" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    )
    if "page_name" in metafunc.fixturenames and not named:
        metafunc.parametrize("page_name", PAGES or ["(the book has not been built)"])


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
    contexts = []

    def open_page(name: str, folder: Path = SITE, **settings):
        context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **settings})
        contexts.append(context)
        context.set_default_timeout(30_000)  # a busy machine is not a broken page
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
