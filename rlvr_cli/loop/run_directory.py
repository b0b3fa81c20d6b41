"""The files of a run directory, and what of them a run that goes on may believe.

run/config.toml  run/inputs.json  run/metrics.jsonl
run/prompts/{train,heldout}
run/steps/000001/{rollouts,scores,logprobs,advantages,update}
run/steps/000001/rollouts/_draws/0/{rollouts,scores}  (with max_draws above 1)
run/memory-model  run/steps/000001/memory  (with DLC)
run/eval/000000/{rollouts,scores,logprobs}
"""

import contextlib
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.config import RunConfig
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import CHECKPOINT
from rlvr_cli.storage import atomic
from rlvr_cli.storage.shards import MANIFEST, Shards

_MAY_CHANGE = ("steps", "keep")
_OF_A_STEP = ("rollouts", "scores", "advantages", "update")


class RunDirectory:
    """A run directory as one process reads and writes it; `with_memory` that of a run with DLC."""

    def __init__(self, path: Path, *, with_memory: bool = False) -> None:
        self.path, self._with_memory = path, with_memory

    def of(self, kind: str, step: int) -> Path:
        """Where the stages of a step (`steps`) or of its evaluation (`eval`) write."""
        return self.path / kind / f"{step:06d}"

    @contextlib.contextmanager
    def claimed(self, config: RunConfig) -> Iterator[None]:
        """Holds the directory for this process, if it is a run of this configuration or new."""
        with atomic.locked(self.path / "_lock"):
            for stale in self.path.glob("_tmp-*"):
                atomic.remove(stale)
            self._claim(config)
            yield

    def _claim(self, config: RunConfig) -> None:
        """Writes the configuration, or refuses to go on with another one."""
        path = self.path / "config.toml"
        if path.exists():
            before, now = _read_toml(path), tomllib.loads(config.to_toml())
            changes = [
                f"{key} was {before.get(table, {}).get(key)}, is {value}"
                for table, values in now.items()
                for key, value in values.items()
                if key not in _MAY_CHANGE and before.get(table, {}).get(key) != value
            ]
            if changes:
                raise UsageError(
                    f"`{self.path}` was started with other parameters: {'; '.join(changes)}",
                    "start another run with --out, or leave those as they were",
                )
        atomic.write_atomic(path, config.to_toml().encode())

    def claim_inputs(self, inputs: dict[str, str]) -> None:
        """Keeps the digests of what the run reads, or refuses to go on with other content."""
        path = self.path / "inputs.json"
        before = json.loads(path.read_text()) if path.exists() else inputs
        changed = [name for name in inputs if before.get(name, inputs[name]) != inputs[name]]
        if changed:
            raise UsageError(
                f"`{self.path}` was started from other content: {', '.join(changed)} changed",
                "start another run with --out, or bring the old content back",
            )
        atomic.write_atomic(path, atomic.pretty_json(inputs))

    def last_step(self) -> int:
        """The newest step whose checkpoint is whole, 0 if there is none.

        The steps behind it are made again, from the rollouts that they stored.
        """
        for manifest in sorted(self.path.glob(f"steps/*/update/{MANIFEST}"), reverse=True):
            whole = policies.checkpoint_state(Shards.open(manifest.parent, "steps")) == "whole"
            if whole and (not self._with_memory or MemoryState.is_whole(manifest.parent.parent)):
                return int(manifest.parent.parent.name)
        return 0

    def forget_behind(self, step: int) -> None:
        """Removes the updates behind a step, which are made again."""
        for later in self.path.glob("steps/*"):
            if int(later.name) > step:
                for made in (later / "update", later / "memory"):
                    atomic.remove(made)

    def summary(self, step: int) -> dict[str, Any]:
        """What the stages of a step say of it, in short; nothing of step 0."""
        if not step:
            return {}
        here = self.of("steps", step)
        rollouts, scores, advantages, update = (
            Shards.open(here / name).summary for name in _OF_A_STEP
        )
        return {
            **{name: rollouts[name] for name in ("draws", "drawn", "prompts") if name in rollouts},
            "reward": scores["reward"],
            "missing": scores["missing"],
            "informative": advantages["informative_share"],
            "floored": advantages["floored"],
            **{name: update[name] for name in update if name not in ("policy", "optimizer")},
            **({"memory_loss": MemoryState.loss(here)} if self._with_memory else {}),
        }

    def log(self, record: dict[str, Any]) -> None:
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def mend_log(self, last: int) -> dict[str, float]:
        """Makes metrics.jsonl hold one line for each step before the last; the last's seconds.

        A killed run may have left a torn line, or none, for a step that is complete; the seconds
        of such a step are not known. The last step's line is written when that step is settled.
        """
        path = self.path / "metrics.jsonl"
        found = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                found[record["step"]] = record
        records = [
            found.get(step) or {"step": step, **self.summary(step), "seconds": {}}
            for step in range(last)
        ]
        lines = [json.dumps(record) + "\n" for record in records]
        atomic.write_atomic(path, "".join(lines).encode())
        return found.get(last, {}).get("seconds", {})

    def prune(self, keep: int) -> None:
        """Removes the checkpoints that are neither among the newest nor the best."""
        best = self.of("steps", self.best_step())
        for kind in ("update", "memory"):
            checkpoints = sorted(self.path.glob(f"steps/*/{kind}/{CHECKPOINT}"))
            for checkpoint in checkpoints[:-keep]:
                if checkpoint.parent.parent != best:
                    checkpoint.rename(checkpoint.with_name("_pruned"))
            for doomed in self.path.glob(f"steps/*/{kind}/_pruned"):
                shutil.rmtree(doomed)

    def best_step(self) -> int:
        """The evaluated step of the highest held-out Pass@1, the earliest of equals."""
        evaluated = {
            int(path.parent.parent.name): Shards.open(path.parent).summary["correct"]
            for path in sorted(self.path.glob(f"eval/*/scores/{MANIFEST}"))
        }
        return max(evaluated, key=lambda step: evaluated[step] or 0.0, default=0)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except ValueError as error:
        raise DataError(
            f"`{path}` is not as it was written: {error}", "start another run with --out"
        ) from error
