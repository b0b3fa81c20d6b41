"""Shows completions in the terminal, or two runs side by side.

Takes a run of train (its evaluations, the last one first), rollouts or scores, a folder that
contains them, or files of other tools as they are: JSONL, Parquet or CSV, one completion or one
list of them a row. Scores, logprobs and advantages next to rollouts are shown too. Press `?` for
the keys.

    rlvr view runs/quatro
    rlvr view samples_gsm8k.jsonl
    rlvr view runs/grpo runs/quatro
    zcat samples.jsonl.gz | rlvr view -
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options, sources
from rlvr_cli.runtime import stdin


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH [PATH]", help="a run of train, rollouts, scores, or files; - is stdin"
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="for its tokenizer, to colour tokens \\[default: the policy's]"),
    ] = None,
) -> None:
    from rlvr_cli.viewer import start

    named = [sources.files(["-"]) if one == stdin.DASH else one for one in sources.once(paths)]
    start.view(named, model, columns)
