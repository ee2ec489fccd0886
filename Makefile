# Two commands on a fresh machine: `make train` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup train test format check slow faults bench lock clean

help: ## Show what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(VENV)/.ready ## Make .venv from the lock file and install ctmle in it

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "ctmle needs Python 3.11 or newer; say which one with: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@echo "Setting up $(VENV) (once; about a minute plus downloads)..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

train: setup ## Learn to swing up a noisy pendulum (the main job, a few minutes)
	$(BIN)/ctmle train pendulum --sigma 2.0

test: check ## Format, lint, types and tests: the whole gate
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

format: setup ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

slow: setup ## The slower checks: every environment learns to success, a Ray cluster asks for a token
	$(BIN)/python -m pytest -m slow

faults: setup ## Kill runs of every agent a hundred times, damage a thousand files, make every mistake; print the tallies
	$(BIN)/python -m pytest -n 0 -s tests/test_corruption.py tests/test_mistakes.py
	$(BIN)/python tests/faults/kills.py --kills 100

bench: setup ## What everything costs: updates beside the matmul peak, runs to success, start, memory, growth
	$(BIN)/python benchmarks/bench.py

lock: ## Resolve the lock file anew (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command "make lock" --extra dev pyproject.toml -o requirements.lock

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
