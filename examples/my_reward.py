"""A reward of your own: the expression must be right, and a short one earns more."""

from typing import Any


def short(completion: str, *, answer: str, extra: dict[str, Any]) -> dict[str, Any]:
    """1 for a correct expression of at most 5 characters, 0.5 for a longer one, 0 if it is wrong.

    A plain number or True and False would do; a dict also says what was read and whether it is
    correct. What raises is an error of this completion, not of the run.
    """
    text = completion.strip()
    is_expression = text != answer and set(text) <= set("0123456789+-*/()")
    correct = is_expression and _value(text) == int(answer)
    return {
        "reward": (1.0 if len(text) <= 5 else 0.5) if correct else 0.0,
        "correct": correct,
        "extracted": text,
    }


def _value(text: str) -> float | None:
    try:
        return eval(text)
    except (SyntaxError, ZeroDivisionError):
        return None
