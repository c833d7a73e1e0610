"""Committed tables of results: CSV with a stamp that says which settings they were made with.

The first line is ``# settings <stamp>``, the second names the columns. A chapter that reads such a
table compares the stamp with that of its own settings, so that a stale table is noticed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]

HEAD = "# settings "


@dataclass(frozen=True)
class Table:
    """Rows of results, and the stamp of the settings that gave them."""

    stamp: str
    rows: list[Row]


def stamp(settings: Any) -> str:
    """Twelve hexadecimal digits that change whenever a setting does, but not with their order.

    Args:
        settings: whatever JSON can hold: numbers, text, lists and mappings.
    """
    text = json.dumps(settings, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def to_text(stamp: str, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A table as text; its rows keep their order.

    Args:
        stamp: of the settings.
        columns: what each row holds, in order.
        rows: text, integers and floats; `rounded` takes from floats what is not stable.

    Raises:
        ValueError: a row lacks a column or has one too many.
    """
    buffer = io.StringIO()
    buffer.write(f"{HEAD}{stamp}\n{','.join(columns)}\n")
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    for row in rows:
        if set(row) != set(columns):
            raise ValueError(f"each row must have the columns {list(columns)}, got {list(row)}")
        writer.writerow([row[name] for name in columns])
    return buffer.getvalue()


def from_text(text: str, columns: Sequence[str]) -> Table:
    """Read back what `to_text` wrote: what looks like a number is one.

    Raises:
        ValueError: the text does not have that form, or other columns.
    """
    first, _, rest = text.partition("\n")
    if not first.startswith(HEAD):
        raise ValueError(f"text must begin with the line '{HEAD}<stamp>', got {first!r}")
    names, *rows = list(csv.reader(io.StringIO(rest))) or [[]]
    if names != list(columns):
        raise ValueError(f"the columns of text must be {list(columns)}, got {names}")
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"each row of text must have {len(names)} entries")
    return Table(
        first.removeprefix(HEAD).strip(),
        [{name: _value(entry) for name, entry in zip(names, row, strict=True)} for row in rows],
    )


def rounded(value: float, digits: int) -> float:
    """`value` to so many significant digits."""
    return float(f"{value:.{digits}g}")


def write_at_once(path: Path, text: str) -> None:
    """Write a file such that another process sees all of it or nothing, even after a kill."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def _value(entry: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(entry)
        except ValueError:
            continue
    return entry
