"""Make the table of the chapter on events: every memory on every task, several seeds each.

``python tools/sweep_event_recall.py`` writes book_utils/data/event_recall.csv after every entry and
goes on where it stopped; a table made with other settings is thrown away. It takes about ten
minutes on one core. ``--check`` only says whether the table is complete and its stamp is right.
"""

import argparse
import sys
import time
from pathlib import Path

from book_utils import events
from book_utils import recall_models as recall

TABLE = Path(__file__).resolve().parent.parent / "book_utils/data/event_recall.csv"


def wanted() -> list[tuple[str, str]]:
    """All (task, model) pairs of the table."""
    pairs = [(task, model) for task in events.TASKS for model in recall.MODELS]
    return pairs + [(task, recall.longer(model)) for task, model in recall.LONGER_RUNS]


def load(stamp: str) -> dict[tuple[str, str, int, int, int], float]:
    """Rows made so far with these settings."""
    if not TABLE.exists():
        return {}
    sweep = events.read_sweep(TABLE.read_text(encoding="utf-8"))
    return dict(sweep.rows) if sweep.stamp == stamp else {}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="train nothing, write nothing")
    options = parser.parse_args()
    stamp = events.stamp(recall.sweep_settings())
    rows = load(stamp)
    done = {key[:2] for key in rows}
    missing = [pair for pair in wanted() if pair not in done]
    if options.check:
        print(f"{len(missing)} of {len(wanted())} entries missing for the settings {stamp}")
        return int(bool(missing))
    for task, name in missing:
        start = time.monotonic()
        seeds, errors = recall.sweep_entry(events.TASKS[task], name)
        for (T, at), values in errors.items():
            for seed, value in zip(seeds, values, strict=True):
                rows[task, name, T, at, seed] = float(f"{value:.3g}")
        text = events.write_sweep(events.Sweep(stamp, rows))
        TABLE.write_text(text, encoding="utf-8", newline="\n")
        print(f"{task}, {name}: {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
