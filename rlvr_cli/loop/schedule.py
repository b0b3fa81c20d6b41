"""The schedule of a run: which policy samples each step. The plans of the rollouts store it.

Step T is sampled from the policy after step V(T), one for all of it: the newest that is published
when the step is opened, which may be done when T <= V(T) + 1 + ahead. Nothing else of a run depends
on timing, so that another run that is given the schedule makes the same bytes.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.config import RunOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, run_folders
from rlvr_cli.storage.begun import begun_paths, is_begun
from rlvr_cli.terminal import plural

_UPDATE = "update"  # the stage that gives a step's policy


def version(rollouts: Path) -> int | None:
    """The step whose policy samples a step's rollouts, 0 for the first; None if nothing says so.

    It is part of the path of that policy, which is relative to the rollouts.
    """
    if not is_begun(rollouts):
        return None
    place = Path(os.path.normpath(rollouts / begun_paths(rollouts).get("policy", "")))
    for path in (place, *place.parents):
        if path.name == _UPDATE and path.parent.parent == rollouts.parent.parent:
            return int(path.parent.name)
    return 0


@dataclass(frozen=True)
class Schedule:
    """What may be sampled in a run and from which policy; with `given`, that of another run."""

    run: Path
    steps: int
    ahead: int
    given: Mapping[int, int] | None = None

    def rollouts(self, step: int) -> Path:
        return self.run / "steps" / run_folders.name(step) / "rollouts"

    def version(self, step: int, newest: int) -> int | None:
        """The policy that samples a step; None if it may not be opened with the newest there is."""
        begun = version(self.rollouts(step))
        if begun is not None:
            return begun
        if self.given is not None:
            return self.given[step] if self.given[step] <= newest else None
        return newest if step <= newest + 1 + self.ahead else None

    def due(self, newest: int) -> Iterator[int]:
        """The steps that the newest policy samples."""
        if not self.ahead:
            return iter([newest + 1])
        last = min(newest + 1 + self.ahead, self.steps)
        return (t for t in range(newest + 1, last + 1) if self.version(t, newest) == newest)

    def staleness(self, step: int) -> int:
        """The number of updates between the policy that sampled a step and the one it trains.

        An error if it is more than the run allows.
        """
        if not self.ahead:
            return 0
        sampled = version(self.rollouts(step))
        stale = step - 1 - (step - 1 if sampled is None else sampled)
        if stale > self.ahead:
            raise DataError(
                f"`{self.rollouts(step)}` was sampled from the policy of step {sampled}, {stale} "
                f"updates before, and the run allows {self.ahead}",
                f"remove `{self.rollouts(step).parent}`, and it is made again",
            )
        return stale


def given(options: RunOptions) -> dict[int, int] | None:
    """The schedule of the run that the options name, None without one.

    An error unless that has one for so many steps, so far ahead.
    """
    if not options.schedule_of:
        return None
    run, steps, ahead = Path(options.schedule_of), options.steps, options.ahead
    given: dict[int, int] = {}
    for step in range(1, steps + 1):
        sampled = version(run / "steps" / run_folders.name(step) / "rollouts")
        if sampled is None:
            raise UsageError(
                f"`{run}` has no rollouts of step {step}, and --schedule-of takes {steps}",
                f"use --steps {step - 1}" if step > 1 else "say where it is: --schedule-of DIR",
            )
        given[step] = sampled
    if (most := max((t - 1 - v for t, v in given.items()), default=0)) > ahead:
        raise UsageError(
            f"steps of `{run}` were sampled {plural.of(most, 'update')} ahead, and "
            f"--ahead is {ahead}",
            f"use --ahead {most}",
        )
    return given


def digest(given: Mapping[int, int]) -> str:
    """What identifies a schedule."""
    text = atomic.canonical_json({str(step): sampled for step, sampled in given.items()})
    return hashlib.sha256(text.encode()).hexdigest()
