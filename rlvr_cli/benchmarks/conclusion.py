"""What benchmarks end with: the report, a summary next to it, the table, and what to try next."""

import shlex
from pathlib import Path
from typing import Any

from rlvr_cli.benchmarks.chain import THRESHOLD, Measured
from rlvr_cli.errors import UsageError
from rlvr_cli.report import page, sources
from rlvr_cli.storage import atomic
from rlvr_cli.storage.shards import MANIFEST
from rlvr_cli.terminal import console, plural, tables

_WIDTH = 140  # of the table in a pipe


def write(out: Path, measured: list[Measured]) -> dict[str, Any]:
    """The pages of at most so many benchmarks as fit on one, and summary.json; its content."""
    chunks = [measured[i : i + sources.MOST] for i in range(0, len(measured), sources.MOST)]
    pages = [out / f"report{f'-{i}' if i > 1 else ''}.html" for i in range(1, len(chunks) + 1)]
    summary = {"benchmarks": {one.name: one.figures for one in measured}}
    data, kept = atomic.pretty_json(summary), out / "summary.json"
    is_done = not any(one.is_new for one in measured) and all(p.is_file() for p in [kept, *pages])
    if is_done and atomic.read_bytes(kept) == data:
        console.say(f"bench: nothing left to do, `{out}` is complete")
        return summary
    try:
        for path, chunk in zip(pages, chunks, strict=True):
            page.require_free(path)
            opened = sources.open_all([one.folder for one in chunk])
            report = page.make(opened, threshold=THRESHOLD, title=f"Benchmarks of {out.name}")
            atomic.write_atomic(path, report.html.encode())
            console.say(f"bench: a report of {', '.join(o.name for o in chunk)} -> `{path}`")
    except UsageError as error:  # a package is not installed
        console.say(f"bench: no report: {error}; {error.hint}")
    atomic.write_atomic(kept, data)
    return summary


def say(out: Path, measured: list[Measured]) -> None:
    """The table on stderr, and the command that compares with another model's next to these."""
    err = console.stderr()
    if not err.is_terminal:
        err.width = max(err.width, _WIDTH)
    err.print(tables.benchmarks_table({o.name: o.figures for o in measured}))
    console.say(f"means over prompts; {tables.methods(measured[0].figures['interval'])}")
    cut = [one.name for one in measured if one.figures["prompts"] < one.figures["of"]]
    if cut:
        console.say(f"only the first prompts, which is not the benchmark: {', '.join(cut)}")
    for one in measured:
        if lost := one.figures["left_out"]:
            counted = f"{one.figures['prompts'] - lost} of {one.figures['prompts']} prompts"
            console.say(f"{one.name}: over {counted}, as no completion of the others has a verdict")
        if count := one.figures["excluded"]:
            console.say(
                f"{one.name}: no verdict on {plural.of(count, 'completion')} of these prompts"
            )
    others = sorted(
        path.parent
        for path in out.absolute().parent.glob(f"*/{measured[0].name}/scores/{MANIFEST}")
        if path.parents[2] != out.absolute()
    )
    if others:
        other = out.parent / others[0].relative_to(out.absolute().parent)
        words = ["rlvr", "compare", str(other), str(measured[0].folder / "scores")]
        console.say(f"bench: compare with the other model: `{shlex.join(words)}`")
