"""The folders of a run's steps and evaluations, whatever else lies beside them.

A run numbers them with six digits or more. What is named otherwise (a copy, a note, what a desktop
leaves) is no step, and nothing here reads, changes or removes it.
"""

import re
from pathlib import Path

from rlvr_cli.storage.manifest import MANIFEST

_NAME = re.compile(r"[0-9]{6}|[1-9][0-9]{6,17}")


def name(step: int) -> str:
    """The name of a step's folder."""
    return f"{step:06d}"


def steps(run: Path, kind: str = "steps") -> dict[int, Path]:
    """The folders of a run's `steps` or `eval` by the number of the step, in order."""
    found = (run / kind).iterdir() if (run / kind).is_dir() else ()
    folders = {int(p.name): p for p in found if _NAME.fullmatch(p.name) and p.is_dir()}
    return dict(sorted(folders.items()))


def complete(run: Path, kind: str, stage: str) -> dict[int, Path]:
    """Those of them in which the directory of a stage is complete."""
    folders = steps(run, kind).items()
    return {step: here for step, here in folders if (here / stage / MANIFEST).is_file()}
