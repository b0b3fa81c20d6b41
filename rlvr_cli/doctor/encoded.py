"""Prompts as the policy sees them: how long they are, and how many of their tokens are images."""

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from rlvr_cli.config import RolloutOptions
from rlvr_cli.doctor.finding import MOST, Finding, some
from rlvr_cli.errors import UserError
from rlvr_cli.models import chat, images as pixels, policy as policies, tokenizers
from rlvr_cli.models.policy import Policy

PromptRow = dict[str, Any]


class EncodedPrompts:
    """How long the prompts are for the policy, and the first one as it sees it."""

    def __init__(self, policy: Policy, options: RolloutOptions) -> None:
        self._policy, self._options = policy, options
        self._context = policies.context_length(policy)
        self._lengths, self._heads, self._raws = array("i"), bytearray(), bytearray()
        self._long, self._names = 0, list[str]()
        self._images = _Images()
        self._first: PromptRow | None = None
        self._encoder: chat.Encoder | None = None
        self._error: UserError | None = None
        try:
            processor = tokenizers.load_processor(policy)
            tokenizer = tokenizers.load(policy)
            self._encoder = chat.Encoder(tokenizer, options, processor=processor)
            self._images.places = pixels.placeholder_ids(processor) if processor else frozenset()
        except UserError as error:
            self._error = error

    def add(self, rows: list[PromptRow]) -> None:
        self._heads += bytes(row["messages"][:1] == '"' for row in rows)
        self._raws += bytes(bool(row["raw"]) for row in rows)
        if self._encoder is None or self._error:
            return
        try:
            encoded = self._encoded(self._encoder, rows)
        except UserError as error:
            self._error = error
            return
        room = self._context - self._options.max_new_tokens
        for row, token_ids in encoded:
            self._first = self._first or row
            self._lengths.append(len(token_ids))
            if len(token_ids) > room:
                self._long += 1
                self._names += [row["prompt_id"]] * (self._long <= MOST)

    def _encoded(
        self, encoder: chat.Encoder, rows: list[PromptRow]
    ) -> list[tuple[PromptRow, list[int]]]:
        """Each row with its token ids, without those whose images the policy does not read."""
        of_images = {
            number: self._images.encoded(encoder, row)
            for number, row in enumerate(rows)
            if row.get("images")
        }
        prompts = (
            (row["prompt_id"], row["messages"], bool(row["raw"]))
            for number, row in enumerate(rows)
            if number not in of_images
        )
        texts = iter(encoder.encode_all(prompts))
        encoded = (
            (row, of_images[number] if number in of_images else next(texts))
            for number, row in enumerate(rows)
        )
        return [(row, token_ids) for row, token_ids in encoded if token_ids is not None]

    def findings(self) -> Iterator[Finding]:
        yield from self._images.findings(self._policy)
        try:
            remarks = self._remarks()
            if self._error:
                raise self._error
        except UserError as error:
            yield Finding("problem", "lengths", str(error), error.hint)
            return
        if self._first:
            yield self._length()
        for remark in remarks:
            yield Finding("ok", "template", remark)
        if self._encoder and self._first:
            preview = self._encoder.preview(self._first, stored(self._first))
            yield Finding("ok", "prompt", preview)

    def _length(self) -> Finding:
        length_N = np.array(self._lengths)
        new, context, long = self._options.max_new_tokens, self._context, self._long
        room = context - new
        if not long:
            text = f"prompts of {np.median(length_N):g} tokens (median) to {length_N.max()}"
            return Finding("ok", "lengths", f"{text}, the context leaves {room}")
        return Finding(
            "problem",
            "lengths",
            f"{long} of {len(length_N)} prompts are longer than {room} tokens, which a "
            f"context of {context} leaves for them with {new} new ones: {some(self._names)}",
            "use fewer --max-new-tokens, or `--overlong skip`",
        )

    def _remarks(self) -> list[str]:
        if self._encoder is None:
            return []
        heads = ('"' if is_text else "[" for is_text in self._heads)
        return list(self._encoder.remarks(heads, map(bool, self._raws)))


class _Images:
    """The image tokens of prompts, and the prompts whose images the policy does not read."""

    def __init__(self) -> None:
        self.places: frozenset[int] = frozenset()
        self._tokens = array("i")
        self._count = 0
        self._refused: dict[str, UserError] = {}

    def encoded(self, encoder: chat.Encoder, row: PromptRow) -> list[int] | None:
        """The row's token ids; None where the policy does not read its images."""
        self._count += 1
        try:
            token_ids = encoder.encode(
                row["prompt_id"], row["messages"], raw=bool(row["raw"]), images=stored(row)
            )
        except UserError as error:
            self._refused[row["prompt_id"]] = error
            return None
        self._tokens.append(sum(token in self.places for token in token_ids))
        return token_ids

    def findings(self, policy: Policy) -> Iterator[Finding]:
        if self._refused:
            error = next(iter(self._refused.values()))
            yield Finding(
                "problem",
                "images",
                f"`{policy.name}` does not read those of {len(self._refused)} of {self._count} "
                f"prompts: {some([*self._refused])}; {error}",
                error.hint,
            )
        if len(self._tokens):
            count_N = np.array(self._tokens)
            text = f"{np.median(count_N):g} a prompt with images (median), {count_N.max()} at most"
            yield Finding("ok", "image tokens", text)


def stored(row: PromptRow) -> tuple[bytes, ...]:
    """The bytes of a row's images, in their order."""
    return tuple(image.read() for image in row.get("images") or ())
