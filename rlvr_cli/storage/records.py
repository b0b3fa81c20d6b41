"""Which parts of a directory are intact, by listings, journals and the files themselves.

A part is intact if its sha256 was noted before the file got its name. One part may have several:
a writer was killed before it finished the part, or another one finished it first.
"""

import contextlib
import hashlib
from pathlib import Path

from rlvr_cli.storage import atomic, journal
from rlvr_cli.storage.journal import Part
from rlvr_cli.storage.shards import MANIFEST, read_sealed


class Records:
    """What is noted of the parts of a directory, under the fingerprint of its plan."""

    def __init__(self, folder: Path, fingerprint: str, own: Path | None = None) -> None:
        """`own` is the journal of this process, which calls `add` for each part that it notes."""
        self._folder, self._fingerprint, self._own = folder, fingerprint, own
        self._read: dict[Path, int] = {}  # the bytes of each journal that were read
        self._parts: dict[int, dict[str, Part]] = {}  # by index and sha256
        for path in journal.listings(folder):
            self._add_listing(path)
        self.refresh()

    def __contains__(self, index: int) -> bool:
        return index in self._parts

    def add(self, part: Part) -> None:
        index = journal.index_of(part["name"])
        if index is not None:
            kept = {name: part[name] for name in ("name", "rows", "sha256")}
            self._parts.setdefault(index, {})[part["sha256"]] = kept

    def refresh(self) -> None:
        """Reads what was noted since. The manifest is last: it is there when journals are gone."""
        journals = set(self._folder.glob(journal.PATTERN)) - self._read.keys() - {self._own}
        self._read |= dict.fromkeys(sorted(journals), 0)
        self.refresh_known()
        for name in (journal.COMPLETE, MANIFEST):
            self._add_listing(self._folder / name)

    def refresh_known(self) -> None:
        """Reads what was noted since in the journals that are known."""
        for path, start in list(self._read.items()):
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                file.seek(start)
                data = file.read()
                lines = data[: data.rfind(b"\n") + 1]
                self._read[path] = start + len(lines)
                for value in journal.read(lines):
                    if value.get("fingerprint") == self._fingerprint:
                        self.add(value)

    def intact(self, index: int) -> Part | None:
        """What is noted of a part whose file is as it was written; None if it is not."""
        return self.identify(index, self._folder / journal.part_name(index))

    def identify(self, index: int, path: Path) -> Part | None:
        """What is noted of a part whose content is in a file."""
        noted = self._parts.get(index)
        return noted.get(_sha256(path)) if noted else None

    def _add_listing(self, path: Path) -> None:
        listing = read_sealed(path)
        if listing is not None and listing["fingerprint"] == self._fingerprint:
            for part in listing["parts"]:
                self.add(part)


def is_intact(folder: Path, part: Part) -> bool:
    """Whether a part is there as it was noted."""
    return bool(_sha256(folder / part["name"]) == part["sha256"])


def _sha256(path: Path) -> str:
    """The hash of a file; of another thing or of none, empty."""
    data = atomic.read_if_there(path) if path.is_file() else None
    return "" if data is None else hashlib.sha256(data).hexdigest()
