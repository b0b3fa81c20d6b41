"""Tests the claims of five papers at small scale.

It trains the small systems, reads what language models did on the built-in task, and writes a page
of Markdown that says which claims hold. The bounds of every test are in the code.

    rlvr lab claims --only S9,T5 --out claims.md
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import lists, options
from rlvr_cli.terminal import console


def command(
    seeds: options.Seeds = 200,
    language: Annotated[
        list[Path] | None,
        typer.Option(help="results of language models, by head_to_head.py --record; repeatable"),
    ] = None,
    only: Annotated[str | None, typer.Option(help="only these claims, as in S9,T5")] = None,
    jobs: options.Jobs = None,
    out: Annotated[Path, typer.Option("--out", help="the page to write")] = Path("claims.md"),
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report

    result = report.claims(out, seeds, language or [], lists.words(only), jobs)
    console.result(result.out, result.summary, as_json=json)
