"""Imports completions that another tool stored.

Reads JSONL, Parquet or CSV, one completion or one list of them a row. With `--model` the texts get
that policy's token ids, which train-step needs, and its end-of-text token where the file says that
they ended. Scores are written if the file says which are correct. With `--prompts` completions are
matched to those prompts by id or text, and later stages find golds, verifiers and sources there.

    rlvr import samples.jsonl --model builtin --out imported
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options, sources
from rlvr_cli.terminal import console, plural, results


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    source: options.Files = None,
    out: Annotated[Path, typer.Option(help="the directory to write")] = Path("imported"),
    prompts: Annotated[Path | None, typer.Option(help="the prompts that were answered")] = None,
    model: options.Model = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import policy as policies
    from rlvr_cli.stages import importing, rollout_remarks
    from rlvr_cli.storage.shards import Shards

    policy = policies.resolve(model) if model else None
    known = Shards.open(prompts, "prompts") if prompts else None
    parts = console.Parts("import", 1)
    written = importing.bring_in(
        sources.files(source), out, columns=config.make(config.Columns, columns), policy=policy,
        known=known, on_part=parts,
        on_read=lambda read: console.remark("import", *results.reading(read)),
    )  # fmt: skip
    for shards in written:
        console.say(
            f"import: `{shards.path}` holds {plural.of(shards.rows, shards.kind.removesuffix('s'))}"
        )
    if not parts.counts["written"]:
        console.say("import: nothing left to do, everything is already there")
    console.remark("import", *importing.remarks(written[1]))
    console.remark("import", *rollout_remarks.cut(written[1], "the limit of what sampled them"))
    last = written[-1]
    console.result(last.path, {shards.kind: shards.rows for shards in written}, as_json=json)
