"""The prompts of a benchmark: from the Hub, or from a copy that the user has."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr_cli.benchmarks import FOLDER, Definition
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.interop import readers
from rlvr_cli.stages import prompts as stage
from rlvr_cli.stages.reading import Source
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import plural


def places(given: list[str], folder: Path | None, wanted: list[Definition]) -> dict[str, Path]:
    """The user's copies, by benchmark: `NAME=PATH`, or NAME or NAME.* in a folder."""
    paths: dict[str, Path] = {}
    names = [definition.name for definition in wanted]
    if folder is not None and not folder.is_dir():
        raise DataError(f"--data-dir `{folder}` is not a folder", "check the path")
    for name in names if folder else ():
        assert folder
        matches = [p for p in sorted(folder.glob(f"{name}.*")) if readers.is_known(p)]
        matches = [folder / name] if (folder / name).is_dir() else matches
        if matches:
            paths[name] = matches[0]
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or name not in names:
            raise UsageError(
                f"--data is `{text}`",
                f"write NAME=PATH with a benchmark that is asked for, as in --data {names[0]}=DIR",
            )
        if not Path(path).exists():
            raise DataError(f"--data {name}: `{path}` does not exist", "check the path")
        paths[name] = Path(path)
    return paths


def prepare(definition: Definition, out: Path, place: Path | None, limit: int | None) -> Shards:
    """The prompts directory of a benchmark, created unless it is complete.

    A copy is read where there is one, else the Hub is asked. Without a `limit` one that was begun
    keeps its own.
    """
    begun = begun_with(out)
    limit = limit or begun.get("limit")
    params = {"benchmark": definition.identity} | ({"limit": limit} if limit else {})
    as_begun = all(begun.get(name) == params.get(name) for name in ("benchmark", "limit"))
    if (out / MANIFEST).exists() and as_begun and place is None:
        return Shards.open(out, "prompts")
    source = _loaded(definition, place)
    rows = _named(source.rows, definition.name)
    if definition.prompts and len(rows) not in definition.prompts:
        counts = " or ".join(map(str, definition.prompts))
        raise DataError(
            f"`{source.params['source']}` has {plural.of(len(rows), 'prompt')}, "
            f"`{definition.name}` has {counts}",
            f"{_how_to_get(definition)}; or copy its definition and leave out "
            f"`prompts`: {FOLDER / definition.name}.toml",
        )
    prompts = stage.make(
        replace(source, rows=rows[:limit], params=source.params | params,
                facts={**source.facts, "of": len(rows)}), out
    )  # fmt: skip
    assert prompts is not None, "all parts are of this share"
    return prompts


def _loaded(definition: Definition, place: Path | None) -> Source:
    source, split = _source(definition, place)
    try:
        return stage.load(
            source,
            split=split,
            verifier=definition.verifier or None,
            columns=definition.data.columns,
            layout=definition.data.layout or None,
        )
    except (DataError, UsageError) as error:
        name = definition.name
        if place and place.is_dir():
            hint = f"name the file itself, as in --data {name}=FILE; or {_how_to_get(definition)}"
            raise DataError(f"{name}: {error}", hint) from error
        if place or definition.data.path or not isinstance(error, DataError):
            raise
        raise DataError(f"{name}: {error}", _how_to_get(definition)) from error


def _source(definition: Definition, place: Path | None) -> tuple[str, str | None]:
    """What `prompts` would be given, and the split."""
    data = definition.data
    split = data.split or None
    if place is None and data.path:
        place = Path(data.path)
    if place is None:
        if data.file:
            return f"hf://datasets/{data.hub}/{data.file}", None
        return data.hub + (f":{data.config}" if data.config else ""), split
    if place.is_file():
        return str(place), None
    files = [p for p in sorted(place.rglob("*")) if p.is_file() and readers.is_known(p)]
    if len(files) == 1 and not _is_saved(place):
        return str(files[0]), None
    if data.file:
        return str(place / data.file), None
    if (place / "state.json").is_file():  # `save_to_disk` of one split
        return str(place), None
    has_configs = data.config and not _is_saved(place)
    return str(place) + (f":{data.config}" if has_configs else ""), split


def _is_saved(place: Path) -> bool:
    """Whether `save_to_disk` of `datasets` wrote a folder, of one configuration then."""
    return any((place / name).is_file() for name in ("dataset_dict.json", "state.json"))


def _how_to_get(definition: Definition) -> str:
    """A command that downloads the data where there is a network, and the flag that names it."""
    data, name = definition.data, definition.name
    if not data.hub:
        return f"name a copy with `--data {name}=PATH`"
    words: list[Any] = ["hf", "download", data.hub, *([data.file] if data.file else [])]
    words += ["--repo-type", "dataset", "--local-dir", name]
    terms = f"accept its terms on https://huggingface.co/datasets/{data.hub}, " * data.gated
    login = "`hf auth login`, then " * data.gated
    return f"{terms}{login}`{shlex.join(words)}`, and add `--data {name}={name}`"


def _named(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows with ids and a source that are the same wherever the data is."""
    ids = [str(row["prompt_id"]) for row in rows]
    if all(one.endswith(f"-{number:06d}") for number, one in enumerate(ids, 1)):
        ids = [f"{name}-{number:06d}" for number in range(1, len(rows) + 1)]
    return [row | {"prompt_id": one, "source": name} for row, one in zip(rows, ids, strict=True)]
