"""One address, written everywhere it must stand, and taken back without a trace."""

import subprocess
import sys

import nbformat
import pytest
from notebooks import NAMES, ROOT

from book_utils import __version__

URL = "https://github.com/example/memory-book"
RELEASE = f"{URL.removeprefix('https://github.com/')}/blob/v{__version__}"


def tool(root, *arguments):
    return subprocess.run(
        [sys.executable, "tools/repository.py", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def copy(tmp_path):
    """The files that the tool reads and writes."""
    for pattern in (
        "_config.yml",
        "CITATION.cff",
        "README.md",
        "book_utils/__init__.py",
        "tools/*.py",
        "chapters/*.ipynb",
    ):
        for path in ROOT.glob(pattern):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def contents(root):
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_what_is_stored_agrees():
    result = tool(ROOT, "--check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_address_is_written_everywhere_and_removed_without_a_trace(copy):
    tool(copy, "--url", "")
    before = contents(copy)
    assert tool(copy, "--url", f"{URL}.git/").returncode == 0
    assert tool(copy, "--check").returncode == 0
    after = contents(copy)
    changed = {name for name in after if after[name] != before[name]}
    chapters = {f"chapters/{name}.ipynb" for name in NAMES}
    assert changed == {"_config.yml", "CITATION.cff", "README.md"} | chapters
    assert f'repository-code: "{URL}"' in after["CITATION.cff"]
    assert f"[source]({URL})" in after["README.md"]
    assert "https://example.github.io/memory-book/" in after["README.md"]
    for name in NAMES:
        _title, badge, setup, *_ = nbformat.reads(after[f"chapters/{name}.ipynb"], 4).cells
        opens = f"https://colab.research.google.com/github/{RELEASE}/chapters/{name}.ipynb"
        assert badge.source.endswith(f"]({opens})")
        assert f'BOOK = "{URL}"' in setup.source
    assert tool(copy, "--url", "").returncode == 0
    assert contents(copy) == before


def test_notebooks_stay_in_normal_form(copy):
    assert tool(copy, "--url", URL).returncode == 0
    result = subprocess.run(
        [sys.executable, "tools/notebooks.py", "--check"], cwd=copy, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("CITATION.cff", f"version: {__version__}", "version: 0.0.1"),
        ("CITATION.cff", URL, "https://github.com/somebody/else"),
        ("README.md", f"[source]({URL})", "[source](https://github.com/somebody/else)"),
        (f"chapters/{NAMES[0]}.ipynb", f"{RELEASE}/chapters", "somebody/else/chapters"),
        (f"chapters/{NAMES[-1]}.ipynb", "--no-deps", "--upgrade"),
        ("_config.yml", URL, "https://github.com/somebody/else"),
    ],
)
def test_a_place_that_disagrees_is_named(copy, name, old, new):
    tool(copy, "--url", URL)
    path = copy / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    result = tool(copy, "--check")
    assert result.returncode == 1
    if name != "_config.yml":  # where that differs, the other files do
        assert result.stdout.count("\n") == 1
        assert result.stdout.startswith(f"{name} differs")


def test_a_new_chapter_gets_the_cell(copy):
    path = copy / f"chapters/{NAMES[0]}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [c for c in notebook.cells if "setup" not in c.metadata.get("tags", [])]
    nbformat.write(notebook, copy / "chapters/new.ipynb")
    assert "chapters/new.ipynb differs; python tools/repository.py" in tool(copy, "--check").stdout
    assert tool(copy).returncode == 0
    assert (copy / "chapters/new.ipynb").read_text() == path.read_text()


@pytest.mark.parametrize("url", ["https://gitlab.com/a/b", "github.com/a/b", f"{URL}/tree/main"])
def test_an_address_of_another_form_is_refused(copy, url):
    before = contents(copy)
    result = tool(copy, "--url", url)
    assert result.returncode == 2
    assert "must look like https://github.com/NAME/BOOK" in result.stderr
    assert contents(copy) == before
