"""What the layouts share."""

import string
from typing import Any

from rlvr_cli.interop import written
from rlvr_cli.protocols import Unusable
from rlvr_cli.terminal.escape import brief
from rlvr_cli.verification.parsing import boxed

Row = dict[str, Any]
_PLACEHOLDERS = ("proof", "notfound", "not found", "n/a", "none", "null")


def has(row: Row, *names: str) -> bool:
    """Whether a row has all of these columns."""
    return all(name in row for name in names)


def value(row: Row, name: str) -> Any:
    """The value of a column; unusable if there is none."""
    content = row.get(name)
    if content is None or (isinstance(content, str) and not content.strip()):
        raise Unusable(f"it has no `{name}`")
    if content != content:
        raise Unusable(f"its `{name}` is NaN")
    return content


def text(row: Row, name: str) -> str:
    """The text of a column; unusable if it holds none."""
    content = value(row, name)
    if not isinstance(content, str):
        raise Unusable(f"its `{name}` is no text: {brief(content)}")
    return content.strip()


def listed(row: Row, name: str) -> list[Any]:
    """The list in a column, also as text, as CSV has it: JSON or what Python prints."""
    content = value(row, name)
    if isinstance(content, str):
        content = written.parsed(content)
    if not isinstance(content, list):
        raise Unusable(f"its `{name}` is no list: {brief(row[name])}")
    return content


def with_options(question: str, options: list[str]) -> str:
    """A question and below it a line for each option, as in `B. 42`."""
    letters = string.ascii_uppercase[: len(options)]
    return "\n".join([question, "", *(f"{a}. {b}" for a, b in zip(letters, options, strict=True))])


def answered(row: Row, name: str = "answer") -> str:
    """A gold in a column of its own; unusable where that says that there is none."""
    answer = str(value(row, name)).strip()
    if answer.lower() in _PLACEHOLDERS:
        raise Unusable(f"its `{name}` is `{answer}`")
    return answer


def problem_and_answer(row: Row) -> dict[str, Any]:
    """A problem of mathematics with its gold in `answer`."""
    gold = answered(row)
    return {
        "prompt": value(row, "problem"),
        "answer": gold,
        "verifier": "math",
        "used": {"problem", "answer"},
    }


def boxed_in(row: Row, name: str) -> str:
    r"""The content of the last `\boxed{}` in a column."""
    box = boxed.last_box(str(value(row, name)))
    if box is None or not box.strip():
        raise Unusable(rf"its `{name}` has no \boxed answer")
    return box.strip()


def program(question: Any, starter: Any) -> str:
    """What asks for a program: a question, and the code that it starts from or how it is run."""
    text = str(question).strip()
    if starter and str(starter).strip():
        return f"{text}\n\nComplete this Python code:\n\n```python\n{str(starter).rstrip()}\n```\n"
    return f"{text}\n\nWrite a Python program that reads from stdin and writes to stdout.\n"
