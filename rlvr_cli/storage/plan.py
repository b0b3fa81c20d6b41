"""All that decides what a directory holds, compared with what an earlier version began.

A directory stores its options as they took effect, and keeps them for good: its parts and the
directories made from it hold their hash. So a later version, which may have more options, other
defaults and more columns, compares what the stored ones mean, and finishes a directory under the
identity that it was begun with.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rlvr_cli import __version__
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.storage import atomic, manifest as manifests, schema

if TYPE_CHECKING:
    from rlvr_cli.storage.shards import Shards

Manifest = dict[str, Any]
_IDENTITY = ("kind", "schema_version", "stage", "params", "parents", "parts", "extra", "only")


@dataclass(frozen=True)
class Plan:
    """The directory that a stage is about to write, in the options of this version.

    `earlier` has the value that earlier versions used for each param that they did not store, and
    `specs` the functions that write a stored spec with all options of this version. `optional`
    names the params that are stored only if they apply. `behaviour` has the version of each thing
    whose results have changed under the same options: a verifier, the sampling noise. Version 1 is
    not stored. `unknowns` is for completions that were not sampled here.
    """

    kind: str
    stage: str
    params: dict[str, Any]
    parents: dict[str, "Shards"]
    parts: int
    extra: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    paths: dict[str, str] = field(default_factory=dict)
    earlier: Mapping[str, Any] = field(default_factory=dict)
    specs: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    behaviour: Mapping[str, int] = field(default_factory=dict)
    unknowns: bool = False
    begun: Manifest | None = None  # the identity under which the directory was begun
    begun_columns: tuple[str, ...] | None = None  # those of the parts that are there already

    @functools.cached_property
    def identity(self) -> dict[str, Any]:
        """What two directories share if and only if one may be continued as the other."""
        return self.begun or {
            "kind": self.kind,
            "schema_version": schema.VERSION,
            "stage": self.stage,
            "params": self.params,
            "parents": {role: recorded(parent, _digest) for role, parent in self.parents.items()},
            "parts": self.parts,
            "extra": list(self.extra),
            "only": None if self.only is None else list(self.only),
            **({"behaviour": self._changed} if self._changed else {}),
        }

    @property
    def _changed(self) -> dict[str, int]:
        return {name: version for name, version in self.behaviour.items() if version > 1}

    @functools.cached_property
    def fingerprint(self) -> str:
        return atomic.digest_of(self.identity)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The columns of the parts, as they were begun."""
        top_k = self.params.get("ref_top_k")
        columns = schema.schema(self.kind, self.extra, self.only, top_k=top_k)
        if not self.unknowns:
            columns = schema.of_samplers(columns)
        if self.begun_columns is None:
            return columns
        return pa.schema([column for column in columns if column.name in self.begun_columns])

    def continuing(self, manifest: Manifest, where: object) -> "Plan":
        """This plan under the identity of a stored listing; an error if it is of another plan."""
        if manifest["fingerprint"] == self.fingerprint:
            return self
        if changes := self._differences(manifest):
            raise _other_plan(where, manifest, changes)
        begun = {name: manifest[name] for name in _IDENTITY if name != "parents"}
        begun["parts"] = manifest["planned_parts"]
        begun["parents"] = _digests(manifest)
        if "behaviour" in manifest:
            begun["behaviour"] = manifest["behaviour"]
        plan = replace(self, begun=begun)
        if plan.fingerprint != manifest["fingerprint"]:
            raise DataError(
                f"the manifest of `{where}` has another fingerprint than its options",
                "choose another --out, or remove the directory to make it again",
            )
        return plan

    def require_behaviour(self, manifest: Manifest, where: object) -> None:
        """An error if other versions of verifiers or objectives wrote the existing parts."""
        before = manifest.get("behaviour", {})
        changes = [
            f"the version of {name} was {before.get(name, 1)}, is {self.behaviour.get(name, 1)}"
            for name in sorted({*before, *self.behaviour})
            if before.get(name, 1) != self.behaviour.get(name, 1)
        ]
        if changes:
            raise _other_plan(where, manifest, changes)

    def _differences(self, manifest: Manifest) -> list[str]:
        """How this plan differs from the manifest, one phrase each."""
        for name in ("kind", "stage"):
            if manifest[name] != getattr(self, name):
                return [f"{name} was {manifest[name]}, is {getattr(self, name)}"]
        changes = self._changed_params(manifest["params"])
        stored = {**manifest, "parts": manifest["planned_parts"]}
        stored["parents"] = _digests(manifest)
        own = replace(self, begun=None).identity
        if not changes or self.only:  # columns are requested in addition to the params
            changes += [
                f"{_NOUNS.get(name, name)} was {stored[name]}, is {own[name]}"
                for name in _IDENTITY
                if name != "params" and stored[name] != own[name]
            ]
        return changes

    def _changed_params(self, stored: dict[str, Any]) -> list[str]:
        """A changed hash of the content is named only if nothing else changed."""
        changes = {}
        for name, value in self.params.items():
            if name not in stored and name not in self.earlier:
                changes[name] = f"{name} was not set, is {value}"
                continue
            before = stored.get(name, self.earlier.get(name))
            meant = self._meaning(name, before)
            if meant != value:
                changes[name] = f"{name} was {before}, is {value}"
        for name in stored.keys() - self.params.keys():
            known = "is not set" if name in self.optional else "this version has no such option"
            changes[name] = f"{name} was {stored[name]}, {known}"
        if len(changes) > 1:
            changes.pop("content", None)
        return list(changes.values())

    def _meaning(self, name: str, stored: Any) -> Any:
        """A stored value in this version's words; as it is where it cannot be read."""
        if name not in self.specs or stored is None:
            return stored
        try:
            return self.specs[name](stored)
        except UserError:
            return stored


def recorded(parent: "Shards", record: Callable[["Shards"], Any]) -> Any:
    """What is recorded of a parent, or of each where several are read as one."""
    each = [record(one) for one in parent.inputs]
    return each if len(each) > 1 else each[0]


def _digest(parent: "Shards") -> str:
    return parent.digest


def _digests(manifest: Manifest) -> dict[str, Any]:
    """The digests of the stored parents, as `identity` has them."""
    digests = {role: manifests.digests(manifest, role) for role in manifest["parents"]}
    return {role: each if len(each) > 1 else each[0] for role, each in digests.items()}


_NOUNS = {"only": "columns", "extra": "further columns"}


def _other_plan(where: object, manifest: Manifest, changes: list[str]) -> UserError:
    return UsageError(
        f"`{where}` was made with other parameters{by_version(manifest)}: "
        f"{'; '.join(changes)[:300]}",
        "choose another --out, or remove the directory to make it again",
    )


def by_version(manifest: Manifest) -> str:
    """Which version made a directory, where that is not this one."""
    version = manifest.get("versions", {}).get("rlvr", "an unknown version")
    return "" if version == __version__ else f" by rlvr {version}, this is {__version__}"
