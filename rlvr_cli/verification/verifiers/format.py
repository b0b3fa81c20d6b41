"""Whether a text has the right form, whatever it says; for sums such as `0.9*math+0.1*format`."""

import re
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Verdict, Verifier
from rlvr_cli.verification.parsing import boxed

EQUALITY: Equality = "none"
WHOLE_TEXT = True  # the form of a thought is what it looks at

_THINK = re.compile(r"\s*<think>(?P<thought>.*?)</think>(?P<rest>.*)", re.DOTALL)
_TAGS = ("<think>", "</think>")


def build(*, form: Literal["boxed", "think", "think-boxed"] = "boxed") -> Verifier:
    """The verifier of a form.

    `boxed`: the text has a balanced box with something in it. `think`: it is `<think>`, a thought,
    `</think>` and an answer, each tag once and neither part blank. `think-boxed`: both, the box in
    the answer.
    """

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        text: str | None = completion
        if form != "boxed":
            text = _after_thought(completion)
        if text is not None and form != "think":
            text = boxed.last_box(text)
        has = bool(text and text.strip())
        return Verdict("ok", float(has), has)

    return verify


def _after_thought(text: str) -> str | None:
    match = _THINK.fullmatch(text) if all(text.count(tag) == 1 for tag in _TAGS) else None
    return match["rest"] if match and match["thought"].strip() else None
