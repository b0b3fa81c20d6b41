# make demo: from nothing to a trained policy.   make test: all tests.
# make examples: every script of examples/.
PYTHON ?= python3
VENV ?= .venv
ALGO ?= quatro
OUT ?= runs/demo
JOBS ?= 2
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
INSTALL := PYTHON=$(PYTHON) sh .ci/install.sh $(VENV)

.PHONY: demo test examples install lint clean

demo: $(VENV)/package
	@start=$$(date +%s); $(BIN)/rlvr train --algo $(ALGO) --out $(OUT) || exit $$?; \
	echo "installed in $$(cat $(VENV)/install_s) s, trained in $$(($$(date +%s) - start)) s;" \
		"the command is $(BIN)/rlvr"

test: $(VENV)/engines lint
	$(PYTEST)

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
