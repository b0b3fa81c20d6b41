"""The policies that a run publishes for its samplers: only weights, in the sampling dtype.

steps/000003/policy/_weights          a model or adapters, as any loader reads them
steps/000003/policy/_published.json   their digest, and the policy that they were cast from

The manifest is written last and never changes: samplers use what it names. Weights are removed when
no step may name them any more; the manifest stays. No check for readers is needed: a step that is
not trained names one of the newest `ahead` + 1 policies, as it could not be opened otherwise.

Writing does not wait for the disk: a kill loses nothing, and weights that a power cut damaged are
recognised by their digest and published again.
"""

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.models.checkpoints import WEIGHTS
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage import atomic, manifest, publishing, run_folders
from rlvr_cli.terminal import console

MANIFEST = "_published.json"
_DOOMED = "_pruned"


def folder(run: Path, step: int) -> Path:
    return run / "steps" / run_folders.name(step) / "policy"


@dataclass(frozen=True)
class Published:
    """A manifest: the digest of the weights, and the policy that they were cast from."""

    weights: str
    policy: str
    name: str  # where that policy is, from the folder of its step


def read(run: Path, step: int) -> Published | None:
    """The manifest of a step; None if its policy is not published."""
    content = manifest.unsealed(folder(run, step) / MANIFEST)
    if content is None:
        return None
    with contextlib.suppress(TypeError):
        return Published(**content)
    raise DataError(
        f"`{folder(run, step) / MANIFEST}` is not as it was written",
        "remove it, and start the trainer again",
    )


class Newest:
    """The newest step whose policy is published, 0 if only the first policy is there."""

    def __init__(self, run: Path) -> None:
        self._run, self._known = run, 0

    def step(self) -> int:
        """The newest one; steps of a run without samplers, or shared by a branch, have none."""
        later = (s for s in reversed(run_folders.steps(self._run)) if s > self._known)
        self._known = next((s for s in later if self._is_there(s)), self._known)
        return self._known

    def _is_there(self, step: int) -> bool:
        return (folder(self._run, step) / MANIFEST).exists()


def policy(run: Path, step: int) -> Policy:
    """The policy of a step as samplers have it: its identity, and the folder of its weights."""
    there = read(run, step)
    if there is None:
        raise DataError(
            f"the policy of step {step} of `{run}` is not published", "start its trainer again"
        )
    name = folder(run, step).parent / there.name
    return Policy(folder(run, step) / WEIGHTS, str(name), there.policy)


def require_intact(run: Path, step: int) -> None:
    """An error unless a published policy's weights are as they were written."""
    there, path = read(run, step), folder(run, step) / WEIGHTS
    if step and not (there and _is_intact(path, there)):
        raise DataError(
            f"`{path}` is not as it was written", "start the trainer again, which repairs it"
        )


def _is_intact(weights: Path, there: Published) -> bool:
    return weights.is_dir() and Policy(weights, "").digest == there.weights


def is_there(run: Path, step: int) -> bool:
    """Whether a step's policy can be sampled from; the initial one is stored elsewhere."""
    return not step or (folder(run, step) / WEIGHTS).is_dir()


def publish(write: Callable[[Path], None], run: Path, step: int, after: Policy) -> None:
    """Publishes the policy after a step, which `write` writes to a folder.

    A published policy stays: completions may have been sampled from it. It is written again only to
    repair it; if the weights then differ, as they may on a GPU, a line says so.
    """
    here, there = folder(run, step), read(run, step)
    atomic.make_folder(here)
    if there is None:
        with atomic.write_folder(here / WEIGHTS, replace=True, sync=False) as temporary:
            write(temporary)
        _complete(run, step, after)
        return
    again = here / "_tmp-again"
    atomic.remove(again)
    again.mkdir()
    write(again)
    if Policy(again, "").digest != there.weights:
        console.say(
            f"step {step} came out with other weights than those that were published: these "
            "stay, as steps were sampled from them"
        )
    elif not _is_intact(here / WEIGHTS, there):
        atomic.remove(here / WEIGHTS)
        again.rename(here / WEIGHTS)
    atomic.remove(again)


def _complete(run: Path, step: int, after: Policy) -> None:
    here = folder(run, step)
    name = Path(after.name).relative_to(here.parent)
    of = Published(Policy(here / WEIGHTS, "").digest, after.digest, str(name))
    publishing.write_new(here / MANIFEST, manifest.seal(vars(of)), uuid.uuid4().hex[:16])
    atomic.sync_folder(here)


def prune(run: Path, steps: range) -> None:
    """Removes the weights of these steps; the manifests stay."""
    for here in (folder(run, step) for step in steps):
        atomic.remove(here / _DOOMED)  # of a process that was killed meanwhile
        with contextlib.suppress(FileNotFoundError):
            (here / WEIGHTS).rename(here / _DOOMED)
        for gone in (here / _DOOMED, *here.glob("_tmp-*")):
            atomic.remove(gone)
