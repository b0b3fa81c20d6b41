#!/usr/bin/env bash
# A training run is killed in its second step; the same command resumes it.
# What was stored is kept: the checkpoint of step 1 and the finished parts of step 2.
# Usage: examples/train_and_resume.sh [DIR]      (a new temporary directory without DIR)
set -euo pipefail
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"

train() {
    exec rlvr train --algo grpo --steps 2 --save-every 1 --eval-every 0 --prompts-per-step 8 \
        --num-generations 4 --max-new-tokens 16 --learning-rate 2e-4 --out run
}

train &
until [ -s run/metrics.jsonl ] && [ -e run/steps/000002 ] || ! kill -0 $!; do sleep 0.1; done
kill -KILL $! && wait $! || echo "the run was killed in step 2"
sha256sum run/steps/000001/update/*/model.safetensors >before

(train)
sha256sum --check before
rlvr check run/steps/000002/update
cut -c 1-60 run/metrics.jsonl
echo "the run is in $dir"
