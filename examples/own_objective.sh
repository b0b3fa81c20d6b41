#!/usr/bin/env bash
# Trains with an objective of your own (my_objective.py) without touching the package.
# Its options come from the signature of its `build`; modifiers work as with any other objective.
# Usage: examples/own_objective.sh [DIR]         (a new temporary directory without DIR)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"
mine=$here/my_objective.py:build

rlvr list objectives "$mine"

rlvr train --algo "$mine:clip=0.3+kl:beta=0.001" --steps 2 --eval-every 0 --prompts-per-step 8 \
    --num-generations 4 --max-new-tokens 16 --learning-rate 2e-4 --out run

# The shards name the file by its sha256, so a step is not resumed with another version of it.
rlvr check run/steps/000001/advantages 2>&1 | grep params
echo "the run is in $dir"
