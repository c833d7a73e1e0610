"""Show that the tests catch the mistakes a reader would make.

``tests/mutants/<module>.toml`` lists deliberate mistakes in ``book_utils/<module>.py``: a text that
occurs once, what it becomes, and the test that must fail. Each mistake is made in a copy of the
package, and the named test is run there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
LIMIT = 300  # seconds a test may take


@dataclass(frozen=True)
class Mutant:
    """One deliberate mistake."""

    module: str
    name: str
    old: str
    new: str
    caught_by: str

    @property
    def source(self) -> str:
        """The module's file, relative to the repository."""
        return f"book_utils/{self.module.replace('.', '/')}.py"

    @property
    def test_file(self) -> str:
        """The file of tests that mirrors the module."""
        return f"tests/unit/test_{self.module.replace('.', '_')}.py"


def load() -> list[Mutant]:
    """All mutants, checked: the text to change must occur exactly once."""
    mutants = []
    for path in sorted((ROOT / "tests/mutants").glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            mutant = Mutant(module=path.stem, **table)
            count = (ROOT / mutant.source).read_text(encoding="utf-8").count(mutant.old)
            if count != 1:
                raise ValueError(f"{path.name}, {mutant.name!r}: its text occurs {count} times")
            mutants.append(mutant)
    return mutants


def run(tests: list[str], mutant: Mutant | None = None) -> subprocess.CompletedProcess[str]:
    """Run the tests in a copy of the package with the mutant's mistake in it."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("book_utils", "tests/unit"):
            shutil.copytree(
                ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        if mutant:
            target = Path(folder, mutant.source)
            text = target.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
            target.write_text(text, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )


def verdict(mutant: Mutant) -> tuple[Mutant, str]:
    """Run the named test against the mutant: exit status 1 means that it failed, as it should."""
    result = run([f"{mutant.test_file}::{mutant.caught_by}"], mutant)
    if result.returncode == 1:
        return mutant, "caught"
    if result.returncode == 0:
        return mutant, "SURVIVED"
    return mutant, f"NOT RUN (pytest exit {result.returncode})\n{result.stdout}{result.stderr}"


def main() -> int:
    """Check that the named tests pass as things are, then that each catches its mutant."""
    mutants = load()
    tests = sorted({f"{m.test_file}::{m.caught_by}" for m in mutants})
    sound = run(tests)
    if sound.returncode:
        print(sound.stdout, sound.stderr, "The named tests must pass before anything is changed.")
        return 1
    missed = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for mutant, found in pool.map(verdict, mutants):
            missed += found != "caught"
            print(f"{mutant.module}: {mutant.name}: {found} by {mutant.caught_by}", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
