"""APPS, TACO, CodeContests and LiveCodeBench: a problem of programming, and inputs with outputs.

APPS and TACO have `question` and `input_output`, LiveCodeBench `question_content` and
`public_test_cases`, CodeContests `description` and `public_tests`. All tests of a row are in the
gold. The prompt ends with the code that a solution starts from, or says that it is a script.
"""

import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is all tests of a row, the verifier code"
_FORMS = {  # the column of the problem, and those of its tests
    "question": ("input_output",),
    "question_content": ("public_test_cases", "private_test_cases", "metadata"),
    "description": ("public_tests", "private_tests", "generated_tests"),
}
_SCRIPT = "\n\nRead from standard input and write to standard output."
_START = "\n\nStart from this code:\n\n```python\n{code}\n```"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return any(_common.has(rows[0], problem, tests[0]) for problem, tests in _FORMS.items())


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        problem, tests = next((p, t) for p, t in _FORMS.items() if _common.has(row, p, t[0]))
        code = str(row.get("starter_code") or "").strip()
        ending = _START.format(code=code) if code else _SCRIPT
        return {
            "prompt": str(_common.value(row, problem)).rstrip() + ending,
            "answer": _gold(row, tests),
            "verifier": "code",
            "used": {problem, *tests, "solutions", "incorrect_solutions"},
        }

    return read


def _gold(row: dict[str, Any], tests: tuple[str, ...]) -> str:
    given = {name: row[name] for name in tests if row.get(name)}
    if not given.keys() - {"metadata"}:
        raise Unusable("it has no tests")
    return str(given[tests[0]]) if len(tests) == 1 else json.dumps(given)
