# One command for each thing that is done here. `make` alone lists them.

.DEFAULT_GOAL := help
SHELL := /bin/sh
BIN := .venv/bin
# What the server needs, and what tests and checks need too.
STAMP := .venv/.installed
DEV_STAMP := .venv/.installed-dev
# Never an interpreter from the network: the one that is here is the one that is tested.
export UV_PYTHON_DOWNLOADS := never
# Compiled modules are kept: every worker and every server that a test starts would compile all of them anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help env serve test check fix coverage nightly bench lock clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(DEV_STAMP) ## Make .venv from requirements.lock (PYTHON=… names another interpreter)

serve: $(STAMP) ## Run the server (KNOWHUB_HOST, KNOWHUB_PORT, KNOWHUB_DATA_DIR; ARGS="--port 9000")
	@exec $(BIN)/knowhub serve $(ARGS)

test: check ## Run the checks and every test but the nightly ones (ARGS="-k name")
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: env ## Check format, lint, types, architecture and unused code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(UNUSED_CODE)

fix: env ## Format, and mend what ruff can mend
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

# test_planted_faults.py runs copies of the code, which say nothing of this one.
coverage: env ## Run the tests of core and of the file store; fail where one of their branches is not taken
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n 2 tests/unit tests/contract tests/web tests/crash --ignore=tests/crash/test_planted_faults.py $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

nightly: env ## Run the tests that take minutes, with the full numbers
	$(BIN)/python -m pytest -m nightly $(ARGS)
	$(BIN)/python -m pytest --hypothesis-profile=nightly $$(grep -rl --include='test_*.py' '^@given' tests) $(ARGS)

bench: env ## Run every benchmark (BENCH=benchmarks/bench_x.py runs one)
	@failed=; \
	for file in $(or $(BENCH),$(sort $(wildcard benchmarks/bench_*.py))); do \
	  echo "== $$file"; \
	  $(BIN)/python -m "benchmarks.$$(basename "$$file" .py)" || failed="$$failed $$file"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

# Status 3 is unused code. Fields of records are used by their serialization, which vulture cannot see.
define UNUSED_CODE
	@found=$$($(BIN)/vulture); status=$$?; [ $$status -eq 0 ] || [ $$status -eq 3 ] || exit $$status; \
	found=$$(echo "$$found" | grep -v -E 'unused (variable|attribute)'); \
	if [ -n "$$found" ]; then echo "$$found" >&2; exit 1; fi; echo "vulture: no unused code"
endef

# The first file has everything. The server and the image use the other two, and the first constrains them.
LOCK_WITH = $(or $(shell command -v uv),$(wildcard $(BIN)/uv)) pip compile --quiet \
  --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --custom-compile-command "make lock" $(ARGS)

lock: ## Write the lock files anew, keeping versions (ARGS=--upgrade takes newer ones); needs uv
	@command -v uv >/dev/null || [ -x $(BIN)/uv ] || \
	  { echo "make lock needs uv: $(BIN)/python -m pip install uv" >&2; exit 1; }
	$(LOCK_WITH) pyproject.toml --extra local --group dev --group build --group integrations --output-file requirements.lock
	$(LOCK_WITH) pyproject.toml --extra local --constraint requirements.lock --no-annotate --output-file requirements-runtime.lock
	$(LOCK_WITH) --group build --constraint requirements.lock --no-annotate --output-file requirements-build.lock

clean: ## Remove .venv, caches and built files (never data/)
	rm -rf .venv dist .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Nothing is done while a stamp is newer than what it was made from.
$(STAMP): pyproject.toml requirements-runtime.lock requirements-build.lock
	@rm -f $@
	@if [ -x $(BIN)/python ] && $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' && \
	  { command -v uv >/dev/null || $(BIN)/python -c 'import pip' 2>/dev/null; }; then exit 0; fi; \
	$(FIND_PYTHON); \
	echo "== .venv from $$found ($$("$$found" --version))"; $(HEARTBEAT); \
	if command -v uv >/dev/null; then uv venv --quiet --clear --python "$$found" .venv; \
	else "$$found" -m venv --clear .venv; fi
	@echo "== installing what the server needs: about 120 MB to download, every file checked against its hash"
	@$(HEARTBEAT); \
	$(INSTALL) --require-hashes -r requirements-runtime.lock -r requirements-build.lock && \
	$(INSTALL) --no-build-isolation --no-deps --editable . && \
	$(BIN)/python -m compileall -q knowhub
	@touch $@

$(DEV_STAMP): $(STAMP) requirements.lock
	@echo "== installing what tests and checks need: about 60 MB to download, every file checked against its hash"
	@$(HEARTBEAT); $(INSTALL) --require-hashes -r requirements.lock
	@touch $@

INSTALL = $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install \
  --quiet --disable-pip-version-check)
HEARTBEAT = (while sleep 4; do echo "   still working"; done) & heartbeat=$$!; trap "kill $$heartbeat" EXIT

# Sets $$found, or says what is missing. A name on PATH may be a shim that does not run, and Debian's python3 comes
# without ensurepip, so each is asked, not only looked for.
define FIND_PYTHON
found=; lame=; \
for name in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
  if command -v uv >/dev/null || "$$name" -c 'import ensurepip, venv' >/dev/null 2>&1; then found=$$name; break; fi; \
  lame=$$name; \
done; \
if [ -z "$$found" ] && [ -n "$$lame" ]; then \
  echo "$$lame cannot make a virtual environment: its venv or ensurepip module is missing." >&2; \
  echo "Install it (Debian, Ubuntu: apt-get install python3-venv), or install uv, then run make again." >&2; exit 1; \
fi; \
if [ -z "$$found" ]; then \
  echo "KnowHub needs Python 3.11 or newer; none of these is: $(or $(PYTHON),python3.13 python3.12 python3.11 python3)." >&2; \
  echo "Install one, or name it: make PYTHON=/path/to/python3.12 env" >&2; exit 1; \
fi
endef
