"""Which part of a completion is its answer, without the thoughts before it.

Markers are written in one of three ways:

    <think>...</think>   thoughts begin and end so; a text without either is an answer
    </think>             the answer begins after the last of these; a text without one has none,
                         as where the chat template opens the thoughts
    none                 the full text is the answer
"""

from dataclasses import dataclass

from rlvr_cli.errors import UsageError

DEFAULT = "<think>...</think>"
NONE = "none"


@dataclass(frozen=True)
class Markers:
    """What begins and what ends thoughts; without an `opening` every text begins with them."""

    opening: str
    closing: str


def read(text: str) -> Markers | None:
    """The markers that a text names, None for `none`."""
    if text == NONE:
        return None
    opening, dots, closing = text.rpartition("...")
    if not closing or (dots and not opening) or opening == closing:
        raise UsageError(
            f"the markers `{text}` of an answer are neither `OPEN...CLOSE` nor `CLOSE`",
            f"write `{DEFAULT}`, what an answer follows, as in `</reasoning>`, or `{NONE}`",
        )
    return Markers(opening, closing)


def answer_of(completion: str, markers: Markers | None, *, is_open: bool = False) -> str | None:
    """What follows the last thought; None where thoughts do not end.

    `is_open` says that the completion begins within thoughts, as the prompt ends with the marker.
    """
    if markers is None:
        return completion
    _, closed, rest = completion.rpartition(markers.closing)
    if not closed and (is_open or not markers.opening):
        return None
    return None if markers.opening and markers.opening in rest else rest


def opens(prompt: str, markers: Markers | None) -> bool:
    """Whether a prompt ends with what begins thoughts."""
    if markers is None or not markers.opening:
        return False
    return prompt.rstrip().endswith(markers.opening)
