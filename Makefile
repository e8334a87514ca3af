# make demo, make cluster-demo and make test do all set-up themselves; they need Python 3.11 or later, and pip's usual index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo cluster-demo test test-all lint bench bench-large accuracy priors interaction docs picture clean

demo: $(VENV)/.run
	$(BIN)/jointplda demo

cluster-demo: $(VENV)/.cluster
	$(BIN)/python examples/cluster_demo.py

test: lint
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		echo "no chromium and chromedriver here: the tests of the report in a browser are skipped"
	$(BIN)/pytest -q -n auto -m "not slow"

test-all: lint
	$(BIN)/python -m pip install --quiet --constraint constraints.txt lir || echo "lir: not to be had, its test is skipped"
	$(BIN)/pytest -q -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.em
	$(BIN)/python -m benchmarks.metrics
	$(BIN)/python -m benchmarks.automatic
	$(BIN)/python -m benchmarks.growth
	OPENBLAS_NUM_THREADS=2 $(BIN)/python -m benchmarks.score

# gigabytes of disk and a quarter of an hour
bench-large: $(VENV)/.dev
	$(BIN)/python -m benchmarks.large
	$(BIN)/python -m benchmarks.passes
	$(BIN)/python -m benchmarks.beyond
	OPENBLAS_NUM_THREADS=2 $(BIN)/python -m benchmarks.score --store

DATA ?= data
accuracy: $(VENV)/.dev
	$(BIN)/python -m benchmarks.accuracy $(DATA)

priors: $(VENV)/.dev
	$(BIN)/python -m benchmarks.priors $(DATA)

interaction: $(VENV)/.dev
	$(BIN)/python -m benchmarks.interaction $(DATA)
	$(BIN)/python -m benchmarks.interaction

docs: $(VENV)/.dev
	$(BIN)/python docs/make_commands.py docs/commands.md

picture: $(VENV)/.dev
	$(BIN)/python examples/picture.py docs/images/what-it-does.svg
	$(BIN)/python examples/report_picture.py docs/images/report.png
	$(BIN)/python -m benchmarks.growth --plot docs/images/growth.svg

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'jointplda needs Python 3.11 or later')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.cluster: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dask]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
