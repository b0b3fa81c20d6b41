"""Recognises run directories of `train`, and lists their steps and evaluations.

A run numbers them with six digits or more. Folders with other names (a copy, a note, files of a
desktop) are not steps, and nothing here reads, changes or removes them.
"""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, manifest
from rlvr_cli.storage.manifest import MANIFEST

CONFIG, KEPT = "config.toml", "_run.json"
_OF_A_RUN = ("steps", "eval", "prompts", "memory-model")
_NAME = re.compile(r"[0-9]{6}|[1-9][0-9]{6,17}")


def is_run(path: Path) -> bool:
    """Whether this is a run of train; what it was begun with may be damaged."""
    return any((path / name).exists() for name in (CONFIG, KEPT)) and not (path / MANIFEST).exists()


def refuse_place(path: Path) -> None:
    """An error for a place where no run can begin: a part of a run, a stage's or a model's."""
    absolute = path.absolute()
    for run in absolute.parents:
        if (run / KEPT).exists() and absolute.relative_to(run).parts[0] in _OF_A_RUN:
            above = len(absolute.parts) - len(run.parts)
            known = path.parents[above - 1] if above <= len(path.parents) else run
            raise UsageError(
                f"`{path}` is a part of the run `{known}`",
                f"resume that with `--out {shlex.quote(str(known))}`, or name another place",
            )
    what = "a directory of a stage" if (path / MANIFEST).exists() else "a model"
    if (path / MANIFEST).exists() or (path / "config.json").exists():
        raise UsageError(f"`{path}` holds {what}, and no run", "name another place with --out")


def kept(run: Path) -> tuple[str, dict[str, str]] | None:
    """The stored text of the configuration and the inputs; None if absent or damaged."""
    try:
        content = manifest.unsealed(run / KEPT)
    except DataError:
        return None
    text, inputs = (content or {}).get("config"), (content or {}).get("inputs")
    return (text, inputs) if isinstance(text, str) and isinstance(inputs, dict) else None


def config(run: Path) -> dict[str, dict[str, Any]]:
    """The tables of a run's configuration: of the sealed copy, or of config.toml without one."""
    copy = kept(run)
    text = copy[0].encode() if copy else atomic.read_bytes(run / CONFIG)
    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"`{run / CONFIG}` is not as it was written: {error}", "bring the file back"
        ) from error


def name(step: int) -> str:
    """The name of a step's folder."""
    return f"{step:06d}"


def steps(run: Path, kind: str = "steps") -> dict[int, Path]:
    """The folders of a run's `steps` or `eval` by the number of the step, in order."""
    paths = (run / kind).iterdir() if (run / kind).is_dir() else ()
    folders = {int(p.name): p for p in paths if _NAME.fullmatch(p.name) and p.is_dir()}
    return dict(sorted(folders.items()))


def complete(run: Path, kind: str, stage: str) -> dict[int, Path]:
    """Those of them in which the directory of a stage is complete."""
    folders = steps(run, kind).items()
    return {step: here for step, here in folders if (here / stage / MANIFEST).is_file()}
