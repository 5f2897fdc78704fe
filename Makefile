# make demo   compile and run a small DeepSeek-shaped layer on four ranks, compared with MindSpore
# make test   lint, format, types, lit and pytest
# make fuzz   generated programs at all levels: CASES=1000 SEED=0
# Each sets up a virtual environment in .venv first; nothing outside the checkout is changed.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
STAMP := $(VENV)/.installed
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export HPMOE_CACHE ?= $(abspath build/cache)
SEED ?= 0
CXX_FILES = $(shell git ls-files '*.h' '*.cpp')

.DEFAULT_GOAL := help
CASES ?= 1000
.PHONY: help venv demo test lint types format-cxx lit pytest fuzz fuzz-text judged mutants format clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,mindspore]'
	touch $@

venv: $(STAMP) ## set up .venv

demo: $(STAMP) ## compile and run a small layer on four ranks, compared with MindSpore
	$(BIN)/hpmoe run --preset deepseek-v3-tiny --ranks 4 --routing zipf:1.2 --check

test: lint types lit pytest ## everything that CI runs

lint: $(STAMP) ## ruff, layers of packages and clang-format, without changing a file
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(if $(CXX_FILES),$(BIN)/clang-format --dry-run --Werror $(CXX_FILES))

types: $(STAMP) ## pyright
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

lit: $(STAMP) ## textual IR tests
	PATH=$(BIN):$$PATH $(BIN)/lit -j $(JOBS) -v --order=lexical test/filecheck

pytest: $(STAMP) ## unit tests and runs of generated code
	PATH=$(BIN):$$PATH $(BIN)/python -m pytest -q -n $(JOBS) --dist loadscope

fuzz-text: $(STAMP) ## ten thousand mutated inputs: no traceback, no hang, no file left behind
	PYTHONPATH=test $(BIN)/python -m text_fuzz --seed $(SEED) --cases 10000 --jobs $(JOBS)

fuzz: $(STAMP) ## CASES graphs at all levels, 500 tile programs, 200 machines, 50,000 queue programs
	PYTHONPATH=test $(BIN)/python -m generated levels --cases $(CASES) --seed $(SEED)
	PYTHONPATH=test $(BIN)/python -m generated programs --count 500 --first $(SEED)
	PYTHONPATH=test $(BIN)/python -m generated machines --count 200 --first $(SEED)
	PYTHONPATH=test $(BIN)/python -m adversary --programs 50000 --seed $(SEED) --jobs $(JOBS)
	PYTHONPATH=test $(BIN)/python -m adversary --programs 5000 --seed $(SEED) --planted

judged: $(STAMP) ## right and broken runs of twenty graphs, 20 seeds each, as --check judges them
	PYTHONPATH=test $(BIN)/python -m judged

format: $(STAMP) ## rewrite Python and C++ in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(if $(CXX_FILES),$(BIN)/clang-format -i $(CXX_FILES))

mutants: $(STAMP) ## break compiled programs, record who notices in docs/mutants.md
	PATH=$(BIN):$$PATH PYTHONPATH=test $(BIN)/python -m mutants --jobs $(JOBS)

clean: ## remove .venv and build products
	rm -rf $(VENV) build dist *.egg-info demo-output
