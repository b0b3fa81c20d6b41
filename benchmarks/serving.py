"""Seconds of `rlvr serve`: until it answers, of a rollout, and of taking other weights.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/serving.py DIR --prompts DIR/prompts.jsonl --verifier number
    python -P benchmarks/serving.py builtin --engine vllm:max_length=128,cache_gib=0.1   # on a CPU

The server goes on while it takes other weights: the model with noise added. Then the log-probs of
what it samples are compared with those of the new weights and of the old ones, in nats a token. One
JSON line each.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.models import policy as policies
from rlvr_cli.stages import common
from rlvr_cli.storage.shards import Shards

RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]
NOISE = 0.05  # of each tensor's deviation


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def rlvr(*words: object) -> float:
    """Seconds of a command; what it says is shown where it fails."""
    start = time.perf_counter()
    done = subprocess.run([*RLVR, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"rlvr {' '.join(map(str, words))}\n{done.stderr}")
    return time.perf_counter() - start


def changed(model: Path, out: Path) -> Path:
    """The model with noise added to its weights, whose files a server can take."""
    shutil.copytree(model, out)
    noise = torch.Generator().manual_seed(1)
    for path in out.glob("*.safetensors"):
        weights = {
            name: value + (NOISE * value.float().std() * torch.randn(value.shape, generator=noise))
            .to(value.dtype)
            for name, value in load_file(path).items()
        }  # fmt: skip
        save_file(weights, path, metadata={"format": "pt"})
    return out


def gap(rollouts: Path, model: Path) -> float:
    """Mean difference of the sampler's log-probs and the model's own, in nats a token."""
    out = rollouts.parent / f"logprobs-{rollouts.name}-{model.name}"
    rlvr("logprob", rollouts, "--model", model, "--columns", "old_logp", "--out", out)
    sampled, own = (
        common.flat(Shards.open(path).table()[name])
        for path, name in ((rollouts, "behaviour_logp"), (out, "old_logp"))
    )
    return float(np.abs(sampled - own).mean())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def measure(given: argparse.Namespace, folder: Path) -> None:
    model = policies.resolve(given.model).path
    prompts, port = folder / "prompts", free_port()
    named = ["--verifier", given.verifier] if given.verifier else []
    rlvr("prompts", *given.prompts, *named, "--limit", given.limit, "--out", prompts)
    other = changed(model, folder / "changed")
    words = ["serve", str(model), "--engine", given.engine, "--port", str(port)]
    start = time.perf_counter()
    server = subprocess.Popen([*RLVR, *words], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        if not (spec := server.stdout.readline().removeprefix("--engine ").strip()):
            sys.exit("the server did not start")
        say(answers_after_s=round(time.perf_counter() - start, 1))
        for name, policy in (("before", model), ("again", model), ("after", other)):
            loads = ",load=true" if policy is other else ""
            asked = ["--model", policy, "--engine", f"{spec}{loads}", "--seed", 1]
            one = rlvr("rollout", prompts, *asked, "--limit", 1, "-n", 1, "--max-new-tokens", 1,
                       "--out", folder / f"one-{name}")  # fmt: skip
            many = rlvr("rollout", prompts, *asked, "-n", given.n, "--max-new-tokens",
                        given.new_tokens, "--out", folder / name)  # fmt: skip
            tokens = len(common.flat(Shards.open(folder / name).table()["token_ids"]))
            say(rollout=name, one_completion_s=round(one, 2), seconds=round(many, 2), tokens=tokens)
    finally:
        server.terminate()
        server.wait()
    say(gap_to_new=gap(folder / "after", other), gap_to_old=gap(folder / "after", model),
        gap_before=gap(folder / "before", model))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--prompts", nargs="+", default=["task:expression"])
    parser.add_argument("--verifier", help="of the prompts, where their rows name none")
    parser.add_argument("--engine", default="vllm:max_length=1024,gpu_memory=0.5")
    parser.add_argument("--limit", type=int, default=32)
    parser.add_argument("-n", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=64)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
