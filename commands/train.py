"""Runs the complete loop, with evaluation on held-out prompts.

With no argument but `--algo` it trains the tiny built-in policy on the built-in task, on a CPU, in
a minute or two. `--recipe NAME` starts from the hyperparameters of a paper; a TOML file overrides
them, and flags override both. `--dry-run` prints the result as such a file. Run the same command
again to resume. With `--async --ahead K` other processes sample while this one trains.

    rlvr train --algo quatro --out runs/quatro
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import launch, options
from rlvr_cli.loop import follow_options


@options.takes(
    train=config.RunOptions,
    rollout=config.RolloutOptions,
    train_step=config.UpdateOptions,
    memory_step=config.MemoryOptions,
)
@follow_options.launches
def command(
    train: dict[str, Any],
    rollout: dict[str, Any],
    train_step: dict[str, Any],
    memory_step: dict[str, Any],
    out: options.Out = None,
    recipe: Annotated[str | None, typer.Option(help="see `rlvr list recipes`")] = None,
    configuration: Annotated[
        Path | None, typer.Option("--config", help="a TOML file; flags override it")
    ] = None,
    track: options.Track = None,
    nproc: options.Nproc = 1,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    places: Any = None,
) -> None:
    from rlvr_cli.loop import display
    from rlvr_cli.tracking import process as tracker_process

    tracker_process.check(track)
    given = {"train": train, "rollout": rollout, "train_step": train_step}
    files, given["memory_step"] = [configuration] if configuration else [], memory_step
    out, chosen = display.configuration(out, files, given, recipe)
    if dry_run:
        return display.dry_run(out, chosen, follows=bool(places), as_json=json)
    launch.spawn(places.take(nproc) if places else nproc)
    display.train(out, chosen, track=track, as_json=json, places=places)
