"""The options that say how prompts are worded: read, written in one way, and checked.

Text in double quotes is a JSON string, so that a shell can write a line feed in it. What a file or
a built-in template says is kept as such a string: a directory depends on the text, not on its path.
"""

import datetime
import functools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlvr_cli import templates
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.models import stops
from rlvr_cli.specs import grammar, option_types

DATE = "2024-07-26"  # the one that Llama's own templates write where there is no clock
_DIRECTIVES = [*(f"%-{code}" for code in "dmyjHIMS"),
               *(f"%{code}" for code in "aAbBcdDeFGhHIjmMnpRSTuUVwWxXyYzZ%")]  # fmt: skip
# Its last line feed is dropped by transformers, and the template begins a line as it would alone.
_CLOCK = """\
{%% macro strftime_now(format) %%}{%% set said = namespace(text=format) %%}\
{%% for code, value in %s.items() %%}\
{%% set said.text = said.text.replace(code, value) %%}{%% endfor %%}\
{{ said.text }}{%% endmacro %%}
"""
_RESERVED = (
    "messages", "conversation", "add_generation_prompt", "continue_final_message", "tokenize",
    "return_dict", "chat_template", "padding", "truncation", "max_length", "return_tensors",
    "return_assistant_tokens_mask", "tokenizer_kwargs",
)  # fmt: skip
_OF_TOKENIZER = re.compile(r"(bos|eos|unk|pad|sep|cls|mask)_token|raise_exception|range|namespace")
_SPELLED_OUT = re.compile(r"\\n(?![a-z])")  # `\neq` and the like are LaTeX


@dataclass(frozen=True)
class Template:
    """A Jinja template, of a question's text or of a chat."""

    source: str
    is_of_chat: bool

    @functools.cached_property
    def _compiled(self) -> Any:
        return _environment().from_string(self.source)

    def render(self, question: str) -> str:
        try:
            return str(self._compiled.render(question=question))
        except Exception as error:  # a template may raise anything
            raise DataError(
                f"the template of --template fails: {first_line(error)}",
                "its only variable is `question`",
            ) from error


def text_of(value: str) -> str:
    """The text of an option: as it is, or that of a JSON string."""
    if not value.startswith('"'):
        return value
    (_, text), *more = grammar.read(f"text:value={value}").options
    if more or not isinstance(text, grammar.Quoted):
        raise UsageError(f"`{value[:60]}` is not a JSON string", "close its quotes")
    return str(text)


def written(text: str) -> str:
    """Text as `text_of` reads it."""
    return json.dumps(text, ensure_ascii=False) if text.startswith('"') else text


def given(options: RolloutOptions) -> bool:
    """Whether an option says how prompts are put to the policy."""
    texts = (options.system, options.suffix, options.prefix, options.template, options.stop)
    return any(texts) or bool(options.chat_template_kwargs)


def resolved(options: RolloutOptions) -> RolloutOptions:
    """The options in the one way of writing them, with the content of the files that they name."""
    for name in ("system", "suffix", "prefix", "stop"):
        _refuse_spelled_out(name, getattr(options, name))
    return replace(
        options,
        system=written(text_of(options.system)),
        suffix=written(text_of(options.suffix)),
        prefix=_content(options.prefix, "prefix"),
        template=_content(_builtin(options.template), "template"),
        chat_template_kwargs=_spelled(read_kwargs(options.chat_template_kwargs)),
        stop=stops.spell(stops.read(options.stop)),
    )


def _refuse_spelled_out(name: str, value: str) -> None:
    if value[:1] not in ('"', "[") and _SPELLED_OUT.search(value):
        text = json.dumps(value.replace("\\n", "\n"), ensure_ascii=False)
        raise UsageError(
            f"--{name} is `{value[:60]}`, with a backslash and an n where a line feed may be meant",
            f"write it as a JSON string: --{name} '{text[:300]}'",
        )


def _builtin(value: str) -> str:
    """A built-in template as its path."""
    is_name = value and value[:1] != '"' and Path(value).name == value
    if is_name and (value in templates.names() or not Path(value).exists()):
        return str(templates.path(value))
    return value


def _content(value: str, name: str) -> str:
    """What a file says as a JSON string; empty without one."""
    if not value or value.startswith('"'):
        return value and json.dumps(text_of(value), ensure_ascii=False)
    try:
        text = Path(value).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read `{value}` of --{name}: {error}", "check the path") from error
    if not text.strip():
        raise DataError(f"`{value}` of --{name} is empty", f"leave --{name} out, or fill it")
    return json.dumps(text, ensure_ascii=False)


def template(value: str) -> Template | None:
    """The template that a resolved option holds: of a chat if it reads `messages`."""
    if not value:
        return None
    source = text_of(value)
    read = variables(source)
    if not read & {"messages", "question"}:
        raise UsageError(
            f"the template of --template reads {', '.join(sorted(read)) or 'nothing'}",
            "write {{ question }} where the question belongs; a chat template reads `messages`",
        )
    return Template(source, is_of_chat="messages" in read)


def variables(source: str) -> set[str]:
    """The names that a template reads or sets; an error if it is no template."""
    from jinja2 import nodes

    return {node.name for node in _tree(source).find_all(nodes.Name)}


def _settable(source: str) -> list[str]:
    """The variables that a chat template leaves to its caller."""
    from jinja2 import meta, nodes

    tree = _tree(source)
    asked = {test.node.name for test in tree.find_all(nodes.Test)
             if test.name == "defined" and isinstance(test.node, nodes.Name)}  # fmt: skip
    names = meta.find_undeclared_variables(tree) | asked
    return sorted(n for n in names - set(_RESERVED) if not _OF_TOKENIZER.fullmatch(n))


def _tree(source: str) -> Any:
    from jinja2 import TemplateError

    plain = re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", source)  # transformers' own tag
    try:
        return _environment().parse(plain)
    except TemplateError as error:
        raise DataError(
            f"a template is not Jinja: {first_line(error)}", "check its braces"
        ) from error


def _environment() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols"],
    )


def read_kwargs(value: str) -> dict[str, Any]:
    """The variables of `enable_thinking=false,...`, by the grammar of specs."""
    if not value:
        return {}
    given: dict[str, Any] = {}
    for key, item in grammar.read(f"kwargs:{value}").options:
        if item is None or not key.isidentifier() or key in given:
            raise UsageError(
                f"--chat-template-kwargs is `{value}`",
                "write each variable once, as in --chat-template-kwargs enable_thinking=false",
            )
        given[key] = option_types.convert(item, Any)
    return given


def _spelled(kwargs: dict[str, Any]) -> str:
    return ",".join(f"{key}={option_types.spell(kwargs[key], Any)}" for key in sorted(kwargs))


def check(options: RolloutOptions, chat_template: str, kwargs: dict[str, Any]) -> None:
    """Refuses options that say nothing of this chat template, which is empty if there is none."""
    if options.system and not (options.chat and chat_template):
        why = "--no-chat" if not options.chat else "the policy has no chat template"
        raise UsageError(
            f"--system is given, and {why}: there is no system turn",
            "leave it out, or put it before the text with --prefix",
        )
    if kwargs and not chat_template:
        raise UsageError(
            "--chat-template-kwargs is given, and the policy has no chat template",
            "leave it out, or give a chat template with --template FILE",
        )
    for key in kwargs:
        if key in _RESERVED:
            raise UsageError(
                f"--chat-template-kwargs sets `{key}`, which rlvr sets", "leave it out"
            )
        if key not in variables(chat_template):
            others = _settable(chat_template)
            raise UsageError(
                f"the chat template does not read `{key}`, which --chat-template-kwargs sets",
                f"it reads {', '.join(others)}" if others else "leave it out",
            )
    if "strftime_now" in kwargs:
        clock(kwargs["strftime_now"])


def clock(date: Any) -> str:
    """Jinja that defines `strftime_now` before a template, for a day that does not change.

    A macro: newer releases of transformers turn a function that is given to a template to text.
    """
    try:
        day = datetime.datetime.fromisoformat(str(date))
    except ValueError:
        raise UsageError(
            f"--chat-template-kwargs sets strftime_now to `{date}`",
            f"write a date, as in --chat-template-kwargs strftime_now={DATE}",
        ) from None
    written = {code: day.strftime(code) for code in _DIRECTIVES}
    return _CLOCK % json.dumps(written)
