"""The options of a spec: the given values, and a signature's defaults for the others."""

import contextlib
import difflib
import inspect
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import Any, Literal, get_args, get_origin

from rlvr_cli.errors import UsageError
from rlvr_cli.specs import foreign, option_types
from rlvr_cli.specs.grammar import Value

_NAMELESS = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def parameters(name: str, build: Callable[..., Any]) -> dict[str, Parameter]:
    """The options that a builder takes, with their types; an error if it takes others too."""
    try:
        options = dict(inspect.signature(build, eval_str=True).parameters)
        nameless = [str(p) for p in options.values() if p.kind in _NAMELESS]
    except (ValueError, TypeError, NameError) as error:
        nameless = [str(error)]
    if nameless:
        raise UsageError(
            f"`{name}` is not a builder: {', '.join(nameless)}",
            "each parameter is an option, as in `def build(*, alpha: float = 1.0)`",
        )
    return options


def of(
    name: str, given: Iterable[tuple[str, Value | None]], known: dict[str, Parameter]
) -> dict[str, Any]:
    """Every option by its name, as its type has it."""
    values = {key: parameter.default for key, parameter in known.items()}
    seen: set[str] = set()
    for key, value in given:
        if key not in known:
            raise _unknown(name, key, known)
        if key in seen and not option_types.is_list(known[key].annotation):
            raise UsageError(f"`{name}` is given option `{key}` twice", "give each option once")
        if value is None:
            raise UsageError(
                f"option `{key}` of `{name}` has no value",
                f"write `{name}:{key}={_example(known[key])}`",
            )
        more = _convert(name, key, value, known[key])
        if key in seen:  # a list may be given an item at a time
            more = [*_listed(values[key]), *_listed(more)]
        seen.add(key)
        values[key] = more
    for key, value in values.items():
        if value is Parameter.empty:
            raise UsageError(
                f"`{name}` needs the option `{key}`",
                f"write `{name}:{key}={_example(known[key])}`",
            )
    return values


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def described(parameter: Parameter) -> dict[str, Any]:
    """The default of an option, null where it must be given, and its choices if it has any."""
    kind, is_required = parameter.annotation, parameter.default is Parameter.empty
    described: dict[str, Any] = {"default": None if is_required else parameter.default}
    if is_required:
        described["required"] = True
    if get_origin(kind) is Literal:
        described["choices"] = [str(choice) for choice in get_args(kind)]
    return described


def needed(known: dict[str, Parameter]) -> str:
    """The options that have no default, as they may be written."""
    missing = (key for key, option in known.items() if option.default is Parameter.empty)
    return ",".join(f"{key}={_example(known[key])}" for key in missing)


def _unknown(name: str, key: str, known: dict[str, Parameter]) -> UsageError:
    near = foreign.in_spec(key, known) or difflib.get_close_matches(key, known, n=1)
    start = f"did you mean {' or '.join(f'`{other}`' for other in near)}? " if near else ""
    listed = ", ".join(known) or "none"
    return UsageError(
        f"`{name}` has no option `{key}`", f"{start}the options of `{name}` are {listed}"
    )


def _convert(name: str, key: str, value: Value, parameter: Parameter) -> Any:
    kind = parameter.annotation
    try:
        return option_types.convert(value, kind)
    except (ValueError, TypeError):
        text = value if isinstance(value, str) else option_types.spell(value, Any)
        raise UsageError(
            f"option `{key}` of `{name}` is `{text}`, {option_types.expected(kind)} was expected",
            f"write `{name}:{key}={_example(parameter, value)}`",
        ) from None


def _example(parameter: Parameter, given: Value | None = None) -> str:
    """A value that the option takes: what was given, as a list, or its default, if it says much."""
    kind = parameter.annotation
    if isinstance(given, str):
        with contextlib.suppress(ValueError, TypeError):
            return option_types.spell(option_types.convert([given], kind), kind, plus_ends=True)
    default = parameter.default
    if default is not False and default in (Parameter.empty, None, (), [], {}, "", 0):
        return option_types.example(kind)
    return option_types.spell(default, kind, plus_ends=True)
