# Each target sets up what it needs. `make book` on a fresh clone is enough to read the book.
#   make book        build the HTML book and print the path to open
#   make serve       build it and serve it on http://localhost:8000
#   make lab         open the chapters in JupyterLab
#   make test        everything that is checked: lint, unit tests, mutants, chapters, the built pages
#   make notebooks   execute the committed chapters anew and store them in normal form
#   make repository  write the book's address and version wherever they stand (URL=… sets the address)
#   make lint        format, lint, types and spelling (`make format` repairs what can be repaired)
#   make mutants     show that each deliberate mistake in the helpers is caught by a test
#   make zip         the built book as one file for reading with no network
#   make pdf         the print edition (needs Chromium; `make browser` gets one where there is none)
#   make wheel       the helpers as a package for pip
#   make matrix      test with other Pythons and versions, and run the chapters as on Google Colab (noxfile.py)
#   make links       check that the book's links to the outside still lead somewhere
#   make audit       look for known vulnerabilities in what is installed
#   make bench       measure on this machine what the routes cost (about three minutes)
#   make clean       remove everything that was built (the environment too: make distclean)
#
# Settings, all optional: PYTHON=python3.12  VENV=folder  OUT=folder
#   TORCH_INDEX=https://download.pytorch.org/whl/cpu   take torch from there (a small CPU-only build)

VENV ?= .venv
OUT ?= .
PORT ?= 8000
TORCH_INDEX ?=
export OMP_NUM_THREADS ?= 1 # small tensors: more threads only get in each other's way

# Windows' own encodings lack the formulas' symbols.
export PYTHONUTF8 := 1

ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN := $(VENV)/Scripts
else
PYTHON ?= python3
BIN := $(VENV)/bin
endif
READY := $(VENV)/.ready
SITE := $(OUT)/_build/html
DIST := $(OUT)/_build/dist
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' book_utils/__init__.py)
EDITION := $(DIST)/memory-in-learned-world-models-$(VERSION)

.PHONY: help book serve lab notebooks repository test unit chapters site lint format mutants bench matrix links audit zip pdf wheel chromium browser version clean distclean

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

book: $(READY)
	"$(BIN)/jupyter-book" build . --path-output "$(OUT)" --quiet
	@echo "The book is ready. Open $(abspath $(SITE))/index.html"

serve: book
	@echo "http://localhost:$(PORT)"
	"$(BIN)/python" -m http.server $(PORT) --bind 127.0.0.1 --directory "$(SITE)"

lab: $(READY)
	"$(BIN)/jupyter-lab" chapters

notebooks: $(READY)
	"$(BIN)/python" tools/notebooks.py

repository: $(READY)
	"$(BIN)/python" tools/repository.py $(if $(filter undefined,$(origin URL)),,--url "$(URL)")

test: lint unit mutants chapters site

unit: $(READY)
	"$(BIN)/python" -m pytest tests/unit tests/project

chapters: $(READY)
	"$(BIN)/python" -m pytest tests/chapters
	"$(BIN)/python" -m pytest -n 2 --dist loadfile --nbval --nbval-cell-timeout=300 -W default chapters

site: book
	BOOK_SITE="$(abspath $(SITE))" "$(BIN)/python" -m pytest -n 2 --dist loadgroup tests/site -rs

mutants: $(READY)
	"$(BIN)/python" tools/mutants.py

matrix: $(READY)
	"$(BIN)/nox"

links: $(READY)
	"$(BIN)/python" tools/links.py

audit: $(READY)
	"$(BIN)/nox" -s audit -- "$(abspath $(BIN))/python"

bench: $(READY)
	"$(BIN)/python" -m pip install --quiet --no-deps -r benchmarks/requirements.txt
	"$(BIN)/python" benchmarks/run.py --out "$(OUT)/_build"

lint: $(READY)
	"$(BIN)/ruff" format --check .
	"$(BIN)/ruff" check .
	"$(BIN)/mypy"
	"$(BIN)/codespell"
	"$(BIN)/zizmor" --offline --quiet .github
	"$(BIN)/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml

zip: book
	@"$(BIN)/python" tools/offline_zip.py "$(SITE)" "$(EDITION).zip"

pdf: chromium book # without Chromium this fails before the book is built
	@"$(BIN)/python" tools/print_edition.py "$(SITE)" "$(EDITION).pdf"

chromium: $(READY)
	@"$(BIN)/python" tools/chromium.py

browser: $(READY)
	"$(BIN)/python" tools/chromium.py || "$(BIN)/playwright" install chromium

wheel: $(READY)
	"$(BIN)/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$(DIST)" .
	@echo "$(DIST)/book_utils-$(VERSION)-py3-none-any.whl"

version:
	@echo "$(VERSION)"

format: $(READY)
	"$(BIN)/ruff" format .
	"$(BIN)/ruff" check --fix .

$(READY): requirements.txt pyproject.toml
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "The book needs Python 3.11 or newer; say which with PYTHON=...")'
	"$(PYTHON)" -m venv "$(VENV)"
	$(if $(TORCH_INDEX),"$(BIN)/python" -m pip install --quiet --index-url "$(TORCH_INDEX)" $(shell grep -o '^torch==[0-9.]*' requirements.txt))
	"$(BIN)/python" -m pip install --quiet -r requirements.txt
	"$(BIN)/python" -m pip install --quiet --no-deps --no-build-isolation -e .
	"$(BIN)/python" -c 'import matplotlib.font_manager'
	@"$(BIN)/python" -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).touch()' "$@"

clean:
	rm -rf "$(OUT)/_build" .pytest_cache .mypy_cache .ruff_cache .hypothesis

distclean: clean
	rm -rf "$(VENV)"
