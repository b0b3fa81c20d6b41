"""Tests as pairs of an input and an output: of a script, or of a function that is called."""

import ast
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INPUTS = ("input", "inputs", "stdin")
OUTPUTS = ("output", "outputs", "expected_output", "expected", "stdout")
FUNCTIONS = ("fn_name", "func_name", "function_name", "entry_point")


class Unreadable(Exception):
    """Why pairs are no tests."""


@dataclass(frozen=True)
class Script:
    """The input on stdin, and what a script must then write to stdout.

    `checker` is Python that defines `check(input, output, expected)`, which judges instead.
    """

    inputs: list[str]
    outputs: list[str]
    checker: str | None = None


@dataclass(frozen=True)
class Calls:
    """The arguments of each call, by place or by name, and what it must return.

    `is_wrapped` says that each result is in a list of one, as in APPS; that has numbers as
    the keys of its dicts, which JSON writes as text.
    """

    function: str
    arguments: list[Any]
    results: list[Any]
    is_wrapped: bool
    has_text_keys: bool


def of_columns(inputs: Any, outputs: Any, function: str | None) -> Script | Calls:
    """The tests of two columns of equal length."""
    inputs = [inputs] if isinstance(inputs, str) else inputs
    outputs = [outputs] if isinstance(outputs, str) else outputs
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise Unreadable("its inputs and outputs are no lists")
    if len(inputs) != len(outputs):
        raise Unreadable(f"it has {len(inputs)} inputs and {len(outputs)} outputs")
    if not inputs:
        raise Unreadable("it has no tests: its inputs are empty")
    return _calls(function, inputs, outputs) if function else _script(inputs, outputs)


def of_rows(rows: Sequence[dict[str, Any]], function: str | None) -> Script | Calls:
    """The tests of a list in which each is a dict, as in LiveCodeBench and SYNTHETIC-1."""
    kinds = {str(row.get("testtype", row.get("type", ""))) for row in rows} - {""}
    if len(kinds) > 1:
        raise Unreadable(f"its tests are of several types: {', '.join(sorted(kinds))}")
    kind = next(iter(kinds), "")
    if kind not in ("", "stdin", "stdin_stdout", "stdio", "functional", "function_call"):
        raise Unreadable(f"its tests are of the type `{kind[:40]}`")
    is_call = kind in ("functional", "function_call")
    named = next((name for row in rows if (name := function_of(row))), None)
    if is_call and not (named or function):
        raise Unreadable("its tests call a function, and nothing says which: name it as `fn_name`")
    columns = []
    for names in (INPUTS, OUTPUTS):
        column = [next((row[name] for name in names if name in row), None) for row in rows]
        lacking = [n for n, row in enumerate(rows, 1) if not any(name in row for name in names)]
        if lacking:
            raise Unreadable(f"its test {lacking[0]} has no `{names[0]}`")
        columns.append(column)
    is_script = kind.startswith("std") or not (is_call or named)
    return of_columns(columns[0], columns[1], None if is_script else named or function)


def merged(parts: Sequence[Script | Calls]) -> Script | Calls:
    """The tests of several sets as one."""
    scripts = [one for one in parts if isinstance(one, Script)]
    calls = [one for one in parts if isinstance(one, Calls)]
    if scripts and calls:
        raise Unreadable("some of its tests call a function and others are of a script")
    if scripts:
        return Script(
            [text for one in scripts for text in one.inputs],
            [text for one in scripts for text in one.outputs],
        )
    return Calls(
        calls[0].function,
        [value for one in calls for value in one.arguments],
        [value for one in calls for value in one.results],
        is_wrapped=all(one.is_wrapped for one in calls),
        has_text_keys=any(one.has_text_keys for one in calls),
    )


def function_of(row: dict[str, Any]) -> str | None:
    """The function that a row names, or that its `metadata` does."""
    metadata = row.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            metadata = None
    for source in (row, metadata if isinstance(metadata, dict) else {}):
        for name in FUNCTIONS:
            if isinstance(source.get(name), str) and source[name].strip():
                return str(source[name]).strip()
    return None


def _script(inputs: list[Any], outputs: list[Any]) -> Script:
    texts = [[_text(value, what) for value in column]
             for column, what in ((inputs, "input"), (outputs, "output"))]  # fmt: skip
    if not any(text.strip() for text in texts[1]):
        raise Unreadable("it expects no output: a program that does nothing would pass")
    return Script(texts[0], texts[1])


def _text(value: Any, what: str) -> str:
    if isinstance(value, list) and not any(isinstance(line, list | dict) for line in value):
        return "\n".join(map(str, value))
    if value is None or isinstance(value, dict | list):
        raise Unreadable(f"an {what} is `{str(value)[:40]}`, and no function is named to call")
    return str(value)


def _calls(function: str, inputs: list[Any], outputs: list[Any]) -> Calls:
    """Arguments are a list, or text with a value on each line, as LiveCodeBench writes them."""
    in_text = all(isinstance(value, str) for value in inputs)
    if in_text:
        arguments = [[_value(line) for line in text.split("\n") if line.strip()]
                     for text in inputs]  # fmt: skip
        results = [_value(o) if isinstance(o, str) else o for o in outputs]
        return Calls(function, arguments, results, is_wrapped=False, has_text_keys=False)
    odd = next((value for value in inputs if not isinstance(value, list | dict)), None)
    if odd is not None:
        raise Unreadable(f"the arguments `{str(odd)[:40]}` are no list")
    is_wrapped = all(isinstance(output, list) and len(output) == 1 for output in outputs)
    return Calls(function, inputs, outputs, is_wrapped=is_wrapped, has_text_keys=True)


def _value(text: str) -> Any:
    """A value as JSON or Python writes it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Unreadable(f"`{text[:40]}` of a call is no value in JSON or Python") from error
