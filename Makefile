# Needs nothing but Python 3.11+ and make; everything else is installed into .venv from uv.lock.
.DEFAULT_GOAL := help
.PHONY: help setup run test check fix demo shots clean

PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
# uv keeps to the system's certificates, as pip does behind a company proxy.
export UV_SYSTEM_CERTS := 1
export UV_PROJECT_ENVIRONMENT := $(VENV)
SERVICE_DEV_MODE ?= 1

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.synced ## Prepare .venv from the lock file

run: $(VENV)/.synced ## Serve on http://127.0.0.1:8000 with an embedded Postgres
	@SERVICE_DEV_MODE=$(SERVICE_DEV_MODE) exec $(BIN)/runtally serve --provision

test: $(VENV)/.synced-dev ## Run all tests
	$(BIN)/python -m pytest

check: $(VENV)/.synced-dev ## Lint, types, import direction, migrations in step with models
	$(BIN)/uv lock --check --quiet
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/djlint --check --lint --quiet templates
	$(BIN)/codespell
	$(BIN)/python scripts/check_migrations.py

fix: $(VENV)/.synced-dev ## Format, and repair what the linters can
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/djlint --reformat --quiet templates

demo: $(VENV)/.synced ## Post 30 days of demo runs to the running service
	$(BIN)/runtally demo

clean: ## Remove the environment and caches; the data stays
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Runtally needs Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo 'Python came without venv; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(VENV)/.synced: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --inexact
	@touch $@

$(VENV)/.synced-dev: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --all-groups --inexact
	@touch $@ $(VENV)/.synced
