"""The wheel holds everything that chapters import, and installs where nothing else may change."""

import subprocess
import sys
import zipfile

import pytest
from notebooks import ROOT

from book_utils import __version__


def pip(*arguments):
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    return folder / f"book_utils-{__version__}-py3-none-any.whl"


def test_the_wheel_holds_the_whole_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "book_utils"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert packed == {path.relative_to(ROOT).as_posix() for path in files}
    for kind in ("quizzes/*.json", "data/*.csv", "exercises/*.py", "plots/*.py"):
        assert list(package.glob(kind)), kind


def test_the_wheel_installs_alone_and_its_data_are_found(wheel, tmp_path):
    target = tmp_path / "target"
    pip("install", "--no-deps", "--target", target, wheel)
    assert {path.name.partition("-")[0] for path in target.iterdir()} == {"book_utils"}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import book_utils; from book_utils.quiz import names, quiz\n"
        "assert book_utils.__file__.startswith(sys.argv[1]), book_utils.__file__\n"
        "print(book_utils.__version__, *(len(quiz(name).questions) > 0 for name in names()))"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", code, target], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    version, *quizzes = result.stdout.split()
    assert version == __version__
    assert quizzes
    assert set(quizzes) == {"True"}


def test_the_changelog_tells_about_this_version():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changes.split("\n## ")[1].partition(" ")[0] == __version__


def test_the_citation_is_of_this_version():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
