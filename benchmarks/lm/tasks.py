"""Tasks for a small language model: prompts of three splits, and right answers to start from.

Each prompt has many right answers. The splits share no prompt, and no right answer of a prompt that
is tuned or tested on is shown to the model in its supervised start.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlvr_cli.tasks import word_problems
from rlvr_cli.verification.verifiers import expression

SPLITS = ("train", "tune", "test")
TARGETS = range(100, 2000)
Problem = tuple[str, str, dict[str, Any] | None]  # the prompt, the gold, what the verifier needs
Solved = tuple[Problem, str]


@dataclass(frozen=True)
class Task:
    """`solved` draws problems with a right answer each; it is None where no start is needed.

    `rows` makes the prompts of a split; without it they are the problems of `solved`.
    """

    says: str
    max_new_tokens: int
    solved: Callable[[random.Random], Iterator[Solved]] | None = None
    rows: Callable[[str, int], list[dict[str, Any]]] | None = None


def _expression(rng: random.Random, numbers: list[int], operators: str) -> str:
    """The numbers in this order, joined at random, now and then with brackets."""
    if len(numbers) == 1:
        return str(numbers[0])
    left = rng.randint(1, len(numbers) - 1)
    halves = (numbers[:left], numbers[left:])
    parts = [_expression(rng, half, operators) for half in halves]
    parts = [f"({p})" if not p.isdigit() and rng.random() < 0.4 else p for p in parts]
    return rng.choice(operators).join(parts)


def _value(text: str) -> Fraction | None:
    postfix = expression.postfix_of(text)
    return None if postfix is None else expression.value_of(postfix)


def _asked(target: int) -> Problem:
    text = f"Write {target} with + - * / and whole numbers from 1 to 9.\n{target} ="
    return text, str(target), None


def _expressions(rng: random.Random) -> Iterator[Solved]:
    while True:
        numbers = [rng.randint(1, 9) for _ in range(rng.randint(3, 5))]
        text = _expression(rng, numbers, "+-***/")
        value = _value(text)
        if value is not None and value.denominator == 1 and int(value) in TARGETS:
            yield _asked(int(value)), f" {text}"


def _targets(split: str, count: int) -> list[dict[str, Any]]:
    shuffled = random.Random("targets").sample(TARGETS, len(TARGETS))
    problems = [p for p in map(_asked, shuffled) if split_of(p[0]) == split]
    return _rows("expressions", split, problems[:count])


def _countdown(count: int, most: int, highest: int) -> Callable[[random.Random], Iterator[Solved]]:
    def solved(rng: random.Random) -> Iterator[Solved]:
        while True:
            numbers = [rng.randint(1, most) for _ in range(count)]
            text = _expression(rng, numbers, "+-*/")
            value = _value(text)
            if value is not None and value.denominator == 1 and 10 <= value <= highest:
                given = sorted(numbers)
                listed = ", ".join(map(str, given))
                asked = f"Use {listed} once each with + - * / to make {value}.\n{value} ="
                yield (asked, str(value), {"digits": given}), f" {text}"

    return solved


def _word_problems(split: str, count: int) -> list[dict[str, Any]]:
    """Those of rlvr, in three splits: the last of the held-out ones are tested on."""
    if split == "train":
        return word_problems.build(split="train", steps=2, largest=20, count=count)
    held_out = word_problems.build(split="heldout", steps=2, largest=20, count=2 * count)
    return held_out[:count] if split == "tune" else held_out[count:]


TASKS = {
    "expressions": Task(
        "an expression of whole numbers from 1 to 9 that equals a number from 100 to 1999",
        32,
        _expressions,
        _targets,
    ),
    "countdown": Task(
        "an expression of four given numbers from 1 to 9, each used once, that equals a number "
        "from 10 to 99",
        32,
        _countdown(4, 9, 99),
    ),
    "countdown-5": Task(
        "the same of five numbers from 1 to 25, which equals a number from 10 to 199",
        40,
        _countdown(5, 25, 199),
    ),
    "word-problems": Task("word problems of two steps, as a chat", 128, rows=_word_problems),
}


def split_of(prompt: str) -> str:
    """By a hash of the prompt: a seventh is tuned on, two sevenths are tested on."""
    draw = random.Random(prompt).random()
    return "tune" if draw < 1 / 7 else "test" if draw < 3 / 7 else "train"


def prompts(name: str, split: str, count: int) -> list[dict[str, Any]]:
    """At most `count` different prompts of a split, as rows for `rlvr prompts`."""
    task = TASKS[name]
    if task.rows:
        return task.rows(split, count)
    assert task.solved
    found: dict[str, Problem] = {}
    drawn = task.solved(random.Random(f"{name} {split}"))
    for _ in range(200 * count):
        problem, _ = next(drawn)
        if split_of(problem[0]) == split:
            found.setdefault(problem[0], problem)
        if len(found) == count:
            break
    return _rows(name, split, list(found.values()))


def _rows(name: str, split: str, problems: list[Problem]) -> list[dict[str, Any]]:
    return [
        {
            "prompt_id": f"{name}-{split}-{number:05d}", "prompt": prompt, "answer": gold,
            "verifier": "expression", "source": f"{name}-{split}", "extra": extra,
        }
        for number, (prompt, gold, extra) in enumerate(problems)
    ]  # fmt: skip


def answers(name: str, count: int, seed: int = 0) -> list[tuple[str, str]]:
    """`count` prompts of the training split, each with a right answer to learn from."""
    solved = TASKS[name].solved
    if solved is None:
        raise ValueError(f"`{name}` has no right answers to start from: take `--examples 0`")
    found: list[tuple[str, str]] = []
    for problem, answer in solved(random.Random(f"{name} answers {seed}")):
        if split_of(problem[0]) == "train":
            found.append((problem[0], answer))
        if len(found) == count:
            break
    return found
