# Each target sets up what it needs. `make book` on a fresh clone is enough to read the book.
#   make book        build the HTML book and print the path to open
#   make serve       build it and serve it on http://localhost:8000
#   make lab         open the chapters in JupyterLab
#   make test        everything that is checked: lint, unit tests, mutants, chapters, the built pages
#   make notebooks   execute the committed chapters anew and store them in normal form
#   make lint        format, lint, types and spelling (`make format` repairs what can be repaired)
#   make mutants     show that each deliberate mistake in the helpers is caught by a test
#   make clean       remove everything that was built (the environment too: make distclean)
#
# Settings, all optional: PYTHON=python3.12  VENV=folder  OUT=folder
#   TORCH_INDEX=https://download.pytorch.org/whl/cpu   take torch from there (a small CPU-only build)

PYTHON ?= python3
VENV ?= .venv
OUT ?= .
PORT ?= 8000
TORCH_INDEX ?=
export OMP_NUM_THREADS ?= 1 # small tensors: more threads only get in each other's way

ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
READY := $(VENV)/.ready
SITE := $(OUT)/_build/html

.PHONY: help book serve lab notebooks test unit chapters site lint format mutants clean distclean

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

test: lint unit mutants chapters site

unit: $(READY)
	"$(BIN)/python" -m pytest tests/unit

chapters: $(READY)
	"$(BIN)/python" -m pytest tests/chapters
	"$(BIN)/python" -m pytest -n 2 --dist loadfile --nbval --nbval-cell-timeout=300 -W default chapters

site: book
	BOOK_SITE="$(abspath $(SITE))" "$(BIN)/python" -m pytest tests/site -rs

mutants: $(READY)
	"$(BIN)/python" tools/mutants.py

lint: $(READY)
	"$(BIN)/ruff" format --check .
	"$(BIN)/ruff" check .
	"$(BIN)/mypy"
	"$(BIN)/codespell"

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
