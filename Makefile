# `make demo`, `make test` and `make test-all`: each makes .venv, installs what it needs, and does its work.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHARED_DATA := $(wildcard ../shared/data)

# Some CPUs stop Python at a bfloat16 product (illegal instruction) unless oneDNN is held back.
export ONEDNN_MAX_CPU_ISA := AVX512_CORE_BF16
ifneq ($(SHARED_DATA),)
export QUATGRAPH_DATA ?= $(abspath $(SHARED_DATA))
endif

.PHONY: demo test test-all lint clean

demo: $(VENV)/.installed
	$(BIN)/quatgraph demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

lint: $(VENV)/.tested
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
