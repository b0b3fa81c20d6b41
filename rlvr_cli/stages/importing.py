"""Imports the completions of other tools: a path becomes prompts, rollouts and scores."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.interop import places, readers, token_logprobs
from rlvr_cli.interop.completions import KNOWN, Columns
from rlvr_cli.interop.tool_rows import format_of
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime.several import Several
from rlvr_cli.stages import answered, import_scan, prompt_images, prompts, score
from rlvr_cli.stages.import_scan import Scan
from rlvr_cli.stages.imported_tokens import Encoder
from rlvr_cli.storage import schema
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart, PartQueue, write_shards_streaming

_FINISH = "finish_reasons"  # the param of rollouts whose reasons are those of the file
_LOGPROBS = "logprobs"  # of rollouts whose log-probs are those of the file


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
    created, and golds and verifiers come from there. `on_read` is called with a description of how
    the files were read.
    """
    begun = begun_with(out / "rollouts")
    reads_reasons = not begun or _FINISH in begun
    reads_logprobs = policy is not None and (not begun or _LOGPROBS in begun)
    scan = import_scan.scan(source, columns, reads_reasons, reads_logprobs)
    on_read(scan.read)
    rows = _matched(scan, source, known) if known else _prompt_rows(scan, source)
    if policy and not any(row["messages"] != '""' for row in rows):
        raise DataError(
            f"`{source}` has no prompts, which token ids need", "name them with --prompt-column"
        )
    encoder = Encoder(policy, rows)
    prompt_shards = known or prompts.make_all_parts(
        rows, out / "prompts", params={"imported": _name(source)}
    )
    params = _params(scan, policy, reads_reasons=reads_reasons, has_prompts=bool(known))
    part_P, sizes = scan.cuts()

    def write(kind: str, parent: Shards, table: Any, summarise: Any = lambda shards: {}) -> Shards:
        """The directory of a kind, one part for each that the scan cuts."""

        def parts(queue: PartQueue) -> Iterator[tuple[int, pa.Table]]:
            for index, completions in import_scan.gathered(
                source, columns, scan, part_P, sizes, list(queue), reads_reasons, reads_logprobs
            ):
                yield index, table(completions)

        plan = Plan(
            kind, "import", params, {parent.kind: parent}, len(sizes),
            optional=("answers", _LOGPROBS), unknowns=reads_reasons and kind == "rollouts",
        )  # fmt: skip
        shards = write_shards_streaming(
            out / kind, plan, parts, summarise=summarise, on_part=on_part
        )
        assert shards is not None, "all parts are of this share"
        return shards

    rollouts = write("rollouts", prompt_shards, lambda rows: _rollouts_table(rows, encoder))
    if not {"correct", "reward"} & set(scan.has):
        return [prompt_shards, rollouts]

    def summary(scores: Shards) -> dict[str, Any]:
        return score.summarise(scores) | {"read": scan.read}

    return [prompt_shards, rollouts, write("scores", rollouts, _scores_table, summary)]


def _matched(scan: Scan, source: Path, known: Shards) -> list[dict[str, Any]]:
    """The known prompts that the completions answer, whose ids the scan takes over."""
    first = {scan.names[key]: row for key, row in scan.first.items()}
    matches = answered.known(known, first, source, scan.has.get("prompt"))
    scan.names = {key: matches[name]["prompt_id"] for key, name in scan.names.items()}
    return prompts.with_images(known, list(matches.values()))


def _params(
    scan: Scan, policy: Policy | None, *, reads_reasons: bool, has_prompts: bool
) -> dict[str, Any]:
    """The params of the rollouts and scores that the files become."""
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


def _prompt_rows(scan: Scan, source: Path) -> list[dict[str, Any]]:
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
    """The recorded origin of imported prompts: the names of files without their folders."""
    paths = source.paths if isinstance(source, Several) else (source,)
    return ", ".join(path.name for path in paths)
