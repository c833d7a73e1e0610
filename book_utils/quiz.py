"""Quizzes at the end of a chapter: ``quiz("attention")`` shows the questions of that chapter.

The questions stand in ``book_utils/quizzes/<chapter>.json``. In the built book they are a form that
answers back (``_static/book.js``); in a notebook, and without JavaScript, they are questions with
the answers folded away. The HTML is the same for the same file, to the byte.
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Option:
    """One possible answer, whether it is right, and why."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Question:
    """A question with its options, of which exactly one is right."""

    text: str
    options: Sequence[Option]


@dataclass(frozen=True)
class Quiz:
    """What `quiz` returns; it displays itself in whichever front end it finds itself."""

    name: str
    questions: Sequence[Question]

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        page = _form(self) if os.environ.get("BOOK_FRONT_END") == "html" else _folded(self)
        return {"text/html": page, "text/plain": f"Quiz: {len(self.questions)} questions."}


def quiz(name: str) -> Quiz:
    """The quiz of a chapter.

    Raises:
        ValueError: there is no quiz of that name, or a question has not exactly one right option.
    """
    if name not in names():
        raise ValueError(f"name must be one of {names()}, got {name!r}")
    text = (resources.files(__package__) / "quizzes" / f"{name}.json").read_text(encoding="utf-8")
    return Quiz(name, [_question(entry) for entry in json.loads(text)])


def names() -> list[str]:
    """The chapters that have a quiz."""
    folder = resources.files(__package__) / "quizzes"
    return sorted(
        entry.name.removesuffix(".json")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    )


def _question(entry: dict[str, Any]) -> Question:
    options = [Option(o["text"], o.get("right", False), o["why"]) for o in entry["options"]]
    if sum(option.right for option in options) != 1:
        raise ValueError(f"exactly one option must be right: {entry['question']!r}")
    return Question(entry["question"], options)


def _folded(shown: Quiz) -> str:
    """Questions with their answers in ``<details>``."""
    items = []
    for question in shown.questions:
        options = "".join(f"<li>{html.escape(option.text)}</li>" for option in question.options)
        answers = "".join(
            f"<p><strong>{'Right' if option.right else 'No'}: {html.escape(option.text)}</strong><br>"
            f"{html.escape(option.why)}</p>"
            for option in question.options
        )
        items.append(
            f"<li><p>{html.escape(question.text)}</p><ul>{options}</ul>"
            f"<details><summary>Answer</summary>{answers}</details></li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def _form(shown: Quiz) -> str:
    """A form for the built book; the folded form beside it is what stands without JavaScript."""
    fieldsets = "\n".join(
        _fieldset(f"quiz-{shown.name}-{number}".replace("_", "-"), number, question)
        for number, question in enumerate(shown.questions, start=1)
    )
    return (
        f'<div class="quiz" id="quiz-{shown.name.replace("_", "-")}">\n'
        f'<div class="quiz-folded">{_folded(shown)}</div>\n<form hidden>\n{fieldsets}\n'
        '<p class="quiz-score"><output aria-live="polite"></output>'
        '<button type="reset">Start again</button></p>\n</form>\n</div>'
    )


def _fieldset(identity: str, number: int, question: Question) -> str:
    options = "".join(
        f'<div class="quiz-option"><input type="radio" id="{identity}-{i}" name="{identity}" value="{i}"'
        f'{" data-right" if option.right else ""}><label for="{identity}-{i}">'
        f"{html.escape(option.text)}</label>"
        f"<p hidden><strong>{'Right.' if option.right else 'No.'}</strong> {html.escape(option.why)}</p>"
        "</div>"
        for i, option in enumerate(question.options, start=1)
    )
    return (
        f"<fieldset><legend>{number}. {html.escape(question.text)}</legend>{options}"
        '<div class="quiz-why" aria-live="polite"></div></fieldset>'
    )
