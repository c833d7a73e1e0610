"""The editions to take away: the zip opens from disk, and the PDF is whole and can be used."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import chromium
import offline_zip
import pikepdf
import pypdfium2
import pytest
import single_page
from conftest import SITE
from notebooks import ROOT

RAW_TEX = (r"\(", r"\[", r"\frac", r"\tag", r"\begin", "$$")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder that a reader has after unpacking the zip."""
    folder = tmp_path_factory.mktemp("offline")
    offline_zip.pack(SITE, folder / "book.zip")
    with zipfile.ZipFile(folder / "book.zip") as archive:
        archive.extractall(folder)
    return folder / "book"


def test_the_zip_holds_the_whole_site_and_opens_from_disk(unpacked, visit):
    packed = {path.relative_to(unpacked) for path in unpacked.rglob("*") if path.is_file()}
    built = {path.relative_to(SITE) for path in SITE.rglob("*") if path.is_file()}
    assert packed - built == {Path("README.txt")}
    assert {path.name for path in built - packed} <= offline_zip.LEFT_OUT
    for name in ("index.html", "chapters/attention.html"):
        page = visit(name, folder=unpacked)
        assert page.complaints == []
        assert all(url.startswith((unpacked.as_uri(), "data:", "blob:")) for url in page.requests)
        assert page.locator("article h1").is_visible()


def test_the_same_site_gives_the_same_zip(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        offline_zip.pack(SITE, tmp_path / name / "book.zip")
    one, two = ((tmp_path / name / "book.zip").read_bytes() for name in ("one", "two"))
    assert one == two


def test_a_folder_without_a_book_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no built book"):
        offline_zip.pack(tmp_path, tmp_path / "book.zip")


@pytest.fixture(scope="module")
def printed(browser, tmp_path_factory) -> Path:
    """The print edition, made as `make pdf` makes it."""
    target = tmp_path_factory.mktemp("print") / "book.pdf"
    command = [sys.executable, "tools/print_edition.py", str(SITE), str(target)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return target


@pytest.fixture(scope="module")
def texts(printed) -> list[str]:
    """The text of each page of the print edition."""
    with pypdfium2.PdfDocument(printed) as pdf:
        return [page.get_textpage().get_text_bounded() for page in pdf]


def unspaced(text: str) -> str:
    """A text without white space, which a PDF does not keep."""
    return re.sub(r"\s", "", text)


def bookmarks(pdf: pikepdf.Pdf) -> list[tuple[str, int]]:
    """Title and page, from 1, of every bookmark."""
    numbers = {page.obj.objgen: number for number, page in enumerate(pdf.pages, start=1)}

    def below(items):
        for item in items:
            yield item.title, numbers[item.destination[0].objgen]
            yield from below(item.children)

    with pdf.open_outline() as outline:
        return list(below(outline.root))


def test_the_pdf_has_every_chapter_whole(printed, texts):
    chapters = len(single_page.pages())
    assert 8 * chapters < len(texts) < 40 * chapters
    assert all(text.strip() for text in texts), "an empty page"
    everything = "\n".join(texts)
    for raw in RAW_TEX:
        assert raw not in everything
    everything = unspaced(everything)
    for page in single_page.pages():
        built = (SITE / f"{page.name}.html").read_text(encoding="utf-8")
        for caption in re.findall(r"<figcaption[^>]*>([^<&]{40})", built):
            assert unspaced(caption) in everything, caption


def test_bookmarks_and_contents_agree_with_the_pages(printed, texts):
    with pikepdf.open(printed) as pdf:
        marks = bookmarks(pdf)
    chapters = [(title, page) for title, page in marks if re.match(r"\d+ · ", title)]
    assert len({page for _, page in chapters}) >= 8
    contents = unspaced("".join(texts[1:8]))
    for title, number in chapters:
        assert unspaced(title) in unspaced(texts[number - 1])
        assert unspaced(f"{title}{number}") in contents


def test_links_inside_the_pdf_lead_somewhere(printed):
    with pikepdf.open(printed) as pdf:
        anchors = set(pdf.Root.Dests)
        links = [note for page in pdf.pages for note in page.get("/Annots", [])]
        inside = [str(link.Dest) for link in links if "/Dest" in link]
        outside = [str(link.A.URI) for link in links if "/A" in link]
    assert len(inside) > 300
    assert set(inside) <= anchors
    assert [url for url in outside if not re.match(r"https?://", url)] == []


def test_nothing_is_cut_off_at_the_edge_of_the_paper(printed):
    with pypdfium2.PdfDocument(printed) as pdf:
        for number, page in enumerate(pdf, start=1):
            width, _ = page.get_size()
            picture = page.render(scale=0.5, grayscale=True).to_numpy()
            margin = round(picture.shape[1] * 50 / width)  # 50 points; the margins have 62
            assert picture[:, :margin].min() > 200, number
            assert picture[:, -margin:].min() > 200, number


def test_without_chromium_one_line_says_what_to_do(tmp_path):
    environment = {**os.environ, "PATH": "", "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    environment.pop("CHROMIUM", None)
    target = tmp_path / "book.pdf"
    for command in (["tools/chromium.py"], ["tools/print_edition.py", str(SITE), str(target)]):
        result = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert result.returncode == 1
        assert result.stderr.strip() == chromium.MISSING
    assert not target.exists()
