"""Completions of other tools in: a path becomes prompts, rollouts and scores.

The files are read twice or three times, so that memory holds one row of each prompt, a number for
each completion, and the parts that are being filled: few where a prompt's completions are together.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.interop import places, readers, token_logprobs
from rlvr_cli.interop.completions import KNOWN, Batch, Columns, Stream, format_of
from rlvr_cli.interop.token_logprobs import Sampled
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime.several import Several
from rlvr_cli.stages import answered, prompt_images, prompts, score
from rlvr_cli.stages.imported_tokens import Encoder
from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards, begun_with
from rlvr_cli.storage.writer import OnPart, PartQueue, write_shards_streaming

ROWS_PER_PART = 16384
WANTED = {"completion", "correct", "reward", "extracted", "finish"}
_FINISH = "finish_reasons"  # the param of rollouts whose reasons are those of the file
_LOGPROBS = "logprobs"  # of rollouts whose log-probs are those of the file

Key = tuple[str | None, str]  # the source of a prompt, and its id there


@dataclass
class _Scan:
    """What the first reading collects: the prompts, and where each completion goes."""

    first: dict[Key, dict[str, Any]] = field(default_factory=dict)  # each prompt's first row
    same: dict[Key, dict[str, Any]] = field(default_factory=dict)  # what all its rows say alike
    prompt_N: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    header: list[str] = field(default_factory=list)
    has: dict[str, str] = field(default_factory=dict)
    graded: bool = False
    digest: str = ""
    sampled: int = 0  # completions with log-probs of their tokens
    names: dict[Key, str] = field(default_factory=dict)  # the prompts' ids
    read: dict[str, Any] = field(default_factory=dict)  # how the files were read

    def cuts(self) -> tuple[np.ndarray, np.ndarray]:
        """The part of each prompt, about ROWS_PER_PART rows of complete groups, and part sizes."""
        size_P = np.bincount(self.prompt_N, minlength=len(self.first))
        part_P, rows, part = [], 0, 0
        for size in size_P.tolist():
            if rows and rows + size > ROWS_PER_PART:
                part, rows = part + 1, 0
            part_P.append(part)
            rows += size
        return np.array(part_P), np.bincount(part_P, weights=size_P).astype(int)


def bring_in(
    source: Path,
    out: Path,
    *,
    columns: Columns | None = None,
    policy: Policy | None = None,
    known: Shards | None = None,
    on_part: OnPart = lambda index, state: None,
    on_read: Callable[[dict[str, Any]], None] = lambda read: None,
) -> list[Shards]:
    """Directories `prompts`, `rollouts` and, if the files have verdicts, `scores` under `out`.

    Completions of one prompt are brought together, in the files' order. `policy` gives token ids,
    with its end-of-sequence token after each completion that the file calls ended. `known` are the
    prompts that the completions answer, if they are a directory already: then no other one is
    made, and golds and verifiers come from there. `on_read` is called with a description of how
    the files were read.
    """
    begun = begun_with(out / "rollouts")
    reads_reasons = not begun or _FINISH in begun
    reads_logprobs = policy is not None and (not begun or _LOGPROBS in begun)
    scan = _scan(source, columns, reads_reasons, reads_logprobs)
    on_read(scan.read)
    if known:
        first = {scan.names[key]: row for key, row in scan.first.items()}
        matches = answered.known(known, first, source, scan.has.get("prompt"))
        scan.names = {key: matches[name]["prompt_id"] for key, name in scan.names.items()}
        rows = prompts.with_images(known, list(matches.values()))
    else:
        rows = _prompt_rows(scan, source)
    if policy and not any(row["messages"] != '""' for row in rows):
        raise DataError(
            f"`{source}` has no prompts, which token ids need", "name them with --prompt-column"
        )
    encoder = Encoder(policy, rows)
    prompt_shards = known or prompts.make_all_parts(
        rows, out / "prompts", params={"imported": _name(source)}
    )
    directories = [prompt_shards]
    params = _params(scan, policy, reads_reasons=reads_reasons, has_prompts=bool(known))
    part_P, sizes = scan.cuts()

    def parts(queue: PartQueue, table: Any) -> Iterator[tuple[int, pa.Table]]:
        for index, completions in _gathered(
            source, columns, scan, part_P, sizes, list(queue), reads_reasons, reads_logprobs
        ):
            yield index, table(completions)

    plan = Plan(
        "rollouts",
        "import",
        params,
        {"prompts": prompt_shards},
        len(sizes),
        optional=("answers", _LOGPROBS),
        unknowns=reads_reasons,
    )
    rollouts = write_shards_streaming(
        out / "rollouts",
        plan,
        lambda queue: parts(queue, lambda rows: _rollouts_table(rows, encoder)),
        on_part=on_part,
    )
    assert rollouts is not None, "all parts are of this share"
    directories.append(rollouts)
    if {"correct", "reward"} & set(scan.has):
        plan = Plan(
            "scores", "import", params, {"rollouts": rollouts}, len(sizes),
            optional=("answers", _LOGPROBS),
        )  # fmt: skip
        scores = write_shards_streaming(
            out / "scores",
            plan,
            lambda queue: parts(queue, _scores_table),
            summarise=lambda scores: score.summarise(scores) | {"read": scan.read},
            on_part=on_part,
        )
        assert scores is not None, "all parts are of this share"
        directories.append(scores)
    return directories


def _params(
    scan: _Scan, policy: Policy | None, *, reads_reasons: bool, has_prompts: bool
) -> dict[str, Any]:
    """The params of the rollouts and scores that are made from the files."""
    params: dict[str, Any] = {
        "tokenizer": policy.digest if policy else None,
        "completions": len(scan.prompt_N),
        "content": scan.digest,
    }
    if reads_reasons:
        params[_FINISH] = "read"
    if scan.sampled:
        params[_LOGPROBS] = "read"
    if has_prompts:
        params["answers"] = prompts.content_hash(
            [scan.names[key] for key in scan.first], scan.prompt_N.tolist()
        )
    return params


def _scan(
    source: Path, columns: Columns | None, reads_reasons: bool, reads_logprobs: bool
) -> _Scan:
    stream = Stream(source, columns, wanted=WANTED, rows=True)
    scan, codes, content = _Scan(), [], hashlib.sha256()
    numbers: dict[Key, int] = {}
    for batch in stream:
        keys = _keys(batch)
        codes.append(np.array([numbers.setdefault(k, len(numbers)) for k in keys], dtype=np.int32))
        for key, row in zip(keys, batch.rows, strict=True):
            first = scan.first.setdefault(key, row)
            same = scan.same.setdefault(key, row)
            if row is not first:
                scan.same[key] = {k: v for k, v in same.items() if row.get(k) == v}
        names = (*_CONTENT, "finish_reason") if reads_reasons else _CONTENT
        for row in _read(source, batch, reads_reasons, reads_logprobs):
            content.update(json.dumps([row[name] for name in names]).encode())
            if sampled := row["sampled"]:
                content.update(json.dumps([sampled.logp, sampled.token_ids]).encode())
                scan.sampled += 1
    stream.require_completions()
    scan.prompt_N = np.concatenate(codes)
    scan.header, scan.has, scan.digest = stream.header, stream.has, content.hexdigest()
    scan.graded = stream.graded
    scan.read = stream.facts()
    several = len({name for _, name in scan.first}) < len(scan.first)
    scan.names = {(s, name): f"{s}/{name}" if several else name for s, name in scan.first}
    return scan


def _read(
    source: Path, batch: Batch, reads_reasons: bool, reads_logprobs: bool
) -> list[dict[str, Any]]:
    try:
        return _completions(batch, reads_reasons, reads_logprobs)
    except ValueError as error:
        raise DataError(
            f"`{source}`: {error}", "repair the row, or remove its log-probs to import it without"
        ) from error


def _keys(batch: Batch) -> list[Key]:
    ids = batch.prompt_id.to_pylist()
    sources = [None] * len(ids) if batch.source is None else batch.source.to_pylist()
    return list(zip(sources, ids, strict=True))


_CONTENT = ("completion", "reward", "correct", "extracted")


def _completions(batch: Batch, reads_reasons: bool, reads_logprobs: bool) -> list[dict[str, Any]]:
    """The completions of a batch as plain values, None where nothing is known.

    Without `reads_reasons`, as earlier versions began directories, all but `length` is `stop`.
    """
    nothing = [None] * len(batch)
    correct = nothing if batch.correct is None else _known(batch.correct)
    rewards = batch.correct if batch.reward is None else batch.reward
    reward = nothing if rewards is None else _known(rewards)
    text = nothing if batch.completion is None else batch.completion.to_pylist()
    extracted = nothing if batch.extracted is None else batch.extracted.to_pylist()
    reasons = nothing if batch.finish is None else batch.finish.to_pylist()
    if not reads_reasons:
        reasons = ["length" if readers.look_up(row, "finish_reason") == "length" else "stop"
                   for row in batch.rows]  # fmt: skip
    sampled = _sampled(batch) if reads_logprobs else nothing
    values = zip(_keys(batch), text, reward, correct, extracted, reasons, sampled,
                 strict=True)  # fmt: skip
    return [
        {
            "prompt_id": key,
            "completion": completion or "",
            "reward": reward,
            "correct": None if correct is None else correct == 1,
            "extracted": extracted,
            "finish_reason": reason,
            "sampled": sampled,
        }
        for key, completion, reward, correct, extracted, reason, sampled in values
    ]


def _sampled(batch: Batch) -> list[Sampled | None]:
    """The log-probs of each completion's tokens, where there are any; a ValueError for others."""
    of = Counter(map(id, batch.rows))
    at: Counter[int] = Counter()
    sampled = []
    for key, row in zip(_keys(batch), batch.rows, strict=True):
        number = at[id(row)]
        at[id(row)] += 1
        try:
            sampled.append(token_logprobs.read(row, number, of[id(row)]))
        except ValueError as error:
            raise ValueError(f"a completion of prompt `{key[1]}` {error}") from error
    return sampled


def _known(values: np.ndarray) -> list[float | None]:
    """Numbers, None for NaN and for the -1 of an unknown verdict."""
    is_verdict = values.dtype == np.int8
    return [None if v != v or (is_verdict and v < 0) else float(v) for v in values.tolist()]


def _gathered(
    source: Path,
    columns: Columns | None,
    scan: _Scan,
    part_P: np.ndarray,
    sizes: np.ndarray,
    missing: list[int],
    reads_reasons: bool,
    reads_logprobs: bool,
) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Each missing part with its completions, as soon as the last of them was read."""
    wanted, at = set(missing), 0
    waiting: dict[int, list[dict[str, Any]]] = {}
    prompt_order = {key: number for number, key in enumerate(scan.first)}
    for batch in Stream(source, columns, wanted=WANTED, rows=True):
        part_N = part_P[scan.prompt_N[at : at + len(batch)]].tolist()
        at += len(batch)
        for part, row in zip(
            part_N, _completions(batch, reads_reasons, reads_logprobs), strict=True
        ):
            if part not in wanted:
                continue
            group_rows = waiting.setdefault(part, [])
            group_rows.append(row | ({"correct": None} if scan.graded else {}))
            if len(group_rows) == sizes[part]:
                # The sort is stable: completions of a prompt stay in the file's order.
                group_rows.sort(key=lambda row: prompt_order[row["prompt_id"]])
                for row in group_rows:
                    row["prompt_id"] = scan.names[row["prompt_id"]]
                yield part, waiting.pop(part)


def _samples(rows: list[dict[str, Any]]) -> list[int]:
    """The number of each completion among those of its prompt."""
    seen: dict[str, int] = {}
    sample_N = []
    for row in rows:
        seen[row["prompt_id"]] = seen.get(row["prompt_id"], -1) + 1
        sample_N.append(seen[row["prompt_id"]])
    return sample_N


def _rollouts_table(rows: list[dict[str, Any]], encoder: Encoder) -> pa.Table:
    tokens = [encoder.sampled(row) for row in rows]
    columns = {
        "prompt_id": [row["prompt_id"] for row in rows],
        "sample_index": _samples(rows),
        "prompt_token_ids": [encoder.prompts[row["prompt_id"]] for row in rows],
        "completion": [row["completion"] for row in rows],
        "token_ids": [token_ids for token_ids, _ in tokens],
        "behaviour_logp": [logp for _, logp in tokens],
        "finish_reason": [row["finish_reason"] for row in rows],
        "status": ["ok"] * len(rows),
        "seed": [None] * len(rows),
        "policy": [None] * len(rows),
    }
    return pa.table(columns, schema.schema("rollouts"))


def _scores_table(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {
        "prompt_id": [row["prompt_id"] for row in rows],
        "sample_index": _samples(rows),
        "reward": [row["reward"] for row in rows],
        "correct": [row["correct"] for row in rows],
        "extracted": [row["extracted"] for row in rows],
        "reason": [None] * len(rows),
        "status": ["error" if row["reward"] is None else "ok" for row in rows],
    }
    return pa.table(columns, schema.schema("scores"))


def _prompt_rows(scan: _Scan, source: Path) -> list[dict[str, Any]]:
    prompt_name, answer_name = scan.has.get("prompt"), scan.has.get("gold")
    kept = ("step", "sample")  # what is alike in all rows of a prompt and says more of it
    used = {column.partition(".")[0] for name, column in scan.has.items() if name not in kept}
    used |= {name.partition(".")[0] for name in KNOWN["finish"]}
    if scan.sampled:
        used |= {name.partition(".")[0] for name in token_logprobs.NAMES}
    if format_of(set(scan.header)):  # a known tool's other columns are its own
        used |= {key for row in scan.first.values() for key in row}
    rows, images = [], prompt_images.of_completions(list(scan.first.values()), source)
    used |= set(images.columns)
    for key, row in scan.first.items():
        extra = {k: v for k, v in scan.same[key].items() if k not in used}
        prompt = readers.look_up(row, prompt_name) if prompt_name else ""
        answer = readers.look_up(row, answer_name) if answer_name else None
        rows.append(
            {
                "prompt_id": scan.names[key],
                **prompt_images.of_imported(images, prompt, scan.names[key], source, row),
                "answer": _text(answer),
                "verifier": None,
                "source": key[0] or places.stem(source),
                "extra": json.dumps(extra, default=str, sort_keys=True) if extra else None,
            }
        )
    return rows


def _text(answer: Any) -> str | None:
    """A gold as text: lists and the like as JSON."""
    if answer is None or isinstance(answer, str):
        return answer
    return json.dumps(answer, default=str)


def remarks(rollouts: Shards) -> Iterator[str]:
    """What training on these completions would miss."""
    if _LOGPROBS in rollouts.params:
        logps = (rollouts.part(i, ["behaviour_logp"]) for i in range(len(rollouts)))
        without = sum(part["behaviour_logp"].null_count for part in logps)
        if without:
            yield (
                f"{without} of {rollouts.rows} completions have no log-probs, or those of other "
                "tokens than --model's: no update can correct for what sampled them"
            )
    if rollouts.params.get(_FINISH) is None or rollouts.params["tokenizer"] is None:
        return
    parts = (rollouts.part(i, ["finish_reason"])["finish_reason"] for i in range(len(rollouts)))
    unknown = sum(column.null_count for column in parts)
    if unknown:
        yield (
            f"{unknown} of {rollouts.rows} completions do not say why they ended: they get no "
            "end-of-sequence token"
        )


def _name(source: Path) -> str:
    """What prompts are said to be imported from: the names of files without their folders."""
    paths = source.paths if isinstance(source, Several) else (source,)
    return ", ".join(path.name for path in paths)
