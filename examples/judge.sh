#!/usr/bin/env bash
# Scores completions with a judge: a model behind an OpenAI-compatible endpoint.
# The judge here is a small test server; `vllm serve MODEL` or a paid API works the same way.
# Usage: examples/judge.sh [DIR]       (a new temporary directory without DIR)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-$(mktemp -d)}
python=$(dirname "$(readlink -f "$(command -v rlvr)")")/python
mkdir -p "$dir" && cd "$dir"

rm -f port
"$python" -P "$here/../tests/chat_server.py" port 0.02 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true' EXIT
while [ ! -s port ]; do kill -0 "$server"; sleep 0.1; done
OPENAI_BASE_URL=http://127.0.0.1:$(cat port)/v1
export OPENAI_BASE_URL

rlvr import "$here/data/word_problems.jsonl" --out imported

# Is the answer equal to the gold? The judge is asked first whether it is there.
rlvr score imported/rollouts --verifier judge:model=judge-of-a-test --dry-run --out equal
rlvr score imported/rollouts --verifier judge:model=judge-of-a-test --out equal

# A rubric of your own, from 0 to 10, in a sum with the exact verifier.
cat > rubric.txt <<'END'
# Request
{prompt}

# Response to grade
BEGIN-{mark}
{completion}
END-{mark}

How well does the response explain its steps? End with the line `Score: N`, where N is from 0 to 10.
END
rlvr score imported/rollouts --out sum \
    --verifier '0.8*math+0.2*judge:model=judge-of-a-test,rubric=rubric.txt,scale=[0,10]'

rlvr eval-passk equal --k 1,8
echo "the shards are in $dir; what the judge said is in the column \`reason\` of $dir/equal"
