#!/usr/bin/env bash
# Two tasks of an array share the rollouts; one is killed. The other finishes its parts, or the
# killed one is queued again. The directory has the same bytes as that of a single process.
# Usage: examples/slurm_like_array.sh [DIR]      (a new temporary directory without DIR)
set -euo pipefail
dir=${1:-$(mktemp -d)}
mkdir -p "$dir" && cd "$dir"
tasks=2

task() { # what sbatch runs with --array=0-1
    exec rlvr rollout prompts -n 8 --max-new-tokens 16 --prompts-per-part 4 --out "$1" \
        --shard "$SLURM_ARRAY_TASK_ID/$tasks" >>"log-$SLURM_ARRAY_TASK_ID" 2>&1
}

rlvr prompts task:expression --limit 32 --out prompts

pids=()
for SLURM_ARRAY_TASK_ID in $(seq 0 $((tasks - 1))); do
    task rollouts &
    pids+=($!)
done
until compgen -G 'rollouts/part-*.parquet' >/dev/null || ! kill -0 "${pids[@]}"; do sleep 0.1; done
kill -KILL "${pids[1]}" && echo "task 1 was killed"
wait "${pids[0]}"
wait "${pids[1]}" || echo "task 1 ended with exit code $?"
if [ ! -e rollouts/_manifest.json ]; then
    (SLURM_ARRAY_TASK_ID=1 && task rollouts) && echo "task 1 ran again"
fi
rlvr check rollouts

SLURM_ARRAY_TASK_ID=0 tasks=1
(task single)
for part in single/part-*.parquet; do cmp "$part" "rollouts/$(basename "$part")"; done
echo "all parts equal those of one process; the shards are in $dir"
