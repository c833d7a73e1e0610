"""`make bench` runs, at sizes too small to say anything about speed."""

import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def test_the_benchmarks_run_at_tiny_sizes(tmp_path):
    assert torch.__version__  # without torch this file is left out
    small = ["--lengths", "8", "40", "--attention", "8", "--seeds", "2", "--steps", "2"]
    result = subprocess.run(
        [sys.executable, "benchmarks/run.py", *small, "--trajectories", "4", "--out", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for part in ("(a)", "(b)", "(c)", "(d)", "GB/s", "ssm.respond"):
        assert part in result.stdout
    assert (tmp_path / "bench_diagonal_ssm.png").stat().st_size > 1000
