"""Golds shaped as those of LiveCodeBench, APPS and TACO pay what is right and nothing else."""

import base64
import json
import pickle
import zlib

import pytest

pytestmark = pytest.mark.slow

# A name, its parameters, what it returns, what a wrong program returns, and two calls.
PROBLEMS = [
    ("add", "a, b", "a + b", "a - b", [[1, 2], [5, -3]]),
    ("largest", "nums", "max(nums)", "nums[-1]", [[[3, 9, 2]], [[-1, -5]]]),
    ("reverse", "s", "s[::-1]", "s", [["abc"], ["hello world"]]),
    ("twoSum", "nums, t", "next([i, j] for j in range(len(nums)) for i in range(j) "
     "if nums[i] + nums[j] == t)", "[0, 1]", [[[2, 7, 11], 9], [[3, 2, 4], 6]]),
    ("isPalindrome", "s", "s == s[::-1]", "True", [["abba"], ["abc"]]),
    ("count", "s, c", "s.count(c)", "len(s)", [["banana", "a"], ["xyz", "q"]]),
    ("mean", "nums", "sum(nums) / len(nums)", "sum(nums) // len(nums)", [[[1, 2]], [[1, 1, 2]]]),
    ("pairs", "nums", "list(zip(nums, nums[1:]))", "[]", [[[1, 2, 3]], [[4, 4, 5]]]),
    ("power", "a, n", "pow(a, n, 10**9 + 7)", "a * n", [[2, 100], [3, 77]]),
    ("flatten", "rows", "[x for row in rows for x in row]", "rows", [[[[1], [2, 3]]], [[[], [4]]]]),
    ("sortWords", "words", "sorted(words, key=len)", "words", [[["bbb", "a"]], [["cc", "d", ""]]]),
    ("histogram", "s", "dict(Counter(s))", "{}", [["aab"], ["hello"]]),
    ("median", "nums", "sorted(nums)[len(nums) // 2]", "nums[0]", [[[5, 1, 3]], [[2, 9, 4]]]),
    ("root", "x", "math.sqrt(x)", "x / 2", [[2], [10]]),
    ("gcd", "a, b", "math.gcd(a, b)", "min(a, b)", [[12, 18], [7, 5]]),
    ("prefix", "nums", "list(accumulate(nums))", "nums", [[[1, 2, 3]], [[5, -5]]]),
    ("smallest", "nums, k", "heapq.nsmallest(k, nums)", "nums[:k]", [[[5, 1, 3], 2], [[9, 8], 1]]),
    ("swap", "a, b", "(b, a)", "(a, b)", [[1, 2], ["x", "y"]]),
    ("place", "nums, x", "bisect_left(nums, x)", "0", [[[1, 3, 5], 4], [[1, 2], 2]]),
    ("transpose", "m", "[list(row) for row in zip(*m)]", "m", [[[[1, 2], [3, 4]]], [[[1, 2]]]]),
]  # fmt: skip
BEFORE = "import heapq, json, math\nfrom bisect import *\nfrom collections import *\n"
BEFORE += "from itertools import *\n"


def results(problem):
    """What the right program returns for each call, as JSON has it."""
    _, parameters, right, _, calls = problem
    scope = {}
    exec(f"{BEFORE}def f({parameters}): return {right}", scope)
    return [json.loads(json.dumps(scope["f"](*call))) for call in calls]


def method(name, parameters, body):
    """As LeetCode takes it: nothing is imported."""
    return f"class Solution:\n    def {name}(self, {parameters}):\n        return {body}\n"


def function(name, parameters, body):
    return f"def {name}({parameters}):\n    return {body}\n"


def script(name, parameters, body):
    """It reads a value in JSON on each line."""
    read = f"{parameters} = [json.loads(input()) for _ in range({parameters.count(',') + 1})]\n"
    read = read if "," in parameters else f"{parameters} = json.loads(input())\n"
    return f"{BEFORE}{read}print(json.dumps({body}))\n"


def lines(call):
    return "\n".join(map(json.dumps, call))


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def livecodebench(problem, number):
    name, calls, wanted = problem[0], problem[4], results(problem)
    kind = "functional" if number % 2 else "stdin"
    tests = [
        {"input": lines(call), "output": json.dumps(result), "testtype": kind}
        for call, result in zip(calls, wanted, strict=True)
    ]
    gold = {
        "public_test_cases": json.dumps(tests[:1]),
        "private_test_cases": packed(tests[1:]),
        "metadata": json.dumps({"func_name": name} if number % 2 else {}),
    }
    return gold, method if number % 2 else script


def apps(problem, number):
    name, calls, wanted = problem[0], problem[4], results(problem)
    if number % 2:
        gold = {"fn_name": name, "inputs": calls, "outputs": [[result] for result in wanted]}
        return {"input_output": json.dumps(gold)}, function
    outputs = [json.dumps(result) + "\n" for result in wanted]
    return {
        "input_output": json.dumps({"inputs": [*map(lines, calls)], "outputs": outputs})
    }, script


def taco(problem, number):
    name, calls, wanted = problem[0], problem[4], results(problem)
    if number % 2:
        inputs, outputs = [*map(lines, calls)], [*map(json.dumps, wanted)]
        return {"fn_name": name, "inputs": inputs, "outputs": outputs}, method
    inputs = [[json.dumps(value) for value in call] for call in calls]
    return {"inputs": inputs, "outputs": [[json.dumps(result)] for result in wanted]}, script


@pytest.mark.parametrize("shape", [livecodebench, apps, taco])
def test_the_right_program_of_each_problem_is_paid_and_the_wrong_one_is_not(judged, shape):
    questions = []
    for number, problem in enumerate(PROBLEMS):
        name, parameters, right, wrong, _ = problem
        gold, write = shape(problem, number)
        for body in (right, wrong):
            text = write(name, parameters, body)
            if write is function:
                text = BEFORE + text
            questions.append((text, json.dumps(gold), {"prompt": "Solve it."}))
    verdicts = judged(questions)
    assert {v.status for v in verdicts} == {"ok"}
    rewards = [(v.reward, w.reward) for v, w in zip(verdicts[::2], verdicts[1::2], strict=True)]
    unlike = {p[0]: r for p, r in zip(PROBLEMS, rewards, strict=True) if r != (1.0, 0.0)}
    assert unlike == {}, [v.reason for v in verdicts[::2] if not v.correct]
    assert all(v.reason for v in verdicts[1::2])


CALLS = json.dumps({"fn_name": "f", "inputs": [[1, 2], [3, 4]], "outputs": [[2, 1], [4, 3]]})


def test_a_method_may_stand_in_any_class_and_tuples_are_as_good_as_lists(judged):
    programs = {
        "a function": "def f(a, b): return [b, a]",
        "a tuple": "def f(a, b): return b, a",
        "a method": "class Solution:\n    def f(self, a, b): return b, a",
        "of another class": "class Solver:\n    def f(self, a, b): return [b, a]",
        "annotations": "class Solution:\n    def f(self, a: int, b: Optional[int]) -> List[int]:\n"
        "        return [b, a]",
        "the future": "from __future__ import annotations\nclass Solution:\n"
        "    def f(self, a: X, b) -> List[int]: return [*deque([b, a])]",
        "an assigned name": "f = lambda a, b: [b, a]",
        "a state that does not last": "class Solution:\n    def __init__(self): self.r = []\n"
        "    def f(self, a, b):\n        self.r += [b, a]\n        return self.r",
    }
    verdicts = judged([(text, CALLS, {}) for text in programs.values()])
    assert {n: v.reason for n, v in zip(programs, verdicts, strict=True) if not v.correct} == {}


def test_what_a_program_lacks_is_imported_where_leetcode_does_and_nowhere_else(judged):
    program = "def f(a, b): return list(deque([b, a]))"
    check = "assert f(1, 2) == [2, 1]"
    script = json.dumps({"inputs": ["4"], "outputs": ["2"]})
    reads = "print(math.isqrt(int(sys.stdin.read())))"
    questions = [(program, CALLS, {}), (program, check, {}), (reads, script, {})]
    assert [v.correct for v in judged(questions)] == [True, False, False]
    assert [v.correct for v in judged(questions, "code:imports=all")] == [True, True, True]
    assert [v.correct for v in judged(questions, "code:imports=none")] == [False, False, False]


WRAPPED = {"fn_name": "f", "inputs": [[1], [2]], "outputs": [[[1]], [[2]]]}


def test_a_result_counts_in_a_list_of_one_only_where_all_are(judged):
    program, listed = "def f(x): return x", "def f(x): return [x]"
    one = json.dumps({**WRAPPED, "outputs": [[1], [2]]})
    some = json.dumps({**WRAPPED, "outputs": [[1], [2, 2]]})
    questions = [(program, one, {}), (listed, one, {}), (program, some, {})]
    assert [v.correct for v in judged(questions)] == [True, True, False]


@pytest.mark.parametrize(
    ("wanted", "body", "is_right"),
    [
        (0.3, "0.1 + 0.2", True),
        (0.3, "0.31", False),
        (2024, "2024.0019", False),
        (2, "2.0", True),
        (True, "1", True),
        ("2", "2", False),
        (None, "0", False),
        ({"1": 2}, "{1: 2}", True),
        ([1, 2], "{1, 2}", False),
        ([[1, 2]], "[(1, 2)]", True),
        (float("inf"), "float('inf')", True),
        (1, "type('N', (int,), {'__eq__': lambda s, o: True})(5)", False),
        ([], "type('L', (list,), {'__eq__': lambda s, o: True})([5])", False),
    ],
)
def test_values_are_equal_as_json_has_them(judged, wanted, body, is_right):
    gold = json.dumps({"fn_name": "f", "inputs": [[]], "outputs": [wanted]})
    verdict = judged([(f"def f(): return {body}", gold, {})])[0]
    assert (verdict.status, verdict.correct) == ("ok", is_right), verdict.reason
