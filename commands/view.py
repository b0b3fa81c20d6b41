"""Reads rollouts in the terminal, with verdicts, advantages and coloured tokens.

Takes a run of train (its evaluations, the last one first), rollouts or scores, or a folder that
holds them. `?` shows the keys. What scores, logprobs and advantages beside them say is shown too.

    rlvr view runs/quatro
"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    path: Annotated[Path, typer.Argument(help="a run of train, rollouts, or scores")],
    model: Annotated[
        str | None, typer.Option(help="whose tokenizer cuts the coloured tokens; the policy's else")
    ] = None,
) -> None:
    from rlvr_cli.viewer import start

    start.view(path, model)
