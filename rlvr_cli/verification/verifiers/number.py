"""Whether the last number of a completion is the answer, exactly."""

import re
from decimal import Decimal, InvalidOperation
from typing import Any

from rlvr_cli.protocols import Equality, Verdict, Verifier

_TAIL = 2000  # characters at the end of a completion that are read
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d{1,100})(?:\.\d{1,100})?(?![\w])")
EQUALITY: Equality = str  # a number alone is a completion


def build() -> Verifier:
    """The verifier of the word problems.

    A number may have a sign, decimals and commas between thousands: `1,200` is `1200`, `5.0` is
    `5`. Digits that are part of a word are none.
    """
    return _verify


def _verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
    gold = _value(answer.strip())
    if gold is None:
        return Verdict("bad_gold", reason="it is no number")
    numbers = _NUMBER.findall(completion[-_TAIL:])
    if not numbers:
        return Verdict(status="no_answer", reward=0.0, correct=False)
    correct = _value(numbers[-1]) == gold
    return Verdict(status="ok", reward=float(correct), correct=correct, extracted=numbers[-1])


def _value(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "")) if _NUMBER.fullmatch(text) else None
    except InvalidOperation:
        return None
