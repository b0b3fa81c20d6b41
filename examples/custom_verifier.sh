#!/usr/bin/env bash
# Scores completions with a function of your own (my_reward.py), and with a weighted sum of two.
# The function runs in worker processes that are killed at their limits; equal answers run once.
# Usage: examples/custom_verifier.sh [DIR]       (a new temporary directory without DIR)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"

rlvr prompts task:expression --limit 16 --out prompts
rlvr rollout prompts -n 8 --max-new-tokens 16 --out rollouts

rlvr score rollouts --verifier "$here/my_reward.py:short" --out short
rlvr score rollouts --verifier "0.8*expression+0.2*$here/my_reward.py:short" --out sum

# The scores can be trained on like any others.
rlvr advantage sum --algo grpo --out advantages
rlvr eval-passk short --k 1,8
echo "the shards are in $dir"
