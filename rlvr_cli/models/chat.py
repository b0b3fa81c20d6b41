"""How a stored prompt becomes the tokens that the policy sees: the one place that encodes prompts.

A plain question becomes a user's turn where the policy has a chat template. Prompts of tasks, and
those of a policy without one, stay raw text. Messages always go through the template.
"""

import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError, UserError, first_line
from rlvr_cli.models import (
    images as pixels,
    messages as shapes,
    prompt_options,
    stops,
    tokenizers,
)
from rlvr_cli.models.messages import Message, Prompt
from rlvr_cli.models.policy import Policy
from rlvr_cli.models.prompt_options import DATE
from rlvr_cli.models.wording import Wording, asking
from rlvr_cli.terminal import escape, plural

Images = Sequence[bytes]  # the stored bytes of a prompt's, in their order
AS_TEXT = RolloutOptions(chat=False)
_PROBE = "a question"
_SHOWN = 6000  # characters of a prompt that are shown


class Encoder:
    """Encodes the prompts of a policy's rollouts.

    `as_before` is of directories that were begun before there were options for it: text and
    messages are encoded, and cut, as they were then. With the `processor` of a policy that reads
    images, prompts may have some: their stored bytes are given with each prompt.
    """

    def __init__(
        self,
        tokenizer: Any,
        options: RolloutOptions = AS_TEXT,
        *,
        as_before: bool = False,
        processor: Any = None,
    ) -> None:
        """An error if the options make no sense with the policy's chat template, or its lack."""
        options = prompt_options.resolved(options)
        self._tokenizer, self._options, self._as_before = tokenizer, options, as_before
        self._processor = processor
        self._wording = Wording(options)
        self._kwargs = prompt_options.read_kwargs(options.chat_template_kwargs)
        template = self._wording.template
        self._chat = template.source if template and template.is_of_chat else self._own_template()
        prompt_options.check(options, self._chat, self._kwargs)
        self._writes_date = "strftime_now" in prompt_options.variables(self._chat)

    def _own_template(self) -> str:
        """The policy's chat template, empty if it has none."""
        if isinstance(of_processor := getattr(self._processor, "chat_template", None), str):
            return of_processor
        if not getattr(self._tokenizer, "chat_template", None):
            return ""
        try:
            return str(self._tokenizer.get_chat_template())
        except ValueError as error:  # several, and none of them is the default one
            raise DataError(
                f"the policy's chat template cannot be chosen: {first_line(error)}",
                "name a file of it with --template",
            ) from error

    @property
    def has_template(self) -> bool:
        return bool(self._chat)

    def encode(
        self, name: str, messages: str, *, raw: bool = False, images: Images = ()
    ) -> list[int]:
        """The token ids of a prompt of a prompts directory; `raw` of one that is no question.

        Each image, of these stored bytes in their order, is as many ids as the model has for it.
        """
        return self._tokens(name, shapes.stored(messages, name), images, raw=raw)

    def encode_all(self, prompts: Iterable[tuple[str, str, bool]]) -> list[list[int]]:
        """`encode` of many without images: a name, messages and rawness each."""
        rendered, are_chats = list[str](), list[bool]()
        for name, messages, raw in prompts:
            prompt = shapes.stored(messages, name)
            rendered.append(self._rendered(name, prompt, raw=raw))
            are_chats.append(self._is_chat(prompt, raw))
        ids_of: dict[int, list[int]] = {}
        for is_chat in set(are_chats):
            places = [place for place, own in enumerate(are_chats) if own == is_chat]
            texts = [rendered[place] for place in places]
            ids = self._tokenizer(texts, add_special_tokens=not is_chat)["input_ids"]
            for place, token_ids in zip(places, ids, strict=True):
                ids_of[place] = self._with_one_begin(token_ids)
        return [ids_of[place] for place in range(len(rendered))]

    def fitted(
        self, name: str, messages: str, room: int, *, raw: bool = False, images: Images = ()
    ) -> list[int]:
        """The token ids of a prompt that is too long, cut at the left end to at most `room`.

        What is cut of a chat is the question: the template, images and other turns stay complete.
        """
        prompt = shapes.stored(messages, name)
        token_ids = self._tokens(name, prompt, images, raw=raw)
        if len(token_ids) <= room or self._as_before or not self._is_chat(prompt, raw):
            return token_ids[-room:]
        text = shapes.question(prompt)
        low, high = 0, len(text)  # characters kept: `low` fits, or nothing does
        while low < high:
            middle = -(-(low + high) // 2)
            cut = self._tokens(name, asking(prompt, text[-middle:]), images, raw=raw)
            low, high = (middle, high) if len(cut) <= room else (low, middle - 1)
        while low:
            token_ids = self._tokens(name, asking(prompt, text[-low:]), images, raw=raw)
            if len(token_ids) <= room:
                return token_ids
            low -= 1
        around = len(self._tokens(name, asking(prompt, ""), images, raw=raw))
        raise DataError(
            f"prompt `{name}` has no room for its question: what is around it has "
            f"{around} tokens, and {room} fit",
            "use `--overlong skip`, or fewer --max-new-tokens",
        )

    def _is_chat(self, prompt: Prompt, raw: bool) -> bool:
        if not isinstance(prompt, str):
            return True
        return self._options.chat and self.has_template and not raw

    def _tokens(self, name: str, prompt: Prompt, images: Images, *, raw: bool) -> list[int]:
        """A rendered template holds its special tokens already: none are added to it."""
        if shown := shapes.images(prompt):
            self._check_images(name, len(shown), len(images))
        rendered = self._rendered(name, prompt, raw=raw)
        if shown:
            return self._with_one_begin(self._expanded(name, rendered, images))
        is_chat = self._is_chat(prompt, raw)
        token_ids: list[int] = self._tokenizer(rendered, add_special_tokens=not is_chat)[
            "input_ids"
        ]
        return self._with_one_begin(token_ids)

    def _check_images(self, name: str, shown: int, given: int) -> None:
        """An error if the policy reads no images, or others are given than the prompt shows."""
        if self._processor is None:
            raise reads_text_alone(name)
        if shown != given:
            raise DataError(
                f"prompt `{name}` shows {shown} images, and {given} are stored of it",
                "make the prompts again with `rlvr prompts`",
            )

    def _expanded(self, name: str, rendered: str, images: Images) -> list[int]:
        try:
            return pixels.expanded(self._processor, rendered, images)
        except UserError as error:
            raise DataError(f"prompt `{name}`: {error}", error.hint) from error
        except Exception as error:  # a processor may raise anything, and refuses images so
            raise DataError(
                f"the policy's processor refuses prompt `{name}`: {first_line(error)}",
                "its text may spell a token that represents an image, or the chat template may "
                "have no place for images: name another with --template",
            ) from error

    def _with_one_begin(self, token_ids: list[int]) -> list[int]:
        first = self._tokenizer.bos_token_id
        if not self._as_before and first is not None and token_ids[:2] == [first, first]:
            return token_ids[1:]  # the text begins with one, and the tokenizer adds one
        return token_ids

    def _rendered(self, name: str, prompt: Prompt, *, raw: bool) -> str:
        if not self._is_chat(prompt, raw):
            assert isinstance(prompt, str)
            return self._wording.question(prompt)
        if isinstance(prompt, str):
            self._refuse_rendered(name, prompt)
        turns = self._wording.turns(name, prompt)
        if not self.has_template:
            raise _no_template(name)
        return self._in_template(name, self._wording.with_system(name, turns))

    def _refuse_rendered(self, name: str, text: str) -> None:
        """An error if a text is a rendered chat already: it would have the template twice."""
        special = [token for token in self._tokenizer.all_special_tokens if token]
        begins = next((token for token in special if text.lstrip().startswith(token)), None)
        if begins:
            raise DataError(
                f"prompt `{name}` begins with `{begins}`, like text that a chat template rendered: "
                "the template would be applied twice",
                "use --no-chat, which leaves text as it is",
            )

    def _in_template(self, name: str, turns: list[Message]) -> str:
        given, template = dict(self._kwargs), self._chat
        if self._wants_parts:
            turns = [turn | {"content": _as_parts(turn["content"])} for turn in turns]
        if self._writes_date and not self._as_before:
            template = prompt_options.clock(given.pop("strftime_now", DATE)) + template
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, chat_template=template, add_generation_prompt=True, tokenize=False, **given
            )
        except Exception as error:  # a template may raise anything, and refuses turns so
            roles = ", ".join(turn["role"] for turn in turns)
            raise DataError(
                f"the chat template refuses prompt `{name}`, whose turns are {roles}: "
                f"{first_line(error)}",
                "leave --system out, and put what it says before the question with --prefix"
                if self._wording.has_system
                else "write its turns as the template wants them, or name another with --template",
            ) from error
        return text

    @functools.cached_property
    def _wants_parts(self) -> bool:
        """Whether a template of a policy that reads images drops contents that are plain strings.

        It reads each turn as a list of parts then, as SmolVLM's does.
        """
        if not self._processor or not self.has_template:
            return False
        turns = [{"role": "user", "content": _PROBE}]
        try:
            text: str = self._tokenizer.apply_chat_template(
                turns, chat_template=self._chat, tokenize=False, **self._kwargs
            )
        except Exception:  # a template may raise anything
            return True
        return _PROBE not in text

    def preview(self, row: dict[str, Any], images: Images = ()) -> str:
        """A prompt exactly as the policy sees it, its special and control characters visible."""
        name = row["prompt_id"]
        token_ids = self.encode(name, row["messages"], raw=bool(row.get("raw")), images=images)
        text = self._decoded(token_ids)
        half, left = _SHOWN // 2, len(text) - _SHOWN
        if left > 0:
            text = f"{text[:half]}\n[... {left} characters ...]\n{text[-half:]}"
        head = f"prompt `{name}` as the policy sees it, {len(token_ids)} tokens:"
        return f"{head}\n{escape.shown(text)}"

    def _decoded(self, token_ids: list[int]) -> str:
        """The text of ids, in which the many placeholders of an image are one with their number."""
        if not self._processor:
            return str(self._tokenizer.decode(token_ids, skip_special_tokens=False))
        places, pieces = pixels.placeholder_ids(self._processor), list[str]()
        for is_image, run in itertools.groupby(token_ids, places.__contains__):
            ids = list(run)
            if is_image:
                pieces.append(f"<image: {plural.of(len(ids), 'token')}>")
            else:
                pieces.append(self._tokenizer.decode(ids, skip_special_tokens=False))
        return "".join(pieces)

    def remarks(self, messages: Iterable[str], raws: Iterable[bool]) -> Iterator[str]:
        """What the options make of these prompts, one line each."""
        count = texts = questions = 0
        for text, raw in zip(messages, raws, strict=True):
            count += 1
            texts += text[:1] == '"'
            questions += text[:1] == '"' and not raw
        if self.has_template and self._options.chat and questions:
            yield (
                f"{questions} question{'s' if questions > 1 else ''} in plain text: each becomes a "
                "user turn of the chat template; --no-chat leaves text as it is"
            )
        elif self._wording.has_system and count and texts == count:
            raise UsageError(
                "--system is given, and the prompts are raw text, as those of tasks are",
                "leave it out, or put it before the text with --prefix",
            )
        says_date = any("date" in key for key in self._kwargs)
        if self._writes_date and not says_date and not self._as_before:
            yield (
                "the chat template writes a date: "
                f"{self._kwargs.get('strftime_now', DATE)} in each prompt, so that it can be "
                "reproduced; --chat-template-kwargs strftime_now=YYYY-MM-DD sets another"
            )
        if strings := stops.read(self._options.stop):
            yield f"a completion also ends at {' or '.join(map(json.dumps, strings))}"


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def reads_text_alone(prompt: str, policy: str = "") -> DataError:
    """The error for a prompt with an image, if the policy reads none."""
    name = f"`{policy}`" if policy else "the policy"
    return DataError(
        f"prompt `{prompt}` has an image, and {name} reads only text",
        "name a policy that reads images, as in --model Qwen/Qwen2.5-VL-3B-Instruct",
    )


def encoder(
    policy: Policy, options: RolloutOptions = AS_TEXT, *, as_before: bool = False
) -> Encoder:
    """The encoder of a policy, by its files."""
    tokenizer, processor = tokenizers.load(policy), tokenizers.load_processor(policy)
    return Encoder(tokenizer, options, as_before=as_before, processor=processor)


def refuse_messages(prompts: pa.Table) -> None:
    """An error if one of the prompts is a list of messages, for a policy without a template."""
    for name, text in zip(prompts["prompt_id"], prompts["messages"], strict=True):
        if text.as_py()[:1] != '"':
            raise _no_template(name.as_py())


def _no_template(name: str) -> DataError:
    return DataError(
        f"prompt `{name}` is a list of messages, the policy has no chat template",
        "give the prompt as text, or a chat template with --template FILE",
    )
