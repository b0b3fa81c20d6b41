"""Completions of other tools in, completions for other tools out."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli import files, foreign, schema
from rlvr_cli import policy as policies
from rlvr_cli.errors import DataError
from rlvr_cli.fill import OnPart, fill_whole
from rlvr_cli.foreign import Generations
from rlvr_cli.policy import Policy
from rlvr_cli.shards import Plan, Shards
from rlvr_cli.stages import prompts, score

ROWS_PER_PART = 16384


Key = tuple[str, int, int]  # prompt_id, sample_index, the file's row


def bring_in(
    found: Generations,
    source: Path,
    out: Path,
    *,
    policy: Policy | None = None,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    on_part: OnPart = lambda index, state: None,
) -> list[Shards]:
    """Directories `prompts`, `rollouts` and, if the file has verdicts, `scores` under `out`.

    Completions of one prompt are brought together, in the file's order. `policy` gives token ids,
    with its end-of-sequence token behind each completion that the file does not call cut.
    """
    if not found.has_completions:
        names = ", ".join(map(str, found.rows[0]))
        raise DataError(
            f"`{source}` has no completions; it has {names}", "name them with --completion-column"
        )
    order: dict[str, list[int]] = {}
    for row, prompt_id in enumerate(found.prompt_id):
        order.setdefault(prompt_id, []).append(row)
    rows = _prompt_rows(found, order, source, prompt_column, answer_column)
    if policy and not any(row["messages"] != '""' for row in rows):
        raise DataError(
            f"`{source}` has no prompts, which token ids need", "name them with --prompt-column"
        )
    encoder = _Encoder(policy, rows)
    made = [prompts.make_whole(rows, out / "prompts", params={"imported": source.name})]
    keys = [[(p, i, row) for p in cut for i, row in enumerate(order[p])] for cut in _cuts(order)]
    params = {
        "tokenizer": policy.digest if policy else None,
        "completions": len(found.prompt_id),
        "content": prompts.content_hash(found.completion, found.reward, found.correct),
    }
    plan = Plan("rollouts", "import", params, {"prompts": made[0]}, len(keys))
    table = lambda index: _rollouts_table(found, keys[index], encoder)  # noqa: E731
    made.append(fill_whole(out / "rollouts", plan, table, on_part=on_part))
    if found.has_verdicts:
        plan = Plan("scores", "import", params, {"rollouts": made[1]}, len(keys))
        table = lambda index: _scores_table(found, keys[index])  # noqa: E731
        options: dict[str, Any] = {"summarise": score.summarise, "on_part": on_part}
        made.append(fill_whole(out / "scores", plan, table, **options))
    return made


class _Encoder:
    """Token ids of prompts and completions by a policy's tokenizer; none without a policy."""

    def __init__(self, policy: Policy | None, rows: list[dict[str, Any]]) -> None:
        self._tokenizer: Any = None
        self.prompts: dict[str, list[int]] = {row["prompt_id"]: [] for row in rows}
        if policy is not None:
            self._tokenizer = policies.load_tokenizer(policy)
            self._end = policies.end_ids(policy, self._tokenizer)[0]
            for row in rows:
                name = row["prompt_id"]
                self.prompts[name] = policies.encode_prompt(self._tokenizer, name, row["messages"])

    def completion(self, text: str, finish_reason: str) -> list[int] | None:
        if self._tokenizer is None:
            return None
        token_ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*token_ids, self._end] if finish_reason == "stop" else token_ids


def _rollouts_table(found: Generations, keys: list[Key], encoder: _Encoder) -> pa.Table:
    completions = [found.completion[row] or "" for _, _, row in keys]
    finished = [_finish_reason(found.rows[row]) for _, _, row in keys]
    columns = {
        "prompt_id": [prompt_id for prompt_id, _, _ in keys],
        "sample_index": [sample for _, sample, _ in keys],
        "prompt_token_ids": [encoder.prompts[prompt_id] for prompt_id, _, _ in keys],
        "completion": completions,
        "token_ids": list(map(encoder.completion, completions, finished)),
        "behaviour_logp": [None] * len(keys),
        "finish_reason": finished,
        "status": ["ok"] * len(keys),
        "seed": [None] * len(keys),
        "policy": [None] * len(keys),
    }
    return pa.table(columns, schema.schema("rollouts"))


def _scores_table(found: Generations, keys: list[Key]) -> pa.Table:
    rewards = [found.reward[row] for _, _, row in keys]
    columns = {
        "prompt_id": [prompt_id for prompt_id, _, _ in keys],
        "sample_index": [sample for _, sample, _ in keys],
        "reward": rewards,
        "correct": [found.correct[row] for _, _, row in keys],
        "extracted": [None] * len(keys),
        "status": ["error" if reward is None else "ok" for reward in rewards],
    }
    return pa.table(columns, schema.schema("scores"))


def _prompt_rows(
    found: Generations,
    order: dict[str, list[int]],
    source: Path,
    prompt_column: str | None,
    answer_column: str | None,
) -> list[dict[str, Any]]:
    prompt_name = foreign.column(
        found.rows, prompt_column, foreign.PROMPT, "--prompt-column", source
    )
    answer_name = foreign.column(
        found.rows, answer_column, foreign.ANSWER, "--answer-column", source
    )
    made = []
    for prompt_id, indices in order.items():
        row = found.rows[indices[0]]
        prompt = foreign.look_up(row, prompt_name) if prompt_name else ""
        answer = foreign.look_up(row, answer_name) if answer_name else None
        used = {name and name.partition(".")[0] for name in (*found.used, prompt_name, answer_name)}
        rest = {key: value for key, value in row.items() if key not in used}
        same = {k: v for k, v in rest.items() if all(found.rows[i].get(k) == v for i in indices)}
        made.append(
            {
                "prompt_id": prompt_id,
                "messages": json.dumps(prompt, default=str),
                "answer": _text(answer),
                "verifier": None,
                "source": source.name.partition(".")[0],
                "extra": json.dumps(same, default=str, sort_keys=True) if same else None,
            }
        )
    return made


def _text(answer: Any) -> str | None:
    """A gold as text: lists and the like as JSON."""
    if answer is None or isinstance(answer, str):
        return answer
    return json.dumps(answer, default=str)


def _finish_reason(row: dict[str, Any]) -> str:
    """`length` where the row says that its completion was cut, else `stop`."""
    return "length" if foreign.look_up(row, "finish_reason") == "length" else "stop"


def _cuts(order: dict[str, list[int]]) -> list[list[str]]:
    """The prompts of each part: whole groups, about ROWS_PER_PART rows."""
    cuts: list[list[str]] = [[]]
    rows = 0
    for prompt_id, indices in order.items():
        if cuts[-1] and rows + len(indices) > ROWS_PER_PART:
            cuts.append([])
            rows = 0
        cuts[-1].append(prompt_id)
        rows += len(indices)
    return cuts


_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.large_string())])
_VERL = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(_MESSAGE)),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.large_string())])),
        ("extra_info", pa.struct([("index", pa.string()), ("extra", pa.large_string())])),
        ("responses", pa.list_(pa.large_string())),
        ("scores", pa.list_(pa.float64())),
    ]
)


def send_out(shards: Shards, out: Path, format: str) -> int:
    """Writes one file, whole or not at all; the number of its rows.

    jsonl: one completion a line with all that is known of it. verl: one prompt a row, as its
    Parquet data sets and its evaluation have them, with the lists responses and scores.
    """
    rows = _gathered(shards)
    files.make_folder(out.parent)
    if format == "jsonl":
        files.write_atomic(out, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return len(rows)
    table = pa.Table.from_pylist(_verl(rows), _VERL)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    files.write_atomic(out, sink.getvalue().to_pybytes())
    return table.num_rows


def _gathered(shards: Shards) -> list[dict[str, Any]]:
    """Rows of a directory joined with those of its ancestors."""
    chain = [shards]
    for kind in ("scores", "rollouts"):
        if chain[-1].kind not in ("prompts", kind) and kind in _ancestors(chain[-1]):
            chain.append(chain[-1].parent(kind))
    if shards.kind == "prompts":
        return [_plain(row) for row in shards.table().to_pylist()]
    golds = {r["prompt_id"]: _plain(r) for r in shards.parent("prompts").table().to_pylist()}
    rows = []
    for index in range(len(shards)):
        tables = [directory.part(index).to_pylist() for directory in reversed(chain)]
        for parts in zip(*tables, strict=True):
            row = {key: value for part in parts for key, value in part.items()}
            rows.append({**golds[row["prompt_id"]], **row})
    return rows


def _ancestors(shards: Shards) -> set[str]:
    order = {"advantages": {"scores", "rollouts"}, "scores": {"rollouts"}}
    return order.get(shards.kind, set())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "messages": json.loads(row["messages"]),
        "extra": json.loads(row["extra"]) if row["extra"] else None,
    }


def _verl(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for row in rows:
        messages = row["messages"]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        entry = made.setdefault(
            row["prompt_id"],
            {
                "data_source": row["source"],
                "prompt": messages,
                "ability": row["verifier"],
                "reward_model": {"style": "rule", "ground_truth": row["answer"]},
                "extra_info": {"index": row["prompt_id"], "extra": json.dumps(row["extra"])},
                "responses": [],
                "scores": [],
            },
        )
        if "completion" in row:
            entry["responses"].append(row["completion"])
            entry["scores"].append(row.get("reward"))
    return list(made.values())
