r"""Grids of experiments: many cells, side by side, that a kill cannot undo.

``python -m book_utils.sweep --help`` trains and scores the forecasters of `models.FORECASTERS` on a
grid of settings and writes one row per model × setting × seed:

    python -m book_utils.sweep --model transformer SSM --process-std .02 .05 .1 --jobs 2 --out t.csv

A *cell* is one combination of settings. It is named by the hash of them, and its result is stored
in a file of that name at the moment it is complete. A run that was killed goes on where it stopped;
a second run beside it takes other cells. A cell that fails is reported and the rest goes on.

The cells go through joblib. Where it sends them is not said here, so a cluster needs no change:

    with dask.distributed.Client(address), joblib.parallel_config(backend="dask"):
        sweep.main(["--process-std", ".02", ".05", ".1", "--out", "t.csv"])

The workers must see the folder of results, so on several computers it has to be a shared one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from . import decoding, evaluation, kalman, tables, training
from ._validate import one_of, positive_int
from .models import FORECASTERS, count_parameters
from .systems import Floats, LinearGaussianSystem
from .tables import Row

Measure = Callable[[Mapping[str, Any]], list[Row]]

FOLDER = Path("_build/sweep")
VERSION = 1  # change this when the same settings give other numbers
DIGITS = 4
WARM = (1, 8)  # genuine observations before a rollout
SCORES = ("validation_mse", "test_mse", "exact_mse", "ratio", *(f"open_loop_{w}" for w in WARM))


# ------------------------------------------------------------------------------ any grid of cells


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes:
        rows: for each cell its rows, or None where it failed.
        errors: for each cell "", or what went wrong in one line.
    """

    rows: list[list[Row] | None]
    errors: list[str]

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return sum(map(bool, self.errors))


def identity(cell: Mapping[str, Any]) -> str:
    """The name of a cell: a hash of its settings and of the version of the format."""
    return tables.stamp({"cell": cell, "version": VERSION})


def run(
    cells: Sequence[Mapping[str, Any]],
    measure: Measure,
    folder: Path = FOLDER,
    *,
    jobs: int | None = None,
) -> Outcome:
    """Measure every cell once, in parallel; those with a stored result are read back.

    Args:
        cells: settings of each, such as JSON can hold.
        measure: from the settings to rows, such as JSON can hold; a function of a module, for other
            processes have to find it.
        folder: where results are stored, ``<identity>.json``, and reasons of failures,
            ``<identity>.error.txt``. A cell that failed is tried again by the next run.
        jobs: processes; None leaves it to ``joblib.parallel_config`` (one without it).

    Raises:
        ValueError: two cells are the same.
    """
    import joblib  # imported here: who only reads a table or measures one cell needs none of it

    names = [identity(cell) for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError("cells must differ from one another")
    parallel = joblib.Parallel(n_jobs=jobs, batch_size=1, verbose=10 if jobs else 0)
    found = parallel(joblib.delayed(complete)(cell, measure, Path(folder)) for cell in cells)
    return Outcome([rows for rows, _ in found], [error for _, error in found])


def complete(
    cell: Mapping[str, Any], measure: Measure, folder: Path
) -> tuple[list[Row] | None, str]:
    """Rows of one cell, measured unless they are stored, and what went wrong ("" if nothing).

    The cell's lock is released by the system when its holder dies; so of two processes, even if one
    is left over from a killed run, one measures and the other waits and reads.
    """
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    result, reason = (folder / f"{identity(cell)}{end}" for end in (".json", ".error.txt"))
    with FileLock(result.with_suffix(".lock")):
        if result.exists():
            return json.loads(result.read_text(encoding="utf-8"))["rows"], ""
        try:
            rows = measure(cell)
        except Exception as error:
            tables.write_at_once(reason, f"{dict(cell)}\n{traceback.format_exc()}")
            return None, f"{type(error).__name__}: {error}".splitlines()[0]
        tables.write_at_once(result, json.dumps({"cell": cell, "rows": rows}))
        reason.unlink(missing_ok=True)
        return rows, ""


# --------------------------------------------------------------------- forecasters of a noisy world


@dataclass(frozen=True)
class Cell:
    """One setting of the experiment; its seeds train together.

    Args:
        model: a key of `models.FORECASTERS`.
        process_std, observation_std, initial_std: of the `LinearGaussianSystem`.
        learning_rate, steps, batch_size: of the `Recipe`.
        trajectories, T: size of each training set.
        held_out: trajectories of the validation set, and of the test set.
        rolled_out: how many of the test set's are used for rollouts.
        seeds: of data, first weights and batches.
    """

    model: str
    process_std: float = 0.05
    observation_std: float = 0.1
    initial_std: float = 0.3
    learning_rate: float = 0.03
    steps: int = 1000
    batch_size: int = 32
    trajectories: int = 2048
    T: int = 32
    held_out: int = 4096
    rolled_out: int = 2048
    seeds: tuple[int, ...] = tuple(range(8))

    def __post_init__(self) -> None:
        one_of("model", self.model, FORECASTERS)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be different and at least one, got {self.seeds}")
        for seed in self.seeds:
            positive_int("each seed", seed, minimum=0)

    @property
    def settings(self) -> dict[str, Any]:
        """Such as JSON can hold; 1 and 1.0 are the same learning rate."""
        numbers = {name: kind(getattr(self, name)) for name, kind in SETTINGS.items()}
        return {"model": self.model, **numbers, "seeds": list(self.seeds)}


# All but the model's name and the seeds are numbers: each with its kind.
SETTINGS: dict[str, type] = {
    f.name: type(f.default) for f in fields(Cell) if f.name not in ("model", "seeds")
}
COLUMNS = ("model", "parameters", *SETTINGS, "seed", *SCORES, "error")


def grid(seeds: Iterable[int] = tuple(range(8)), **values: Sequence[Any]) -> list[Cell]:
    """Cells of every combination of values, the last named varying fastest.

    >>> [(c.model, c.process_std) for c in grid(model=["SSM"], process_std=[0.02, 0.05])]
    [('SSM', 0.02), ('SSM', 0.05)]
    """
    combinations = itertools.product(*values.values())
    return [Cell(seeds=tuple(seeds), **dict(zip(values, c, strict=True))) for c in combinations]


def measure(settings: Mapping[str, Any]) -> list[Row]:
    """Train one cell's models and score them against the exact filter; a row a seed.

    ``ratio`` is the test error over the exact filter's; ``open_loop_w`` the same for rollouts after
    w genuine observations, averaged over horizons.
    """
    cell = Cell(**{**settings, "seeds": tuple(settings["seeds"])})
    world = LinearGaussianSystem(
        process_std=cell.process_std,
        observation_std=cell.observation_std,
        initial_std=cell.initial_std,
    )
    recipe = training.Recipe(cell.steps, cell.batch_size, cell.learning_rate)
    with _one_thread():
        fit = training.fit_seeds(
            FORECASTERS[cell.model],
            world,
            cell.seeds,
            trajectories=cell.trajectories,
            T=cell.T,
            recipe=recipe,
        )
        scores = score(fit.models, world, cell)
    parameters = count_parameters(fit.models[0])
    return [
        _row(cell, seed, parameters, {name: scores[name][i] for name in SCORES})
        for i, seed in enumerate(cell.seeds)
    ]


def score(models: Sequence[Any], world: LinearGaussianSystem, cell: Cell) -> dict[str, Floats]:
    """The `SCORES` of trained models, each (S,)."""
    forecaster = evaluation.Forecaster(models)

    def exact(tokens: Floats) -> Floats:
        return kalman.predict(world, tokens)

    def mse(predict: evaluation.Predict, kind: int) -> Floats:
        tokens, targets = training.held_out_set(world, kind, cell.held_out, cell.T)
        return evaluation.teacher_forced_mse(predict(tokens), targets).pooled

    tokens, targets = training.held_out_set(world, training.TEST, cell.held_out, cell.T)
    tokens, targets = tokens[: cell.rolled_out], targets[: cell.rolled_out]

    def open_loop(warm: int) -> Floats:
        ours, best = (
            evaluation.open_loop_mse(rolled, targets).mean(axis=-1)
            for rolled in (
                decoding.rollout(forecaster, tokens, warm),
                evaluation.open_loop_rollout(exact, tokens, warm),
            )
        )
        return ours / best

    test, floor = mse(forecaster, training.TEST), mse(exact, training.TEST)
    return {
        "validation_mse": mse(forecaster, training.VALIDATION),
        "test_mse": test,
        "exact_mse": floor.repeat(len(models)),
        "ratio": test / floor,
        **{f"open_loop_{warm}": open_loop(warm) for warm in WARM},
    }


def table(cells: Sequence[Cell], outcome: Outcome) -> str:
    """The tidy table of a run as text: rows of cells that failed carry the error and no scores."""
    rows: list[Row] = []
    for cell, found, error in zip(cells, outcome.rows, outcome.errors, strict=True):
        failed = [_row(cell, seed, "", dict.fromkeys(SCORES, ""), error) for seed in cell.seeds]
        rows += failed if found is None else found
    return tables.to_text(grid_stamp(cells), COLUMNS, rows)


def grid_stamp(cells: Sequence[Cell]) -> str:
    """The stamp of the table that these cells make."""
    return tables.stamp([identity(cell.settings) for cell in cells])


def read(text: str) -> tables.Table:
    """Read back a `table`.

    Raises:
        ValueError: the text is no such table.
    """
    return tables.from_text(text, COLUMNS)


def _row(
    cell: Cell, seed: int, parameters: int | str, scores: Mapping[str, Any], error: str = ""
) -> Row:
    values = {
        name: value if value == "" else tables.rounded(value, DIGITS)
        for name, value in scores.items()
    }
    settings = {name: cell.settings[name] for name in SETTINGS}
    named = {"model": cell.model, "parameters": parameters, **settings, "seed": seed}
    return {**named, **values, "error": error}


class _one_thread:
    """Within it torch uses one thread: results do not depend on how many cells run at once."""

    def __enter__(self) -> None:
        self.before = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self.before)


# ------------------------------------------------------------------------ the table of chapter 7

RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
NOISES = (0.01, 0.02, 0.05, 0.1, 0.2)
RATE_SEEDS = (100, 101)  # apart from the seeds of the runs that are compared
EXPERIMENT = "experiment.csv"


def experiment_cells() -> list[Cell]:
    """The chapter's grid: every learner; three of them at each noise; every learner at each rate."""
    learners = grid(model=list(FORECASTERS))
    noises = grid(model=["transformer", "SSM", "complex SSM"], process_std=NOISES)
    rates = grid(RATE_SEEDS, model=list(FORECASTERS), learning_rate=RATES)
    return learners + [cell for cell in noises if cell not in learners] + rates


def experiment_rows(**settings: Any) -> list[Row]:
    """Rows of the chapter's committed table that have these settings, in the order of the grid.

    >>> len(experiment_rows(model="SSM", process_std=0.05, learning_rate=0.03, steps=1000))
    10

    Raises:
        ValueError: the table was made with another grid, a setting is not one of its columns, or
            no row has these settings.
    """
    text = resources.files("book_utils").joinpath("data", EXPERIMENT).read_text(encoding="utf-8")
    found, wanted = read(text), grid_stamp(experiment_cells())
    if found.stamp != wanted:
        raise ValueError(f"the table was made with settings {found.stamp}, not {wanted}")
    for name in settings:
        one_of("each setting", name, COLUMNS)
    rows = [row for row in found.rows if all(row[k] == v for k, v in settings.items())]
    if not rows:
        raise ValueError(f"no row of the table has the settings {settings}")
    return rows


# ------------------------------------------------------------------------------------ command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 1 if a cell failed, or with ``--check`` if the table is not the right one."""
    parser = argparse.ArgumentParser(
        prog="python -m book_utils.sweep",
        description="Train and score forecasters on a grid of settings. Options with several "
        "values span the grid; a run that was killed goes on where it stopped.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", nargs="+", choices=FORECASTERS, default=list(FORECASTERS))
    for name, kind in SETTINGS.items():
        flag, default = f"--{name.replace('_', '-')}", getattr(Cell, name)
        parser.add_argument(flag, nargs="+", type=kind, default=[default])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(8)))
    parser.add_argument("--out", type=Path, required=True, help="the table, a CSV file")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the cells' results")
    parser.add_argument("--jobs", type=int, help="processes; -1 for one a core")
    parser.add_argument("--check", action="store_true", help="only say whether the table is right")
    options = parser.parse_args(arguments)
    chosen = {name: getattr(options, name) for name in ("model", *SETTINGS)}
    cells = grid(options.seeds, **chosen)
    if options.check:
        return check(options.out, cells)
    outcome = run([cell.settings for cell in cells], measure, options.folder, jobs=options.jobs)
    tables.write_at_once(options.out, table(cells, outcome))
    for cell, error in zip(cells, outcome.errors, strict=True):
        if error:
            print(f"failed: {cell}\n  {error}", file=sys.stderr)
    print(f"{len(cells) - outcome.failed} of {len(cells)} cells in {options.out}")
    return int(outcome.failed > 0)


def check(path: Path, cells: Sequence[Cell]) -> int:
    """0 if the table at `path` was made with these cells and all went well; says why if not."""
    wanted = grid_stamp(cells)
    found = read(path.read_text(encoding="utf-8")) if path.exists() else tables.Table("none", [])
    failed = sum(1 for row in found.rows if row["error"])
    print(f"{path}: stamp {found.stamp}, settings {wanted}, {failed} rows that failed")
    return int(found.stamp != wanted or failed > 0)


if __name__ == "__main__":
    from book_utils import sweep  # under its own name, for workers have to find its functions

    sys.exit(sweep.main())
