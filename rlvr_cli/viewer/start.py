"""Opening the viewer: which folders it reads, and the tokenizer of their policy."""

import sys
import tomllib
from pathlib import Path

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage import lineage
from rlvr_cli.storage.shards import MANIFEST
from rlvr_cli.viewer.index import Index
from rlvr_cli.viewer.pieces import Decoder


def view(path: Path, model: str | None) -> None:
    """Runs the viewer until the user quits."""
    folders = folders_of(path)
    index = Index(lineage.find(folders[-1]))
    if not (
        sys.__stdin__ and sys.__stdin__.isatty() and sys.__stderr__ and sys.__stderr__.isatty()
    ):
        raise UsageError(
            "`rlvr view` needs a terminal", f"write a file instead: rlvr report {path}"
        )
    try:
        from rlvr_cli.viewer.app import Viewer
    except ImportError as error:
        raise UsageError(
            "the viewer needs a package that is not installed", "pip install 'rlvr[view]'"
        ) from error
    opened = {folders[-1]: index}
    Viewer(
        folders,
        lambda folder: opened.pop(folder, None) or Index(lineage.find(folder)),
        lambda index: decoder(index, path, model),
    ).run()


def folders_of(path: Path) -> list[Path]:
    """The evaluations of a run in order, or the one directory that was given."""
    if not path.exists():
        raise DataError(f"`{path}` does not exist", "check the path")
    if not (path / "config.toml").is_file():
        return [path]
    evaluated = sorted(m.parent.parent for m in path.glob(f"eval/*/rollouts/{MANIFEST}"))
    if not evaluated:
        evaluated = sorted(m.parent.parent for m in path.glob(f"steps/*/rollouts/{MANIFEST}"))
    if not evaluated:
        raise DataError(f"`{path}` has no complete rollouts yet", "resume its `rlvr train`")
    return evaluated


def decoder(index: Index, path: Path, model: str | None) -> Decoder:
    """Decodes token ids with the tokenizer of the policy that wrote them.

    `train` removes old checkpoints: then the run's start policy has the same tokenizer.
    """
    try:
        policy = policies.of(index.lineage.rollouts, model)
    except UserError:
        if model or not (start := _start_policy(index.lineage.rollouts.path)):
            raise
        policy = start
    tokenizer = policies.load_tokenizer(policy)
    return lambda token_ids: tokenizer.decode(token_ids, skip_special_tokens=False)


def _start_policy(rollouts: Path) -> Policy | None:
    """The policy that the run around some rollouts started from."""
    for folder in rollouts.absolute().parents:
        if (folder / "config.toml").is_file():
            name = tomllib.loads((folder / "config.toml").read_text())["train"]["model"]
            return policies.resolve(name)
    return None
