"""Most of what is computed by hand works, and is tested, where torch is not installed."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
BLOCKED = """
import sys
import pytest

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_files_that_need_no_torch_are_still_collected_without_it():
    # warnings are for the run itself to judge: here only the collecting counts
    calm = ("-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning")
    result = subprocess.run(
        [sys.executable, "-c", BLOCKED, "--collect-only", *calm, FOLDER],
        cwd=FOLDER.parents[1],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    collected = re.findall(r"^tests/unit/test_(\w+)\.py::", result.stdout, re.MULTILINE)
    assert {"lookup", "hippo", "systems", "kalman", "explore", "quiz"} <= set(collected)
    assert len(collected) > 300
    (line,) = re.findall(r"^torch is not installed: .*$", result.stdout, re.MULTILINE)
    assert "models" in line
    assert "lookup" not in line
