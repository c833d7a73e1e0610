"""Measure the built pages in a browser and print a table: ``python tools/page_report.py [SITE]``.

For every page, served on localhost: compressed bytes before the reader does anything and in all,
requests, accessibility violations (axe-core; light and dark, 1300 and 390 px wide), sliders, the
slowest slider's response and the largest contentful paint. The tests of the built pages use the
same functions.
"""

import functools
import gzip
import http.server
import json
import statistics
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromium
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, sync_playwright

SIZES = (1300, 390)  # px
SCHEMES = ("light", "dark")
HEADINGS = (
    "page", "KB at first", "KB in all", "requests", "axe", "sliders", "slowest slider, ms", "LCP, ms",
)  # fmt: skip

# When the colours that a change of scheme sets going have arrived.
SETTLED = """async () => {
    await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    await Promise.allSettled(document.getAnimations().map(animation => animation.finished));
}"""

# How long after the input event the new frame is decoded: in ms, and in display frames begun meanwhile.
RESPONSES = """async figure => {
    const slider = figure.querySelector("input"), image = figure.querySelector("img");
    const nextFrame = () => new Promise(resolve => requestAnimationFrame(resolve));
    await Promise.all(figure.preloaded.map(frame => frame.decode()));
    const waits = [], frames = [];
    for (let i = 0; i <= Number(slider.max); i++) {
        await nextFrame();
        let waiting = true, count = 0;
        const counted = (async () => { while (waiting) { await nextFrame(); count++; } })();
        const start = performance.now();
        slider.value = String(i);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        await image.decode();
        waits.push(performance.now() - start);
        frames.push(count);
        waiting = false;
        await counted;
    }
    return [waits, frames];
}"""
LARGEST_PAINT = """() => new Promise(resolve => {
    new PerformanceObserver(list => resolve(list.getEntries().at(-1).startTime))
        .observe({ type: "largest-contentful-paint", buffered: true });
    setTimeout(() => resolve(NaN), 5000);
})"""


def pages(site: Path) -> list[str]:
    """The pages of the site, as paths below it."""
    found = (path.relative_to(site) for path in site.rglob("*.html"))
    return sorted(path.as_posix() for path in found if not {"_static", "vendor"} & set(path.parts))


def violations(page: Page, width: int, scheme: str) -> list[tuple[str, list[str]]]:
    """What axe-core objects to when the page is `width` pixels wide, in a colour scheme.

    It looks at everything but the thousands of glyphs of formulas, which assistive technology does
    not see either: it reads the MathML beside them.
    """
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_timeout(500)  # the theme lets one reach what scrolls a moment after a resize
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # colours change at once
    page.wait_for_function(f"document.documentElement.dataset.theme === {json.dumps(scheme)}")
    page.evaluate(SETTLED)
    page.wait_for_timeout(500)  # a busy machine draws the new colours later
    found = (
        Axe()
        .run(page, context={"exclude": [["mjx-math"]]}, options={"resultTypes": ["violations"]})
        .response["violations"]
    )
    return [(each["id"], [node["html"][:120] for node in each["nodes"]]) for each in found]


def slider_responses(page: Page) -> list[tuple[float, float]]:
    """For each figure with sliders, how long a moved slider's frame takes, in ms and display frames.

    Medians over the positions of its first slider.
    """
    medians = []
    for figure in page.locator("figure.explore").all():
        figure.scroll_into_view_if_needed()
        page.wait_for_function("figure => figure.preloaded", arg=figure.element_handle())
        waits, frames = figure.evaluate(RESPONSES)
        medians.append((statistics.median(waits), statistics.median(frames)))
    return medians


def compressed_size(path: Path) -> int:
    """Bytes of a file as a web server sends it."""
    return len(gzip.compress(path.read_bytes()))


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The site on localhost; gives its address."""
    handler = functools.partial(_Silent, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def measure(browser: Any, site: Path, address: str, name: str) -> list[object]:
    """One row of the table."""
    context = browser.new_context(viewport={"width": 1300, "height": 900}, color_scheme="light")
    context.set_default_timeout(60_000)
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{address}/{name}", wait_until="load")
    largest = page.evaluate(LARGEST_PAINT)
    page.evaluate("window.MathJax && window.MathJax.startup?.promise.then(() => null)")

    def kilobytes() -> int:
        paths = {url.partition("?")[0].partition("#")[0] for url in requests}
        local = (path.removeprefix(address) for path in paths if path.startswith(address))
        return round(sum(compressed_size(site / path.lstrip("/")) for path in local) / 1000)

    first = kilobytes()
    responses = slider_responses(page)
    everything, count = kilobytes(), sum(url.startswith("http") for url in requests)
    found = sum(len(violations(page, width, s)) for width in SIZES for s in SCHEMES)
    context.close()
    slowest = f"{max(wait for wait, _ in responses):.0f}" if responses else "–"
    return [name, first, everything, count, found, len(responses), slowest, f"{largest:.0f}"]


def main() -> None:
    """Print the table as Markdown."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "_build/html").resolve()
    print(f"| {' | '.join(HEADINGS)} |\n| {' | '.join('---' for _ in HEADINGS)} |")
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.find() or sys.exit(chromium.MISSING), args=chromium.FLAGS
        )
        for name in pages(site):
            print(f"| {' | '.join(map(str, measure(browser, site, address, name)))} |", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
