"""Which runs a run branched from: `branch.json` in its directory.

A branch has its own copies of all the files that it needs, so nothing depends on these paths.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.storage import atomic, fetched, manifest

BRANCH = "branch.json"
INPUT = "branch"  # the name of its digest among those of what the run reads


@dataclass(frozen=True)
class Origin:
    """A run, the last step that both share, and the options that changed: before and after.

    `run` is its URL, or its path relative to the branch when that was made. `policy` is the
    digest of the policy after that step, which identifies it wherever it was moved.
    """

    run: str
    at: int
    policy: str
    changed: dict[str, tuple[str, str]]

    def described(self) -> str:
        """As in `` `../grpo` at step 40: algo was grpo, is dapo``."""
        changes = "; ".join(f"{name} was {_shown(was)}, is {_shown(now)}"
                            for name, (was, now) in self.changed.items())  # fmt: skip
        return f"`{self.run}` at step {self.at}: {changes or 'nothing differs'}"


def _shown(value: str) -> str:
    return value or "each prompt's own"


def keep(run: Path, origins: Sequence[Origin]) -> str:
    """Writes where a run branched from, the nearest first; the digest to keep of it."""
    content = {"origins": [asdict(origin) for origin in origins]}
    atomic.write_atomic(run / BRANCH, manifest.seal(content))
    return atomic.digest_of(content)


def of(run: Path) -> list[Origin]:
    """Where a run branched from, the nearest first; none of one that did not."""
    return [_origin(run, entry) for entry in _read(run).get("origins", [])]


def known(run: Path) -> list[Origin]:
    """As `of`; none, too, of a run whose file is damaged."""
    try:
        return of(run)
    except DataError:
        return []


def newest(run: Path) -> Origin | None:
    """The nearest that is known."""
    return next(iter(known(run)), None)


def damage(run: Path, inputs: dict[str, str]) -> DataError | None:
    """What is wrong with the file, by its stored digest."""
    hint = "bring the file back; nothing of the run but its origin depends on it"
    try:
        content = _read(run)
        of(run)
    except DataError as error:
        return DataError(str(error), hint)
    if INPUT in inputs and atomic.digest_of(content) != inputs[INPUT]:
        return DataError(f"`{run / BRANCH}` is gone or another run's", hint)
    return None


def seen_from(origins: Sequence[Origin], parent: Path, branch: Path) -> list[Origin]:
    """The origins of a run as its branch names them."""
    return [replace(each, run=_seen_from(each.run, parent, branch)) for each in origins]


def _seen_from(recorded: str, parent: Path, branch: Path) -> str:
    if fetched.is_url(recorded):
        return recorded
    return fetched.relative_url(parent, recorded) or fetched.named_from(parent / recorded, branch)


def _read(run: Path) -> dict[str, Any]:
    return manifest.unsealed(run / BRANCH) or {}


def _origin(run: Path, entry: Any) -> Origin:
    try:
        changed = {str(name): (str(was), str(now)) for name, (was, now) in entry["changed"].items()}
        return Origin(str(entry["run"]), int(entry["at"]), str(entry["policy"]), changed)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"`{run / BRANCH}` is not as rlvr writes it", "bring it back") from error
