# `make test` and `make reproduce` set up everything they need; only Python >= 3.11 and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FLOORS := .venv-floors
# For tests: half as many again as there are cores, as some tests wait for others.
WORKERS = $(shell $(PYTHON) -c 'import os; print(3 * (os.cpu_count() or 2) // 2)')
# Modules are compiled when they are imported: most never are, and compiling all of them takes ten seconds.
# So their bytecode is kept, whatever the caller's shell says: else every process would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: reproduce test lint types layers warm pytest slow floors bench fuzz soak docs format clean

reproduce: $(VENV)/.installed
	$(BIN)/replicable-rl reproduce

test: lint
	$(MAKE) --jobs 2 --output-sync types layers warm
	$(MAKE) pytest

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developing
	$(BIN)/mypy

layers: $(VENV)/.developing
	$(BIN)/lint-imports

# Tests are prepared and kernels compiled once, and not by every worker at the same time.
warm: $(VENV)/.developing
	$(BIN)/python -m pytest --collect-only -qq > /dev/null

pytest: $(VENV)/.developing
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

slow: $(VENV)/.developing
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow

# The tests with the lowest versions that pyproject.toml declares: by hand, and in .github/workflows.
floors: $(FLOORS)/.installed
	$(FLOORS)/bin/python -m pytest -n $(WORKERS) --dist worksteal -m 'not slow'

bench: $(VENV)/.benchmarking
	$(BIN)/python -m dev.benchmarks
	$(BIN)/python -m dev.benchmarks.proofs
	$(BIN)/python -m dev.benchmarks.proofs_decisions

# 100 000 broken files: about ten minutes.
fuzz: $(VENV)/.installed
	$(BIN)/python -m dev.fuzz

# 100 kills at random moments, each resumed: about ten minutes.
soak: $(VENV)/.installed
	$(BIN)/python -m dev.soak

# Never with --quiet: it hides the warnings that --strict turns into errors.
docs: $(VENV)/.documenting
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The pages are in site/: open site/index.html."

format: $(VENV)/.developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[plot]'
	touch $@

# Also what the tests need: linters, and the libraries of the extras.
# In one go, so that the package is built and its needs are resolved once.
$(VENV)/.developing: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	touch $(VENV)/.installed $@

$(FLOORS)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(FLOORS)/bin/uv pip install --quiet --python $(FLOORS)/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@

# Also the peers to compare with, one by one: the benchmarks go without one that cannot be installed.
$(VENV)/.benchmarking: $(VENV)/.installed
	$(BIN)/python -m dev.benchmarks.peers
	touch $@

# Also what the documentation site is built with.
$(VENV)/.documenting: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(FLOORS) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results site
