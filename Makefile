# Two commands on a fresh machine: `make train` and `make test`. Both set up everything that they need first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
ifdef UV
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
else
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif
COMPILE := uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
  --custom-compile-command "make lock" --extra setup

# Files of `make quick`: they start no processes and compile little.
FAST := options structure schedules dataset objectives statistics theory envs reproduce_plans reproduce_verdicts sweep_plan

.DEFAULT_GOAL := help
.PHONY: help setup train test quick format check slow faults bench lock clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ctmle needs Python 3.11 or newer; say which one with: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.train: requirements.lock pyproject.toml | $(VENV)/.python
	@echo "Installing what training needs into $(VENV) (once)..."
	$(INSTALL) --require-hashes -r requirements.lock
	$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.ready: requirements-dev.lock $(VENV)/.train
	@echo "Installing what tests need into $(VENV) (once)..."
	$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(VENV)/.ready ## Make .venv with everything that tests and tools need

train: $(VENV)/.train ## Learn to swing up a noisy pendulum (the main job; installs only what training needs)
	$(BIN)/ctmle train pendulum --sigma 2.0

test: check ## Format, lint, types and tests: the whole gate
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

quick: check ## Format, lint, types and the fast tests: a contributor's loop
	$(BIN)/python -m pytest $(FAST:%=tests/test_%.py)

format: setup ## Format the code and fix what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

slow: setup ## The slower checks: every environment learns to success, a Ray cluster asks for a token, the wheel works
	$(BIN)/python -m pytest -m slow

faults: setup ## Kill, damage, starve and mislead everything hundreds of times; print one table of what survived
	$(BIN)/python tests/faults/table.py

bench: setup ## What everything costs: updates beside the matmul peak, runs to success, start, memory, growth
	$(BIN)/python benchmarks/bench.py

lock: ## Resolve both lock files anew (needs uv)
	$(COMPILE) --extra dev pyproject.toml -o requirements-dev.lock
	$(COMPILE) --constraint requirements-dev.lock pyproject.toml -o requirements.lock

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
