"""The folder listing is the registry; the signature of a file's `build` is its options.

A spec is `name:option=value,option=value`; modifiers follow behind plus signs, as in
`dapo:clip_high=0.3+iac:alpha=1+kl:beta=0.001`. Names are in kebab case, files in snake case.
"""

import ast
import difflib
import importlib
import inspect
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from rlvr_cli.errors import UsageError

_ROOT = Path(__file__).parent
_PACKAGES = {
    "formats": "interop/formats",
    "modifiers": "algorithms/modifiers",
    "objectives": "algorithms/objectives",
    "rollout": "engines/rollout",
    "similarities": "evaluation/similarities",
    "training": "engines/training",
    "verifiers": "verification/verifiers",
}


def names(folder: str) -> list[str]:
    """The names that a folder offers, sorted."""
    stems = (path.stem for path in (_ROOT / package(folder)).glob("*.py"))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def summary(folder: str, name: str) -> str:
    """The first line of a file's docstring, read without importing it."""
    source = (_ROOT / package(folder) / f"{name.replace('-', '_')}.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def module(folder: str, name: str) -> Any:
    """The module behind a name; an error with the nearest names if there is none."""
    known = names(folder)
    if name not in known:
        engines = {"rollout": "rollout engine", "training": "training engine"}
        noun = engines.get(folder, folder.removesuffix("s"))
        near = " or ".join(f"`{other}`" for other in _nearest(name.lower(), known))
        hint = f"did you mean {near}?" if near else ""
        raise UsageError(f"unknown {noun} `{name}`", hint or f"there are {', '.join(known)}")
    dotted = package(folder).replace("/", ".")
    return importlib.import_module(f"rlvr_cli.{dotted}.{name.replace('-', '_')}")


def package(folder: str) -> str:
    return _PACKAGES.get(folder, folder)


def _nearest(name: str, known: list[str]) -> list[str]:
    """The up to three names most like this one, and none much less like it than the first."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, other, name).ratio() for other in near]
    return [other for other, like in zip(near, likeness, strict=True) if like > likeness[0] - 0.1]


def options(folder: str, name: str) -> dict[str, inspect.Parameter]:
    """The options of a name: the parameters of its `build`."""
    return dict(inspect.signature(module(folder, name).build).parameters)


def earlier(folder: str, name: str) -> dict[str, Any]:
    """What a spec that an earlier version stored means by the options that it does not name.

    A file says so in `EARLIER` of each option that it gained, or whose default it changed.
    """
    return dict(getattr(module(folder, name), "EARLIER", {}))


def version(folder: str, name: str) -> int:
    """The version of what a file does: it rises when the same options give other results."""
    return int(getattr(module(folder, name), "VERSION", 1))


def parse(folder: str, spec: str, stored: str | None = None) -> tuple[str, dict[str, Any]]:
    """The name and every option of a spec, defaults included, each of its declared type.

    With `stored`, the spec that a directory or a run was begun with, an option that `spec` leaves
    out is as it was there. The stored spec itself is read by `parse(folder, stored, stored)`.
    """
    name, values = _given(folder, spec)
    defaults = {key: parameter.default for key, parameter in options(folder, name).items()}
    if stored is not None:
        defaults |= earlier(folder, name)
        if stored.strip().partition(":")[0] == name:
            defaults |= _given(folder, stored)[1]
    return name, defaults | values


def _given(folder: str, spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a spec and the options that it names."""
    name, colon, text = spec.strip().partition(":")
    known = options(folder, name)
    values: dict[str, Any] = {}
    for item in filter(None, text.split(",")) if colon else ():
        key, equals, value = item.partition("=")
        key = key.strip()
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            listed = ", ".join(known) or "none"
            start = f"did you mean `{near[0]}`? " if near else ""
            raise UsageError(
                f"`{name}` has no option `{key}`", f"{start}the options of `{name}` are {listed}"
            )
        if key in values:
            raise UsageError(f"`{spec}` gives option `{key}` twice", "give each option once")
        if not equals:
            raise UsageError(
                f"option `{key}` of `{name}` has no value",
                f"write `{name}:{key}={known[key].default}`",
            )
        values[key] = _convert(name, key, value.strip(), known[key])
    return name, values


def _convert(name: str, key: str, value: str, parameter: inspect.Parameter) -> Any:
    kind = parameter.annotation
    try:
        if get_origin(kind) is Literal:
            if value in get_args(kind):
                return value
            expected = f"one of {', '.join(get_args(kind))}"
        elif kind is bool:
            expected = "true or false"
            return {"true": True, "false": False}[value.lower()]
        else:
            expected = {int: "a whole number", float: "a number"}.get(kind, "text")
            made = kind(value)
            if made == made:
                return made
    except (ValueError, KeyError):
        pass
    raise UsageError(
        f"option `{key}` of `{name}` is `{value}`, {expected} was expected",
        f"write `{name}:{key}={parameter.default}`",
    )


def build(folder: str, spec: str) -> Any:
    """What the `build` of a spec's file returns for the spec's options."""
    name, values = parse(folder, spec)
    try:
        return module(folder, name).build(**values)
    except ValueError as error:
        raise UsageError(f"`{spec}`: {error}", f"see `rlvr list {folder}`") from error


def canonical(folder: str, spec: str, stored: str | None = None) -> str:
    """The one spelling of a spec: every option written out, in the signature's order."""
    name, values = parse(folder, spec, stored)
    text = ",".join(f"{key}={_spell(value)}" for key, value in values.items())
    return f"{name}:{text}" if text else name


def _spell(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).replace("e+", "e")
