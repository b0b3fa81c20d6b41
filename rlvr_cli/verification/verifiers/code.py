"""Whether a program passes its tests, in a sandbox; only with --allow-code-execution.

Assertions, calls of a function with what they return, and scripts with inputs and outputs, in the
layouts of the public data sets (docs/verifiers/code.md).
"""

import functools
import json
import os
import sys
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.parsing import program_golds, programs, runnable, weak_tests
from rlvr_cli.verification.parsing.cases import Calls, Script
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.sandbox.packages import find

EQUALITY: Equality = "none"  # two programs are not compared
VERSION = 2
EARLIER = {"credit": "all", "test_timeout_s": 0.0, "tolerance": 0.0, "lines": "free",
           "imports": "none", "packages": ()}  # fmt: skip

_LOGIC = "8"  # raised with each change of what this file, `parsing` or `sandbox` decides
_REASON_LENGTH = 200  # characters of why it failed
_OVERHEAD_S = 20.0  # for starting a sandbox again on a busy machine
_START_S = 60.0  # for starting the first one, with its packages
_READS = ("entry_point", "fn_name", "func_name", "given_code", "metadata", "prompt", "starter_code")
_NOTHING = "it has no Python program: no block of Python, and no text that reads as one"


def build(
    *,
    exceeding: Literal["fault", "wrong"] = "fault",
    credit: Literal["all", "share"] = "all",
    tolerance: float = 1e-6,
    lines: Literal["free", "strict"] = "free",
    imports: Literal["auto", "none", "all"] = "auto",
    test_timeout_s: float = 0.0,
    timeout_s: float = 10.0,
    memory_mib: int = 1024,
    packages: tuple[str, ...] = ("auto",),
) -> Isolated:
    """The verifier of programs.

    `answer` holds the tests in one of the layouts of docs/verifiers/code.md: Python that asserts,
    calls with what they return, or inputs and outputs of a script. `extra` may name the function
    as `entry_point`, else it is the last that the prompt begins. The program is the last of the
    completion's blocks of Python, with those that it builds on, or else the completion; it goes
    after the prompt where it continues it.

    `credit=share` pays the share of the tests that pass. `tolerance` is how much a decimal may
    differ, times its size where that is above 1; `lines=strict` compares outputs line by line.
    `imports` says which programs have the usual imports before them: `auto` those of LeetCode's
    style. `packages` are installed ones that programs and tests may import, with what these need;
    `auto` means networkx, numpy, scipy, sortedcontainers and sympy, where they are installed.
    `exceeding` says what a program is that takes more than `timeout_s` in all, `test_timeout_s` in
    one test (0: no such limit) or `memory_mib`: a fault without reward, or wrong.
    """
    if timeout_s <= 0 or memory_mib < 256:
        raise ValueError("timeout_s must be above 0, memory_mib at least 256")
    if test_timeout_s < 0 or not 0 <= tolerance < 1:
        raise ValueError("test_timeout_s must be at least 0, tolerance from 0 to below 1")
    options = {
        "counts": credit == "share",
        "goes_on": credit == "share" and exceeding == "wrong",
        "test_seconds": test_timeout_s or None,
        "tolerance": tolerance,
        "by_line": lines == "strict",
    }

    allowed = find(packages)
    major, minor = sys.version_info[:2]

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        try:
            gold = _gold(answer, json.dumps(extra, sort_keys=True, default=str))
        except program_golds.Unreadable as error:
            return Verdict("bad_gold", reason=str(error)[:_REASON_LENGTH])
        if extracted is None:
            return Verdict("no_answer", reward=0.0, correct=False, reason=_NOTHING)
        prompt = str(extra.get("prompt") or "")
        given = str(extra.get("given_code") or prompt)
        program, entry = runnable.program_of(extracted, gold, given, imports)
        kind = os.environ.get(launch.VARIABLE)
        if kind not in launch.KINDS:
            return Verdict("error", reason="no sandbox was chosen: nothing was executed")
        style, tests = _tests(gold, entry, options)
        outcome = launch.run(
            kind,
            {"program": program, "style": style, "is_lazy": runnable.is_lazy(program, gold, given)},
            {**options, **tests, "prompt": given},
            seconds=timeout_s,
            memory_bytes=memory_mib << 20,
            packages=allowed,
        )
        each = f"{test_timeout_s:g} s in a test or " if test_timeout_s else ""
        limits = {"timeout": f"{each}{timeout_s:g} s", "oom": f"{memory_mib} MiB"}
        return _verdict(outcome, exceeding, limits)

    return Isolated(
        extract=programs.read,
        judge=judge,
        limits=Limits(timeout_s + _OVERHEAD_S, max(memory_mib, 2048) << 20, _START_S),
        version=" ".join([f"{_LOGIC} python {major}.{minor}", *allowed.versions]),
        reads=_READS,
        runs_code=True,
    )


@functools.lru_cache(maxsize=32)
def _gold(answer: str, extra: str) -> program_golds.Gold:
    """The gold, read once for the completions of its prompt."""
    return program_golds.read(answer, json.loads(extra))


def _tests(
    gold: program_golds.Gold, entry: str | None, options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The style of the tests, and what the process that holds them is given."""
    if isinstance(gold, Script):
        given = {"inputs": gold.inputs, "outputs": gold.outputs, "checker": gold.checker}
        return "outputs", given
    seconds, counts = options["test_seconds"], bool(options["counts"])
    if isinstance(gold, Calls):
        calls = [f"_passes({number})" for number in range(len(gold.arguments))]
        if seconds or counts:
            calls = [weak_tests.counting(calls, seconds, counts=counts)]
        text = "\n".join([runnable.calling(gold, str(entry), options["tolerance"]), *calls])
    elif seconds or counts:
        text = weak_tests.counted(gold.text, entry, seconds, counts=counts)
    else:
        text = gold.text
    return "tests", {"tests": text, "entry_point": entry}


def _verdict(outcome: dict[str, Any], exceeding: str, limits: dict[str, str]) -> Verdict:
    """The verdict on what came of a program; `limits` says which one a status is of."""
    limit = limits.get(outcome.get("status", ""))
    reason = outcome.get("reason") or (limit and f"it took more than {limit}")
    text = None if reason is None else str(reason)[:_REASON_LENGTH]
    share = min(float(outcome.get("share", 0.0)), 1.0)
    if "passed" in outcome:
        passed = outcome["passed"] is True and outcome.get("share", 1.0) == 1.0
        return Verdict("ok", 1.0 if passed else share, passed, reason=text)
    status = outcome["status"]
    if status in ("timeout", "oom") and exceeding == "wrong":
        return Verdict(status, share, False, reason=text)
    return Verdict(status, reason=text)
