"""Lists objectives, modifiers, recipes, verifiers, engines, tasks, similarities and formats.

Named alone, a list also shows every option with its default; of a recipe, its objective.

    rlvr list objectives
"""

from typing import Annotated, Any, get_args

import typer

from rlvr_cli import config, registry
from rlvr_cli.errors import UsageError

FOLDERS = (
    *("objectives", "modifiers", "recipes", "verifiers", "rollout", "training", "tasks"),
    *("similarities", "formats"),
)


def command(
    folder: Annotated[str | None, typer.Argument(help=" | ".join(FOLDERS))] = None,
    json: Annotated[bool, typer.Option("--json", help="print all of it as JSON")] = False,
) -> None:
    from rlvr_cli.terminal import console

    if folder not in (None, *FOLDERS):
        raise UsageError(f"there is no list of `{folder}`", f"the lists are {', '.join(FOLDERS)}")
    headings = [folder] if folder else FOLDERS
    found = {name: _entries(name, whole=json or folder is not None) for name in headings}
    console.listing(found, as_json=json)


def _entries(folder: str, *, whole: bool) -> dict[str, dict[str, Any]]:
    if folder == "recipes":
        return {name: _recipe(name, whole=whole) for name in config.recipes()}
    return {
        name: {"summary": registry.summary(folder, name)}
        | (_options(folder, name) if whole else {})
        for name in registry.names(folder)
    }


def _recipe(name: str, *, whole: bool) -> dict[str, Any]:
    (summary, *notes), made = config.recipe(name)
    tables = {table: vars(options) for table, options in vars(made).items()}
    more = {"spec": made.train.algo, "notes": "\n".join(notes).strip(), "options": tables}
    return {"summary": summary} | (more if whole else {})


def _options(folder: str, name: str) -> dict[str, Any]:
    """The spec with every option written out, and each option's default and choices."""
    if not hasattr(registry.module(folder, name), "build"):
        return {}
    options = {
        key: {"default": given.default}
        | ({"choices": list(get_args(given.annotation))} if get_args(given.annotation) else {})
        for key, given in registry.options(folder, name).items()
    }
    return {"spec": registry.canonical(folder, name), "options": options}
