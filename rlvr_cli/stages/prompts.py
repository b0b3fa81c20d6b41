"""The stage that makes prompts from a file, a data set, a built-in task or other prompts."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UntrustedCode, UsageError, first_line
from rlvr_cli.interop import readers
from rlvr_cli.specs import grammar
from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import ALL_PARTS, MANIFEST, Shards, Share
from rlvr_cli.storage.writer import OnPart, write_shards
from rlvr_cli.verification.scoring import rewards

PROMPTS_PER_PART = 1024
_COLUMNS = ("id_column", "prompt_column", "answer_column")
_OPTIONAL = ("limit", "task", "imported", "drop_easiest", "scores", "source", "split", "verifier")
_TASK_KEYS = ("prompt_id", "prompt", "answer", "verifier", "source", "extra")


@dataclass(frozen=True)
class Source:
    """Rows to make prompts of, what decides them, and what the summary says of them."""

    rows: list[dict[str, Any]]
    params: dict[str, Any]
    parents: dict[str, Shards] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


def load(
    source: str,
    *,
    split: str | None = None,
    verifier: str | None = None,
    columns: dict[str, str | None],
    limit: int | None = None,
) -> Source:
    """What the `prompts` command was given: a task, a prompts directory, a file or a data set.

    `columns` are the names that `from_file` takes.
    """
    params: dict[str, Any] = {"limit": limit} if limit else {}
    path = Path(source)
    verifier = verifier and rewards.pinned(verifier)
    if source.startswith("task:") or ".py:" in source:
        spec = source.removeprefix("task:")
        if split:
            spec += f"{',' if grammar.read(spec).options else ':'}split={split}"
        spec = registry.canonical("tasks", spec)
        params |= {"task": spec} | ({"verifier": verifier} if verifier else {})
        return Source(from_task(spec, verifier)[:limit], params)
    if (path / MANIFEST).exists() or any(path.glob("_partial*.json")):
        _refuse_flags(source, {"split": split, **columns})
        shards = Shards.open(path, "prompts")
        params |= {"verifier": verifier} if verifier else {}
        return Source(from_shards(shards, verifier)[:limit], params, {"prompts": shards})
    params |= {"source": source, "split": split, "verifier": verifier, **columns}
    rows = from_file(source, split=split, verifier=verifier, **columns)
    return Source(rows[:limit], params)


def _refuse_flags(source: str, given: dict[str, str | None]) -> None:
    for name, value in given.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"`{source}` holds prompts already, {flag} says nothing of them",
                f"leave {flag} out",
            )


def from_shards(prompts: Shards, verifier: str | None = None) -> list[dict[str, Any]]:
    """The rows of a prompts directory, with another verifier if one is given."""
    rows = prompts.table().to_pylist()
    return [row | {"verifier": verifier or row["verifier"]} for row in rows]


def from_task(spec: str, verifier: str | None = None) -> list[dict[str, Any]]:
    """The rows of a task, as in `expression:split=heldout`; an error if one lacks a key."""
    rows = []
    for row in registry.build("tasks", spec):
        missing = [k for k in _TASK_KEYS if not isinstance(row, dict) or k not in row]
        if missing:
            raise DataError(
                f"`{spec}` gives a row without {', '.join(f'`{name}`' for name in missing)}",
                f"each row of a task is a dict of {', '.join(_TASK_KEYS)}",
            )
        rows.append(
            {
                **row,
                "messages": json.dumps(row["prompt"]),
                "extra": _json_or_none(row["extra"]),
                "verifier": verifier or row["verifier"],
            }
        )
    return rows


def from_file(
    source: str,
    *,
    split: str | None = None,
    id_column: str | None = None,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    verifier: str | None = None,
) -> list[dict[str, Any]]:
    """The rows of a file, or of a data set that `datasets` knows by name or path.

    A prompt column holds text or a list of messages. Ids default to the source's name and the
    row's number; what else a row holds is kept as JSON in `extra`.
    """
    path, rows = Path(source), _read(source, split)
    id_name = readers.column(rows, id_column, readers.ID, "--id-column", path)
    prompt_name = readers.required(rows, prompt_column, readers.PROMPT, "--prompt-column", path)
    answer_name = readers.required(rows, answer_column, readers.ANSWER, "--answer-column", path)
    stem = path.name.partition(".")[0]
    used = {id_name, prompt_name, answer_name.partition(".")[0], "verifier"}
    prompts = []
    for number, row in enumerate(rows, 1):
        prompt, answer = readers.look_up(row, prompt_name), readers.look_up(row, answer_name)
        for name, value, flag in (
            (prompt_name, prompt, "--prompt-column"),
            (answer_name, answer, "--answer-column"),
        ):
            if value is None or value == "":
                raise DataError(
                    f"`{source}` row {number} has no `{name}`",
                    f"remove the row, or name another column with {flag}",
                )
        named = readers.look_up(row, id_name) if id_name else None
        rest = {key: value for key, value in row.items() if key not in used}
        prompts.append(
            {
                "prompt_id": str(named) if named is not None else f"{stem}-{number:06d}",
                "messages": json.dumps(prompt, default=str),
                "answer": answer if isinstance(answer, str) else json.dumps(answer, default=str),
                "verifier": verifier or row.get("verifier"),
                "source": stem,
                "extra": _json_or_none(rest),
            }
        )
    return prompts


def _read(source: str, split: str | None) -> list[dict[str, Any]]:
    """The rows of a file, or of a data set; an error if a path does not exist."""
    path = Path(source)
    if split is None and path.exists():
        return readers.read(path)
    if not path.exists() and _looks_like_a_path(source):
        raise DataError(f"`{source}` does not exist", "check the path")
    return _from_datasets(source, split or "train")


def _looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/")) or readers.is_known(Path(source)) or source.count("/") > 1


def _json_or_none(value: Any) -> str | None:
    return json.dumps(value, default=str, sort_keys=True) if value else None


def _from_datasets(source: str, split: str) -> list[dict[str, Any]]:
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    try:
        rows: list[dict[str, Any]] = load_dataset(source, split=split).to_list()
        return rows
    except Exception as error:
        raise DataError(
            f"`{source}` is no file, and `datasets` cannot load its split `{split}`: "
            f"{first_line(error)}",
            "check the path, or the name and --split",
        ) from error


def make(
    source: Source,
    out: Path,
    *,
    share: Share = ALL_PARTS,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A prompts directory; an error if two rows have one id."""
    rows = source.rows
    ids: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        if row["prompt_id"] in ids:
            raise DataError(
                f"rows {ids[row['prompt_id']]} and {number} both have the id `{row['prompt_id']}`",
                "name a column of distinct values with --id-column",
            )
        ids[row["prompt_id"]] = number
    names = {None: None} | {n: _pinned(str(n)) for n in {r["verifier"] for r in rows} - {None}}
    wanted = schema.schema("prompts")
    columns = {name: [row[name] for row in rows] for name in wanted.names}
    columns["verifier"] = [names[row["verifier"]] for row in rows]
    try:
        table = pa.table(columns, wanted)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise DataError(f"the rows do not fit the prompts schema: {error}") from error
    content = {"rows": len(rows), "content": content_hash(*columns.values())}
    parts = max(1, -(-len(rows) // PROMPTS_PER_PART))
    return write_shards(
        out,
        Plan(
            "prompts",
            "prompts",
            {**source.params, **content},
            source.parents,
            parts,
            specs={"task": lambda spec: registry.canonical("tasks", spec, spec)},
            optional=(*_OPTIONAL, *_COLUMNS),
        ),
        lambda index: table.slice(index * PROMPTS_PER_PART, PROMPTS_PER_PART),
        share=share,
        summarise=lambda shards: {"prompts": shards.rows, **source.facts},
        on_part=on_part,
    )


def _pinned(verifier: str) -> str:
    """A row's verifier; a file of the user's own is that of now, if it may run."""
    rewards.check(verifier)
    try:
        return rewards.pinned(verifier)
    except UntrustedCode:
        return verifier


def make_all_parts(rows: list[dict[str, Any]], out: Path, *, params: dict[str, Any]) -> Shards:
    """`make` without shares: the directory is complete when it returns."""
    prompts = make(Source(rows, params), out)
    assert prompts is not None, "all parts are of this share"
    return prompts


def content_hash(*columns: Any) -> str:
    """sha256 over columns of plain values."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(json.dumps(column).encode())
    return digest.hexdigest()
