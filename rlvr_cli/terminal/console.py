"""What a command prints: its result on stdout, everything else on stderr."""

import contextlib
import functools
import json
import os
import re
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


def _write_json(path: Path | str | None, summary: dict[str, Any]) -> None:
    """One object on one line of stdout; docs/schemas describes that of each command."""
    result = {**(_ORIGIN.get() or {}), "path": None if path is None else str(path), **summary}
    document(json.dumps(result, allow_nan=False) + "\n")


def call_by_url(path: Path, url: str) -> None:
    """Makes messages name a path, and all below it, by the URL of which it is a copy."""
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
        _write_json(path, summary)
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


def evaluation(
    title: str,
    summary: dict[str, Any],
    shards: Any,
    *,
    as_json: bool,
    parts: Parts,
    plot: str = "",
) -> None:
    """Tables of metrics: on stdout, or on stderr where stdout carries a path or JSON."""
    from rlvr_cli.terminal import tables

    if parts.counts["kept"]:
        say(f"{parts.name}: nothing left to do, `{shards.path}` is complete")
    target = stdout() if shards is None and not as_json else stderr()
    target.print(title, soft_wrap=True)
    target.print(tables.metrics_table(summary["metrics"], summary["standard_error"]))
    for source, by_source in summary["sources"].items():
        named = f"`{source}`" if source else "without a source"
        target.print(f"{named}, {plural.of(by_source['prompts'], 'prompt')}", soft_wrap=True)
        target.print(tables.metrics_table(by_source["metrics"]))
    if plot:
        draw(target, plot)
    notes = summary.get("notes") or _notes(summary)
    target.print(f"{notes}; {tables.methods(summary['interval'])}", soft_wrap=True)
    low, high = summary.get("n", (0, 0))
    if low < high and {f"pass@{low}", f"ucc@{low}"} & summary["metrics"].keys():
        text = (
            f"k ends at {low}, the fewest completions of a prompt: --min-n leaves such prompts out"
        )
        target.print(text, soft_wrap=True)
    for line in reading(summary.get("read", {})):
        target.print(line, soft_wrap=True)
    if summary.get("read", {}).get("apart"):
        target.print("in all of them together a prompt counts once, with its mean over them")
    if remark := summary.get("remark"):
        target.print(remark, soft_wrap=True)
    if lengths := summary.get("lengths"):
        unit = lengths["unit"]
        text = ", ".join(f"{k} {v:.5g}" for k, v in lengths.items() if k != "unit")
        target.print(f"lengths in {unit}: {text}", soft_wrap=True)
    if power := summary.get("power"):
        target.print(tables.power_table(power))
        for line in tables.power_lines(power):
            target.print(line, soft_wrap=True)
    if "estimator" in summary:
        target.print(f"estimator: {summary['estimator']}", soft_wrap=True)
    if as_json:
        _write_json(None if shards is None else shards.path, summary)
    elif shards is not None:
        result(shards.path, {}, as_json=False)


def _notes(summary: dict[str, Any]) -> str:
    """How many prompts and completions there were, and what is unusual about them."""
    low, high = summary["n"]
    each = f"{plural.of(low, 'completion') if low == high else f'{low} to {high} completions'} each"
    notes = f"{plural.of(summary['prompts'], 'prompt')}, {each}, {summary['excluded']} excluded"
    if ids := summary["left_out"]:
        few = f"{', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}"
        notes += f", {plural.of(len(ids), 'prompt')} {summary['left_out_for']} left out ({few})"
    if summary.get("equal_texts"):
        notes += f", {summary['equal_texts']} of the texts equal to an earlier one of their prompt"
    if summary["repeated"]:
        rows = plural.of(summary["repeated"], "row")
        notes += f", {rows} with the prompt and sample index of another"
    return notes


def reading(read: dict[str, Any]) -> list[str]:
    """How files of other tools were read: what is correct in them, and which are kept apart."""
    lines = []
    if columns := read.get("correct"):
        above = "" if read["correct_above"] is None else f" above {read['correct_above']:g}"
        lines.append(f"correct by {', '.join(f'`{name}`' for name in columns)}{above}")
    if files := read.get("apart"):
        named = ", ".join(f"`{name}`" for name in files[:4]) + (", ..." if files[4:] else "")
        lines.append(
            f"the {len(files)} inputs have prompts in common and are sources ({named}): --merge "
            "counts the rows of a prompt as its samples"
        )
    return lines


def findings(items: Sequence[Any], path: Path | None, *, as_json: bool) -> None:
    """The findings of an examination of `path`, or of the machine: a line each and its hint."""
    if as_json:
        return _write_json(path, {"findings": [vars(finding) for finding in items]})
    styles = {"ok": "green", "note": "yellow", "problem": "red"}
    width = max(len(finding.subject) for finding in items)
    for finding in items:
        label = f"{finding.level:<7}  {finding.subject:<{width}}  "
        _hang(label, finding.text, len(label), style=styles[finding.level])
        if finding.hint:
            _hang("", f"hint: {finding.hint}", len(label))


def facts(values: dict[str, Any]) -> None:
    """Names and values, one a line."""
    for name, value in values.items():
        say(f"  {name}: {json.dumps(value) if isinstance(value, dict | list) else value}")


def listing(sections: dict[str, dict[str, dict[str, Any]]], *, as_json: bool) -> None:
    """Names under their headings, with what each is, its spec, and what its options may be.

    A terminal gets lines of its width; elsewhere an entry's summary is one line.
    """
    if as_json:
        reads()  # its arguments are names
        return _write_json(None, {"lists": sections})
    for heading, entries in sections.items():
        stdout().print(heading, style="bold")
        indent = max(map(len, entries)) + 4
        for name, entry in entries.items():
            _hang(f"  {name}", entry["summary"], indent)
            for line in _details(entry):
                _hang("", line, indent, style="dim")


def _details(entry: dict[str, Any]) -> list[str]:
    """The spec of an entry that has one to choose, its text, and what its options may be."""
    options = entry.get("options", {})
    choices = [f"{k}={'|'.join(o['choices'])}" for k, o in options.items() if "choices" in o]
    specs = [entry["spec"]] if options or "given" in entry else []
    specs += entry.get("text", "").splitlines()
    return specs + ([f"choices: {' '.join(choices)}"] if choices else [])


def _hang(label: str, text: str, indent: int, style: str | None = None) -> None:
    width = stdout().width - indent if stdout().is_terminal else sys.maxsize
    for line in folded(text, width):
        stdout().print(f"{label:<{indent}}{line}", style=style, soft_wrap=True)
        label = ""


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` where the text can be broken: after ` `, `,` or `|`, before `+`."""
    lines = [""]
    for piece in re.split(r"(?<=[ ,|])(?=[^ ,|])|(?=\+\w)", text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
