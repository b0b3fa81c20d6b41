"""The folder listing is the registry; the signature of a file's `build` is its options.

A spec is `name:option=value,option=value`; modifiers follow after plus signs, as in
`dapo:clip_high=0.3+iac:alpha=1+kl:beta=0.001`; specs/grammar.py has the grammar. Names are
in kebab case, files in snake case.

A name that no folder has is one of the user's own, and spelled and used alike for every kind:

    NAME           an entry point of an installed package, of the group `rlvr.objectives`,
                   `rlvr.modifiers`, `rlvr.verifiers`, `rlvr.rollout`, `rlvr.training`,
                   `rlvr.tasks`, `rlvr.similarities`, `rlvr.layouts`, `rlvr.trackers` or
                   `rlvr.formats`: a module with a `build`, or a builder
    FILE.py:NAME   a builder of a file, as in `--algo ./mine.py:build:clip=0.3+kl`

A builder is a function like a folder's `build`: its keyword parameters are its options, and it
returns what theirs return. A verifier's file may hold a plain function of a completion too (see
verifiers/custom.py). The canonical spelling says which file or package was used, in an option
`from`: `mine.py:build:from=sha256-...,clip=0.3`, `own:from=mypackage==1.0`.
"""

import ast
import difflib
import importlib
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.errors import Untrusted, UsageError, UserError, first_line
from rlvr_cli.specs import foreign, grammar, option_types, user_code, values
from rlvr_cli.specs.grammar import Spec

_ROOT = Path(__file__).parent
_PACKAGES = {
    "formats": "interop/formats",
    "modifiers": "algorithms/modifiers",
    "objectives": "algorithms/objectives",
    "rollout": "engines/rollout",
    "similarities": "evaluation/similarities",
    "trackers": "tracking/trackers",
    "training": "engines/training",
    "verifiers": "verification/verifiers",
}
_NOUNS = {"rollout": "rollout engine", "training": "training engine", "similarities": "similarity"}
_SUMMED = ("objectives", "modifiers", "verifiers")  # a `+` ends a spec of these
_FROM = "from"  # no parameter can have that name


def names(folder: str) -> list[str]:
    """The names that a folder offers, sorted."""
    stems = (path.stem for path in (_ROOT / package(folder)).glob("*.py"))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def installed(folder: str) -> dict[str, list[user_code.Offer]]:
    """What installed packages offer besides a folder's own names, which win."""
    own = names(folder)
    return {name: o for name, o in user_code.offers(folder).items() if name not in own}


def summary(folder: str, name: str) -> str:
    """The first line of a file's docstring, read without importing it.

    Of a name or spec that is not rlvr's own, that of its function.
    """
    if name not in names(folder):
        resolved = _resolve(folder, _read(folder, name))
        text = inspect.getdoc(resolved.builder) or resolved.module.__doc__ or ""
        return text.partition("\n")[0]
    source = (_ROOT / package(folder) / f"{name.replace('-', '_')}.py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def entries(folder: str, *, in_full: bool) -> dict[str, dict[str, Any]]:
    """What a folder and the installed packages offer: a summary, and `in_full` the options too."""
    own = names(folder)
    described = {name: _described(folder, name, in_full) for name in own}
    for name, offers in user_code.offers(folder).items():
        label = f"{name} (hidden)" if name in own else name
        described[label] = _offered(folder, offers, in_full and name not in own)
    return described


def entry(folder: str, spec: str) -> dict[str, dict[str, Any]]:
    """The entry of one name or spec, in full, with what its builder says of it."""
    said = (
        None if folder == "formats" else inspect.getdoc(_resolve(folder, _read(folder, spec)).build)
    )
    return {spec: _described(folder, spec, True) | ({"text": said} if said else {})}


def _described(folder: str, name: str, in_full: bool) -> dict[str, Any]:
    """The summary of a name; `in_full` its spec with every option, defaults and choices too."""
    described: dict[str, Any] = {"summary": summary(folder, name)}
    if not in_full or folder == "formats":
        return described
    parameters = options(folder, name)
    known = {key: values.described(option) for key, option in parameters.items()}
    is_complete = all("required" not in option for option in known.values())
    spec = canonical(folder, name) if is_complete else f"{name}:{values.needed(parameters)}"
    return described | {"spec": spec, "options": known}


def _offered(folder: str, offers: list[user_code.Offer], in_full: bool) -> dict[str, Any]:
    """An addition of installed packages, with its origin; the error if it is broken."""
    name, origin = offers[0].name, " and ".join(offer.origin for offer in offers)
    if name in names(folder):
        return {"summary": f"of {origin}, hidden by rlvr's own `{name}`", "from": origin}
    offered = {"summary": f"{offers[0].summary()} ({origin})", "from": origin}
    try:
        return (_described(folder, name, True) if in_full else {}) | offered
    except UserError as error:
        return offered | {"summary": f"{error} ({origin})"}


def package(folder: str) -> str:
    return _PACKAGES.get(folder, folder)


def module(folder: str, name: str, *, named_by: str = "") -> Any:
    """The module of a name or a spec; an error with the nearest names if there is none."""
    return _resolve(folder, _read(folder, name), named_by).module


def options(folder: str, name: str) -> dict[str, inspect.Parameter]:
    """The options of a name: the parameters of its `build`."""
    return _parameters(_resolve(folder, _read(folder, name)))


def check(folder: str, spec: str) -> None:
    """An error if a spec's name is known to no folder and no package; a file is not looked at."""
    read = grammar.read(spec)
    if not read.path and read.name not in names(folder) and read.name not in installed(folder):
        raise _unknown(folder, read.name)


def version(folder: str, name: str) -> int:
    """The `VERSION` of what a file does: it rises when the same options give other results.

    Of code that is not rlvr's own the spec says the digest or the version already: it is 1.
    """
    own = _read(folder, name).name
    return int(getattr(module(folder, own), "VERSION", 1)) if own in names(folder) else 1


def parse(folder: str, spec: str, stored: str | None = None) -> tuple[str, dict[str, Any]]:
    """The name and every option of a spec, defaults included, each of its declared type.

    With `stored`, the spec that a directory or a run was begun with, an option that `spec` leaves
    out is as it was there; `parse(folder, stored, stored)` reads a stored spec.
    """
    read = _read(folder, spec)
    resolved = _resolve(folder, read)
    return resolved.name, _values(read, resolved) | _before(folder, read, resolved, stored)


def build(folder: str, spec: str, *, named_by: str = "") -> Any:
    """What the `build` of a spec's file returns for the spec's options.

    `named_by` says what a spec was read from that is not the command line.
    """
    read = _read(folder, spec)
    resolved = _resolve(folder, read, named_by)
    options = _values(read, resolved)
    try:
        return resolved.build(**options)
    except ValueError as error:
        where = shlex.quote(spec) if resolved.origin else resolved.name
        raise UsageError(f"`{spec}`: {error}", f"see `rlvr list {folder} {where}`") from error
    except Untrusted as error:  # of the options, as of `custom:path=evil.py`
        raise Untrusted(error.name, named_by, error.kind) from None
    except Exception as error:
        if isinstance(error, UserError) or not resolved.origin:
            raise
        where = user_code.blamed(error) or f"`{spec}`"
        raise UsageError(
            f"{where}: {type(error).__name__}: {first_line(error)}",
            f"the error is raised within `{resolved.name}`",
        ) from error


def canonical(folder: str, spec: str, stored: str | None = None, *, named_by: str = "") -> str:
    """The one spelling of a spec: every option written out, in the signature's order.

    What is not rlvr's own says first which file or package it is from. A file is named without its
    folder, so that it may be elsewhere.
    """
    read = _read(folder, spec)
    resolved = _resolve(folder, read, named_by)
    parameters = _parameters(resolved)
    options = _values(read, resolved) | _before(folder, read, resolved, stored)
    return _spelled(folder, resolved.name, options, parameters, resolved.origin)


def short(folder: str, spec: str) -> str:
    """A spec of rlvr's own without the options that are the defaults; another as it is."""
    resolved = _resolve(folder, _read(folder, spec))
    if resolved.origin:
        return spec
    parameters = _parameters(resolved)
    values = _values(_read(folder, spec), resolved)
    changed = {key: value for key, value in values.items() if value != parameters[key].default}
    return _spelled(folder, resolved.name, changed, parameters)


def _spelled(
    folder: str,
    name: str,
    options: dict[str, Any],
    parameters: dict[str, inspect.Parameter],
    origin: str = "",
) -> str:
    """A name with its options, each written so that it is read as the same value."""
    ends = folder in _SUMMED
    spelled = {_FROM: grammar.quoted(origin, within="+")} if origin else {}
    spelled |= {
        key: option_types.spell(value, parameters[key].annotation, plus_ends=ends)
        for key, value in options.items()
    }
    text = ",".join(f"{key}={value}" for key, value in spelled.items())
    return f"{name}:{text}" if text else name


def inlined(folder: str, spec: str) -> str:
    """A canonical spec with the content of the files that its options name, in their place.

    `inlined` of the spec's file does that; a spec of one that has none is as it was.
    """
    inline = getattr(module(folder, spec), "inlined", None)
    if inline is None:
        return spec
    name, chosen = parse(folder, spec)
    return _spelled(folder, name, inline(chosen), options(folder, spec))


def identity(folder: str, spec: str) -> str:
    """A canonical spec, inlined, without the options that decide no result.

    The spec's file lists these as `UNDECIDING`: where a service is, how long it is waited for.
    """
    undeciding = getattr(module(folder, spec), "UNDECIDING", ())
    if not undeciding:
        return spec
    name, chosen = parse(folder, inlined(folder, spec))
    kept = {key: value for key, value in chosen.items() if key not in undeciding}
    return _spelled(folder, name, kept, options(folder, spec))


def origins(folder: str, spec: str) -> dict[str, str]:
    """The file or package of a spec that is not rlvr's own: its name, and its digest or version."""
    resolved = _resolve(folder, _read(folder, spec))
    return {resolved.name: resolved.origin} if resolved.origin else {}


@dataclass(frozen=True)
class _Resolved:
    """The entry of a name; `origin` is empty for rlvr's own."""

    name: str
    module: Any
    builder: Callable[..., Any] | None
    origin: str = ""

    @property
    def build(self) -> Callable[..., Any]:
        if callable(self.builder):
            return self.builder
        raise UsageError(
            f"`{self.name}` is no builder",
            "name a function whose keyword parameters are the options, or a module with a `build`",
        )


def _read(folder: str, spec: str) -> Spec:
    """A spec as it is written; a plain function of a file becomes the options of `custom`."""
    read = grammar.read(spec)
    is_new = read.path and _FROM not in dict(read.options)
    if folder == "verifiers" and is_new and not user_code.is_builder(read.path, read.function):
        own = (("path", read.path), ("function", read.function))
        return Spec("custom", (*own, *read.options))
    return read


def _resolve(folder: str, read: Spec, named_by: str = "") -> _Resolved:
    origin = str(dict(read.options).get(_FROM) or "")
    if read.path:
        code = user_code.of_file(read.path, read.function, origin=origin, named_by=named_by)
        return _outside(folder, grammar.file_name(Path(read.path).name, read.function), code)
    if read.name in names(folder):
        dotted = package(folder).replace("/", ".")
        own = importlib.import_module(f"rlvr_cli.{dotted}.{read.name.replace('-', '_')}")
        return _Resolved(read.name, own, getattr(own, "build", None))
    if offered := installed(folder).get(read.name):
        return _outside(folder, read.name, user_code.of_package(offered, origin=origin))
    if origin:
        raise UsageError(
            f"`{read.name}` is of {origin}, which is not installed", "install that package first"
        )
    raise _unknown(folder, read.name)


def _outside(folder: str, name: str, code: user_code.Code) -> _Resolved:
    """The entry of a user's own name; a format has no builder and is used as it is."""
    if folder == "formats":
        return _Resolved(name, code.value, None, code.origin)
    is_module = code.value is code.module
    builder = getattr(code.value, "build", None) if is_module else code.value
    return _Resolved(name, code.module, builder, code.origin)


def _unknown(folder: str, name: str) -> UsageError:
    known = [*names(folder), *installed(folder)]
    noun = _NOUNS.get(folder, folder.removesuffix("s"))
    if name.endswith(".py"):
        hint = f"name a function of the file, as in `{grammar.file_name(name, 'build')}`"
    else:
        like = foreign.parts(folder, name) or _nearest(name.lower(), known)
        near = " or ".join(f"`{other}`" for other in like)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
    return UsageError(f"unknown {noun} `{name}`", hint)


def _nearest(name: str, known: list[str]) -> list[str]:
    """The up to three names most like this one, and none much less like it than the first."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    likeness = [difflib.SequenceMatcher(None, other, name).ratio() for other in near]
    return [other for other, like in zip(near, likeness, strict=True) if like > likeness[0] - 0.1]


def _parameters(resolved: _Resolved) -> dict[str, inspect.Parameter]:
    return values.parameters(resolved.name, resolved.build)


def _values(read: Spec, resolved: _Resolved) -> dict[str, Any]:
    given = [(k, v) for k, v in read.options if k != _FROM or not resolved.origin]
    return values.of(read.name, given, _parameters(resolved))


def _before(folder: str, read: Spec, resolved: _Resolved, stored: str | None) -> dict[str, Any]:
    """What was meant by the options that a spec leaves out, where a stored one says it.

    A file says in `EARLIER` what its options were before it had them, or other defaults.
    """
    if stored is None:
        return {}
    before = dict(getattr(resolved.module, "EARLIER", {}))
    begun = _read(folder, stored)
    if begun.name == read.name:
        named = {key for key, _ in begun.options}
        before |= {k: v for k, v in _values(begun, resolved).items() if k in named}
    given = {key for key, _ in read.options}
    return {key: value for key, value in before.items() if key not in given}
