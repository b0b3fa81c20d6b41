"""The options of a question, with their labels and texts, from a prompt's columns.

It reads a list of texts (MMLU, MMLU-Pro), `{"text": [...], "label": [...]}` (ARC, CommonsenseQA),
a list of `{"label": ..., "text": ...}`, `{"A": ..., "B": ...}` (MedQA), each also as JSON text, and
texts that begin with their own label (AQuA: `A)21`).
"""

import json
import re
import string
from dataclasses import dataclass
from typing import Any

MOST = 26
_LONGEST = 12  # characters of a label
_MARKED = re.compile(r"\s*[(\[]?([A-Za-z0-9])[)\].:]\s*(.*)", re.DOTALL)


class Unreadable(Exception):
    """Why the options of a question cannot be read."""


@dataclass(frozen=True)
class Options:
    """`labels` in their order; `texts` are what the options say, empty where that is not known."""

    labels: tuple[str, ...]
    texts: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, int]:
        """The place of an option by each of its names, in small letters.

        Where the labels are numbers, Roman ones too, letters name options by their place.
        """
        own = {label.casefold(): place for place, label in enumerate(self.labels)}
        by_place = {letter.lower(): n for n, letter in enumerate(lettered(len(self.labels)))}
        are_numbers = all(label.isdigit() or not {*label} - {*"ivx"} for label in own)
        return by_place | own if are_numbers and not by_place.keys() & own.keys() else own

    def __str__(self) -> str:
        return ", ".join(self.labels)


def lettered(count: int) -> tuple[str, ...]:
    return tuple(string.ascii_uppercase[:count])


def read(
    extra: dict[str, Any], *, labels: tuple[str, ...] = (), count: int | None = None
) -> Options:
    """The options that a prompt's `options` or `choices` holds, called `labels` if those are given.

    A prompt that has neither column has `count` options.
    """
    given = extra.get("options", extra.get("choices"))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise Unreadable("its options are neither a list nor JSON") from error
    if given is None:
        return _checked(labels or lettered(count or 4), ())
    own, texts = _parts(given)
    if own is None:
        marks = [_MARKED.fullmatch(text) for text in texts]
        if all(marks) and [mark[1] for mark in marks if mark] == [*lettered(len(texts))]:
            texts = [mark[2].strip() for mark in marks if mark]
        own = labels or lettered(len(texts))
    return _checked(tuple(own), tuple(texts))


def _parts(given: Any) -> tuple[Any, list[str]]:
    """The labels, or None where there are none, and the texts."""
    if isinstance(given, list) and given and all(isinstance(one, dict) for one in given):
        given = {key: [one.get(key) for one in given] for key in ("label", "text")}
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        texts, labels = given["text"], given.get("label")
    elif isinstance(given, dict) and not any(isinstance(v, list | dict) for v in given.values()):
        given = {label: text for label, text in given.items() if text is not None}
        texts, labels = list(given.values()), list(given)
    else:
        texts, labels = given, None
    if not isinstance(texts, list) or any(isinstance(text, list | dict) for text in texts):
        raise Unreadable("its options are no list of texts")
    if isinstance(labels, list) and any(label is None for label in labels):
        raise Unreadable("an option has no label")
    named = list(map(str, labels)) if isinstance(labels, list) else None
    return named, [str(text) for text in texts]


def _checked(labels: tuple[str, ...], texts: tuple[str, ...]) -> Options:
    folded = [label.strip().casefold() for label in labels]
    if texts and len(texts) != len(labels):
        raise Unreadable(f"it has {len(texts)} options and {len(labels)} labels")
    if not 2 <= len(labels) <= MOST:
        raise Unreadable(f"2 to {MOST} options are read, it has {len(labels)}")
    if len({*folded}) < len(folded) or not all(0 < len(label) <= _LONGEST for label in folded):
        raise Unreadable("its labels are not short and different")
    return Options(tuple(label.strip() for label in labels), texts)
