"""Makes shards of completions that another tool stored.

Reads JSONL, Parquet or CSV, one completion a row or one list a row. With `--model` the texts get
that policy's token ids, which train-step needs. Scores are made if the file says what is correct.
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    source: Annotated[Path, typer.Argument(help="a JSONL, Parquet or CSV file")],
    out: Annotated[Path, typer.Option(help="the directory to make")] = Path("imported"),
    model: options.Model = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    completion_column: options.CompletionColumn = None,
    correct_column: options.CorrectColumn = None,
    reward_column: options.RewardColumn = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli import foreign
    from rlvr_cli import policy as policies
    from rlvr_cli.stages import exchange

    found = foreign.generations(
        source, id_column=id_column, completion_column=completion_column,
        correct_column=correct_column, reward_column=reward_column,
    )  # fmt: skip
    policy = policies.resolve(model) if model else None
    parts = console.Parts("import", 1)
    made = exchange.bring_in(
        found, source, out, policy=policy, prompt_column=prompt_column,
        answer_column=answer_column, on_part=parts,
    )  # fmt: skip
    for shards in made:
        console.say(f"import: `{shards.path}` holds {shards.rows} {shards.kind}")
    if not parts.counts["made"]:
        console.say("import: nothing left to do, all of it was there")
    last = made[-1]
    console.result(last.path, {shards.kind: shards.rows for shards in made}, as_json=json)
