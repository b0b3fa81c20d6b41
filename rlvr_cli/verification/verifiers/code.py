"""Whether a program passes its tests, in a sandbox; only with --allow-code-execution.

HumanEval and MBPP (assertions, or `check(candidate)`) and APPS (inputs and outputs).
"""

import json
import os
import re
import sys
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.sandbox import launch

EQUALITY: Equality = "none"  # of two programs

_LOGIC = "2"  # raised with each change of what this file or `sandbox` decides
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_ASSERTS = re.compile(r"\bassert\b|\braise\b")
_MOST = 100_000  # characters of a program
_REASON_LENGTH = 200  # characters of why it failed
_OVERHEAD_S = 20.0  # for starting a sandbox on a busy machine


def build(
    *,
    exceeding: Literal["fault", "wrong"] = "fault",
    timeout_s: float = 10.0,
    memory_mib: int = 1024,
) -> Isolated:
    """The verifier of programs.

    `answer` holds the tests: Python that asserts (no unittest classes), a JSON list of assertions,
    or JSON with `inputs` and `outputs` (and `fn_name`, for a function instead of a script). `extra`
    may name the function as `entry_point`, else it is the last that the prompt begins. The program
    is the last fenced block, or else the completion; it goes after the prompt, or, if it defines
    the entry point itself, after what the prompt has above that. Tests call it from another
    process, by messages of plain data. `exceeding` says what a program is that takes more than
    `timeout_s` or `memory_mib`: a fault without reward, or wrong.
    """
    if timeout_s <= 0 or memory_mib < 256:
        raise ValueError("timeout_s must be above 0, memory_mib at least 256")

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        tests = _tests(answer, extra)
        if tests is None:
            return Verdict("bad_gold", reason="it holds neither Python nor inputs and outputs")
        if extracted is None:
            return Verdict("no_answer", reward=0.0, correct=False)
        job = {"program": _complete_program(extracted, tests), "style": tests.pop("style")}
        kind = os.environ.get(launch.VARIABLE)
        if kind not in launch.KINDS:
            return Verdict("error", reason="no sandbox was chosen: nothing was executed")
        outcome = launch.run(kind, job, tests, seconds=timeout_s, memory_bytes=memory_mib << 20)
        return _verdict(outcome, exceeding)

    return Isolated(
        extract=_program,
        judge=judge,
        limits=Limits(timeout_s + _OVERHEAD_S, max(memory_mib, 2048) << 20),
        version=f"{_LOGIC} python {sys.version_info.major}.{sys.version_info.minor}",
        reads=("entry_point", "prompt"),
        runs_code=True,
    )


def _program(completion: str, finished: bool) -> str | None:
    """The last fenced block, or all of the completion."""
    blocks = _FENCE.findall(completion) if "```" in completion else []
    text = blocks[-1] if blocks else completion
    return text if text.strip() and len(text) <= _MOST else None


def _tests(answer: str, extra: dict[str, Any]) -> dict[str, Any] | None:
    """How a program is tested; None if the gold cannot be read."""
    prompt = str(extra.get("prompt") or "")
    defined = re.findall(r"^(?:async\s+)?def\s+(\w+)", prompt, re.MULTILINE)
    entry = extra.get("entry_point") or (defined[-1] if defined else None)
    given = {"prompt": prompt, "entry_point": entry}
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict) and {"inputs", "outputs"} <= parsed.keys():
        inputs, outputs = parsed["inputs"], parsed["outputs"]
        if not isinstance(inputs, list) or not isinstance(outputs, list) or not inputs:
            return None
        if len(inputs) != len(outputs):
            return None
        if name := parsed.get("fn_name"):
            calls = zip(inputs, outputs, strict=True)
            lines = [f"assert {name}(*{i!r}) in ({o!r}, {[o]!r}[0])" for i, o in calls]
            return {**given, "style": "tests", "tests": "\n".join(lines), "entry_point": name}
        texts = [[_text(value) for value in column] for column in (inputs, outputs)]
        return {**given, "style": "outputs", "inputs": texts[0], "outputs": texts[1]}
    if isinstance(parsed, list) and parsed and all(isinstance(line, str) for line in parsed):
        answer = "\n".join(parsed)
    elif parsed is not None:
        return None
    if not _compiles(answer):
        return None
    if not _ASSERTS.search(answer) or "TestCase" in answer:  # it would pass whatever was written
        return None
    return {**given, "style": "tests", "tests": answer}


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _complete_program(program: str, tests: dict[str, Any]) -> str:
    """The program after the prompt that it continues.

    One that defines the function itself goes after the imports and helpers above it in the prompt.
    """
    name = tests["entry_point"]
    if tests["style"] == "outputs" or not name:
        return program
    begins = re.compile(rf"^(?:async\s+)?(?:def|class)\s+{re.escape(str(name))}\b", re.MULTILINE)
    if not begins.search(program):
        return f"{tests['prompt']}{program}"
    begun = begins.search(tests["prompt"])
    given: str = tests["prompt"][: begun.start()] if begun else ""
    return given + program if _compiles(given) and "__future__" not in program else program


def _compiles(text: str) -> bool:
    try:
        compile(text, "tests", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _verdict(outcome: dict[str, Any], exceeding: str) -> Verdict:
    reason = outcome.get("reason")
    text = None if reason is None else str(reason)[:_REASON_LENGTH]
    if "passed" in outcome:
        passed = outcome["passed"] is True
        return Verdict("ok", float(passed), passed, reason=text)
    status = outcome["status"]
    if status in ("timeout", "oom") and exceeding == "wrong":
        return Verdict(status, 0.0, False, reason=text)
    return Verdict(status, reason=text)
