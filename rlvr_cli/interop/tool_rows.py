"""The rows of files under plain names, with the fields of the tool that wrote them."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rlvr_cli import registry
from rlvr_cli.errors import DataError, first_line
from rlvr_cli.interop import image_files, readers, spoken
from rlvr_cli.interop.formats._common import NAMES
from rlvr_cli.interop.where import Where


class ToolRows:
    """Reads files row by row, and knows what the rows of the last one are.

    `completion` are the names that the column of completions may have. With `texts` images in
    base64 wait on disk (`image_files.with_spooled`), but for the columns of these names.
    """

    def __init__(
        self, where: Where, completion: tuple[str, ...], texts: Iterable[str] | None = None
    ) -> None:
        self.header: list[str] = []
        self.own: dict[str, None] = {}  # the columns that formats' readers give, as a set
        self._where, self._completion = where, completion
        self._texts = None if texts is None else {name.partition(".")[0] for name in texts}
        self.begin()

    def begin(self) -> None:
        """Forgets what the rows of the last file are, but not their columns."""
        self.is_format = False  # whether a format's reader gives the fields
        self.names: dict[str, str] = {}  # the file's own, of columns that a reader renamed

    def of(self, file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """The rows of a file, each after its number in the file."""
        module = read = None
        for number, row in enumerate(readers.rows(file, is_known_row), 1):
            if number == 1:
                self.header = list(map(str, row))
                module = format_of(set(row))
                read = module and module.reader(file.name)
                self.is_format = read is not None
            if not self._where.may_keep(row):
                continue
            own = _of_tool(file, number, row, module, read) if read else None
            for fields in own or [self._unpacked(file, number, row)]:
                if NAMES in fields:
                    self.names |= fields.pop(NAMES)
                if read and number == 1:
                    self.own |= dict.fromkeys(map(str, fields))
                if self._where.keeps(fields):
                    yield number, self._spooled(fields)

    def _spooled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its images on disk, if they are to be."""
        if self._texts is None:
            return row
        others = {name: value for name, value in row.items() if name not in self._texts}
        spooled: dict[str, Any] = image_files.with_spooled(others)
        return row | spooled

    def _unpacked(self, file: Path, number: int, row: dict[str, Any]) -> dict[str, Any]:
        try:
            return spoken.unpacked(row, self._completion)
        except spoken.Unreadable as error:
            raise unreadable(file, number, "", error) from error


def _of_tool(file: Path, number: int, row: Any, module: Any, read: Any) -> Iterator[dict[str, Any]]:
    """The fields of a row with the columns of a tool; an error where it has another shape."""
    try:
        yield from read(row)
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        tool = module.__name__.rpartition(".")[2].replace("_", "-")
        raise DataError(
            f"`{readers.shown(file)}` row {number} has the columns of {tool} and another "
            f"shape: {type(error).__name__}: {first_line(error)}",
            f"if {tool} wrote it so, please report it with this row",
        ) from error


def unreadable(file: Path, number: int, name: str, error: spoken.Unreadable) -> DataError:
    """The error of a row whose completion, in the column of that name, is no text."""
    what = f"`{readers.shown(file)}` row {number} holds {name}{error}"
    return DataError(what[:400], error.hint)


def format_of(names: set[str]) -> Any:
    """The file of formats/ that recognises these columns as its tool's; None if none does."""
    return _recognising(frozenset(names))


@functools.lru_cache(maxsize=1024)
def _recognising(names: frozenset[str]) -> Any:
    """Remembered, as a folder may hold many files, and to look for packages takes 25 ms."""
    known = [*registry.names("formats"), *registry.installed("formats")]
    modules = (registry.module("formats", name) for name in known)
    return next((module for module in modules if module.recognises(set(names))), None)


def is_known_row(names: set[str]) -> bool:
    """Whether an object with these keys is a row of a known tool, whatever lists it holds."""
    return format_of(names) is not None
