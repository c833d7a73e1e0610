"""How long a live slider takes to redraw: ``python benchmarks/sliders.py [CHAPTER …]``.

Executes the chapters, moves every slider of each figure through its range as a reader would, and
prints the median redraw, the median of its processor time (which other programs disturb less), and
the longest redraw. The book's aim is a median under 100 ms on two cores.
"""

import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / part) for part in ("tests/chapters", "sphinx_ext")]

from notebooks import sliders, toc_chapters  # noqa: E402

from book_utils.explore import Explorer, widget  # noqa: E402


def redraws(explorer: Explorer) -> list[tuple[float, float]]:
    """Seconds of each redraw, by the clock and of the processor.

    One slider after the other goes through its range and back to where it was.
    """
    *controls, picture = widget(explorer).children
    seconds = []
    for control, one in zip(controls, explorer.controls.values(), strict=True):
        for value in (*one.values, one.default):
            if value == control.value:
                continue
            clock, processor = time.perf_counter(), time.process_time()
            control.value = value
            seconds.append((time.perf_counter() - clock, time.process_time() - processor))
            if 'role="alert"' in picture.value:
                raise RuntimeError(f"{explorer.name} could not be drawn:\n{picture.value}")
    return seconds


def main(names: list[str]) -> None:
    """Print a table, a row a figure."""
    headings = ("chapter", "figure", "redraws", "median, ms", "processor, ms", "longest, ms")
    print(f"| {' | '.join(headings)} |\n| {' | '.join('---' for _ in headings)} |")
    for name in names or toc_chapters():
        for explorer in sliders(name):
            found = redraws(explorer)
            clock, processor = ([1000 * s for s in each] for each in zip(*found, strict=True))
            typical = f"{statistics.median(clock):.0f} | {statistics.median(processor):.0f}"
            row = f"| {name} | {explorer.name} | {len(clock)} | {typical} | {max(clock):.0f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
