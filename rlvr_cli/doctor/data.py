"""What is wrong with prompts, completions and scores, before a GPU hour is spent on them."""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.config import RolloutOptions
from rlvr_cli.doctor import prompt_rows
from rlvr_cli.doctor.finding import Finding
from rlvr_cli.doctor.prompt_rows import Batches, PromptRow
from rlvr_cli.errors import DataError
from rlvr_cli.models import questions
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import FAULTS
from rlvr_cli.stages import dynamic, prompts, reading, unanswered
from rlvr_cli.storage import schema
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import MANIFEST, Shards

_KINDS = ("prompts", "rollouts", "scores")
_MOSTLY = 0.5
_FEW = 0.2
_BATCH = 8192  # prompts that are held at once


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
    if not (path / MANIFEST).exists() and not str(path).startswith("task:"):
        source_rows = reading.from_file(
            str(path),
            id_column=columns.get("id_column"),
            prompt_column=columns.get("prompt_column"),
            answer_column=columns.get("answer_column"),
            verifier=columns.get("verifier"),
        )
        batches = functools.partial(_slices, source_rows.rows)
        yield from prompt_rows.examine(_named(path, batches, columns), policy, options)
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
    batches = functools.partial(_of_shards, source)
    yield from prompt_rows.examine(_named(path, batches, columns), policy, options)
    if rollouts.kind == "rollouts":
        for one in rollouts.inputs:
            yield from _rollouts(one, several=len(rollouts.inputs) > 1)
    if scores:
        yield from _scores(scores, rollouts)


def _slices(rows: list[PromptRow]) -> Iterator[list[PromptRow]]:
    yield from (rows[at : at + _BATCH] for at in range(0, len(rows), _BATCH))


def _of_shards(source: Shards) -> Iterator[list[PromptRow]]:
    """The rows of the parts, as many at once as keep the verifiers' processes busy."""
    rows: list[PromptRow] = []
    images = Images.of(source)
    for index, asked in enumerate(questions.parts_with_raw(source)):
        raws, part = asked["raw"].to_pylist(), source.part(index).to_pylist()
        if images:
            part = [row | {"images": images.images_of(row["prompt_id"])} for row in part]
        rows += (row | {"raw": raw} for row, raw in zip(part, raws, strict=True))
        if len(rows) >= _BATCH:
            yield rows
            rows = []
    yield rows


def _named(path: Path, batches: Batches, columns: dict[str, str | None]) -> Batches:
    """The rows with the verifier of each; an error that counts those without over all of them."""
    verifier = columns.get("verifier")

    def named() -> Iterator[list[PromptRow]]:
        for rows in batches():
            try:
                yield prompts.named(str(path), rows, verifier)
            except DataError:
                prompts.named(str(path), [row for some in batches() for row in some], verifier)
                raise

    return named


def _neighbouring_scores(rollouts: Shards) -> Shards | None:
    """The scores of rollouts where `rlvr score` puts them, if they are there."""
    path = rollouts.path.parent / "scores"
    if not (path / MANIFEST).exists():
        return None
    scores = Shards.open(path, "scores")
    return scores if scores.parent("rollouts").digest == rollouts.digest else None


def _rollouts(rollouts: Shards, *, several: bool) -> Iterator[Finding]:
    reasons: Counter[str | None] = Counter()
    for index in range(len(rollouts)):
        reasons.update(rollouts.part(index, ["finish_reason"])["finish_reason"].to_pylist())
    count = rollouts.rows
    unknown = reasons[None]
    share = reasons["length"] / max(count - unknown, 1)
    limit = rollouts.params.get("max_new_tokens")
    where = f" at {limit} tokens" if limit else ""
    cut = f"{share:.0%} of them cut{where}" if unknown < count else "cut or not is unknown"
    text = f"{count}, {cut}, {reasons['abort']} skipped"
    if 0 < unknown < count:
        text += f", {unknown} of unknown end"
    if several:
        text = f"`{rollouts.path}`: {text}"
    if share > _MOSTLY:
        hint = "allow more with --max-new-tokens, or look for a missing end-of-sequence id"
        yield Finding("problem", "completions", text, hint)
    else:
        yield Finding("ok", "completions", text)


def _scores(scores: Shards, rollouts: Shards) -> Iterator[Finding]:
    key = [name for name in ("prompt_id", schema.INPUT) if name in scores.schema.names]
    columns = [*key, "reward", "status"]
    table = pa.concat_tables(scores.part(index, columns) for index in range(len(scores)))
    means = table.group_by(key).aggregate([("reward", "mean"), ("reward", "max")])
    groups, mixed = len(means), len(dynamic.mixed(table))
    best = pc.max(table["reward"]).as_py() or 0.0
    solved = pc.sum(pc.equal(means["reward_mean"], best)).as_py() or 0
    text = (
        f"{mixed} of {groups} groups ({mixed / max(groups, 1):.0%}) have different rewards; "
        f"{solved} have only the best one"
    )
    few = mixed < _FEW * groups
    hint = "take prompts that the policy solves at times: `rlvr prompts ... --drop-easiest`"
    yield Finding("problem" if few else "ok", "groups", text, hint if few else "")
    counts = pc.value_counts(table["status"]).to_pylist()
    status = {c["values"]: c["counts"] for c in counts if c["values"] in FAULTS}
    if status:
        listed = ", ".join(f"{n} {name}" for name, n in status.items())
        yield Finding(
            "problem", "verdicts", f"the verifier failed: {listed}", "look at the rows by status"
        )
    many = unanswered.share(scores) > _MOSTLY
    hint = "ask for the form that the verifier reads: `rlvr list verifiers` says which"
    for remark in unanswered.remarks(scores, rollouts):
        yield Finding("problem" if many else "note", "answers", remark, hint if many else "")
