# Every target sets up what it needs in $(VENV); none relies on anything installed by hand.
#   make demo                      real data in, stored, sliced, queried, multiplied
#   make test                      the whole test suite
#   make PYTHON=python3.12 test    with another interpreter (from 3.11 on)

PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

MINUTES ?= 5
ROUNDS ?= 1

.PHONY: help tools demo test seeds trial lint types site bench gpu clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    store two real data sets, slice, query and multiply them'
	@echo 'make test    run the tests (TESTS=tests/cli for some of them)'
	@echo 'make seeds   random tests on examples that make test does not draw, ROUNDS=1 times (docs/reliability.md)'
	@echo 'make trial   kill, race, fill the disk, flip bytes and feed rubbish for MINUTES=5 (docs/reliability.md)'
	@echo 'make lint    check style, formatting and that lower layers import no upper ones'
	@echo 'make types   check types'
	@echo 'make site    write the documentation to site/, its links checked'
	@echo 'make bench   time sparrow beside SciPy, DuckDB, scikit-learn, implicit and pydata/sparse, print ratios'
	@echo 'make gpu     on a machine with a CUDA device: test and time engine="cupy" on it (CUPY=cupy-cuda13x for CUDA 13)'
	@echo 'make clean   remove what these targets made, $(VENV) included'

$(BIN)/python:
	@echo 'Making $(VENV) with $(PYTHON)'
	@$(PYTHON) -c 'import sys; sys.exit("sparrow needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow and its development tools into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.runtime

# All at once for who checks all: what installs one after the other is resolved again each time.
tools: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow, its development tools and what makes its site into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev,docs]'
	@touch $(VENV)/.dev $(VENV)/.docs $(VENV)/.runtime

demo: $(VENV)/.runtime
	@$(BIN)/sparrow demo $(DEMO)
	@command -v sparrow > /dev/null || echo '   (first put the command on your path: . $(BIN)/activate)'

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal $(TESTS)

seeds: $(VENV)/.dev
	for round in $$(seq $(ROUNDS)); do \
	  HYPOTHESIS_PROFILE=seeds $(BIN)/python -m pytest -m hypothesis -n 3 --dist worksteal $(TESTS) || exit 1; \
	done

trial: $(VENV)/.dev
	$(BIN)/python -m tests.trial --minutes $(MINUTES)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/lint_language.py

types: $(VENV)/.dev
	$(BIN)/mypy

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow and what makes its site into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

$(VENV)/.bench: $(VENV)/.dev
	@echo 'Installing what the bench compares with into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev,bench]'
	@touch $@

bench: $(VENV)/.bench
	$(BIN)/python bench/run.py

# The tests of every engine compute on the device where there is one; in one process, which has its memory alone.
CUPY ?= cupy-cuda12x
gpu: $(VENV)/.dev
	@echo 'Installing $(CUPY) into $(VENV)'
	@$(PIP) install '$(CUPY)>=14'
	$(BIN)/python -c 'from sparrow.engines.cupy.device import current_gpu; print(current_gpu().room(), "bytes free")'
	$(BIN)/python -m pytest -n 0 tests/engines tests/models/test_als_devices.py tests/tensor/test_exports.py
	$(BIN)/python bench/run.py --only gpu

clean:
	rm -rf $(VENV) $(DEMO) site bench/data bench/results dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
