#!/usr/bin/env bash
# A step of training, stage by stage, and the rollouts of the next one: `rlvr train`, typed by hand.
# Each command prints the path of the directory that it wrote, so a step is one shell pipeline.
# Usage: examples/pipeline_by_hand.sh [DIR]      (a new temporary directory without DIR)
set -euo pipefail
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"

sample() { # STEP POLICY: completions of 16 prompts, and their verdicts
    rlvr rollout prompts --model "$2" --step "$1" --prompts-per-step 16 -n 8 \
        --max-new-tokens 16 --out "step$1/rollouts" | rlvr score
}

rlvr prompts task:expression --out prompts
sample 1 builtin | rlvr advantage --algo quatro | rlvr train-step --learning-rate 2e-4
sample 2 step1/update

rlvr eval-passk step2/scores --k 1,8
echo "the shards and the policy are in $dir"
