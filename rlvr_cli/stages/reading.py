"""Prompts of a file or a data set, whose columns its layout or their names identify."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli import registry
from rlvr_cli.config import ImageOptions
from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.interop import data_sets, readers, spoken
from rlvr_cli.interop.names import id_text
from rlvr_cli.models import messages
from rlvr_cli.protocols import Layout, Unusable
from rlvr_cli.stages.prompt_images import RowImages
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import plural
from rlvr_cli.terminal.escape import brief

NO_COLUMN = "none"  # the name of the id column of rows that are numbered, and of no golds


@dataclass(frozen=True)
class Source:
    """Rows to make prompts of, what decides them, and what the summary says of them."""

    rows: list[dict[str, Any]]
    params: dict[str, Any]
    parents: dict[str, Shards] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def from_file(
    source: str,
    *,
    split: str | None = None,
    id_column: str | None = None,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    verifier: str | None = None,
    layout: str | None = None,
    drop_unusable: bool = False,
    limit: int | None = None,
    images: ImageOptions = ImageOptions(),
) -> Source:
    """The prompts of a file or a data set.

    Its layout is the one given or, where no column is named, the one that its columns are of (see
    layouts/); without one a prompt column holds text or a list of messages. Ids default to the
    source's name and the row's number; `source` or `data_source` of a row is its source; what else
    a row holds is kept as JSON in `extra`.
    """
    data = data_sets.read(source, split)
    of_rows = RowImages(data, source, images)
    chosen = _layout(data.rows, source, layout, (prompt_column, answer_column))
    id_name = None
    if id_column != NO_COLUMN:
        id_name = readers.column(data.rows, id_column, readers.ID, "--id-column", Path(source))
    remarks: list[str] = []
    if chosen:
        read = registry.build("layouts", chosen)
        remarks += [] if layout else [_described(chosen, verifier)]
    else:
        names = _columns(data.rows, source, prompt_column, answer_column)
        read = _by_columns(*names)
        remarks += _guessed(*names, prompt_column, answer_column)
    rows: list[dict[str, Any]] = []
    unusable = Counter[str]()
    first = 0
    for number, row in enumerate(data.rows, 1):
        if limit and len(rows) == limit:
            break
        named = readers.look_up(row, id_name) if id_name else None
        prompt_id = id_text(named) if named is not None else f"{data.name}-{number:06d}"
        try:
            fields = _read(row, read, chosen)
            fields |= {"answer": _gold(fields["answer"])}
            asked = of_rows.asked(fields["prompt"], prompt_id, row)
        except Unusable as error:
            first = first or number
            unusable[str(error)] += 1
            continue
        rest, used = of_rows.without(row), {id_name, "verifier"}
        rows.append(asked | _prompt(rest, fields, prompt_id, data.name, verifier, used))
    if unusable and (not drop_unusable or not rows):
        raise _unusable(source, len(data.rows), first, unusable, of_rows.hint())
    remarks += of_rows.remarks()
    remarks += _lacking(rows) if chosen else ()
    remarks += [f"left out {_counted(unusable)}"] if unusable else []
    facts = {"unusable": unusable.total()} if drop_unusable else {}
    params: dict[str, Any] = {"layout": registry.canonical("layouts", chosen)} if chosen else {}
    params |= {"drop_unusable": True} if drop_unusable else {}
    return Source(rows, params, facts=facts, remarks=tuple(remarks))


def _lacking(rows: list[dict[str, Any]]) -> Iterator[str]:
    """A remark on prompts that a layout gives no verifier."""
    if lacking := sum(row["verifier"] is None for row in rows):
        yield f"{plural.of(lacking, 'prompt')} without a verifier: name one with --verifier"


def _read(row: dict[str, Any], read: Layout, layout: str | None) -> dict[str, Any]:
    """What a layout says of a row; one of another shape is unusable."""
    try:
        return read(row)
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        what = f"{type(error).__name__}: {first_line(error)}"
        raise Unusable(f"it has not the shape of {layout or 'a prompt'}: {what}") from error


def _layout(
    rows: list[dict[str, Any]], source: str, given: str | None, named: tuple[str | None, ...]
) -> str | None:
    """The spec of the layout of these rows; None where there is none, or it is not to be used."""
    if given == "none":
        return None
    if given:
        if any(named):
            raise UsageError(
                f"--layout is {given}, which decides the columns of `{source}`",
                "leave --prompt-column and --answer-column out, or say --layout none",
            )
        return given
    if any(named):
        return None
    modules = ((name, registry.module("layouts", name)) for name in registry.names("layouts"))
    return next((name for name, module in modules if module.recognises(rows)), None)


def _described(layout: str, verifier: str | None) -> str:
    says = registry.module("layouts", layout).SAYS
    if verifier:
        says = re.sub(r", the verifier [^,]*", "", says)
    return f"taken as {layout}: {says} (--layout none reads the columns as they are)"


def _columns(
    rows: list[dict[str, Any]], source: str, prompt_column: str | None, answer_column: str | None
) -> tuple[str, str | None]:
    """The columns that are named, or else those that are called as other tools call them."""
    path = Path(source)
    prompt_name = readers.required(rows, prompt_column, readers.PROMPT, "--prompt-column", path)
    answer_name = None
    if answer_column != NO_COLUMN:
        last = f"`rlvr prompts ... --answer-column {prompt_name} --drop-answer-turn`"
        answer_name = readers.required(
            rows, answer_column, readers.ANSWER, "--answer-column", path,
            (f", or take the last turn of `{prompt_name}`: {last}"
             if _is_answered(rows[0], prompt_name) else "")
            + f", or say --answer-column {NO_COLUMN} for a verifier that reads no gold",
        )  # fmt: skip
    return prompt_name, answer_name


def _is_answered(row: dict[str, Any], name: str) -> bool:
    """Whether the conversation in a column ends with a turn of the model."""
    turns = readers.look_up(row, name)
    return isinstance(turns, list) and bool(turns) and spoken.is_of_model(turns[-1])


def _guessed(prompt: str, answer: str | None, *named: str | None) -> Iterator[str]:
    """A remark on columns that nobody named."""
    taken = zip(("prompt", "answer"), (prompt, answer), named, strict=True)
    if guessed := [(what, name) for what, name, given in taken if name and not given]:
        columns = " and ".join(f"the {what} from `{name}`" for what, name in guessed)
        flags = " and ".join(f"--{what}-column" for what, _ in guessed)
        yield f"reads {columns} ({flags} for others)"


def _by_columns(prompt_name: str, answer_name: str | None) -> Layout:
    """Reads a prompt and a gold from these columns."""

    def read(row: dict[str, Any]) -> dict[str, Any]:
        fields = {"prompt": readers.look_up(row, prompt_name), "answer": ""}
        needed = {prompt_name: fields["prompt"]}
        if answer_name:
            needed[answer_name] = fields["answer"] = readers.look_up(row, answer_name)
        for name, value in needed.items():
            if value is None or value == "":
                raise Unusable(f"it has no `{name}`")
        return fields | {"used": {name.partition(".")[0] for name in needed}}

    return read


def _prompt(
    row: dict[str, Any],
    fields: dict[str, Any],
    prompt_id: str,
    name: str,
    verifier: str | None,
    used: set[str | None],
) -> dict[str, Any]:
    """The fields of a prompt other than its messages, from a data set's row and its layout."""
    answer, used = fields["answer"], used | fields.get("used", set())
    rest = {key: value for key, value in row.items() if key not in used}
    source = fields.get("source") or row.get("source") or row.get("data_source")
    chosen = verifier or row.get("verifier") or fields.get("verifier")
    if chosen is not None and not isinstance(chosen, str):
        raise DataError(
            f"prompt `{prompt_id}`: its `verifier` is {brief(chosen)}, and one is named by a text",
            "name one for all prompts with --verifier, or write it as in `math`",
        )
    return {
        "prompt_id": prompt_id,
        "raw": False,
        "answer": answer if isinstance(answer, str) else json.dumps(answer, default=str),
        "verifier": chosen,
        "source": source if isinstance(source, str) else name,
        "extra": json_or_none(rest | fields.get("extra", {})),
    }


def _gold(answer: Any) -> Any:
    """The gold; of messages the text of the last one, which `Unusable` says is no answer."""
    if isinstance(answer, float) and math.isnan(answer):
        raise Unusable("its answer is NaN")
    if not isinstance(answer, list) or not answer or not all(map(_is_turn, answer)):
        return answer
    last = answer[-1] if "from" in answer[-1] else {"role": "assistant", **answer[-1]}
    try:
        answer_turn, _ = messages.read([last], "")
    except DataError:
        return answer
    if not messages.ends_with_answer(answer_turn):
        raise Unusable("its answer is messages whose last turn is not the assistant's")
    return messages.question(answer_turn)


def _is_turn(turn: Any) -> bool:
    is_sharegpt = isinstance(turn, dict) and {"from", "value"} <= turn.keys()
    return isinstance(turn, dict) and (is_sharegpt or isinstance(turn.get("content"), str | list))


def _unusable(
    source: str, rows: int, first: int, reasons: Counter[str], hint: str = ""
) -> DataError:
    """The refusal of rows that cannot be a prompts."""
    drop = "or leave such rows out with --drop-unusable"
    if reasons.total() == 1:
        (reason,) = reasons
        return DataError(
            f"`{source}` row {first} cannot be a prompt: {reason}",
            f"{hint or 'remove the row, name other columns'}, {drop}",
        )
    return DataError(
        f"`{source}`: {reasons.total()} of {rows} rows cannot be prompts, row {first} the first: "
        f"{_counted(reasons)}",
        f"{hint or 'name other columns or another layout'}, {drop}",
    )


def _counted(reasons: Counter[str]) -> str:
    """The most frequent reasons; of images those that differ in a name or a size count as one."""
    alike: dict[str, Counter[str]] = {}
    for reason, count in reasons.items():
        is_image = reason.startswith("its image ")
        kind = re.sub(r"`[^`]*`|[\d,]+", "", reason) if is_image else reason
        alike.setdefault(kind, Counter())[reason] = count
    groups = sorted(alike.values(), key=lambda group: -group.total())
    shown = [
        f"{group.total()} as {next(iter(group))}{' or similar' * (len(group) > 1)}"
        for group in groups[:3]
    ]
    more = len(groups) - len(shown)
    return ", ".join(shown) + (f", and for {more} other reasons" if more > 0 else "")


def json_or_none(value: Any) -> str | None:
    return json.dumps(value, default=str, sort_keys=True) if value else None
