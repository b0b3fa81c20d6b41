"""One run of the comparison from start to end, and its record.

A record is one JSON file, written when all of it is done: what is cut off is repeated, and what
is there is not.
"""

import contextlib
import io
import json
import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lm import start, tasks
from lm.plan import START, Cell, Setting
from rlvr_cli.storage import atomic

KEPT = (
    "reward", "length", "entropy", "tokens", "clip_fraction", "grad_norm", "informative",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where a comparison lies, and the options of its runs; nothing here decides a figure
    but for rounding."""

    out: Path
    policy: Path
    engine: str = "auto"
    trainer: str = "local"

    def run(self, key: str) -> Path:
        return self.out / "runs" / key

    def cell(self, key: str) -> Path:
        return self.out / "cells" / f"{key}.json"


def rlvr(*words: Any) -> str:
    """What a command of rlvr prints, in this process; RuntimeError with its last words."""
    from rlvr_cli.cli import app

    said, told = io.StringIO(), io.StringIO()
    words = tuple(map(str, words))
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = app.run(list(words))
    if code:
        raise RuntimeError(f"rlvr {' '.join(words)}: exit code {code}\n{told.getvalue()[-2000:]}")
    return said.getvalue()


def lay_prompts(setting: Setting, out: Path) -> None:
    """The prompts of the three splits, unless they are there."""
    from rlvr_cli.stages import prompts

    for split in tasks.SPLITS:
        count = setting.train_prompts if split == "train" else setting.held_out
        rows = [
            row | {
                "messages": json.dumps(row["prompt"]), "raw": isinstance(row["prompt"], str),
                "extra": row["extra"] and json.dumps(row["extra"]),
            }
            for row in tasks.prompts(setting.task, split, count)
        ]  # fmt: skip
        params = {"task": setting.task, "split": split}
        prompts.make_all_parts(rows, out / "prompts" / split, params=params)


def evaluate(
    policy: Path, prompts: Path, out: Path, *, samples: int, tokens: int, engine: str, seed: int
) -> dict[str, Any]:
    """Of each prompt, how many of its completions are right, and UCC@64 (or @samples, if fewer)."""
    from rlvr_cli.evaluation import pass_at_k
    from rlvr_cli.storage.shards import Shards

    started = time.monotonic()
    rlvr(
        "rollout", prompts, "--model", policy, "-n", samples, "--max-new-tokens", tokens,
        "--engine", engine, "--seed", seed, "--out", out / "rollouts",
    )  # fmt: skip
    sampled = time.monotonic()
    rlvr("score", out / "rollouts", "--out", out / "scores")
    tallied, _ = pass_at_k.tally(out / "scores", texts=True)
    k = min(64, samples)
    measured = pass_at_k.ucc_measures(tallied, [k])
    found_P = measured.value_PM[:, measured.names.index(f"ucc@{k}")]
    lengths = [
        len(ids)
        for part in Shards.open(out / "rollouts").parts()
        for ids in part["token_ids"].to_pylist()
    ]
    return {
        "samples": samples,
        "prompts": tallied.prompt_id,
        "correct": tallied.correct_P.tolist(),
        f"ucc@{k}": [round(float(value), 4) for value in found_P],
        "length": round(sum(lengths) / len(lengths), 3),
        "seconds": {
            "rollout": round(sampled - started, 2),
            "score": round(time.monotonic() - sampled, 2),
        },
    }


def make(cell: Cell, setting: Setting, place: Place) -> dict:
    """One run from start to end, and its record in the folder of cells."""
    key, began = cell.key(setting), time.monotonic()
    run = place.run(key)
    record = asdict(cell) | {"key": key, "setting": asdict(setting), "machine": machine(place)}
    policy = place.policy
    if cell.spec != START:
        record |= train(cell, setting, place, run)
        policy = run / f"steps/{record['evals'][-1]['step']:06d}/update"
    trained = time.monotonic()
    if cell.split == "test":
        record["final"] = evaluate(
            policy, place.out / "prompts/test", run / "final", samples=setting.samples,
            tokens=setting.max_new_tokens, engine=place.engine, seed=cell.seed,
        )  # fmt: skip
    now = time.monotonic()
    record["seconds"] = {"train": round(trained - began, 1), "final": round(now - trained, 1)}
    atomic.write_atomic(place.cell(key), (json.dumps(record) + "\n").encode())
    # The others branch from GRPO's run.
    shutil.rmtree(run / "final" if cell.spec == "grpo" else run, ignore_errors=True)
    return record


def train(cell: Cell, setting: Setting, place: Place, run: Path) -> dict:
    """The curves and held-out figures of one run of `rlvr train`."""
    shared = _begin(cell, setting, place, run)
    given = words(cell, setting, place)
    legs = [setting.steps]
    if setting.tokens:
        legs = [max(1, 3 * setting.steps // 4)]
    for leg in legs:
        begun = () if (run / "config.toml").exists() else given
        rlvr("train", *begun, "--steps", leg, "--out", run, "--json")
        lines = lines_of(run)
        if setting.tokens and len(legs) == 1:
            sampled = [
                line["length"] * line["prompts"] * setting.generations
                for line in lines
                if 0 < line["step"] <= leg
            ]
            each = sum(sampled[-5:]) / len(sampled[-5:])
            legs.append(leg + max(1, round((setting.tokens - sum(sampled)) / each)))
    return {
        "shared": shared,
        "curve": {n: [_short(line.get(n)) for line in lines if line["step"]] for n in KEPT},
        "phases": phases(lines),
        "evals": [
            {"step": line["step"], "eval": _cells(line["eval"])}
            for line in lines
            if line.get("eval")
        ],
    }


def _begin(cell: Cell, setting: Setting, place: Place, run: Path) -> bool:
    """Whether it shares the completions of step 1 with GRPO's run, from which it then branches.

    Where that run is not done on this machine, or DLC samples otherwise, they share the seed alone.
    """
    key = Cell("grpo", cell.rate, cell.seed, cell.split).key(setting)
    parent = place.run(key)
    if run.exists():
        return (run / "branch.json").exists()
    if "+dlc" in cell.spec or not (parent.exists() and place.cell(key).exists()):
        return False
    beside = run.with_suffix(".branch")
    shutil.rmtree(beside, ignore_errors=True)
    rlvr("branch", parent, "--at", 0, "--algo", cell.spec, "--out", beside)
    (made,) = beside.iterdir()
    made.rename(run)
    beside.rmdir()
    return True


def words(cell: Cell, setting: Setting, place: Place) -> tuple[str, ...]:
    held_out = place.out / "prompts" / cell.split
    options = {
        "algo": cell.spec, "model": place.policy, "prompts": place.out / "prompts/train",
        "heldout": held_out, "seed": cell.seed, "learning-rate": cell.rate,
        "prompts-per-step": setting.prompts_per_step, "num-generations": setting.generations,
        "mini-batch-prompts": setting.mini_batch, "max-new-tokens": setting.max_new_tokens,
        "prompts-per-part": setting.prompts_per_step, "eval-every": setting.eval_every,
        "save-every": 10**6, "keep": 1, "engine": place.engine, "trainer": place.trainer,
    }  # fmt: skip
    return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))


def lines_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def phases(lines: list[dict]) -> dict[str, float]:
    """The median seconds of each phase of a step."""
    steps = [line["seconds"] for line in lines if line["seconds"]]
    names = dict.fromkeys(name for seconds in steps for name in seconds)
    middle = len(steps) // 2
    return {n: round(sorted(s.get(n, 0.0) for s in steps)[middle], 3) for n in names}


def _cells(metrics: dict[str, list]) -> dict[str, list]:
    return {name: list(map(_short, cell)) for name, cell in metrics.items()}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def machine(place: Place) -> dict[str, str]:
    import torch

    named = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    versions = {name: version(name) for name in ("torch", "transformers")}
    weights = place.policy / "model.safetensors"
    policy = start.digest(weights) if weights.exists() else ""
    return {"device": named, "engine": place.engine, "policy": policy, **versions}


def take_device(devices: Any) -> None:
    """A worker process is given one GPU, before torch looks for it."""
    if device := devices.get():
        os.environ["CUDA_VISIBLE_DEVICES"] = device
