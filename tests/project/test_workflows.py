"""The workflows on GitHub call what exists, and are bounded in time, rights and trust."""

import re

import pytest
import yaml
from notebooks import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())


def load(path):
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # "on" stays a word


def steps(path):
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def workflow(request):
    return request.param


def test_the_events_that_the_book_needs_are_covered():
    events = {path.stem: load(path)["on"] for path in WORKFLOWS}
    assert {"push", "pull_request"} <= set(events["test"])
    assert events["release"] == {"push": {"tags": ["v*"]}}
    assert "push" in events["publish"]
    assert "schedule" in events["weekly"]


def test_every_make_target_exists(workflow):
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    called = re.findall(r"\bmake (?:--\S+ )*([a-z]+)", commands)
    assert called
    assert set(called) <= TARGETS


def test_every_nox_session_exists(workflow):
    sessions = re.findall(
        r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text("utf-8"), re.MULTILINE
    )
    commands = "\n".join(step.get("run", "") for step in steps(workflow))
    assert set(re.findall(r"\bnox -s (\w+)", commands)) <= set(sessions)


def test_every_phony_target_has_a_rule_and_is_the_only_kind_called():
    rules = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    assert rules >= TARGETS


def test_every_file_named_in_a_step_exists(workflow):
    for step in steps(workflow):
        text = str(step.get("run", "")) + str(step.get("with", ""))
        for name in re.findall(r"[\w./-]+\.(?:txt|toml|py|md)\b", text):
            if name != "notes.md":  # made by the step itself
                assert (ROOT / name).is_file(), name


def test_actions_are_pinned_to_a_commit_or_a_major_version(workflow):
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@(v\d+|[0-9a-f]{40})", step["uses"]), step["uses"]


def test_rights_and_time_are_bounded_and_no_run_overtakes_another(workflow):
    content = load(workflow)
    assert content["permissions"] in ({"contents": "read"}, {})
    assert content["concurrency"]["group"]
    for name, job in content["jobs"].items():
        assert int(job["timeout-minutes"]) <= 120, name
        written = {right for right, kind in job.get("permissions", {}).items() if kind == "write"}
        assert not written or name in ("deploy", "release"), name


def test_what_is_cached_depends_on_the_requirements(workflow):
    for step in steps(workflow):
        settings = step.get("with", {})
        if "cache" in settings:
            assert "requirements.txt" in settings["cache-dependency-path"].split()


def test_releases_use_the_names_that_the_makefile_gives():
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    assert "path: _build/dist/" in text
    assert "DIST := $(OUT)/_build/dist" in MAKEFILE
    assert '"v$(make --silent version)"' in text
