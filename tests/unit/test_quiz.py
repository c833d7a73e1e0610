"""Quizzes: sound questions, and HTML that works in each front end."""

import json
import re

import numpy as np
import pytest

from book_utils import hippo
from book_utils import quiz as module
from book_utils.quiz import quiz


@pytest.mark.parametrize("name", module.names())
def test_every_quiz_is_sound(name):
    questions = quiz(name).questions
    fewest, most = (12, 16) if name == "summary" else (5, 8)
    assert fewest <= len(questions) <= most
    assert len({question.text for question in questions}) == len(questions)
    for question in questions:
        assert 3 <= len(question.options) <= 4
        assert len({option.text for option in question.options}) == len(question.options)
        for option in question.options:
            assert len(option.why) > 30, option.text
            for text in (question.text, option.text, option.why):
                assert not re.search(r"[$\\<>]", text), f"plain text only: {text}"


@pytest.mark.parametrize("name", module.names())
def test_the_right_option_is_not_always_at_the_same_place(name):
    places = {[o.right for o in question.options].index(True) for question in quiz(name).questions}
    assert len(places) > 1


def test_unknown_names_list_what_there_is():
    with pytest.raises(ValueError, match=r"must be one of .*red_object_lookup.*got 'nowhere'"):
        quiz("nowhere")


def test_two_right_options_are_refused():
    entry = {"question": "?", "options": [{"text": t, "right": True, "why": "so"} for t in "ab"]}
    with pytest.raises(ValueError, match="exactly one option must be right"):
        module._question(entry)


def test_notebook_form_folds_the_answers(monkeypatch):
    monkeypatch.delenv("BOOK_FRONT_END", raising=False)
    shown = quiz("red_object_lookup")
    data = shown._repr_mimebundle_()
    assert data["text/html"].count("<details>") == len(shown.questions)
    assert "<form" not in data["text/html"]
    assert data["text/plain"] == f"Quiz: {len(shown.questions)} questions."
    assert data == quiz("red_object_lookup")._repr_mimebundle_()


def test_built_form_labels_every_option(monkeypatch):
    monkeypatch.setenv("BOOK_FRONT_END", "html")
    page = quiz("red_object_lookup")._repr_mimebundle_()["text/html"]
    radios = re.findall(r'<input type="radio" id="([^"]+)"', page)
    assert radios == re.findall(r'<label for="([^"]+)">', page)
    assert len(radios) == len(set(radios))
    assert page.count("data-right") == page.count("<fieldset>")
    assert "<form hidden>" in page


def test_questions_are_valid_json_with_nothing_unknown():
    for name in module.names():
        path = module.resources.files("book_utils") / "quizzes" / f"{name}.json"
        for entry in json.loads(path.read_text(encoding="utf-8")):
            assert set(entry) == {"question", "options"}
            for option in entry["options"]:
                assert set(option) <= {"text", "right", "why"}
                assert option.get("right", True) is True


def test_what_a_quiz_says_of_legs_and_quick_events():
    """16 numbers flatten a dash alike at 60 and at 155 tokens, and keep it at the end."""
    t = np.arange(240) / 240
    wander = 2 + 0.8 * np.sin(2 * np.pi * (1.3 * t + 0.1)) + 0.4 * np.sin(8.2 * np.pi * t)

    def kept(age):
        at = 240 - age
        dash = -1.1 * np.exp(-(((t - at / 240) / 0.02) ** 2))
        read = [
            hippo.legs_reconstruction(hippo.legs_states(f, 16)[-1], t + 1 / 480)[at]
            for f in (wander + dash, wander)
        ]
        return (read[0] - read[1]) / dash[at]

    assert abs(kept(60) - kept(155)) < 0.05
    assert kept(155) < 0.5 < 0.8 < kept(5)
