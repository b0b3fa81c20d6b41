"""Makes prompts from a file, a data set or a built-in task.

The source is a JSONL, Parquet or CSV file, a data set that `datasets` knows by name or path, or
a task such as `task:expression`. Columns that rlvr knows by name are found; others are named.
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    source: Annotated[str, typer.Argument(help="a file, a data set, or task:NAME")],
    out: Annotated[Path, typer.Option(help="the directory to make")] = Path("prompts"),
    split: Annotated[str | None, typer.Option(help="of the data set or of the task")] = None,
    verifier: Annotated[str | None, typer.Option(help="the verifier of every prompt")] = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    limit: options.Limit = None,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli import lookup
    from rlvr_cli.shards import Share
    from rlvr_cli.stages import prompts

    columns: dict = {
        "id_column": id_column,
        "prompt_column": prompt_column,
        "answer_column": answer_column,
    }
    if source.startswith("task:"):
        spec = source.removeprefix("task:") + (f":split={split}" if split else "")
        spec = lookup.canonical("tasks", spec)
        params: dict = {"task": spec} | ({"verifier": verifier} if verifier else {})
        rows = prompts.from_task(spec, verifier)
    else:
        params = {"source": source, "split": split, "verifier": verifier, **columns}
        rows = prompts.from_file(source, split=split, verifier=verifier, **columns)
    rows = rows[:limit]
    params |= {"limit": limit} if limit else {}
    if dry_run:
        return console.say(f"prompts: {len(rows)} prompts of `{source}` would go to `{out}`")
    with console.Parts("prompts", 1) as parts:
        made = prompts.make(rows, out, params=params, share=Share.parse(shard), on_part=parts)
    console.conclude(parts, out, made, "{prompts} prompts", as_json=json)
