"""Make the table of chapter 7: every learner, over process noises and over learning rates.

``python tools/sweep_experiment.py`` writes book_utils/data/experiment.csv. It takes about ten
minutes on one core and goes on where it stopped; ``--jobs 2`` uses two. ``--check`` only says whether
the table is right.
"""

import argparse
import sys
from pathlib import Path

from book_utils import sweep, tables

TABLE = Path(__file__).resolve().parent.parent / "book_utils/data" / sweep.EXPERIMENT


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, help="processes; -1 for one a core")
    parser.add_argument("--check", action="store_true", help="train nothing, write nothing")
    options = parser.parse_args()
    cells = sweep.experiment_cells()
    if options.check:
        return sweep.check(TABLE, cells)
    outcome = sweep.run([cell.settings for cell in cells], sweep.measure, jobs=options.jobs)
    if outcome.failed:
        print("\n".join(filter(None, outcome.errors)), file=sys.stderr)
        return 1
    tables.write_at_once(TABLE, sweep.table(cells, outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
