"""Which part of a completion is the program, whatever else a model writes around it."""

import textwrap

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.parsing import programs

PROGRAM = "def f(x):\n    return 2 * x\n"
SCRIPT = "n = int(input())\nprint(2 * n)\n"


def fenced(text, language="python", fence="```"):
    return f"{fence}{language}\n{text}{fence}\n"


def chosen(completion, *wanted, is_script=False):
    text = programs.read(completion)
    return None if text is None else programs.chosen(text, wanted, is_script=is_script)


WHOLE = {
    "a block": f"Here:\n{fenced(PROGRAM)}Done.",
    "py": fenced(PROGRAM, "py"),
    "Python3": fenced(PROGRAM, "Python3"),
    "no language": fenced(PROGRAM, ""),
    "braces": fenced(PROGRAM, "{python}"),
    "a space and a file's name": fenced(PROGRAM, " python:main.py"),
    "tildes": fenced(PROGRAM, fence="~~~"),
    "four backticks": fenced(PROGRAM, fence="````"),
    "unclosed": f"Here:\n```python\n{PROGRAM}",
    "unclosed before another": f"```python\ndef f(x):\n    return 1\n```python\n{PROGRAM}```",
    "in a list": "1. First:\n" + textwrap.indent(fenced(PROGRAM), "   "),
    "behind a bullet": "- ```python\n" + textwrap.indent(f"{PROGRAM}```\n", "  "),
    "output behind it": fenced(PROGRAM) + "It prints:\n" + fenced("4\n", ""),
    "named output behind it": fenced(PROGRAM) + fenced("f(2) = 4\n", "text"),
    "shell behind it": fenced(PROGRAM) + "Run:\n" + fenced("python main.py\n", "bash"),
    "JSON behind it": fenced(PROGRAM) + fenced('{"x": 1}\n', "json"),
    "C++ behind it": fenced(PROGRAM) + fenced("int f(int x) { return 2 * x; }\n", "cpp"),
    "a call behind it": fenced(PROGRAM) + "Example:\n" + fenced("print(f(2))  # 4\n"),
    "assertions behind it": fenced(PROGRAM) + "Tests:\n" + fenced("assert f(2) == 4\n"),
    "a session behind it": fenced(PROGRAM) + fenced(">>> f(2)\n4\n"),
    "a call with a result behind it": fenced(PROGRAM) + fenced("y = f(2)\nprint(y)\n", ""),
    "a fragment behind it": fenced(PROGRAM) + "Note:\n" + fenced("    return 2 * x\n"),
    "cut in another block": fenced(PROGRAM) + "Or:\n```python\ndef f(x):\n    return (2 *",
    "a draft before it": fenced("def f(x):\n    return x\n") + "Better:\n" + fenced(PROGRAM),
    "its signature before it": fenced("def f(x):\n    ...\n") + fenced(PROGRAM),
    "its signature behind it": fenced(PROGRAM) + fenced('def f(x):\n    """Doubles."""\n'),
    "another language alone before": fenced("f x = 2 * x\n", "haskell") + fenced(PROGRAM),
    "no fence": PROGRAM,
    "no fence, with prose": f"Here is the function.\n\n{PROGRAM}\nIt doubles the number x.",
    "answer tags": f"<answer>\n{PROGRAM}</answer>",
    "answer tags and a fence": f"<answer>\n{fenced(PROGRAM)}</answer>",
    "MBPP's marks": f"[BEGIN]\n{PROGRAM}[DONE]\n\nNext",
    "PYTHON marks": f"[PYTHON]\n{PROGRAM}[/PYTHON]",
    "a block that the prompt opened": f"{PROGRAM}```\nThis doubles x.\n",
    "Windows line ends": fenced(PROGRAM).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("completion", WHOLE.values(), ids=WHOLE)
def test_the_program_is_found(completion):
    assert chosen(completion, "f").strip().replace("\r", "") == PROGRAM.strip()


def test_a_fence_within_a_string_is_no_end():
    text = 'def f(x):\n    """Doubles.\n\n```\nf(2)\n```\n"""\n    return 2 * x\n'
    assert chosen(fenced(text) + "Done.", "f") == text


def test_a_line_of_code_between_backticks_is_a_block():
    assert chosen("```python print(6)```", is_script=True) == "print(6)"
    assert chosen("So:\n```print(6)```\n", is_script=True) == "print(6)"


JOINED = {
    "a helper before": ["def g(x):\n    return x + x\n", "def f(x):\n    return g(x)\n"],
    "a helper behind": ["def f(x):\n    return g(x)\n", "def g(x):\n    return x + x\n"],
    "imports before": ["import math\n", "def f(x):\n    return math.floor(2 * x)\n"],
    "a class before": ["class A:\n    v = 2\n", "def f(x):\n    return A.v * x\n"],
    "a body behind": ["def f(x):\n    y = 2 * x\n", "    return y\n"],
    "and a call at the end": [
        "K = 2\n",
        "def f(x):\n    return K * x\n",
        "print(f(int(input())))\n",
    ],
}


@pytest.mark.parametrize("parts", JOINED.values(), ids=JOINED)
def test_blocks_that_build_on_one_another_are_joined(parts):
    program = chosen("Then:\n".join(map(fenced, parts)), "f")
    scope = {}
    exec(program, scope)
    assert scope["f"](4) == 8


def test_imports_from_the_future_stay_first():
    later = "from __future__ import annotations\n\ndef f(x: X):\n    return 2 * x\n"
    program = chosen(fenced("class X: pass\n") + fenced(later), "f")
    scope = {}
    exec(program, scope)
    assert scope["f"](4) == 8


SCRIPTS = {
    "a block": [SCRIPT],
    "its call behind it": ["def solve():\n    print(2 * int(input()))\n", "solve()\n"],
    "reading and writing apart": ["n = int(input())\n", "print(2 * n)\n"],
    "an example behind it": [SCRIPT, 'print("4")\n'],
    "a demonstration behind it": [
        "def solve(n):\n    return 2 * n\nprint(solve(int(input())))\n",
        "print(solve(2))\n",
    ],
    "a draft before it": ["n = int(input())\nprint(n)\n", SCRIPT],
    "a function with the guard": [
        "def main():\n    print(2 * int(input()))\n",
        'if __name__ == "__main__":\n    main()\n',
    ],
}


@pytest.mark.parametrize("parts", SCRIPTS.values(), ids=SCRIPTS)
def test_the_script_is_what_reads_and_writes(parts, monkeypatch, capsys):
    program = chosen("Then:\n".join(map(fenced, parts)), is_script=True)
    monkeypatch.setattr("builtins.input", lambda: "21")
    exec(program, {"__name__": "__main__"})
    assert capsys.readouterr().out == "42\n"


@pytest.mark.parametrize(
    "completion",
    [
        "",
        " \n",
        "I cannot solve this.",
        "Sure",
        "The answer is 42, as 6 times 7 is 42.",
        fenced("int main() { return 0; }\n", "cpp"),
        fenced("ls -la\n", "bash"),
        "The output is:\n" + fenced("hello world\n", ""),
        "```python\n```",
        "x" * 100_001,
        "```python\n",
    ],
)
def test_a_text_without_a_program_has_none(completion):
    assert programs.read(completion) is None


@pytest.mark.parametrize(
    "completion",
    ["    return 2 * x\n", "    return 2 * x\n\nprint(f(1))\n", "\n    y = x\n    return y + y"],
)
def test_a_text_that_goes_on_with_a_prompt_is_as_it_is(completion):
    assert programs.read(completion) == completion


def test_what_the_prompt_opened_ends_with_the_fence():
    assert programs.read("    return 2 * x\n```\nThis doubles.") == "    return 2 * x\n"


def test_a_broken_program_at_the_end_is_the_one_that_is_meant():
    broken = "def f(x):\n    return 2 *\n"
    assert chosen(fenced(PROGRAM) + "Better:\n" + fenced(broken), "f") == broken


@given(st.text(alphabet="`~ \n\t:()=defxpython\"'#[].", max_size=200))
def test_nothing_that_a_model_writes_raises(text):
    read = programs.read(text)
    if read is not None:
        programs.chosen(read, {"f"}, is_script=False)
        programs.chosen(read, (), is_script=True)
