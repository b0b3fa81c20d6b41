"""The parts of a rollouts directory: encoded prompts, an engine's completions, rows of both."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import chat, policy as policies, stops, tokenizers
from rlvr_cli.models.messages import Prompt
from rlvr_cli.models.policy import Policy
from rlvr_cli.models.served import ServedEncoder
from rlvr_cli.protocols import Completion, Request, RolloutEngine, SamplingParams
from rlvr_cli.storage import schema
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.partial_completions import PartialCompletions
from rlvr_cli.storage.writer import DeferredTable, PartQueue
from rlvr_cli.terminal import console, plural

WITH_POLICY_LOGP = (*schema.schema("rollouts").names, "policy_logp")


class Maker:
    """Makes parts; loads the policy when the first one is needed."""

    def __init__(
        self,
        out: Path,
        prompts: list[dict[str, Any]],
        policy: Policy,
        options: RolloutOptions,
        sampling: SamplingParams,
        row_seed: Callable[[str, int], int],
        engine: Callable[[], RolloutEngine],
        plan: str,
        *,
        as_before: bool = False,
        images: Images | None = None,
    ) -> None:
        """`row_seed` is that of a prompt id and a sample index; `as_before` is the encoder's.

        `plan` is the fingerprint of all that decides the completions.
        """
        self._out, self._prompts, self._plan = out, prompts, plan
        self._policy, self._options, self._sampling = policy, options, sampling
        self._row_seed, self._make_engine = row_seed, engine
        self._as_before, self._images = as_before, images
        self._part_rows = options.prompts_per_part * options.num_generations

    def parts(self, queue: PartQueue) -> Iterator[tuple[int, pa.Table | DeferredTable]]:
        """The parts, in the order in which they finish; deferred with continuous batching."""
        self._load_tokenizer()
        rows = {index: self._rows(index) for index in queue.share}
        engine = self._make_engine()
        if engine.supports_continuous_batching:
            while at_once := queue.batch():
                known = {index: rows.pop(index, None) for index in at_once}
                yield from self._streamed(engine, {i: r or self._rows(i) for i, r in known.items()})
            return
        for index in queue:
            part = rows.pop(index, None) or self._rows(index)
            to_sample = [row for row in part if row.status != "prompt_too_long"]
            sampled = dict(engine.generate([row.request for row in to_sample], self._sampling))
            completions = {
                row.number: self._ended(row, sampled[i]) for i, row in enumerate(to_sample)
            }
            yield index, self._table(part, completions)

    def _streamed(
        self, engine: RolloutEngine, rows: dict[int, list["_Row"]]
    ) -> Iterator[tuple[int, DeferredTable]]:
        """Samples these parts together; finished completions are stored until a part is complete.

        Their texts are decoded while the engine works.
        """
        numbers = {row.number for part in rows.values() for row in part}
        stored = PartialCompletions(self._out, self._plan, numbers, size=self._part_rows)
        if stored.unread:
            console.say(
                f"rollout: {stored.unread} files of completions in `{self._out}` do not match "
                "their checksums; these completions are sampled again"
            )
        to_sample = [
            row for part in rows.values() for row in part if row.status != "prompt_too_long"
        ]
        completions = {row.number: stored.known[row.number] for row in to_sample
                       if row.number in stored.known}  # fmt: skip
        left = [row for row in to_sample if row.number not in completions]
        open_rows = {index: 0 for index in rows}
        for row in left:
            open_rows[row.number // self._part_rows] += 1

        def finished(index: int) -> tuple[int, DeferredTable]:
            return index, functools.partial(self._table, rows.pop(index), completions)

        for index in [index for index, count in open_rows.items() if not count]:
            yield finished(index)
        for at, completion in engine.generate([row.request for row in left], self._sampling):
            number, completion = left[at].number, self._ended(left[at], completion)
            completions[number] = completion
            stored.add(number, completion)
            open_rows[number // self._part_rows] -= 1
            if not open_rows[number // self._part_rows]:
                yield finished(number // self._part_rows)

    def _load_tokenizer(self) -> None:
        """What encodes prompts and decodes completions; a server does both for a policy of its."""
        if self._policy.is_served:
            self._served = ServedEncoder(self._options)
            return
        self._tokenizer = tokenizers.load(self._policy)
        self._context = policies.context_length(self._policy)
        self._encoder = chat.encoder(self._policy, self._options, as_before=self._as_before)
        self._stop = stops.StopStrings(self._tokenizer, self._sampling.stop)

    def _ended(self, row: "_Row", completion: Completion) -> Completion:
        """The completion up to its first stop string; an error if its prompt may not be refused."""
        if completion.too_long and self._options.overlong != "skip":
            raise DataError(
                f"prompt `{row.prompt_id}` is too long: {completion.too_long}",
                "use `--overlong skip`, or fewer --max-new-tokens",
            )
        return completion if self._policy.is_served else self._stop.cut(completion)

    def _rows(self, index: int) -> list["_Row"]:
        """What to sample for one part; prompts are encoded before anything is sampled."""
        options = self._options
        start = index * options.prompts_per_part
        rows: list[_Row] = []
        for prompt in self._prompts[start : start + options.prompts_per_part]:
            images = self._images.of_prompt(prompt["prompt_id"]) if self._images else ()
            token_ids, status, server_prompt = self._encoded(prompt, images)
            for sample in range(options.num_generations):
                seed = self._row_seed(prompt["prompt_id"], sample)
                number = index * self._part_rows + len(rows)
                request = Request(token_ids, seed, server_prompt, images)
                rows.append(_Row(number, prompt["prompt_id"], sample, status, request))
        return rows

    def _encoded(
        self, prompt: dict[str, Any], images: tuple[bytes, ...]
    ) -> tuple[list[int], str, Prompt | None]:
        """The prompt's token ids and its status; or no ids, and the request to a server."""
        name, messages, raw = prompt["prompt_id"], prompt["messages"], prompt["raw"]
        if self._policy.is_served:
            return [], "ok", self._served.asked(name, messages, raw=raw)
        options = self._options
        room = self._context - options.max_new_tokens
        return *_encode(self._encoder, prompt, images, room, options.overlong), None

    def _texts(self, completions: list[Completion]) -> list[str]:
        if self._policy.is_served:
            return [completion.text or "" for completion in completions]
        texts = self._tokenizer.batch_decode(
            [completion.token_ids for completion in completions], skip_special_tokens=True
        )
        return [self._stop.trimmed(text, completion.token_ids)
                for text, completion in zip(texts, completions, strict=True)]  # fmt: skip

    def _table(self, rows: list["_Row"], completions: dict[int, Completion]) -> pa.Table:
        aborted = Completion([], [], "abort", [])
        ordered = [completions.get(row.number, aborted) for row in rows]
        is_text = self._policy.is_served
        columns = {
            "prompt_id": [row.prompt_id for row in rows],
            "sample_index": [row.sample_index for row in rows],
            "prompt_token_ids": [row.request.prompt_token_ids for row in rows],
            "completion": self._texts(ordered),
            "token_ids": [None if is_text else done.token_ids for done in ordered],
            "behaviour_logp": [None if is_text else done.behaviour_logp for done in ordered],
            "finish_reason": [completion.finish_reason for completion in ordered],
            "status": [
                "prompt_too_long" if completion.too_long else row.status
                for row, completion in zip(rows, ordered, strict=True)
            ],
            "seed": [row.request.seed for row in rows],
            "policy": [None if is_text else self._policy.digest] * len(rows),
        }
        if not self._sampling.mu:
            return pa.table(columns, schema.schema("rollouts"))
        columns["policy_logp"] = [completion.policy_logp for completion in ordered]
        return pa.table(columns, schema.schema("rollouts", only=WITH_POLICY_LOGP))


@dataclass(frozen=True)
class _Row:
    """One row of the directory: its number there, its key, and what to ask the engine for."""

    number: int
    prompt_id: str
    sample_index: int
    status: str
    request: Request


def _encode(
    encoder: chat.Encoder, prompt: dict[str, Any], images: chat.Images, room: int, overlong: str
) -> tuple[list[int], str]:
    """The prompt's token ids and its status."""
    name, messages, raw = prompt["prompt_id"], prompt["messages"], prompt["raw"]
    token_ids = encoder.encode(name, messages, raw=raw, images=images)
    if not token_ids:
        raise DataError(f"prompt `{prompt['prompt_id']}` is empty", "remove it from the prompts")
    if len(token_ids) <= room:
        return token_ids, "ok"
    if room < 1:
        raise UsageError(
            f"the new tokens leave room for {max(room, 0)} prompt tokens in the policy's context",
            f"lower --max-new-tokens by {1 - room} or more",
        )
    if overlong == "error":
        raise DataError(
            f"prompt `{prompt['prompt_id']}` has {plural.of(len(token_ids), 'token')}, "
            "the policy's context "
            f"leaves room for {room}",
            "use `--overlong skip` or `--overlong truncate`, or fewer --max-new-tokens",
        )
    if overlong == "skip":
        return token_ids, "prompt_too_long"
    return encoder.fitted(name, messages, room, raw=raw, images=images), "prompt_truncated"
