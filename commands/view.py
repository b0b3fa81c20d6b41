"""Reads rollouts in the terminal, with verdicts, advantages and coloured tokens.

Takes a run of train (its evaluations, the last one first), rollouts or scores, or a folder that
contains them. `?` shows the keys. Scores, logprobs and advantages next to them are shown too.

    rlvr view runs/quatro
"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[Path, typer.Argument(help="a run of train, rollouts, or scores")],
    model: Annotated[
        str | None,
        typer.Option(help="whose tokenizer decodes the coloured tokens; default: the policy's"),
    ] = None,
) -> None:
    from rlvr_cli.viewer import start

    start.view(path, model)
