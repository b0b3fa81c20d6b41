"""A report that is written again while runs continue."""

import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, Interrupted, UsageError
from rlvr_cli.report import sources
from rlvr_cli.report.page import Report
from rlvr_cli.report.sources import ReportSource
from rlvr_cli.storage import atomic, locks, run_folders
from rlvr_cli.storage.shards import MANIFEST
from rlvr_cli.terminal import console

Maker = Callable[..., Report]  # from opened sources, with `reload_s`


def watch(paths: list[Path], out: Path, make: Maker, *, every_s: float) -> Report:
    """Writes the report, and writes it again when a run has got further, until all have ended.

    The last page no longer loads itself again. Control-C ends it early, with the page as it is.
    """
    while any(locks.is_locked(path / "_lock") and not run_folders.is_run(path) for path in paths):
        time.sleep(0.1)  # a run that begins
    if not any(map(run_folders.is_run, paths)):
        raise UsageError(
            f"`{paths[0]}` is not a run of train, and only those change",
            f"leave --watch out: rlvr report {shlex.join(map(str, paths))}",
        )
    watched = _Watched(paths, out, make, every_s)
    try:
        while watched.goes_on():
            time.sleep(every_s)
    except KeyboardInterrupt:
        if watched.report is None:
            raise Interrupted(
                "watching ended before a step was finished, nothing written"
            ) from None
        console.say("report: watching ended; the page no longer loads itself again")
    finally:
        if watched.report:
            still = Report(_still(watched.report.html), watched.report.figures)
            atomic.write_atomic(out, still.html.encode())
    return still


class _Watched:
    """What was written last, of what."""

    def __init__(self, paths: list[Path], out: Path, make: Maker, every_s: float) -> None:
        self.report: Report | None = None
        self._paths, self._out, self._make, self._every_s = paths, out, make, every_s
        self._runs = [path for path in paths if run_folders.is_run(path)]
        self._stamp: list[Any] | None = None
        self._reported: set[str] = set()
        self._seen: set[Path] = set()  # runs that a process was seen to work on

    def goes_on(self) -> bool:
        """Writes the report if there is something new; whether there may be more."""
        running = {run for run in self._runs if locks.is_locked(run / "_lock")}
        self._seen |= running
        stamp = list(_stamps(self._runs))
        if stamp != self._stamp:
            try:
                opened = sources.open_all(self._paths)
                self._write(opened)
            except DataError as error:
                is_early = isinstance(error, sources.NothingYet) and (running or not self._seen)
                if not is_early and (self.report is None or not running):
                    raise
                self._say_once(f"{error}; it is looked at again every {self._every_s:g} s")
                return True
            self._stamp = stamp
            self._progress = {s.path: s.run.progress for s in opened if s.run}
        finished = {run for run, (step, steps) in self._progress.items() if step >= steps}
        waiting = set(self._runs) - self._seen - finished
        for run in sorted(waiting):
            self._say_once(
                f"`{run}` is not finished, and no process here works on it: it is awaited"
            )
        return bool(running | waiting)

    def _write(self, opened: list[ReportSource]) -> None:
        report = self._make(opened, reload_s=self._every_s)
        before, self.report = self.report, report
        if before is None or report.html != before.html:
            atomic.write_atomic(self._out, report.html.encode())
            steps = (f"step {s.run.progress[0]} of {s.run.progress[1]}" for s in opened if s.run)
            console.say(f"report: `{self._out}` shows {' and '.join(steps)}")

    def _say_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            console.say(f"report: {text}")


def _stamps(runs: list[Path]) -> Iterator[tuple[str, int, int]]:
    """What changes when a run has got further: its log, and its complete evaluations."""
    for run in runs:
        scored = run_folders.complete(run, "eval", "scores").values()
        for path in (*(here / "scores" / MANIFEST for here in scored), run / "metrics.jsonl"):
            if path.exists():
                stat = path.stat()
                yield str(path), stat.st_mtime_ns, stat.st_size


def _still(html: str) -> str:
    """The page without what has it load itself again."""
    head, end, rest = html.partition(">\n<head>")
    return head.partition(" data-reload=")[0] + end + rest
