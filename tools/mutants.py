"""Show that the tests catch the mistakes a reader would make.

``tests/mutants/<module>.toml`` lists deliberate mistakes in ``book_utils/<module>.py``: a text that
occurs once, what it becomes, and the test that must fail. Each mistake is made in a copy of the
package, and the named test is run there. ``python tools/mutants.py kalman models`` tries those two
modules only.
"""

import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import tomllib

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

# Heavy imports are made once; forked processes share them.
import pytest
import scipy.signal  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
LIMIT = 300  # seconds a test may take
# Forking is quick because the imports above are shared; Windows can only spawn, which is slower.
CONTEXT = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")


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


def load(modules: list[str]) -> list[Mutant]:
    """Mutants of the modules (of all when none is named); the text to change must occur once."""
    mutants = []
    folder = ROOT / "tests/mutants"
    for path in [folder / f"{m}.toml" for m in modules] or sorted(folder.glob("*.toml")):
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            mutant = Mutant(module=path.stem, **table)
            count = (ROOT / mutant.source).read_text(encoding="utf-8").count(mutant.old)
            if count != 1:
                raise ValueError(f"{path.name}, {mutant.name!r}: its text occurs {count} times")
            mutants.append(mutant)
    return mutants


def copy_package(folder: Path, mutant: Mutant | None) -> None:
    """A copy of the package and its tests in `folder`, with the mutant's mistake in it."""
    for part in ("book_utils", "tests/unit"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    if mutant:
        target = folder / mutant.source
        text = target.read_text(encoding="utf-8").replace(mutant.old, mutant.new)
        target.write_text(text, encoding="utf-8")


def run_tests(tests: list[str], mutant: Mutant | None, log: str) -> None:
    """Child process: run the tests on a copy, print to the file `log`, and exit as pytest does."""
    with tempfile.TemporaryDirectory() as name, open(log, "w", encoding="utf-8") as output:
        copy_package(Path(name), mutant)
        os.chdir(name)
        sys.path.insert(0, name)
        sys.dont_write_bytecode = True
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            status = pytest.main(["-x", "-p", "no:cacheprovider", *tests])
        os.chdir(ROOT)
    sys.exit(int(status))


def verdict(mutant: Mutant, status: int | None, log: str) -> str:
    """What pytest's exit status says: 1 means that the named test failed, as it should."""
    if status == 1:
        return "caught"
    if status == 0:
        return "SURVIVED"
    return f"NOT RUN (status {status})\n{Path(log).read_text(encoding='utf-8')}"


def start(tests: list[str], mutant: Mutant | None, log: str) -> BaseProcess:
    """Run the tests in a process of their own."""
    process = CONTEXT.Process(target=run_tests, args=(tests, mutant, log))
    process.start()
    return process


def all_verdicts(mutants: list[Mutant], folder: str) -> Iterator[tuple[Mutant, str]]:
    """Run each mutant's test, a few at a time; (mutant, verdict) in the order given."""
    waiting, running = list(enumerate(mutants)), []
    while waiting or running:
        while waiting and len(running) < WORKERS:
            number, mutant = waiting.pop(0)
            log = f"{folder}/{number}.log"
            test = f"{mutant.test_file}::{mutant.caught_by}"
            running.append((mutant, log, start([test], mutant, log)))
        mutant, log, process = running.pop(0)
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
        yield mutant, verdict(mutant, process.exitcode, log)


def main() -> int:
    """Check that the named tests pass as things are, then that each catches its mutant."""
    mutants = load(sys.argv[1:])
    tests = sorted({f"{m.test_file}::{m.caught_by}" for m in mutants})
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        sound = start(tests, None, f"{folder}/sound.log")
        sound.join()
        if sound.exitcode:
            print(Path(folder, "sound.log").read_text(encoding="utf-8"))
            print("The named tests must pass before anything is changed.")
            return 1
        for mutant, found in all_verdicts(mutants, folder):
            missed += found != "caught"
            print(f"{mutant.module}: {mutant.name}: {found} by {mutant.caught_by}", flush=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
