"""Finds problems with the machine, the model or the data.

Given a prompts, rollouts or scores directory, or a file of prompts, it checks the golds, ids and
texts, and with --model also the lengths and the end-of-text ids. Without one it lists what this
machine has. With --model and the options of `train` it checks whether that run fits into memory,
and whether sampler and trainer compute the same log-probs. The command fails on problems, not on
notes.

    rlvr doctor demo/prompts --model builtin
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config, run_config
from rlvr_cli.cli import options
from rlvr_cli.terminal import results


@options.takes(
    train=config.RunOptions, rollout=config.RolloutOptions, train_step=config.UpdateOptions
)
def command(
    train: dict[str, Any],
    rollout: dict[str, Any],
    train_step: dict[str, Any],
    source: Annotated[
        Path | None, typer.Argument(help="prompts, rollouts, scores, or a file of prompts")
    ] = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    recipe: Annotated[str | None, typer.Option(help="the run's; see `rlvr list recipes`")] = None,
    configuration: Annotated[
        Path | None, typer.Option("--config", help="the run's TOML file")
    ] = None,
    nproc: Annotated[int, typer.Option(min=1, help="the run's processes, one per GPU")] = 1,
    json: options.Json = False,
) -> None:
    from rlvr_cli import doctor

    given = {"train": train, "rollout": rollout, "train_step": train_step}
    run = run_config.load([configuration] if configuration else [], given, recipe)
    columns = {
        "verifier": run.train.verifier or None,
        "id_column": id_column,
        "prompt_column": prompt_column,
        "answer_column": answer_column,
    }
    named = train["model"] or recipe or configuration
    model = run.train.model if named else None
    if source:
        findings = doctor.of_data(source, model, run, columns)
    else:
        findings = doctor.of_machine(model, run, nproc)
    results.findings(findings, source, as_json=json)
    doctor.conclude(findings, source)
