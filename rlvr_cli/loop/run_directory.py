"""The files of a run directory, and which of them a run that resumes may believe.

run/config.toml  run/inputs.json  run/_run.json  run/metrics.jsonl  run/_metrics.sha256
run/prompts/{train,heldout}
run/steps/000001/{rollouts,scores,logprobs,advantages,update}
run/steps/000001/policy  (where others sample)
run/steps/000001/rollouts/_draws/0/{rollouts,scores}  (with max_draws above 1)
run/memory-model  run/steps/000001/memory  (with DLC)
run/eval/000000/{rollouts,scores,logprobs}
"""

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr_cli import __version__
from rlvr_cli.config import RunConfig, earlier
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.loop import by_source, schedule, stored_config
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.loop.stored_config import decides, meaning
from rlvr_cli.models import policy as policies
from rlvr_cli.run_config import MAY_CHANGE, MAY_MOVE
from rlvr_cli.storage import atomic, fetched, locks, metrics_log, part_writer, run_folders, writer
from rlvr_cli.storage.run_folders import CONFIG, kept
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed
from rlvr_cli.terminal import console

INPUTS, LOCK = "inputs.json", "_lock"
OF_A_STEP = ("rollouts", "scores", "advantages", "update")
EVALUATION = ("rollouts", "scores", "logprobs")
Record = dict[str, Any]


class RunDirectory:
    """A run directory as one process reads and writes it.

    `with_memory`: of a run with DLC; `with_staleness`: of one that samples ahead.
    """

    def __init__(
        self, path: Path, *, with_memory: bool = False, with_staleness: bool = False
    ) -> None:
        self.path, self._with_memory, self._with_staleness = path, with_memory, with_staleness
        self._logged: dict[int, Record] = {}  # the records that metrics.jsonl had at the start
        self._text = ""  # of config.toml, of the process that holds the directory
        self._correct: dict[int, float] = {}  # the share of correct answers of an evaluation

    def of(self, kind: str, step: int) -> Path:
        """Where the stages of a step (`steps`) or of its evaluation (`eval`) write."""
        return self.path / kind / run_folders.name(step)

    def begun(self) -> dict[str, dict[str, Any]] | None:
        """The configuration that the run was begun with, by table; None of a new run.

        What it names by a URL is a copy of that, if there is one.
        """
        tables = stored_config.read(self.path, self._version)
        for options in (tables or {}).values():
            for name in MAY_MOVE.keys() & options.keys():
                if fetched.is_url(options[name]) and (copy := fetched.copy_of(options[name])):
                    options[name] = str(copy)
        return tables

    def _version(self) -> str:
        """The version of rlvr that began the run, as its first directory says."""
        prompts = [self.path / "prompts" / name for name in ("heldout", "train")]
        folders = [
            f for kind in ("eval", "steps") for f in run_folders.steps(self.path, kind).values()
        ]
        stages = (here / stage for here in folders for stage in OF_A_STEP)
        for directory in (*prompts, *stages):
            with contextlib.suppress(DataError):
                if manifest := read_sealed(directory / MANIFEST):
                    return str(manifest.get("versions", {}).get("rlvr", "an unknown version"))
        return __version__

    @contextlib.contextmanager
    def lock_and_check_config(self, config: RunConfig) -> Iterator[None]:
        """Holds the directory for this process, if it is a run of this configuration or new."""
        with locks.locked(self.path / LOCK, across_machines=True):
            for stale in self.path.glob("_tmp-*"):
                atomic.remove(stale)
            self._text = self.require_same(config).to_toml()
            console.remark("train", *self.remarks())
            if not (self.path / CONFIG).exists():
                atomic.write_atomic(self.path / CONFIG, self._text.encode())
            yield

    def require_same(self, config: RunConfig) -> RunConfig:
        """The configuration as it is to be stored; an error if the run was begun with another.

        What is meant as before keeps its spelling, so that a resumed run leaves equal bytes. A new
        run stores a spec in full if its defaults were others in an earlier version.
        """
        before = self.begun()
        if not before:
            run_folders.refuse_place(self.path)
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
                elif decides(name, was, begun) == decides(name, value, begun):
                    spelled[name] = was
                elif name not in MAY_CHANGE and not self._may_move(name):
                    changes.append(f"{name} was {was}, is {value}")
            for name in MAY_MOVE.keys() & spelled.keys():
                spelled[name] = fetched.recorded(Path(spelled[name])) or spelled[name]
            tables[table] = replace(options, **spelled)
        if changes:
            version = self._version()
            by = "" if version == __version__ else f" by rlvr {version}, this is {__version__}"
            raise UsageError(
                f"`{self.path}` was started with other parameters{by}: {'; '.join(changes)}",
                "start another run with --out, or leave those as they were",
            )
        return RunConfig(**tables)

    def remarks(self) -> list[str]:
        """Which of the run's own files are written again when it resumes, and what was changed."""
        said = stored_config.remarks(self.path, self._version)
        if self._inputs()[1]:
            said.append(f"`{self.path / INPUTS}` was damaged or gone: it is written again")
        return said

    def _may_move(self, name: str) -> bool:
        """Whether an option is a path whose content is compared by its digest."""
        return MAY_MOVE.get(name) in self.require_inputs({})

    def keep_inputs(self, inputs: dict[str, str]) -> None:
        """Keeps the digests of what the run reads, or refuses to resume with other content.

        With this the run has begun: others may join it.
        """
        known = self.require_inputs(inputs)
        atomic.write_atomic(self.path / INPUTS, atomic.pretty_json(known))
        if self._text:  # another one is stored once its inputs are known to be the same
            atomic.write_atomic(self.path / CONFIG, self._text.encode())
            stored_config.keep(self.path, self._text, known)

    def require_inputs(self, inputs: dict[str, str]) -> dict[str, str]:
        """All digests of what the run reads; an error if it was begun with other content."""
        before, _ = self._inputs()
        changed = [name for name in inputs if before.get(name, inputs[name]) != inputs[name]]
        if changed:
            raise UsageError(
                f"`{self.path}` was started from other content: {', '.join(changed)} changed",
                "start another run with --out, or bring the old content back",
            )
        return before | inputs

    def _inputs(self) -> tuple[dict[str, str], bool]:
        """The stored digests, and whether those in inputs.json differ from the sealed copy."""
        path, copy = self.path / INPUTS, kept(self.path)
        try:
            before = json.loads(atomic.read_bytes(path)) if path.exists() else {}
            if not all(isinstance(digest, str) for digest in before.values()):
                raise ValueError("it holds other things than digests")
        except (ValueError, AttributeError, RecursionError, DataError) as error:
            if copy is None:
                raise DataError(
                    f"`{path}` is not as it was written: {error}",
                    "bring the file back, or start another run with --out",
                ) from error
            return copy[1], True
        return (before, False) if copy is None else (copy[1], before != copy[1])

    def is_changed(self, folder: Path) -> bool:
        """Whether a folder with the run's memory model is another than it was begun with."""
        expected = self._inputs()[0].get("memory_model")
        return bool(expected and folder.exists()) and (
            policies.Policy(folder, "").digest != expected
        )

    def discard_memory_model(self, folder: Path) -> None:
        """Removes the run's own memory model if it is damaged; it is created again."""
        if self.is_changed(folder):
            console.say(f"train: `{folder}` was damaged: it is made again from the seed")
            atomic.remove(folder)

    def last_step(self, *, say: bool = False) -> int:
        """The newest step whose checkpoint is complete, 0 if there is none.

        The steps after it are repeated, from the rollouts that they stored. With `say` it names
        the newer checkpoints that are damaged.
        """
        damaged = []
        for step, here in reversed(run_folders.complete(self.path, "steps", "update").items()):
            if self.has_checkpoint(step):
                break
            if _is_damaged(here / "update") or _is_damaged(here / "memory"):
                damaged.append(str(step))
        else:
            step = 0
        if say and damaged:
            console.say(
                f"train: the checkpoint of step {', '.join(damaged)} is damaged: continuing from "
                f"{f'that of step {step}' if step else 'the start'}, with what the steps stored"
            )
        return step

    def has_checkpoint(self, step: int) -> bool:
        """Whether a step's checkpoints exist as they were written."""
        update = self.of("steps", step) / "update"
        return _state(update) == "whole" and (
            not self._with_memory or _state(update.parent / "memory") == "whole"
        )

    def discard_after(self, last: int) -> None:
        """Removes the updates after a step, so that they are repeated as they were begun.

        Directories of those steps that cannot be read are written again, as nothing derives from
        them. A process that was killed after the last update may have left its lock.
        """
        for name in ("update", "memory"):
            if last and (self.of("steps", last) / name).is_dir():
                part_writer.tidy(self.of("steps", last) / name)
        for step, later in run_folders.steps(self.path).items():
            if step <= last:
                continue
            for stage in later.iterdir():
                for directory in (*stage.glob("_draws/*/*"), stage):
                    if not writer.is_legible(directory):
                        console.say(f"train: `{directory}` is damaged: it is made again")
                        atomic.remove(directory)
            for name in ("update", "memory"):
                writer.reopen(later / name)

    def summary(self, step: int) -> Record:
        """The main figures of a step, from its stages; empty for step 0."""
        if not step:
            return {}
        here = self.of("steps", step)
        stages = [Shards.open(here / name) for name in OF_A_STEP]
        for before, after in itertools.pairwise(stages):
            before.require_child(after)
        rollouts, scores, advantages, update = (shards.summary for shards in stages)
        sampled = schedule.version(here / "rollouts") if self._with_staleness else None
        return {
            **{name: rollouts[name] for name in ("draws", "drawn", "prompts") if name in rollouts},
            "reward": scores["reward"],
            "missing": scores["missing"],
            **metrics_log.of_completions(rollouts),
            "informative": advantages["informative_share"],
            "floored": advantages["floored"],
            **{
                name: advantages[name] for name in ("one_reward", "no_reward") if name in advantages
            },
            **{name: update[name] for name in update if name not in ("policy", "optimizer")},
            **({"memory_loss": MemoryState.loss(here)} if self._with_memory else {}),
            **({"staleness": step - 1 - sampled} if sampled is not None else {}),
            **({"sources": figures} if (figures := by_source.of_step(here)) else {}),
        }

    def record(self, step: int, seconds: dict[str, float]) -> Record:
        """A step's record without its evaluation; of a damaged step as it was logged."""
        try:
            figures = self.summary(step)
        except DataError as error:
            console.say(f"train: {error}; the record of step {step} is as it was logged, if it was")
            figures = self._logged.get(step, {})
            figures = {n: v for n, v in figures.items() if not n.startswith("eval")}
        return {"step": step, **figures, "seconds": dict(seconds)}

    def is_evaluated(self, step: int) -> bool:
        """Whether a step's evaluation is there, also of the last step before a run was extended."""
        return all((self.of("eval", step) / name / MANIFEST).exists() for name in EVALUATION)

    def evaluation(self, step: int) -> Record:
        """The figures of a step's evaluation, as its record has them."""
        here = self.of("eval", step)
        measures = pass_at_k.run_measures(here)
        figures: Record = {"eval": measures.intervals()}
        if by_sources := by_source.of_evaluation(here, measures):
            figures["eval_sources"] = by_sources
        return figures

    def log(self, record: Record) -> None:
        metrics_log.append(self.path, record)
        self._logged[record["step"]] = record

    def repair_metrics(self, last: int) -> dict[str, float]:
        """Makes metrics.jsonl hold one line for each step before the last; the last's seconds.

        A killed run may have left a torn line, or none, for a step that is complete. What was lost
        or changed comes back from what the step stored, but for seconds that cannot be read. The
        last step's line is written by `finish_step`.
        """
        logged = metrics_log.read(self.path)
        self._logged = logged.records
        lost = [step for step in range(last) if step not in logged.records]
        if logged.damaged or lost:
            lines = f"lines {', '.join(map(str, logged.damaged))} of " if logged.damaged else ""
            console.say(
                f"train: {lines}`{self.path / metrics_log.METRICS}` "
                f"{'were damaged' if lines else 'lacked lines'}: they are made again"
            )
        for step in lost:
            logged.records[step] = self.record(step, logged.seconds.get(step, {}))
            if not self.is_evaluated(step):
                continue
            try:
                logged.records[step] |= self.evaluation(step)
            except DataError as error:
                console.say(f"train: {error}; the record of step {step} is without its evaluation")
        metrics_log.write(self.path, [logged.records[step] for step in range(last)])
        return logged.seconds.get(last, {})

    def best_step(self) -> int:
        """The evaluated step with the highest held-out Pass@1; of equal ones the earliest."""
        correct = self._evaluations()
        known = {step: share for step, share in correct.items() if share is not None}
        return max(known, key=lambda step: known[step], default=0)

    def may_be_best(self) -> set[int]:
        """The best step, and those whose evaluation was lost, or cannot be read."""
        unknown = {step for step, share in self._evaluations().items() if share is None}
        return {self.best_step(), *unknown}

    def _evaluations(self) -> dict[int, float | None]:
        """The share of correct answers at each step that was evaluated; None if it is not known."""
        logged = {step for step, record in self._logged.items() if "eval" in record}
        shares: dict[int, float | None] = {}
        for step in sorted({*run_folders.steps(self.path, "eval"), *logged}):
            if step not in self._correct:
                with contextlib.suppress(DataError, LookupError):
                    scores = Shards.open(self.of("eval", step) / "scores", "scores")
                    scores.parent("rollouts")
                    self._correct[step] = float(scores.summary["correct"] or 0.0)
            shares[step] = self._correct.get(step)
        return shares


def _state(update: Path) -> str:
    try:
        return policies.checkpoint_state(Shards.open(update, "steps"))
    except DataError:
        return "damaged"


def _is_damaged(update: Path) -> bool:
    return update.exists() and _state(update) == "damaged"
