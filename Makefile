# Every target sets up what it needs. `make` alone lists them.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench chaos format lock

help: ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(READY) ## Make .venv with the locked dependencies and this checkout

# uv.lock says what to install, pip fetches it: uv itself comes through pip, so whatever pip needs here (proxy,
# mirror, certificates) is set up already, and uv needs no network. `--locked` refuses a lock that is out of date.
$(READY): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Tenure needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet 'uv>=0.8'
	$(BIN)/uv export --quiet --offline --locked --no-python-downloads --no-emit-project --output-file .venv/locked.txt
	$(BIN)/python -m pip install --quiet --require-hashes --requirement .venv/locked.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## Watch an execution survive the death of its worker
	$(BIN)/tenure demo

# Most tests wait for processes, so three share two cores well; those of one file stay together.
test: setup ## Run the everyday tests
	$(BIN)/pytest -n 3 --dist loadfile

check: ## Run everything a change must pass
	.ci/run

bench: setup ## Measure; a few minutes
	$(BIN)/pytest tests/benchmarks -m benchmark -s

chaos: setup ## Kill processes and servers for a long while
	$(BIN)/pytest -m chaos --timeout 1800

format: setup ## Format, and repair what the linter can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lock: setup ## Take up the newest dependencies that pyproject.toml allows
	$(BIN)/uv lock --upgrade
