# Two commands are all a newcomer types: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test coverage lint docs bench fuzz wheel-test clean setup

demo: $(READY)
	$(BIN)/privot demo

# one thread a process: a process a core is started, and threads that wait for each other take twice as long;
# and compiled files kept wherever Python is told not to: tests start many processes
test: lint
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

coverage: lint
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term:skip-covered

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks fuzz
	$(BIN)/ruff format --check src tests benchmarks fuzz
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)
	$(BIN)/python -m pytest -q --doctest-modules src/privot --ignore=src/privot/cli --ignore=src/privot/__main__.py

bench: $(READY)
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/accounting.py

# hostile options, files, folders and messages: ten minutes on two cores; what failed is kept in fuzz-failures/
fuzz: $(READY)
	$(BIN)/python -m fuzz $(FUZZ)

# The wheel in empty environments: every Python at hand, base and extras, newest and oldest versions; needs a network.
# WHEELS names a folder with a CPU build of PyTorch where the registry has only large ones.
wheel-test: $(READY)
	$(BIN)/python tests/packaging/matrix.py $(if $(WHEELS),--find-links $(WHEELS))

setup: $(READY)

# Rebuilt only when what is to be installed changes, so that everything works without a network afterwards.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) build dist site htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
