"""Makes prompts from a file, a data set or a built-in task.

The source is a JSONL, Parquet or CSV file, a data set that `datasets` knows by name or path, a
task such as `task:expression`, or a prompts directory that is there already. Columns that rlvr
knows by name are found; others are named. With `--drop-easiest 0.25 --scores DIR` the quarter of
the prompts that those completions solve most often is left out.

    rlvr prompts task:expression --limit 32 --out demo/prompts
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    source: Annotated[str, typer.Argument(help="a file, a data set, task:NAME, or prompts")],
    out: Annotated[Path, typer.Option(help="the directory to make")] = Path("prompts"),
    split: Annotated[str | None, typer.Option(help="of the data set or of the task")] = None,
    verifier: Annotated[str | None, typer.Option(help="the verifier of every prompt")] = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    limit: options.Limit = None,
    skip: Annotated[int, typer.Option(min=0, help="leave out the first so many")] = 0,
    drop_easiest: Annotated[
        float | None, typer.Option(help="leave out this share, those solved most often")
    ] = None,
    scores: Annotated[
        list[Path] | None, typer.Option(help="scores that say so; may be given several times")
    ] = None,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import difficulty, prompts
    from rlvr_cli.storage.shards import Share

    columns = dict(id_column=id_column, prompt_column=prompt_column, answer_column=answer_column)
    difficulty.check(drop_easiest, scores or [])
    chosen = prompts.load(
        source, split=split, verifier=verifier, columns=columns, limit=limit, skip=skip
    )
    text = "{prompts} prompts"
    if drop_easiest is not None:
        chosen = difficulty.drop_easiest(chosen, drop_easiest, scores or [])
        text += ", {dropped} dropped"
        text += " from a success rate of {success_at_cut:.3g} on" if chosen.facts["dropped"] else ""
    if dry_run:
        return console.say(f"prompts: {len(chosen.rows)} prompts of `{source}` would go to `{out}`")
    with console.Parts("prompts", 1) as parts:
        shards = prompts.make(chosen, out, share=Share.parse(shard), on_part=parts)
    console.conclude(parts, out, shards, text, as_json=json)
