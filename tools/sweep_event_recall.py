"""Make the table of the chapter on events: every memory on every task, several seeds each.

``python tools/sweep_event_recall.py`` writes book_utils/data/event_recall.csv, unless the table is
there, complete and made with the settings of today. It takes about ten minutes on one core and goes
on where it stopped; ``--jobs 2`` uses two. ``--check`` only says whether the table is right.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from book_utils import events, sweep, tables
from book_utils import recall_models as recall

TABLE = Path(__file__).resolve().parent.parent / "book_utils/data/event_recall.csv"
EMPTY = events.Sweep("none", {})


def cells() -> list[dict[str, Any]]:
    """All (task, model) pairs of the table, each with the settings of the whole."""
    pairs = [(task, model) for task in events.TASKS for model in recall.MODELS]
    pairs += [(task, recall.longer(model)) for task, model in recall.LONGER_RUNS]
    settings = recall.sweep_settings()
    return [{"task": task, "model": model, "settings": settings} for task, model in pairs]


def measure(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of one pair."""
    seeds, found = recall.sweep_entry(events.TASKS[cell["task"]], cell["model"])
    return [
        {"T": T, "at": at, "seed": seed, "error": float(error)}
        for (T, at), errors in found.items()
        for seed, error in zip(seeds, errors, strict=True)
    ]


def missing(stamp: str) -> int:
    """How many pairs the committed table lacks; all, if it was made with other settings."""
    text = TABLE.read_text(encoding="utf-8") if TABLE.exists() else events.write_sweep(EMPTY)
    table = events.read_sweep(text)
    done = {key[:2] for key in table.rows} if table.stamp == stamp else set()
    return sum((cell["task"], cell["model"]) not in done for cell in cells())


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help="processes; -1 for one a core")
    parser.add_argument("--check", action="store_true", help="train nothing, write nothing")
    options = parser.parse_args()
    stamp = tables.stamp(recall.sweep_settings())
    lacking = missing(stamp)
    print(f"{lacking} of {len(cells())} entries missing for the settings {stamp}")
    if options.check or not lacking:
        return int(bool(lacking))
    outcome = sweep.run(cells(), measure, jobs=options.jobs)
    rows = {
        (cell["task"], cell["model"], row["T"], row["at"], row["seed"]): row["error"]
        for cell, found in zip(cells(), outcome.rows, strict=True)
        for row in found or []
    }
    tables.write_at_once(TABLE, events.write_sweep(events.Sweep(stamp, rows)))
    for error in filter(None, outcome.errors):
        print(f"failed: {error}", file=sys.stderr)
    return int(outcome.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
