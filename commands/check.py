"""Says whether a directory is whole, and who made it."""

from rlvr_cli import console, options


def command(path: options.Source = None, json: options.Json = False) -> None:
    from rlvr_cli.policy import require_whole_checkpoint
    from rlvr_cli.shards import Shards

    found = Shards.open(options.source(path))
    for index in range(len(found)):
        found.part(index)
    manifest = found.manifest
    if found.kind == "steps":
        require_whole_checkpoint(found)
    facts = {name: manifest[name] for name in ("kind", "stage", "params", "versions", "summary")}
    facts |= {"parts": len(found), "rows": found.rows, "digest": found.digest}
    facts["parents"] = {role: parent["path"] for role, parent in manifest["parents"].items()}
    if not json:
        console.say(f"`{found.path}` is whole: {found.kind}, {found.rows} rows, {len(found)} parts")
        console.facts(facts)
    console.result(found.path, facts, as_json=json)
