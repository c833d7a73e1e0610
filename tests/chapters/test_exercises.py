"""Each exercise has a statement, a stub, a check, a hint and a solution that passes the check."""

import re

import pytest
from notebooks import NAMES as NOTEBOOKS
from notebooks import cells, read

from book_utils import exercises

NAMES = exercises.chapters()
CHECK = re.compile(r'exercises\.check\("([\w.]+)", (\w+)\)')


def exercise_cells(name):
    """(statement, stub, answer) cells of each checked exercise."""
    notebook = read(name).cells
    for i, cell in enumerate(notebook):
        found = CHECK.search(cell.source) if cell.cell_type == "code" else None
        if found:
            yield found[1], found[2], notebook[i - 1].source, cell, notebook[i + 1].source


def details(text, title):
    found = re.search(
        rf"<details><summary>{title}</summary>\n\n(.*?)\n\n</details>", text, re.DOTALL
    )
    assert found, f"no {title.lower()} in {text[:60]!r}"
    return found[1]


TITLE = re.compile(r"^### Exercise [\d.]+ · .+ \((easy|medium|harder|open)\)$", re.MULTILINE)
GRADES = ["easy", "medium", "harder", "open"]


def test_every_notebook_with_exercises_is_registered():
    practised = [
        name for name in NOTEBOOKS if any(CHECK.search(c.source) for c in cells(name, "code"))
    ]
    assert practised == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_chapter_uses_exactly_the_registered_exercises(name):
    used = [exercise for exercise, *_ in exercise_cells(name)]
    assert used == exercises.names(name)


@pytest.mark.parametrize("name", NAMES)
def test_exercises_rise_from_easy_to_one_open_question(name):
    markdown = [cell.source for cell in cells(name, "markdown")]
    grades = [grade for text in markdown for grade in TITLE.findall(text)]
    assert 4 <= len(grades) <= 8
    assert grades == sorted(grades, key=GRADES.index)
    assert grades[0] == "easy"
    assert grades.count("open") == 1
    assert len(grades) == len(exercises.names(name)) + 1  # all but the open one are checked
    (last,) = (text for text in markdown if "(open)" in text)
    for title in ("Hint", "Solution"):
        assert len(details(last, title)) > 60


@pytest.mark.parametrize("name", NAMES)
def test_the_reader_is_told_how_to_ask(name):
    (text,) = (cell.source for cell in cells(name, "markdown") if "## Exercises" in cell.source)
    assert "`exercises.hint(name)`" in text
    assert "`exercises.solution(name)`" in text


@pytest.mark.parametrize("name", NAMES)
def test_statement_stub_hint_and_solution(name):
    for exercise, answer, statement, stub, page in exercise_cells(name):
        assert TITLE.search(statement), exercise
        assert stub.outputs[0].data["text/plain"].startswith("Not attempted yet: "), exercise
        assert details(page, "Hint") == exercises.hint(exercise), exercise
        assert details(page, "Solution") == exercises.solution(exercise), exercise
        assert answer in exercises.solution(exercise).code, exercise


@pytest.mark.parametrize("name", NAMES)
def test_stubs_say_what_to_return_and_not_how(name):
    for exercise, _answer, _statement, stub, _page in exercise_cells(name):
        told = re.search(r'NotImplementedError\(\s*"(.*?)"', stub.source)
        if "def " in stub.source:
            assert told, exercise
            assert re.match(r"return ", told[1]), exercise
            assert not re.search(r"[=*/@]| then ", told[1]), exercise


@pytest.mark.parametrize("name", NAMES)
def test_the_page_s_own_solutions_pass(name):
    preamble = "import numpy as np\nimport torch\n"
    for exercise, answer, _statement, _stub, page in exercise_cells(name):
        blocks = re.findall(r"```python\n(.*?)```", details(page, "Solution"), re.DOTALL)
        namespace: dict[str, object] = {}
        exec(preamble + "\n".join(blocks), namespace)
        verdict = exercises.check(exercise, namespace[answer])
        assert verdict, f"{exercise}: {verdict}"
