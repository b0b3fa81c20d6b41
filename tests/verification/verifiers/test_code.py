"""The code verifier without a program: what it reads, and what it refuses."""

import json

import pytest

from rlvr_cli.verification.parsing import program_golds, programs, runnable
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.verifiers.code import build

PROMPT = "def helper(): pass\n\ndef f(x):\n    '''Doubles.'''\n"


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        ("    return 2 * x", "    return 2 * x"),
        ("So:\n```python\ndef f(x): return 1\n```\nor\n```\ndef f(x): return 2\n```\n", None),
        ("```python\nnever closed", "never closed\n"),
        (" \n", ""),
        ("x" * 100_001, ""),
    ],
)
def test_the_last_block_is_the_program_or_else_the_completion(completion, program):
    expected = "def f(x): return 2\n" if program is None else program or None
    read = build().extract(completion, True)
    assert (read and programs.chosen(read, {"f"}, is_script=False)) == expected


@pytest.mark.parametrize(
    "gold",
    [
        "assert f(1) == 2",
        "def check(candidate):\n    assert candidate(1) == 2\ncheck(f)",
        json.dumps(["assert f(1) == 2"]),
        json.dumps({"inputs": ["1\n"], "outputs": ["2\n"]}),
        json.dumps({"inputs": [[1]], "outputs": [2], "fn_name": "f"}),
    ],
)
def test_a_gold_that_can_be_read_needs_a_program_and_leave_to_run_it(gold, monkeypatch):
    monkeypatch.delenv(launch.VARIABLE, raising=False)
    judge = build().judge
    assert judge(None, gold, {}).status == "no_answer"
    verdict = judge("def f(x): return 2", gold, {})
    assert (verdict.status, verdict.reward) == ("error", None)
    assert verdict.reason == "no sandbox was chosen: nothing was executed"


@pytest.mark.parametrize(
    "gold",
    [
        "",
        " ",
        "assert (",
        "x = 1",
        "class T(TestCase):\n    assert 1",
        "5",
        "null",
        "[1, 2]",
        "{}",
        '{"inputs": ["1"], "outputs": []}',
        "[]",
    ],
)
def test_a_gold_that_holds_no_tests_is_a_fault(gold):
    for extracted in (None, "def f(x): return 2"):
        verdict = build().judge(extracted, gold, {})
        assert (verdict.status, verdict.reward) == ("bad_gold", None)


def test_a_program_without_the_function_goes_after_the_prompt():
    gold = program_golds.read("assert f(1) == 2", {"prompt": PROMPT})
    program = runnable.program_of("    return 2 * x", gold, PROMPT, "auto")
    assert program == (PROMPT + "    return 2 * x", "f")


FUTURE = "from __future__ import annotations\n"


@pytest.mark.parametrize(
    ("prompt", "program", "made"),
    [
        (PROMPT, "def f(x): return 2", "def helper(): pass\n\ndef f(x): return 2"),
        ("from a import List\ndef f(x): pass", "def f(x): 1", "from a import List\ndef f(x): 1"),
        ("Complete this:\ndef f(x):", "def f(x): return 2", "def f(x): return 2"),
        ("Doubles a number.", "def f(x): return 2", "def f(x): return 2"),
        (PROMPT, f"{FUTURE}def f(x): 1", f"{FUTURE}def helper(): pass\n\ndef f(x): 1"),
    ],
)
def test_a_program_with_the_function_has_what_the_prompt_gives_above_it(prompt, program, made):
    gold = program_golds.read("assert f(1) == 2", {"prompt": prompt, "entry_point": "f"})
    assert runnable.program_of(program, gold, prompt, "auto") == (made, "f")


def test_limits_out_of_bounds_are_refused():
    for options in ({"timeout_s": 0.0}, {"memory_mib": 255}):
        with pytest.raises(ValueError, match="must be above 0"):
            build(**options)
