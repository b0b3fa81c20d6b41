"""Reads completions in the terminal, of one run or of two side by side.

Takes a run of train (its evaluations, the last one first), rollouts or scores, a folder that
contains them, or files of other tools as they are: JSONL, Parquet or CSV, one completion or one
list of them a row. Scores, logprobs and advantages next to rollouts are shown too. `?` shows the
keys.

    rlvr view runs/quatro
    rlvr view samples_gsm8k.jsonl
    rlvr view runs/grpo runs/quatro
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH [PATH]", help="a run of train, rollouts, scores, or files"),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="whose tokenizer decodes the coloured tokens; default: the policy's"),
    ] = None,
    id_column: options.IdColumn = None,
    completion_column: options.CompletionColumn = None,
    correct_column: options.CorrectColumn = None,
    reward_column: options.RewardColumn = None,
    extracted_column: options.ExtractedColumn = None,
    source_column: options.SourceColumn = None,
) -> None:
    from rlvr_cli.viewer import start

    named = {
        "id": id_column,
        "completion": completion_column,
        "correct": correct_column,
        "reward": reward_column,
        "extracted": extracted_column,
        "source": source_column,
    }
    start.view(paths, model, named)
