"""Writes only the weights of a model, ready to serve.

Takes a checkpoint, a run (its newest checkpoint), or any model that transformers loads. Copies the
tokenizer, chat template and generation config too. Merges adapters, also those that other trainers
wrote, into their base and dequantizes GGUF files (`pip install 'rlvr[gguf]'`). Keeps the declared
end-of-text ids and adds the tokenizer's own. `--push` uploads the directory to the Hugging Face
Hub, as the user of `hf auth login` or HF_TOKEN.

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
    out: Annotated[Path, typer.Option(help="the directory to write")],
    dtype: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="dtype of the weights on disk")
    ] = "bfloat16",
    push: Annotated[
        str | None, typer.Option(metavar="REPO", help="upload it too, as in user/model")
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="if the repository is new, make it private")
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
