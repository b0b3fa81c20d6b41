"""Downloads a run, policy or directory, and verifies it.

Also takes a single file. Files that `rlvr push` sent are verified by sha256; in other directories
of shards only the parts are. The directory appears once it is complete. An interrupted download
resumes.

    rlvr pull s3://bucket/demo demo
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    url: Annotated[str, typer.Argument(help="the source, as in s3://bucket/name")],
    folder: Annotated[Path, typer.Argument(help="the directory to write")],
    json: options.Json = False,
) -> None:
    from rlvr_cli.stores import pull
    from rlvr_cli.stores.store import at

    remote = pull.look(at(url))
    with console.Parts("pull", len(remote.files), remote.size, "bytes") as parts:
        sent = pull.pull(remote, folder, on_bytes=parts.advance)
    console.say(f"pull: `{remote.store.shown}` -> `{folder}`: {sent.said('fetched')}")
    console.result(folder, vars(sent), as_json=json)
