"""Scripts find what a process of their own would have, and are judged as judges do."""

import json
import sys

import pytest

pytestmark = pytest.mark.slow

GOLD = json.dumps({"inputs": ["3\n1 2 3\n"], "outputs": ["6\n"]})
SUM = "print(sum(map(int, d[1:])))"
RIGHT = {
    "input": "n = int(input())\nprint(sum(map(int, input().split())))",
    "open(0)": f"d = open(0).read().split()\n{SUM}",
    "buffer": f"import sys\nd = sys.stdin.buffer.read().split()\n{SUM}",
    "lines of stdin": f"import sys\nd = ' '.join(line for line in sys.stdin).split()\n{SUM}",
    "os.read": f"import os\nd = os.read(0, os.fstat(0).st_size).split()\n{SUM}",
    "BytesIO over fd 0": "import io, os, sys\n"
    "input = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\n"
    f"d = input().split() + input().split()\n{SUM}",
    "StringIO in place of stdin": "import io, sys\nsys.stdin = io.StringIO(sys.stdin.read())\n"
    f"input()\nd = [0, *input().split()]\n{SUM}",
    "mmap": f"import mmap\nd = mmap.mmap(0, 0, prot=mmap.PROT_READ).read().split()\n{SUM}",
    "seek": f"import sys\nsys.stdin.read()\nsys.stdin.seek(0)\nd = sys.stdin.read().split()\n{SUM}",
    "/dev/stdin": f"d = open('/dev/stdin').read().split()\n{SUM}",
    "/dev/stdin of pathlib": "from pathlib import Path\n"
    f"d = Path('/dev/stdin').read_text().split()\n{SUM}",
    "fileinput": f"import fileinput\nd = ' '.join(fileinput.input()).split()\n{SUM}",
    "exit": f"d = open(0).read().split()\n{SUM}\nexit()\nprint(7)",
    "quit": f"d = open(0).read().split()\n{SUM}\nquit(0)",
    "sys.exit": f"import sys\nd = open(0).read().split()\n{SUM}\nsys.exit()",
    "os._exit": f"import os\nd = open(0).read().split()\n{SUM[:-1]}, flush=True)\nos._exit(0)",
    "atexit": "import atexit\natexit.register(lambda: print(6))",
    "a buffer written at the end": "import atexit, io, sys\nsys.stdout = io.StringIO()\n"
    "atexit.register(lambda: sys.__stdout__.write(sys.stdout.getvalue()))\nprint(6)",
    "a stream of bytes": "import os, sys\nfrom io import BytesIO, IOBase\n"
    "class F(IOBase):\n"
    "    def __init__(self, file):\n"
    "        self.fd = file.fileno()\n"
    "        self.buffer = BytesIO()\n"
    "        self.write = lambda text: self.buffer.write(text.encode())\n"
    "    def flush(self):\n"
    "        os.write(self.fd, self.buffer.getvalue())\n"
    "        self.buffer = BytesIO()\n"
    "sys.stdout = F(sys.stdout)\nprint(6)",
    "write": "import sys\nsys.stdout.write('6')",
    "bytes": "import sys\nsys.stdout.buffer.write(b'6\\n')",
    "os.write": "import os\nos.write(1, b'6\\n')",
    "guard": "def main():\n    print(6)\nif __name__ == '__main__':\n    main()",
    "a thread that nobody joins": "import threading, time\n"
    "def main():\n    time.sleep(0.1)\n    print(6)\n"
    "threading.stack_size(1 << 27)\nthreading.Thread(target=main).start()",
    "recursion": "import sys\nsys.setrecursionlimit(10**6)\n"
    "def f(n): return 6 if n == 0 else f(n - 1)\nprint(f(20000))",
    "data classes of annotations": "from __future__ import annotations\n"
    "from dataclasses import dataclass\nfrom typing import ClassVar\n"
    "@dataclass\nclass A:\n    x: int\n    y: ClassVar[int] = 5\nprint(A(1).x + A.y)",
    "type hints": "from __future__ import annotations\nimport typing\n"
    "class A:\n    x: int\nclass B:\n    a: A\n"
    "print(6 if typing.get_type_hints(B) == {'a': A} else 7)",
    "its own module": "import pickle, sys\nclass A: pass\n"
    "same = type(pickle.loads(pickle.dumps(A()))) is A is sys.modules['__main__'].A\n"
    "print(6 if same else 7)",
    "asyncio": "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n"
    "    print(sum(await asyncio.gather(*[asyncio.to_thread(lambda: 3) for _ in '12'])))\n"
    "asyncio.run(main())",
    "arguments": "import sys\nprint(6 if len(sys.argv) == 1 else 7)",
    "a file": "open('x', 'w').write('6')\nprint(open('x').read())",
    "errors to stderr": "import sys\nprint('x' * 10**6, file=sys.stderr)\nprint(6)",
    "end of input": "try:\n    while True: input()\nexcept EOFError:\n    print(6)",
    "blank lines": "print('\\n\\n6   \\n\\n')",
    "a point": "print(6.0)",
}
if sys.version_info < (3, 12):  # later ones limit the depth of calls through C on their own
    RIGHT["recursion through C"] = (
        "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**6)\n"
        "@lru_cache(None)\ndef f(n): return 6 if n == 0 else f(n - 1)\nprint(f(20000))"
    )
WRONG = {
    "another number": ("print(7)", "it wrote `7`, expected `6`"),
    "nothing": ("pass", "it wrote nothing, expected `6`"),
    "more": ("print(6, 6)", "it wrote `6 6`, expected `6`"),
    "a prompt": ("input('n? ')\nprint(6)", "it wrote `n? 6`, expected `6`"),
    "an error behind it": ("print(6)\n1 / 0", "ZeroDivisionError: division by zero"),
    "an exit code": ("print(6)\nimport sys\nsys.exit(3)", "it ended with exit code 3"),
    "a message": ("print(6)\nimport sys\nsys.exit('no')", "no"),
    "the end of input": (
        "input(); input(); input(); print(6)",
        "EOFError: EOF when reading a line",
    ),
    "no Python": ("print(6", "SyntaxError: '(' was never closed"),
    "a name": ("print(no_such.floor(6))", "NameError: name 'no_such' is not defined"),
    "stderr": ("import sys\nprint(6, file=sys.stderr)", "it wrote nothing, expected `6`"),
    "almost": ("print(6.0000001)", "it wrote `6.0000001`, expected `6`"),
    "endless output": ("while True: print('x' * 9999)", "more output than allowed"),
}


def test_what_a_process_of_its_own_would_do_is_right(judged):
    verdicts = judged([(text, GOLD, {}) for text in RIGHT.values()])
    assert {n: v.reason for n, v in zip(RIGHT, verdicts, strict=True) if not v.correct} == {}


def test_what_fails_is_wrong_with_the_reason(judged):
    verdicts = judged([(text, GOLD, {}) for text, _ in WRONG.values()])
    assert {v.status for v in verdicts} == {"ok"} and {v.reward for v in verdicts} == {0.0}
    reasons = {name: v.reason for name, v in zip(WRONG, verdicts, strict=True)}
    assert reasons == {name: f"input 1: {reason}" for name, (_, reason) in WRONG.items()}


def test_inputs_of_megabytes_are_read(judged):
    numbers = list(range(400_000))
    gold = {"inputs": ["\n".join(map(str, numbers))], "outputs": [str(sum(numbers))]}
    programs = ("import sys\nprint(sum(map(int, sys.stdin)))", "print(sum(map(int, open(0))))")
    verdicts = judged([(text, json.dumps(gold), {}) for text in programs])
    assert [v.correct for v in verdicts] == [True, True]


NUMBERS = {
    "0.333333333333": [("0.333333", True), ("0.3333", False), ("1/3", False), ("nan", False)],
    "1000000007": [("1000000007", True), ("1000000008", False), ("1000000007.0", True)],
    "123456789.5": [("123456789.4", True), ("123456000", False)],
    "1e-7": [("0.0000001", True)],
    "YES": [("YES", True), ("Yes", False), ("YES YES", False)],
    "1 2\n3": [("1 2 3", True), ("1 2 4", False), ("1 23", False)],
    "007": [("007", True), ("7", False)],
}


def test_numbers_are_compared_by_value_and_integers_exactly(judged):
    pairs = [(gold, out, is_right) for gold, outs in NUMBERS.items() for out, is_right in outs]
    questions = [
        (f"print({out!r})", json.dumps({"inputs": [""], "outputs": [gold]}), {})
        for gold, out, _ in pairs
    ]
    verdicts = judged(questions)
    wrong = [p for p, v in zip(pairs, verdicts, strict=True) if v.correct is not p[2]]
    assert wrong == []


def test_a_tolerance_and_lines_are_options(judged):
    gold = json.dumps({"inputs": [""], "outputs": ["0.5\n1 2\n"]})
    near, apart = ("print('0.5001\\n1 2')", gold, {}), ("print('0.5\\n1\\n2')", gold, {})
    assert [v.correct for v in judged([near, apart])] == [False, True]
    assert judged([near], "code:tolerance=0.001")[0].correct
    assert not judged([apart], "code:lines=strict")[0].correct
    exact = ("print(0.1 + 0.2)", json.dumps({"inputs": [""], "outputs": ["0.3"]}), {})
    assert judged([exact])[0].correct
    assert not judged([exact], "code:tolerance=0")[0].correct


CHECKER = """
def check(input, output, expected):
    a, b = map(int, output.split())
    return a + b == int(input)
"""


def test_a_judge_of_the_gold_decides(judged):
    gold = json.dumps({"inputs": ["5", "7"], "outputs": ["1 4", "3 4"], "checker": CHECKER})
    programs = ("n = int(input())\nprint(n - 1, 1)", "print(1, 4)", "print('x')")
    verdicts = judged([(text, gold, {}) for text in programs])
    assert [v.correct for v in verdicts] == [True, False, False]
    assert verdicts[1].reason == "input 2: its judge refused `1 4`"
    assert "ValueError" in verdicts[2].reason


def test_a_judge_that_fails_on_what_is_expected_is_a_bad_gold(judged):
    gold = json.dumps({"inputs": ["5"], "outputs": ["x"], "checker": CHECKER})
    verdict = judged([("print('y')", gold, {})])[0]
    assert (verdict.status, verdict.reward) == ("bad_gold", None)
    assert "ValueError" in verdict.reason


def test_no_judge_is_within_reach_of_a_program(judged):
    gold = json.dumps({"inputs": ["5"], "outputs": ["1 4"], "checker": CHECKER})
    cheats = (
        "import gc\nkeys = [set(o) for o in gc.get_objects() if isinstance(o, dict)]\n"
        "print('1 4' if any({'checker', 'inputs'} <= one for one in keys) else '0 0')",
        "def check(*_): return True\nimport builtins\nbuiltins.check = check\nprint('0 0')",
    )
    verdicts = judged([(text, gold, {}) for text in cheats])
    assert [v.reason for v in verdicts] == ["input 1: its judge refused `0 0`"] * 2


FOUR = json.dumps({"inputs": ["1", "2", "3", "4"], "outputs": ["1", "2", "3", "4"]})


def test_the_share_of_inputs_that_pass_is_paid_where_one_says_so(judged):
    most = ("n = int(input())\nprint(n if n != 2 else 0)", FOUR, {})
    assert [judged([most], spec)[0].reward for spec in ("code", "code:credit=share")] == [0.0, 0.75]
    verdict = judged([most], "code:credit=share")[0]
    assert (verdict.status, verdict.correct) == ("ok", False)
    assert verdict.reason == "input 2: it wrote `0`, expected `2`"
    whole = judged([("print(input())", FOUR, {})], "code:credit=share")[0]
    assert (whole.reward, whole.correct) == (1.0, True)


def test_the_share_of_assertions_and_of_calls_that_pass_is_paid(judged):
    program = "def f(x): return x if x != 2 else 1 / 0"
    golds = (
        "assert f(1) == 1\nassert f(2) == 2\nassert f(3) == 3\ny = f(4)\nassert y == 4",
        json.dumps([f"assert f({n}) == {n}" for n in range(1, 5)]),
        json.dumps({"fn_name": "f", "inputs": [[1], [2], [3], [4]], "outputs": [1, 2, 3, 4]}),
    )
    verdicts = judged([(program, gold, {}) for gold in golds], "code:credit=share")
    assert [(v.status, v.reward, v.correct) for v in verdicts] == [("ok", 0.75, False)] * 3
    check = "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 2\n"
    verdict = judged([(program, check, {"entry_point": "f"})], "code:credit=share")[0]
    assert (verdict.reward, verdict.correct) == (0.5, False)


def test_one_test_may_have_a_limit_of_its_own(judged):
    script = "n = int(input())\nwhile n == 3: pass\nprint(n)"
    function = "def f(x):\n    while x == 3: pass\n    return x"
    calls = json.dumps({"fn_name": "f", "inputs": [[n] for n in range(5)], "outputs": [*range(5)]})
    questions = [(script, FOUR, {}), (function, calls, {})]
    limit = "code:test_timeout_s=0.5,timeout_s=60"
    for verdict in judged(questions, limit):
        assert (verdict.status, verdict.reward) == ("timeout", None)
    for verdict in judged(questions, f"{limit},exceeding=wrong"):
        assert (verdict.status, verdict.reward, verdict.correct) == ("timeout", 0.0, False)
    patient = "code:test_timeout_s=4,timeout_s=60"  # for the other tests on a slow machine
    paid = judged(questions, f"{patient},exceeding=wrong,credit=share")
    assert [v.status for v in paid] == ["timeout", "timeout"]
    assert [v.reward for v in paid] == [0.75, 0.6]  # a script's other inputs go on


def test_memory_that_runs_out_is_said_so(judged):
    verdict = judged([("x = 'x' * 10**10", GOLD, {})])[0]
    assert (verdict.status, verdict.reward) == ("oom", None)
