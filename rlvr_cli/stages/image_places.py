"""Where the images of a row stand in its messages.

They fill places in order: parts `{"type": "image"}` without a value, or else `<image>` in the text;
`<image 2>` is the place of the row's second. Without places they stand before the text of the first
turn of the user.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rlvr_cli.models import messages
from rlvr_cli.models.messages import Message, Prompt
from rlvr_cli.protocols import Unusable
from rlvr_cli.terminal import plural

_PLACE = re.compile(r"(<image ?\d*>)")  # as verl, LLaMA-Factory, MMMU and MATH-Vision have it


def filled(prompt: Prompt, values: Sequence[Any], column: str) -> Prompt:
    """The prompt with these values in its places; `Unusable` if it has another number of places."""
    turns: list[Message] = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    )
    named = messages.images(turns)
    places = named.count(None)
    own = len(named) - places
    if not named:
        split = [turn | {"content": _split(turn["content"])} for turn in turns]
        if numbers := [one.number for one in messages.images(split)]:
            _require_each(numbers, len(values), column)
            return _with_values(split, values)
    if places != len(values):
        if places or (own and values):
            raise Unusable(_disagreement(places, own, len(values), column))
        turns = _in_front(turns, len(values)) if values else turns
    return _with_values(turns, values) if values else prompt


def says_place(prompt: Prompt) -> bool:
    """Whether a text has a placeholder for an image."""
    return any(_PLACE.search(text) for text in _texts(prompt))


def says(prompt: Prompt, kind: str) -> bool:
    """Whether a text has a placeholder for a video or a sound: `<video>`, `<audio>`."""
    return any(f"<{kind}>" in text for text in _texts(prompt))


def _texts(prompt: Prompt) -> Iterator[str]:
    if isinstance(prompt, str):
        yield prompt
    else:
        yield from (messages.text(turn["content"]) for turn in prompt)


class _Numbered:
    """A place in a text, with the number of its image from 1, or None of the next one."""

    def __init__(self, place: str) -> None:
        digits = "".join(filter(str.isdigit, place))
        self.number = int(digits) if digits else None


def _split(content: Any) -> Any:
    """A content with a place for an image wherever its text says so."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    pieces = [piece for part in parts for piece in _PLACE.split(part["text"])]
    if len(pieces) == len(parts):
        return content
    return messages.merged(
        [
            {"type": "image", "image": _Numbered(piece)}
            if _PLACE.fullmatch(piece)
            else {"type": "text", "text": piece}
            for piece in pieces
        ]
    )


def _require_each(numbers: list[int | None], given: int, column: str) -> None:
    """An error unless each image has a place, and each place an image."""
    if None in numbers:
        is_right = len(numbers) == given and set(numbers) == {None}
    else:
        is_right = set(numbers) == set(range(1, given + 1))
    if not is_right:
        raise Unusable(_disagreement(len(numbers), 0, given, column))


def _disagreement(places: int, own: int, given: int, column: str) -> str:
    if not places:
        return f"it has {plural.of(own, 'image')} in its messages and {given} more in `{column}`"
    return f"it has {plural.of(places, 'place')} for images and {given} in `{column}`"


def _in_front(turns: list[Message], count: int) -> list[Message]:
    """The turns with so many places before the text of the first turn of the user."""
    first = next((i for i, turn in enumerate(turns) if turn["role"] == "user"), None)
    if first is None:
        raise Unusable("it has images and no turn of the user")
    content = turns[first]["content"] or ""
    parts = [{"type": "image", "image": None} for _ in range(count)]
    whole = messages.merged([*parts, {"type": "text", "text": content}])
    return [*turns[:first], turns[first] | {"content": whole}, *turns[first + 1 :]]


def _with_values(turns: list[Message], values: Sequence[Any]) -> list[Message]:
    left = iter(values)

    def value_of(part: dict[str, Any]) -> dict[str, Any]:
        place = part.get("image")
        if isinstance(place, _Numbered):
            return part | {"image": values[place.number - 1] if place.number else next(left)}
        return part | {"image": next(left)} if part["type"] == "image" and place is None else part

    return [
        turn | {"content": [value_of(part) for part in turn["content"]]}
        if isinstance(turn["content"], list)
        else turn
        for turn in turns
    ]
