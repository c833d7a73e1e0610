"""The container, Binder's folder, the workflows and the pages agree on Python, files and commands."""

import os
import re

import pytest
from notebooks import ROOT
from test_workflows import TARGETS, WORKFLOWS


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version_of_python_builds_the_book_everywhere():
    (binder,) = re.findall(r"^python-(\d+\.\d+)$", text(".binder/runtime.txt"), re.MULTILINE)
    (docker,) = re.findall(r"^FROM python:(\d+\.\d+)-", text("Dockerfile"), re.MULTILINE)
    assert binder == docker
    for path in WORKFLOWS:
        if path.stem != "weekly":  # which looks at newer ones on purpose
            versions = re.findall(r'python-version: "(.+)"', path.read_text(encoding="utf-8"))
            assert set(versions) == {binder}, path.name


def test_binder_installs_the_book_s_own_requirements():
    lines = text(".binder/requirements.txt").splitlines()
    (included,) = [line.split()[1] for line in lines if line.startswith("-r ")]
    assert (ROOT / ".binder" / included).resolve() == ROOT / "requirements.txt"
    pinned = [line for line in lines if line and line[0] not in "#-"]
    assert all(re.match(r"[\w-]+==[\w.]+ # \w", line) for line in pinned)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
def test_post_build_can_be_executed():
    assert os.access(ROOT / ".binder/postBuild", os.X_OK)
    assert text(".binder/postBuild").startswith("#!")


def test_the_container_copies_what_exists_and_starts_a_program_that_is_installed():
    dockerfile = text("Dockerfile")
    for source in re.findall(r"^COPY (?:--\S+ )*(\S+) ", dockerfile, re.MULTILINE):
        assert (ROOT / source).exists(), source
    assert 'CMD ["jupyter-lab"' in dockerfile
    assert re.search(r"^jupyterlab==", text("requirements.txt"), re.MULTILINE)
    assert re.search(r"^USER \d+$", dockerfile, re.MULTILINE), "runs as root"


@pytest.mark.parametrize(
    "name",
    ["README.md", "CONTRIBUTING.md", "index.md", "chapters/teaching.md", "chapters/errata.md"],
)
def test_every_make_target_that_a_page_names_exists(name):
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text(name), re.MULTILINE)) <= TARGETS
