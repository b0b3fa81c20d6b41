"""The rows of a data set: a file, a folder, a pattern, or a name of the Hugging Face Hub."""

import glob
import json
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlvr_cli.errors import Advice, DataError, UsageError, first_line
from rlvr_cli.interop import image_files, places, readers, splits
from rlvr_cli.runtime import stdin
from rlvr_cli.storage import disk

_HUB = "hf://datasets/"
_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class DataSet:
    """Rows, and a name for them: that of the file or folder, and of the split if it has several.

    `folder` is where the paths that rows name begin: that of the file. Those of a data set that
    `is_downloaded` may not leave it.
    """

    name: str
    rows: list[dict[str, Any]]
    folder: Path = field(default=Path(), compare=False)
    is_downloaded: bool = field(default=False, compare=False)


def read(source: str, split: str | None = None) -> DataSet:
    """A split of a data set; an error that lists the splits where there are several.

    `source:NAME` is the configuration NAME of a data set that has several.
    """
    path, config = Path(source), None
    if path == stdin.DASH:
        if split or config:
            raise UsageError("`-` is stdin, which has no splits", "leave --split out")
        return DataSet(stdin.NAME, _rows(path))
    if not path.exists() and ":" in source.removeprefix(_HUB):
        source, _, config = source.rpartition(":")
        path = Path(source)
    if source.startswith(_HUB):
        return _of_hub(source.removeprefix(_HUB), split, config)
    if path.is_dir():
        return _of_folder(path, split, config)
    if path.exists() or glob.glob(source, recursive=True):
        if split or config:
            raise UsageError(
                f"`{source}` is a file, which has neither splits nor configurations",
                f"leave {'--split' if split else f':{config}'} out",
            )
        return DataSet(_stem(path), _rows(path), _outer(path))
    if _looks_like_a_path(source):
        raise DataError(f"`{source}` does not exist", "check the path")
    return _of_hub(source, split, config)


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without the bytes of images, which wait on disk."""
    return [_spooled(row) for row in readers.rows(path)]


def _spooled(row: dict[str, Any]) -> dict[str, Any]:
    spooled: dict[str, Any] = image_files.with_spooled(row)
    return spooled


def _looks_like_a_path(source: str) -> bool:
    return source.startswith((".", "/")) or readers.is_known(Path(source)) or source.count("/") > 1


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _outer(path: Path) -> Path:
    """The folder of a file, or that in which a pattern begins."""
    outer = path.parent
    while not outer.exists():
        outer = outer.parent
    return outer


def _named(path: Path, split: str | None) -> str:
    return f"{_stem(path)}-{split}" if split else _stem(path)


def _of_folder(folder: Path, split: str | None, config: str | None) -> DataSet:
    saved = _saved(folder)
    if saved is not None:
        chosen, (place,) = splits.choose({splits.DEFAULT: saved}, str(folder), config, split)
        return DataSet(_named(folder, chosen), _load_saved(folder / place), folder)
    inner = [path for path in sorted(folder.rglob("_manifest.json")) if path.parent != folder]
    if inner:
        raise DataError(
            f"`{folder}` holds directories of rlvr, as `{inner[0].parent}`",
            "name the one that holds prompts",
        )
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    known = [folder / name for name in splits.data_files(names)]
    kept = places.with_rows(known, folder)
    names = [path.relative_to(folder).as_posix() for path in kept]
    readme = folder / "README.md"
    text = readme.read_text(errors="replace") if readme.is_file() else ""
    return _of_files(str(folder), folder, splits.configurations(names, text), split, config)


def _of_files(
    where: str,
    folder: Path,
    configurations: dict[str, splits.Splits],
    split: str | None,
    config: str | None,
) -> DataSet:
    chosen, names = splits.choose(configurations, where, config, split)
    if lacking := splits.lacking(names):
        warnings.warn(f"`{where}` lacks {lacking}", Advice, stacklevel=2)
    rows = [row for name in names for row in _rows(folder / name)]
    if not rows:
        raise readers.no_rows(Path(where))
    folders = {(folder / name).parent for name in names}
    begins = folders.pop() if len(folders) == 1 else folder
    return DataSet(_named(Path(where), chosen), rows, begins)


def _saved(folder: Path) -> splits.Splits | None:
    """The splits of what `save_to_disk` of `datasets` wrote, each with its folder's name."""
    both, one = folder / "dataset_dict.json", folder / "state.json"
    try:
        if both.is_file():
            return {name: [name] for name in json.loads(both.read_text())["splits"]}
        if one.is_file() and (folder / "dataset_info.json").is_file():
            return {json.loads(one.read_text()).get("_split") or splits.WHOLE: ["."]}
    except (ValueError, KeyError, RecursionError) as error:
        raise _not_saved(folder, error) from error
    return None


def _not_saved(folder: Path, error: Exception) -> DataError:
    return DataError(
        f"`{folder}` is not a complete data set of `save_to_disk`: {first_line(error)}",
        "save it again",
    )


def _load_saved(folder: Path) -> list[dict[str, Any]]:
    from datasets import load_from_disk

    try:
        tables = load_from_disk(str(folder)).with_format("arrow").iter(readers.SHORT_BATCH)
        rows = [_spooled(row) for table in tables for row in readers.spooled_rows(table)]
    except Exception as error:
        disk.refuse(error)
        raise _not_saved(folder, error) from error
    if not rows:
        raise readers.no_rows(folder)
    return rows


def _of_hub(name: str, split: str | None, config: str | None) -> DataSet:
    """The rows of `OWNER/NAME`, of `OWNER/NAME@REVISION`, or of one file of them."""
    parts = name.split("/")
    repository, _, revision = "/".join(parts[:2]).partition("@")
    file = "/".join(parts[2:])
    where = repository if not file else f"{_HUB}{name}"
    if file:
        if split or config:
            raise UsageError(
                f"`{where}` is a file, which has neither splits nor configurations",
                f"leave {'--split' if split else f':{config}'} out",
            )
        folder = _download(repository, revision or None, [file])
        rows, begins = _rows(folder / file), (folder / file).parent
        return DataSet(_stem(Path(file)), rows, begins, is_downloaded=True)
    names = _listed(repository, revision or None)
    text = ""
    if "README.md" in names:
        folder = _download(repository, revision or None, ["README.md"])
        text = (folder / "README.md").read_text(errors="replace")
    if not splits.data_files(names):
        raise DataError(
            f"`{repository}` on the Hub has no file of the endings that rlvr reads",
            "save it with `save_to_disk` of `datasets`, and name that folder",
        )
    configurations = splits.configurations(names, text)
    _, wanted = splits.choose(configurations, repository, config, split)
    folder = _download(repository, revision or None, wanted)
    read = _of_files(repository, folder, configurations, split, config)
    return replace(read, is_downloaded=True)


def _listed(repository: str, revision: str | None) -> list[str]:
    from huggingface_hub import HfApi, constants, snapshot_download

    try:
        if constants.HF_HUB_OFFLINE:
            cached = snapshot_download(
                repository, repo_type="dataset", revision=revision, local_files_only=True
            )
            folder = Path(cached)
            return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
        info = HfApi().dataset_info(repository, revision=revision, timeout=_TIMEOUT_S)
        return [file.rfilename for file in info.siblings or []]
    except Exception as error:
        disk.refuse(error)
        raise DataError(
            f"`{repository}` is not a file, and the Hub does not give it as a data set: "
            f"{first_line(error)}",
            "check the path or the name",
        ) from error


def _download(repository: str, revision: str | None, names: list[str]) -> Path:
    """The folder that holds these files of a data set of the Hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    try:
        return Path(
            snapshot_download(
                repository,
                repo_type="dataset",
                revision=revision,
                allow_patterns=[glob.escape(name) for name in names],
            )
        )
    except Exception as error:
        disk.refuse(error)
        raise DataError(
            f"cannot download `{names[0]}` of `{repository}`: {first_line(error)}",
            "check the name and the connection, and run this again",
        ) from error
