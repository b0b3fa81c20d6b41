"""What a run's folder knows of what a tracker was sent: RUN/track/TRACKER-....jsonl."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UserError
from rlvr_cli.storage import atomic, locks


@dataclass
class Sent:
    """The steps that a tracker was sent, each with a digest of its figures."""

    path: Path
    key: str | None = None
    steps: dict[int, str] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.steps, default=-1)

    def begin(self, spec: str, name: str, key: str) -> None:
        """Keeps what the tracker finds the run by."""
        if key != self.key:
            self.key, self.steps = key, {}
            header = {"tracker": spec, "name": name, "key": key}
            atomic.write_atomic(self.path, (json.dumps(header) + "\n").encode())

    def add(self, step: int, digest: str) -> None:
        self.steps[step] = digest
        line = json.dumps({"step": step, "figures": digest}) + "\n"
        atomic.append(self.path, line.encode())


@contextlib.contextmanager
def opened(run: Path, tracker: str, options: dict[str, Any], name: str) -> Iterator[Sent]:
    """What was sent of a run to a tracker with these options under a name.

    One process at a time sends it.
    """
    identity = atomic.digest_of([tracker, options, name])
    stem = "".join(c if c.isalnum() else "-" for c in tracker)
    folder = run / "track"
    atomic.make_folder(folder)
    path = folder / f"{stem}-{identity[:8]}.jsonl"
    lock = path.with_suffix(".lock")
    if locks.is_locked(lock):
        raise UserError(
            f"another process sends `{run}` to `{tracker}`",
            "wait for it, or stop it",
        )
    with locks.locked(lock):
        yield _read(path)


def _read(path: Path) -> Sent:
    """What is stored; a line that was torn when its process was killed counts as not sent."""
    sent = Sent(path)
    lines = path.read_text().split("\n") if path.exists() else []
    for line in lines:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if "key" in entry:
                sent.key = entry["key"]
            else:
                sent.steps[entry["step"]] = entry["figures"]
    if lines and lines[-1]:  # torn: what follows begins a line of its own
        atomic.append(path, b"\n")
    return sent


def digest(figures: dict[str, float]) -> str:
    """A short digest of a step's figures, without those that differ when it is repeated."""
    same = {n: v for n, v in figures.items() if not n.startswith(("seconds/", "eval/"))}
    return atomic.digest_of(same)[:16]
