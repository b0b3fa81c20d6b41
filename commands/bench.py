"""Measures a model on benchmarks in one command.

It makes prompts, samples and scores them, and computes Pass@k, UCC@k and a report. `rlvr list
benchmarks` names the built-in benchmarks; a TOML file defines one of your own. Options that you do
not give take the benchmark's values. The data comes from the Hub, or from copies that you name with
`--data` or `--data-dir`. Run the same command again to resume.

    rlvr bench aime25,math500,gpqa-diamond,humaneval --model MODEL -n 16 --allow-code-execution
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options
from rlvr_cli.errors import UsageError
from rlvr_cli.terminal import console


@options.takes(given=config.BenchOptions)
def command(
    given: dict[str, Any],
    benchmarks: Annotated[str, typer.Argument(help="names, as in aime25,math500, or my.toml")],
    model: options.Model = None,
    out: Annotated[
        Path | None, typer.Option(help="the directory to write \\[default: bench/MODEL]")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(help="a copy of the data, as in gsm8k=DIR; repeatable")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="a folder of copies, named gsm8k/ or gsm8k.jsonl")
    ] = None,
    limit: options.Limit = None,
    seed: options.StageSeed = None,
    allow_code_execution: options.AllowCode = False,
    unsafe_no_sandbox: options.Unsafe = False,
    workers: options.Workers = None,
    max_error_rate: options.MaxErrorRate = 0.01,
    json: options.Json = False,
) -> None:
    from rlvr_cli import benchmarks as definitions

    chosen = definitions.load_all(benchmarks)
    if not model and not out:
        raise UsageError("no model is named", "name one, as in `--model DIR`")
    from rlvr_cli.benchmarks import chain, conclusion, data as copies

    out = out or Path("bench") / chain.folder_name(str(model))
    places = copies.places(data or [], data_dir, chosen)
    measured = chain.run(chosen, chain.Settings(
        out, model, given, seed, limit, places, allow_code_execution, unsafe_no_sandbox, workers,
        max_error_rate))  # fmt: skip
    summary = conclusion.write(out, measured)
    conclusion.say(out, measured)
    console.result(out, summary, as_json=json)
