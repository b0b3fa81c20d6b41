"""Reports what would go wrong: on this machine, with a model, in the data.

Given a prompts, rollouts or scores directory, or a file of prompts, it checks the golds, ids and
texts, and with --model the lengths and the ids that end a completion. Without one it lists what
this machine has; with --model and the options of `train` it checks whether such a run fits into
memory, and whether sampler and trainer give the same log-probs. A problem makes the command fail, a
note does not.

    rlvr doctor demo/prompts --model builtin
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config, run_config
from rlvr_cli.cli import options
from rlvr_cli.terminal import console


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
    recipe: Annotated[str | None, typer.Option(help="of the run, see `rlvr list recipes`")] = None,
    configuration: Annotated[
        Path | None, typer.Option("--config", help="of the run, a TOML file")
    ] = None,
    nproc: Annotated[int, typer.Option(min=1, help="of the run: processes, one a GPU")] = 1,
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
    console.findings(findings, source, as_json=json)
    doctor.conclude(findings, source)
