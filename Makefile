# Two commands: `make run` starts the listener, `make test` runs every test. Both set up everything.
# The interpreter for a new .venv: make PYTHON=/path/to/python3.12 run
SHELL := /bin/bash
.DEFAULT_GOAL := help
export PYTHON

.PHONY: help setup setup-dev clients run test test-engines lint bench lock clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup:
	@scripts/setup.sh

setup-dev:
	@scripts/setup.sh dev

clients: setup-dev
	@scripts/clients.sh

run: setup  ## Set up, get the models, start the listener
	@.venv/bin/e3rg models pull
	@exec .venv/bin/e3rg up

test: clients  ## Set up, get the models, run all tests
	@.venv/bin/e3rg models pull
	@.venv/bin/e3rg models pull --profile multilingual
	@exec .venv/bin/python -m pytest

# Each has requirements/pool-NAME.lock and tests/engines/NAME.
POOLS := $(patsubst requirements/pool-%.lock,%,$(wildcard requirements/pool-*.lock))

test-engines: setup-dev  ## Run the GPU profile's engines on tiny models, each pool in its own environment
	@set -e; for pool in $(POOLS); do \
		scripts/pool_env.sh $$pool; \
		PYTHONPATH=serve .venv-pool-$$pool/bin/python -m pytest tests/engines/$$pool; \
	done

lint: setup-dev  ## Check style and types
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

bench: clients  ## Run every benchmark and print its table
	@.venv/bin/e3rg models pull
	@set -e; for file in benchmarks/[!_]*.py; do .venv/bin/python "$$file"; done

lock:  ## Remake requirements/*.lock
	@scripts/lock.sh

clean:  ## Remove what make made here; models and data stay
	rm -rf .venv .venv-clients .venv-aiperf .venv-pool-* .pytest_cache .mypy_cache .ruff_cache .hypothesis out
