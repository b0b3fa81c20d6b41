"""The files of a run directory, and which of them a run that resumes may believe.

run/config.toml  run/inputs.json  run/metrics.jsonl
run/prompts/{train,heldout}
run/steps/000001/{rollouts,scores,logprobs,advantages,update}
run/steps/000001/rollouts/_draws/0/{rollouts,scores}  (with max_draws above 1)
run/memory-model  run/steps/000001/memory  (with DLC)
run/eval/000000/{rollouts,scores,logprobs}
"""

import contextlib
import json
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rlvr_cli import __version__, registry, run_config
from rlvr_cli.algorithms import objective
from rlvr_cli.config import RunConfig, earlier
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop import by_source
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.models import engine_choice, policy as policies
from rlvr_cli.storage import atomic, writer
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed
from rlvr_cli.verification.scoring import rewards

# What decides no row: a step that was begun goes on as it was, where it would be stored otherwise.
_MAY_CHANGE = (
    *("steps", "keep", "keep_weights", "eval_every", "save_every", "max_error_rate"),
    "prompts_per_part",
)
# Where something lies that the run reads, and the name of its digest in inputs.json.
_MAY_MOVE = {
    "model": "policy", "prompts": "prompts", "heldout": "heldout", "memory_model": "memory_model",
}  # fmt: skip
_SPECS = ("algo", "engine", "trainer", "verifier")
_OF_A_STEP = ("rollouts", "scores", "advantages", "update")


class RunDirectory:
    """A run directory as one process reads and writes it; `with_memory` that of a run with DLC."""

    def __init__(self, path: Path, *, with_memory: bool = False) -> None:
        self.path, self._with_memory = path, with_memory

    def of(self, kind: str, step: int) -> Path:
        """Where the stages of a step (`steps`) or of its evaluation (`eval`) write."""
        return self.path / kind / f"{step:06d}"

    def begun(self) -> dict[str, dict[str, Any]] | None:
        """The configuration that the run was begun with, by table; None of a new run."""
        path = self.path / "config.toml"
        return _read_config(path, self._version()) if path.exists() else None

    def _version(self) -> str:
        """The version of rlvr that began the run, as its first directory says."""
        for pattern in ("prompts/*", "eval/*/*", "steps/*/*"):
            for path in sorted(self.path.glob(f"{pattern}/{MANIFEST}")):
                manifest = read_sealed(path) or {}
                return str(manifest.get("versions", {}).get("rlvr", "an unknown version"))
        return __version__

    @contextlib.contextmanager
    def lock_and_check_config(self, config: RunConfig) -> Iterator[None]:
        """Holds the directory for this process, if it is a run of this configuration or new."""
        with atomic.locked(self.path / "_lock"):
            for stale in self.path.glob("_tmp-*"):
                atomic.remove(stale)
            text = self.require_same(config).to_toml()
            atomic.write_atomic(self.path / "config.toml", text.encode())
            yield

    def require_same(self, config: RunConfig) -> RunConfig:
        """The configuration as it is to be stored; an error if the run was begun with another.

        What is meant as before keeps its spelling, so that a resumed run leaves equal bytes. A new
        run stores a spec in full if its defaults were others in an earlier version.
        """
        before = self.begun()
        tables, changes = {}, []
        for table, options in vars(config).items():
            stored = earlier(type(options)) | before.get(table, {}) if before else {}
            spelled = {}
            for name, value in vars(options).items():
                was = stored.get(name, value)
                begun = was if before else None
                if not before:
                    meant = meaning(name, value, None)
                    spelled[name] = value if meant == meaning(name, value, value) else meant
                elif _decides(name, was, begun) == _decides(name, value, begun):
                    spelled[name] = was
                elif name not in _MAY_CHANGE and not self._may_move(name):
                    changes.append(f"{name} was {was}, is {value}")
            tables[table] = replace(options, **spelled)
        if changes:
            version = self._version()
            by = "" if version == __version__ else f" by rlvr {version}, this is {__version__}"
            raise UsageError(
                f"`{self.path}` was started with other parameters{by}: {'; '.join(changes)}",
                "start another run with --out, or leave those as they were",
            )
        return RunConfig(**tables)

    def _may_move(self, name: str) -> bool:
        """Whether an option says where something lies whose content is compared by its digest."""
        return _MAY_MOVE.get(name) in self.require_inputs({})

    def check_inputs(self, inputs: dict[str, str]) -> None:
        """Keeps the digests of what the run reads, or refuses to resume with other content."""
        text = atomic.pretty_json(self.require_inputs(inputs))
        atomic.write_atomic(self.path / "inputs.json", text)

    def require_inputs(self, inputs: dict[str, str]) -> dict[str, str]:
        """All digests of what the run reads; an error if it was begun with other content."""
        path = self.path / "inputs.json"
        try:
            before = json.loads(path.read_text()) if path.exists() else inputs
        except ValueError as error:
            raise DataError(
                f"`{path}` is not as it was written: {error}", "start another run with --out"
            ) from error
        changed = [name for name in inputs if before.get(name, inputs[name]) != inputs[name]]
        if changed:
            raise UsageError(
                f"`{self.path}` was started from other content: {', '.join(changed)} changed",
                "start another run with --out, or bring the old content back",
            )
        kept: dict[str, str] = before | inputs
        return kept

    def find_resume_step(self) -> tuple[int, dict[str, float]]:
        """The step to resume after, and its seconds; metrics.jsonl is as if the run ended there."""
        last = self.last_step()
        return last, self.repair_metrics(last)

    def last_step(self) -> int:
        """The newest step whose checkpoint is complete, 0 if there is none.

        The steps after it are repeated, from the rollouts that they stored.
        """
        for manifest in sorted(self.path.glob(f"steps/*/update/{MANIFEST}"), reverse=True):
            is_complete = (
                policies.checkpoint_state(Shards.open(manifest.parent, "steps")) == "whole"
            )
            if is_complete and (
                not self._with_memory or MemoryState.is_complete(manifest.parent.parent)
            ):
                return int(manifest.parent.parent.name)
        return 0

    def discard_after(self, step: int) -> None:
        """Takes the updates after a step back, so that they are repeated as they were begun."""
        for later in self.path.glob("steps/*"):
            if int(later.name) > step:
                for name in ("update", "memory"):
                    writer.reopen(later / name)

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
            **{
                name: advantages[name] for name in ("one_reward", "no_reward") if name in advantages
            },
            **{name: update[name] for name in update if name not in ("policy", "optimizer")},
            **({"memory_loss": MemoryState.loss(here)} if self._with_memory else {}),
            **({"sources": figures} if (figures := by_source.of_step(here)) else {}),
        }

    def log(self, record: dict[str, Any]) -> None:
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")

    def repair_metrics(self, last: int) -> dict[str, float]:
        """Makes metrics.jsonl hold one line for each step before the last; the last's seconds.

        A killed run may have left a torn line, or none, for a step that is complete; the seconds
        of such a step are not known. The last step's line is written by `finish_step`.
        """
        path = self.path / "metrics.jsonl"
        logged: dict[int, dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                logged[record["step"]] = record
        records = [
            logged.get(step) or {"step": step, **self.summary(step), "seconds": {}}
            for step in range(last)
        ]
        lines = [json.dumps(record) + "\n" for record in records]
        atomic.write_atomic(path, "".join(lines).encode())
        seconds: dict[str, float] = logged.get(last, {}).get("seconds", {})
        return seconds

    def best_step(self) -> int:
        """The evaluated step of the highest held-out Pass@1, the earliest of equals."""
        evaluated = {
            int(path.parent.parent.name): Shards.open(path.parent).summary["correct"]
            for path in sorted(self.path.glob(f"eval/*/scores/{MANIFEST}"))
        }
        return max(evaluated, key=lambda step: evaluated[step] or 0.0, default=0)


def meaning(name: str, value: Any, stored: Any) -> Any:
    """An option's value; of a spec, with all options that this version has.

    What a spec leaves out is as in the `stored` one, which the run was begun with.
    """
    folders = {"engine": "rollout", "trainer": "training"}
    if name in folders:
        if value == engine_choice.AUTO and stored is not None:
            value = stored
        return registry.canonical(folders[name], value, stored)
    if name == "verifier":
        return rewards.canonical(value, stored or None) if value else ""
    return objective.canonical(value, stored) if name == "algo" else value


def _decides(name: str, value: Any, stored: Any) -> Any:
    """An option's meaning, without what of a verifier decides no reward."""
    meant = meaning(name, value, stored)
    return rewards.identity(meant) if name == "verifier" and meant else meant


def resumed(config: RunConfig, begun: dict[str, dict[str, Any]]) -> RunConfig:
    """The configuration of a run that was begun, with its specs as they were meant then."""
    tables = {}
    for table, options in vars(config).items():
        stored = begun.get(table, {})
        specs = [name for name in _SPECS if name in stored]
        meant = {name: meaning(name, vars(options)[name], stored[name]) for name in specs}
        tables[table] = replace(options, **meant)
    return RunConfig(**tables)


def _read_config(path: Path, version: str) -> dict[str, dict[str, Any]]:
    """The tables of a run's configuration, with all options that this version has, and no other."""
    try:
        raw = tomllib.loads(path.read_text())
    except ValueError as error:
        raise DataError(
            f"`{path}` is not as it was written: {error}", "start another run with --out"
        ) from error
    known: dict[str, Any] = {f.name.replace("_", "-"): type(f.default) for f in fields(RunConfig)}
    tables = {}
    for table, options in raw.items():
        if not isinstance(options, dict) or table not in known:
            raise _unknown(path, f"`{table}`", version)
        named = {f.name: f for f in fields(known[table])}
        for name in options:
            if name not in named:
                raise _unknown(path, f"`{name} = {options[name]!r}` in [{table}]", version)
        lacking = named.keys() - options.keys() - earlier(known[table]).keys()
        if lacking:
            raise DataError(
                f"`{path}` lacks `{min(lacking)}` in [{table}]: it was changed since",
                "bring the line back, or start another run with --out",
            )
        values = {
            name: run_config.typed(path, named[name], value) for name, value in options.items()
        }
        tables[table.replace("-", "_")] = values
    return tables


def _unknown(path: Path, what: str, version: str) -> DataError:
    if version == __version__:
        return DataError(
            f"`{path}` holds {what}, which rlvr {version} does not know", "remove that line"
        )
    return DataError(
        f"`{path}` holds {what}, which this rlvr {__version__} does not know: rlvr {version} "
        "began the run",
        f"resume it with rlvr {version}, or start another run with --out",
    )
