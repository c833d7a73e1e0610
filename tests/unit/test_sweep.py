"""The sweep: its table, cells that fail, and runs that are killed in the middle."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch

from book_utils import evaluation, kalman, sweep, tables, training
from book_utils.models import FORECASTERS, DiagonalSSM, count_parameters
from book_utils.systems import LinearGaussianSystem

TINY = dict(steps=[5], trajectories=[32], held_out=[16], rolled_out=[8], T=[12])


def tiny(seeds=(0, 1), **values):
    return sweep.grid(seeds, **{"model": ["SSM"], **TINY, **values})


def settings(cells):
    return [cell.settings for cell in cells]


# ------------------------------------------------------------------------------------- one cell


def test_the_grid_is_every_combination_in_order():
    cells = sweep.grid((3,), model=["SSM", "transformer"], process_std=[0.02, 0.05], steps=[7])
    assert [(c.model, c.process_std, c.steps, c.seeds) for c in cells] == [
        (model, q, 7, (3,)) for model in ("SSM", "transformer") for q in (0.02, 0.05)
    ]


def test_the_identity_of_a_cell_is_stable_and_tells_settings_apart(monkeypatch):
    (cell,) = tiny()
    assert sweep.identity(cell.settings) == sweep.identity(json.loads(json.dumps(cell.settings)))
    changed = [
        *tiny(model=["transformer"]),
        *tiny(process_std=[0.06]),
        *tiny(steps=[6]),
        *tiny((1, 0)),
    ]
    names = {sweep.identity(c.settings) for c in [cell, *changed]}
    assert len(names) == 5
    (by_integer,) = tiny(learning_rate=[1])
    (by_float,) = tiny(learning_rate=[1.0])
    assert sweep.identity(by_integer.settings) == sweep.identity(by_float.settings)
    monkeypatch.setattr(sweep, "VERSION", sweep.VERSION + 1)
    assert sweep.identity(cell.settings) not in names


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"model": "a"}, "model must be one of"),
        ({"model": "SSM", "seeds": ()}, "seeds must"),
        ({"model": "SSM", "seeds": (1, 1)}, "seeds must"),
        ({"model": "SSM", "seeds": (-1,)}, "seed must be at least 0"),
    ],
)
def test_cells_refuse(values, why):
    with pytest.raises(ValueError, match=why):
        sweep.Cell(**values)


def test_a_row_holds_what_training_and_scoring_by_hand_give():
    (cell,) = tiny(process_std=[0.1], learning_rate=[0.02])
    rows = sweep.measure(cell.settings)
    world = LinearGaussianSystem(process_std=0.1)
    recipe = training.Recipe(steps=5, batch_size=32, learning_rate=0.02)
    for seed, row in enumerate(rows):
        model = DiagonalSSM(seed=seed)
        tokens, targets = training.training_set(world, seed, 32, 12)
        training.train_together([model], tokens, targets, recipe, seeds=[seed])

        def forecast(tokens, model=model):
            with torch.no_grad():
                return model(torch.tensor(tokens, dtype=torch.float32)).double().numpy()

        for kind, name in ((training.VALIDATION, "validation_mse"), (training.TEST, "test_mse")):
            tokens, targets = training.held_out_set(world, kind, 16, 12)
            np.testing.assert_allclose(
                row[name], np.mean((forecast(tokens) - targets) ** 2), rtol=1e-3
            )
        exact = kalman.predict(world, tokens)
        np.testing.assert_allclose(row["exact_mse"], np.mean((exact - targets) ** 2), rtol=1e-3)
        np.testing.assert_allclose(row["ratio"], row["test_mse"] / row["exact_mse"], rtol=2e-3)
        few, later = tokens[:8], targets[:8]
        for warm in (1, 8):
            rolled = evaluation.open_loop_rollout(forecast, few, warm)
            floor, _ = kalman.open_loop(world, few, warm)
            ratio = np.mean((rolled - later[:, warm:]) ** 2) / np.mean(
                (floor - later[:, warm:]) ** 2
            )
            np.testing.assert_allclose(row[f"open_loop_{warm}"], ratio, rtol=2e-3)
        assert (row["parameters"], row["seed"], row["error"]) == (1185, seed, "")


def test_measuring_leaves_the_number_of_threads_as_it_was():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sweep.measure(tiny()[0].settings)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# ------------------------------------------------------------------------------ runs and tables


def test_the_table_is_tidy_and_the_same_whatever_the_number_of_processes(tmp_path):
    cells = tiny(model=["SSM", "small transformer"], process_std=[0.02, 0.1])
    texts = {
        sweep.table(
            cells, sweep.run(settings(cells), sweep.measure, tmp_path / str(jobs), jobs=jobs)
        )
        for jobs in (None, 2)
    }
    (text,) = texts
    table = sweep.read(text)
    assert table.stamp == sweep.grid_stamp(cells)
    keys = [(row["model"], row["process_std"], row["seed"]) for row in table.rows]
    assert keys == [(c.model, c.process_std, seed) for c in cells for seed in c.seeds]
    assert all(float(f"{row['test_mse']:.4g}") == row["test_mse"] for row in table.rows)


def test_the_same_cell_twice_is_refused(tmp_path):
    with pytest.raises(ValueError, match="differ"):
        sweep.run(settings(tiny() * 2), sweep.measure, tmp_path)


def divide(cell):
    return [{"value": 1 / cell["by"]}]


def test_a_bad_cell_is_reported_the_rest_goes_on_and_it_is_tried_again(tmp_path):
    cells = [{"by": by} for by in (1, 0, 2)]
    outcome = sweep.run(cells, divide, tmp_path)
    assert outcome.rows == [[{"value": 1.0}], None, [{"value": 0.5}]]
    assert outcome.errors == ["", "ZeroDivisionError: division by zero", ""]
    assert outcome.failed == 1
    reason = tmp_path / f"{sweep.identity(cells[1])}.error.txt"
    assert "Traceback" in reason.read_text()
    again = sweep.run(cells, lambda cell: [{"value": -1.0}], tmp_path)
    assert again.rows == [[{"value": 1.0}], [{"value": -1.0}], [{"value": 0.5}]]
    assert not reason.exists()


def test_of_two_processes_one_measures_and_the_other_reads(tmp_path):
    measured, both = [], threading.Barrier(2)

    def slow(cell):
        measured.append(cell)
        time.sleep(0.2)
        return [{"square": 9}]

    def take(_):
        both.wait()
        return sweep.complete({"number": 3}, slow, tmp_path)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(take, range(2)))
    assert found == [([{"square": 9}], "")] * 2
    assert len(measured) == 1


def test_the_command_line_reports_a_bad_cell_and_checks_its_table(tmp_path, capsys):
    out = tmp_path / "table.csv"
    common = ["--out", str(out), "--folder", str(tmp_path / "cells"), "--model", "SSM"]
    for name, value in TINY.items():
        common += [f"--{name.replace('_', '-')}", str(value[0])]
    common += ["--seeds", "0", "1", "--learning-rate"]
    assert sweep.main([*common, "0.01", "--check"]) == 1
    assert sweep.main([*common, "0.01"]) == 0
    assert sweep.main([*common, "0.01", "--check"]) == 0
    assert sweep.main([*common, "0.02", "--check"]) == 1
    assert sweep.main([*common, "0.01", "1e30"]) == 1
    assert "TrainingDiverged" in capsys.readouterr().err
    assert sweep.main([*common, "0.01", "1e30", "--check"]) == 1
    rows = sweep.read(out.read_text()).rows
    assert [row["error"].partition(":")[0] for row in rows] == ["", ""] + ["TrainingDiverged"] * 2
    assert all(row["test_mse"] == "" for row in rows[2:])


def test_every_forecaster_can_be_measured():
    for name in FORECASTERS:
        (cell,) = tiny((0,), model=[name])
        (row,) = sweep.measure(cell.settings)
        assert row["model"] == name
        assert row["ratio"] > 0.5


# -------------------------------------------------------------------------- killed, on a cluster

SLOW = textwrap.dedent("""
    import os, sys, time
    from pathlib import Path
    from book_utils import sweep

    CELLS = [{"number": i} for i in range(8)]

    def slow(cell):
        file = os.open("journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, b"%d\\n" % cell["number"])
        os.close(file)
        time.sleep(0.3)
        return [{"square": cell["number"] ** 2}]

    if __name__ == "__main__":
        print(sweep.run(CELLS, slow, Path("cells"), jobs=2).rows)
""")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
@pytest.mark.parametrize("victims", ["all", "the parent alone"])
def test_a_killed_run_resumes_with_nothing_lost_or_run_twice(tmp_path, victims):
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "slow.py"]
    first = subprocess.Popen(
        command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "cells").glob("*.json"))) < 3:
        assert first.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    if victims == "all":
        os.killpg(first.pid, signal.SIGKILL)
    else:  # its workers are left over, in the middle of cells
        first.kill()
    first.wait()
    stored = {p.stem: p.stat().st_mtime_ns for p in (tmp_path / "cells").glob("*.json")}
    assert 3 <= len(stored) < 8  # it was really killed in the middle
    try:
        second = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        )
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
    assert second.stdout.strip() == str([[{"square": i**2}] for i in range(8)])
    starts = Counter((tmp_path / "journal").read_text().split())
    for number in range(8):
        name = sweep.identity({"number": number})
        if name in stored:
            assert (tmp_path / "cells" / f"{name}.json").stat().st_mtime_ns == stored[name]
        if name in stored or victims != "all":  # those that were not killed themselves
            assert starts[str(number)] == 1


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="dask.distributed is not installed"
)
def test_the_same_call_runs_on_a_dask_cluster(tmp_path):
    from dask.distributed import Client, LocalCluster

    cells = tiny(model=["SSM", "small transformer"], learning_rate=[0.01, 1e30])
    here = sweep.run(settings(cells), sweep.measure, tmp_path / "here")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        there = sweep.run(settings(cells), sweep.measure, tmp_path / "there")
    assert sweep.table(cells, there) == sweep.table(cells, here)
    assert there.failed == 2
    assert len(list((tmp_path / "there").glob("*.json"))) == 2


def test_the_stamp_of_a_grid_covers_every_cell():
    cells = tiny(process_std=[0.02, 0.05])
    assert len({sweep.grid_stamp(c) for c in (cells, cells[:1], cells[::-1])}) == 3
    assert tables.from_text(
        sweep.table(cells, sweep.Outcome([None] * 2, ["bad"] * 2)), sweep.COLUMNS
    ).stamp == sweep.grid_stamp(cells)


def test_the_chapters_table_is_the_one_its_grid_makes():
    rows = sweep.experiment_rows()
    assert len(rows) == 10 * 8 + 3 * 4 * 8 + 10 * 5 * 2
    assert not any(row["error"] for row in rows)
    for row in rows:
        assert row["parameters"] == count_parameters(FORECASTERS[row["model"]](0))
        assert row["ratio"] == pytest.approx(row["test_mse"] / row["exact_mse"], rel=2e-3)
        assert row["ratio"] > 1  # below the floor would be a leak


def test_rows_of_the_chapters_table_are_chosen_by_settings():
    chosen = sweep.experiment_rows(model="SSM", process_std=0.1)
    assert [row["seed"] for row in chosen] == list(range(8))
    with pytest.raises(ValueError, match="no row"):
        sweep.experiment_rows(model="SSM", process_std=0.3)
    with pytest.raises(ValueError, match="each setting"):
        sweep.experiment_rows(noise=0.1)


def test_one_entry_of_the_chapters_table_trained_anew():
    settings = {"model": "SSM", "process_std": 0.1}
    stored = sweep.experiment_rows(**settings)[:2]
    cell = sweep.Cell(**settings, seeds=(0, 1))
    for now, before in zip(sweep.measure(cell.settings), stored, strict=True):
        for score in sweep.SCORES:
            assert now[score] == pytest.approx(before[score], rel=0.02)


def test_a_stale_table_is_noticed(monkeypatch):
    monkeypatch.setattr(sweep, "RATES", (0.5,))
    with pytest.raises(ValueError, match="the table was made with settings"):
        sweep.experiment_rows()
