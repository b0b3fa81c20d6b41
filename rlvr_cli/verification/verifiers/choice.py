"""Whether a text chooses the right option: its last anchored letter, within the prompt's options.

ARC (`choices`), MMLU-Pro (`options`, up to ten), and any other with the number of options given.
"""

import json
import string
from typing import Any

from rlvr_cli.protocols import Equality, Verdict, Verifier
from rlvr_cli.verification.parsing import letters

EQUALITY: Equality = str  # a letter alone is a completion


def build(*, options: int = 0) -> Verifier:
    """The verifier of multiple choice.

    How many options a prompt has is read from `extra`: a list under `options` or `choices`, or a
    dict `choices` of `text` and `label`; else it is `options`, of which 0 means four. The gold is a
    letter, or one of the labels (ARC has some that are 1 to 4).
    """
    if not 0 <= options <= 26:
        raise ValueError("options must be from 0 to 26")

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        labels = _labels(extra, options or 4)
        gold = _letter(answer.strip(), labels)
        if gold is None:
            return Verdict("bad_gold", reason=f"it is none of {', '.join(labels)}"[:200])
        allowed = string.ascii_uppercase[: len(labels)]
        letter = letters.last(completion, allowed)
        if letter is None:
            return Verdict("no_answer", reward=0.0, correct=False)
        return Verdict("ok", float(letter == gold), letter == gold, letter)

    return verify


def _labels(extra: dict[str, Any], default: int) -> list[str]:
    """What the options are called: their own labels, or letters."""
    given = extra.get("options", extra.get("choices"))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if isinstance(given, dict) and isinstance(given.get("label"), list):
        return [str(label) for label in given["label"]][:26]
    count = len(given) if isinstance(given, list) and given else default
    return list(string.ascii_uppercase[:count])


def _letter(answer: str, labels: list[str]) -> str | None:
    """The letter of an option that is named by its letter, in brackets or not, or by its label."""
    if answer in labels:
        return string.ascii_uppercase[labels.index(answer)]
    bare = answer.strip("().[] ").upper()
    letters_of = string.ascii_uppercase[: len(labels)]
    return bare if len(bare) == 1 and bare in letters_of else None
