# The same commands for every developer. Python comes from VENV; `make VENV=/elsewhere check` works too.
VENV ?= .venv
PYTHON := $(VENV)/bin/python

.PHONY: check lint format test docs bench fuzz

check:  ## everything that must hold: format, lint, types, layers, tests, docs
	$(PYTHON) -m pytest

lint:  ## only the tools of `check`: ruff, pyright, import-linter
	$(PYTHON) -m pytest -m static

test:  ## only the tests of `check`
	$(PYTHON) -m pytest -m "not static"

format:  ## put every file in the one form that `check` accepts
	$(PYTHON) -m ruff check --fix --exit-zero --quiet .
	$(PYTHON) -m ruff format .

docs:  ## the site, into site/; needs the extra `docs`
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

bench:  ## the tables of benchmarks/: speed and overhead beside NumPy
	$(PYTHON) -m benchmarks.matmul
	$(PYTHON) -m benchmarks.call_overhead
	$(PYTHON) -m benchmarks.compile_time
	$(PYTHON) -m benchmarks.fork_join
	$(PYTHON) -m benchmarks.vector_math
	$(PYTHON) -m benchmarks.graphs
	$(PYTHON) -m benchmarks.odd
	$(PYTHON) -m benchmarks.as_written
	$(PYTHON) -m benchmarks.kernels
	$(PYTHON) -m benchmarks.models
	$(PYTHON) -m benchmarks.cookbook

COUNT ?= 100000
START ?= 0
FAMILIES ?= algorithms constructs contractions directed elements firsts idioms lengths named nests networks primitives reductions tensors variants windows
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

fuzz:  ## random programs on every engine, random expressions and texts, then property tests on new cases
	$(PYTHON) -m fuzz.campaign --start $(START) --count $(COUNT) --jobs $(JOBS) --kinds
	$(PYTHON) -m fuzz.nestcampaign --start $(START) --count 10000 --jobs $(JOBS) --kinds
	for family in $(FAMILIES); do \
		$(PYTHON) -m fuzz.schedules --family $$family --seed $(START) --count 2000 --jobs $(JOBS) || exit; \
		$(PYTHON) -m fuzz.schedules --family $$family --native --seed $(START) --count 2000 --jobs $(JOBS) || exit; \
	done
	$(PYTHON) -m fuzz.rxcampaign --start $(START) --count 5000 --jobs $(JOBS) --kinds
	$(PYTHON) -m fuzz.schcampaign --start $(START) --count 50000 --jobs $(JOBS) --kinds
	$(PYTHON) -m fuzz.simplify --count $(COUNT)
	$(PYTHON) -m tests.script.campaign round-trip --start $(START) --count 20000
	$(PYTHON) -m tests.script.campaign mutate --start $(START) --count $(COUNT)
	$(PYTHON) -m tests.script.campaign calls --start $(START) --count $(COUNT)
	$(PYTHON) -m fuzz.texts --start $(START) --count 20000 --jobs $(JOBS) --kinds
	$(PYTHON) -m fuzz.defects --count 500
	$(PYTHON) -m pytest -m hypothesis --hypothesis-profile=search
