"""Chooses a verifier by the prompt's source, or by another column."""

from rlvr_cli.protocols import Equality
from rlvr_cli.verification.scoring.joins import PerValue

EQUALITY: Equality = "text"


def build(*, column: str = "source", of: dict[str, str] | None = None) -> PerValue:
    """Of each prompt the reward that `of` has for its value of `column`, a part of `extra`.

    A key may be a pattern, as in `aime*`; the value itself comes first, then the longest pattern.
    """
    if not of:
        raise ValueError("it names no verifiers: write them as in by:of={gsm8k=math,mbpp=code}")
    return PerValue(column, of)
