"""Shard directories: their format, what decides their content, and how to read them.

A directory holds `part-00000.parquet ...` of one kind. While it is written, `_plan.json` describes
it, and each process that makes parts records their checksums in its own journal (journal.py).
`_manifest.json` lists all parts; with it the directory is complete. Every read checks the part's
sha256. writer.py writes; no other code touches shard files.
"""

import contextlib
import hashlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.storage import atomic, fetched, journal, manifest as manifests, moved, schema
from rlvr_cli.storage.manifest import MANIFEST, read as read_sealed, seal
from rlvr_cli.terminal import plural

__all__ = ["MANIFEST", "METADATA_KEY", "Shards", "read_sealed", "seal"]

METADATA_KEY = b"rlvr"  # under which a part says what it is
_NEXT: dict[str, dict[str, str]] = {  # what follows a kind, and the command that writes it
    "prompts": {"rollouts": "rlvr rollout{}"},
    "rollouts": {"scores": "rlvr score{}", "logprobs": "rlvr logprob{}"},
    "scores": {"advantages": "rlvr advantage{} --algo grpo"},
    "advantages": {"steps": "rlvr train-step{}"},
}

_OTHER = "name another directory"


def _way(path: Path, kind: str, wanted: tuple[str, ...]) -> str:
    """The hint that leads from the kind of a directory to one that is wanted."""
    commands, place = [], f" {shlex.quote(str(path))}"
    while following := _NEXT.get(kind):
        kind = next((one for one in following if one in wanted), next(iter(following)))
        commands.append(following[kind].format(place))
        if kind in wanted:
            return f"make {kind} from it with `{' | '.join(commands)}`, or name others"
        place = ""  # the command before prints it
    return _OTHER


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
            raise _incomplete(path, kinds)
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
        return _Facts(self, "params")

    @property
    def summary(self) -> dict[str, Any]:
        return _Facts(self, "summary")

    @property
    def digest(self) -> str:
        return str(self.manifest["digest"])

    @property
    def rows(self) -> int:
        return sum(part["rows"] for part in self.manifest["parts"])

    @property
    def inputs(self) -> tuple["Shards", ...]:
        """The directories that are read as this one: itself, but for several read as one."""
        return (self,)

    @property
    def as_argument(self) -> str:
        """The path of each of `inputs`, as a command line has them."""
        return " ".join(dict.fromkeys(shlex.quote(str(one.path)) for one in self.inputs))

    def input_of(self, part: int) -> int:
        """The number of the one of `inputs` that a part is of."""
        return 0

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
        table = _read_part(path, entry["sha256"], columns)
        if table.num_rows != entry["rows"]:
            raise DataError(
                f"`{path}` holds {plural.of(table.num_rows, 'row')}, its {MANIFEST} says "
                f"{entry['rows']}",
                manifests.remake_hint(self.path),
            )
        return _with_columns(table, expected, path, self.kind)

    def parts(self) -> Iterator[pa.Table]:
        return (self.part(index) for index in range(len(self)))

    def table(self) -> pa.Table:
        return pa.concat_tables(self.parts())

    def require_child(self, child: "Shards") -> None:
        """An error if another directory was not made from this one."""
        if manifests.digests(child.manifest, self.kind) != [self.digest]:
            raise DataError(
                f"`{child.path}` was not made from `{self.path}` as it is now",
                manifests.remake_hint(child.path),
            )

    def parent(
        self, kind: str, moved_to: Path | None = None, _below: tuple[Path, ...] = ()
    ) -> "Shards":
        """The nearest ancestor of a kind, by its path, checked by its digest.

        Where there are several, they are read as one, in the order in which they were given.
        """
        if kind in self.manifest["parents"]:
            return self._parent(kind, moved_to)
        for role in self.manifest["parents"]:
            with contextlib.suppress(LookupError):
                parent = self._parent(role)
                if parent.path in _below:
                    again = manifests.remake_hint(parent.path)
                    raise DataError(f"`{parent.path}` is its own ancestor", again)
                return parent.parent(kind, moved_to, (*_below, parent.path))
        raise LookupError(kind)

    def _parent(self, role: str, moved_to: Path | None = None) -> "Shards":
        from rlvr_cli.storage import joined

        recorded = manifests.parents(self.manifest, role)
        if moved_to and len(recorded) > 1:
            moved.remember(Shards.open(moved_to, role).digest, moved_to)
            moved_to = None
        return joined.join([self._recorded(role, one, moved_to) for one in recorded])

    def _recorded(self, role: str, recorded: dict[str, str], moved_to: Path | None) -> "Shards":
        """The parent that an entry of the manifest names."""
        path, digest = recorded["path"], recorded["digest"]
        places = [moved_to] if moved_to else moved.places(self.path, path, digest)
        there = [place for place in dict.fromkeys(places) if place.exists()]
        for place in there:
            if (parent := Shards.open(place, role)).digest == digest:
                return parent
        flag = f"--{role}" if role in moved.KINDS else "--rollouts"
        if there:
            raise DataError(
                f"`{there[0]}` is not the directory that `{self.path}` was made from",
                f"make `{self.path}` again from what is there now, or name the one that it was "
                f"made from with `{flag} DIR`",
            )
        raise DataError(
            f"`{moved_to or fetched.joined(self.path, path)}`, which `{self.path}` was made from, "
            "is not there",
            f"say where it is now: `{flag} {self._nearby(path, role, digest)}`",
        )

    def _nearby(self, path: str, role: str, digest: str) -> str:
        """A directory of this digest in a folder above, as a command line names it; else DIR.

        Where this one was fetched, or records a URL, it is that URL.
        """
        for place in moved.nearby(self.path, path):
            with contextlib.suppress(DataError, OSError, KeyError):
                if (place / MANIFEST).exists() and Shards.open(place, role).digest == digest:
                    return shlex.quote(str(place))
        url = path if fetched.is_url(path) else fetched.relative_url(self.path, path)
        return shlex.quote(url) if url else "DIR"


class _Facts(dict[str, Any]):
    """The contents of a manifest; an error if a requested entry is missing."""

    def __init__(self, shards: Shards, part: str) -> None:
        super().__init__(shards.manifest[part])
        self._where, self._part = shards.path, part

    def __missing__(self, name: str) -> Any:
        raise DataError(
            f"`{self._where / MANIFEST}` has no `{name}` in its {self._part}",
            manifests.remake_hint(self._where),
        )


def _read_part(path: Path, sha256: str, columns: Sequence[str] | None) -> pa.Table:
    data = atomic.read_bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DataError(
            f"`{path}` does not match its checksum: it was cut or changed after it was written",
            manifests.remake_part_hint(path),
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = file.schema_arrow.names
        wanted = None if columns is None else [name for name in columns if name in names]
        return file.read(columns=wanted).replace_schema_metadata(None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(
            f"`{path}` cannot be read: {first_line(error)}", manifests.remake_hint(path.parent)
        ) from error


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


def has_parts(path: Path) -> bool:
    """Whether a folder holds parts that rlvr wrote, whatever became of their manifest."""
    first = next((part for part in sorted(path.glob("part-*.parquet")) if part.is_file()), None)
    with contextlib.suppress(pa.ArrowException, OSError):
        return first is not None and METADATA_KEY in (pq.read_schema(first).metadata or {})
    return False


def hint_within(path: Path, kinds: tuple[str, ...]) -> str | None:
    """The hint that names a directory of `kinds` in a folder, or the command that makes one.

    Of a folder it looks at those directly in it; of a run at those of its newest step first.
    """
    depths = ("*", "*/*", "*/*/*") if (path / "config.toml").exists() else ("*",)
    found: dict[str, Path] = {}
    for manifest in sorted((m for d in depths for m in path.glob(f"{d}/{MANIFEST}")), reverse=True):
        kind = str((read_sealed(manifest) or {}).get("kind"))
        found.setdefault(kind, manifest.parent)
        if kind in kinds:
            return f"name a directory of those in it, as `{manifest.parent}`"
    ways = (_way(directory, kind, kinds) for kind, directory in found.items())
    if way := next((one for one in ways if one != _OTHER), None):
        return way
    return next((f"name a directory of those in it, as `{one}`" for one in found.values()), None)


def _hint_of_data(path: Path, kinds: tuple[str, ...]) -> str:
    """The hint for what another tool may have written, where a directory of `kinds` is wanted."""
    place = shlex.quote(str(path))
    questions = f"if it holds questions: `rlvr prompts {place} --out prompts`"
    completions = f"if it holds completions: `rlvr import {place} --out imported`"
    if kinds == ("prompts",):
        return questions
    return completions if kinds and "prompts" not in kinds else f"{questions}; {completions}"


def _incomplete(path: Path, kinds: tuple[str, ...]) -> DataError:
    if not path.exists():
        is_task = str(path).startswith("task:")
        hint = f"make its prompts first: `rlvr prompts {path} --out prompts`" if is_task else ""
        return fetched.not_fetched(path) or DataError(
            f"`{path}` does not exist", hint or "check the path"
        )
    listings = [m for p in journal.listings(path) if (m := read_sealed(p))]
    if not listings and has_parts(path):
        hint = manifests.remake_hint(path)
        text = f"`{path}` has parts, and lost the {MANIFEST} that lists them"
        return manifests.Damaged(text, hint)
    if not listings and path.is_dir() and not any(path.iterdir()):
        return DataError(f"`{path}` is an empty folder", "check the path")
    if not listings:
        hint = hint_within(path, kinds) or _hint_of_data(path, kinds)
        return DataError(f"`{path}` is not a shard directory: it has no {MANIFEST}", hint)
    listed = {part["name"] for m in listings for part in m["parts"]}
    done = listed | {part["name"] for part in journal.parts_of(path)}
    stage, planned = listings[0]["stage"], listings[0]["planned_parts"]
    return DataError(
        f"`{path}` is not complete: {len(done)} of {planned} parts",
        f"finish it by running its `rlvr {stage}` command again",
    )
