"""What a report is about: runs of train, and directories with scores."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import lineage, metrics_log, run_folders
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.storage.shards import Shards

MOST = 6  # lines that a reader can distinguish in one plot


class NothingYet(DataError):
    """A run has no finished step."""


@dataclass(frozen=True)
class RunLog:
    """A run directory of train: its configuration, and what it logged at each step."""

    path: Path
    config: dict[str, Any]
    records: list[dict[str, Any]]
    torn: int  # incomplete lines of metrics.jsonl
    evaluations: dict[int, Path]

    @property
    def incomplete(self) -> list[str]:
        """The steps that ended and whose rollouts or scores are gone, and such evaluations."""
        complete = {
            kind: set.intersection(
                *(set(run_folders.complete(self.path, kind, s)) for s in ("rollouts", "scores"))
            )
            for kind in ("steps", "eval")
        }
        steps = [
            r["step"] for r in self.records if r["step"] and r["step"] not in complete["steps"]
        ]
        evaluated = [r["step"] for r in self.records if "eval" in r]
        return [f"step {step}" for step in steps] + [
            f"the evaluation of step {step}" for step in evaluated if step not in complete["eval"]
        ]

    @property
    def progress(self) -> tuple[int, int]:
        """Its last finished step, and how many it is to have."""
        logged = [int(record["step"]) for record in self.records[-1:]]
        return max([0, *logged, *self.evaluations]), int(self.config["train"]["steps"])


@dataclass(frozen=True)
class ReportSource:
    """One path that was given, the run in it if it is one, and its scored completions by name."""

    name: str
    path: Path
    run: RunLog | None
    lineages: dict[str, Lineage] = field(default_factory=dict)


def open_all(paths: list[Path]) -> list[ReportSource]:
    """The sources in the order given; an error for none, for too many, and for one twice."""
    if not paths:
        raise UsageError("no directory was given", "name a run of train, or scores")
    if len(paths) > MOST:
        raise UsageError(
            f"{len(paths)} directories were given, a report shows at most {MOST}",
            "make several reports",
        )
    absolute = [path.absolute() for path in paths]
    for path in paths:
        if absolute.count(path.absolute()) > 1:
            raise UsageError(f"`{path}` was given twice", "name each directory once")
    names = _names(absolute)
    sources = [_open(path, name) for path, name in zip(paths, names, strict=True)]
    if len(sources) == 1:
        return sources
    return [_last_alone(source) for source in sources]


def _open(path: Path, name: str) -> ReportSource:
    if not path.exists():
        raise DataError(f"`{path}` does not exist", "check the path")
    if not run_folders.is_run(path):
        directories = lineage.find(path)
        _require_scores(directories)
        return ReportSource(name, path, None, {name: directories})
    run = _run(path)
    steps = sorted({min(run.evaluations), max(run.evaluations)}) if run.evaluations else []
    by_step = {f"step {step}": lineage.find(run.evaluations[step] / "scores") for step in steps}
    return ReportSource(name, path, run, by_step)


def parts(source: ReportSource) -> int:
    """How many parts of scores a report of it reads."""
    return sum(
        len(directories.scores) for directories in source.lineages.values() if directories.scores
    )


def _run(path: Path) -> RunLog:
    config = run_folders.config(path)
    logged = metrics_log.read(path)
    records, torn = list(logged.records.values()), len(logged.damaged)
    evaluations = run_folders.complete(path, "eval", "scores")
    if not records and not evaluations:
        raise NothingYet(f"`{path}` has no finished step yet", "resume its `rlvr train`")
    return RunLog(path, config, records, torn, evaluations)


def _require_scores(directories: Lineage) -> None:
    if directories.scores is None:
        raise DataError(
            f"`{directories.rollouts.path}` has no complete scores next to it",
            f"score it: rlvr score {shlex.quote(str(directories.rollouts.path))}",
        )


def _last_alone(source: ReportSource) -> ReportSource:
    """The source with only its last scores, under its own name."""
    if not source.lineages:
        return source
    last = next(reversed(source.lineages.values()))
    return ReportSource(source.name, source.path, source.run, {source.name: last})


def _names(paths: list[Path]) -> list[str]:
    """The shortest ends of the paths that differ from one another."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names) and not set(names) & {"scores", "rollouts"}:
            return names
    return [str(path) for path in paths]


def ancestors(shards: Shards) -> list[Shards]:
    """A directory and those of its ancestors that still exist, the oldest first."""
    by_digest: dict[str, Shards] = {}
    queue = [shards]
    while queue:
        here = queue.pop()
        if here.digest in by_digest:
            continue
        by_digest[here.digest] = here
        for kind in here.manifest["parents"]:
            try:
                queue += here.parent(kind).inputs
            except (DataError, LookupError):
                continue  # moved or changed: the rest of the lineage is shown
    return list(by_digest.values())[::-1]
