"""Directories of metrics: a row a prompt, the means and how they were computed in the summary.

Shapes: P prompts, M metrics.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.evaluation import earlier, enough
from rlvr_cli.evaluation.measures import Measures, finite, over_files
from rlvr_cli.evaluation.tallies import Tally
from rlvr_cli.stages.prompts import content_hash
from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart, write_all_shards
from rlvr_cli.verification.scoring import rewards


def write(
    out: Path | None,
    stage: str,
    scores: Shards | None,
    tallied: Tally,
    measures: Measures,
    params: dict[str, Any],
    on_part: OnPart,
) -> Shards | None:
    """A metrics directory, if there is to be one: a row a prompt, the means in its summary."""
    if out is None:
        return None
    columns: dict[str, Any] = {
        "prompt_id": tallied.prompt_id,
        "source": tallied.source,
        "n": tallied.n_P,
        "correct": tallied.correct_P,
        "excluded": tallied.excluded_P,
    }
    parents = {"scores": scores} if scores else {}
    facts = summary(tallied, measures)
    return write_metrics(out, stage, columns, measures, params, parents, facts, on_part)


def write_metrics(
    out: Path,
    stage: str,
    columns: dict[str, Any],
    measures: Measures,
    params: dict[str, Any],
    parents: dict[str, Shards],
    facts: dict[str, Any],
    on_part: OnPart,
    behaviour: Mapping[str, int] | None = None,
) -> Shards:
    """A metrics directory of these columns and measures; its content is a parameter too.

    `behaviour` is the version of each definition that has changed: see `Plan`.
    """
    counts = [list(map(int, columns[name])) for name in ("n", "correct")]
    content = content_hash(columns["prompt_id"], *counts, _plain(measures.value_PM))
    columns |= {name: measures.value_PM[:, m] for m, name in enumerate(measures.names)}
    extra = tuple(measures.names)
    table = pa.table(columns).cast(schema.schema("metrics", extra))
    return write_all_shards(
        out,
        Plan(
            "metrics",
            stage,
            params | {"content": content},
            parents,
            1,
            extra=extra,
            specs={
                "equality": _equality_meant,
                "content": lambda stored: earlier.content(
                    stored, content, out, table, behaviour or {}
                ),
            },
            optional=("equality", "min_n"),
            behaviour=behaviour or {},
        ),
        lambda _: table,
        summarise=lambda _: facts,
        on_part=on_part,
    )


def _equality_meant(stored: str) -> str:
    """The verifiers that compared answers, with all options that this version has."""
    return " ".join(
        spec if spec in ("text", "none") else rewards.canonical(spec, spec)
        for spec in stored.split(" ")
    )


def _plain(value_PM: np.ndarray) -> list[list[float | None]]:
    return [list(map(finite, row)) for row in value_PM.tolist()]


def summary(tallied: Tally, measures: Measures) -> dict[str, Any]:
    """Counts, the `estimates` of each metric, and [mean, low, high] by source."""
    pooled = over_files(tallied, measures)
    return {
        "prompts": len(pooled.prompt_id),
        "n": [int(tallied.n_P.min()), int(tallied.n_P.max())],
        "excluded": int(tallied.excluded_P.sum()),
        "repeated": tallied.repeated,
        "left_out": tallied.left_out,
        "left_out_for": enough.left_out_for(tallied),
        **pooled.estimates(),
        "sources": by_source(tallied, measures),
        "read": tallied.read,
    }


def by_source(tallied: Tally, measures: Measures) -> dict[str, dict[str, Any]]:
    """Prompts and [mean, low, high] of each metric by source; empty unless there are several."""
    if len(set(tallied.source)) < 2:
        return {}
    rows: dict[str, list[int]] = {}
    for row, source in enumerate(tallied.source):
        rows.setdefault(source or "", []).append(row)
    return {
        source: {"prompts": len(members), "metrics": measures.of(members).intervals()}
        for source, members in rows.items()
    }
