"""What is wrong with prompts, completions and scores, before a GPU hour is spent on them."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from rlvr_cli.config import RolloutOptions
from rlvr_cli.doctor import golds
from rlvr_cli.doctor.finding import Finding
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import chat, messages, policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import FAULTS
from rlvr_cli.stages import dynamic, prompts, reading, unanswered
from rlvr_cli.storage.shards import MANIFEST, Shards

PromptRow = dict[str, Any]
_KINDS = ("prompts", "rollouts", "scores")
_MOSTLY = 0.5
_FEW = 0.2


def examine(
    path: Path,
    *,
    policy: Policy | None = None,
    options: RolloutOptions = RolloutOptions(),
    columns: dict[str, str | None],
) -> Iterator[Finding]:
    """The findings on a directory of shards and its ancestors, or on a file.

    Scores, or rollouts with scores next to them, also show which groups carry signal. With a
    `policy` the prompts are encoded for it, as these `options` say. `columns` are those of
    `reading.from_file`.
    """
    if not (path / MANIFEST).exists():
        found = reading.from_file(
            str(path),
            id_column=columns.get("id_column"),
            prompt_column=columns.get("prompt_column"),
            answer_column=columns.get("answer_column"),
            verifier=columns.get("verifier"),
        )
        rows = prompts.named(str(path), found.rows, columns.get("verifier"))
        yield from _prompts(rows, policy, options)
        return
    shards = Shards.open(path)
    if shards.kind not in _KINDS:
        raise DataError(
            f"`{path}` holds {shards.kind}; {', '.join(_KINDS)} can be examined",
            "name the directory that it was computed from",
        )
    scores = shards if shards.kind == "scores" else None
    rollouts = shards.parent("rollouts") if scores else shards
    if rollouts.kind == "rollouts" and not scores:
        scores = _neighbouring_scores(rollouts)
    source = rollouts.parent("prompts") if rollouts.kind == "rollouts" else shards
    rows = prompts.named(str(path), prompts.from_shards(source), columns.get("verifier"))
    yield from _prompts(rows, policy, options)
    if rollouts.kind == "rollouts":
        yield from _rollouts(rollouts)
    if scores:
        yield from _scores(scores, rollouts)


def _neighbouring_scores(rollouts: Shards) -> Shards | None:
    """The scores of rollouts where `rlvr score` puts them, if they are there."""
    path = rollouts.path.parent / "scores"
    if not (path / MANIFEST).exists():
        return None
    scores = Shards.open(path, "scores")
    return scores if scores.parent("rollouts").digest == rollouts.digest else None


def _prompts(
    rows: list[PromptRow], policy: Policy | None, options: RolloutOptions
) -> Iterator[Finding]:
    yield from _doubles(rows)
    yield from _answers(rows)
    yield from golds.examine(rows)
    if policy:
        yield from _encoded(rows, policy, options)


def _answers(rows: list[PromptRow]) -> Iterator[Finding]:
    """Prompts that end with the assistant's turn, in which the policy would see the answer."""
    names = [
        row["prompt_id"]
        for row in rows
        if messages.ends_with_answer(messages.stored(row["messages"], row["prompt_id"]))
    ]
    if names:
        yield Finding(
            "problem",
            "turns",
            f"{len(names)} of {len(rows)} prompts end with the assistant's turn: {_some(names)}",
            "leave that turn out with `rlvr prompts ... --drop-answer-turn`",
        )


def _doubles(rows: list[PromptRow]) -> Iterator[Finding]:
    counts = Counter(row["prompt_id"] for row in rows)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        yield Finding(
            "problem",
            "ids",
            f"{len(twice)} ids belong to several prompts each: {_some(twice)}",
            "name a column of distinct values with --id-column",
        )
    by_text: dict[str, list[PromptRow]] = defaultdict(list)
    for row in rows:
        by_text[row["messages"]].append(row)
    same = [group for group in by_text.values() if len(group) > 1]
    differ = [group for group in same if len({row["answer"] for row in group}) > 1]
    for level, groups, what in (("problem", differ, "with different golds"), ("note", same, "")):
        if groups:
            names = [f"{group[0]['prompt_id']} = {group[1]['prompt_id']}" for group in groups]
            text = f"{len(groups)} texts belong to several prompts each {what}".rstrip()
            hint = "keep one of each: they would count twice"
            yield Finding(level, "prompts", f"{text}: {_some(names)}", hint)  # type: ignore[arg-type]
            break
    if not twice and not same:
        yield Finding("ok", "prompts", f"{len(rows)}, no id and no text twice")


def _encoded(rows: list[PromptRow], policy: Policy, options: RolloutOptions) -> Iterator[Finding]:
    """How long the prompts are for the policy, and the first one as it sees it."""
    context = policies.context_length(policy)
    try:
        encoder = chat.Encoder(policies.load_tokenizer(policy), options)
        remarks = list(encoder.remarks([r["messages"] for r in rows], [r["raw"] for r in rows]))
        lengths = {
            row["prompt_id"]: len(
                encoder.encode(row["prompt_id"], row["messages"], raw=bool(row["raw"]))
            )
            for row in rows
        }
    except UserError as error:
        yield Finding("problem", "lengths", str(error), error.hint)
        return
    new = options.max_new_tokens
    room = context - new
    long = [name for name, length in lengths.items() if length > room]
    most, middle = max(lengths.values()), statistics.median(lengths.values())
    text = f"prompts of {middle:g} tokens (median) to {most}"
    if not long:
        yield Finding("ok", "lengths", f"{text}, the context leaves {room}")
    else:
        yield Finding(
            "problem",
            "lengths",
            f"{len(long)} of {len(rows)} prompts are longer than {room} tokens, which a context of "
            f"{context} leaves for them with {new} new ones: {_some(long)}",
            "use fewer --max-new-tokens, or `--overlong skip`",
        )
    for remark in remarks:
        yield Finding("ok", "template", remark)
    yield Finding("ok", "prompt", encoder.preview(rows[0]))


def _rollouts(rollouts: Shards) -> Iterator[Finding]:
    reasons = Counter(rollouts.table()["finish_reason"].to_pylist())
    count = rollouts.rows
    unknown = reasons[None]
    share = reasons["length"] / max(count - unknown, 1)
    limit = rollouts.params.get("max_new_tokens")
    where = f" at {limit} tokens" if limit else ""
    cut = f"{share:.0%} of them cut{where}" if unknown < count else "cut or not is unknown"
    text = f"{count}, {cut}, {reasons['abort']} skipped"
    if 0 < unknown < count:
        text += f", {unknown} of unknown end"
    if share > _MOSTLY:
        hint = "allow more with --max-new-tokens, or look for a missing end-of-sequence id"
        yield Finding("problem", "completions", text, hint)
    else:
        yield Finding("ok", "completions", text)


def _scores(scores: Shards, rollouts: Shards) -> Iterator[Finding]:
    table = scores.table()
    groups, mixed = len(pc.unique(table["prompt_id"])), len(dynamic.mixed(table))
    means = table.group_by("prompt_id").aggregate([("reward", "mean"), ("reward", "max")])
    best = pc.max(table["reward"]).as_py() or 0.0
    solved = pc.sum(pc.equal(means["reward_mean"], best)).as_py() or 0
    text = (
        f"{mixed} of {groups} groups ({mixed / max(groups, 1):.0%}) have different rewards; "
        f"{solved} have the best one alone"
    )
    few = mixed < _FEW * groups
    hint = "take prompts that the policy solves at times: `rlvr prompts ... --drop-easiest`"
    yield Finding("problem" if few else "ok", "groups", text, hint if few else "")
    status = Counter(name for name in table["status"].to_pylist() if name in FAULTS)
    if status:
        listed = ", ".join(f"{n} {name}" for name, n in status.items())
        yield Finding(
            "problem", "verdicts", f"the verifier failed: {listed}", "look at the rows by status"
        )
    many = unanswered.share(scores) > _MOSTLY
    hint = "ask for the form that the verifier reads: `rlvr list verifiers` says which"
    for remark in unanswered.remarks(scores, rollouts):
        yield Finding("problem" if many else "note", "answers", remark, hint if many else "")


def _some(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:3]) + (", ..." if len(names) > 3 else "")
