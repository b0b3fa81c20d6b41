"""What a report is about: runs of train, and directories with scores."""

import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import lineage
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.storage.shards import MANIFEST, Shards

MOST = 6  # lines that can be told apart in one plot


@dataclass(frozen=True)
class Run:
    """A run directory of train: its configuration, and what it logged at each step."""

    path: Path
    config: dict[str, Any]
    records: list[dict[str, Any]]
    torn: int  # lines of metrics.jsonl that are no whole record
    evaluations: dict[int, Path]


@dataclass(frozen=True)
class Source:
    """One path that was given, the run in it if it is one, and its scored completions by name."""

    name: str
    path: Path
    run: Run | None
    lineages: dict[str, Lineage] = field(default_factory=dict)


def open_all(paths: list[Path]) -> list[Source]:
    """The sources in the order given; an error for none, for too many, and for one twice."""
    if not paths:
        raise UsageError("no directory was given", "name a run of train, or scores")
    if len(paths) > MOST:
        raise UsageError(
            f"{len(paths)} directories were given, a report shows at most {MOST}",
            "make several reports",
        )
    whole = [path.absolute() for path in paths]
    for path in paths:
        if whole.count(path.absolute()) > 1:
            raise UsageError(f"`{path}` was given twice", "name each directory once")
    names = _names(whole)
    sources = [_open(path, name) for path, name in zip(paths, names, strict=True)]
    if len(sources) == 1:
        return sources
    return [_last_alone(source) for source in sources]


def _open(path: Path, name: str) -> Source:
    if not path.exists():
        raise DataError(f"`{path}` does not exist", "check the path")
    if not is_run(path):
        found = lineage.find(path)
        _require_scores(found)
        return Source(name, path, None, {name: found})
    run = _run(path)
    steps = sorted({min(run.evaluations), max(run.evaluations)}) if run.evaluations else []
    found_at = {f"step {step}": lineage.find(run.evaluations[step] / "scores") for step in steps}
    return Source(name, path, run, found_at)


def parts(source: Source) -> int:
    """How many parts of scores a report of it reads."""
    return sum(len(found.scores) for found in source.lineages.values() if found.scores)


def is_run(path: Path) -> bool:
    """Whether a directory is one of train."""
    return (path / "config.toml").is_file()


def _run(path: Path) -> Run:
    try:
        config = tomllib.loads((path / "config.toml").read_text())
    except (ValueError, OSError) as error:
        raise DataError(
            f"`{path / 'config.toml'}` is not as it was written: {error}",
            "name the scores of an evaluation in it",
        ) from error
    records, torn = _records(path / "metrics.jsonl")
    scored = sorted(path.glob(f"eval/*/scores/{MANIFEST}"))
    evaluations = {int(m.parent.parent.name): m.parent.parent for m in scored}
    if not records and not evaluations:
        raise DataError(f"`{path}` has no finished step yet", "go on with its `rlvr train`")
    return Run(path, config, records, torn, evaluations)


def _records(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of metrics.jsonl, the last of each step, and how many lines are not whole."""
    found: dict[int, dict[str, Any]] = {}
    torn = 0
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
            found[int(record["step"])] = record
        except (ValueError, KeyError, TypeError):
            torn += 1
    return [found[step] for step in sorted(found)], torn


def _require_scores(found: Lineage) -> None:
    if found.scores is None:
        raise DataError(
            f"`{found.rollouts.path}` has no complete scores beside it",
            f"score it: rlvr score {found.rollouts.path}",
        )


def _last_alone(source: Source) -> Source:
    """The source with its last scores alone, under its own name."""
    if not source.lineages:
        return source
    last = next(reversed(source.lineages.values()))
    return Source(source.name, source.path, source.run, {source.name: last})


def _names(paths: list[Path]) -> list[str]:
    """The shortest ends of the paths that differ from one another."""
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names) and not set(names) & {"scores", "rollouts"}:
            return names
    return [str(path) for path in paths]


def ancestors(shards: Shards) -> list[Shards]:
    """A directory and all that it was made from that is still there, the oldest first."""
    found: dict[str, Shards] = {}
    queue = [shards]
    while queue:
        here = queue.pop()
        found[here.digest] = here
        for kind in here.manifest["parents"]:
            try:
                queue.append(here.parent(kind))
            except (DataError, LookupError):
                continue  # moved or changed: what is left of the line is shown
    return list(found.values())[::-1]
