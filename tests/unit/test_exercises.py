"""The machinery of exercises: verdicts, hints, and how answers are read."""

import sys

import numpy as np
import pytest
import torch

from book_utils import exercises
from book_utils.exercises import Wrong


def test_unknown_names_list_what_there_is():
    with pytest.raises(ValueError, match=r"must start with one of .*red_object_lookup"):
        exercises.check("nowhere.weights", 1)
    with pytest.raises(ValueError, match=r"must be one of .*red_object_lookup\.weights"):
        exercises.check("red_object_lookup.nothing_like_it", 1)


def test_verdict_is_a_sentence_and_a_truth_value():
    right = exercises.check("red_object_lookup.two_tokens", 8.34)
    assert right
    assert repr(right).startswith("Right. ")
    wrong = exercises.check("red_object_lookup.two_tokens", 9)
    assert not wrong
    assert repr(wrong).startswith("Not yet. ")


def test_untouched_stub_is_not_an_error():
    def stub(query, keys):
        raise NotImplementedError("return something.")

    assert repr(exercises.check("red_object_lookup.weights", stub)) == (
        "Not attempted yet: return something."
    )
    assert "Not attempted yet" in repr(exercises.check("red_object_lookup.two_tokens", ...))


def test_hint_is_text_without_quotation_marks():
    assert repr(exercises.hint("red_object_lookup.weights")).startswith("keys @ query")


def test_a_solution_is_an_explanation_with_its_code():
    shown = exercises.solution("red_object_lookup.two_tokens")
    assert "$1/\\sqrt2 = 0.7071$" in repr(shown)
    assert shown.code == "answer = 8.34\n"
    assert shown._repr_markdown_() == repr(shown)
    for ask in (exercises.hint, exercises.solution):
        with pytest.raises(ValueError, match=r"must be one of .*red_object_lookup\.weights"):
            ask("red_object_lookup.nothing_like_it")


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_every_exercise_has_a_solution_and_a_hint(chapter):
    names = exercises.names(chapter)
    assert [f"{chapter}.{name}" for name in exercises.solutions(chapter)] == names
    for name in names:
        assert exercises.solution(name).code.strip()
        assert len(exercises.hint(name)) > 40


def test_call_tells_of_errors_inside_the_answer():
    with pytest.raises(Wrong, match="stopped with ZeroDivisionError: division by zero"):
        exercises.call(lambda x: x / 0, 1)
    with pytest.raises(Wrong, match="A function is needed here, but the answer is float"):
        exercises.call(1.0)


@pytest.mark.parametrize("answer", [float("nan"), float("inf")])
def test_number_must_be_finite(answer):
    with pytest.raises(Wrong, match="finite"):
        exercises.number(answer)


@pytest.mark.parametrize("answer", ["many", [1, 2]])
def test_number_must_be_a_number(answer):
    with pytest.raises(Wrong, match="single number"):
        exercises.number(answer)


def test_array_says_what_is_off():
    for result, message in (
        (None, "should be an array of numbers, but is NoneType"),
        (np.zeros(3), r"should have shape \(2,\), but has \(3,\)"),
        ([np.nan, 1], "NaN"),
        ([np.inf, 1], "infinity: a division by zero, or an overflow"),
        ({"a": 1}, "is dict"),
    ):
        with pytest.raises(Wrong, match=message):
            exercises.array(result, (2,))


def test_inputs_are_copied_so_an_answer_may_overwrite_them():
    given = np.arange(3.0)

    def overwrite(x):
        x *= 0
        return x

    np.testing.assert_array_equal(exercises.call(overwrite, given), np.zeros(3))
    np.testing.assert_array_equal(given, np.arange(3.0))


def test_leaving_python_is_a_wrong_answer():
    with pytest.raises(Wrong, match="stopped with SystemExit"):
        exercises.call(lambda: sys.exit(3))


def test_a_dtype_that_torch_cannot_use_is_not_an_untouched_stub():
    with pytest.raises(Wrong, match="not implemented for 'Long'"):
        exercises.call(lambda: torch.softmax(torch.tensor([1, 2]), 0))


def test_tensors_and_arrays_of_one_are_numbers():
    assert exercises.number(torch.tensor([8.34], requires_grad=True, dtype=torch.float64)) == 8.34
    assert exercises.number(np.array([[8.34]])) == 8.34
    np.testing.assert_array_equal(
        exercises.array(torch.ones(2, requires_grad=True), (2,)), [1.0, 1.0]
    )


def test_complex_and_huge_answers_are_refused():
    with pytest.raises(Wrong, match="complex"):
        exercises.number(8.34 + 3j)
    with pytest.raises(Wrong, match="complex"):
        exercises.array(np.ones(2) + 0j, (2,))
    with pytest.raises(Wrong, match="single number"):
        exercises.number(10**400)


def test_names_of_an_unknown_chapter():
    with pytest.raises(ValueError, match="chapter must be one of"):
        exercises.names("os")


def test_what_a_reader_prints_is_shown(capsys):
    def answer(x):
        print("x is", x)
        return x

    assert exercises.call(answer, 3) == 3
    assert capsys.readouterr().out == "x is 3\n"


def test_a_function_that_prints_in_place_of_returning_is_told_so():
    with pytest.raises(Wrong, match="prints its result and returns None; return it instead"):
        exercises.call(lambda: print(0.5))


def test_warnings_inside_an_answer_are_left_to_the_checker():
    assert np.isinf(exercises.call(lambda x: 1 / x, np.zeros(1))).all()


def test_parts_read_tuples_lists_and_arrays_alike():
    wanted = (("the slope", ()), ("the intercept", ()))
    for result in ((1, 2), [1, 2], np.array([1, 2]), torch.tensor([1.0, 2.0], requires_grad=True)):
        assert exercises.parts(result, wanted) == [1, 2]
    for result in (1.0, (1, 2, 3), {"a": 1}, "ab"):
        with pytest.raises(Wrong, match="two things together, in this order: the slope, the int"):
            exercises.parts(result, wanted)
    with pytest.raises(Wrong, match=r"Of what is returned, the intercept should have shape \(\)"):
        exercises.parts((1, [2, 3]), wanted)


def test_explain_takes_the_first_mistake_of_the_same_shape():
    found = np.ones(2)
    for mistakes, words in (
        ([(np.zeros(2), "a"), (np.ones(2), "b"), (np.ones(2), "c")], "b"),
        ([(1.0, "broadcast")], "none of them"),
        ([], "none of them"),
    ):
        with pytest.raises(Wrong, match=words):
            exercises.explain(found, mistakes, "none of them")


def test_a_tiny_gate_is_worth_a_remark():
    for answer, remark in ((lambda g: -np.log(1 - g), True), (lambda g: -np.log1p(-g), False)):
        verdict = exercises.check("ssm_layers.step_for_gate", answer)
        assert verdict
        assert ("np.log1p(-g)" in repr(verdict)) == remark
