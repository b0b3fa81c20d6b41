"""Sends a run's figures to a tracker, such as wandb.

It also sends a few completions, during or after training. It only reads the run directory, so it
never disturbs the run, and it sends each step once: stop it and start it again as you like, even if
the run was resumed. It ends when the run does; `--once` sends what is there now. `rlvr train
--track trackio` starts it with the run.

    rlvr track runs/quatro --to tensorboard
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console, plural


def command(
    run: Annotated[Path, typer.Argument(help="the directory of a run of train")],
    to: Annotated[str, typer.Option(help="the tracker and its options; see `rlvr list trackers`")],
    once: Annotated[bool, typer.Option("--once", help="send what is there, and stop")] = False,
    name: Annotated[str, typer.Option(help="the run's name there \\[default: the folder's]")] = "",
    samples: Annotated[
        int, typer.Option(min=0, help="completions to send per evaluation; 0: none")
    ] = 4,
    json: options.Json = False,
) -> None:
    from rlvr_cli.tracking import following, sending

    def is_over() -> bool:
        return once or not following.is_running(run)

    done = sending.send(run, to, is_over=is_over, name=name, most_samples=samples)
    console.say(f"track: {plural.of(done.sent, 'step')} sent, {done.known} were there already")
    console.remark("track", *done.remarks())
    if not once and not following.is_complete(run, done.last):
        console.say(f"track: the run does not run now, it is at step {done.last}")
    last = done.last if done.last >= 0 else None
    console.result(run, {"sent": done.sent, "known": done.known, "last": last}, as_json=json)
