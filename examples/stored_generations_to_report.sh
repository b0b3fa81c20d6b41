#!/usr/bin/env bash
# Turns completions that another tool stored as JSON lines into figures and an HTML report.
# They have no verdicts: `rlvr score` checks their boxed answers against the golds.
# Usage: examples/stored_generations_to_report.sh [DIR]    (a new temporary directory without DIR)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
python=$(dirname "$(readlink -f "$(command -v rlvr)")")/python
mkdir -p "$dir" && cd "$dir"

rlvr import "$here/data/word_problems.jsonl" --out imported
rlvr score imported/rollouts --verifier math --out imported/scores

rlvr eval-passk imported/scores --k 1,2,4,8 --plot
rlvr ucc imported/scores --k 8 --threshold 0.6,0.8,0.9 --clusters clusters.jsonl
rlvr diversity imported/scores

if "$python" -c 'import jinja2, matplotlib' 2>/dev/null; then
    rlvr report imported/scores --out report.html
else
    echo "no report: it needs the extra \`report\`, as in pip install '.[report]'" >&2
fi
echo "the shards, the clusters and the report are in $dir"
