"""The first code cell of each chapter finds the helpers, fetches them, or says what to do."""

import os
import subprocess
import sys
import venv

import pytest
from notebooks import NAMES, ROOT, cells

from book_utils import __version__

WHEEL = f"book_utils-{__version__}-py3-none-any.whl"
BARE = [sys.executable, "-S"]  # a Python that sees no installed package


def setup_source(address=""):
    """The cell as a chapter has it, with another address of the book."""
    source = cells(NAMES[0], "code")[0].source
    assert 'BOOK = "' in source
    lines = source.splitlines()
    return "\n".join(f'BOOK = "{address}"' if x.startswith('BOOK = "') else x for x in lines)


def run(source, folder, *, python=BARE, path=""):
    environment = {**os.environ, "PYTHONPATH": str(path), "PIP_NO_INDEX": "1"}
    return subprocess.run(
        [*python, "-c", f"{source}\nprint(sys.modules['book_utils'].__file__)"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def last_line(result):
    assert result.returncode != 0
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("name", NAMES)
def test_each_chapter_begins_with_the_setup_cell(name):
    cell = cells(name, "code")[0]
    message = f"{name}: `python tools/repository.py` puts the setup cell in its place"
    assert {"setup", "remove-cell"} <= set(cell.metadata.get("tags", [])), message
    assert cell.source == cells(NAMES[0], "code")[0].source, message
    assert cell.outputs == []


def test_in_the_book_s_folder_the_helpers_beside_the_chapters_are_used():
    result = run(setup_source(), ROOT / "chapters")
    assert result.stdout.strip() == str(ROOT / "book_utils/__init__.py"), result.stderr


def test_an_installed_package_of_the_right_version_is_left_alone(tmp_path):
    """Even where the address leads nowhere: nothing is fetched."""
    result = run(setup_source("file:///nowhere"), tmp_path, path=ROOT)
    assert result.stdout.strip() == str(ROOT / "book_utils/__init__.py"), result.stderr
    assert result.stderr == ""


def test_alone_and_without_an_address_one_sentence_says_what_to_do(tmp_path):
    sentence = last_line(run(setup_source(), tmp_path))
    assert sentence.startswith(f"ImportError: This notebook needs book_utils {__version__} ")
    assert "found no book_utils" in sentence
    assert 'pip install --no-deps "THE-BOOK\'S-FOLDER" and restart the kernel.' in sentence


def test_another_version_is_named_and_not_replaced(tmp_path):
    (tmp_path / "old/book_utils").mkdir(parents=True)
    (tmp_path / "old/book_utils/__init__.py").write_text('__version__ = "0.0.1"\n')
    result = run(setup_source("file:///nowhere"), tmp_path, path=tmp_path / "old")
    sentence = last_line(result)
    assert f"needs book_utils {__version__} but found 0.0.1" in sentence
    assert f"file:///nowhere/releases/download/v{__version__}/{WHEEL}" in sentence


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """An environment without the book, and the address of a release that holds its wheel."""
    folder = tmp_path_factory.mktemp("elsewhere")
    release = folder / f"book/releases/download/v{__version__}"
    release.mkdir(parents=True)
    build = f"from flit_core.buildapi import build_wheel; build_wheel({str(release)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True)
    venv.create(folder / "venv", with_pip=True)
    scripts = "Scripts" if os.name == "nt" else "bin"
    return [str(folder / "venv" / scripts / "python")], (folder / "book").as_uri()


def test_a_missing_package_is_fetched_from_the_release_and_nothing_else(elsewhere, tmp_path):
    python, address = elsewhere
    packages = [*python, "-m", "pip", "list", "--format=freeze"]
    before = subprocess.run(packages, capture_output=True, text=True, check=True).stdout
    result = run(setup_source(address), tmp_path, python=python)
    assert "site-packages" in result.stdout, result.stderr
    after = subprocess.run(packages, capture_output=True, text=True, check=True).stdout
    assert set(after.split()) - set(before.split()) == {f"book_utils=={__version__}"}


def test_a_release_that_cannot_be_fetched_is_named(tmp_path):
    python = [sys.executable, "-S"]  # no pip either
    sentence = last_line(run(setup_source("file:///nowhere"), tmp_path, python=python))
    assert "found no book_utils" in sentence
    assert "file:///nowhere/releases" in sentence
