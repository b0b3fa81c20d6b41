"""Makes prompts from files, data sets or built-in tasks.

A source is a JSONL, Parquet or CSV file, a folder, a `save_to_disk` folder, a name on the Hugging
Face Hub, a task such as `task:shapes`, or a prompts directory. Several are mixed. It recognises the
layouts of public data sets (`rlvr list layouts`), or else finds columns by name. It stores images.

    rlvr prompts task:expression --limit 32 --out demo/prompts
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import lists, options
from rlvr_cli.terminal import console


@options.takes(images=config.ImageOptions)
def command(
    images: dict[str, Any],
    sources: options.Sources,
    out: Annotated[Path, typer.Option(help="the directory to write")] = Path("prompts"),
    split: Annotated[str | None, typer.Option(help="split of the data set or task")] = None,
    layout: options.Layout = None,
    verifier: Annotated[str | None, typer.Option(help="the verifier of every prompt")] = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.GoldColumn = None,
    weights: options.Weights = None,
    limit: options.Limit = None,
    skip: options.Skip = 0,
    drop_unusable: options.DropUnusable = False,
    drop_duplicates: options.DropDuplicates = False,
    drop_answer_turn: options.DropAnswerTurn = False,
    without: options.Without = None,
    drop_easiest: options.DropEasiest = None,
    keep_rate: options.KeepRate = None,
    scores: options.ScoresOfEasiest = None,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import difficulty, mixing, prompts
    from rlvr_cli.storage.share import Share

    columns = dict(id_column=id_column, prompt_column=prompt_column, answer_column=answer_column)
    kept = difficulty.checked(drop_easiest, lists.numbers("--keep-rate", keep_rate), scores or [])
    how = mixing.Prepared(split, verifier, columns, layout, drop_unusable, drop_answer_turn, limit,
                          skip, config.ImageOptions(**images))  # fmt: skip
    chosen = mixing.load(sources, lists.numbers("--weights", weights), how,
                         drop_duplicates=drop_duplicates, without=without or [])  # fmt: skip
    chosen = difficulty.chosen(chosen, *kept)
    console.remark("prompts", *chosen.remarks)
    if dry_run:
        return console.say(f"prompts: {mixing.described(chosen, sources)} would go to `{out}`")
    with console.Parts("prompts", 1) as parts:
        shards = prompts.make(chosen, out, share=Share.parse(shard), on_part=parts)
    console.conclude(parts, out, shards, difficulty.described(chosen), as_json=json)
