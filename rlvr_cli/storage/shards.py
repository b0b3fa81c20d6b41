"""Shard directories: what one is, what decides its content, and reading it.

A directory holds `part-00000.parquet ...` of one kind. While it is written, `_plan.json` says
what it will be, and each process that makes parts notes their checksums in a journal of its own
(journal.py); `_manifest.json` lists them all, and is what makes the directory complete. Every read
checks the part's sha256. writer.py writes; no other code touches shard files.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.errors import DataError, UsageError, first_line
from rlvr_cli.storage import atomic, journal, schema

MANIFEST = "_manifest.json"
_NEXT = {  # what follows a kind, and the command that writes it
    "prompts": {"rollouts": "rollout {}"},
    "rollouts": {"scores": "score {}", "logprobs": "logprob {}"},
    "scores": {"advantages": "advantage {} --algo grpo"},
    "advantages": {"steps": "train-step {}"},
}


@dataclass(frozen=True)
class Share:
    """Which parts a process begins with: those whose index is `index` modulo `count`.

    A share that is not `fixed` goes on with the parts of others.
    """

    index: int = 0
    count: int = 1
    fixed: bool = False

    @staticmethod
    def of_process(rank: int, size: int) -> "Share":
        """That of a process which was started together with the others, and makes no more."""
        return Share(rank, size, fixed=True)

    def of(self, parts: int) -> range:
        """The indices of this share among so many parts."""
        return range(self.index, parts, self.count)

    def others(self, parts: int) -> Iterator[int]:
        """Those that follow; of each other share those first that its process comes to last."""
        for further in range(1, 1 if self.fixed else self.count):
            yield from reversed(range((self.index + further) % self.count, parts, self.count))

    @staticmethod
    def parse(text: str) -> "Share":
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise UsageError(f"--shard is `{text}`", "write i/n with i from 0 to n-1, as in 0/4")
        return Share(int(index), int(count))


ALL_PARTS = Share()


def _way(path: Path, kind: str, wanted: tuple[str, ...]) -> str:
    """How to come from the kind that is there to one that is wanted."""
    for following, command in _NEXT.get(kind, {}).items():
        if following in wanted:
            return f"make {following} of it with `rlvr {command.format(path)}`, or name others"
    return "name another directory"


@dataclass(frozen=True)
class Shards:
    """A complete directory, as its manifest describes it."""

    path: Path
    manifest: dict[str, Any]

    @staticmethod
    def open(path: Path, *kinds: str) -> "Shards":
        """The complete directory at `path`; an error unless it is of one of `kinds`."""
        manifest = read_sealed(path / MANIFEST)
        if manifest is None:
            raise _incomplete(path)
        version = manifest.get("schema_version")
        if version != schema.VERSION:
            raise DataError(
                f"`{path}` has schema version {version}, this rlvr reads {schema.VERSION}",
                "make it again with this rlvr, or read it with the one that made it",
            )
        if kinds and manifest["kind"] not in kinds:
            raise DataError(
                f"`{path}` holds {manifest['kind']}, {' or '.join(kinds)} were expected",
                _way(path, manifest["kind"], kinds),
            )
        return Shards(path, manifest)

    @property
    def kind(self) -> str:
        return str(self.manifest["kind"])

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.manifest["params"]
        return params

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.manifest["summary"]
        return summary

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])

    @property
    def rows(self) -> int:
        return sum(part["rows"] for part in self.manifest["parts"])

    def __len__(self) -> int:
        return len(self.manifest["parts"])

    @property
    def schema(self) -> pa.Schema:
        """The columns of its parts."""
        only = self.manifest["only"]
        return schema.schema(
            self.kind,
            tuple(self.manifest["extra"]),
            None if only is None else tuple(only),
            top_k=self.params.get("ref_top_k"),
        )

    def part(self, index: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one part, after its checksum and schema are verified.

        `columns` names those to read, in that order; without it all are read.
        """
        entry = self.manifest["parts"][index]
        expected = self.schema
        if columns is not None:
            expected = pa.schema([expected.field(name) for name in columns])
        path = self.path / entry["name"]
        return _with_columns(_read_part(path, entry["sha256"], columns), expected, path, self.kind)

    def parts(self) -> Iterator[pa.Table]:
        return (self.part(index) for index in range(len(self)))

    def table(self) -> pa.Table:
        return pa.concat_tables(self.parts())

    def parent(self, kind: str, moved_to: Path | None = None) -> "Shards":
        """The nearest ancestor of a kind, by its path, checked by its digest."""
        for role, recorded in self.manifest["parents"].items():
            path = Path(os.path.normpath(self.path / recorded["path"]))
            if role == kind:
                ancestor = Shards.open(moved_to or path, kind)
                if ancestor.digest != recorded["digest"]:
                    raise DataError(
                        f"`{ancestor.path}` is not the directory that `{self.path}` was made from",
                        f"make `{self.path}` again from what is there now",
                    )
                return ancestor
        for role, recorded in self.manifest["parents"].items():
            path = Path(os.path.normpath(self.path / recorded["path"]))
            with contextlib.suppress(LookupError):
                return Shards.open(path, role).parent(kind, moved_to)
        raise LookupError(kind)


def is_begun(path: Path) -> bool:
    """Whether there is a directory that a stage has made, or begun to make."""
    return (path / MANIFEST).exists() or bool(journal.listings(path))


def begun_with(path: Path) -> dict[str, Any]:
    """The params of the directory that is complete or half-made at `path`; none of another."""
    return dict(_begun(path).get("params", {}))


def begun_behaviour(path: Path) -> dict[str, int]:
    """The versions, above 1, of what made that directory; see `Plan.behaviour`."""
    return dict(_begun(path).get("behaviour", {}))


def begun_paths(path: Path) -> dict[str, str]:
    """Where that directory says its policy and other models lie, by their roles."""
    return dict(_begun(path).get("paths", {}))


def begun_fingerprint(path: Path) -> str | None:
    """The hash of all that decides what that directory holds."""
    return _begun(path).get("fingerprint")


def _begun(path: Path) -> dict[str, Any]:
    for listing in (path / MANIFEST, *journal.listings(path)):
        if manifest := read_sealed(listing):
            return manifest
    first_draw = path / "_draws" / "0" / "rollouts"  # rollouts with draws begin with these
    manifest = _begun(first_draw) if first_draw.is_dir() else {}
    if not manifest:
        return {}
    params = {n: v for n, v in manifest["params"].items() if n not in ("draw", "max_draws")}
    return {"params": params, "paths": manifest.get("paths", {})}


def _read_part(path: Path, sha256: str, columns: Sequence[str] | None) -> pa.Table:
    data = atomic.read_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DataError(
            f"`{path}` does not match its checksum: it was cut or changed after it was written",
            "run the command that made the directory again; it makes just this part anew",
        )
    file = pq.ParquetFile(pa.BufferReader(data))
    names = file.schema_arrow.names
    wanted = None if columns is None else [name for name in columns if name in names]
    return file.read(columns=wanted).replace_schema_metadata(None)


def _with_columns(table: pa.Table, expected: pa.Schema, path: Path, kind: str) -> pa.Table:
    """The table in this version's columns: one that an earlier version did not have is null."""
    if table.schema.equals(expected):
        return table
    unknown = set(table.column_names) - set(expected.names)
    for field in expected:
        if field.name not in table.column_names and field.nullable:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    try:
        if unknown:
            raise pa.ArrowInvalid(f"column `{min(unknown)}`")
        return table.select(expected.names).cast(expected)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise DataError(
            f"`{path}` has other columns than its kind `{kind}`: {first_line(error)}",
            "make the directory again, or read it with the version that made it",
        ) from error


def _incomplete(path: Path) -> DataError:
    if not path.exists():
        return DataError(f"`{path}` does not exist", "check the path")
    listings = [m for p in journal.listings(path) if (m := read_sealed(p))]
    if not listings:
        data = path.is_file() or not (path / "config.toml").exists()
        hint = f"if it is data: `rlvr prompts {path} --out prompts`" if data else "name a stage's"
        return DataError(f"`{path}` is not a shard directory: it has no {MANIFEST}", hint)
    listed = {part["name"] for m in listings for part in m["parts"]}
    done = listed | {part["name"] for part in journal.parts_of(path)}
    stage, planned = listings[0]["stage"], listings[0]["planned_parts"]
    return DataError(
        f"`{path}` is not complete: {len(done)} of {planned} parts",
        f"finish it by running its `rlvr {stage}` command again",
    )


def seal(manifest: dict[str, Any]) -> bytes:
    checksum = hashlib.sha256(atomic.canonical_json(manifest).encode()).hexdigest()
    return atomic.pretty_json({**manifest, "sha256": checksum})


def read_sealed(path: Path) -> dict[str, Any] | None:
    """The manifest in `path`, None if there is none; an error if it is not as it was written."""
    if not path.exists():
        return None
    try:
        manifest: dict[str, Any] = json.loads(atomic.read_bytes(path))
        checksum = manifest.pop("sha256")
        if hashlib.sha256(atomic.canonical_json(manifest).encode()).hexdigest() == checksum:
            return manifest
    except (ValueError, KeyError, AttributeError):
        pass
    raise DataError(
        f"`{path}` was cut or changed after it was written",
        f"remove `{path.parent}` and run the command that made it again",
    )
