"""Prompts for a policy that only a server knows: the server has the template and tokenizer."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import messages as shapes, prompt_options, stops
from rlvr_cli.models.messages import Prompt
from rlvr_cli.models.wording import Wording
from rlvr_cli.terminal import escape


class ServedEncoder:
    """Words the prompts of rollouts; a question becomes a chat of one turn, raw text stays text."""

    def __init__(self, options: RolloutOptions) -> None:
        """An error if an option needs the policy's own files."""
        options = prompt_options.resolved(options)
        self._options, self._wording = options, Wording(options)
        if options.chat_template_kwargs:
            raise UsageError(
                "--chat-template-kwargs is given, and the chat template is the server's",
                "send them with the request, as in `--engine "
                "openai:...,body={chat_template_kwargs={enable_thinking=false}}`",
            )
        if self._wording.template and self._wording.template.is_of_chat:
            raise UsageError(
                "--template is a chat template, and the server has its own",
                "leave it out, or name the policy's files with --model",
            )
        if options.system and not options.chat:
            raise UsageError(
                "--system is given, and --no-chat: there is no system turn",
                "leave it out, or put it before the text with --prefix",
            )

    def asked(self, name: str, messages: str, *, raw: bool = False) -> Prompt:
        """The request to the server: the turns of a chat, or text that it continues."""
        prompt = shapes.stored(messages, name)
        if isinstance(prompt, str) and (raw or not self._options.chat):
            text = self._wording.question(prompt)
            if not text:
                raise DataError(f"prompt `{name}` is empty", "remove it from the prompts")
            return text
        return self._wording.with_system(name, self._wording.turns(name, prompt))

    def preview(self, row: dict[str, Any]) -> str:
        """A prompt as the server is sent it."""
        asked = self.asked(row["prompt_id"], row["messages"], raw=bool(row.get("raw")))
        text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False, indent=1)
        return f"prompt `{row['prompt_id']}` as the server is sent it:\n{escape.shown(text)}"

    def remarks(self, messages: Iterable[str], raws: Iterable[bool]) -> Iterator[str]:
        """What the options make of these prompts, one line each."""
        plain = [raw or not self._options.chat for text, raw in zip(messages, raws, strict=True)
                 if text[:1] == '"']  # fmt: skip
        if questions := plain.count(False):
            yield (
                f"{questions} question{'s' if questions > 1 else ''} in plain text: each becomes a "
                "user turn; --no-chat leaves text as it is"
            )
        if strings := stops.read(self._options.stop):
            yield f"a completion also ends at {' or '.join(map(json.dumps, strings))}"
        yield (
            "only the server knows this policy: completions come as text without token ids, which "
            "can be scored and evaluated, but not trained on"
        )
