"""Lists objectives, modifiers, verifiers, engines and tasks."""

from typing import Annotated

import typer

from rlvr_cli import lookup
from rlvr_cli.errors import UsageError

FOLDERS = ("objectives", "modifiers", "verifiers", "rollout", "training", "tasks")


def command(
    folder: Annotated[str | None, typer.Argument(help=" | ".join(FOLDERS))] = None,
    json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    from rlvr_cli import console

    if folder not in (None, *FOLDERS):
        raise UsageError(f"there is no list of `{folder}`", f"the lists are {', '.join(FOLDERS)}")
    found = {
        name: {entry: lookup.summary(name, entry) for entry in lookup.names(name)}
        for name in ([folder] if folder else FOLDERS)
    }
    console.listing(found, defaults=_defaults(found) if folder else {}, as_json=json)


def _defaults(found: dict[str, dict[str, str]]) -> dict[str, str]:
    """The options of each entry with their defaults, where its file has a `build`."""
    return {
        entry: lookup.canonical(folder, entry)
        for folder, entries in found.items()
        for entry in entries
        if hasattr(lookup.module(folder, entry), "build")
    }
