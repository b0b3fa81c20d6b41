"""Writes any model that transformers loads as a directory that every engine reads.

A GGUF file (`pip install 'rlvr[gguf]'`) is dequantised. What is declared to end a completion is
kept, with the tokenizer's own id next to it.

    rlvr convert model.gguf --out model
"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    model: Annotated[str, typer.Argument(help="a directory, a GGUF file or a hub name")],
    out: Annotated[Path, typer.Option(help="the directory to make")],
    dtype: Annotated[
        Literal["bfloat16", "float32"], typer.Option(help="of the weights on disk")
    ] = "bfloat16",
    json: options.Json = False,
) -> None:
    from rlvr_cli.stages import convert

    summary = convert.run(model, out, dtype)
    console.say(
        f"convert: {summary['parameters']:,} parameters in {dtype}, "
        f"completions end at {summary['eos']}"
    )
    console.result(out, summary, as_json=json)
