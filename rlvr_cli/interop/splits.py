"""Which split and configuration of a data set each file of a folder belongs to.

The `configs` of its README say it; else the names of its files do, as in `train.jsonl`,
`data/test-00000-of-00002.parquet` or `validation/part-1.csv`.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.interop import readers

Splits = dict[str, list[str]]
"""The names of the files of each split, relative to the folder."""

DEFAULT = "default"  # the configuration of a data set that has one
WHOLE = "train"  # the split of a data set that names none, as `datasets` calls it
_WORDS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
_NUMBERED = re.compile(r"(.+?)-\d{5}-of-\d{5}")
_OF_SEVERAL = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.(.*)")
_METADATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")


def data_files(names: Iterable[str]) -> list[str]:
    """Those names that are files of rows: of a known ending, not hidden, no metadata; sorted."""
    paths = [PurePosixPath(name) for name in names]
    return sorted(
        str(path)
        for path in paths
        if readers.is_known(path)
        and path.name not in _METADATA
        and not any(part[0] in "._" for part in path.parts)
    )


def configurations(names: Iterable[str], readme: str = "") -> dict[str, Splits]:
    """The splits of each configuration; a data set without configurations has only `default`."""
    known = data_files(names)
    return _declared(known, readme) or _named(known)


def lacking(names: Iterable[str]) -> str:
    """The numbered files that are not among these, as in `train-00001-of-00003.parquet`."""
    numbers: dict[tuple[str, str, str], set[int]] = {}
    for match in filter(None, map(_OF_SEVERAL.fullmatch, names)):
        begin, number, count, end = match.groups()
        numbers.setdefault((begin, count, end), set()).add(int(number))
    absent = [
        f"{begin}-{number:05d}-of-{count}.{end}"
        for (begin, count, end), known in numbers.items()
        for number in range(int(count))
        if number not in known
    ]
    more = f" and {len(absent) - 3} more files" if len(absent) > 3 else ""
    return ", ".join(f"`{name}`" for name in absent[:3]) + more


def choose(
    configurations: dict[str, Splits], where: str, config: str | None, split: str | None
) -> tuple[str | None, list[str]]:
    """The requested split and its files; the split is None if there is only one.

    An error that lists the configurations or the splits where there are several to choose from.
    """
    if not configurations:
        raise DataError(f"`{where}` has no file of rows", "name one that has them")
    splits = configurations[_one_of(configurations, where, config)]
    if split is None and len(splits) > 1:
        raise UsageError(
            f"`{where}` has the splits {', '.join(splits)}",
            f"name one, as in --split {WHOLE if WHOLE in splits else next(iter(splits))}",
        )
    chosen = split or next(iter(splits))
    if chosen not in splits:
        is_slice = chosen.partition("[")[0] in splits
        raise DataError(
            f"`{where}` has no split `{chosen}`; it has {', '.join(splits)}",
            f"name one of them with --split{', and take its first rows with --limit' * is_slice}",
        )
    return (chosen if len(splits) > 1 else None), splits[chosen]


def _one_of(configurations: dict[str, Splits], where: str, config: str | None) -> str:
    names = ", ".join(configurations)
    if config is not None:
        if config not in configurations:
            raise DataError(
                f"`{where}` has no configuration `{config}`; it has {names}",
                "name one of them after a colon",
            )
        return config
    if len(configurations) == 1 or DEFAULT in configurations:
        return DEFAULT if DEFAULT in configurations else names
    raise UsageError(
        f"`{where}` has the configurations {names}",
        f"name one, as in `{where}:{next(iter(configurations))}`",
    )


def _declared(names: list[str], readme: str) -> dict[str, Splits]:
    """What the `configs` of a README declare, those without files left out."""
    import yaml

    head = re.match(r"---\r?\n(.*?)\r?\n---", readme, re.DOTALL)
    try:
        metadata = yaml.safe_load(head[1]) if head else None
    except (yaml.YAMLError, ValueError, RecursionError):  # a date that is none, or too deep
        return {}
    declared = metadata.get("configs") if isinstance(metadata, dict) else None
    by_config: dict[str, Splits] = {}
    for entry in declared if isinstance(declared, list) else ():
        if not isinstance(entry, dict) or "data_files" not in entry:
            continue
        folder = str(entry.get("data_dir") or "").strip("/")
        splits = {
            split: matching
            for split, patterns in _patterns(entry["data_files"])
            if (matching := _matching(names, patterns, folder))
        }
        if splits:
            name = DEFAULT if entry.get("default") else str(entry.get("config_name", DEFAULT))
            by_config[name] = splits
            by_config.setdefault(str(entry.get("config_name", DEFAULT)), splits)
    return by_config


def _patterns(given: Any) -> list[tuple[str, list[str]]]:
    """The split and patterns of each of `data_files`: a pattern, a list, or by split."""
    if isinstance(given, dict):
        given = [{"split": split, "path": path} for split, path in given.items()]
    if isinstance(given, list) and all(isinstance(entry, dict) for entry in given):
        return [(str(e.get("split", WHOLE)), _listed(e.get("path"))) for e in given]
    return [(WHOLE, _listed(given))]


def _listed(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _matching(names: list[str], patterns: list[str], folder: str) -> list[str]:
    full = [f"{folder}/{p.removeprefix('./')}".lstrip("/") for p in patterns]
    full += [pattern.replace("**/", "") for pattern in full if "**/" in pattern]
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in full)]


def _named(names: list[str]) -> dict[str, Splits]:
    """Configurations and splits by the names of the files.

    Files of one name in several folders are of as many configurations, called like the folders.
    """
    keys = [(_configuration(name), _split(name)) for name in names]
    seen: dict[tuple[str | None, str], set[str]] = {}
    for name, (config, split) in zip(names, keys, strict=True):
        seen.setdefault((split, PurePosixPath(name).name), set()).add(config)
    several = any(len(configs) > 1 for configs in seen.values())
    by_config: dict[str, Splits] = {}
    for name, (config, split) in zip(names, keys, strict=True):
        splits = by_config.setdefault(config or DEFAULT if several else DEFAULT, {})
        splits.setdefault(split or "", []).append(name)
    return {config: _without_unnamed(splits) for config, splits in by_config.items()}


def _without_unnamed(splits: Splits) -> Splits:
    """A file whose name says no split is one of its own, unless none says any."""
    unnamed = splits.pop("", [])
    if not splits:
        return {WHOLE: unnamed}
    for name in unnamed:
        splits.setdefault(_stem(name), []).append(name)
    return splits


def _split(name: str) -> str | None:
    if numbered := _NUMBERED.match(PurePosixPath(name).name):
        return _WORDS.get(numbered[1], numbered[1])
    parents = PurePosixPath(name).parent.parts
    for part in (_stem(name), *reversed(parents)):
        for word in re.split(r"[-_. ]", part.lower()):
            if word in _WORDS:
                return _WORDS[word]
    return None


def _configuration(name: str) -> str:
    parts = [p for p in PurePosixPath(name).parent.parts if p not in _WORDS and p != "data"]
    return "/".join(parts)


def _stem(name: str) -> str:
    return PurePosixPath(name).name.partition(".")[0]
