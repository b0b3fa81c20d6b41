"""Makes shards of completions that another tool stored.

Reads JSONL, Parquet or CSV, one completion a row or one list a row. With `--model` the texts get
that policy's token ids, which train-step needs, and its end where the file says that they ended.
Scores are written if the file says what is correct. With `--prompts` the completions are answers to
those prompts, by id or by text, and all that follows finds golds, verifiers and sources there.

    rlvr import samples.jsonl --model builtin --out imported
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    source: options.Files = None,
    out: Annotated[Path, typer.Option(help="the directory to make")] = Path("imported"),
    prompts: Annotated[Path | None, typer.Option(help="the prompts that were answered")] = None,
    model: options.Model = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    completion_column: options.CompletionColumn = None,
    correct_column: options.CorrectColumn = None,
    extracted_column: options.ExtractedColumn = None,
    reward_column: options.RewardColumn = None,
    finish_column: options.FinishColumn = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.interop import completions
    from rlvr_cli.models import policy as policies
    from rlvr_cli.stages import importing, rollout
    from rlvr_cli.storage.shards import Shards

    columns = completions.Columns(
        id=id_column, completion=completion_column, correct=correct_column, reward=reward_column,
        extracted=extracted_column, finish=finish_column,
    )  # fmt: skip
    policy = policies.resolve(model) if model else None
    known = Shards.open(prompts, "prompts") if prompts else None
    parts = console.Parts("import", 1)
    written = importing.bring_in(
        options.files(source), out, columns=columns, policy=policy, known=known,
        prompt_column=prompt_column, answer_column=answer_column, on_part=parts,
    )  # fmt: skip
    for shards in written:
        console.say(f"import: `{shards.path}` holds {shards.rows} {shards.kind}")
    if not parts.counts["written"]:
        console.say("import: nothing left to do, everything is already there")
    console.remark("import", *importing.remarks(written[1]))
    console.remark("import", *rollout.cut(written[1], "the limit of what sampled them"))
    last = written[-1]
    console.result(last.path, {shards.kind: shards.rows for shards in written}, as_json=json)
