"""A run's configuration: the defaults of config.py, a recipe, TOML files, and flags over them."""

import dataclasses
import difflib
import itertools
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from rlvr_cli.config import RunConfig, make, toml
from rlvr_cli.errors import UsageError
from rlvr_cli.specs import foreign, option_types

RECIPES = Path(__file__).parent / "recipes"
# Options that decide no row. A step that was begun keeps its own where they are stored with it.
MAY_CHANGE = (
    *("steps", "keep", "keep_weights", "eval_every", "save_every", "max_error_rate"),
    "prompts_per_part",
)
# Paths that the run reads, and the names of their digests in inputs.json.
MAY_MOVE = {
    "model": "policy", "prompts": "prompts", "heldout": "heldout", "memory_model": "memory_model",
    "schedule_of": "schedule",
}  # fmt: skip


def load(
    paths: list[Path],
    given: dict[str, dict[str, Any]],
    recipe: str | None = None,
    *,
    stored: dict[str, dict[str, Any]] | None = None,
) -> RunConfig:
    """A run's configuration: defaults, a recipe, then the files in order, then the flags given.

    Without a recipe, a run of a built-in policy on its own task starts from `builtin` or from
    `builtin-vl`. A run that was begun has `stored` its configuration: it takes the place of the
    defaults.
    """
    layers = [_read(path) for path in paths] + [given]
    if stored is not None:
        return _merge([_read(_recipe_path(recipe)), *layers] if recipe else layers, stored)
    if recipe is None:
        recipe = builtin_recipe(_merge(layers))
    if recipe is None:
        return _merge(layers)
    config = _merge([_read(_recipe_path(recipe)), *layers])
    if config.train.model != "builtin" and not config.train.prompts:
        raise UsageError(
            f"recipe `{recipe}` trains `{config.train.model}`, and there are no prompts for it",
            "make some with `rlvr prompts SOURCE --out DIR` and name them with `--prompts DIR`",
        )
    return config


def names(option: str, paths: list[Path], given: dict[str, Any], recipe: str | None) -> bool:
    """Whether flags, files or the recipe name an option of [train], if only by its default."""
    layers = [_read(path) for path in [*paths, *([_recipe_path(recipe)] if recipe else [])]]
    return any(layer.get("train", {}).get(option) is not None for layer in [given, *layers])


def recipes() -> list[str]:
    """The names of the recipes, sorted."""
    return sorted(path.stem for path in RECIPES.glob("*.toml"))


def recipe(name: str) -> tuple[list[str], RunConfig]:
    """The comment that a recipe starts with, its summary first, and its configuration."""
    path = _recipe_path(name)
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return [line.removeprefix("#").strip() for line in lines], _merge([_read(path)])


def _recipe_path(name: str) -> Path:
    known = recipes()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}? " if near else ""
        raise UsageError(f"unknown recipe `{name}`", f"{hint}see `rlvr list recipes`")
    return RECIPES / f"{name}.toml"


def is_builtin(config: RunConfig) -> bool:
    """Whether a run trains a built-in policy on the built-in task that it knows."""
    return builtin_recipe(config) is not None


def builtin_recipe(config: RunConfig) -> str | None:
    """The recipe of a run of a built-in policy on its own task; None of any other run.

    Where no model is named (`builtin` is the default), the task decides which one it is.
    """
    model, prompts = config.train.model, config.train.prompts
    if (model, prompts) == ("builtin", ""):
        return "builtin"
    is_of_images = prompts.startswith("task:") and prompts.split(":")[1] == "shapes"
    return "builtin-vl" if is_of_images and model in ("builtin", "builtin-vl") else None


def _merge(
    layers: list[dict[str, dict[str, Any]]], stored: dict[str, dict[str, Any]] | None = None
) -> RunConfig:
    tables = {}
    for table in fields(RunConfig):
        values: dict[str, Any] = {}
        for layer in layers:
            given = layer.get(table.name, {})
            values |= {key: value for key, value in given.items() if value is not None}
        before = (stored or {}).get(table.name)
        tables[table.name] = make(type(table.default), values, before)
    return RunConfig(**tables)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        raw = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(
            f"cannot read `{path}`: {error.strerror}",
            "`rlvr init` writes such a file; without --config there are defaults",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"`{path}` is not TOML: {error}", "write it as `rlvr init` does, or a run's config.toml"
        ) from error
    tables = {}
    known: dict[str, Any] = {f.name.replace("_", "-"): type(f.default) for f in fields(RunConfig)}
    for table, values in raw.items():
        _check_known(path, table, known, "table", known)
        if not isinstance(values, dict):
            raise UsageError(f"`{path}`: `{table}` is {values!r}", f"write a table, [{table}]")
        named = {f.name: f for f in fields(known[table])}
        for key, value in values.items():
            _check_known(path, key, named, f"key of [{table}]", known)
            values[key] = typed(path, named[key], value)
        tables[table.replace("-", "_")] = values
    return tables


def _check_known(path: Path, name: str, known: Any, noun: str, tables: dict[str, Any]) -> None:
    """An error with where a key belongs, or what this name is called here."""
    if name in known:
        return
    plain = name.replace("-", "_")
    owner = {f.name: table for table, kind in tables.items() for f in fields(kind)}
    other = next((n for n in (plain, *foreign.keys(plain)) if n in owner), "")
    if other in known:
        hint = f"did you mean `{other}`?"
    elif other:
        where = f"belongs in [{owner[other]}]"
        hint = f"`{name}` {where}" if other == name else f"did you mean `{other}`? it {where}"
    elif text := foreign.instead(plain):
        hint = f"did you mean {text}?"
    elif near := difflib.get_close_matches(name, known, n=1):
        hint = f"did you mean `{near[0]}`?"
    else:
        hint = f"there are {', '.join(known)}"
    raise UsageError(f"`{path}`: unknown {noun} `{name}`", hint)


def typed(path: Path, option_field: dataclasses.Field[Any], value: Any) -> Any:
    """A value of a TOML file as its option takes it; an error if it is of another type."""
    kind = option_field.type
    if isinstance(value, {"list": list, "table": dict}.get(option_field.metadata["spelled"], ())):
        text = option_types.spell(value, Any)
        return text if isinstance(value, list) else text[1:-1]
    if get_origin(kind) is Literal:
        fits = value in get_args(kind)
    else:
        fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits:
        choices = f"; it may be {', '.join(get_args(kind))}" if get_args(kind) else ""
        raise UsageError(
            f"`{path}`: `{option_field.name}` is {value!r}",
            f"write it as in `{option_field.name} = {toml(option_field.default)}`{choices}",
        )
    return float(value) if kind is float else value
