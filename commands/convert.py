"""Writes a checkpoint, or any model that transformers loads, as weights alone, ready to serve.

Tokenizer, chat template and generation config go with them. Adapters are merged into their base,
and a GGUF file (`pip install 'rlvr[gguf]'`) is dequantised. A run stands for its newest checkpoint.
What is declared to end a completion is kept, with the tokenizer's own id next to it. `--push`
uploads the directory to the Hugging Face Hub, as the user that `hf auth login` or HF_TOKEN says.

    rlvr convert runs/gsm8k/steps/000100/update --out model
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console, plural


def command(
    model: Annotated[
        str, typer.Argument(help="a checkpoint, a run, a model's directory, GGUF file or hub name")
    ],
    out: Annotated[Path, typer.Option(help="the directory to make")],
    dtype: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="of the weights on disk")
    ] = "bfloat16",
    push: Annotated[
        str | None, typer.Option(metavar="REPO", help="also upload it, as in user/model")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="make a new repository for you alone")
    ] = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import convert

    summary = convert.run(model, out, dtype, repo=push, private=private)
    merged = ", adapters merged" if summary["merged"] else ""
    console.say(
        f"convert: {plural.of(summary['parameters'], 'parameter')} of "
        f"`{summary['source']}`{merged}, in "
        f"{dtype} ({summary['bytes'] / 1e6:,.1f} MB), completions end at {summary['eos']}"
    )
    if push:
        console.say(f"convert: uploaded to {summary['pushed']}")
    console.result(out, summary, as_json=json)
