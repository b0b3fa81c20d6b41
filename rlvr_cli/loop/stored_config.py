"""The configuration that a run was begun with, as stored and in the options of this version.

config.toml is for users, who may change options that decide no rows. `_run.json` holds the same
with a checksum, and the digests of inputs.json: if one is damaged, the other restores it.
"""

import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rlvr_cli import __version__, registry, run_config
from rlvr_cli.algorithms import objective
from rlvr_cli.config import RunConfig, earlier
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import engine_choice
from rlvr_cli.run_config import MAY_CHANGE, MAY_MOVE
from rlvr_cli.storage import atomic, manifest, metrics_log
from rlvr_cli.storage.run_folders import CONFIG, KEPT, kept
from rlvr_cli.verification.scoring import rewards

_SPECS = ("algo", "engine", "trainer", "verifier", "stale_correction")
_BRING_BACK = "bring the file back, or start another run with --out"
Tables = dict[str, dict[str, Any]]


def keep(run: Path, text: str, inputs: dict[str, str]) -> None:
    """Keeps what config.toml and inputs.json say."""
    atomic.write_atomic(run / KEPT, manifest.seal({"config": text, "inputs": inputs}))


def decided(copy: tuple[str, dict[str, str]]) -> dict[str, Any]:
    """What of the sealed copy decides the rows of a run, by name.

    A run that resumes keeps these values; a later version of rlvr may add names.
    """
    text, inputs = copy
    return inputs | {
        f"{table}.{name}": value
        for table, options in tomllib.loads(text).items()
        for name, value in options.items()
        if name not in MAY_CHANGE and name not in MAY_MOVE
    }


def read(run: Path, version: Callable[[], str]) -> Tables | None:
    """The tables of the configuration that a run was begun with; None of a new run.

    `version` says which version of rlvr began it.
    """
    path, before = run / CONFIG, _before(run, version)
    if before is None:
        if not path.exists() and (run / "inputs.json").exists():
            raise DataError(f"`{path}` is gone", _BRING_BACK)
        return _tables(path, _text(path), version) if path.exists() else None
    if (tables := _intact(path, before, version)) is None:
        return before
    free = {*MAY_CHANGE, *MAY_MOVE}
    if others := [one for one in _changed(before, tables) if one[0] not in free]:
        changes = "; ".join(f"{name} was {was}, is {value}" for name, was, value in others)
        raise DataError(f"`{path}` was changed after the run was begun: {changes}", _again(path))
    return tables


def remarks(run: Path, version: Callable[[], str]) -> list[str]:
    """How the configuration is repaired when the run resumes, and what was changed by hand."""
    path, before = run / CONFIG, _before(run, version)
    if before is None:
        is_lost = any((run / name).exists() for name in (KEPT, metrics_log.DIGESTS))
        return [f"`{run / KEPT}` was damaged or gone: it is written again"] if is_lost else []
    if (tables := _intact(path, before, version)) is None:
        return [f"`{path}` was damaged or gone: it is written again as it was"]
    return [
        f"`{path}` was changed: {name} was {was}, is {value}"
        for name, was, value in _changed(before, tables)
    ]


def _before(run: Path, version: Callable[[], str]) -> Tables | None:
    copy = kept(run)
    return _tables(run / CONFIG, copy[0], version) if copy else None


def _intact(path: Path, before: Tables, version: Callable[[], str]) -> Tables | None:
    """The stored tables; None if the file is gone, cut, or cannot be read."""
    if not path.exists():
        return None
    try:
        text = _text(path)
        there = {table.replace("-", "_"): o for table, o in tomllib.loads(text).items()}
        if any(options.keys() - there.get(table, {}).keys() for table, options in before.items()):
            known = {name for options in before.values() for name in options}
            if not any(name not in known for options in there.values() for name in options):
                return None
    except (DataError, AttributeError, TypeError):
        return None
    try:
        return _tables(path, text, version)
    except UserError as error:
        raise DataError(str(error), _again(path)) from error


def _text(path: Path) -> str:
    try:
        text = atomic.read_bytes(path).decode()
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"`{path}` is not as it was written: {error}", _BRING_BACK) from error
    return text


def _again(path: Path) -> str:
    return f"remove `{path}`: the same command writes it again as it was"


def _changed(before: Tables, after: Tables) -> list[tuple[str, Any, Any]]:
    """The options of two stored configurations that differ, with both values."""
    return [
        (name, before.get(table, {}).get(name), after.get(table, {}).get(name))
        for table in sorted({*before, *after})
        for name in sorted({*before.get(table, {}), *after.get(table, {})})
        if before.get(table, {}).get(name) != after.get(table, {}).get(name)
    ]


def meaning(name: str, value: Any, stored: Any) -> Any:
    """An option's value; of a spec, with all options that this version has.

    What a spec leaves out is as in the `stored` one, which the run was begun with.
    """
    folders = {"engine": "rollout", "trainer": "training"}
    if name in folders:
        if value == engine_choice.AUTO and stored is not None:
            value = stored
        return registry.canonical(folders[name], value, stored)
    if name == "stale_correction":
        return value if value == "none" else registry.canonical("modifiers", value, stored)
    if name == "verifier":
        return rewards.canonical(value, stored or None) if value else ""
    return objective.canonical(value, stored) if name == "algo" else value


def decides(name: str, value: Any, stored: Any) -> Any:
    """An option's meaning, without what of a verifier decides no reward."""
    meant = meaning(name, value, stored)
    return rewards.identity(meant) if name == "verifier" and meant else meant


def resumed(config: RunConfig, begun: Tables) -> RunConfig:
    """The configuration of a run that was begun, with its specs as they were meant then."""
    tables = {}
    for table, options in vars(config).items():
        stored = begun.get(table, {})
        specs = [name for name in _SPECS if name in stored]
        meant = {name: meaning(name, vars(options)[name], stored[name]) for name in specs}
        tables[table] = replace(options, **meant)
    return RunConfig(**tables)


def _tables(path: Path, text: str, version: Callable[[], str]) -> Tables:
    """The tables of a configuration, with all options that this version has, and no other."""
    known: dict[str, Any] = {f.name.replace("_", "-"): type(f.default) for f in fields(RunConfig)}
    tables = {}
    for table, options in tomllib.loads(text).items():
        if not isinstance(options, dict) or table not in known:
            raise _unknown(path, f"`{table}`", version())
        named = {f.name: f for f in fields(known[table])}
        for name in options:
            if name not in named:
                raise _unknown(path, f"`{name} = {options[name]!r}` in [{table}]", version())
        lacking = named.keys() - options.keys() - earlier(known[table]).keys()
        if lacking:
            raise DataError(
                f"`{path}` lacks `{min(lacking)}` in [{table}]: it was changed since",
                "bring the line back, or start another run with --out",
            )
        values = {
            name: run_config.typed(path, named[name], value) for name, value in options.items()
        }
        tables[table.replace("-", "_")] = values
    return tables


def _unknown(path: Path, what: str, version: str) -> DataError:
    if version == __version__:
        return DataError(
            f"`{path}` holds {what}, which rlvr {version} does not know", "remove that line"
        )
    return DataError(
        f"`{path}` holds {what}, which this rlvr {__version__} does not know: rlvr {version} "
        "began the run",
        f"resume it with rlvr {version}, or start another run with --out",
    )
