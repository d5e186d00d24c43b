# Everything installs into .venv; afterwards .venv/bin/pluralrm works.
#
#   make demo       the main job with embedded data: no GPU, no key, no download of a model, no torch
#   make test       the default tests
#   make test-slow  longer statistical and load tests
#   make lint       ruff, mypy --strict, import contracts
#   make torch      PyTorch beside it, for reward models of your own that need it
#   make bench      speed, as ratios in one interleaved run

PYTHON ?= python3
# A release with a small CPU build. Another build: make torch TORCH='torch --index-url URL_OF_THAT_BUILD'
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint format torch bench clean

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pluralrm needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(VENV)/.core: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --editable '.[hub]' --group dev
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/pluralrm demo

test: $(VENV)/.dev
	$(PYTEST) --numprocesses auto

test-slow: $(VENV)/.dev
	$(PYTEST) --numprocesses auto -m slow --timeout 1800

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

torch: $(VENV)/.core
	$(BIN)/pip install $(TORCH)

bench: $(VENV)/.dev
	$(BIN)/python bench/stats.py

clean:
	rm -rf $(VENV) demo-runs
