"""Chapters hold only what every front end renders: the built book, Jupyter, Colab and GitHub."""

import itertools
import re
import subprocess
import sys

import pytest
from notebooks import CHAPTERS, NAMES, ROOT, SUMMARY, cells, prose, read, toc_chapters

DISPLAY = re.compile(r"\$\$.*?\$\$", re.DOTALL)


def test_every_chapter_is_in_the_table_of_contents():
    assert sorted(toc_chapters()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_myst_directives_or_roles(name):
    text = prose(name)
    fences = "\n".join(cell.source for cell in cells(name, "markdown"))
    assert not re.search(r"^(:::|```\{)", fences, re.MULTILINE)
    assert not re.search(r"\{[a-z:]+\}`", text)
    assert not re.search(r"^\([\w-]+\)=$", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_display_mathematics_stands_alone(name):
    for cell in cells(name, "markdown"):
        for match in DISPLAY.finditer(cell.source):
            before, after = cell.source[: match.start()], cell.source[match.end() :]
            assert before == "" or before.endswith("\n\n"), match[0]
            assert after == "" or after.startswith("\n\n"), match[0]


@pytest.mark.parametrize("name", NAMES)
def test_mathematics_avoids_what_some_front_end_breaks(name):
    text = prose(name)
    formulas = DISPLAY.findall(text) + re.findall(r"(?<!\$)\$[^$]+\$(?!\$)", text)
    for formula in formulas:
        assert not re.search(r"\\\\[a-zA-Z]", formula), f"doubled backslash: {formula}"
        if r"\\" in formula:
            assert r"\begin{" in formula, f"a line break outside an environment: {formula}"
    for row in re.findall(r"^\|.*$", text, re.MULTILINE):
        inside = re.findall(r"\$[^$]*\$", row)
        assert not any("|" in formula for formula in inside), f"use \\lvert in tables: {row}"


@pytest.mark.parametrize("name", NAMES)
def test_equation_numbers_are_unique_and_referred_to_numbers_exist(name):
    text = prose(name)
    tags = re.findall(r"\\tag\{([\d.]+)\}", text)
    assert len(tags) == len(set(tags))
    chapter = re.match(r"# (\d+) · ", text)[1]
    assert all(tag.startswith(f"{chapter}.") for tag in tags)
    plain = re.sub(r"\$[^$]*\$", "", DISPLAY.sub("", text))
    for reference in re.findall(rf"\(({chapter}\.\d+)\)", plain):
        assert reference in tags, f"({reference}) is referred to but not defined"


@pytest.mark.parametrize("name", NAMES)
def test_relative_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(name)):
        if re.match(r"(https?:|#|mailto:)", target):
            continue
        assert (ROOT / "chapters" / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_headings_are_in_order_and_unique(name):
    levels = [(len(m[1]), m[2]) for m in re.finditer(r"^(#+) (.+)$", prose(name), re.MULTILINE)]
    assert [level for level, _ in levels].count(1) == 1
    assert levels[0][0] == 1
    for (above, _), (level, title) in itertools.pairwise(levels):
        assert level <= above + 1, f"{title!r} skips a level"
    titles = [title for _, title in levels]
    assert len(titles) == len(set(titles))


OPENER = ("**The question.**", "**After this chapter you can**", "**You need**", "**Time.**")
CLOSER = ("What this did not show", "Exercises", "Quiz", "In three lines", "Further reading")
TIME = r"\d+ minutes to read, another \d+ for the (?:exercises|quiz); the code runs in .+\."


@pytest.mark.parametrize("name", NAMES)
def test_opener(name):
    lines = cells(name, "markdown")[0].source.splitlines()
    assert re.fullmatch(r"# \d+ · .+", lines[0])
    assert lines[1] == ""
    assert lines[3::2] == [">"] * 3, "four paragraphs in one block"
    assert all(line.startswith(f"> {p} ") for p, line in zip(OPENER, lines[2::2], strict=True))
    assert lines[2].endswith("?")
    assert re.fullmatch(rf"> \*\*Time\.\*\* {TIME}", lines[-1])


@pytest.mark.parametrize("name", NAMES)
def test_closer(name):
    sections = re.split(r"^## (?:[\d.]+ )?", prose(name), flags=re.MULTILINE)
    closer = [title for title in CLOSER if (name, title) != (SUMMARY, "Exercises")]
    titles, texts = zip(*(part.split("\n", 1) for part in sections[-len(closer) :]), strict=True)
    assert list(titles) == closer
    text = dict(zip(titles, texts, strict=True))
    assert len(re.findall(r"[.?](?=\s|$)", text["In three lines"])) == 3
    if name != SUMMARY:
        assert text["Quiz"].strip() == ""
    works = text["Further reading"].strip().splitlines()
    assert len(works) >= 3
    for work in works:
        assert work.startswith("- ["), work
        assert len(re.sub(r"\[.*?\]\(.*?\)|\*[^*]+\*", "", work)) > 30, f"say why: {work}"


@pytest.mark.parametrize("name", NAMES)
def test_code_lines_fit_the_page(name):
    for cell in cells(name, "code"):
        for line in cell.source.splitlines():
            assert len(line) <= 80, line


@pytest.mark.parametrize("name", NAMES)
def test_chapters_do_not_touch_global_plotting_state(name):
    code = "\n".join(cell.source for cell in cells(name, "code"))
    assert "pyplot" not in code
    assert "rcParams" not in code
    assert not re.search(r"^\s*[%!]", code, re.MULTILINE), "magics do not run everywhere"


def test_stored_notebooks_are_in_normal_form():
    result = subprocess.run(
        [sys.executable, "tools/notebooks.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", CHAPTERS, ids=NAMES)
def test_size(path):
    assert path.stat().st_size < 500_000


def test_cell_ids_are_valid():
    for name in NAMES:
        identities = [cell.id for cell in read(name).cells]
        assert len(identities) == len(set(identities))
