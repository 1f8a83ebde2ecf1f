# Needs only Python 3.11+ and make. Everything else is installed into .venv, once, and again when pyproject.toml changes.
PYTHON ?= python3
JOBS ?= 2
VENV := .venv
PY := $(VENV)/bin/python
KERNEL_SOURCES := $(wildcard src/deltaic/kernels/*.pyx src/deltaic/kernels/*.pxd)
QUICK := not long and not bench
QUICKER := $(QUICK) and not install and not slow and not spark
PYTEST := $(PY) -m pytest -n $(JOBS) --dist loadgroup
# What the tests and the demonstration use. Kernels are compiled by a step of their own.
EXTRAS := arrow,cli,table,spark,vector,otel
INSTALL := DELTAIC_KERNELS=none $(PY) -m pip install --quiet --no-build-isolation --editable
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-long bench docs check lint kernels clean

help:  ## say what can be made
	@echo "make TARGET, where TARGET is"
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  \1\t\2/p' Makefile | expand -t 14

demo: $(VENV)/.kernels  ## a pipeline on local Spark: files, table, snapshot, deltas, and a second process that follows
	@$(PY) -m deltaic.cli.demo

lint: $(VENV)/.installed  ## format, lint, types, layers
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

check: lint $(VENV)/.kernels  ## lint and the unit tests: under two minutes
	$(PYTEST) -m "$(QUICKER)" tests/unit

test: lint $(VENV)/.kernels  ## all that check does and every quick test; ends with what was skipped and why
	$(PYTEST) -m "$(QUICK)"

test-long: lint $(VENV)/.kernels  ## more random cases, long fuzzing, plain kernels, bounds checks, AddressSanitizer
	DELTAIC_HYPOTHESIS=long $(PYTEST) -m "not bench" --timeout 3600
	DELTAIC_PLAIN=1 $(PYTEST) -m "$(QUICK) and not install"
	$(PY) tools/checked_kernels.py bounds -- tests/fuzz -n $(JOBS) -m "not bench" --timeout 3600
	$(PY) tools/checked_kernels.py address -- tests/fuzz -n $(JOBS) -m "not bench" --timeout 3600

bench: $(VENV)/.kernels  ## every benchmark; each prints its own table
	@for file in $$(ls benchmarks/*.py | grep -v /_); do echo "== $$file"; $(PY) $$file || exit 1; done

docs: $(VENV)/.docs  ## the documentation, into site/
	$(PY) -m mkdocs build --strict --quiet
	@echo "open site/index.html"

kernels: $(VENV)/.kernels  ## compile the kernels, if a C compiler is there

clean:  ## remove what was built; .venv stays (remove the folder to start afresh)
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(VENV)/.kernels
	rm -f src/deltaic/kernels/_*.c src/deltaic/kernels/*.so src/deltaic/kernels/*.pyd

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "deltaic needs Python 3.11 or newer. Name one: make PYTHON=python3.12"; exit 1; }
	@echo "setting up $(VENV): some minutes the first time"
	@$(PY) -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) \
		|| { echo "$(PYTHON) cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@$(PY) -m pip install --quiet 'pip>=25.1'
	@$(PY) -m pip install --quiet --group dev
	@$(INSTALL) '.[$(EXTRAS)]'
	@$(PY) -c 'import sys; from deltaic.spark.java import find_java; sys.exit(find_java() is None)' \
		|| $(INSTALL) '.[java]' || echo "no Java 17 or newer, and none from pip: what needs Spark is left out"
	@touch $@

# In .venv because a compiled kernel belongs to the Python that it was compiled for.
$(VENV)/.kernels: $(VENV)/.installed setup.py $(KERNEL_SOURCES)
	@$(PY) tools/build_kernels.py
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@$(PY) -m pip install --quiet --group docs
	@touch $@
