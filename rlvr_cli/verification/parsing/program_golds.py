"""How a gold says what a program must do, in each of the layouts that data sets have.

They are described in docs/verifiers/code.md. What is found is Python that asserts, calls of a
function, or inputs and outputs of a script.
"""

import ast
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from rlvr_cli.verification.parsing import cases, fences, packed_tests, weak_tests
from rlvr_cli.verification.parsing.cases import INPUTS, OUTPUTS, Calls, Script

_DEPTH = 6  # of JSON within JSON
_WITHIN = ("input_output", "verification_info", "reward_model", "ground_truth", "test_cases",
           "tests", "functional", "test", "test_code", "unit_tests", "unit_test")  # fmt: skip
_CONTESTS = ("public_tests", "private_tests", "generated_tests")
_LIVE = ("public_test_cases", "private_test_cases")
_DEF = re.compile(r"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


class Unreadable(Exception):
    """Why a gold cannot be read, or would pass whatever was written."""


@dataclass(frozen=True)
class Python:
    """Tests in Python: what they need of a program, and the function that `check` is given."""

    text: str
    entry: str | None
    wanted: frozenset[str]


Gold = Script | Calls | Python


@dataclass(frozen=True)
class _Around:
    """Values that apply to all tests."""

    function: str | None = None
    prompt: str = ""
    depth: int = 0


def read(answer: str, extra: dict[str, Any]) -> Gold:
    """The gold of a prompt; `extra` may name the function, and holds the prompt's text."""
    prompt = "\n".join(str(extra[name]) for name in ("prompt", "starter_code") if extra.get(name))
    try:
        return _of(answer, _Around(cases.function_of(extra), prompt))
    except (weak_tests.Unreadable, cases.Unreadable, packed_tests.Unreadable) as error:
        raise Unreadable(str(error)) from error
    except RecursionError as error:
        raise Unreadable("it is nested too deeply") from error


def _of(value: Any, around: _Around) -> Gold:
    if around.depth > _DEPTH:
        raise Unreadable("it is nested too deeply")
    around = replace(around, depth=around.depth + 1)
    if isinstance(value, str):
        return _of_text(value, around)
    if isinstance(value, dict):
        return _of_dict(value, around)
    if isinstance(value, list):
        return _of_list(value, around)
    raise Unreadable(f"it is `{str(value)[:40]}`: neither Python nor inputs and outputs")


def _of_text(text: str, around: _Around) -> Gold:
    stripped = text.strip()
    if not stripped:
        raise Unreadable("it is empty")
    if packed_tests.is_packed(stripped):
        return _of(packed_tests.unpacked(stripped), around)
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError) as error:
        if stripped[0] in "[{":
            return _of(_literal(stripped, error), around)
        blocks = fences.blocks(text) if stripped[:3] == "```" else []
        return _of_python(blocks[-1].text if blocks else text, around)
    return _of(value, around)


def _literal(text: str, reason: Exception) -> Any:
    """A list or dict as Python writes it."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, list | dict):
        return value
    raise Unreadable(f"it begins like JSON, and is none: {reason}"[:160])


def _of_dict(given: dict[str, Any], around: _Around) -> Gold:
    language = str(given.get("language") or given.get("lang") or "python").lower()
    if not language.startswith("py"):
        raise Unreadable(f"its language is `{language[:40]}`, and only Python is run")
    around = replace(around, function=cases.function_of(given) or around.function)
    if given.get("assert_case"):
        return _of_assert_case(given, around)
    sets = [tests for name in (*_CONTESTS, *_LIVE) if (tests := _opened(given.get(name)))]
    columns = [next((given[n] for n in names if n in given), None) for names in (INPUTS, OUTPUTS)]
    if sets:
        gold: Gold = _merged([_of(tests, around) for tests in sets])
    elif columns[0] is not None and columns[1] is not None:
        gold = cases.of_columns(
            columns[0], columns[1], around.function or _named_by_start(around, columns[0])
        )
    elif given.get("test_list"):
        names = ("test_imports", "test_setup_code", "test_list", "challenge_test_list")
        lines = [str(line) for name in names for line in _flat(given.get(name))]
        gold = _of_python("\n".join(lines), around)
    else:
        inner = next((given[name] for name in _WITHIN if given.get(name)), None)
        if inner is None:
            named = ", ".join(f"`{str(name)[:30]}`" for name in list(given)[:6]) or "nothing"
            raise Unreadable(f"it has {named}: no layout of tests that is known, or none in it")
        gold = _of(inner, around)
    return _judged(gold, given["checker"]) if given.get("checker") else gold


def _judged(gold: Gold, checker: Any) -> Gold:
    """The tests of a script with a judge of their own."""
    if not isinstance(gold, Script):
        raise Unreadable("it has a `checker`, which judges the output of a script, and no script")
    try:
        body = fences.parsed(str(checker)).body
    except SyntaxError as error:
        raise Unreadable(f"its `checker` is no Python: line {error.lineno}: {error.msg}") from error
    if not any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in body):
        raise Unreadable("its `checker` defines no check(input, output, expected)")
    return replace(gold, checker=str(checker))


def _opened(tests: Any) -> Any:
    """A set of tests, unpacked; None of one that is empty."""
    for _ in range(3):
        if isinstance(tests, str) and tests.strip():
            text = tests.strip()
            try:
                tests = (
                    packed_tests.unpacked(text)
                    if packed_tests.is_packed(text)
                    else json.loads(text)
                )
            except (ValueError, RecursionError):
                return tests
    if isinstance(tests, dict):
        return tests if any(tests.values()) else None
    return tests or None


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _of_assert_case(given: dict[str, Any], around: _Around) -> Gold:
    others = [value for name in (*INPUTS, *OUTPUTS) for value in _flat(given.get(name))]
    if any(str(value).strip() for value in others):
        raise Unreadable("it has `assert_case` beside inputs and outputs; only one can be meant")
    return _of_list(_flat(given["assert_case"]), around)


def _merged(golds: list[Gold]) -> Gold:
    tests = [one for one in golds if not isinstance(one, Python)]
    if len(tests) < len(golds):
        raise Unreadable("its sets of tests hold Python where inputs and outputs were expected")
    return cases.merged(tests)


def _of_list(given: list[Any], around: _Around) -> Gold:
    if not given:
        raise Unreadable("it has no tests: its list is empty")
    if all(isinstance(line, str) for line in given):
        return _of_python("\n".join(given), around)
    if all(isinstance(row, dict) for row in given):
        return cases.of_rows(given, around.function or _named_in(around.prompt))
    raise Unreadable(f"its list holds `{str(given[0])[:40]}`: neither assertions nor tests")


def _named_by_start(around: _Around, inputs: Any) -> str | None:
    """The function that a prompt begins, where inputs are no text that a script could read."""
    is_text = isinstance(inputs, str) or not any(
        isinstance(item, list | dict) for value in _flat(inputs) for item in _flat(value)
    )
    return None if is_text else _named_in(around.prompt)


def _named_in(prompt: str) -> str | None:
    """The last function that a prompt begins at its margin, or the last method of a class."""
    definitions = _DEF.findall(prompt)
    top = [name for indent, name in definitions if not indent]
    methods = [name for indent, name in definitions if indent and not name.startswith("__")]
    return top[-1] if top else methods[-1] if methods and "class " in prompt else None


def _of_python(text: str, around: _Around) -> Python:
    """Tests in Python; the function that they are of is the one that a column or the prompt names.

    What the prompt names counts only where the tests speak of it, or wait to be given it.
    """
    entry = around.function
    if entry is None and (begun := _named_in(around.prompt)):
        waits = re.search(r"^def check\(", text, re.MULTILINE)
        is_method = not re.search(rf"^(?:async[ \t]+)?def[ \t]+{begun}\b", around.prompt, re.M)
        if waits or (re.search(rf"\b{begun}\b", text) and not is_method):
            entry = f"Solution().{begun}" if is_method else begun
    method = entry.rpartition(".")[2] if entry else None
    return Python(text, entry, weak_tests.wanted(text, method))
