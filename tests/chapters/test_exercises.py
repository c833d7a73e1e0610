"""Each exercise has a statement, a stub, a check, a hint and a solution that passes the check."""

import re

import pytest
from notebooks import NAMES, cells, read

from book_utils import exercises

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


@pytest.mark.parametrize("name", NAMES)
def test_the_chapter_uses_exactly_the_registered_exercises(name):
    used = [exercise for exercise, *_ in exercise_cells(name)]
    assert used == exercises.names(name)
    statements = re.findall(
        r"^### Exercise [\d.]+ · .+ \((?:easy|medium|harder|open)\)$",
        "\n".join(cell.source for cell in cells(name, "markdown")),
        re.MULTILINE,
    )
    assert 4 <= len(statements) <= 8
    assert len(statements) >= len(used)


@pytest.mark.parametrize("name", NAMES)
def test_statement_stub_hint_and_solution(name):
    for exercise, answer, statement, stub, solution in exercise_cells(name):
        assert "### Exercise" in statement, exercise
        assert "Not attempted yet" in stub.outputs[0].data["text/plain"], exercise
        assert details(solution, "Hint") == exercises.hint(exercise), exercise
        assert answer in details(solution, "Solution"), exercise


@pytest.mark.parametrize("name", NAMES)
def test_the_page_s_own_solutions_pass(name):
    preamble = "import numpy as np\nimport torch\n"
    for exercise, answer, _statement, _stub, solution in exercise_cells(name):
        blocks = re.findall(r"```python\n(.*?)```", details(solution, "Solution"), re.DOTALL)
        namespace: dict[str, object] = {}
        exec(preamble + "\n".join(blocks), namespace)
        verdict = exercises.check(exercise, namespace[answer])
        assert verdict, f"{exercise}: {verdict}"
