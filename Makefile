# Two commands are all a newcomer types: make demo, make test. `make check` is for everyday work on the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
DOCS_READY := $(VENV)/.docs-ready
INSTALL := $(BIN)/python tests/packaging/installing.py -c constraints.txt

.PHONY: demo check test tests test-all test-lab coverage lint docs bench fuzz wheel wheel-test clean setup

# Installs what the demonstration runs and no development tools; `make test` adds those to the same environment.
demo: $(DEMO_READY)
	$(BIN)/privot demo $(DEMO)

# One thread per process: pytest starts a process per core, and threads that wait for each other take twice as long.
# PYTHONDONTWRITEBYTECODE is cleared because tests start many processes, and each would compile everything again.
# One process more than there are cores: some tests wait for others' deadlines.
WORKERS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Repeats are left to `make test-all`: tests/gate.py says which.
GATE := $(PYTEST) --gate tests src/privot

# While working: style, types, import contracts, and every test that is not marked slow, statistical, kills, federation
# or wheel.
check: lint
	$(GATE) -m "not (slow or statistical or kills or federation or wheel or documents)"

# Before a merge: the same, and everything else once, but for the documents' commands, which `make docs` runs. Style and
# types are checked beside the tests.
test: $(READY)
	+$(MAKE) --no-print-directory -j2 lint tests

tests: $(READY)
	$(GATE) -m "not documents"

# Before a release: every repeat, every kill ten times, the laboratory.
test-all: lint
	PRIVOT_KILLS=10 PRIVOT_WORKER_KILLS=10 PRIVOT_SYNTH_KILLS=10 PRIVOT_LEDGER_CHARGES=1000 $(PYTEST) -m "not documents"

# The laboratory's quick tests.
test-lab: $(READY)
	$(PYTEST) -m "not (slow or statistical)" lab/tests lab/src/privot_lab

coverage: lint
	$(PYTEST) --cov --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff check src tests lab fuzz docs/building
	$(BIN)/ruff format --check src tests lab fuzz docs/building
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, into site/: no warning, no dead link or anchor, no foreign address. Every code block of the
# documents, every notebook and every example in a docstring is run; the pages are opened in a headless Chromium.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/building/check_site.py site
	OMP_NUM_THREADS=1 $(BIN)/python docs/building/run_notebooks.py
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist worksteal tests/documents
	$(BIN)/python -m pytest -q --doctest-modules src/privot --ignore=src/privot/cli --ignore=src/privot/__main__.py

bench: $(READY)
	$(BIN)/privot bench noise
	$(BIN)/privot bench accounting

# Hostile options, files, folders, messages, texts, frames, places and signals, in about ten minutes on two cores. What
# failed is kept in fuzz-failures/.
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz $(FUZZ)

# One file that pip installs elsewhere, into dist/.
wheel:
	$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# The wheel in empty environments: every Python at hand, base and extras, newest and oldest versions; needs a network.
# WHEELS names a folder with a CPU build of PyTorch where the registry has only large ones.
wheel-test: $(READY)
	$(BIN)/python tests/packaging/matrix.py $(if $(WHEELS),--find-links $(WHEELS))

setup: $(READY)

# Rebuilt only when what is to be installed changes, so that everything works without a network afterwards.
$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e ".[dev]" -e ./lab
	touch $(DEMO_READY) $(READY)

$(DEMO_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e ".[synthesis]"
	touch $(DEMO_READY)

# Adds the site's packages to the environment of the tests, which does not need them.
$(DOCS_READY): $(READY)
	$(INSTALL) -e ".[dev,docs]" -e ./lab
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) build lab/build dist site htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info lab/src/*.egg-info
