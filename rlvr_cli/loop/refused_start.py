"""A run that is refused before its first step leaves nothing: it may begin with other options."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from rlvr_cli.loop.run_directory import INPUTS
from rlvr_cli.models import memory_model
from rlvr_cli.storage import atomic
from rlvr_cli.storage.run_folders import CONFIG, KEPT

_BEGINNING = (CONFIG, KEPT, INPUTS, "prompts/train", "prompts/heldout", memory_model.FOLDER)


def absent(run: Path) -> list[Path]:
    """What a run writes before its first step, and this one does not have yet."""
    return [run / name for name in _BEGINNING if not (run / name).exists()]


@contextlib.contextmanager
def undone(run: Path, fresh: list[Path]) -> Iterator[None]:
    """Removes what is `fresh` of a new run that has too little memory or disk, or other faults.

    What is sampled stays, and so does a run that others may have joined: of that nothing is fresh,
    as `keep_inputs` lets them join, after all that can be refused.
    """
    try:
        yield
    except Exception:
        is_new = {run / CONFIG, run / KEPT} <= {*fresh}
        if is_new and not any((run / kind).exists() for kind in ("steps", "eval")):
            for path in fresh:
                atomic.remove(path)
            with contextlib.suppress(OSError):  # it is not empty, or not there
                (run / "prompts").rmdir()
        raise
