"""Starts new runs from one step of a stored run.

The new runs have another objective, another verifier, or both: one for each `--algo` and
`--verifier`. Each shares, by hard links, what RUN stored up to step `--at` and the completions of
the next step; these are scored again if the verifier is different. Nothing is sampled or trained.
The commands to paste are printed on stderr, and the new directories on stdout, one a line.

    rlvr branch runs/quatro --at 60 --steps 100 --algo dapo --algo gspo --out runs/from-60
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a run directory of train")],
    at: Annotated[int, typer.Option(min=0, help="the last step to share; 0: the start")],
    out: Annotated[Path, typer.Option(help="the folder for the new runs")],
    algo: options.Algos = None,
    verifier: Annotated[
        list[str] | None,
        typer.Option(help="as in reward.py:function; '' means each prompt's own; repeatable"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="total steps of each \\[default: RUN's]")
    ] = None,
    allow_code: options.AllowCode = False,
    copy: Annotated[
        bool, typer.Option("--copy", help="copy files where they cannot be hard-linked")
    ] = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.loop import branch_directories, branching

    plan = branching.plan(
        run, at, out, algos=algo or [], verifiers=verifier or [], steps=steps,
        allow_code=allow_code,
    )  # fmt: skip
    created = branch_directories.create(plan, out, copy=copy)
    console.remark("branch", *branch_directories.remarks(plan, created))
    if json:
        return console.result(out, branch_directories.summary(plan, created), as_json=True)
    console.say("train them:")
    for branch in plan.branches:
        console.say(f"  {branch.command}")
    console.document("".join(f"{branch.path}\n" for branch in plan.branches))
