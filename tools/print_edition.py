"""Print the built book to one PDF: ``python tools/print_edition.py SITE BOOK.pdf``.

The joined page (`single_page`) is printed by a headless Chromium twice. The first printing tells on
which page each heading and answer falls; the second has these numbers in the contents.
"""

import argparse
import re
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import chromium
import pikepdf
import single_page
import yaml
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PRINTINGS = 4  # page numbers settle in two; more means that they never will
WAIT = 300_000  # milliseconds for the formulas of the whole book

# A formula or table that is wider than the column is made smaller until it fits.
FIT = """() => {
  for (const box of document.querySelectorAll("div.math, table")) {
    const limit = box.parentElement.clientWidth;
    const inner = box.querySelector("mjx-container > mjx-math") ?? box;
    const width = Math.max(box.scrollWidth, inner.getBoundingClientRect().width);
    if (width > limit) box.style.fontSize = `${Math.floor(96 * limit / width)}%`;
  }
}"""
FILL = """pages => {
  for (const place of document.querySelectorAll("[data-page-of]"))
    place.textContent = pages[place.dataset.pageOf] ?? "";
}"""


def print_book(site: Path, target: Path, *, root: Path = ROOT) -> int:
    """Print the book built in `site` to the file `target`; returns its number of pages.

    Raises:
        FileNotFoundError: there is no Chromium, or a page has not been built.
        RuntimeError: a formula could not be set, or page numbers do not settle.
    """
    browser_path = chromium.find()
    if browser_path is None:
        raise FileNotFoundError(chromium.MISSING)
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    book = single_page.join(
        site.resolve(),
        single_page.pages(root),
        config["title"],
        config["author"],
        version(root),
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        joined = Path(folder) / "book.html"
        joined.write_text(book.html, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=browser_path, args=chromium.FLAGS)
        page = browser.new_page(viewport={"width": 627, "height": 900})  # the width of the column
        page.set_default_timeout(WAIT)
        page.emulate_media(media="print")
        page.goto(joined.as_uri(), wait_until="load")
        page.evaluate(
            "window.MathJax?.startup?.promise.then(() => document.fonts.ready.then(() => null))"
        )
        if page.locator("mjx-merror").count():
            raise RuntimeError(
                f"a formula is wrong: {page.locator('mjx-merror').first.inner_text()}"
            )
        page.evaluate(FIT)
        content = settled(page)
        browser.close()
    target.parent.mkdir(parents=True, exist_ok=True)
    with pikepdf.open(BytesIO(content)) as pdf:
        finish(pdf, config["title"], config["author"], book.contents)
        pdf.save(
            target,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,  # less than half the size
            deterministic_id=True,
        )
        return len(pdf.pages)


def settled(page: Page) -> bytes:
    """The PDF whose contents give the page numbers that it really has."""
    numbers: dict[str, int] = {}
    for _ in range(PRINTINGS):
        page.evaluate(FILL, numbers)
        content = page.pdf(prefer_css_page_size=True, print_background=True, tagged=True)
        with pikepdf.open(BytesIO(content)) as pdf:
            found = page_numbers(pdf)
        if found == numbers:
            return content
        numbers = found
    raise RuntimeError(f"page numbers did not settle in {PRINTINGS} printings")


def page_numbers(pdf: pikepdf.Pdf) -> dict[str, int]:
    """The page, from 1, on which each anchor of a PDF lies."""
    numbers = {page.obj.objgen: number for number, page in enumerate(pdf.pages, start=1)}
    anchors = pdf.Root.get("/Dests", {})
    return {name.lstrip("/"): numbers[place[0].objgen] for name, place in anchors.items()}


def finish(pdf: pikepdf.Pdf, title: str, author: str, contents: list[single_page.Entry]) -> None:
    """Give a printed book its bookmarks and metadata, and take out the time of printing."""
    numbers = page_numbers(pdf)
    with pdf.open_outline() as outline:
        levels = [outline.root]
        for entry in contents:
            item = pikepdf.OutlineItem(plain(entry.text), numbers[entry.anchor] - 1)
            levels = levels[: entry.level + 1] if entry.level < len(levels) else levels
            levels[-1].append(item)
            levels.append(item.children)
    del pdf.docinfo["/CreationDate"], pdf.docinfo["/ModDate"], pdf.docinfo["/Creator"]
    pdf.docinfo["/Title"], pdf.docinfo["/Author"] = title, author
    pdf.Root.PageMode = pikepdf.Name.UseOutlines


def plain(text: str) -> str:
    r"""A heading without TeX: ``\(\sqrt{d_k}\)`` becomes ``√d_k``."""
    return re.sub(r"\\[()]|[{}]", "", text.replace(r"\sqrt", "√"))


def version(root: Path) -> str:
    """The version of the book, which stands in the package alone."""
    text = (root / "book_utils/__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def main() -> None:
    """Print the book and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    try:
        count = print_book(arguments.site, arguments.target)
    except (FileNotFoundError, RuntimeError) as error:
        sys.exit(str(error))
    print(f"{arguments.target}: {count} pages")


if __name__ == "__main__":
    main()
