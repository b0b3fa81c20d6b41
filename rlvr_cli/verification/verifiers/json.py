"""Whether JSON equals the gold, is valid against its schema, or calls the functions it names.

A value, a JSON Schema (package jsonschema), or function calls of OpenAI, Hermes, xLAM and BFCL.
"""

import functools
import importlib.metadata
import importlib.util
import json
from typing import Any, Literal

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict, Verifier
from rlvr_cli.verification.parsing import function_calls, json_text
from rlvr_cli.verification.parsing.json_equality import Leniency, canonical

EQUALITY: Equality = "text"

_LOGIC = "2"  # raised with each change of what this file decides
_STORED = 1000  # characters of a value
_REASON = 200


class _BadSchema(Exception):
    """Why a schema validates nothing."""


def build(
    *,
    against: Literal["value", "schema", "calls"] = "value",
    lists: Literal["strict", "lenient"] = "strict",
    strings: Literal["strict", "lenient"] = "strict",
    calls: Literal["strict", "lenient"] = "lenient",
    formats: bool = False,
    timeout_s: float = 3.0,
) -> Verifier | Isolated:
    """The verifier of JSON.

    What is read is the last `<answer>`, in it the last fenced block, else all of the text; of
    `calls` every `<tool_call>`. `against=value`: equal to the gold, numbers by value, objects in
    any order. `schema`: valid against the JSON Schema in the gold; `formats` has `format` checked
    too. `calls`: the functions and arguments of the gold, which may list several allowed values for
    each argument as BFCL does. `lenient`: the order of `lists` and of `calls` does not count, nor
    case, spaces and punctuation of `strings`.
    """
    if timeout_s <= 0:
        raise ValueError("timeout_s must be above 0")
    lenient = Leniency(lists == "lenient", strings == "lenient")
    if against == "schema":
        return _schema_verifier(formats, timeout_s)

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        if against == "calls":
            return _judge_calls(completion, answer, lenient, in_order=calls == "strict")
        return _judge_value(completion, answer, lenient)

    return verify


def _judge_value(completion: str, answer: str, lenient: Leniency) -> Verdict:
    try:
        gold = json_text.read(answer)
    except json_text.NotJson as error:
        return Verdict("bad_gold", reason=str(error))
    try:
        value = json_text.read(json_text.candidate(completion))
    except json_text.NotJson as error:
        return _no_answer(str(error))
    correct = canonical(value, lenient) == canonical(gold, lenient)
    return Verdict("ok", float(correct), correct, _stored(value))


def _judge_calls(completion: str, answer: str, lenient: Leniency, *, in_order: bool) -> Verdict:
    try:
        golds = function_calls.of_gold(answer)
    except function_calls.NotCalls as error:
        return Verdict("bad_gold", reason=str(error))
    try:
        given = function_calls.of_completion(completion)
    except function_calls.NotCalls as error:
        return _no_answer(str(error))
    correct = function_calls.equal(given, golds, lenient, in_order=in_order)
    shown = [{"name": call.name, "arguments": call.arguments} for call in given]
    return Verdict("ok", float(correct), correct, _stored(shown))


def _schema_verifier(formats: bool, timeout_s: float) -> Isolated:
    if importlib.util.find_spec("jsonschema") is None:
        raise UsageError(
            "`json:against=schema` needs jsonschema, which is not installed",
            "pip install 'rlvr[json]'",
        )

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        try:
            validator = _validator(answer, formats)
            if extracted is None:
                return _no_answer("it gives no answer")
            try:
                value = json_text.read(extracted)
            except json_text.NotJson as error:
                return _no_answer(str(error))
            wrong = _first_error(validator, value)
        except RecursionError:
            return _no_answer("it is nested too deeply to be validated")
        except (json_text.NotJson, _BadSchema) as error:
            return Verdict("bad_gold", reason=str(error)[:_REASON])
        return Verdict("ok", float(wrong is None), wrong is None, _stored(value), wrong)

    return Isolated(
        extract=lambda completion, finished: json_text.candidate(completion),
        judge=judge,
        limits=Limits(timeout_s, 1 << 30, first_seconds=20.0),
        version=f"{_LOGIC} jsonschema {importlib.metadata.version('jsonschema')}",
        imports=("jsonschema",),
    )


@functools.lru_cache(maxsize=256)
def _validator(answer: str, formats: bool) -> Any:
    """The validator of a schema; raises NotJson or _BadSchema."""
    import jsonschema
    from jsonschema import validators
    from referencing.jsonschema import EMPTY_REGISTRY

    schema = json_text.read(answer)
    if not isinstance(schema, dict | bool):
        raise _BadSchema("it is no JSON Schema: an object was expected")
    dialect = schema.get("$schema") if isinstance(schema, dict) else None
    cls = jsonschema.Draft202012Validator
    if dialect is not None:
        cls = validators.validator_for(schema, default=None)
        if cls is None:
            raise _BadSchema(f"its $schema `{dialect}` is no draft that jsonschema knows"[:_REASON])
    try:
        cls.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise _BadSchema(f"it is no JSON Schema: {error.json_path}: {error.message}") from error
    known = {*cls.VALIDATORS, "$defs", "definitions", "$dynamicRef", "$recursiveRef"}
    if isinstance(schema, dict) and schema and not known & schema.keys():
        raise _BadSchema("it has no keyword that says what is valid: any JSON would be")
    checker = cls.FORMAT_CHECKER if formats else None
    return cls(schema, registry=EMPTY_REGISTRY, format_checker=checker)


def _first_error(validator: Any, value: Any) -> str | None:
    """Where and why a value is not valid; None if it is.

    Raises _BadSchema, or RecursionError where it is the value that is nested too deeply.
    """
    import referencing.exceptions

    try:
        error = next(validator.iter_errors(value), None)
    except referencing.exceptions.Unresolvable as unknown:
        raise _BadSchema(f"it refers to `{unknown.ref}`, which it does not hold") from unknown
    except RecursionError as endless:
        if value is None:
            raise _BadSchema("it refers to itself without end") from endless
        _first_error(validator, None)
        raise
    return None if error is None else f"{error.json_path}: {error.message}"[:_REASON]


def _stored(value: Any) -> str:
    """A value as text that UTF-8 can hold, which half of a surrogate pair is not."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)[:_STORED]
    return text.encode(errors="backslashreplace").decode()


def _no_answer(reason: str) -> Verdict:
    return Verdict("no_answer", 0.0, False, reason=reason)
