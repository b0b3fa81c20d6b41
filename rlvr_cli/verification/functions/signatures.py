"""How to call a user's reward function, from the names of its parameters.

    own            f(completion, answer=..., extra=...)                 one completion
    trl            f(prompts, completions, completion_ids, **columns)   all of a prompt
    verl           f(data_source, solution_str, ground_truth, extra_info=None)
    verl-batch     f(data_sources, solution_strs, ground_truths, extra_infos)
    open-instruct  f(tokenized_prediction, prediction, label, query=None)

Each may name any of these, in any order, and may be `async def`. A class is instantiated first,
without arguments.
"""

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rlvr_cli.errors import UsageError

Style = Literal["own", "trl", "verl", "verl-batch", "open-instruct"]
Form = Literal["text", "messages", ""]

OF_TRL = ("prompts", "completions", "completion_ids")
UNKNOWN = ("trainer_state", "environments")  # what only a trainer of TRL has
LOGGING = ("log_extra", "log_metric")
SOLUTIONS = ("solution_str", "predict_str", "model_output")  # what verl's graders call it
_NAMES: dict[Style, tuple[str, ...]] = {
    "trl": OF_TRL,
    "verl": ("data_source", *SOLUTIONS, "ground_truth", "extra_info"),
    "verl-batch": ("data_sources", "solution_strs", "ground_truths", "extra_infos"),
    "open-instruct": ("tokenized_prediction", "prediction", "label", "query"),
}
_MARKS: dict[Style, tuple[str, ...]] = {
    "trl": OF_TRL,
    "verl": SOLUTIONS,
    "verl-batch": ("solution_strs",),
    "open-instruct": ("prediction",),
}
GOLDS = ("answer", "solution", "ground_truth", "gold", "target", "label")
"""Columns of TRL's functions that are the gold answer, where a prompt has no such column."""


@dataclass(frozen=True)
class Parameter:
    name: str
    is_required: bool
    is_positional: bool
    annotation: str = ""


@dataclass(frozen=True)
class Signature:
    """What a function is given: `names` by keyword, and all that there is if it `takes_all`."""

    style: Style
    names: tuple[str, ...]
    takes_all: bool
    required: tuple[str, ...] = ()  # columns of TRL's style
    form: Form = ""  # of completions in TRL's style, if the function's annotation says it


def of(where: str, source: bytes, function: str, load: Callable[[], Any]) -> Signature:
    """The signature of a function of a file; UsageError if it is none of the known ones.

    A plain `def` is read from the source, which is not run for it; `load` gives anything else.
    """
    node = _defined(source, function)
    if node is not None:
        parameters, takes_all = _of_tree(node.args)
    else:
        parameters, takes_all = _of_object(load(), where)
    return _matched(where, parameters, takes_all)


def _defined(source: bytes, function: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The plain `def` that a name of a file is bound to last, None if it is anything else."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            return None if node.decorator_list else node
        if any(isinstance(n, ast.Name) and n.id == function for n in _targets(node)):
            return None
    return None


def _targets(node: ast.stmt) -> list[ast.AST]:
    """What a statement of a file may bind; of a plain definition nothing."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    return [n for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store)]


def _of_tree(arguments: ast.arguments) -> tuple[list[Parameter], bool]:
    positional = [*arguments.posonlyargs, *arguments.args]
    optional = len(arguments.defaults)
    parameters = [
        Parameter(a.arg, number < len(positional) - optional, True, _annotation(a))
        for number, a in enumerate(positional)
    ]
    if arguments.vararg:
        parameters.append(Parameter("", False, True))
    parameters += [
        Parameter(a.arg, default is None, False, _annotation(a))
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return parameters, arguments.kwarg is not None


def _annotation(argument: ast.arg) -> str:
    return ast.unparse(argument.annotation) if argument.annotation else ""


def _of_object(value: Any, where: str) -> tuple[list[Parameter], bool]:
    call = getattr(value, "__call__", value) if isinstance(value, type) else value  # noqa: B004
    try:
        listed = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError) as error:
        raise _refused(where, f"its parameters are not known: {error}") from error
    if isinstance(value, type):
        listed = listed[1:]  # self
    named = [p for p in listed if p.kind is not p.VAR_KEYWORD]
    parameters = [
        Parameter(
            "" if p.kind is p.VAR_POSITIONAL else p.name,
            p.default is p.empty and p.kind is not p.VAR_POSITIONAL,
            p.kind is not p.KEYWORD_ONLY,
            "" if p.annotation is p.empty else inspect.formatannotation(p.annotation),
        )
        for p in named
    ]
    return parameters, len(named) < len(listed)


def _matched(where: str, parameters: list[Parameter], takes_all: bool) -> Signature:
    names = {p.name for p in parameters}
    for style, marks in _MARKS.items():
        if names & set(marks):
            return _named(where, style, parameters, takes_all)
    first, *others = parameters or [Parameter("", False, False)]
    taken = {"answer", "extra"} & {p.name for p in others}
    lacking = [p.name for p in others if p.is_required and p.name not in ("answer", "extra")]
    is_own = taken or takes_all or first.name == "completion"
    if not first.is_positional or not is_own or lacking:
        raise _refused(where, f"it takes {_listed(parameters, takes_all)}")
    return Signature("own", tuple(sorted(taken)), takes_all)


def _named(where: str, style: Style, parameters: list[Parameter], takes_all: bool) -> Signature:
    known = {*_NAMES[style], *LOGGING} if style == "trl" else set(_NAMES[style])
    others = tuple(p.name for p in parameters if p.is_required and p.name not in known)
    missing = [name for name in others if style != "trl" or name in UNKNOWN]
    if missing:
        raise _refused(where, f"nothing here is its `{missing[0]}`")
    annotations = {p.name: p.annotation for p in parameters}
    names = tuple(p.name for p in parameters if p.name)
    return Signature(style, names, takes_all, others, _form(annotations.get("completions", "")))


def _form(annotation: str) -> Form:
    """What an annotation such as `list[list[dict[str, str]]]` says of the completions."""
    text = annotation.casefold()
    if "dict" in text or "message" in text:
        return "messages"
    return "text" if "str" in text else ""


def _listed(parameters: list[Parameter], takes_all: bool) -> str:
    names = [p.name or "*args" for p in parameters] + ["**"] * takes_all
    return f"({', '.join(names)})"


def _refused(where: str, why: str) -> UsageError:
    return UsageError(
        f"`{where}` has no signature that is known: {why}",
        "write it as f(completion, answer, extra), f(completions, **columns) as in TRL, "
        "f(data_source, solution_str, ground_truth, extra_info=None) as in verl, or "
        "f(tokenized_prediction, prediction, label, query=None) as in open-instruct",
    )
