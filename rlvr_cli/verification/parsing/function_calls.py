"""Function calls in the layouts of chat templates and data sets, and which are equal."""

import ast
import contextlib
import math
import re
import warnings
from dataclasses import dataclass
from typing import Any

from rlvr_cli.verification.parsing import json_text
from rlvr_cli.verification.parsing.json_equality import Leniency, canonical

_TAG = re.compile(r"<(/?)tool_call>")
_PYTHON = re.compile(r"\[?\s*[A-Za-z_][\w.]*\(")
_FENCED = ("python", "py", "tool_code", "tool_call")  # languages of blocks, besides JSON
_FUNCTION = re.compile(r"<function=([^<>\s]+)>((?:(?!<function=).)*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^<>\s]+)>((?:(?!<parameter=).)*?)</parameter>", re.DOTALL)
_LEAD = re.compile(r"^\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>)")
_OTHER_NAMES = ("function", "tool", "tool_name", "function_name")  # of a call without `name`
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_MOST_CALLS = 64
_MOST_PYTHON = 20_000  # characters


class NotCalls(Exception):
    """Why there are no function calls to read."""


@dataclass(frozen=True)
class Call:
    """A function's name and its arguments, or, of a gold, the values that each may have."""

    name: str
    arguments: dict[str, Any]
    is_choice: bool = False  # whether each argument is the list of its allowed values, as in BFCL
    is_text: bool = False  # whether arguments are texts, of which some may mean numbers


def of_completion(text: str) -> list[Call]:
    """The calls of a completion: of all `<tool_call>` blocks, else of its JSON or its Python calls.

    Also `<function=NAME>`, with JSON as of Llama or with parameters as of Qwen3-Coder.

    Raises NotCalls.
    """
    try:
        if blocks := _blocks(text):
            calls = [call for block in blocks for call in _block(block)]
        elif "<function=" in text:
            calls = _functions(text)
        else:
            text = json_text.candidate(_LEAD.sub("", text), _FENCED)
            calls = (
                _python(text) if _PYTHON.match(text.lstrip()) else of_value(json_text.read(text))
            )
    except json_text.NotJson as error:
        raise NotCalls(str(error)) from error
    if any(call.is_choice for call in calls):
        raise NotCalls("its call has no name")
    return calls


def of_gold(text: str) -> list[Call]:
    """The calls of a gold. Raises NotCalls."""
    try:
        blocks = _blocks(text) or [text]
        calls = [call for block in blocks for call in of_value(json_text.read(block))]
    except json_text.NotJson as error:
        raise NotCalls(str(error)) from error
    if not calls:
        raise NotCalls("it holds no call")
    return calls


def of_value(value: Any) -> list[Call]:
    """The calls of a JSON value: of OpenAI, Anthropic, Hermes, Llama, xLAM, or a gold of BFCL."""
    if isinstance(value, list):
        calls = [call for item in value for call in of_value(item)]
        if len(calls) > _MOST_CALLS:
            raise NotCalls(f"it has more than {_MOST_CALLS} calls")
        return calls
    if not isinstance(value, dict):
        raise NotCalls(f"it holds {canonical(value, Leniency())[:60]}, a call was expected")
    if isinstance(value.get("tool_calls"), list):
        return of_value(value["tool_calls"])
    if isinstance(value.get("function"), dict):
        return of_value(value["function"])
    if isinstance(value.get("name"), str):
        return [Call(value["name"], _arguments(value, value["name"]))]
    for key in _OTHER_NAMES:
        if isinstance(value.get(key), str) and value.keys() & {*_ARGUMENTS}:
            return [Call(value[key], _arguments(value, value[key]))]
    if len(value) == 1:
        ((name, choices),) = value.items()
        if isinstance(choices, dict) and all(isinstance(c, list) and c for c in choices.values()):
            return [Call(name, choices, is_choice=True)]
    raise NotCalls("its call has no name")


def _arguments(call: dict[str, Any], name: str) -> dict[str, Any]:
    given: Any = next((call[key] for key in _ARGUMENTS if call.get(key) is not None), {})
    if isinstance(given, str):
        given = json_text.read(given) if given.strip() else {}
    if not isinstance(given, dict):
        raise NotCalls(f"the arguments of `{name[:60]}` are no object")
    return given


def _block(text: str) -> list[Call]:
    """The calls of one `<tool_call>`."""
    return (
        _functions(text)
        if "<function=" in text
        else of_value(json_text.read(json_text.candidate(text)))
    )


def _functions(text: str) -> list[Call]:
    """The calls that `<function=NAME>` and `</function>` enclose."""
    calls = []
    for name, body in _FUNCTION.findall(text):
        if body.lstrip().startswith("{"):
            calls.append(Call(name, _arguments({"arguments": json_text.read(body)}, name)))
            continue
        if _PARAMETER.sub("", body).strip():
            raise NotCalls("its <function> holds more than parameters")
        pairs = _PARAMETER.findall(body)
        arguments = {key: value.removeprefix("\n").removesuffix("\n") for key, value in pairs}
        if len(arguments) < len(pairs):
            raise NotCalls("an argument is given twice")
        calls.append(Call(name, arguments, is_text=True))
    if len(calls) < text.count("<function="):
        raise NotCalls("its last <function> is not closed")
    return calls


def _blocks(text: str) -> list[str]:
    """The text between `<tool_call>` and `</tool_call>`, of each pair."""
    blocks, start = [], None
    for tag in _TAG.finditer(text):
        if tag[1] and start is not None:
            blocks.append(text[start : tag.start()])
            start = None
        elif not tag[1]:
            start = tag.end()
    if start is not None:
        raise NotCalls("its last <tool_call> is not closed")
    return blocks


def _python(text: str) -> list[Call]:
    """The calls of `[f(x=1), g(y="a")]`, as models write them for BFCL; nothing is executed."""
    if len(text) > _MOST_PYTHON:
        raise NotCalls(f"its calls have more than {_MOST_PYTHON} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in its strings
            body = ast.parse(text.strip(), mode="eval").body
        nodes = body.elts if isinstance(body, ast.List) else [body]
        return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise NotCalls(f"its calls are no Python: {error}"[:200]) from error


def _python_call(node: ast.AST) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("a call with named arguments was expected")
    if any(keyword.arg is None for keyword in node.keywords):
        raise ValueError("`**` is no argument")
    arguments = {str(k.arg): _plain(ast.literal_eval(k.value)) for k in node.keywords}
    if len(arguments) < len(node.keywords):
        raise ValueError("an argument is given twice")
    return Call(ast.unparse(node.func), arguments)


def _plain(value: Any) -> Any:
    """A literal of Python as JSON has it."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"{value!r:.40} is nothing that JSON has")


def equal(given: list[Call], golds: list[Call], lenient: Leniency, *, in_order: bool) -> bool:
    """Whether each gold has a call of its own, and no call is left over."""
    if len(given) != len(golds):
        return False
    if in_order:
        return all(_fits(c, g, lenient) for c, g in zip(given, golds, strict=True))
    fits = [[_fits(call, gold, lenient) for gold in golds] for call in given]
    taken: dict[int, int] = {}
    return all(_assign(number, fits, taken, set()) for number in range(len(given)))


def _assign(number: int, fits: list[list[bool]], taken: dict[int, int], seen: set[int]) -> bool:
    """Gives a call a gold, moving others where needed (Kuhn's matching)."""
    for gold, is_fit in enumerate(fits[number]):
        if is_fit and gold not in seen:
            seen.add(gold)
            if gold not in taken or _assign(taken[gold], fits, taken, seen):
                taken[gold] = number
                return True
    return False


def _fits(call: Call, gold: Call, lenient: Leniency) -> bool:
    if call.name != gold.name:
        return False
    given = _typed(call, gold, lenient) if call.is_text else call.arguments
    if gold.is_choice:
        return _chosen(given, gold.arguments, lenient)
    return canonical(given, lenient) == canonical(gold.arguments, lenient)


def _typed(call: Call, gold: Call, lenient: Leniency) -> dict[str, Any]:
    """The arguments of a call in texts, each as the gold has it: as JSON, or as the text."""
    typed: dict[str, Any] = {}
    for name, text in call.arguments.items():
        wanted = gold.arguments.get(name)
        choices = wanted if gold.is_choice and isinstance(wanted, list) else [wanted]
        readings: list[Any] = [text]
        with contextlib.suppress(json_text.NotJson):
            readings.append(json_text.read(text))
        fitting = (r for r in readings for choice in choices if _is_one(r, choice, lenient))
        typed[name] = next(fitting, text)
    return typed


def _chosen(given: dict[str, Any], allowed: dict[str, Any], lenient: Leniency) -> bool:
    """Whether each argument has one of its allowed values; with "" among them it may be missing."""
    if not given.keys() <= allowed.keys():
        return False
    for name, choices in allowed.items():
        if not isinstance(choices, list):  # of an object within a value
            choices = [choices]
        if name not in given:
            if "" not in choices:
                return False
        elif not any(_is_one(given[name], choice, lenient) for choice in choices):
            return False
    return True


def _is_one(value: Any, choice: Any, lenient: Leniency) -> bool:
    if isinstance(choice, dict) and isinstance(value, dict):
        return _chosen(value, choice, lenient)
    if isinstance(choice, list) and isinstance(value, list) and not lenient.lists:
        pairs = zip(value, choice, strict=False)
        return len(value) == len(choice) and all(_is_one(v, c, lenient) for v, c in pairs)
    return canonical(value, lenient) == canonical(choice, lenient)
