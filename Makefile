# Needs a Python from 3.11 with its venv module (Debian, Ubuntu: python3-venv), and make.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
LAB ?= worker_plateau
KIND ?=
ARGS ?=

# What `make check` and `make notebooks` look at; folders that are not there are left out.
SOURCES := $(wildcard labkit data_gen tests benchmarks notebooks)
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
# The tests keep their runs and datasets apart from the reader's.
SMALL := LABKIT_SIZE=small LABKIT_HOME=$(CURDIR)/build/test-home
# Prints the version of an installed torch that is new enough, and fails when there is none.
TORCH := import importlib.metadata as m; v = m.version("torch"); \
	assert [int(n) for n in v.split(".")[:2]] >= [2, 6]; print(v)

.DEFAULT_GOAL := help
.PHONY: help setup lab run test check notebooks screenshot data

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) \
		| awk -F': .*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/.installed-test,dev  ## Make .venv with everything to work on labkit
	@$(BIN)/nbstripout --install >/dev/null 2>&1 || true

lab: $(VENV)/.installed-run  ## Make .venv, install labkit, open JupyterLab on the notebooks
	$(BIN)/jupyter lab --notebook-dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

run: $(VENV)/.installed-run  ## Run one lab in the terminal: make run LAB=worker_plateau ARGS="--size small"
	$(BIN)/labkit run $(LAB) $(ARGS)

test: $(VENV)/.installed-test  ## Install what the tests need and run all of them, notebooks included
	$(SMALL) $(BIN)/python -m pytest tests $(if $(NOTEBOOKS),--nbmake $(NOTEBOOKS)) $(ARGS)

check: $(VENV)/.installed-dev  ## Style, types, and notebooks without stored outputs
	$(BIN)/ruff check $(SOURCES) && $(BIN)/mypy
	$(if $(NOTEBOOKS),$(BIN)/nbstripout --verify $(NOTEBOOKS))

notebooks: $(VENV)/.installed-test  ## Run every notebook at small size
	$(if $(NOTEBOOKS),$(SMALL) $(BIN)/python -m pytest --nbmake $(NOTEBOOKS) $(ARGS))

screenshot: $(VENV)/.installed-test  ## Take the README's picture anew, in a real browser
	$(BIN)/python tests/browser/screenshot.py

data: $(VENV)/.installed-run  ## Make LAB's datasets; or any: make data KIND=volumes ARGS="--count 4 --out DIR"
	$(BIN)/$(if $(KIND),python -m data_gen $(KIND),labkit data make $(LAB)) $(ARGS)

# A torch that the system's Python already has is seen by the environment, and kept.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "No Python from 3.11 was found: install one, or name it: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(if $(shell $(PYTHON) -c '$(TORCH)' 2>/dev/null),--system-site-packages) $(VENV) \
		|| { rm -rf $(VENV); echo "Python's venv module is missing (Debian, Ubuntu: apt-get install python3-venv)"; exit 1; }

# One stamp per set of extras; pip is called only when the two files below changed.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@torch=$$($(BIN)/python -c '$(TORCH)' 2>/dev/null); \
		sed "$${torch:+s/^torch==.*/torch==$$torch/}" constraints.txt > $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(VENV)/constraints.txt --editable '.$(if $(filter run,$*),,[$*])'
	@touch $@
