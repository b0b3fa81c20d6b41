"""Kills training runs at random moments and compares what is left with an undisturbed run.

    python tests/crash.py --kills 50 [--algo grpo+dlc]

Each attempt is a fork of this process, which has loaded what a run of one step loads: so the kills
fall into the loop, not into imports. They fall within half of a run's time, so that most runs are
killed more than once, and few prompts are evaluated, so that they fall into steps as well.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch

from rlvr_cli import config
from rlvr_cli.cli import app
from rlvr_cli.errors import UserError
from rlvr_cli.loop import setup

torch.set_num_threads(1)
CONFIG = config.RunConfig(
    train=config.RunOptions(
        algo="quatro+kl",
        steps=6,
        prompts_per_step=4,
        eval_every=2,
        eval_num_generations=2,
        save_every=1,
        keep_weights=2,
    ),
    rollout=config.RolloutOptions(num_generations=4, max_new_tokens=16, prompts_per_part=2),
    train_step=config.UpdateOptions(learning_rate=3e-4, mini_batch_prompts=2),
)


def content(run: Path) -> dict[str, str]:
    """A hash of every file of a run; of metrics.jsonl without its seconds."""
    actual = {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and path.name != "_lock":
            data = path.read_bytes()
            if path.name == "metrics.jsonl":
                lines = [json.loads(line) for line in data.decode().splitlines()]
                for line in lines:
                    line.pop("seconds", None)
                data = json.dumps(lines).encode()
            actual[str(path.relative_to(run))] = hashlib.sha256(data).hexdigest()
    return actual


def prompts(folder: Path, algo: str) -> config.RunConfig:
    """The configuration with an objective, on prompts that are made in a folder."""
    for split, limit in (("train", "24"), ("heldout", "6")):
        words = ["--split", split, "--limit", limit, "--out", str(folder / split)]
        assert app.run(["prompts", "task:expression", *words]) == 0
    changed = {"prompts": str(folder / "train"), "heldout": str(folder / "heldout"), "algo": algo}
    return dataclasses.replace(CONFIG, train=dataclasses.replace(CONFIG.train, **changed))


def load(names: list[str]) -> None:
    """Imports what a run imported; nothing is computed, as a fork must not inherit threads."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def attempt(
    run: Path, chosen: config.RunConfig, seconds: float | None, modules: Path | None = None
) -> int:
    """Runs or goes on with the run in a fork, killed after so many seconds; its exit code."""
    child = os.fork()
    if child == 0:
        code = 0
        torch.set_num_threads(1)  # alone: a fork remakes torch's pool at its first use
        try:
            for _ in setup.train(run, chosen):
                pass
            if modules:
                modules.write_text(json.dumps([*sys.modules]))
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            code = error.exit_code
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    if seconds is not None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--algo", default=CONFIG.train.algo)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    kills = runs = 0
    with tempfile.TemporaryDirectory() as scratch:
        chosen, modules = prompts(Path(scratch), given.algo), Path(scratch) / "modules.json"
        short = dataclasses.replace(chosen, train=dataclasses.replace(chosen.train, steps=1))
        assert attempt(Path(scratch) / "short", short, None, modules) == 0
        load(json.loads(modules.read_text()))
        start = time.monotonic()
        assert attempt(Path(scratch) / "undisturbed", chosen, None) == 0
        complete = time.monotonic() - start
        expected = content(Path(scratch) / "undisturbed")
        while kills < given.kills:
            run, code = Path(scratch) / f"run-{runs}", 1
            while code != 0:
                seconds = chance.uniform(0, complete / 2) if kills < given.kills else None
                code = attempt(run, chosen, seconds)
                assert code in (0, -signal.SIGKILL), f"run {runs} ended with {code}"
                kills += code != 0
            actual = content(run)
            other = {name for name in expected | actual if expected.get(name) != actual.get(name)}
            assert not other, f"run {runs} differs in {sorted(other)[:5]}"
            runs += 1
    print(f"{kills} kills over {runs} runs of {len(expected)} files: every file equal")


if __name__ == "__main__":
    main()
