"""Several directories of one kind read as one: their parts one after the other, in a given order.

Nothing is copied: a directory computed from them records all of them, and its parts match theirs.
A prompt's completions in one of them are a group; those of the same prompt in another are a
different group.
"""

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage.manifest import MANIFEST
from rlvr_cli.storage.schema import INPUT
from rlvr_cli.storage.shards import Shards


class TwoPrompts(DataError):
    """One id means different prompts in directories that are read as one."""


def opened(paths: Sequence[Path], kind: str) -> Shards:
    """The complete directories of a kind at `paths`, as one.

    Of several, none may be another once more, and none may be empty.
    """
    directories = [Shards.open(path, kind) for path in paths]
    known: dict[str, Shards] = {}
    for one in directories if len(directories) > 1 else ():
        if (other := known.setdefault(one.digest, one)) is not one:
            what = "is given twice" if other.path == one.path else f"is `{other.path}` once more"
            raise UsageError(f"`{one.path}` {what}", "name each directory once")
        if not one.rows:
            raise DataError(f"`{one.path}` holds no rows", "leave it out")
    return join(directories)


def join(directories: Sequence[Shards]) -> Shards:
    """One directory as it is; of several one that reads like all of them.

    Prompts that are the same directory, or the same row of two, are there once.
    """
    members = [one for directory in directories for one in directory.inputs]
    is_prompts = members[0].kind == "prompts"
    if is_prompts:
        members = list({one.digest: one for one in members}.values())
    if len(members) == 1:
        return members[0]
    again = _again(members) if is_prompts else tuple(frozenset[str]() for _ in members)
    parts = [part for one in members for part in one.manifest["parts"]]
    manifest = {"kind": members[0].kind, "parts": parts, "parents": {}, "paths": {}, "summary": {}}
    paths = dict.fromkeys(str(one.path) for one in members)
    return Joined(Path(", ".join(paths)), manifest, tuple(members), again)


@dataclass(frozen=True)
class Joined(Shards):
    """Several directories of one kind, read as one.

    Its `path` is only for messages. `again` are the ids of each member whose rows an earlier one
    has too; they are left out.
    """

    members: tuple[Shards, ...]
    again: tuple[frozenset[str], ...]

    @property
    def inputs(self) -> tuple[Shards, ...]:
        return self.members

    @functools.cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The member of each part, and the part's number there."""
        return [(n, part) for n, one in enumerate(self.members) for part in range(len(one))]

    def input_of(self, part: int) -> int:
        return self._places[part][0]

    @property
    def digest(self) -> str:
        return hashlib.sha256("".join(one.digest for one in self.members).encode()).hexdigest()

    @property
    def params(self) -> dict[str, Any]:
        return Common(self.members)

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.members) - sum(map(len, self.again))

    @property
    def schema(self) -> pa.Schema:
        """The columns that any of them has; but for `input`, which is relative to each."""
        fields = {f.name: f for one in self.members for f in one.schema if f.name != INPUT}
        return pa.schema(fields.values())

    def part(self, index: int, columns: Sequence[str] | None = None) -> pa.Table:
        number, part = self._places[index]
        one, again = self.members[number], self.again[number]
        there = one.schema.names
        wanted = self.schema.names if columns is None else list(columns)
        read = [name for name in wanted if name in there]
        key = ["prompt_id"] * bool(again and "prompt_id" not in read)
        table = one.part(part, [*read, *key])
        if again:
            repeats = pc.is_in(table["prompt_id"], pa.array(sorted(again), pa.string()))
            table = table.filter(pc.invert(repeats))
        for name in set(wanted) - set(there):
            field = self.schema.field(name)
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
        return table.select(wanted)

    def parent(
        self, kind: str, moved_to: Path | None = None, _below: tuple[Path, ...] = ()
    ) -> Shards:
        return join([one.parent(kind, moved_to, _below) for one in self.members])


class Common(dict[str, Any]):
    """The params that all have alike; an error about one that some have otherwise or not at all."""

    def __init__(self, members: Sequence[Shards]) -> None:
        each = [one.params for one in members]
        names = dict.fromkeys(name for params in each for name in params)
        self._members = members
        self._unlike = {
            name
            for name in names
            if any((name in p, p.get(name)) != (name in each[0], each[0].get(name)) for p in each)
        }
        super().__init__({name: each[0][name] for name in names if name not in self._unlike})

    def get(self, name: str, default: Any = None) -> Any:
        self._require_alike(name)
        return super().get(name, default)

    def __missing__(self, name: str) -> Any:
        self._require_alike(name)
        where = self._members[0].path / MANIFEST
        raise DataError(f"`{where}` has no `{name}` in its params", "make the directory again")

    def _require_alike(self, name: str) -> None:
        if name not in self._unlike:
            return
        said = {one.path: one.params.get(name, "not recorded") for one in self._members}
        first, *others = said.items()
        path, value = next(((path, v) for path, v in others if v != first[1]), others[0])
        raise DataError(
            f"the {name} of `{first[0]}` is {first[1]}, that of `{path}` is {value}",
            "take inputs that are alike in it",
        )


def _again(prompts: list[Shards]) -> tuple[frozenset[str], ...]:
    """The ids of each directory that an earlier one has; an error if they are other prompts."""
    known: dict[str, tuple[str, str | None, Shards]] = {}
    repeats = []
    for one in prompts:
        own = set()
        for index in range(len(one)):
            columns = one.part(index, ["prompt_id", "messages", "answer"]).columns
            for name, messages, answer in zip(*(c.to_pylist() for c in columns), strict=True):
                first = known.setdefault(name, (messages, answer, one))
                if first[2] is one:
                    continue
                if first[:2] != (messages, answer):
                    raise TwoPrompts(
                        f"`{name}` is one prompt in `{first[2].path}` and another in `{one.path}`",
                        "read the inputs one by one, or make prompts with ids of their own",
                    )
                own.add(name)
        repeats.append(frozenset(own))
    return tuple(repeats)
