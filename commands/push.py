"""Uploads a run, policy or directory to an object store.

Stores are S3, Google Cloud, Azure and others; a single file works too. The URL is one that fsspec
opens; its library finds the credentials. An interrupted upload resumes without sending a file
twice, and readers never see half a directory. If something else is there already, the command
stops unless you give `--update`.

    rlvr push demo s3://bucket/demo
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    folder: Annotated[
        Path, typer.Argument(help="a directory of shards, a run, a policy or a file")
    ],
    url: Annotated[str, typer.Argument(help="the destination, as in s3://bucket/name")],
    update: Annotated[
        bool, typer.Option("--update", help="replace what is there and differs")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="read back what is stored, and resend what differs")
    ] = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.stores.push import push, read
    from rlvr_cli.stores.store import at

    store, tree = at(url), read(folder)
    with console.Parts("push", len(tree.states), tree.listing.size, "bytes") as parts:
        sent = push(tree, store, update=update, verify=verify, on_bytes=parts.advance)
    console.say(f"push: `{folder}` -> `{store.shown}`: {sent.said('sent')}")
    console.result(store.shown, vars(sent), as_json=json)
