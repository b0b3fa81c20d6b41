"""The tables of a report: sources, statuses, flips, and where everything comes from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlvr_cli.evaluation.measures import Measures
from rlvr_cli.report import training
from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.panels import ReportTable
from rlvr_cli.report.sources import ReportSource, ancestors
from rlvr_cli.report.subject import Subject
from rlvr_cli.report.summary import label
from rlvr_cli.storage import branch_origins
from rlvr_cli.storage.atomic import canonical_json
from rlvr_cli.terminal import tables

_LISTED = 40  # prompts named in a list of flips


def by_source(subject: Subject) -> tuple[str, ReportTable] | None:
    """Pass@1, Pass@n and UCC@n of the prompts of each source, where there are several."""
    source = subject.rows.source
    groups: dict[str, list[int]] = {}
    for row, prompt_id in enumerate(subject.tallied.prompt_id):
        groups.setdefault(source.get(prompt_id, "?"), []).append(row)
    if len(groups) < 2:
        return None
    names = list(dict.fromkeys(["pass@1", f"pass@{subject.top}", f"ucc@{subject.top}"]))
    columns = [subject.measures.names.index(name) for name in names]
    rows = []
    for name, members in sorted(groups.items()):
        value_PM = subject.measures.value_PM[np.array(members)][:, columns]
        cells = Measures([], names, value_PM).intervals()
        rows.append([name, f"{len(members):,}", *(tables.interval(n, cells[n]) for n in names)])
    return subject.name, ReportTable(["source", "prompts", *map(label, names)], rows)


def status(subjects: Sequence[Subject]) -> ReportTable:
    """How many completions of each subject have which status, and how many were truncated."""
    names = sorted({name for s in subjects for name in s.rows.status}, key=lambda n: (n != "ok", n))
    rows = [
        [s.name, *(f"{s.rows.status[name]:,}" for name in names), s.rows.truncated]
        for s in subjects
    ]
    return ReportTable(["", *names, "truncated"], rows)


def flips(pair: SubjectPair) -> dict[str, Any]:
    """The table of difficulty buckets and the prompts that flipped."""
    rows = []
    for bucket in pair.buckets:
        shares = [
            "-" if cell is None else tables.interval("pass@", cell)
            for cell in (bucket.before, bucket.after)
        ]
        counts = [f"{bucket.prompts:,}", *shares, f"{bucket.gained}", f"{bucket.lost}"]
        rows.append([f"{bucket.name}, up to {100 * bucket.most:.4g}%", *counts])
    heads = [
        f"right in {pair.first.name}", "prompts", f"Pass@1, {pair.first.name}",
        f"Pass@1, {pair.second.name}", "gained", "lost",
    ]  # fmt: skip
    return {
        "title": f"{pair.first.name} → {pair.second.name}",
        "table": ReportTable(heads, rows),
        "lists": [
            (word, ids[:_LISTED], max(0, len(ids) - _LISTED))
            for word, ids in (("gained", pair.gained), ("lost", pair.lost))
        ],
    }


def line(source: ReportSource) -> dict[str, Any]:
    """Where a source comes from: its run's configuration and its directories, oldest first."""
    lineage = next(reversed(source.lineages.values()), None)
    last = lineage and (lineage.scores or lineage.rollouts)
    directories = []
    for shards in ancestors(last) if last else []:
        manifest = shards.manifest
        directories.append(
            {
                "stage": manifest["stage"],
                "kind": shards.kind,
                "path": str(shards.path),
                "rows": f"{shards.rows:,}",
                "digest": shards.digest,
                "facts": _facts(manifest["params"]),
                "versions": ", ".join(f"{k} {v}" for k, v in manifest["versions"].items()),
            }
        )
    branched = branch_origins.known(source.path) if source.run else []
    config = [("branched from", [("", origin.described()) for origin in branched])] * bool(branched)
    config += [
        (table, _facts(values))
        for table, values in (source.run.config if source.run else {}).items()
    ]
    return {
        "name": source.name,
        "path": str(source.path),
        "directories": directories,
        "config": config,
        "seconds": [
            (stage, f"{value:,.1f} s", f"{share:.0%}")
            for stage, value, share in (training.seconds(source.run) if source.run else [])
        ],
    }


def _facts(values: Any) -> list[tuple[str, str]]:
    if not isinstance(values, dict):
        return [("", str(values))]
    return [
        (name, value if isinstance(value, str) else canonical_json(value))
        for name, value in values.items()
        if value is not None
    ]
