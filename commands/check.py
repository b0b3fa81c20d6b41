"""Says whether a directory is complete, and who made it.

Every part is read and compared with its checksum. A directory that is damaged or not complete gives
an error and exit code 3.

    rlvr check demo/advantages
"""

from rlvr_cli.cli import options
from rlvr_cli.errors import DataError
from rlvr_cli.terminal import console


def command(path: options.Source = None, json: options.Json = False) -> None:
    from rlvr_cli.models.checkpoints import CHECKPOINT
    from rlvr_cli.models.policy import checkpoint_state
    from rlvr_cli.storage.shards import Shards

    shards = Shards.open(options.source(path))
    for index in range(len(shards)):
        shards.part(index)
    manifest = shards.manifest
    state = checkpoint_state(shards) if shards.kind == "steps" else None
    if state == "damaged":
        raise DataError(
            f"`{shards.path / CHECKPOINT}` is not as it was written",
            "run the command that made it again; it makes the checkpoint anew",
        )
    facts = {name: manifest[name] for name in ("kind", "stage", "params", "versions", "summary")}
    facts |= {"parts": len(shards), "rows": shards.rows, "digest": shards.digest}
    facts["parents"] = {role: parent["path"] for role, parent in manifest["parents"].items()}
    facts |= {"checkpoint": state} if state else {}
    if not json:
        console.say(
            f"`{shards.path}` is complete: {shards.kind}, {shards.rows} rows, {len(shards)} parts"
        )
        console.facts(facts)
    console.result(shards.path, facts, as_json=json)
