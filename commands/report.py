"""Writes one HTML page about runs and their completions.

The page has figures, curves, examples and lineage, needs no network, and fits a phone. Takes run
directories of train (the first and last evaluation of one, or the last of each of several) and
scores. With `--watch` it is written again while the runs train, and an open page reloads itself.

    rlvr report runs/grpo runs/quatro --out report.html
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN|DIR...", help="runs of train, or scores")
    ],
    out: Annotated[Path, typer.Option(help="the file to write")] = Path("report.html"),
    threshold: Annotated[float, typer.Option(help="cosine for UCC@k, above 0 up to 1")] = 0.8,
    examples: Annotated[int, typer.Option(min=0, help="prompts to show with completions")] = 6,
    min_n: options.MinN = 1,
    max_mb: Annotated[
        float, typer.Option(min=0, help="largest page; beyond it, completions lose their middle")
    ] = 5.0,
    typeset: Annotated[
        int, typer.Option(min=0, help="characters to typeset (Markdown, formulas, code)")
    ] = 500_000,
    title: Annotated[
        str | None, typer.Option(help="the title \\[default: the directories' names]")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="rewrite it while runs train")] = False,
    interval: Annotated[
        float, typer.Option(min=1, help="with --watch: seconds between updates")
    ] = 10,
    json: options.Json = False,
) -> None:
    import functools

    from rlvr_cli.report import page, sources, watching
    from rlvr_cli.storage import atomic

    page.require_free(out)
    make = functools.partial(
        page.make, threshold=threshold, min_n=min_n, most_examples=examples, title=title,
        max_mb=max_mb, most_set=typeset,
    )  # fmt: skip
    if watch:
        report = watching.watch(paths, out, make, every_s=interval)
    else:
        opened = sources.open_all(paths)
        with console.Parts("report", sum(map(sources.parts, opened))) as parts:
            report = make(opened, on_part=parts)
        atomic.write_atomic(out, report.html.encode())
        console.say(f"report: {out.stat().st_size / 1e6:.2f} MB in {parts.seconds:.1f} s")
    console.result(out, report.figures, as_json=json)
