"""Opening the viewer: what it reads, and the tokenizer of the policy that wrote it."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli import config
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.runtime import stdin
from rlvr_cli.viewer.pieces import Decoder


def view(paths: list[Path], model: str | None, named: dict[str, Any]) -> None:
    """Runs the viewer until the user quits; `named` are the columns of files that a user named."""
    if len(paths) > 2:
        raise UsageError(
            f"{len(paths)} paths were given, the viewer shows one or two side by side",
            f"name two of them: rlvr view {shlex.join([str(paths[0]), str(paths[-1])])}",
        )
    stdin.give_to_terminal()
    has_terminal = all(s and s.isatty() for s in (sys.__stdin__, sys.__stderr__))
    if has_terminal:
        _without_pandas()
    sides = [Side(path, model, named) for path in paths]
    if not has_terminal:
        raise UsageError("`rlvr view` needs a terminal", _instead(sides))
    try:
        from rlvr_cli.viewer.app import Viewer
    except ImportError as error:
        raise UsageError(
            "the viewer needs a package that is not installed", "pip install 'rlvr[view]'"
        ) from error
    viewer = Viewer(sides)
    viewer.run()
    if viewer.return_code:
        raise SystemExit(viewer.return_code)
    for side in sides:
        if side.failure:
            raise side.failure


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _without_pandas() -> None:
    """Has pyarrow look for pandas while there is none: importing it takes longer than all else."""
    import pyarrow as pa

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.array([])
        finally:
            sys.meta_path.remove(_NoPandas)


class Side:
    """A run, a directory or files; the evaluation of it that is shown, as far as it was read."""

    def __init__(self, path: Path, model: str | None, named: dict[str, Any]) -> None:
        self.path, self._model, self._named = path, model, named
        self.is_foreign = _is_foreign(path)
        self.folders = [path] if self.is_foreign else folders_of(path)
        self.failure: UserError | None = None
        self._read(len(self.folders) - 1)

    def _read(self, at: int) -> None:
        snapshots = self._snapshots(self.folders[at])
        self.index = next(snapshots)
        self.snapshots, self.at = snapshots, at
        self.decoder: Decoder | None = None

    def _snapshots(self, folder: Path) -> Iterator[Any]:
        if self.is_foreign:
            from rlvr_cli.viewer import files

            return files.snapshots(folder, config.make(config.Columns, self._named))
        if any(value is not None for value in self._named.values()):
            from rlvr_cli.interop.names import refuse_columns

            refuse_columns(folder, config.make(config.Columns, self._named))
        from rlvr_cli.storage import lineage
        from rlvr_cli.viewer.directories import DirectoryIndex

        return iter([DirectoryIndex(lineage.find(folder))])

    def move(self, by: int) -> bool:
        """Opens another evaluation of the run; False if there is none."""
        if not self.is_foreign:
            self.folders = folders_of(self.path)  # a run that continues has new ones
        if not 0 <= self.at + by < len(self.folders):
            return False
        self._read(self.at + by)
        return True

    @property
    def name(self) -> str:
        return str(self.folders[self.at])

    def read_decoder(self) -> None:
        """Reads the tokenizer of the policy that wrote the completions; takes seconds."""
        self.decoder = decoder(self.index, self._model)


def _is_foreign(path: Path) -> bool:
    """Whether a path names files that another tool wrote, not directories of shards or a run."""
    from rlvr_cli.interop import readers
    from rlvr_cli.storage import run_folders
    from rlvr_cli.storage.begun import is_begun
    from rlvr_cli.storage.shards import MANIFEST

    if not path.is_dir():
        return True
    inside = ("", "scores", "rollouts")
    if run_folders.is_run(path) or any((path / n / MANIFEST).exists() for n in inside):
        return False
    return not is_begun(path) and bool(readers.files(path))


def _instead(sides: list[Side]) -> str:
    """What to type where there is no terminal."""
    for side in sides:
        if side.is_foreign:
            has_verdicts = bool(side.index.known_P.any())
            path = shlex.quote(str(side.path))
            return f"measure it instead: rlvr eval-passk {path}" if has_verdicts else ""
    return f"write a file instead: rlvr report {shlex.join(str(side.path) for side in sides)}"


def folders_of(path: Path) -> list[Path]:
    """The evaluations of a run in order, or the one directory that was given."""
    from rlvr_cli.storage import run_folders

    if not path.exists():
        raise DataError(f"`{path}` does not exist", "check the path")
    if not run_folders.is_run(path):
        return [path]
    for kind in ("eval", "steps"):
        if sampled := run_folders.complete(path, kind, "rollouts"):
            return list(sampled.values())
    raise DataError(f"`{path}` has no complete rollouts yet", "resume its `rlvr train`")


def decoder(index: Any, model: str | None) -> Decoder:
    """Decodes token ids with the tokenizer of the policy that wrote them.

    `train` removes old checkpoints: then the run's start policy has the same tokenizer.
    """
    from rlvr_cli.models import policy as policies, tokenizers

    rollouts = index.lineage.rollouts
    try:
        policy = policies.of(rollouts, model)
    except UserError:
        if model or not (start := _start_policy(rollouts.inputs[0].path)):
            raise
        policy = start
    tokenizer = tokenizers.load(policy)
    return lambda token_ids: tokenizer.decode(token_ids, skip_special_tokens=False)


def _start_policy(rollouts: Path) -> Any:
    """The policy that the run around some rollouts started from."""
    from rlvr_cli.models import policy as policies
    from rlvr_cli.storage import run_folders

    for folder in rollouts.absolute().parents:
        if run_folders.is_run(folder):
            return policies.resolve(run_folders.config(folder)["train"]["model"])
    return None
