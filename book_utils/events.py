r"""Little worlds with events in them: recall the last one that matters, or add them all up.

A sequence has T tokens. Token t is the row

$$ x_t = [\,v_t,\; \text{write}_t,\; \text{query}_t,\; \mathrm{onehot}(\text{object}_t)\,], $$

so it has 3 + objects entries. A *write* (write = 1) says that its object now has the value v. A
*distractor* (write = 0) carries an object and an equally large value that mean nothing. The *query*
(query = 1) comes last, carries no value and names the object that is asked for. Values are uniform
on [−√3, √3]: mean 0, variance 1.

The age of an event is its **distance** k: how many tokens the query comes after it. The event at
token T − 1 − k has distance k, the query itself distance 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import tables
from ._validate import finite, generator, positive_int

Floats = NDArray[np.float64]

VALUE, WRITE, QUERY, OBJECT = 0, 1, 2, 3  # columns of a token; objects begin at column 3
LARGEST = float(np.sqrt(3.0))  # values are uniform on ±√3, so their variance is 1


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences and what should be answered at their end.

    Attributes:
        tokens: (N, T, 3 + objects).
        targets: the right answers, (N,).
        at: what makes one sequence harder than another, (N,): the distance k of the last relevant
            write, or the number of items in a running sum.
    """

    tokens: Floats
    targets: Floats
    at: NDArray[np.int64]


@dataclass(frozen=True)
class RecallTask:
    """Where is the mug? Report the value of the last write of the object that the query names.

    Args:
        objects: how many objects are written, each once; their names are equally likely.
        moved: whether each is written twice, so that the first value is out of date. The asked
            object's two writes are `gap` tokens apart.
        max_gap: the gap is uniform on 1 … max_gap, whatever the distance. (If the first write
            could be anywhere, the longest distances would have the shortest gaps, and age would
            be confounded with crowding.)

    Raises:
        TypeError, ValueError: `objects` or `max_gap` is not an integer of at least 1, or `moved`
            not a boolean.
    """

    objects: int = 1
    moved: bool = False
    max_gap: int = 8

    def __post_init__(self) -> None:
        positive_int("objects", self.objects)
        positive_int("max_gap", self.max_gap)
        if not isinstance(self.moved, bool):
            raise TypeError(f"moved must be True or False, got {self.moved!r}")

    @property
    def width(self) -> int:
        """Entries of a token."""
        return OBJECT + self.objects

    def longest(self, T: int) -> int:
        """Longest distance in T tokens that leaves room for any gap: T − 1 − max_gap.

        Raises:
            ValueError: T is too short to hold every write and every gap.
        """
        longest = positive_int("T", T) - 1 - self.max_gap
        writes = self.objects * (2 if self.moved else 1)
        if longest < 1 or writes > T - 1:
            raise ValueError(
                f"T must leave room for {writes} writes, a gap of {self.max_gap} and a query, "
                f"got {T}"
            )
        return longest

    def draw(
        self,
        rng: np.random.Generator | int,
        N: int,
        T: int = 48,
        *,
        distance: int | None = None,
        gap: int | None = None,
    ) -> Batch:
        """Draw N sequences of T tokens.

        Args:
            rng: numpy Generator, or an integer seed.
            N: number of sequences.
            T: tokens a sequence, the query included.
            distance: k for all of them; uniform on 1 … `longest(T)` when None.
            gap: tokens between the two writes of the asked object; uniform when None.

        Raises:
            TypeError, ValueError: a size is not an integer ≥ 1, T is too short, or the distance or
                gap is beyond what T and the task allow.
        """
        rng, N = generator("rng", rng), positive_int("N", N)
        k = _chosen(rng, "distance", distance, self.longest(T), N)
        asked = rng.integers(self.objects, size=N)
        last = T - 1 - k
        value, thing = (
            rng.uniform(-LARGEST, LARGEST, (N, T)),
            rng.integers(self.objects, size=(N, T)),
        )
        writes, row = np.zeros((N, T), bool), np.arange(N)
        mine = [last]
        if self.moved:
            mine.append(last - _chosen(rng, "gap", gap, self.max_gap, N))
        elif gap is not None:
            raise ValueError("gap must be None where nothing moves: there is one write only")
        for slot in mine:
            writes[row, slot], thing[row, slot] = True, asked
        slots = _free_slots(rng, writes, (self.objects - 1) * len(mine))
        others = asked[:, None] + 1 + np.arange(slots.shape[1]) % max(1, self.objects - 1)
        writes[row[:, None], slots], thing[row[:, None], slots] = True, others % self.objects
        targets = value[row, last].copy()
        value[:, -1], thing[:, -1] = 0.0, asked
        return Batch(_tokens(value, writes, thing, self.objects), targets, k)


@dataclass(frozen=True)
class SumTask:
    r"""How much in all? Report the sum of all written values, over $\sqrt{\text{most}}$.

    Nothing is overwritten and nothing is looked up: every write counts, and none is to be found.

    Args:
        most: a sequence has 1 … most writes (items), equally likely.

    Raises:
        TypeError, ValueError: `most` is not an integer of at least 1.
    """

    most: int = 16

    objects = 1
    width = OBJECT + 1

    def __post_init__(self) -> None:
        positive_int("most", self.most)

    def draw(
        self, rng: np.random.Generator | int, N: int, T: int = 48, *, items: int | None = None
    ) -> Batch:
        """Draw N sequences of T tokens, with `items` writes each (1 … most at random when None).

        Raises:
            TypeError, ValueError: a size is not an integer ≥ 1, or there are more items than slots.
        """
        rng, N = generator("rng", rng), positive_int("N", N)
        slots = positive_int("T", T, minimum=2) - 1
        if items is None and self.most > slots:
            raise ValueError(f"T must be above most = {self.most}, got {T}")
        limit = self.most if items is None else slots
        count = _chosen(rng, "items", items, limit, N)
        value = rng.uniform(-LARGEST, LARGEST, (N, T))
        writes = np.zeros((N, T), bool)
        rank = rng.random((N, slots)).argsort(axis=1).argsort(axis=1)
        writes[:, :-1] = rank < count[:, None]
        value[:, -1] = 0.0
        targets = (value * writes).sum(axis=1) / np.sqrt(self.most)
        tokens = _tokens(value, writes, np.zeros((N, T), dtype=np.int64), 1)
        return Batch(tokens, targets, count)


Task = RecallTask | SumTask

TASKS: dict[str, Task] = {
    "1 object": RecallTask(1, False),
    "1 object, moved": RecallTask(1, True),
    "4 objects": RecallTask(4, False),
    "4 objects, moved": RecallTask(4, True),
    "sum": SumTask(),
}


def recall_by_dictionary(tokens: Floats) -> Floats:
    """Answer each query as a Python dictionary does: the last write of a name is what it holds.

    Args:
        tokens: (N, T, 3 + objects), with a query at the end.

    Returns:
        Array (N,): the exact answers.

    Raises:
        ValueError: tokens are not of that shape or not finite, the last one is not a query, or an
            object is asked for that was never written.
    """
    answers = []
    for sequence in _checked(tokens):
        memory: dict[int, float] = {}
        for token in sequence:
            name = int(token[OBJECT:].argmax())
            if token[WRITE]:
                memory[name] = float(token[VALUE])
        if name not in memory:
            raise ValueError(f"tokens ask for object {name}, which was never written")
        answers.append(memory[name])
    return np.array(answers)


def relative_error(answers: Any, targets: Any) -> Floats:
    r"""Squared error, over that of answering 0 every time.

    $$ E = \frac{\sum_i (\hat y_i - y_i)^2}{\sum_i y_i^2} $$

    0 is perfect. 1 is what one gets for knowing nothing (targets have mean 0); above 1 is worse
    than knowing nothing.

    Args:
        answers: (..., N).
        targets: (N,).

    Raises:
        ValueError: shapes do not fit, an entry is not finite, or all targets are 0.
    """
    found = finite("answers", np.asarray(answers, dtype=float))
    right = finite("targets", np.asarray(targets, dtype=float))
    if right.ndim != 1 or found.shape[-1:] != right.shape:
        raise ValueError(
            f"answers must have shape (..., N) and targets (N,), got {found.shape} and {right.shape}"
        )
    scale = (right**2).sum()
    if scale == 0:
        raise ValueError("targets must not all be 0: the error has nothing to be relative to")
    return ((found - right) ** 2).sum(axis=-1) / scale


# --------------------------------------------------------------------------- the committed sweep

COLUMNS = ("task", "model", "T", "at", "seed", "error")


@dataclass(frozen=True, eq=False)
class Sweep:
    """The table that ``tools/sweep_event_recall.py`` made.

    Attributes:
        stamp: hash of the settings that it was made with.
        rows: error by (task, model, T, at, seed). `at` is the distance k, or the number of items of
            the sum; 0 stands for sequences drawn as in training.
    """

    stamp: str
    rows: Mapping[tuple[str, str, int, int, int], float]

    def errors(self, task: str, model: str, T: int, at: int) -> Floats:
        """Errors of one entry, one a seed in the order of the seeds.

        Raises:
            ValueError: the table has no such entry.
        """
        found = sorted(
            (key[4], error) for key, error in self.rows.items() if key[:4] == (task, model, T, at)
        )
        if not found:
            raise ValueError(f"the sweep has no entry for {(task, model, T, at)}")
        return np.array([error for _, error in found])

    def profile(self, task: str, model: str, T: int) -> tuple[NDArray[np.int64], Floats]:
        """(at (K,), errors (seeds, K)) of a model at one length, without the average (at = 0).

        Raises:
            ValueError: the table has no such entry.
        """
        at = sorted({key[3] for key in self.rows if key[:3] == (task, model, T) and key[3] > 0})
        if not at:
            raise ValueError(f"the sweep has no entry for {(task, model, T)}")
        return np.array(at), np.stack([self.errors(task, model, T, a) for a in at], axis=1)


def read_sweep(text: str | None = None) -> Sweep:
    """Read the committed table, or one given as `text`.

    Raises:
        ValueError: the text is no table with the columns `COLUMNS`.
    """
    if text is None:
        file = resources.files(__package__).joinpath("data/event_recall.csv")
        text = file.read_text(encoding="utf-8")
    table = tables.from_text(text, COLUMNS)
    rows = {tuple(row[name] for name in COLUMNS[:-1]): float(row["error"]) for row in table.rows}
    return Sweep(table.stamp, rows)


def write_sweep(sweep: Sweep) -> str:
    """The table as text, rows in order, errors with three significant digits."""
    rows = [
        dict(zip(COLUMNS, (*key, tables.rounded(error, 3)), strict=True))
        for key, error in sorted(sweep.rows.items())
    ]
    return tables.to_text(sweep.stamp, COLUMNS, rows)


def _chosen(
    rng: np.random.Generator, name: str, value: int | None, largest: int, N: int
) -> NDArray[np.int64]:
    """N copies of `value`, or N draws from 1 … largest."""
    if value is None:
        return rng.integers(1, largest + 1, size=N)
    if positive_int(name, value) > largest:
        raise ValueError(f"{name} must be at most {largest} here, got {value}")
    return np.full(N, value, dtype=np.int64)


def _free_slots(
    rng: np.random.Generator, taken: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """`count` random slots a row, all different, none taken, and never the query's."""
    order = np.where(taken[:, :-1], 2.0, rng.random((len(taken), taken.shape[1] - 1)))
    return order.argsort(axis=1)[:, :count]


def _tokens(
    value: Floats, writes: NDArray[np.bool_], thing: NDArray[np.int64], objects: int
) -> Floats:
    query = np.zeros_like(value)
    query[:, -1] = 1.0
    flags = np.stack([value, writes.astype(float), query], axis=-1)
    return np.concatenate([flags, np.eye(objects)[thing]], axis=-1)


def _checked(tokens: Any) -> Floats:
    x = finite("tokens", np.asarray(tokens, dtype=float))
    if x.ndim != 3 or x.shape[-1] <= OBJECT or x.shape[1] == 0:
        raise ValueError(f"tokens must have shape (N, T, 3 + objects), got {x.shape}")
    if not (x[:, -1, QUERY] == 1).all():
        raise ValueError("tokens must end with a query")
    return x
