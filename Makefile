# Two commands matter:  make demo  and  make test.
# Everything is installed into .venv, at the versions of constraints.txt.

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
PYTEST_ARGS ?= -n auto --dist worksteal

# Some virtual machines announce AMX and then trap on it: bfloat16 matrix products would kill Python.
export ONEDNN_MAX_CPU_ISA ?= AVX512_CORE_BF16
# Threads that wait should sleep, not spin: several times faster where cores are shared.
export OMP_WAIT_POLICY ?= PASSIVE

# Every process that a test starts would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check pytest wheel bench docs format clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo ## train on sums of MNIST digits, at most five minutes on two cores
	$(BIN)/python examples/sum_mnist.py

test: $(VENV)/.dev ## everything: static checks, tests, and the built wheel on its own
	+$(MAKE) --no-print-directory -j 2 pytest check docs wheel  # the others one by one, beside the tests

check: $(VENV)/.dev ## ruff (format and lint) and pyright
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

pytest: export OMP_NUM_THREADS ?= 1  # the workers keep all cores busy
pytest: $(VENV)/.dev ## the tests, doctests and README snippets
	$(BIN)/python -m pytest $(PYTEST_ARGS)

wheel: $(VENV)/.dev ## build the wheel and try it, installed, away from the checkout
	rm -rf dist
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .
	$(BIN)/python -m venv --clear --without-pip build/smoke
	$(BIN)/python -m pip --disable-pip-version-check --python build/smoke install --quiet --no-deps dist/*.whl
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
		> "$$(build/smoke/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/torch.pth"
	cd build && smoke/bin/python -I ../tests/smoke.py
	rm -rf build

docs: $(VENV)/.dev ## build the site into site/, with warnings as errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: export OMP_WAIT_POLICY := ACTIVE  # torch's usual way: on a quiet machine, waiting is short
bench: $(VENV)/.dev ## time the symbolic part of the benchmark programs against their networks
	$(BIN)/python -m dolphin bench

format: $(VENV)/.dev ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove everything that the other targets made
	rm -rf $(VENV) dist build site runs .pytest_cache .ruff_cache .hypothesis
	find src tests examples docs -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[train]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev,docs,train,exact,lm,onnx]'
	touch $@ $(VENV)/.demo
