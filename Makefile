# Needs Python 3.11+ and make; everything else goes into .venv, in the versions of uv.lock.
.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-versions cover container test-clients test-faults soak fuzz mutants check lighthouse bench package clients release findings fix docs site migration clean

PYTHON ?= python3
UV_VERSION := 0.13.8
INSTALL_UV := install --quiet --disable-pip-version-check uv==$(UV_VERSION)
VENV := .venv
BIN := $(VENV)/bin
# For `make run`: everybody who reaches the page is admin, and only this machine does. SERVICE_DEV_MODE=0 ends that.
SERVICE_DEV_MODE ?= 1
# For `make test`: what to run, such as ARGS=tests/unit; AGAIN=1 runs tests that failed a second time if all of them are marked `machine`.
ARGS ?=
export AGAIN
ALL_TESTS := --numprocesses 3 --dist loadfile
PYTEST = $(KEEPING_BYTECODE) $(BIN)/python -m pytest $(or $(ARGS),$(ALL_TESTS))
FAILED_TESTS := 'All tests that failed depend on how busy the machine is, and are run once more.'
# Exit code 5 of pytest: no other test failed.
ALL_ARE_OF_MACHINE = { $(PYTEST) --last-failed -m "not machine" --collect-only --quiet --numprocesses 0 >/dev/null; [ $$? = 5 ]; }
# For `make bench`: rows of the table, millions of stored runs, 1 for short rounds, 1 for a new table, a commit to compare with.
export ROWS SIZES SHORT FRESH AGAINST
# For `make test-versions`: major versions of Postgres, such as POSTGRES="13 17", and the tests to run on each.
POSTGRES ?=
ON_POSTGRES ?= tests/contract
# For `make container`: the image to build on.
BASE ?=
# For `make test-clients`: 1 for the SDKs of today instead of the locked ones.
export NEWEST
# For `make test-faults`: how many of each, and a storm to have again; SHORT=1 for a small one, CELLS=2 for two cells.
export RUNS FAULTS SEED CELLS
# For `make soak`: how long.
export MINUTES
# For `make fuzz`: how long, for each target.
SECONDS ?= 300

# Whatever the environment says: without it each process compiles all libraries anew, which is more than half of a start.
KEEPING_BYTECODE := env -u PYTHONDONTWRITEBYTECODE

export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_PYTHON_DOWNLOADS := never
# uv keeps to the system's certificates, as pip does behind a company's proxy.
export UV_SYSTEM_CERTS := 1
# Where the home folder cannot be written, as in many containers and builds, the cache goes beside what is installed.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/uv
ifndef UV_CACHE_DIR
ifneq ($(shell mkdir -p '$(CACHE)' 2>/dev/null && test -w '$(CACHE)' && echo yes),yes)
export UV_CACHE_DIR := $(CURDIR)/$(VENV)/.cache
endif
endif
# On a terminal uv shows what it downloads, which takes minutes on a slow line.
QUIET := $(shell test -t 2 || echo --quiet)
# An environment that happens to be active is not the one to install into.
unexport VIRTUAL_ENV

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.synced ## Prepare .venv, with the command line in .venv/bin/runtally

run: $(VENV)/.synced ## Serve on http://127.0.0.1:8000, with a Postgres of its own
	@SERVICE_DEV_MODE=$(SERVICE_DEV_MODE) exec $(KEEPING_BYTECODE) $(BIN)/runtally serve --provision

demo: $(VENV)/.synced ## Fill the running service with 65 days of demo runs
	@exec $(KEEPING_BYTECODE) $(BIN)/runtally demo

test: $(VENV)/.synced-dev ## Run all tests, or those of ARGS
	$(PYTEST) $(if $(AGAIN),|| { $(ALL_ARE_OF_MACHINE) && echo $(FAILED_TESTS) >&2 && $(PYTEST) --last-failed; })

# Every Python that is here, newest last: pyenv keeps its own apart from the PATH.
PYTHONS = $(shell ls -d /usr/bin/python3.?? /usr/local/bin/python3.?? $(HOME)/.pyenv/versions/3.??.*/bin/python3 2>/dev/null \
  | awk '{match($$0, /3\.[0-9][0-9]/); print substr($$0, RSTART, RLENGTH), $$0}' | sort -V | awk '{print $$2}')
OLD_POSTGRES ?= /usr/lib/postgresql/15/bin

test-versions: ## Run the domain's tests on the newest Python here, and those of the API on Debian's Postgres 15, or on POSTGRES="13 17" of npm
ifeq ($(POSTGRES),)
	$(MAKE) test VENV=.venv-newest PYTHON=$(or $(lastword $(PYTHONS)),$(PYTHON)) \
	  ARGS="tests/unit tests/store --numprocesses 3 --dist loadfile"
	if [ -x $(OLD_POSTGRES)/postgres ]; then \
	  PG_BIN=$(OLD_POSTGRES) $(MAKE) test ARGS="tests/contract --numprocesses 3 --dist loadfile"; \
	else echo "No Postgres in $(OLD_POSTGRES): the API was not tested on it."; fi
else
	$(MAKE) $(VENV)/.synced-dev
	PYTHONPATH=. $(KEEPING_BYTECODE) $(BIN)/python scripts/postgres_versions.py "$(POSTGRES)" \
	  $(ON_POSTGRES) --numprocesses 2 --dist loadfile
endif

cover: $(VENV)/.synced-cover ## Run the tests and say which lines no test reaches, twice as long; ARGS as for test
	@mkdir -p .coverage && $(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(or $(ARGS),$(ALL_TESTS)); code=$$?; $(BIN)/coverage combine --quiet && $(BIN)/coverage report; exit $$code

container: $(VENV)/.synced-dev ## Build the container's image and try it, 2 min; needs buildah and podman, and without BASE=image mmdebstrap
	@base=$(or $(BASE),$$(scripts/base_image.sh)) && BASE_IMAGE=$$base $(KEEPING_BYTECODE) $(BIN)/python -m pytest -rs tests/ops/test_container.py

test-clients: $(VENV)/.synced-dev ## Drive the clients, OpenTelemetry's and sign-in with real packages, 10 min; SHORT=1 without OpenTelemetry
	$(KEEPING_BYTECODE) $(BIN)/python -m pytest -rs $(if $(SHORT),,clients/opentelemetry) clients/python/sdks clients/typescript clients/openid --numprocesses 2 --dist loadfile

test-faults: $(VENV)/.synced-dev ## Kill and cut while clients post, and count, 15 min; SHORT=1 for 15 faults
	@exec $(BIN)/python -m tests.faults

soak: $(VENV)/.synced-dev ## Storm and calm in turns for an hour, then count, and see that nothing grew; MINUTES=10
	@exec $(BIN)/python -m tests.faults.soak

fuzz: $(VENV)/.synced-fuzz ## Feed ingest, timestamps and OTLP with made-up bytes, 15 min; SECONDS=60 for each of them
	@exec $(BIN)/python -m tests.fuzz ingest $(SECONDS)
	@exec $(BIN)/python -m tests.fuzz timestamps $(SECONDS)
	@exec $(BIN)/python -m tests.fuzz otlp $(SECONDS)

mutants: $(VENV)/.synced-dev ## Change the core in each place, one at a time, and see that tests notice, 10 min; MODULES=runtally.pricing.cost for its own
	@exec $(BIN)/python scripts/mutants.py $(MODULES)

check: $(VENV)/.synced-dev ## Lint, types, import direction, migrations in step with models
	$(BIN)/uv lock --check --quiet
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	PYTHONPATH=clients/python/src $(BIN)/lint-imports
	$(BIN)/djlint --check --lint --quiet templates
	$(BIN)/codespell
	$(BIN)/python scripts/docs.py --check
	$(BIN)/python scripts/usage_table.py --check
	$(BIN)/python scripts/check_migrations.py

lighthouse: $(VENV)/.synced-dev ## Measure the pages with Lighthouse and on a slow line, 2 min; needs Node and Chromium
	@exec $(BIN)/python scripts/lighthouse.py $(if $(BUSY),--busy)

bench: $(VENV)/.synced-bench ## Measure speed, 40 min; parts of it: ROWS=1,2,8 SIZES=0.1,1 SHORT=1
	@exec $(BIN)/python -m benchmarks

package: clients ## Build the wheel, which serves the clients, and the source package into dist/
	@rm -f dist/runtally-[0-9]*.whl dist/runtally-[0-9]*.tar.gz
	@$(BIN)/uv build --quiet --out-dir dist

clients: $(VENV)/.synced ## Build the clients into dist/: a wheel, and with Node a package of npm
	@$(BIN)/python scripts/client_prices.py
	@$(BIN)/uv build --quiet --wheel --out-dir dist clients/python
	@if command -v npm > /dev/null; then cd clients/typescript \
	  && npm ci --silent --no-audit --no-fund --ignore-scripts && npm pack --silent --pack-destination ../../dist > /dev/null; fi
	@ls dist

release: package ## Build all packages into dist/, with what they consist of (CycloneDX) and their checksums
	@$(BIN)/uv export --quiet --no-dev --no-emit-project --format requirements-txt | $(BIN)/uv tool run --quiet --from cyclonedx-bom==7.3.0 \
	  cyclonedx-py requirements - --output-reproducible --output-file dist/runtally.cdx.json
	@cd dist && rm -f SHA256SUMS && sha256sum *.whl *.tar.gz *.tgz *.json > SHA256SUMS && cat SHA256SUMS

fix: $(VENV)/.synced-dev ## Format, and repair what the linters can
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .
	$(BIN)/djlint --reformat --quiet templates

findings: ## Try what real programs do otherwise than one would guess, half an hour; needs PyPI and npm
	@for script in findings/*.sh; do timeout 300 bash $$script > /dev/null 2>&1; \
	  case $$? in 0) say=unchanged ;; 1) say=changed ;; *) say="not tried" ;; esac; printf '%-50s %s\n' "$$script" "$$say"; done

docs: $(VENV)/.synced ## Write the generated parts of the documentation
	$(BIN)/python scripts/docs.py
	$(BIN)/python scripts/usage_table.py

site: $(VENV)/.synced-dev ## Build the documentation as a site with a search, into dist/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file scripts/site/mkdocs.yml
	@echo 'Open dist/site/index.html, or copy dist/site to any web server.'

migration: $(VENV)/.synced ## Write a migration to the models: make migration m="what it does"
	$(BIN)/python scripts/new_migration.py "$$m"

clean: ## Remove .venv and caches; the data in .data stays
	rm -rf $(VENV) .venv-newest .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A Python without ensurepip (Debian's, without python3-venv) may still have a pip that installs into another's folder.
$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Runtally needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@echo 'Preparing $(VENV), once...'
	@if $(PYTHON) -c 'import ensurepip, venv' 2> /dev/null; then \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip $(INSTALL_UV); \
	elif $(PYTHON) -c 'import pip, venv' 2> /dev/null; then \
	  $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python $(INSTALL_UV); \
	else \
	  echo 'This Python came without venv and pip; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; \
	fi

# The stamps keep a second `make run` off the network, and fast.
$(VENV)/.synced: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked $(QUIET) --inexact --extra all
	@touch $@

$(VENV)/.synced-dev: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --inexact --group dev
	@touch $@ $(VENV)/.synced

$(VENV)/.synced-fuzz: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --inexact --group fuzz
	@touch $@ $(VENV)/.synced

$(VENV)/.synced-cover: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --inexact --group cover
	@touch $@ $(VENV)/.synced

$(VENV)/.synced-bench: $(BIN)/uv uv.lock
	@$(BIN)/uv sync --locked --quiet --inexact --group bench
	@touch $@ $(VENV)/.synced
