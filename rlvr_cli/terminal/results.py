"""Results as a command prints them: tables of metrics, findings, facts and listings."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.terminal import console, plural


def evaluation(
    title: str,
    summary: dict[str, Any],
    shards: Any,
    *,
    as_json: bool,
    parts: console.Parts,
    plot: str = "",
) -> None:
    """Tables of metrics: on stdout, or on stderr where stdout carries a path or JSON."""
    from rlvr_cli.terminal import tables

    if parts.counts["kept"]:
        console.say(f"{parts.name}: nothing left to do, `{shards.path}` is complete")
    target = console.stdout() if shards is None and not as_json else console.stderr()
    target.print(title, soft_wrap=True)
    target.print(tables.metrics_table(summary["metrics"], summary["standard_error"]))
    for source, by_source in summary["sources"].items():
        named = f"`{source}`" if source else "without a source"
        target.print(f"{named}, {plural.of(by_source['prompts'], 'prompt')}", soft_wrap=True)
        target.print(tables.metrics_table(by_source["metrics"]))
    if plot:
        console.draw(target, plot)
    for line in _facts(summary):
        target.print(line, soft_wrap=True)
    if power := summary.get("power"):
        target.print(tables.power_table(power))
        for line in tables.power_lines(power):
            target.print(line, soft_wrap=True)
    if "estimator" in summary:
        target.print(f"estimator: {summary['estimator']}", soft_wrap=True)
    if as_json:
        console.write_json(None if shards is None else shards.path, summary)
    elif shards is not None:
        console.result(shards.path, {}, as_json=False)


def _facts(summary: dict[str, Any]) -> Iterator[str]:
    """What the tables rest on, line by line."""
    from rlvr_cli.terminal import tables

    yield f"{summary.get('notes') or _notes(summary)}; {tables.methods(summary['interval'])}"
    low, high = summary.get("n", (0, 0))
    if low < high and {f"pass@{low}", f"ucc@{low}"} & summary["metrics"].keys():
        least = f"{low}, the fewest completions of a prompt"
        yield f"k ends at {least}: --min-n leaves such prompts out"
    yield from reading(summary.get("read", {}))
    if summary.get("read", {}).get("apart"):
        yield "in all of them together a prompt counts once, with its mean over them"
    if remark := summary.get("remark"):
        yield remark
    if lengths := summary.get("lengths"):
        text = ", ".join(f"{k} {v:.5g}" for k, v in lengths.items() if k != "unit")
        yield f"lengths in {lengths['unit']}: {text}"


def _notes(summary: dict[str, Any]) -> str:
    """How many prompts and completions there were, with remarks on unusual ones."""
    low, high = summary["n"]
    each = f"{plural.of(low, 'completion') if low == high else f'{low} to {high} completions'} each"
    notes = f"{plural.of(summary['prompts'], 'prompt')}, {each}, {summary['excluded']} excluded"
    if ids := summary["left_out"]:
        few = f"{', '.join(ids[:3])}{', …' if len(ids) > 3 else ''}"
        notes += f", {plural.of(len(ids), 'prompt')} {summary['left_out_for']} left out ({few})"
    if summary.get("equal_texts"):
        notes += f", {summary['equal_texts']} repeat an earlier completion of their prompt"
    if summary["repeated"]:
        rows = plural.of(summary["repeated"], "row")
        notes += f", {rows} with the prompt and sample index of another"
    return notes


def reading(read: dict[str, Any]) -> list[str]:
    """How files of other tools were read: where correctness comes from, and the sources."""
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
        return console.write_json(path, {"findings": [vars(finding) for finding in items]})
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
        console.say(f"  {name}: {json.dumps(value) if isinstance(value, dict | list) else value}")


def listing(sections: dict[str, dict[str, dict[str, Any]]], *, as_json: bool) -> None:
    """Names under their headings, with what each is, its spec, and what its options may be.

    A terminal gets lines of its width; elsewhere an entry's summary is one line.
    """
    if as_json:
        console.reads()  # its arguments are names
        return console.write_json(None, {"lists": sections})
    for heading, entries in sections.items():
        console.stdout().print(heading, style="bold")
        indent = max(map(len, entries)) + 4
        for name, entry in entries.items():
            _hang(f"  {name}", entry["summary"], indent)
            for line in _details(entry):
                _hang("", line, indent, style="dim")


def _details(entry: dict[str, Any]) -> list[str]:
    """The spec of an entry that has one to choose, what its options may be, and its text."""
    options = entry.get("options", {})
    choices = [f"{k}={'|'.join(o['choices'])}" for k, o in options.items() if "choices" in o]
    specs = [entry["spec"]] if options or "given" in entry else []
    specs += [f"choices: {' '.join(choices)}"] if choices else []
    return [*specs, *entry.get("text", "").splitlines()]


def _hang(label: str, text: str, indent: int, style: str | None = None) -> None:
    width = console.stdout().width - indent if console.stdout().is_terminal else sys.maxsize
    for line in folded(text, width):
        console.stdout().print(f"{label:<{indent}}{line}".rstrip(), style=style, soft_wrap=True)
        label = ""


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` where the text can be broken: after ` `, `,` or `|`, before `+`."""
    lines = [""]
    for piece in re.split(r"(?<=[ ,|])(?=[^ ,|])|(?=\+\w)", text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
