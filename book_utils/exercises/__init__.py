"""Exercises that answer back: ``check("red_object.weights", my_function)`` says what is off.

The part of a name before the dot is the chapter; its exercises live in the module of that name in
this package. A checker tests properties of an answer on inputs of its own; it never compares code.
"""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
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


class Hint(str):
    """A text that a notebook shows without quotation marks."""

    def __repr__(self) -> str:
        return str(self)


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
        return Verdict(True, f"Right. {found.checker(answer)}".strip())
    except NotImplementedError as todo:
        return Verdict(False, f"Not attempted yet: {todo}")
    except Wrong as wrong:
        return Verdict(False, f"Not yet. {wrong}")


def hint(name: str) -> Hint:
    """A nudge for the exercise `name`.

    Raises:
        ValueError: there is no exercise of that name.
    """
    return Hint(find(name).hint)


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
    """The reader's function at copies of `inputs`, an error inside it told as a wrong answer.

    Raises:
        Wrong: the answer is not a function, or it failed.
        NotImplementedError: the stub has not been filled in.
    """
    if not callable(answer):
        raise Wrong(f"A function is needed here, but the answer is {type(answer).__name__}.")
    try:
        return answer(*copy.deepcopy(inputs))
    except NotImplementedError as error:
        if "not implemented for" not in str(error):  # torch's words for a dtype it cannot use
            raise
        raise Wrong(f"Your function stopped with {type(error).__name__}: {error}.") from error
    except (Exception, SystemExit) as error:
        raise Wrong(f"Your function stopped with {type(error).__name__}: {error}.") from error


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
        raise Wrong(f"A single number is needed here, but the answer is {answer!r}.") from None
    if value.size != 1:
        raise Wrong(f"A single number is needed here, but the answer has {value.size} of them.")
    if not np.isfinite(value).all():
        raise Wrong(f"A finite number is needed here, but the answer is {value.item()}.")
    return float(value.item())


def array(result: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What the reader's function returned, as a finite numpy array of the shape that is needed.

    Raises:
        Wrong: nothing was returned, the shape is another, or there are NaNs.
    """
    if result is None:
        raise Wrong("Your function returned None; is a return statement missing?")
    try:
        found = _real(result)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise Wrong(f"An array of numbers is needed, but got {type(result).__name__}.") from None
    if found.shape != shape:
        raise Wrong(f"The result should have shape {shape}, but has {found.shape}.")
    if not np.isfinite(found).all():
        raise Wrong("The result holds NaN or infinity.")
    return found


def _real(answer: Any) -> np.ndarray:
    """Numbers, arrays, lists and torch tensors as one float array."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu()
    found = np.asarray(answer)
    if np.iscomplexobj(found):
        raise Wrong("Real numbers are needed here, but the answer is complex.")
    return found.astype(float)
