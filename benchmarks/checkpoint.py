"""Seconds of a checkpoint: written, brought to disk and identified; ours and the libraries' own.

    python -P benchmarks/gpu_step.py make shape --shape qwen2.5-1.5b
    python -P benchmarks/checkpoint.py shape --out runs/checkpoint

The engine has moments of random numbers, as if it had trained. `plain` writes the same tensors by
transformers' `save_pretrained` and safetensors' `save_file`, syncs them, and hashes the files, one
thread a file. The two take turns. Checks that both hold the same tensors.
"""

import argparse
import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.models import checkpoints, policy as policies
from rlvr_cli.runtime import cores
from rlvr_cli.stages import steps


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def start(model: str) -> LocalEngine:
    engine = LocalEngine(policies.load(policies.resolve(model)), UpdateOptions())
    for value in engine._master.values():
        moments = {key: torch.randn_like(value) for key in ("exp_avg", "exp_avg_sq")}
        engine._optimizer.state[value] = moments | {"step": torch.tensor(1.0)}
    return engine


def ours(engine: LocalEngine, out: Path) -> dict[str, float]:
    begin = time.perf_counter()
    steps.save_checkpoint(engine, out)
    written = time.perf_counter()
    policy = policies.resolve(str(out / checkpoints.CHECKPOINT))
    assert policy.digest and policy.trainer_digest
    return {"written": written - begin, "identified": time.perf_counter() - written}


def plain(engine: LocalEngine, out: Path) -> dict[str, float]:
    begin = time.perf_counter()
    folder = out / checkpoints.CHECKPOINT
    (folder / "optimizer").mkdir(parents=True)
    trained, model = engine._trained, engine.loaded.model
    model.save_pretrained(folder, state_dict=trained._state_dict(dict(engine._master)))
    flat = {
        f"{key}.{name}": state.contiguous()
        for name, value in engine._master.items()
        for key, state in engine._optimizer.state[value].items()
    }
    save_file(flat, folder / checkpoints.OPTIMIZER)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
    written = time.perf_counter()
    with ThreadPoolExecutor(cores.available()) as pool:
        list(pool.map(_sha256, files))
    return {"written": written - begin, "identified": time.perf_counter() - written}


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    files = folder.rglob("*.safetensors")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--out", type=Path, default=Path("runs/checkpoint"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="read both and compare their tensors")
    options = parser.parse_args()
    engine = start(options.model)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    say(torch=torch.__version__, device=device, cores=cores.available())
    for number in range(options.rounds):
        for way in (plain, ours):
            out = options.out / way.__name__
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            seconds = way(engine, out)
            files = [file for file in out.rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            rounded = {name: round(value, 2) for name, value in seconds.items()}
            say(round=number, way=way.__name__, gb=round(size / 1e9, 2), files=len(files),
                seconds=rounded, whole=round(sum(seconds.values()), 2))  # fmt: skip
    if options.check:
        first, second = (tensors(options.out / way.__name__) for way in (plain, ours))
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
        say(equal_tensors=len(first))


if __name__ == "__main__":
    main()
