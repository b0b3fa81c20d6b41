"""Writes a commented run.toml for your model and data.

It measures the prompts with the model's tokenizer, finds the verifier for the golds, and chooses
lengths, batches and steps that fit into the memory of this machine, or of the GPUs that you
describe. Without --heldout it keeps the first rows of the data for evaluation. It prints the next
commands on stderr.

    rlvr init --model builtin --data demo/prompts --out demo/run.toml
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    model: Annotated[str, typer.Option(help="the policy: a model directory, or a hub name")],
    data: Annotated[str, typer.Option(help="any source of `rlvr prompts`")],
    heldout: Annotated[str | None, typer.Option(help="a source to evaluate on")] = None,
    out: Annotated[Path, typer.Option(help="the file to write")] = Path("run.toml"),
    split: Annotated[str | None, typer.Option(help="split of the data set")] = None,
    heldout_split: Annotated[str | None, typer.Option(help="the split to evaluate on")] = None,
    verifier: Annotated[str | None, typer.Option(help="the verifier of every prompt")] = None,
    id_column: options.IdColumn = None,
    prompt_column: options.PromptColumn = None,
    answer_column: options.AnswerColumn = None,
    slurm: Annotated[bool, typer.Option("--slurm", help="write a Slurm job too")] = False,
    docker: Annotated[bool, typer.Option("--docker", help="write a Dockerfile too")] = False,
    nodes: Annotated[int, typer.Option(min=1, help="nodes of the run")] = 1,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs per node \\[default: 1]")] = None,
    gpu_memory: Annotated[
        float | None, typer.Option(min=1, help="GiB per GPU, if the run is for another machine")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="overwrite existing files")] = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli import init

    columns = dict(id_column=id_column, prompt_column=prompt_column, answer_column=answer_column)
    request = init.Request(
        model, data, heldout, out, split, heldout_split, verifier, columns, slurm, docker
    )
    console.reads(*filter(None, (data, heldout)))
    init.check_files(request, force=force)
    target = init.machine(nodes, gpus, gpu_memory, slurm=slurm)
    summary = init.write(init.propose(request, target))
    for name in ("model", "data", "machine", "verifier"):
        console.say(f"{name}: {summary[name]}")
    console.remark("note", *summary["remarks"])
    console.say("run next:")
    for line in summary["commands"]:
        console.say(f"  {line}")
    console.result(out, summary, as_json=json)
