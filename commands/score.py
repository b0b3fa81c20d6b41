"""Verifies completions: a reward, or why there is none.

A verifier's own failure is a status with a null reward, never a 0. Scoring again with another
verifier never generates anything: give it another `--out`.
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    rollouts: options.Source = None,
    out: options.Out = None,
    verifier: Annotated[str | None, typer.Option(help="instead of each prompt's own")] = None,
    prompts: Annotated[Path | None, typer.Option(help="where the prompts moved to")] = None,
    max_error_rate: options.MaxErrorRate = 0.01,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.shards import Shards, Share
    from rlvr_cli.stages import score

    source = Shards.open(options.source(rollouts), "rollouts")
    out = out or source.path.parent / "scores"
    if dry_run:
        return console.say(f"score: {source.rows} completions would be scored into `{out}`")
    with console.Parts("score", len(source)) as parts:
        made = score.run(
            source, out, verifier=verifier, prompts=prompts,
            share=Share.parse(shard), on_part=parts,
        )  # fmt: skip
    text = "{completions} completions, mean reward {reward:.4g}, {missing} without, status {status}"
    console.conclude(parts, out, made, text, as_json=json)
    if made:
        score.check_error_rate(made, max_error_rate)
