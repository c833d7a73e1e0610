"""Importing the package is cheap."""

import subprocess
import sys


def modules_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_import_loads_neither_torch_nor_matplotlib():
    assert not {"torch", "matplotlib", "numpy"} & modules_after("import book_utils")


def test_numpy_modules_do_not_load_torch():
    loaded = modules_after("from book_utils import lookup, ssm, systems, kalman, exercises")
    assert "torch" not in loaded
    assert "matplotlib" not in loaded
