"""A build that is not sound fails, and what was built before is never shown stale."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from book_site.freshness import source_hash
from filelock import FileLock
from notebooks import ROOT

from book_utils import __version__

TOC = "format: jb-book\nroot: index\nchapters:\n  - file: page\n"


@pytest.fixture
def book(tmp_path):
    """A book of one page with the real book's configuration, extension and helpers."""
    for part in (
        "_config.yml",
        "requirements.txt",
        "sphinx_ext",
        "assets",
        "_static",
        "book_utils",
    ):
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / part)
    (tmp_path / "_toc.yml").write_text(TOC)
    (tmp_path / "index.md").write_text("# Cover\n\nA small book.\n")
    write_page(tmp_path, "from book_utils import __version__\nprint(__version__)")
    return tmp_path


def write_page(folder: Path, code: str, text: str = "# Page\n\nText.") -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell(code)],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )
    nbformat.write(notebook, folder / "page.ipynb")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shutil.which("jupyter-book", path=str(Path(sys.executable).parent)), "build", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def shown(folder: Path) -> str:
    return (folder / "_build/html/page.html").read_text(encoding="utf-8")


def test_a_sound_book_builds_and_builds_again(book):
    for _ in range(2):
        result = build(book)
        assert result.returncode == 0, result.stderr
    assert __version__ in shown(book)


def test_a_warning_fails_the_build_and_the_next_one(book):
    write_page(book, "1", "# Page\n\n[lost](nowhere.md)")
    assert build(book).returncode != 0
    assert build(book).returncode != 0
    write_page(book, "1")
    result = build(book)
    assert result.returncode == 0, result.stderr


def test_a_failed_cell_fails_the_build_and_the_next_one(book):
    write_page(book, "raise RuntimeError('broken')")
    assert build(book).returncode != 0
    assert build(book).returncode != 0


def test_a_missing_file_fails_the_build(book):
    (book / "_toc.yml").write_text(TOC + "  - file: missing\n")
    assert build(book).returncode != 0


def test_editing_a_helper_executes_the_chapters_again(book):
    assert build(book).returncode == 0
    helper = book / "book_utils/__init__.py"
    helper.write_text(helper.read_text().replace(__version__, "9.9.9"))
    assert build(book).returncode == 0
    assert "9.9.9" in shown(book)


def test_editing_a_quiz_or_a_table_executes_the_chapters_again(book):
    before = source_hash(book)
    hashes = set()
    for data in ("quizzes/attention.json", "data/new.csv"):
        path = book / "book_utils" / data
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")
        hashes.add(source_hash(book))
    assert len(hashes | {before}) == 3


def test_editing_a_style_reaches_the_built_book(book):
    assert build(book).returncode == 0
    (book / "_static/book.css").write_text("/* another look */\n")
    assert build(book).returncode == 0
    assert (book / "_build/html/_static/book.css").read_text() == "/* another look */\n"


LAUNCH = re.compile(r'href="(https://(?:colab|mybinder)[^"]*)"')


def test_with_an_address_a_chapter_can_be_launched_and_without_it_not(book):
    assert build(book).returncode == 0
    assert not LAUNCH.findall(shown(book))
    config = book / "_config.yml"
    address = "https://github.com/example/memory-book"
    config.write_text(re.sub(r'(?m)^  url: ".*?"', f'  url: "{address}"', config.read_text()))
    result = build(book)
    assert result.returncode == 0, result.stderr
    release = f"example/memory-book/{{}}v{__version__}"
    assert sorted(LAUNCH.findall(shown(book))) == [
        f"https://colab.research.google.com/github/{release.format('blob/')}/page.ipynb",
        f"https://mybinder.org/v2/gh/{release.format('')}?urlpath=lab/tree/page.ipynb",
    ]
    assert f'href="{address}"' in shown(book)


KILLER = """
import os
import signal

def setup(app):
    event, _, priority = os.environ.get("KILL_AT", "").partition(" ")
    if event:
        kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        app.connect(event, kill, priority=int(priority or 500))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    "moment",
    [
        "env-updated",  # read, nothing noted
        "env-check-consistency",  # noted as read, nothing written
        "html-page-context",  # writing
        "build-finished 1",  # written, but not yet mended, and no MathJax
        "build-finished 800",  # just before the end
    ],
)
def test_a_killed_build_leaves_nothing_stale(book, moment, monkeypatch):
    config = book / "_config.yml"
    extensions = config.read_text().replace(
        "book_site: sphinx_ext", "book_site: sphinx_ext\n    killer: ."
    )
    config.write_text(extensions)
    (book / "killer.py").write_text(KILLER)
    assert build(book).returncode == 0
    helper = book / "book_utils/__init__.py"
    helper.write_text(helper.read_text().replace(__version__, "9.9.9"))
    shutil.rmtree(book / "_build/html/vendor")
    monkeypatch.setenv("KILL_AT", moment)
    assert build(book).returncode == -9
    monkeypatch.delenv("KILL_AT")
    result = build(book)
    assert result.returncode == 0, result.stderr
    assert "9.9.9" in shown(book)
    after_the_kill = pages(book)
    shutil.rmtree(book / "_build")
    assert build(book).returncode == 0
    assert after_the_kill == pages(book)


def pages(folder: Path) -> dict[str, str]:
    """The built pages, without the marks by which browsers tell versions of style sheets apart."""
    return {
        path.name: re.sub(r"\?v=[0-9a-f]+", "", path.read_text(encoding="utf-8"))
        for path in (folder / "_build/html").glob("*.html")
    }


def test_a_second_build_of_the_same_folder_waits_its_turn(book):
    folder = book / "_build/.doctrees"
    folder.mkdir(parents=True)
    with FileLock(folder / ".lock"):
        result = build(book)
        assert result.returncode != 0
        assert "another build is writing to" in result.stdout + result.stderr
    assert build(book).returncode == 0


def test_a_full_disk_is_named(book):
    source = book / "sphinx_ext/book_site/interrupted.py"
    text = source.read_text()
    assert "NEEDED = 100 " in text
    source.write_text(text.replace("NEEDED = 100 ", "NEEDED = 10**9 "))
    result = build(book)
    assert result.returncode != 0
    assert "MB are free where" in result.stdout + result.stderr
    assert not (book / "_build/html/index.html").exists()


def test_numbered_formulas_of_several_lines_are_passed_through(book):
    formula = "$$ \\begin{aligned} a &= b \\\\ c &= d \\end{aligned} \\tag{1.1} $$"
    write_page(book, "1", f"# Page\n\n{formula}\n\nText.")
    assert build(book).returncode == 0
    assert "split" not in shown(book)
    assert "\\tag{1.1}" in shown(book)


SLIDER = """
from book_utils.explore import explore
from book_utils.plots import red_object as figures
explore(figures.age, describe=figures.describe_age, age=[1, 4, 40])
"""


def test_building_twice_gives_the_same_pages_and_pictures(book, tmp_path):
    write_page(book, SLIDER.strip())
    shown_files = []
    for _ in range(2):
        assert build(book).returncode == 0
        site = book / "_build/html"
        kept = [*site.glob("*.html"), *site.glob("_frames/*"), *site.glob("_static/book.*")]
        shown_files.append({path.name: path.read_bytes() for path in kept})
        shutil.rmtree(book / "_build")
    assert shown_files[0] == shown_files[1]
    assert any(name.endswith(".svg") for name in shown_files[0])


def test_a_page_can_borrow_a_slider_that_there_is(book):
    write_page(book, SLIDER.strip())
    cover = book / "index.md"
    cover.write_text("# Cover\n\n```{slider} page age\n```\n")
    result = build(book)
    assert result.returncode == 0, result.stderr
    page = (book / "_build/html/index.html").read_text(encoding="utf-8")
    assert '<figure class="book-figure explore" id="here-explore-age">' in page
    assert "data:image/" not in page
    cover.write_text("# Cover\n\n```{slider} page nothing\n```\n")
    assert build(book).returncode != 0
