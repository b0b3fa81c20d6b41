"""Exports completions and scores for other tools.

The formats are JSON lines and those of other tools (`rlvr list formats`). Each row holds all that
the directory and its inputs know about a completion.

    rlvr export demo/scores --format lm-eval --out samples_lm-eval.jsonl
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options, sources
from rlvr_cli.terminal import console, plural


def command(
    source: options.Source = None,
    out: Annotated[Path | None, typer.Option("--out", help="the file to write")] = None,
    format: Annotated[str, typer.Option(help="see `rlvr list formats`")] = "jsonl",
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import exchange
    from rlvr_cli.storage.shards import Shards

    shards = Shards.open(sources.source(source), "prompts", "rollouts", "scores", "advantages")
    suffix = exchange.writer(format).SUFFIX
    path = shards.path.resolve()
    out = out or path.with_name(path.name + suffix)
    sent = exchange.send_out(shards, out, format)
    console.say(f"export: {plural.of(sent.rows, 'row')} of `{shards.path}` -> `{out}`")
    console.remark("note", *sent.remarks)
    console.result(out, {"rows": sent.rows}, as_json=json)
