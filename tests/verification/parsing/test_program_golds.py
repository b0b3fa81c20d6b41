"""How golds are read, in the layouts of the data sets that people train on."""

import base64
import collections
import json
import pickle
import zlib

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.parsing import program_golds
from rlvr_cli.verification.parsing.cases import Calls, Script

SCRIPT = Script(["4\n", "5\n"], ["8\n", "10\n"])
ROWS = [{"input": "4\n", "output": "8\n"}, {"input": "5\n", "output": "10\n"}]
COLUMNS = {"inputs": ["4\n", "5\n"], "outputs": ["8\n", "10\n"]}
ONE = {"input": ["4\n"], "output": ["8\n"]}
TWO = {"input": ["5\n"], "output": ["10\n"]}
NONE = {"input": [], "output": []}


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def live(kind, rows, **more):
    return [{**row, "testtype": kind, **more} for row in rows]


SCRIPTS = {
    "APPS": json.dumps(COLUMNS),
    "the JSON of JSON": json.dumps(json.dumps(COLUMNS)),
    "APPS, a row": json.dumps({"input_output": json.dumps(COLUMNS)}),
    "an empty fn_name": json.dumps({**COLUMNS, "fn_name": ""}),
    "as Python writes it": repr(COLUMNS),
    "CodeContests": json.dumps({"input": ["4\n", "5\n"], "output": ["8\n", "10\n"]}),
    "CodeContests, a row": json.dumps(
        {"public_tests": ONE, "private_tests": NONE, "generated_tests": TWO}
    ),
    "LiveCodeBench": json.dumps(live("stdin", ROWS)),
    "LiveCodeBench, a row": json.dumps(
        {
            "public_test_cases": json.dumps(live("stdin", ROWS[:1])),
            "private_test_cases": packed(json.dumps(live("stdin", ROWS[1:]))),
            "metadata": "{}",
        }
    ),
    "LiveCodeBench, packed": packed(json.dumps(live("stdin", ROWS))),
    "open-instruct, packed": packed(ROWS),
    "open-instruct": json.dumps(ROWS),
    "SYNTHETIC-1": json.dumps(
        {"language": "python", "test_cases": [{"type": "stdin_stdout", **row} for row in ROWS]}
    ),
    "SYNTHETIC-1, as Python writes it": repr(
        {"language": "python", "test_cases": [{"type": "stdin_stdout", **row} for row in ROWS]}
    ),
    "verl": json.dumps({"style": "rule", "ground_truth": json.dumps(COLUMNS)}),
    "tests within": json.dumps({"tests": ROWS, "starter_code": ""}),
    "lines": json.dumps({"inputs": [["4", ""], ["5", ""]], "outputs": [["8", ""], ["10", ""]]}),
}


@pytest.mark.parametrize("answer", SCRIPTS.values(), ids=SCRIPTS)
def test_inputs_and_outputs_of_a_script_are_read(answer):
    assert program_golds.read(answer, {}) == SCRIPT


def test_one_input_and_its_output_need_no_list():
    assert program_golds.read('{"input": "4", "output": "8"}', {}) == Script(["4"], ["8"])


TEXT = {"input": "[2,7]\n9", "output": "[0, 1]"}
PLAIN = {"inputs": [[[2, 7], 9]], "outputs": [[0, 1]]}
CALLS = {
    "APPS": (json.dumps({**PLAIN, "fn_name": "f"}), {}),
    "TACO, in text": (
        json.dumps({"inputs": ["[2,7]\n9"], "outputs": ["[0, 1]"], "fn_name": "f"}),
        {},
    ),
    "PRIME": (json.dumps({**PLAIN, "fn_name": "f"}), {"prompt": "q"}),
    "the name beside it": (json.dumps(PLAIN), {"fn_name": "f"}),
    "LiveCodeBench, named by metadata": (
        json.dumps(live("functional", [TEXT])),
        {"metadata": '{"func_name": "f"}'},
    ),
    "DeepCoder": (json.dumps(live("functional", [TEXT], metadata={"func_name": "f"})), {}),
    "LiveCodeBench, a row": (
        json.dumps(
            {
                "public_test_cases": json.dumps(live("functional", [TEXT])),
                "private_test_cases": packed("[]"),
                "metadata": '{"func_name": "f"}',
            }
        ),
        {},
    ),
    "LiveCodeBench, named by the starter code": (
        json.dumps(live("functional", [TEXT])),
        {"starter_code": "class Solution:\n    def f(self, nums: List[int], t: int):\n        "},
    ),
    "SYNTHETIC-1": (
        json.dumps(
            {"test_cases": [{"type": "function_call", "fn_name": "f", "input": [[2, 7], 9],
                             "output": [0, 1]}]}
        ),
        {},
    ),
    "open-instruct": (json.dumps([{**TEXT, "fn_name": "f"}]), {}),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "extra"), CALLS.values(), ids=CALLS)
def test_calls_of_a_function_are_read(answer, extra):
    found = program_golds.read(answer, extra)
    assert isinstance(found, Calls)
    assert (found.function, found.arguments, found.results) == ("f", [[[2, 7], 9]], [[0, 1]])


PYTHON = {
    "an assertion": ("assert f(1) == 2", {}, {"f"}, None),
    "a list": (json.dumps(["assert f(1) == 2", "assert g(1) == 2"]), {}, {"f", "g"}, None),
    "HumanEval": (
        "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1) == 2\n",
        {"entry_point": "f"},
        {"f"},
        "f",
    ),
    "HumanEval, named by the prompt": (
        "def check(candidate):\n    assert candidate(1) == 2\n",
        {"prompt": "def f(x):\n    '''Doubles.'''\n"},
        {"f"},
        "f",
    ),
    "LeetCodeDataset": (
        "def check(candidate):\n    assert candidate(x=1) == 2\n",
        {"entry_point": "Solution().f", "prompt": "from typing import *\n"},
        {"f"},
        "Solution().f",
    ),
    "code-r1": (
        json.dumps({"functional": "def check(c):\n    assert c(1) == 2\n\ncheck(Solution().f)"}),
        {},
        {"Solution"},
        None,
    ),
    "KodCode": (
        "from solution import f\n\ndef test_one():\n    assert f(1) == 2\n",
        {},
        {"f"},
        None,
    ),
    "BigCodeBench": (
        "import unittest\n\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n"
        "        self.assertEqual(task_func(1), 2)\n",
        {"entry_point": "task_func"},
        {"task_func"},
        "task_func",
    ),
    "verl's assert_case": (
        json.dumps({"assert_case": ["assert f(2) == 4"], "inputs": [""], "outputs": [""]}),
        {},
        {"f"},
        None,
    ),
    "MBPP, a row": (
        json.dumps({"test_setup_code": "", "test_list": ["assert f(1) == 2"],
                    "challenge_test_list": []}),
        {},
        {"f"},
        None,
    ),
    "a test and its function": (
        json.dumps({"test": "def check(c):\n    assert c(1) == 2", "entry_point": "f"}),
        {},
        {"f"},
        "f",
    ),
    "a function of the prompt that is not tested": (
        "assert f(1) == 2",
        {"prompt": "def helper(): pass\n"},
        {"f"},
        None,
    ),
    "a function that has a built-in name": ("assert sum(10, 15) == 6", {}, {"sum"}, None),
    "a fence": ("```python\nassert f(1) == 2\n```", {}, {"f"}, None),
    "standard modules": ("assert math.isclose(f(1), random.random())", {}, {"f"}, None),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "extra", "wanted", "entry"), PYTHON.values(), ids=PYTHON)
def test_python_that_asserts_is_read(answer, extra, wanted, entry):
    found = program_golds.read(answer, extra)
    assert isinstance(found, program_golds.Python)
    assert (found.wanted, found.entry) == (wanted, entry)


BAD = {
    "nothing": ("", "it is empty"),
    "a number": ("5", "it is `5`: neither Python nor inputs and outputs"),
    "null": ("null", "it is `None`"),
    "no tests": ("[]", "its list is empty"),
    "an empty dict": ("{}", "it has nothing: no layout"),
    "numbers": ("[1, 2]", "its list holds `1`"),
    "another layout": ('{"question": "q"}', "it has `question`: no layout of tests that is known"),
    "cut JSON": ('{"inputs": ["4', "it begins like JSON, and is none: Unterminated string"),
    "broken Python": ("assert (", "its tests are no Python: line 1: '(' was never closed"),
    "no assertion": ("x = f(1)", "its tests assert nothing"),
    "a comment": ("# assert f(1) == 2\nf(1)", "its tests assert nothing"),
    "a string": ("'''\nassert f(1) == 2\n'''", "its tests assert nothing"),
    "what is always true": ("f(1)\nassert True", "its tests assert nothing"),
    "a tuple": ("assert (f(1) == 2, 'wrong')", "its tests assert nothing"),
    "nothing of a program": ("assert 1 + 1 == 2", "its tests call nothing"),
    "a reference alone": ("def f(x): return x\nassert f(1) == 1", "its tests call nothing"),
    "check without a function": ("def check(c):\n    assert c(1)", "name it in `entry_point`"),
    "assert_case beside inputs": (
        json.dumps({"assert_case": ["assert f(2) == 4"], **COLUMNS}),
        "it has `assert_case` beside inputs",
    ),
    "an empty assert_case": (
        json.dumps({"assert_case": [], "inputs": [""], "outputs": [""]}),
        "it expects no output",
    ),
    "no inputs": ('{"inputs": [], "outputs": []}', "it has no tests"),
    "inputs alone": ('{"inputs": ["1"]}', "it has `inputs`: no layout"),
    "fewer outputs": ('{"inputs": ["1", "2"], "outputs": ["1"]}', "it has 2 inputs and 1 outputs"),
    "no output": ('{"inputs": ["1", "2"], "outputs": ["", "\\n"]}', "it expects no output"),
    "a row without output": ('[{"input": "1"}]', "its test 1 has no `output`"),
    "several types": (
        json.dumps([*live("stdin", ROWS[:1]), *live("functional", [TEXT])]),
        "its tests are of several types: functional, stdin",
    ),
    "a type": (json.dumps(live("interactive", ROWS)), "its tests are of the type `interactive`"),
    "calls of nothing": (json.dumps(live("functional", [TEXT])), "name it as `fn_name`"),
    "arguments that are no value": (
        json.dumps({"fn_name": "f", "inputs": ["x = 1, y"], "outputs": ["2"]}),
        "`x = 1, y` of a call is no value in JSON or Python",
    ),
    "arguments that are no list": (
        json.dumps({"fn_name": "f", "inputs": [1], "outputs": [2]}),
        "the arguments `1` are no list",
    ),
    "C++": (
        json.dumps({"language": "cpp", "test_cases": [{"type": "stdin_stdout", **ROWS[0]}]}),
        "its language is `cpp`",
    ),
    "sets that are empty": (
        json.dumps({"public_tests": NONE, "private_tests": NONE, "generated_tests": NONE}),
        "no layout of tests that is known, or none in it",
    ),
    "a judge without check": (json.dumps({**COLUMNS, "checker": "x = 1"}), "defines no check"),
    "a broken judge": (
        json.dumps({**COLUMNS, "checker": "def check("}),
        "its `checker` is no Python",
    ),
    "a judge of calls": (
        json.dumps({**PLAIN, "fn_name": "f", "checker": "def check(*a): return True"}),
        "and no script",
    ),
    "packed objects": (packed(collections.OrderedDict(a=1)), "it holds the operation STACK_GLOBAL"),
    "packed and cut": (packed(json.dumps(ROWS))[:40], "its packed tests are cut"),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "reason"), BAD.values(), ids=BAD)
def test_what_says_nothing_of_a_program_is_refused_with_the_reason(answer, reason):
    with pytest.raises(program_golds.Unreadable) as refused:
        program_golds.read(answer, {})
    assert reason in str(refused.value)


class Evil:
    """A pickle that would run code."""

    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


def test_nothing_that_is_packed_is_run():
    with pytest.raises(program_golds.Unreadable, match="is not carried out"):
        program_golds.read(packed([Evil()]), {})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["inputs", "outputs", "input", "output", "fn_name", "tests",
                                         "test_cases", "public_tests", "checker", "test", "type"]),
                        inner, max_size=4), max_leaves=8))  # fmt: skip
def test_no_json_raises_anything_else(value):
    try:
        program_golds.read(json.dumps(value), {})
    except program_golds.Unreadable as error:
        assert str(error)


@given(
    st.text(max_size=60) | st.binary(max_size=60).map(lambda b: "eJ" + base64.b64encode(b).decode())
)
def test_no_text_raises_anything_else(text):
    try:
        program_golds.read(text, {})
    except program_golds.Unreadable as error:
        assert str(error)
