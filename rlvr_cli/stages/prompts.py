"""The stage that makes prompts from a file, a data set, a built-in task or other prompts."""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.config import ImageOptions
from rlvr_cli.errors import DataError, Untrusted, UsageError
from rlvr_cli.models import messages, questions
from rlvr_cli.specs import grammar
from rlvr_cli.stages import prompt_images, reading
from rlvr_cli.stages.reading import Source as Source, json_or_none
from rlvr_cli.storage import schema
from rlvr_cli.storage.begun import begun_with, is_begun
from rlvr_cli.storage.images import COLUMN, KIND, Image, Images, write
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.storage.writer import OnPart, resume, write_shards
from rlvr_cli.terminal import plural
from rlvr_cli.verification.scoring import joins, rewards

PROMPTS_PER_PART = 1024
_HASHED = ("prompt_id", "messages", "answer", "verifier", "source", "extra")  # not what is derived
_COLUMNS = ("id_column", "prompt_column", "answer_column")
_OPTIONAL = (
    *(
        "limit",
        "skip",
        "task",
        "imported",
        "drop_easiest",
        "keep_rate",
        "scores",
        "source",
        "split",
    ),
    *("layout", "drop_unusable", "drop_duplicates", "drop_answer_turn", "sources", "weights"),
    *("verifier", "without", "benchmark", "image_column", "max_pixels"),
)
_TASK_KEYS = ("prompt_id", "prompt", "answer", "verifier", "source", "extra")


def load(
    source: str,
    *,
    split: str | None = None,
    verifier: str | None = None,
    columns: dict[str, str | None],
    layout: str | None = None,
    drop_unusable: bool = False,
    limit: int | None = None,
    drop_answer_turn: bool = False,
    skip: int = 0,
    images: ImageOptions = ImageOptions(),
) -> Source:
    """What the `prompts` command was given: a task, a prompts directory, a file or a data set.

    `columns` are the names that `reading.from_file` takes. A prompt that ends with the assistant's
    turn is refused, or with `drop_answer_turn` loses it. The first `skip` rows are left out.
    """
    given = _load(source, split, verifier, columns, layout, drop_unusable, limit, skip, images)
    return _without_answers(given, drop=drop_answer_turn)


def _load(
    source: str,
    split: str | None,
    verifier: str | None,
    columns: dict[str, str | None],
    layout: str | None,
    drop_unusable: bool,
    limit: int | None,
    skip: int,
    images: ImageOptions,
) -> Source:
    params: dict[str, Any] = {"limit": limit} if limit else {}
    params |= {"skip": skip} if skip else {}
    path = Path(source)
    verifier = verifier and rewards.pinned(verifier)
    if source.startswith("task:") or ".py:" in source:
        _refuse_flags(f"`{source}` is a task", {"layout": layout, **columns, **vars(images)})
        spec = source.removeprefix("task:")
        if split:
            spec += f"{',' if grammar.read(spec).options else ':'}split={split}"
        spec = registry.canonical("tasks", spec)
        params |= {"task": spec} | ({"verifier": verifier} if verifier else {})
        rows = named(source, _kept(source, from_task(spec), skip, limit), verifier)
        return Source(rows, params)
    if is_begun(path):
        _refuse_flags(
            f"`{source}` holds prompts already",
            {"split": split, "layout": layout, **columns, **vars(images)},
        )
        shards = Shards.open(path, "prompts")
        params |= {"verifier": verifier} if verifier else {}
        rows = named(source, _kept(source, from_shards(shards), skip, limit), verifier)
        return Source(rows, params, {"prompts": shards})
    params |= {"source": source, "split": split, "verifier": verifier, **columns}
    stored = ("image_column", "max_pixels")
    params |= {name: value for name in stored if (value := getattr(images, name)) is not None}
    read = reading.from_file(
        source, split=split, verifier=verifier, layout=layout, drop_unusable=drop_unusable,
        limit=limit and skip + limit, images=images, **columns,
    )  # fmt: skip
    rows = named(source, _kept(source, read.rows, skip, limit), verifier)
    return replace(read, rows=rows, params=params | read.params)


def named(source: str, rows: list[dict[str, Any]], verifier: str | None) -> list[dict[str, Any]]:
    """The rows with the verifier that is given, or with that which it names for each of them."""
    if not verifier:
        return rows
    by = joins.per_value(verifier)
    if by is None:
        return [row | {"verifier": verifier} for row in rows]
    by.require(rows, f"`{source}`")
    return [row | {"verifier": by.of_row(row)} for row in rows]


def _kept(
    source: str, rows: list[dict[str, Any]], skip: int, limit: int | None
) -> list[dict[str, Any]]:
    """The rows after the first `skip`, at most `limit` of them."""
    if skip and skip >= len(rows):
        raise UsageError(
            f"--skip is {skip}, and `{source}` has {plural.of(len(rows), 'row')}", "leave out fewer"
        )
    return rows[skip : skip + limit if limit else None]


def _without_answers(source: Source, *, drop: bool) -> Source:
    """The source with prompts that the policy may see, and with what was changed to be so."""
    rows, dropped = [], 0
    shapes = Counter(row["shape"] for row in source.rows if row.get("shape"))
    remarks = [
        *source.remarks,
        *(f"{plural.of(count, 'prompt')} read from {sh}" for sh, count in shapes.items()),
    ]
    for row in source.rows:
        prompt = messages.stored(row["messages"], row["prompt_id"])
        if not drop:
            messages.refuse_answer(prompt, row["prompt_id"])
        elif messages.ends_with_answer(prompt):
            dropped += 1
            shortened = messages.without_answer(prompt, row["prompt_id"])
            row = row | {"messages": json.dumps(shortened)}
            if row.get("images"):  # in the order of the messages, of which the last are gone
                row["images"] = row["images"][: len(messages.images(shortened))]
        rows.append(row)
    if not drop:
        return replace(source, remarks=tuple(remarks))
    remarks.append(
        f"the assistant's turn at the end of {plural.of(dropped, 'prompt')} was left out"
    )
    params = source.params | {"drop_answer_turn": True}
    return replace(source, rows=rows, params=params, remarks=tuple(remarks))


def _refuse_flags(what: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{what}, {flag} says nothing of it",
                f"leave {flag} out",
            )


def from_shards(prompts: Shards) -> list[dict[str, Any]]:
    """The rows of a prompts directory."""
    raws = [raw for part in questions.parts_with_raw(prompts) for raw in part["raw"].to_pylist()]
    rows = [row for part in prompts.parts() for row in part.to_pylist()]
    rows = with_images(prompts, rows)
    return [row | {"raw": raw} for row, raw in zip(rows, raws, strict=True)]


def with_images(prompts: Shards, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a prompts directory with their images in place of the names of these."""
    if images := Images.of(prompts):
        return [row | {"images": images.images_of(row["prompt_id"])} for row in rows]
    return rows


def from_task(spec: str) -> list[dict[str, Any]]:
    """The rows of a task, as in `expression:split=heldout`; an error if one lacks a key.

    A part of a message `{"type": "image", "image": ...}` holds an image of Pillow, or the bytes of
    a file.
    """
    rows = []
    for row in registry.build("tasks", spec):
        missing = [k for k in _TASK_KEYS if not isinstance(row, dict) or k not in row]
        if missing:
            raise DataError(
                f"`{spec}` gives a row without {', '.join(f'`{name}`' for name in missing)}",
                f"each row of a task is a dict of {', '.join(_TASK_KEYS)}",
            )
        prompt, images = prompt_images.of_task(spec, row)
        rows.append(
            {
                **row,
                "raw": row.get("raw", True),
                "messages": json.dumps(prompt),
                "extra": json_or_none(row["extra"]),
                "images": images,
            }
        )
    return rows


def make(
    source: Source,
    out: Path,
    *,
    share: Share = ALL_PARTS,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A prompts directory; an error if two rows have one id."""
    rows = source.rows
    _require_distinct_ids(rows)
    images = [image for row in rows for image in row.get("images") or ()]
    only = schema.with_images() if images else None
    columns = _columns(rows, only)
    try:
        table = pa.table(columns, schema.schema("prompts", only=only))
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise DataError(f"the rows do not fit the prompts schema: {error}") from error
    content = {"rows": len(rows), "content": content_hash(*(columns[name] for name in _HASHED))}
    plan = Plan(
        "prompts",
        "prompts",
        {**source.params, **content},
        source.parents,
        max(1, -(-len(rows) // PROMPTS_PER_PART)),
        specs={
            "task": lambda spec: registry.canonical("tasks", spec, spec),
            "layout": lambda spec: registry.canonical("layouts", spec, spec),
        },
        optional=(*_OPTIONAL, *_COLUMNS),
    )
    counted = {"images": len({image.sha256 for image in images})} if images else {}
    return write_shards(
        out,
        _with_images(plan, out, images, only) if images else plan,
        lambda index: table.slice(index * PROMPTS_PER_PART, PROMPTS_PER_PART),
        share=share,
        summarise=lambda shards: {"prompts": shards.rows, **counted, **source.facts},
        on_part=on_part,
    )


def _require_distinct_ids(rows: list[dict[str, Any]]) -> None:
    ids: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        if row["prompt_id"] in ids:
            raise DataError(
                f"rows {ids[row['prompt_id']]} and {number} both have the id `{row['prompt_id']}`",
                "name a column of distinct values with --id-column, or none to number the rows",
            )
        ids[row["prompt_id"]] = number


def _columns(rows: list[dict[str, Any]], only: tuple[str, ...] | None) -> dict[str, list[Any]]:
    """The columns of prompts by name; with `only` those that it names, images among them."""
    columns = {name: [row.get(name) for row in rows]
               for name in schema.schema("prompts", only=only).names}  # fmt: skip
    names = {None: None} | {n: _pinned(str(n)) for n in {r["verifier"] for r in rows} - {None}}
    columns["verifier"] = [names[row["verifier"]] for row in rows]
    if COLUMN in columns:
        columns[COLUMN] = [[i.sha256 for i in row.get("images") or ()] or None for row in rows]
    return columns


def _with_images(plan: Plan, out: Path, images: list[Image], only: tuple[str, ...] | None) -> Plan:
    """The plan of prompts whose images are written now; an error if it is not that of `out`."""
    if begun_with(out).get("content", plan.params["content"]) != plan.params["content"]:
        resume(out, plan)  # an error that says which params differ
    return replace(plan, only=only, parents={**plan.parents, KIND: write(out, images)})


def _pinned(verifier: str) -> str:
    """A row's verifier; a file of the user's own is that of now, if it may run."""
    rewards.check(verifier)
    try:
        return rewards.pinned(verifier)
    except Untrusted:
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
