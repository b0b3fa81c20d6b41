"""Lists objectives, recipes, verifiers and all other names.

A single list also shows every option with its default, and the objective of each recipe. Entries
from an installed package name that package. Name an entry to show only that, with its equation and
what its options do, or a spec to show code of yours: `rlvr list objectives mine.py:build`.

    rlvr list objectives
"""

from typing import Annotated, Any

import typer

from rlvr_cli import benchmarks, registry, run_config, templates
from rlvr_cli.errors import UsageError

FOLDERS = (
    *("objectives", "modifiers", "recipes", "verifiers", "rollout", "training", "tasks"),
    *("layouts", "similarities", "formats", "trackers", "templates", "benchmarks"),
)


def command(
    folder: Annotated[str | None, typer.Argument(help=" | ".join(FOLDERS))] = None,
    spec: Annotated[str | None, typer.Argument(help="one entry, or FILE.py:NAME")] = None,
    json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> None:
    from rlvr_cli.terminal import results

    if folder not in (None, *FOLDERS):
        raise UsageError(f"there is no list of `{folder}`", f"the lists are {', '.join(FOLDERS)}")
    if folder and spec:
        chosen = {folder: _entry(folder, spec)}
    else:
        in_full = json or folder is not None
        chosen = {name: _entries(name, in_full) for name in ([folder] if folder else FOLDERS)}
    results.listing(chosen, as_json=json)


def _entries(folder: str, in_full: bool) -> dict[str, dict[str, Any]]:
    if folder == "recipes":
        return {name: _recipe(name, in_full) for name in run_config.recipes()}
    if folder == "templates":
        return templates.entries()
    if folder == "benchmarks":
        return benchmarks.entries(in_full=in_full)
    return registry.entries(folder, in_full=in_full)


def _entry(folder: str, name: str) -> dict[str, dict[str, Any]]:
    if folder in ("templates", "benchmarks"):
        return benchmarks.entries(name) if folder == "benchmarks" else templates.entries(name)
    return {name: _recipe(name, True)} if folder == "recipes" else registry.entry(folder, name)


def _recipe(name: str, in_full: bool) -> dict[str, Any]:
    (summary, *notes), recipe = run_config.recipe(name)
    tables = {table: vars(options) for table, options in vars(recipe).items()}
    more = {"spec": recipe.train.algo, "notes": "\n".join(notes).strip(), "options": tables}
    return {"summary": summary} | (more if in_full else {})
