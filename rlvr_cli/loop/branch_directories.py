"""Makes the directories of branches: links to shared files, and new scores by another verifier.

A branch is made in a temporary folder and moves to its place when it is complete. Verdicts of a
verifier that the run does not have are made once for all branches that need them.
"""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop import schedule
from rlvr_cli.loop.branching import Branch, Choice, Plan
from rlvr_cli.loop.linking import Links
from rlvr_cli.loop.run_directory import EVALUATION, OF_A_STEP, RunDirectory
from rlvr_cli.models import memory_model
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.stages import logprob
from rlvr_cli.stages.dynamic import DRAWS
from rlvr_cli.storage import atomic, branch_origins, fetched, locks, metrics_log, run_folders
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.branch_origins import Origin
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import console, plural

_TEMPORARY = "_tmp-branches"
_STAGES = (*OF_A_STEP, "logprobs", "memory")
_OF_ANY_BRANCH = ("policy", "prompts", "heldout", "memory_model")  # of inputs.json
Record = dict[str, Any]


@dataclass
class Created:
    """The branches that were made, in order, those that existed, and how much was shared."""

    new: list[Branch] = field(default_factory=list)
    existing: list[Branch] = field(default_factory=list)
    shared_bytes: int = 0
    copied_bytes: int = 0
    completions: int = 0  # of the next step, which are shared
    scored: int = 0
    lacking: dict[str, None] = field(default_factory=dict)  # what of the run is damaged or gone


def create(plan: Plan, out: Path, *, copy: bool = False) -> Created:
    """Makes the branches that do not exist yet; with `copy` also across file systems."""
    created = Created()
    policy = _policy(plan, plan.at)
    for branch in plan.branches:
        exists = branch.path.exists()
        if exists and not _is_same(plan, branch, policy):
            raise UsageError(
                f"`{branch.path}` exists, and is not this branch of `{plan.run}`",
                "choose another --out",
            )
        (created.existing if exists else created.new).append(branch)
    if not created.new:
        return created
    temporary = out / _TEMPORARY
    with atomic.made_folder(out), locks.locked(out / "_lock", across_machines=True):
        atomic.remove(temporary)
        try:
            maker = _BranchMaker(plan, temporary, Links(plan.run, copy=copy), policy, created)
            for branch in created.new:
                maker.make(branch)
            os.sync()
            for branch in created.new:
                (temporary / branch.path.name).rename(branch.path)
            atomic.sync_folder(out)
        finally:
            atomic.remove(temporary)
    return created


def _policy(plan: Plan, step: int) -> str:
    """The digest of the run's policy after a step."""
    if not step:
        return RunDirectory(plan.run).require_inputs({})["policy"]
    update = RunDirectory(plan.run).of("steps", step) / "update"
    return str(Shards.open(update).summary["policy"])


def _is_same(plan: Plan, branch: Branch, policy: str) -> bool:
    """Whether the directory of a branch holds that branch already."""
    origin, begun = branch_origins.newest(branch.path), RunDirectory(branch.path).begun()
    if origin is None or begun is None or (origin.at, origin.policy) != (plan.at, policy):
        return False
    chosen = (branch.config.train.algo, branch.config.train.verifier)
    files = branch.algo.origins | branch.verifier.origins
    inputs = RunDirectory(branch.path).require_inputs({})
    same_files = all(inputs.get(name) == digest for name, digest in files.items())
    return same_files and (begun["train"]["algo"], begun["train"]["verifier"]) == chosen


@dataclass
class _BranchMaker:
    plan: Plan
    temporary: Path
    links: Links
    policy: str
    created: Created
    scored_in: dict[str, Path] = field(default_factory=dict)  # by verifier, a branch that has them

    def make(self, branch: Branch) -> None:
        """Makes a complete branch in the temporary folder."""
        plan, folder = self.plan, self.temporary / branch.path.name
        folder.mkdir(parents=True)
        for split in ("train", "heldout"):
            self._share(Path("prompts") / split, branch)
        self.links.folder(Path(memory_model.FOLDER), folder)
        for step in (s for s in run_folders.steps(plan.run) if s <= plan.at):
            for stage in _STAGES:
                inner = _inner("steps", step) / stage
                if not self._share(inner, branch) and stage in OF_A_STEP:
                    self.created.lacking[str(inner)] = None
        if plan.at and not (folder / _inner("steps", plan.at) / "update" / CHECKPOINT).exists():
            raise DataError(
                f"the checkpoint of step {plan.at} of `{plan.run}` was removed meanwhile",
                "run the same command again: it names one that exists",
            )
        self._share_next(branch)
        stages = EVALUATION if branch.verifier.is_own else ("rollouts", "logprobs")
        for step in (s for s in run_folders.steps(plan.run, "eval") if s <= plan.at):
            for stage in stages:
                self._share(_inner("eval", step) / stage, branch)
        if not branch.verifier.is_own:
            self._score(branch, folder)
        self._configure(branch, folder)
        self.created.shared_bytes = self.links.shared
        self.created.copied_bytes = self.links.copied

    def _share(self, inner: Path, branch: Branch, source: Path | None = None) -> bool:
        """Shares a directory of a stage if it is complete, with the draws that it was made from."""
        folder = self.temporary / branch.path.name
        for draw in sorted((self.plan.run / inner).glob(f"{DRAWS}/*/*")):
            self.links.shards(draw.relative_to(self.plan.run), folder, branch.path)
        return self.links.shards(inner, folder, branch.path, source)

    def _share_next(self, branch: Branch) -> None:
        """Shares the unchanged directories of the next step, as far as the run has made them.

        With `--ahead` also of the steps that the run sampled from policies up to the branch.
        """
        at, train = self.plan.at, branch.config.train
        for step in range(at + 1, min(at + 1 + train.ahead, train.steps) + 1):
            sampled = at
            if train.ahead:
                rollouts = self.plan.run / _inner("steps", step) / "rollouts"
                sampled = schedule.version(rollouts) or 0
            if sampled <= at:
                self._share_sampled(step, branch, _policy(self.plan, sampled))

    def _share_sampled(self, step: int, branch: Branch, policy: str) -> None:
        """Shares the unchanged directories of a step if `policy` sampled its rollouts."""
        inner, train = _inner("steps", step), branch.config
        folder = self.temporary / branch.path.name
        draws = sorted((self.plan.run / inner).glob(f"rollouts/{DRAWS}/*/rollouts"))
        first = next(iter(draws), self.plan.run / inner / "rollouts")
        if begun_with(first).get("policy") != policy:
            return
        if train.rollout.max_draws > 1 and not branch.verifier.is_own:  # it decides what is drawn
            shared = [
                draw.relative_to(self.plan.run)
                for draw in draws
                if self.links.shards(draw.relative_to(self.plan.run), folder, branch.path)
            ]
            rows = sum(Shards.open(folder / draw).rows for draw in shared)
            self.created.completions = max(self.created.completions, rows)
            return
        if not self._share(inner / "rollouts", branch):
            return
        self.created.completions = Shards.open(folder / inner / "rollouts").rows
        if _read(branch.algo.text) == _read(self.plan.config.train.algo):
            self._share(inner / "logprobs", branch)
        if branch.verifier.is_own:
            self._share(inner / "scores", branch)
            if branch.algo.is_own:
                self._share(inner / "advantages", branch)

    def _score(self, branch: Branch, folder: Path) -> None:
        """Scores the shared completions by another verifier, or shares such scores."""
        before = self.scored_in.get(branch.verifier.text)
        evaluated = sorted(folder.glob(f"eval/*/rollouts/{MANIFEST}"))
        following = folder / _inner("steps", self.plan.at + 1) / "rollouts" / MANIFEST
        rollouts = [path.parent for path in (*evaluated, following) if path.exists()]
        if before:
            for directory in rollouts:
                inner = (directory.parent / "scores").relative_to(folder)
                self._share(inner, branch, source=before)
            return
        self.scored_in[branch.verifier.text] = folder
        verification = self.plan.verification(branch.verifier)
        assert verification.scorer
        with verification.scorer:
            for directory in rollouts:
                scores = verification.run(Shards.open(directory), directory.parent / "scores")
                assert scores is not None, "all parts are of this share"
                self.created.scored += scores.rows
                _say_faults(branch.verifier, scores)

    def _configure(self, branch: Branch, folder: Path) -> None:
        """Writes the files of the run itself: its configuration, inputs, origin and metrics."""
        plan, config = self.plan, branch.config
        own = RunDirectory(plan.run).require_inputs({})
        inputs = {name: own[name] for name in _OF_ANY_BRANCH if name in own}
        inputs |= branch.algo.origins | branch.verifier.origins
        inputs |= registry.origins("rollout", config.rollout.engine)
        inputs |= registry.origins("training", config.train_step.trainer)
        origin = Origin(fetched.named_from(plan.run, branch.path), plan.at, self.policy,
                        _changed(plan, branch))  # fmt: skip
        earlier = branch_origins.seen_from(branch_origins.of(plan.run), plan.run, branch.path)
        inputs[branch_origins.INPUT] = branch_origins.keep(folder, [origin, *earlier])
        directory = RunDirectory(folder)
        with directory.lock_and_check_config(config):
            directory.keep_inputs(inputs)
        metrics_log.write(folder, self._records(branch, directory))

    def _records(self, branch: Branch, directory: RunDirectory) -> list[Record]:
        """The records of the run, with evaluations by the branch's own verifier."""
        logged = metrics_log.read(self.plan.run).records
        records = [record for step, record in logged.items() if step <= self.plan.at]
        return records if branch.verifier.is_own else [_again(r, directory) for r in records]


def _inner(kind: str, step: int) -> Path:
    return Path(kind) / run_folders.name(step)


def _read(algo: str) -> tuple[tuple[str, ...], int]:
    """The columns of log-probs that an objective reads, and its top-k."""
    objective = objectives.build(algo)
    return logprob.read_columns(objective.needs), objective.top_k


def _again(record: Record, directory: RunDirectory) -> Record:
    """A record with the figures of its evaluation as it is scored now."""
    if "eval" not in record:
        return record
    others = {name: v for name, v in record.items() if name not in ("eval", "eval_sources")}
    with contextlib.suppress(DataError):  # of a damaged one; `train` makes it again, or says so
        return others | directory.evaluation(record["step"])
    return others


def _changed(plan: Plan, branch: Branch) -> dict[str, tuple[str, str]]:
    changed = {}
    for name, choice in (("algo", branch.algo), ("verifier", branch.verifier)):
        if not choice.is_own:
            was, now = str(vars(plan.config.train)[name]), choice.text
            files = ", ".join(f"{file} {digest}" for file, digest in choice.origins.items())
            changed[name] = (was, f"{now} ({files})" if was == now and files else now)
    return changed


def _say_faults(verifier: Choice, scores: Shards) -> None:
    faults = {name: n for name, n in scores.summary["status"].items() if n and name != "ok"}
    missing = scores.summary["missing"]
    if missing:
        listed = ", ".join(f"{count} {name}" for name, count in faults.items())
        console.say(
            f"warning: `{verifier.text}` gives {missing} of {scores.rows} completions of "
            f"`{scores.path.parent.parent.name}/{scores.path.parent.name}` no reward: {listed}"
        )


def remarks(plan: Plan, created: Created) -> list[str]:
    """What was done, in a line or two."""
    said = []
    copied_mb = created.copied_bytes / 1e6
    if created.new:
        each = (created.shared_bytes / 1e6 + copied_mb) / len(created.new)
        text = (
            f"{plural.of(len(created.new), 'run')} with {each:,.1f} MB of `{plan.run}` "
            f"up to step {plan.at}"
        )
        if created.completions:
            completions = plural.of(created.completions, "completion")
            text += f", and with the {completions} of step {plan.at + 1}"
        how = f"{copied_mb:,.1f} MB were copied" if copied_mb else "shared"
        said.append(f"{text}: {how}")
    if created.lacking:
        lacking = plural.of(len(created.lacking), "directory", "directories")
        said.append(
            f"warning: {lacking} of `{plan.run}` damaged or gone, as "
            f"`{next(iter(created.lacking))}`: the branches lack them too"
        )
    if created.scored:
        said.append(
            f"scored again: {plural.of(created.scored, 'stored completion')}, evaluations too"
        )
    if created.new and not created.completions:
        said.append(
            f"`{plan.run}` holds no completions of step {plan.at + 1} that they could share: each "
            "samples its own"
        )
    said += [f"`{branch.path}` existed already" for branch in created.existing]
    return said


def summary(plan: Plan, created: Created) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "run": str(plan.run),
        "at": plan.at,
        "branches": [
            {
                "path": str(branch.path),
                "algo": branch.config.train.algo,
                "verifier": branch.config.train.verifier,
                "changed": {n: list(pair) for n, pair in _changed(plan, branch).items()},
                "made": branch in created.new,
                "command": branch.command,
            }
            for branch in plan.branches
        ],
        "shared_bytes": created.shared_bytes,
        "copied_bytes": created.copied_bytes,
        "completions": created.completions,
        "scored": created.scored,
    }
