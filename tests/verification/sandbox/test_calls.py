"""Tests that call a program across processes: what they can do, and what pays no wrong program."""

import runpy
from pathlib import Path

import pytest

from rlvr_cli.verification.sandbox import launch

HERE = Path(__file__)
CASES = runpy.run_path(str(HERE.with_name("styles.py")))["CASES"]
CHEATS = runpy.run_path(str(HERE.with_name("object_attacks.py")))["CHEATS"]
PROMPT = "def helper(x): return x + 1\n"


@pytest.fixture(scope="module")
def run():
    kind = next((kind for kind in launch.KINDS[:-1] if launch.works(kind)), None)
    if kind is None:
        pytest.skip("no sandbox works here")

    def call(program, tests, entry=None, prompt=""):
        job = {"program": program, "style": "tests"}
        given = {"tests": tests, "prompt": prompt, "entry_point": entry}
        return launch.run(kind, job, given, seconds=60.0, memory_bytes=1 << 30)

    return call


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_tests_of_every_style_have_the_outcome_of_one_process(run, case):
    _, program, tests, entry, expected = case
    outcome = run(program, tests, entry)
    assert outcome.get("passed", outcome.get("status")) == expected, outcome
    assert expected is True or outcome["reason"]


@pytest.mark.parametrize("name", CHEATS)
def test_a_program_that_lies_about_its_objects_is_wrong(run, name):
    outcome = run(*CHEATS[name], prompt=PROMPT)
    assert outcome["passed"] is False and outcome["reason"]


def test_helpers_of_a_prompt_are_the_prompts_and_what_it_only_begins_is_the_programs(run):
    prompt = "def helper(x): return x + 1\ndef other(x):\n    '''To be written.'''\n"
    program = "def helper(x): return 0\ndef other(x): return 5\ndef f(x): return x"
    assert run(program, "assert helper(f(1)) == 2 and other(1) == 5", "f", prompt)["passed"]


def test_classes_of_a_prompt_are_the_programs_and_its_helpers_make_objects_of_them(run):
    prompt = (
        "class ListNode:\n    def __init__(self, val=0, next=None):\n"
        "        self.val = val\n        self.next = next\n"
        "def made(values):\n    head = None\n"
        "    for value in reversed(values): head = ListNode(value, head)\n    return head\n"
        "def same(a, b):\n    while a and b and a.val == b.val: a, b = a.next, b.next\n"
        "    return not a and not b\n"
    )
    program = prompt + (
        "class Solution:\n    def turn(self, head):\n        last = None\n"
        "        while isinstance(head, ListNode):\n"
        "            head.next, last, head = last, head, head.next\n        return last\n"
    )
    right, wrong = (
        f"def check(candidate):\n    assert same(candidate(head=made([1, 2])), made({values}))"
        for values in ([2, 1], [1, 2])
    )
    assert run(program, right, "Solution().turn", prompt)["passed"] is True
    assert run(program, wrong, "Solution().turn", prompt)["passed"] is False


def test_the_reason_names_the_assertion_that_failed(run):
    outcome = run("def f(x): return 3", "def test_a():\n    assert f(1) == 2, 'no two'")
    assert outcome["reason"] == "AssertionError: assert f(1) == 2, 'no two'"


def test_arguments_beyond_what_a_message_holds_are_a_fault(run):
    outcome = run("def f(x): return len(x)", "assert f('x' * (17 << 20)) == 17 << 20")
    assert outcome == {"status": "error", "reason": "the tests pass more than 16 MiB"}


def test_the_reason_begins_with_what_an_assertion_says(run):
    told = "assert f(1) == 2, f'it gave {f(1)}, and {1 + 1} was expected, ' + 'said at ' * 9"
    for tests in (told, f"try:\n    {told}\nexcept Exception:\n    pass"):
        reason = run("def f(x): return x", tests)["reason"]
        assert "it gave 1, and 2 was expected" in reason
