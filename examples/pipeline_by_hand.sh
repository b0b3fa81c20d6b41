#!/usr/bin/env bash
# Two steps of training, stage by stage: what `rlvr train` does, typed by hand.
# Each command prints the path of the directory that it wrote, so a step is one shell pipeline.
# Usage: examples/pipeline_by_hand.sh [DIR]      (a new temporary directory without DIR)
set -euo pipefail
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"

rlvr prompts task:expression --out prompts

policy=builtin
for step in 1 2; do
    rlvr rollout prompts --model "$policy" --step "$step" --prompts-per-step 16 -n 8 \
        --max-new-tokens 16 --out "step$step/rollouts" |
        rlvr score |
        rlvr advantage --algo quatro |
        rlvr train-step --learning-rate 2e-4
    policy=step$step/update
done

# The rollouts of the second step, sampled from the policy of the first: Pass@k of its completions.
rlvr eval-passk step2/scores
echo "the shards and the policy are in $dir"
