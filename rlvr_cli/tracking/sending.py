"""Sends the figures of a run to a tracker: each step once, also of a run that was resumed."""

import functools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli import registry
from rlvr_cli.errors import UserError, first_line
from rlvr_cli.protocols import ImageTracker, Tracked, TrackedRun, Tracker
from rlvr_cli.specs import user_code
from rlvr_cli.storage import branch_origins
from rlvr_cli.terminal import plural
from rlvr_cli.tracking import figures, following, samples, sent as sent_steps
from rlvr_cli.tracking.sent import Sent

SAMPLES = 4


@dataclass
class Summary:
    """What came of it."""

    sent: int = 0
    known: int = 0  # steps that the tracker had before
    changed: list[int] = field(default_factory=list)  # of those, steps with other figures now
    left_out: set[str] = field(default_factory=set)  # names of what is no number
    without_samples: dict[int, str] = field(default_factory=dict)  # evaluated steps, and why
    has_samples: bool = False
    last: int = -1

    def remarks(self) -> Iterator[str]:
        if self.changed:
            yield (
                f"{plural.of(len(self.changed), 'step')} with other figures than those "
                "that were sent, the "
                f"first is step {min(self.changed)}: the tracker keeps the earlier ones, and "
                "`--name` with another name sends the run again"
            )
        if self.left_out:
            yield f"left out, as they are not numbers: {', '.join(sorted(self.left_out))}"
        if self.without_samples:
            step, why = next(iter(self.without_samples.items()))
            count = plural.of(len(self.without_samples), "evaluation")
            yield f"{count} without samples; step {step}: {why}"


def send(
    run: Path,
    spec: str,
    *,
    is_over: Callable[[], bool],
    name: str = "",
    most_samples: int = SAMPLES,
    on_step: Callable[[int], None] = lambda step: None,
) -> Summary:
    """Follows a run until it is over, and sends what the tracker does not have.

    What the tracker raises is a UserError that says how to send the rest.
    """
    config = following.config(run)
    if origin := branch_origins.newest(run):
        config = config | {"branch": asdict(origin)}
    name = name or run.resolve().name
    tracker: Tracker = registry.build("trackers", spec)
    with sent_steps.opened(run, *registry.parse("trackers", spec), name) as sent:
        tracked_run = TrackedRun(name, run.resolve(), config, sent.key)
        tracked: Tracked = _guarded(spec, run, lambda: tracker.start(tracked_run))
        sent.begin(spec, name, tracked.key)
        last = sent.last if tracked.last is None else tracked.last
        try:
            summary = _send_steps(run, spec, tracker, sent, last, is_over, most_samples, on_step)
        finally:
            _guarded(spec, run, tracker.finish)
    return summary


def _send_steps(
    run: Path,
    spec: str,
    tracker: Tracker,
    sent: Sent,
    last: int,
    is_over: Callable[[], bool],
    most_samples: int,
    on_step: Callable[[int], None],
) -> Summary:
    summary = Summary(last=last)
    for record in following.follow(run, is_over):
        step: int = record["step"]
        numbers, others = figures.flat(record)
        summary.left_out |= set(others)
        digest = sent_steps.digest(numbers)
        if step <= summary.last:
            summary.known += 1
            if sent.steps.get(step, digest) != digest and step not in summary.changed:
                summary.changed.append(step)
            continue
        rows = _samples(run, step, most_samples, summary) if "eval" in record else []
        if rows and not summary.has_samples:
            summary.has_samples = True
            _log_images(run, spec, tracker, step, [row["prompt_id"] for row in rows])
        if numbers or rows:
            _guarded(spec, run, functools.partial(tracker.log, step, numbers, rows))
        sent.add(step, digest)
        summary.sent, summary.last = summary.sent + 1, step
        on_step(step)
    return summary


def _samples(run: Path, step: int, most: int, summary: Summary) -> list[dict[str, Any]]:
    """Completions of a step's evaluation; figures are sent also where these cannot be read."""
    try:
        return samples.of_evaluation(run, step, most)
    except UserError as error:
        summary.without_samples[step] = str(error)
        return []


def _log_images(run: Path, spec: str, tracker: Tracker, step: int, prompt_ids: list[str]) -> None:
    """Sends the images of the prompts, which are the same at each step, to what shows images."""
    images = samples.images_of(run, step, prompt_ids) if isinstance(tracker, ImageTracker) else {}
    if images and isinstance(tracker, ImageTracker):
        _guarded(spec, run, functools.partial(tracker.log_images, step, images))


def _guarded(spec: str, run: Path, call: Callable[[], Any]) -> Any:
    """The result of a tracker's method; a UserError where it raises."""
    try:
        return call()
    except UserError:
        raise
    except Exception as error:
        name = spec.partition(":")[0]
        where = user_code.blamed(error) or f"tracker `{name}`"
        raise UserError(
            f"{where}: {type(error).__name__}: {first_line(error)}",
            f"fix that, then send the rest with `{command(run, spec)}`",
        ) from error


def command(run: Path, spec: str) -> str:
    """What sends the rest of a run."""
    return shlex.join(["rlvr", "track", str(run), "--to", spec])
