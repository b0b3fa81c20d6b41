"""The tokens of imported completions, and their sampler's log-probs."""

from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.token_logprobs import Sampled
from rlvr_cli.models import chat, tokenizers
from rlvr_cli.models.policy import Policy


class Encoder:
    """Token ids of prompts and completions by a policy's tokenizer; none without a policy."""

    def __init__(self, policy: Policy | None, rows: list[dict[str, Any]]) -> None:
        self._tokenizer: Any = None
        self.prompts: dict[str, list[int]] = {row["prompt_id"]: [] for row in rows}
        if policy is not None:
            self._tokenizer = tokenizers.load(policy)
            self._end = tokenizers.end_ids(policy, self._tokenizer)[0]
            processor = tokenizers.load_processor(policy)
            for row in rows:
                name = row["prompt_id"]
                images = tuple(image.read() for image in row.get("images") or ())
                encoder = chat.Encoder(self._tokenizer, processor=processor)
                self.prompts[name] = encoder.encode(name, row["messages"], images=images)

    def completion(self, text: str, finish_reason: str | None) -> list[int] | None:
        if self._tokenizer is None:
            return None
        token_ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*token_ids, self._end] if finish_reason == "stop" else token_ids

    def sampled(self, row: dict[str, Any]) -> tuple[list[int] | None, list[float] | None]:
        """The token ids of a completion, and their log-probs where those are of these tokens.

        The ids are the file's own where it has them with the log-probs. An end without a
        log-prob is left out.
        """
        token_ids = self.completion(row["completion"], row["finish_reason"])
        sampled: Sampled | None = row["sampled"]
        if sampled is None or token_ids is None:
            return token_ids, None
        if sampled.token_ids is not None:
            text = self._tokenizer.decode(sampled.token_ids, skip_special_tokens=True)
            if not text.startswith(row["completion"]):
                raise DataError(
                    f"the token ids of a completion of prompt `{row['prompt_id']}` are another "
                    f"text: `{text[:40]}` for `{row['completion'][:40]}`",
                    "name the model that sampled it, or one with its tokenizer, with --model",
                )
            return sampled.token_ids, sampled.logp
        is_ended = row["finish_reason"] == "stop"
        known = token_ids[: len(sampled.logp)]
        if len(token_ids) - len(known) > is_ended or not self._are(known, sampled):
            return token_ids, None
        return known, sampled.logp

    def _are(self, token_ids: list[int], sampled: Sampled) -> bool:
        """Whether tokens are those sampled, by their number and, but for spaces, their texts.

        What is part of a character has no text of its own.
        """
        texts = sampled.texts
        if len(token_ids) != len(sampled.logp) or texts is None:
            return len(token_ids) == len(sampled.logp)
        own = (self._tokenizer.decode([each]) for each in token_ids)
        pairs = zip(own, texts, strict=True)
        return all(mine.strip() == text.strip() or "\ufffd" in mine for mine, text in pairs)
