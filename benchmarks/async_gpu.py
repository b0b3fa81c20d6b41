"""Wall seconds of a step in turn and overlapped, on one card or two, and of publishing a policy.

    python -P benchmarks/async_gpu.py --model Qwen/Qwen2.5-1.5B --prompts PROMPTS --steps 10 -- -n 8
    python -P benchmarks/async_gpu.py --steps 6 -- --prompts-per-step 4 -n 4   # on a CPU

Both ways are command lines of their own. A step is what lies between the manifests of two updates;
the first three, which load and compile, are left out. Words behind `--` are added to `rlvr train`.
The sampler has the first card; `--trainer-gpu 1` gives the trainer the second.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rlvr_cli.config import UpdateOptions
from rlvr_cli.loop import published
from rlvr_cli.models import policy as policies
from rlvr_cli.stages import train_step

COMMAND = "from rlvr_cli.cli.app import main; main()"
WARM_UP = 3


def train(out: Path, *words: str) -> dict[str, float]:
    """The median wall seconds of a step, and of what the trainer did in it."""
    command = [sys.executable, "-P", "-c", COMMAND, "train", "--out", str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    ends = [os.path.getmtime(p) for p in sorted(out.glob("steps/*/update/_manifest.json"))]
    steps = [after - before for before, after in itertools.pairwise(ends)][WARM_UP - 1 :]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    stages: dict[str, list[float]] = {}
    for line in lines[WARM_UP + 1 :]:
        for name, seconds in line["seconds"].items():
            stages.setdefault(name, []).append(seconds)
    tokens = statistics.mean(line["tokens"] for line in lines[WARM_UP + 1 :])
    medians = {name: statistics.median(values) for name, values in stages.items()}
    return {"step": statistics.median(steps), "tokens": tokens, **medians}


def publishing(model: str, out: Path) -> None:
    """Seconds until the weights are on disk, with their digest and their manifest."""
    loaded = policies.load(policies.resolve(model))
    trainer = train_step.trainer(loaded, UpdateOptions(), 0)
    for step in (1, 2, 3):
        start = time.perf_counter()
        update = out / "steps" / f"{step:06d}" / "update"
        after = policies.Policy(loaded.policy.path, str(update), "policy")
        published.publish(trainer.publish, out, step, after)
        seconds = time.perf_counter() - start
        size = sum(p.stat().st_size for p in published.folder(out, step).rglob("*") if p.is_file())
        print(f"published {size / 1e9:.2f} GB in {seconds:.2f} s, {size / seconds / 1e9:.2f} GB/s")
        published.prune(out, range(step, step + 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--model", default="builtin")
    add("--prompts", help="made by `rlvr prompts`; by default the built-in task")
    add("--steps", type=int, default=10)
    add("--ahead", default="1")
    add("--trainer-gpu", default="0")
    add("--out", type=Path, help="on the disk that is to be measured")
    add("words", nargs="*", help="of `rlvr train`")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.out) as scratch:
        publishing(given.model, Path(scratch) / "published")
        words = ["--model", given.model, "--steps", str(given.steps), "--eval-every", "0"]
        words += ["--prompts", given.prompts] if given.prompts else []
        words += ["--save-every", "1000", *given.words]
        in_turn = train(Path(scratch) / "in-turn", *words)
        gpus = ["--sampler-gpus", "0", "--trainer-gpus", given.trainer_gpu] if _has_gpu() else []
        ahead = ["--async", "--ahead", given.ahead, *gpus]
        overlapped = train(Path(scratch) / "overlapped", *ahead, *words)
    for name, seconds in (("in turn", in_turn), ("overlapped", overlapped)):
        print(name, {key: round(value, 2) for key, value in seconds.items()})
    print(f"a step takes {overlapped['step'] / in_turn['step']:.0%} of the time in turn")


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


if __name__ == "__main__":
    main()
