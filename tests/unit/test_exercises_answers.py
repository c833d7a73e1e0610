"""Each checker accepts other right answers and tells typical wrong ones apart, for every exercise.

The answers stand in ``answers/<chapter>.py``. The page's own solutions serve here as well: wrapped
so that they print, scribble over their inputs or return lists they must still pass.
"""

import copy
import importlib
import inspect
import re

import numpy as np
import pytest
import torch

from book_utils import exercises

ANSWERS = {
    chapter: importlib.import_module(f"answers.{chapter}") for chapter in exercises.chapters()
}
NAMES = [name for chapter in ANSWERS for name in exercises.names(chapter)]
RIGHT = [
    (f"{chapter}.{name}", answer)
    for chapter, module in ANSWERS.items()
    for name, answer in module.RIGHT
]
WRONG = [
    (f"{chapter}.{name}", answer, words)
    for chapter, module in ANSWERS.items()
    for name, answer, words in module.WRONG
]


def says(name, answer):
    return repr(exercises.check(name, answer))


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_right_answers_pass(name, answer):
    assert says(name, answer).startswith("Right. ")


@pytest.mark.parametrize(("name", "answer", "words"), WRONG)
def test_wrong_answers_are_told_why(name, answer, words):
    verdict = says(name, answer)
    assert verdict.startswith("Not yet. ")
    assert words in verdict


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_answers_of_both_kinds(name):
    assert sum(name == other for other, _ in RIGHT) >= 1
    told = {says(name, answer) for other, answer, _ in WRONG if other == name}
    assert len(told) >= 5, f"{name} tells {len(told)} mistakes apart"


def test_every_answer_belongs_to_an_exercise():
    assert {name for name, *_ in RIGHT + WRONG} == set(NAMES)


# The page's own solutions, and what a reader may do around them.


def own_answer(name):
    """What the solution of the page defines."""
    namespace = {"np": np, "torch": torch}
    exec(exercises.solution(name).code, namespace)
    (answer,) = (namespace[key] for key in namespace if key not in ("np", "torch", "__builtins__"))
    return answer


FUNCTIONS = [name for name in NAMES if inspect.isfunction(own_answer(name))]
NUMBERS = [name for name in NAMES if name not in FUNCTIONS]


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_passes(name):
    assert says(name, own_answer(name)).startswith("Right. ")


@pytest.mark.parametrize("name", NAMES)
def test_untouched_stubs_are_not_called_wrong(name):
    def stub(*_):
        raise NotImplementedError("fill me in.")

    verdict = says(name, stub if name in FUNCTIONS else ...)
    assert verdict.startswith("Not attempted yet: ")


def scribbling(function):
    """The same function, which spoils its inputs afterwards."""

    def answer(*inputs):
        result = copy.deepcopy(function(*inputs))
        spoil(inputs)
        return result

    return answer


def spoil(inputs):
    for value in inputs:
        if isinstance(value, np.ndarray):
            value[...] = 0
        elif isinstance(value, tuple):
            spoil(value)


def printing(function):
    """The same function, which tells what it does."""

    def answer(*inputs):
        print("called with", inputs)
        return function(*inputs)

    return answer


def listing(function):
    """The same function, with plain Python lists and numbers in its result."""

    def plain(result):
        if isinstance(result, tuple):
            return tuple(map(plain, result))
        return np.asarray(result).tolist()

    return lambda *inputs: plain(function(*inputs))


def tensors(function):
    """The same function, with tensors that have a gradient in its result."""

    def tensor(result):
        if isinstance(result, tuple):
            return tuple(map(tensor, result))
        return torch.tensor(np.asarray(result), dtype=torch.float64, requires_grad=True)

    return lambda *inputs: tensor(function(*inputs))


def single(function):
    """The same function, with tensors of 32-bit numbers in its result."""

    def tensor(result):
        if isinstance(result, tuple):
            return tuple(map(tensor, result))
        return torch.tensor(np.asarray(result), dtype=torch.float32)

    return lambda *inputs: tensor(function(*inputs))


def boxed(function):
    """The same function, with arrays of no dimension in place of numbers."""

    def box(result):
        return tuple(map(box, result)) if isinstance(result, tuple) else np.asarray(result)

    return lambda *inputs: box(function(*inputs))


@pytest.mark.parametrize("around", [scribbling, printing, listing, tensors, single, boxed])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_harmless_habits_are_no_mistakes(name, around):
    assert says(name, around(own_answer(name))).startswith("Right. ")


DISTORTIONS = {
    "zero": lambda result: 0 * result,
    "huge": lambda result: 1e300 * (result + 1),
    "not a number": lambda result: result * np.nan,
    "infinite": lambda result: result * 0 + np.inf,
    "minus infinity": lambda result: result * 0 - np.inf,
    "half": lambda result: result / 2,
    "one more": lambda result: result + 1,
}


@pytest.mark.parametrize("distort", DISTORTIONS.values(), ids=DISTORTIONS)
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.endswith(".leaks")])
def test_a_distorted_result_gets_a_message(name, distort):
    def distorted(result):
        if isinstance(result, tuple):
            return tuple(map(distorted, result))
        return distort(np.asarray(result, dtype=float))

    own = own_answer(name)
    assert re.match(r"Not yet\. .{10}", says(name, lambda *inputs: distorted(own(*inputs))))


def overwriting(*inputs):
    spoil(inputs)
    return inputs[0]


async def asynchronous(*inputs):
    return inputs[0]


def generator(*inputs):
    yield from inputs


def failing(*inputs):
    raise KeyError("mug")


def one_argument_too_many(*inputs):
    return own(*inputs)


def own():
    return 1.0


NAN = float("nan")
FAULTS = [
    (asynchronous, "def instead of async def"),
    (generator, "collect them and return them"),
    (failing, "stopped with KeyError: 'mug'."),
    (one_argument_too_many, "stopped with TypeError"),
    (lambda *inputs: None, "is a return statement missing?"),
    (lambda *inputs: print("0.5"), "return it instead"),
    (lambda *inputs: "abc", None),
    (lambda *inputs: {"a": 1}, None),
    (lambda *inputs: object(), None),
    (lambda *inputs: [[1.0], [1.0, 2.0]], None),
    (lambda *inputs: [torch.ones(2, requires_grad=True)], None),
    (lambda *inputs: 1j, None),
    (lambda *inputs: NAN, None),
    (lambda *inputs: (NAN, NAN), None),
    (lambda *inputs: [NAN] * 5, None),
    (lambda *inputs: np.full((3, 3), NAN), None),
    (lambda *inputs: np.full((5, 2), np.inf), None),
    (lambda *inputs: (np.full((5, 2), NAN), np.full(5, NAN)), None),
    (lambda *inputs: (), None),
    (lambda *inputs: np.empty((0, 0)), None),
    (lambda *inputs: np.float16(0.1), None),
    (lambda *inputs: lambda: 1.0, None),
    (lambda *inputs: map(float, inputs), None),
    (overwriting, None),
    (lambda *inputs: inputs, None),
]


@pytest.mark.parametrize(("answer", "words"), FAULTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_function_gets_a_message(name, answer, words):
    verdict = says(name, answer)
    assert re.match(r"Not yet\. .{10}", verdict)
    assert words is None or words in verdict


@pytest.mark.parametrize("answer", [0.5, "0.5", np.ones(3), None, ..., object()])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_anything_but_a_function_is_told_so(name, answer):
    assert "A function is needed here" in says(name, answer)


@pytest.mark.parametrize(
    "answer",
    [
        len,
        "many",
        [],
        [1.0, 2.0],
        {},
        object(),
        1j,
        NAN,
        float("inf"),
        -1e308,
        10**400,
        NotImplemented,
    ],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_any_number_gets_a_message(name, answer):
    assert re.match(r"Not yet\. .{10}", says(name, answer))
