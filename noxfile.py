"""The environments that the book promises to work in: ``make matrix`` runs them, ``nox -l`` lists them.

``helpers`` tests the modules that need no torch: at the lower ends of the ranges in pyproject.toml on the
oldest Python, and with the newest versions on the newer ones. ``book`` is the whole suite with the pins.
``colab`` executes the chapters as Google Colab would. ``audit`` looks for known vulnerabilities.
"""

import os
import re
from pathlib import Path

import nox

nox.options.sessions = ["helpers", "book", "colab"]
nox.options.error_on_missing_interpreters = True
nox.options.default_venv_backend = "venv"

ROOT = Path(__file__).parent
# Read by `helpers`: numpy, matplotlib, … but not torch, which is gigabytes on most platforms.
RANGES = dict(
    re.findall(
        r'^  "(numpy|scipy|matplotlib|pillow|ipywidgets)>=([\d.]+)"',
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)
TOOLS = ("pytest", "hypothesis", "filterpy", "PyYAML", "nbformat", "ipykernel", "joblib")
TORCH_INDEX = os.environ.get("TORCH_INDEX")  # where to take a small, CPU-only torch from
PIP_AUDIT = "pip-audit==2.10.1"  # asks PyPI's or OSV's list of known vulnerabilities


def pins(*names: str) -> list[str]:
    """Lines of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    found = dict(re.findall(r"^((?!#)[^=\s]+)==(\S+)", text, re.MULTILINE))
    return [f"{name}=={found[name]}" for name in names]


@nox.session(python=["3.10", "3.12", "3.13"])
def helpers(session: nox.Session) -> None:
    """The tests that need no torch: oldest versions on 3.10, newest elsewhere."""
    oldest = session.python == "3.10"
    session.install(
        *(f"{name}=={low}.*" if oldest else name for name, low in RANGES.items()),
        *(re.sub("==.*", "", pin) if oldest else pin for pin in pins(*TOOLS)),
    )
    session.run("python", "-m", "pip", "list", "--format=freeze")
    # old versions of libraries use what newer ones that they bring along are about to drop
    calm = ("-W", "ignore::DeprecationWarning") if oldest else ()
    session.run("python", "-m", "pytest", "tests/unit", *calm, *session.posargs)


@nox.session(venv_backend="none")
def book(session: nox.Session) -> None:
    """Everything that is checked, on Python 3.11 with the pins, in the environment of `make`."""
    session.run("make", "test", *session.posargs, external=True)


@nox.session(python="3.13")
def colab(session: nox.Session) -> None:
    """Every chapter in an environment like Google Colab's, from notebooks alone."""
    if TORCH_INDEX:
        (torch,) = re.findall(r"^torch==\S+", (ROOT / "tools/colab.txt").read_text(), re.MULTILINE)
        session.install("--index-url", TORCH_INDEX, torch)
    session.install("-r", "tools/colab.txt")
    session.run("python", "tools/elsewhere.py", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(default=False)
def audit(session: nox.Session) -> None:
    """Known vulnerabilities in the book's environment: ``nox -s audit -- .venv/bin/python``."""
    book_python, *options = session.posargs
    listing = ("-m", "pip", "list", "--format=freeze", "--exclude-editable")
    packages = session.run(book_python, *listing, external=True, silent=True)
    # torch==2.13.0+cpu is listed as torch==2.13.0
    pinned = [re.sub(r"\+.*", "", line) for line in packages.splitlines() if "==" in line]
    requirements = Path(session.create_tmp()) / "audited.txt"
    requirements.write_text("\n".join(pinned) + "\n", encoding="utf-8")
    session.install(PIP_AUDIT)
    # strict: what could not be looked up is a failure, not a package without known vulnerabilities
    session.run(
        *("pip-audit", "--strict", "--no-deps", "--disable-pip"),
        *("--requirement", str(requirements), *options),
    )
