"""What a command prints: its result on stdout, everything else on stderr."""

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rlvr_cli.terminal import escape, plural

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_EVERY_S = 10.0
_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)
_ORIGIN: ContextVar[dict[str, Any] | None] = ContextVar("origin", default=None)
_URLS: dict[str, str] = {}  # of copies of what is in stores, by their paths


@functools.cache
def stderr() -> "Console":
    from rlvr_cli.terminal.safe_console import SafeConsole

    return SafeConsole(stderr=True, soft_wrap=True)


def stdout() -> "Console":
    from rlvr_cli.terminal.safe_console import SafeConsole

    return SafeConsole(file=_results())


@contextlib.contextmanager
def results_alone() -> Iterator[None]:
    """Reserves stdout for results; what libraries print there goes to stderr."""
    token = _RESULTS.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def _results() -> TextIO:
    return _RESULTS.get() or sys.stdout


@contextlib.contextmanager
def origin(command: str, inputs: Sequence[str]) -> Iterator[None]:
    """Adds to every JSON result in the block the command and its inputs."""
    token = _ORIGIN.set({"command": command, "inputs": list(inputs)})
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def reads(*inputs: object) -> None:
    """Records the inputs of the command, where they differ from its arguments."""
    if (known := _ORIGIN.get()) is not None:
        known["inputs"] = [str(one) for one in inputs]


def write_json(path: Path | str | None, summary: dict[str, Any]) -> None:
    """One object on one line of stdout; docs/schemas describes that of each command."""
    result = {**(_ORIGIN.get() or {}), "path": None if path is None else str(path), **summary}
    document(json.dumps(result, allow_nan=False) + "\n")


def call_by_url(path: Path, url: str) -> None:
    """Makes messages name a path, and all below it, by the URL that it is a copy of."""
    _URLS[str(path)] = url


def forget_urls() -> None:
    _URLS.clear()


def _with_urls(text: str) -> str:
    for path, url in _URLS.items():
        text = text.replace(path, url)
    return text


def say(text: str) -> None:
    stderr().print(_with_urls(text))


def draw(target: "Console", plot: str) -> None:
    """Prints a plot of `braille_plot`, whose colours are escape sequences."""
    from rich.text import Text

    target.print(Text.from_ansi(plot), soft_wrap=True)


def mute() -> None:
    """Silences this process where another one reports; errors are still printed."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    stderr().quiet = True


def error(message: str, hint: str) -> None:
    stderr().quiet = False
    _labelled("error:", "red", message)
    if hint:
        _labelled("hint:", "yellow", hint)


def _labelled(label: str, style: str, text: str) -> None:
    from rich.text import Text

    text = escape.redacted(escape.line(_with_urls(text).replace("\n", " ")))
    stderr().print(Text.assemble((label, style), " ", text))


def result(path: Path | str, summary: dict[str, Any], *, as_json: bool) -> None:
    """The one thing on stdout: the path of the output, or its summary as JSON."""
    if as_json:
        write_json(path, summary)
    else:
        document(f"{path}\n")


def document(text: str) -> None:
    """A text that is the result itself, on stdout: exact, except where a terminal shows it."""
    _results().write(escape.shown(text) if _results().isatty() else text)
    _results().flush()


class Parts:
    """Progress over the parts of a directory: a bar on a terminal, plain lines elsewhere.

    With `rows`, progress is counted in rows: `advance` is called every few rows.
    """

    def __init__(self, name: str, parts: int, rows: int = 0, unit: str = "rows") -> None:
        self.name = name
        self.counts = {"kept": 0, "written": 0, "rewritten": 0}
        self._parts, self._rows, self._unit = parts, rows, unit
        self._done = 0
        self._start = self._reported = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Parts":
        if stderr().is_terminal and max(self._parts, self._rows) > 1:
            from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = [*Progress.get_default_columns()[:-1], MofNCompleteColumn()]
            columns.append(TextColumn("{task.fields[rate]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=stderr(), transient=True)
            self._task = self._bar.add_task(self.name, total=self._rows or self._parts, rate="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, index: int, state: str) -> None:
        self.counts[state] += 1
        done = sum(self.counts.values())
        if state == "rewritten":
            say(f"part-{index:05d} did not match its checksum and was written again")
        if self._rows:
            return
        if self._bar:
            self._bar.update(self._task, completed=done)
        elif done < self._parts and time.monotonic() - self._reported > _PLAIN_EVERY_S:
            self._reported = time.monotonic()
            rate = (done - self.counts["kept"]) / (self._reported - self._start)
            say(f"{self.name}: {done} of {self._parts} parts, {rate:.2g} parts/s")

    def advance(self, rows: int) -> None:
        """Counts rows that are done."""
        self._done += rows
        now = time.monotonic()
        rate = self._done / max(now - self._start, 1e-9)
        if self._bar:
            self._bar.update(self._task, completed=self._done, rate=f"{rate:,.0f}/s")
        elif self._done and now - self._reported > _PLAIN_EVERY_S:
            self._reported = now
            left = (self._rows - self._done) / rate
            say(
                f"{self.name}: {self._done:,} of {self._rows:,} {self._unit}, "
                f"{rate:,.0f}/s, {left:,.0f} s left"
            )

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start


def remark(name: str, *remarks: str) -> None:
    """Says what a command has to say before it starts, one line each."""
    for text in remarks:
        say(f"{name}: {escape.line(text)}")


def conclude(
    parts: Parts,
    out: Path,
    shards: Any,
    text: str,
    *,
    as_json: bool,
    rate: str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """The last lines of a stage on stderr, and its path or summary on stdout."""
    finish(parts, out, shards, text, rate=rate, remarks=remarks)
    result(out, {} if shards is None else shards.summary, as_json=as_json)


def finish(
    parts: Parts,
    out: Path,
    shards: Any,
    text: str,
    *,
    rate: str | None = None,
    remarks: Sequence[str] = (),
) -> None:
    """The last lines of a stage on stderr."""
    summary = {} if shards is None else shards.summary
    if shards is None:
        words = "this share is done, other processes are making the parts that are left"
    else:
        words = plural.filled(text, summary)
    new = parts.counts["written"] + parts.counts["rewritten"]
    if shards is None:
        say(f"{parts.name}: {words}")
    elif not new:
        say(f"{parts.name}: nothing left to do, `{out}` is complete: {words}")
    else:
        kept = f", {parts.counts['kept']} of its parts were there" if parts.counts["kept"] else ""
        all_new = new == len(shards)
        speed = f", {summary[rate] / parts.seconds:,.0f} {rate}/s" if rate and all_new else ""
        say(f"{parts.name}: {words}; {parts.seconds:.1f} s{speed}{kept}")
    remark(parts.name, *remarks)
