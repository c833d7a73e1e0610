"""Exercises that answer back: ``check("attention.causal", my_function)`` says what is off.

``hint`` and ``solution`` take the same names. The part before the dot is the chapter; its checkers
and hints live in the module of that name in this package, its solutions in
``solutions/<chapter>.md``. A checker tests properties of an answer on inputs of its own; it never
compares code.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import io
import pkgutil
import re
import reprlib
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from types import ModuleType
from typing import Any

import numpy as np


class Wrong(Exception):
    """Raised by a checker with the sentence that tells the reader what is off."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: its name, how an answer is checked, and a hint."""

    name: str
    checker: Callable[[Any], str]
    hint: str


@dataclass(frozen=True)
class Verdict:
    """What `check` returns; it displays as one sentence and is true only for a right answer."""

    right: bool
    message: str

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        return self.message


class Text(str):
    """Markdown: a notebook renders it, a terminal shows it without quotation marks."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        return str(self)


class Solution(Text):
    """An explanation with its code; ``.code`` is the code alone, as a string."""

    @property
    def code(self) -> str:
        """The Python of the solution, which defines the name that the stub defines."""
        return "\n".join(re.findall(r"```python\n(.*?)```", self, re.DOTALL))


_EXERCISES: dict[str, Exercise] = {}


def exercise(name: str, *, hint: str) -> Callable[[Callable[[Any], str]], Callable[[Any], str]]:
    """Register the decorated checker under `name`.

    A checker takes the reader's answer, raises `Wrong` with a reason, and returns the sentence that
    follows "Right." otherwise.
    """

    def register(checker: Callable[[Any], str]) -> Callable[[Any], str]:
        _EXERCISES[name] = Exercise(name, checker, hint)
        return checker

    return register


def check(name: str, answer: Any) -> Verdict:
    """Whether `answer` (a number, an array or a function) solves the exercise, and if not why.

    Raises:
        ValueError: there is no exercise of that name.
    """
    found = find(name)
    try:
        with np.errstate(all="ignore"):  # an odd answer gets a sentence, and no warning of numpy's
            return Verdict(True, f"Right. {found.checker(answer)}".strip())
    except NotImplementedError as todo:
        return Verdict(False, f"Not attempted yet: {todo}")
    except Wrong as wrong:
        return Verdict(False, f"Not yet. {wrong}")


def hint(name: str) -> Text:
    """A nudge for the exercise `name`, the one that its page folds away.

    Raises:
        ValueError: there is no exercise of that name.
    """
    return Text(find(name).hint)


def solution(name: str) -> Solution:
    """The solution of the exercise `name`, the one that its page folds away.

    Raises:
        ValueError: there is no exercise of that name.
    """
    chapter, _, short = find(name).name.partition(".")
    return solutions(chapter)[short]


@functools.cache
def solutions(chapter: str) -> dict[str, Solution]:
    """All solutions of a chapter by their names without the chapter, in the order of its text."""
    file = resources.files(__name__) / "solutions" / f"{chapter}.md"
    _, *parts = re.split(r"^## (\w+)\n", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: Solution(text.strip()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def find(name: str) -> Exercise:
    """The exercise called `name`; ValueError with the names there are otherwise."""
    chapter = str(name).partition(".")[0]
    if chapter not in chapters():
        raise ValueError(f"name must start with one of {chapters()} and a dot, got {name!r}")
    load(chapter)
    if name not in _EXERCISES:
        raise ValueError(f"name must be one of {names(chapter)}, got {name!r}")
    return _EXERCISES[name]


def names(chapter: str) -> list[str]:
    """The names of a chapter's exercises, in the order of its text; ValueError if it has none."""
    if chapter not in chapters():
        raise ValueError(f"chapter must be one of {chapters()}, got {chapter!r}")
    load(chapter)
    return [name for name in _EXERCISES if name.startswith(f"{chapter}.")]


def chapters() -> list[str]:
    """The chapters that have exercises."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(chapter: str) -> ModuleType:
    """Import the module that holds a chapter's exercises."""
    return importlib.import_module(f"{__name__}.{chapter}")


def call(answer: Any, *inputs: Any) -> Any:
    """What the reader's function returns for copies of `inputs`.

    The function may overwrite its inputs and may print; warnings are for the checker to judge.

    Raises:
        Wrong: the answer is not a plain function, it failed, or it returned nothing.
        NotImplementedError: the stub has not been filled in.
    """
    if not callable(answer):
        raise Wrong(f"A function is needed here, but the answer is {type(answer).__name__}.")
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = answer(*copy.deepcopy(inputs))
    except NotImplementedError as error:
        if "not implemented for" not in str(error):  # torch's words for a dtype it cannot use
            raise
        raise Wrong(_stopped(error)) from error
    except (Exception, SystemExit) as error:
        raise Wrong(_stopped(error)) from error
    finally:
        print(printed.getvalue(), end="")
    if inspect.iscoroutine(result):
        result.close()
        raise Wrong("Your function is asynchronous; define it with def instead of async def.")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise Wrong("Your function yields its results one by one; collect them and return them.")
    if result is None and printed.getvalue():
        raise Wrong("Your function prints its result and returns None; return it instead.")
    if result is None:
        raise Wrong("Your function returned None; is a return statement missing?")
    return result


def _stopped(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    return f"Your function stopped with {type(error).__name__}{f': {text}' if text else ''}."


def number(answer: Any) -> float:
    """The reader's answer as a finite number.

    Raises:
        Wrong: it is not one.
        NotImplementedError: the answer is still None or ``...``.
    """
    if answer is None or answer is Ellipsis:
        raise NotImplementedError("put a number in place of the dots.")
    try:
        value = _real(answer)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        shown = reprlib.repr(answer)
        raise Wrong(f"A single number is needed here, but the answer is {shown}.") from None
    if value.size != 1:
        raise Wrong(f"A single number is needed here, but the answer has {value.size} of them.")
    if not np.isfinite(value).all():
        raise Wrong(f"A finite number is needed here, but the answer is {value.item()}.")
    return float(value.item())


def array(
    result: Any, shape: tuple[int, ...], what: str = "The result", *, finite: bool = True
) -> np.ndarray:
    """What the reader's function returned, as a numpy array of the shape that is needed.

    Args:
        result: what it returned.
        shape: the shape that is needed.
        what: what to call the result in a message.
        finite: whether NaN and infinity are wrong (otherwise the caller looks for them).

    Raises:
        Wrong: it is no array of numbers, has another shape, or is not finite.
    """
    try:
        found = _real(result)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Wrong(
            f"{what} should be an array of numbers, but is {type(result).__name__}."
        ) from None
    if found.shape != shape:
        raise Wrong(f"{what} should have shape {shape}, but has {found.shape}.")
    if finite and np.isnan(found).any():
        raise Wrong(f"{what} holds NaN: somewhere 0 is divided by 0, or ∞ by ∞.")
    if finite and np.isinf(found).any():
        raise Wrong(f"{what} holds infinity: a division by zero, or an overflow.")
    return found


def parts(result: Any, wanted: Sequence[tuple[str, tuple[int, ...]]]) -> list[np.ndarray]:
    """Several arrays that were returned together: in a tuple, a list, or as the rows of an array.

    Args:
        result: what the reader's function returned.
        wanted: what each part is called, and its shape.

    Raises:
        Wrong: there are more or fewer parts, or one of them is not what `array` needs.
    """
    result = rows(result)
    if not isinstance(result, tuple | list) or len(result) != len(wanted):
        names = ", ".join(name for name, _ in wanted)
        count = {2: "two", 3: "three", 4: "four"}[len(wanted)]
        raise Wrong(f"Return {count} things together, in this order: {names}.")
    return [
        array(part, shape, f"Of what is returned, {name}")
        for part, (name, shape) in zip(result, wanted, strict=True)
    ]


def rows(result: Any) -> Any:
    """An array or tensor as the list of its rows; anything else as it is."""
    plain = detached(result)
    return list(plain) if isinstance(plain, np.ndarray) and plain.ndim else plain


def detached(result: Any) -> Any:
    """A torch tensor as a numpy array; anything else as it is."""
    return result.detach().cpu().numpy() if hasattr(result, "detach") else result


def shape_of(result: Any) -> tuple[int, ...] | None:
    """The shape of what was returned; None where it is no array."""
    try:
        return np.shape(detached(result))
    except (TypeError, ValueError, RuntimeError):
        return None


def close(a: Any, b: Any, tolerance: float = 1e-6) -> bool:
    """Whether two arrays have one shape and (nearly) the same entries."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance))


def explain(found: Any, mistakes: Iterable[tuple[Any, str]], otherwise: str) -> None:
    """Raise `Wrong` with the reason of the first mistake that gives what was found.

    Args:
        found: the reader's result, which is not right.
        mistakes: pairs of what a typical mistake gives, and the sentence that puts it right.
        otherwise: what to say if it is none of them.
    """
    for value, why in mistakes:
        if close(found, value):
            raise Wrong(why)
    raise Wrong(otherwise)


def _real(answer: Any) -> np.ndarray:
    """Numbers, arrays, lists and torch tensors as one float array."""
    if answer is None:
        raise TypeError("None is no number")
    found = np.asarray(detached(answer))
    if np.iscomplexobj(found):
        raise Wrong("Real numbers are needed here, but the answer is complex.")
    return found.astype(float)
