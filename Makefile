# Every target installs what it needs into $(VENV). Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
VENV ?= .venv
DEMO ?= demo
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# BOUNDSCHECK=1 compiles kernels with bounds checks, into a cache of their own.
BOUNDSCHECK ?=
CHECKED := $(if $(BOUNDSCHECK),NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.numba-boundscheck)

MINUTES ?= 5
ROUNDS ?= 1

NNZ ?= 100000000

.PHONY: help tools demo dist install-check fast test seeds trial memory readers lint types site screenshots bench gpu cluster clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    store, slice, query and multiply two real data sets'
	@echo 'make dist    build the wheel and the source archive in dist/'
	@echo 'make fast    run the fast tests, in under a minute'
	@echo 'make test    run all tests (TESTS=tests/storage for some, BOUNDSCHECK=1 to check indices in kernels)'
	@echo 'make seeds   run random tests on new examples, ROUNDS=1 times'
	@echo 'make trial   kill, interrupt, race, fill the disk, flip bytes and fuzz for MINUTES=5'
	@echo 'make memory  run every public function on tensors of 10 times the memory limit (NNZ=20000000 for smaller ones)'
	@echo 'make install-check  install the wheel into a clean environment and run every command of the documentation'
	@echo 'make readers open stores of each profile by other readers, each in an environment of its own'
	@echo 'make lint    check style, formatting, layers, names and prose'
	@echo 'make types   check types'
	@echo 'make site    build the documentation in site/, links checked'
	@echo 'make screenshots  take the pictures of the documentation anew, in headless Chromium'
	@echo 'make bench   time sparrow beside its peers; PARTS=spgemm,tiny for some, and update bench/RESULTS.md'
	@echo 'make gpu     test and time engine="cupy" on a CUDA device (CUPY=cupy-cuda13x for CUDA 13)'
	@echo 'make cluster run the tests of engines "spark" and "ray", which it installs (SCHEDULERS=spark for one)'
	@echo 'make clean   remove everything that these targets create, $(VENV) included'

$(BIN)/python:
	@echo 'Making $(VENV) with $(PYTHON)'
	@$(PYTHON) -c 'import sys; sys.exit("sparrow needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow with development tools into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.runtime

# Everything at once, for CI: separate installations resolve the dependencies each time.
tools: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow with development and documentation tools into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev,docs]'
	@touch $(VENV)/.dev $(VENV)/.docs $(VENV)/.runtime

demo: $(VENV)/.runtime
	@$(BIN)/sparrow demo $(DEMO)
	@command -v sparrow > /dev/null || echo '   (first put the command on your path: . $(BIN)/activate)'

$(VENV)/.dist: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) install --constraint constraints.txt hatchling
	@touch $@

dist: $(VENV)/.dist
	@$(BIN)/python -m hatchling build --target sdist --target wheel --directory dist > /dev/null
	@ls dist/sparrow_tensor-*

test: $(VENV)/.dev
	$(CHECKED) $(BIN)/python -m pytest -n 3 --dist worksteal $(TESTS)

fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n 3 --dist worksteal --fast $(or $(TESTS),tests)

seeds: $(VENV)/.dev
	for round in $$(seq $(ROUNDS)); do \
	  HYPOTHESIS_PROFILE=seeds $(BIN)/python -m pytest -m hypothesis -n 3 --dist worksteal $(TESTS) || exit 1; \
	done

trial: $(VENV)/.dev
	$(BIN)/python -m tests.trial --minutes $(MINUTES)

memory: $(VENV)/.dev
	folder=$$(mktemp -d); $(BIN)/python -m tests.memory.measure $$folder $(CASES) --nnz $(NNZ); status=$$?; \
	rm -rf $$folder; exit $$status

# Nothing is shared with the machine: everything is fetched and every kernel is compiled.
install-check: $(VENV)/.dev
	$(BIN)/python -m pytest --clean-install -o faulthandler_timeout=0 tests/test_install.py

# Installing a reader may take minutes.
readers: $(VENV)/.dev
	$(BIN)/python -m pytest --readers $(VENV)/readers -o faulthandler_timeout=0 tests/interop/test_readers.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python .ci/lint_language.py

types: $(VENV)/.dev
	$(BIN)/mypy

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo 'Installing sparrow with documentation tools into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

screenshots: $(VENV)/.dev
	$(BIN)/python docs/screenshots.py

$(VENV)/.bench: $(VENV)/.dev
	@echo 'Installing the peers of the bench into $(VENV)'
	@$(PIP) install --constraint constraints.txt --editable '.[dev,bench]'
	@touch $@

PARTS ?=
bench: $(VENV)/.bench
	$(BIN)/python bench/run.py --write $(if $(PARTS),--only $(PARTS))

# Ray and Spark are large: an environment on top of $(VENV) has them, so that a failed installation harms no other
# target. Tests of what cannot be installed are skipped, and pytest returns 5 if that leaves none.
SCHEDULERS ?= spark ray
MINUTES_TO_INSTALL ?= 10
LAYER := $(VENV)/schedulers
limit = $(if $(shell command -v timeout),timeout $(1))
cluster: $(VENV)/.dev
	@$(BIN)/python -m venv --without-pip $(LAYER)
	@$(BIN)/python -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' \
	  > $$($(LAYER)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth
	@for name in $(SCHEDULERS); do \
	  echo "Installing $$name into $(LAYER)"; \
	  $(call limit,$(MINUTES_TO_INSTALL)m) $(PIP) --python $(LAYER)/bin/python install --constraint constraints.txt \
	    --editable ".[$$name]" || echo "$$name could not be installed: its tests will be skipped" >&2; \
	done
	@command -v java > /dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get > /dev/null || \
	  { apt-get -qq update && apt-get -qq install --yes --no-install-recommends openjdk-17-jre-headless; } > /dev/null || \
	  echo 'Java could not be installed: tests of Spark will be skipped' >&2
	$(call limit,8m) $(LAYER)/bin/python -m pytest -n 2 --dist loadfile $(SCHEDULERS:%=tests/engines/cluster/test_%.py) || [ $$? = 5 ]

# The engine tests use the device where there is one, in one process that has its memory alone.
CUPY ?= cupy-cuda12x
gpu: $(VENV)/.dev
	@echo 'Installing $(CUPY) into $(VENV)'
	@$(PIP) install '$(CUPY)>=14'
	$(BIN)/python -c 'from sparrow.engines.cupy.device import current_gpu; print(current_gpu().room(), "bytes free")'
	$(BIN)/python -m pytest -n 0 tests/engines tests/models/test_als_devices.py tests/tensor/test_exports.py
	$(BIN)/python bench/run.py --only gpu

clean:
	rm -rf $(VENV) .numba-boundscheck $(DEMO) site .notebooks bench/data bench/results dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
