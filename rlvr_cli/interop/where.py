"""Which rows of a file are read."""

from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.interop import readers
from rlvr_cli.interop.names import id_text


class Where:
    """Keeps the rows that have all of these values, each written as `filter=strict-match`."""

    def __init__(self, given: list[str]) -> None:
        self.conditions: list[tuple[str, str]] = []
        self._seen: dict[str, dict[str, None]] = {}
        for condition in given:
            name, equals, value = condition.partition("=")
            if not (name and equals):
                raise UsageError(
                    f"--where is `{condition}`", "write COLUMN=VALUE, as in --where step=50"
                )
            self.conditions.append((name, value))

    def may_keep(self, row: dict[str, Any]) -> bool:
        """Whether to keep a row as the file has it; the tool's reader may add columns later."""
        return not self.conditions or all(
            self._value(row, name) in (None, value) for name, value in self.conditions
        )

    def keeps(self, row: dict[str, Any]) -> bool:
        return not self.conditions or all(
            self._value(row, name) == value for name, value in self.conditions
        )

    def _value(self, row: dict[str, Any], name: str) -> str | None:
        value = readers.look_up(row, name)
        if value is None:
            return None
        text = id_text(value)
        self._seen.setdefault(name, {})[text] = None
        return text

    def nothing(self, path: Path, header: list[str]) -> DataError | None:
        """The error if no row was kept; None without conditions."""
        for name, value in self.conditions:
            if name not in self._seen:
                return DataError(
                    f"`{path}` has no column `{name}`; it has {', '.join(header)}",
                    "name one of them, as in --where COLUMN=VALUE",
                )
            if value not in self._seen[name]:
                others = list(self._seen[name])
                named = ", ".join(f"`{other[:40]}`" for other in others[:5])
                return DataError(
                    f"no row of `{path}` has `{name}` = `{value}`; there are {named}"
                    + (", ..." if others[5:] else ""),
                    f"name one of them with --where {name}=VALUE",
                )
        if self.conditions:
            wanted = " and ".join(f"`{name}` = `{value}`" for name, value in self.conditions)
            return DataError(f"no row of `{path}` has {wanted}", "give only one --where")
        return None
