#!/usr/bin/env bash
# A training run is killed in the middle; the same command resumes it from its last checkpoint.
# The policy at the end is that of a run that nothing disturbed, to the byte.
# Usage: examples/train_and_resume.sh [DIR]      (a new temporary directory without DIR)
set -euo pipefail
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"

train() {
    exec rlvr train --algo grpo --steps 2 --save-every 1 --eval-every 0 --prompts-per-step 8 \
        --num-generations 4 --max-new-tokens 16 --learning-rate 2e-4 --out "$1"
}

train killed &
until [ -s killed/metrics.jsonl ] && [ -e killed/steps/000002 ]; do sleep 0.1; done
kill -KILL $! && wait $! || echo "the run was killed in step 2; these steps are in its log:"
cut -c 1-60 killed/metrics.jsonl

(train killed)     # the same command resumes
(train undisturbed)
cmp killed/steps/000002/update/*/model.safetensors undisturbed/steps/000002/update/*/model.safetensors
echo "both runs end with the same policy; they are in $dir"
