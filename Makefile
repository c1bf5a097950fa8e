# `make test` and `make reproduce` set up everything they need; only Python >= 3.11 and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: reproduce test lint types layers pytest bench format clean

reproduce: $(VENV)/.installed
	$(BIN)/replicable-rl reproduce

test: lint types layers pytest

lint: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developing
	$(BIN)/mypy

layers: $(VENV)/.developing
	$(BIN)/lint-imports

pytest: $(VENV)/.developing
	$(BIN)/python -m pytest -n auto

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.phased_vi
	$(BIN)/python -m benchmarks.rmax
	$(BIN)/python -m benchmarks.audit

format: $(VENV)/.developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# Also what the tests need: linters, and the libraries of the extras.
$(VENV)/.developing: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache results
