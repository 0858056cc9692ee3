# Two commands are enough on a fresh machine: `make serve` and `make test`.
#
#   PYTHON          interpreter that .venv is made from (3.11, 3.12 or 3.13)
#   TORCH           requirement for torch
#   PIP_INDEX_ARGS  pip's index options for torch alone. Without a GPU, this is a much
#                   smaller download:
#                   make install PIP_INDEX_ARGS="--index-url https://download.pytorch.org/whl/cpu"
#   ARGS            passed on to the command that a target runs

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
PIP_INDEX_ARGS ?=
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help install install-dev chromium models serve test test-slow lint format bench clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## make .venv and install Antiphon into it
install-dev: $(INSTALLED_DEV)  ## add what tests and linters need

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "Antiphon wants Python 3.11 to 3.13; this is $$($(PYTHON) --version)." >&2; \
	    echo "Name another: make install PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# torch comes first and alone, so that PIP_INDEX_ARGS concerns nothing else. The extra
# `piper` brings the interim voice's software, which is GPL-3.0.
$(INSTALLED): pyproject.toml | $(BIN)/python
	$(PIP) install $(PIP_INDEX_ARGS) "$(TORCH)"
	$(PIP) install --editable ".[piper]"
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(PIP) install --editable ".[piper,dev]"
	@touch $@

chromium:
	@tests/support/ensure_chromium.sh

models: $(INSTALLED)  ## fetch and verify the embedded models
	@$(BIN)/antiphon models fetch

serve: models  ## run the server: HTTP and WebSocket on 8000, gRPC health on 50051
	@exec $(BIN)/antiphon serve $(ARGS)

test: $(INSTALLED_DEV) models chromium  ## run all tests but the slow ones
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: $(INSTALLED_DEV) models chromium  ## run the tests that need long in real time
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(INSTALLED_DEV)  ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV)  ## put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: models  ## measure the time from a spoken question to the spoken answer
	@$(BIN)/antiphon bench voice --json $(ARGS)

clean:  ## remove .venv and caches here; the models' cache in your home stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
