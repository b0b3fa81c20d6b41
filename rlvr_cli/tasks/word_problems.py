"""Word problems of one or two steps with whole numbers, for small chat models."""

import random
from collections.abc import Callable
from typing import Any, Literal

Split = Literal["train", "heldout"]

_NAMES = ("Ana", "Ben", "Chloe", "Dan", "Emma", "Finn", "Grace", "Hugo", "Ivy", "Jack")
_THINGS = ("apples", "books", "cards", "coins", "eggs", "marbles", "pens", "shells", "stamps")
_QUESTION = "How many {things} does {name} have now?"
_START = "{name} has {a} {things}."
_STEPS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "add": ("{name} gets {n} more.", lambda value, n: value + n),
    "take": ("{name} gives {n} away.", lambda value, n: value - n),
    "times": ("Then {name} gets enough to have {n} times as many.", lambda value, n: value * n),
}
_ASK = "Give the answer as a number at the end."


def build(
    *, split: Split = "train", steps: int = 2, count: int = 2000, largest: int = 50, seed: int = 0
) -> list[dict[str, Any]]:
    """`count` different problems of `steps` steps with numbers up to `largest`, as chat messages.

    The two splits share no problem: whether one is held out is decided by a hash of its text.
    """
    if not (1 <= steps <= 4 and count >= 1 and largest >= 10):
        raise ValueError("steps must be 1 to 4, count 1 or more, largest 10 or more")
    draw = random.Random(f"word-problems {seed} {steps} {largest}")
    answers: dict[str, int] = {}
    for _ in range(20 * count):
        if len(answers) == count:
            break
        text, answer = _problem(draw, steps, largest)
        if _is_held_out(text) == (split == "heldout"):
            answers[text] = answer
    else:
        raise ValueError(f"there are fewer than {count} such problems; raise largest or steps")
    return [
        {
            "prompt_id": f"word-problem-{split}-{number:05d}",
            "prompt": [{"role": "user", "content": f"{text} {_ASK}"}],
            "answer": str(answer),
            "verifier": "number",
            "source": f"word-problems-{split}",
            "extra": None,
        }
        for number, (text, answer) in enumerate(answers.items())
    ]


def _problem(draw: random.Random, steps: int, largest: int) -> tuple[str, int]:
    name, things = draw.choice(_NAMES), draw.choice(_THINGS)
    value = draw.randint(2, largest)
    parts = [_START.format(name=name, a=value, things=things)]
    for _ in range(steps):
        kinds = ["add"] + (["take"] if value > 2 else []) + (["times"] if value <= largest else [])
        kind = draw.choice(kinds)
        high = {"add": largest, "take": value - 1, "times": 5}[kind]
        number = draw.randint(2 if kind == "times" else 1, high)
        text, apply = _STEPS[kind]
        parts.append(text.format(name=name, n=number))
        value = apply(value, number)
    return " ".join([*parts, _QUESTION.format(name=name, things=things)]), value


def _is_held_out(text: str) -> bool:
    return random.Random(text).random() < 0.2
