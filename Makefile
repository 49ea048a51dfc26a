VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv and install the project with all it needs to run and to test
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -e '.[dev]'
	$(BIN)/repro --help > /dev/null

test: ## run the tests
	$(BIN)/python -m pytest

check: ## what CI runs: format, lint, types, tests
	$(BIN)/ruff format --check repro tests cli.py
	$(BIN)/ruff check repro tests cli.py
	$(BIN)/mypy
	$(BIN)/python -m pytest

figures: ## draw all figures that the stored runs allow into results/figures
	$(BIN)/repro figures

bench: ## measure the engine's speed (a quiet machine, please)
	$(BIN)/repro bench engine

.PHONY: help setup test check figures bench
.DEFAULT_GOAL := help
