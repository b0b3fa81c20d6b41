"""Numbers with the name of what they count, in the singular or the plural."""

from collections.abc import Mapping
from typing import Any


def of(number: int, one: str, many: str = "") -> str:
    """As in `1 row` and `2,000 rows`; `many` is the plural where that is not `one` and an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def size(number: int) -> str:
    """A number of bytes in the unit that suits it, as in `812 bytes`, `12.3 kB` and `1.2 GB`."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return of(number, "byte")


def filled(template: str, facts: Mapping[str, Any]) -> str:
    """A template filled with facts: `{rows:row}` counts rows, and None is shown as unknown.

    A dict of counts is listed, as in `2 ok, 1 timeout`.
    """
    return template.format(**{name: _Fact(value) for name, value in facts.items()})


class _Fact:
    """A value in a template, whose format may be the name of what it counts."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        counts = len(form) > 1 and form.isalpha()
        if isinstance(self._value, dict):
            return ", ".join(f"{count:,} {name}" for name, count in self._value.items())
        if self._value is None:
            return f"unknown {form}s" if counts else "unknown"
        return of(self._value, form) if counts else format(self._value, form)
