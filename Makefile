# Each target installs what it needs into a venv and does its work; CONTRIBUTING.md lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := .venv-kernels
NEWEST := .venv-newest
WHEEL := .venv-wheel
CONSTRAINTS := constraints.txt
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
SHARED_DATA := $(wildcard ../shared/data)

# Some CPUs stop Python at a bfloat16 product (illegal instruction) unless oneDNN is held back.
export ONEDNN_MAX_CPU_ISA := AVX512_CORE_BF16
ifneq ($(SHARED_DATA),)
export QUATGRAPH_DATA ?= $(abspath $(SHARED_DATA))
endif

.PHONY: demo test unit test-all test-newest test-kernels test-gpu test-wheel lint bench pages screenshots outcomes clean

demo: $(VENV)/.installed
	$(BIN)/quatgraph demo

test: lint unit

# `make test` without the linters.
unit: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# The tests with the newest torch and PyG; all else as tested.
test-newest:
	mkdir -p $(NEWEST)
	grep -v -E '^torch(-geometric)?==' constraints.txt > $(NEWEST)/constraints.txt
	$(MAKE) unit VENV=$(NEWEST) CONSTRAINTS=$(NEWEST)/constraints.txt

# The Triton kernels on a CPU (Linux only): run by Triton's interpreter, then compiled for GPUs; and the
# steps that a GPU captures. They have a venv of their own: an installed Triton changes which backend the
# other tests see.
test-kernels: $(KERNELS)/.installed
	TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(KERNELS)/bin/python -m pytest -q tests/kernels/test_interpreted.py tests/kernels/test_padding.py
	OMP_NUM_THREADS=1 $(KERNELS)/bin/python -m pytest -q tests/kernels/test_compile.py tests/kernels/test_capture.py

# What only a CUDA device can show.
test-gpu: $(VENV)/.tested
	$(BIN)/python -c "import sys, torch; torch.cuda.is_available() or sys.exit('no CUDA device')"
	$(BIN)/python -m pytest -q -m gpu

# The wheel as a user gets it: built, installed into a fresh venv, and run.
test-wheel:
	rm -rf build dist $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(WHEEL)/bin/python $(INSTALL) dist/*.whl
	cd $(WHEEL) && PYTHONPATH= bin/quatgraph demo

lint: $(VENV)/.tested
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# `make bench NAME=conv` runs one benchmark; without a name all of them, which takes minutes.
bench: $(VENV)/.tested
	$(BIN)/python -m benchmarks $(NAME)

# Writes the tables and figures of README and docs from the committed records.
pages: $(VENV)/.tested
	$(BIN)/python -m tools.pages

# Writes the screenshots of the page; needs Chromium, and trains for about two minutes.
screenshots: $(VENV)/.tested
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.screenshots

# Measures the source tree against its limits.
outcomes: $(VENV)/.tested
	$(BIN)/python -m tools.outcomes

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(BIN)/python $(INSTALL) --editable ".[dev]"
	touch $@

$(KERNELS)/.installed: pyproject.toml constraints.txt
	test -x $(KERNELS)/bin/python || $(PYTHON) -m venv $(KERNELS)
	$(KERNELS)/bin/python $(INSTALL) --editable ".[dev,kernels]"
	touch $@

clean:
	rm -rf $(VENV) $(KERNELS) $(NEWEST) $(WHEEL) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
