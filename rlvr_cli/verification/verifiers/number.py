"""Whether the last number of a completion is the answer, exactly."""

from typing import Any

from rlvr_cli.protocols import Equality, Verdict, Verifier
from rlvr_cli.verification.parsing import last_number
from rlvr_cli.verification.parsing.last_number import Numeral

VERSION = 2
EQUALITY: Equality = str  # a number alone is a completion

_GOLD = 300  # characters of a gold


def build() -> Verifier:
    """The verifier of the word problems.

    `1,200` is `1200`, `5.0` is `5`, `1/2` is `.5`, `5 km` is `5`; 5% is 5 or 0.05. Digits that are
    part of a word are none. Where the last number is not certain, as in `10-5` or `1,20`, there is
    no answer.
    """
    return _verify


def _verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
    gold = last_number.last(answer[:_GOLD])
    if gold is None or gold.value is None or not gold.is_all:
        reason = gold.reason if gold and gold.reason else "it is no number"
        return Verdict("bad_gold", reason=reason)
    number = last_number.last(completion)
    if number is None or number.value is None:
        reason = number.reason if number else "it has no number"
        return Verdict("no_answer", reward=0.0, correct=False, reason=reason)
    correct = _equal(number, gold)
    return Verdict("ok", reward=float(correct), correct=correct, extracted=number.text)


def _equal(number: Numeral, gold: Numeral) -> bool:
    """Whether the values are equal; a percentage is a number or a hundredth of it."""
    if number.is_percent == gold.is_percent:
        return number.value == gold.value
    percent, other = (number, gold) if number.is_percent else (gold, number)
    assert percent.value is not None, "both have one"
    return other.value in (percent.value, percent.value / 100)
