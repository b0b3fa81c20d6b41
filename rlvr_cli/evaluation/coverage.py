"""The stage that measures how much of known solutions is among a policy's likeliest tokens.

Shapes: T tokens of a solution, K values of k, P prompts.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation.measures import Measures
from rlvr_cli.evaluation.metric_shards import write_metrics
from rlvr_cli.interop import readers
from rlvr_cli.models import policy as policies
from rlvr_cli.models.chat import Encoder
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.storage.writer import OnPart

SOLUTION = ("solution", "ground_truth", "reward_model.ground_truth", "answer", "completion")


@dataclass(frozen=True)
class Solutions:
    """Prompts with a solution each; `messages` is JSON, as in a prompts directory."""

    prompt_id: list[str]
    source: list[str]
    messages: list[str]
    text: list[str]


@dataclass(frozen=True)
class Coverage:
    """Recall of each prompt's solution among the top k, and the counts it is computed from."""

    solutions: Solutions
    measures: Measures
    tokens_P: np.ndarray
    hits_PK: np.ndarray
    ks: list[int]
    cut: int  # solutions that were longer than the policy's context

    def summary(self) -> dict[str, Any]:
        """Counts; the mean over prompts of each recall; the recall over all tokens together."""
        tokens = int(self.tokens_P.sum())
        recall_K = (self.hits_PK.sum(axis=0) / tokens).tolist()
        recall = {f"top-{k}": value for k, value in zip(self.ks, recall_K, strict=True)}
        listed = ", ".join(f"{name} {100 * value:.2f}%" for name, value in recall.items())
        cut = f", {self.cut} solutions cut to the policy's context" if self.cut else ""
        return {
            "prompts": len(self.tokens_P),
            "tokens": tokens,
            "cut": self.cut,
            "recall": recall,
            "notes": f"over all {tokens} tokens of {len(self.tokens_P)} solutions: {listed}{cut}",
            "sources": {},
            **self.measures.estimates(),
        }


def load(
    path: Path,
    *,
    id_column: str | None = None,
    prompt_column: str | None = None,
    solution_column: str | None = None,
    limit: int | None = None,
) -> Solutions:
    """The solutions of a file of any tool, or the answers of a prompts directory."""
    if (path / MANIFEST).exists():
        table = Shards.open(path, "prompts").table().slice(0, limit)
        columns = {name: table[name].to_pylist() for name in table.column_names}
        texts, ids = columns["answer"], columns["prompt_id"]
        solutions = Solutions(ids, columns["source"], columns["messages"], texts)
    else:
        rows = readers.read(path)[:limit]
        prompt = readers.required(rows, prompt_column, readers.PROMPT, "--prompt-column", path)
        text = readers.required(rows, solution_column, SOLUTION, "--solution-column", path)
        name = readers.column(rows, id_column, readers.ID, "--id-column", path)
        stem = path.name.partition(".")[0]
        ids = [
            str(readers.look_up(row, name)) if name else f"{stem}-{number:06d}"
            for number, row in enumerate(rows, 1)
        ]
        messages = [json.dumps(readers.look_up(row, prompt), default=str) for row in rows]
        texts = [readers.look_up(row, text) for row in rows]
        solutions = Solutions(ids, [stem] * len(rows), messages, texts)
    for prompt_id, solution in zip(solutions.prompt_id, solutions.text, strict=True):
        if not isinstance(solution, str) or not solution:
            raise DataError(
                f"prompt `{prompt_id}` of `{path}` has no solution text: `{str(solution)[:40]}`",
                "remove the row, or name another column with --solution-column",
            )
    return solutions


def run(
    solutions: Solutions,
    policy: Policy,
    ks: Sequence[int],
    *,
    separator: str = "",
    chat: bool = False,
    micro_batch_tokens: int,
    load: Callable[[Policy], Loaded] = policies.load,
    on_prompt: Callable[[int], None] = lambda index: None,
) -> Coverage:
    """Teacher forcing: whether each solution token is among the k likeliest at its position.

        recall@k = P(y_t in top-k(pi(. | x, y_<t)))            (APO, table 1 and sec. 3.1)

    Ties go to the lower id; the end-of-sequence token is not part of a solution. A solution that
    does not fit the policy's context is cut, and counted.
    """
    import torch

    from rlvr_cli.models import logprobs

    loaded = load(policy)
    vocabulary = loaded.model.get_output_embeddings().weight.shape[0]
    if max(ks) > vocabulary:
        raise UsageError(
            f"--k is {max(ks)}, the vocabulary of `{policy.name}` has {vocabulary} tokens",
            f"{vocabulary} is the most it may be",
        )
    rows, cut = _rows(solutions, loaded, separator, chat)
    hits_PK = np.zeros((len(rows), len(ks)), dtype=np.int64)
    with torch.no_grad():
        for indices in logprobs.micro_batches(rows, micro_batch_tokens):
            batch = [rows[i] for i in indices]
            _, top = logprobs.with_top_k(loaded.model, batch, max(ks), temperature=1.0)
            for i, ids_TK in zip(indices, logprobs.unpad(top.ids_BTK, batch), strict=True):
                match_TK = ids_TK == np.asarray(rows[i].token_ids)[:, None]
                hits_PK[i] = [match_TK[:, :k].any(axis=1).sum() for k in ks]
                on_prompt(i)
    tokens_P = np.array([len(row.token_ids) for row in rows])
    names = [f"top-{k}" for k in ks]
    measures = Measures(solutions.prompt_id, names, hits_PK / tokens_P[:, None])
    return Coverage(solutions, measures, tokens_P, hits_PK, list(ks), cut)


def _rows(
    solutions: Solutions, loaded: Loaded, separator: str, chat: bool
) -> tuple[list[Row], int]:
    """Prompt and solution as tokens, and how many solutions were cut."""
    rows, cut = [], 0
    encoder = Encoder(loaded.tokenizer)
    for name, messages, text in zip(
        solutions.prompt_id, solutions.messages, solutions.text, strict=True
    ):
        prompt = json.loads(messages)
        if isinstance(prompt, str):
            content = [{"role": "user", "content": prompt}]
            messages = json.dumps(content if chat else prompt + separator)
        prompt_ids = encoder.encode(name, messages)
        token_ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
        room = loaded.context - len(prompt_ids)
        if not prompt_ids or not token_ids or room < 1:
            what = "no room for its solution in the policy's context" if room < 1 else "no tokens"
            raise DataError(f"prompt `{name}` leaves {what}", "remove it from the file")
        cut += len(token_ids) > room
        rows.append(Row(prompt_ids, token_ids[:room]))
    return rows, cut


def write(coverage: Coverage, out: Path, params: dict[str, Any], on_part: OnPart) -> Shards:
    """A metrics directory: a row for each prompt; `n` is its tokens, `correct` those in the top
    of the largest k."""
    columns = {
        "prompt_id": coverage.solutions.prompt_id,
        "source": coverage.solutions.source,
        "n": coverage.tokens_P,
        "correct": coverage.hits_PK[:, -1],
        "excluded": np.zeros(len(coverage.tokens_P), dtype=np.int64),
    }
    return write_metrics(
        out, "coverage", columns, coverage.measures, params, {}, coverage.summary(), on_part
    )
