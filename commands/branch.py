"""Starts new runs from a step of a run, with another objective, another verifier, or both.

One for each `--algo` and `--verifier`: a run directory that shares, by hard links, what RUN stored
up to step `--at` and the completions of the next step. Stored completions are scored again where
the verifier is another. Nothing is sampled and nothing trained: the lines to paste are printed, and
on stdout the directories, one a line.

    rlvr branch runs/quatro --at 60 --steps 100 --algo dapo --algo gspo --out runs/from-60
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a run directory of train")],
    at: Annotated[int, typer.Option(min=0, help="the last step that is shared; 0: the start")],
    out: Annotated[Path, typer.Option(help="the folder for the new runs")],
    algo: options.Algos = None,
    verifier: Annotated[
        list[str] | None,
        typer.Option(help="as in reward.py:function; '' is each prompt's own; may be repeated"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="of each in all \\[default: as many as RUN]")
    ] = None,
    allow_code: options.AllowCode = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="copy what another file system cannot share")
    ] = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.loop import branching, laying

    plan = branching.plan(
        run, at, out, algos=algo or [], verifiers=verifier or [], steps=steps,
        allow_code=allow_code,
    )  # fmt: skip
    laid = laying.lay(plan, out, copy=copy)
    console.remark("branch", *laying.remarks(plan, laid))
    if json:
        return console.result(out, laying.summary(plan, laid), as_json=True)
    console.say("train them:")
    for branch in plan.branches:
        console.say(f"  {branch.command}")
    console.document("".join(f"{branch.path}\n" for branch in plan.branches))
