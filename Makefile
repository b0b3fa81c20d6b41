# make demo: from nothing to a trained policy.   make fast: lint, types and the quick tests.
# make test: all tests.                          make examples: every script of examples/.
PYTHON ?= python3
VENV ?= .venv
ALGO ?= quatro
OUT ?= runs/demo
# How many random batches hold each objective to its equations.
BATCHES ?= 100
JOBS ?= 2
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
INSTALL := PYTHON=$(PYTHON) sh .ci/install.sh $(VENV)

# The tests start hundreds of processes: without bytecode on disk each would compile its imports.
unexport PYTHONDONTWRITEBYTECODE

.NOTPARALLEL:
.PHONY: demo fast test examples install lint clean

demo: $(VENV)/package
	@start=$$(date +%s); $(BIN)/rlvr train --algo $(ALGO) --out $(OUT) || exit $$?; \
	echo "installed in $$(cat $(VENV)/install_s) s, trained in $$(($$(date +%s) - start)) s;" \
		"the command is $(BIN)/rlvr"

# Types are checked beside the tests, which wait for files and processes now and then.
fast: $(VENV)/dev
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy & types=$$!; \
	$(PYTEST) -m "not slow and not engine and not gpu" --batches 10; \
	tests=$$?; wait $$types && exit $$tests

test: $(VENV)/engines lint
	$(PYTEST) --batches $(BATCHES)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

examples: $(VENV)/package
	@for script in examples/*.sh; do \
		[ ! -e "$$script" ] || { echo "$$script"; PATH="$(abspath $(BIN)):$$PATH" bash "$$script"; } \
			|| exit $$?; \
	done

install: $(VENV)/package

$(VENV)/package: pyproject.toml .ci/install.sh .ci/cpu.txt
	@start=$$(date +%s); $(INSTALL) package && echo $$(($$(date +%s) - start)) > $(VENV)/install_s

$(VENV)/dev: pyproject.toml .ci/install.sh .ci/cpu.txt
	@$(INSTALL) dev

$(VENV)/engines: pyproject.toml $(wildcard .ci/*.txt) .ci/install.sh
	@$(INSTALL) engines

clean:
	rm -rf $(VENV) build dist *.egg-info
