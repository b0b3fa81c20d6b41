"""A function in your own file: `path.py:function`."""

import functools
import hashlib
import inspect
import math
import shlex
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import UsageError, UserError, first_line
from rlvr_cli.protocols import Equality, Group, GroupVerifier, Isolated, Limits, Verdict
from rlvr_cli.specs import user_code
from rlvr_cli.verification.functions import calls, returned, signatures
from rlvr_cli.verification.functions.signatures import Signature

EQUALITY: Equality = "text"  # whether an answer of a user's function can be its gold is not known
WHOLE_TEXT = True  # a function may look at what a model thought
EARLIER = {"range": None, "completions": "auto", "sha256": ""}
_IMPORTING_S = 120.0  # for what the file imports, in each process once


def build(
    *,
    path: str = "",
    function: str = "verify",
    timeout_s: float = 10.0,
    memory_mib: int = 2048,
    range: tuple[float, float] | None = None,
    completions: Literal["auto", "text", "messages"] = "auto",
    sha256: str = "",
) -> Isolated | GroupVerifier:
    """A function of the file at `path`, in a process of its own; a class is called first.

    It has one of these signatures, of which it may leave out what it does not use:
    `f(completion, answer, extra)`; TRL's `f(prompts, completions, completion_ids, **columns)`,
    called with all completions of a prompt; verl's
    `f(data_source, solution_str, ground_truth, extra_info)`; open-instruct's
    `f(tokenized_prediction, prediction, label, query)`. It may be `async def`.
    Rewards are from 0 to 1, unless `range` or a `REWARD_RANGE = (-1, 1)` of the file says
    otherwise; without a `correct` a completion is correct if it has the highest. `completions`
    says how TRL's functions get them; auto: as they are annotated, else as the prompt is stored.
    `sha256` refuses a file of other content.
    """
    if not path:
        raise UsageError("`custom` has no file", "name one: `--verifier path.py:function`")
    file, source = user_code.pinned(path, sha256, "the verifier")
    if timeout_s <= 0 or memory_mib <= 0:
        raise ValueError("timeout_s and memory_mib must be above 0")
    if range and not range[0] < range[1]:
        raise ValueError("the range must rise, as in range=[-1,1]")
    load = functools.partial(_load, file, source, function)
    signature = signatures.of(f"{path}:{function}", source, function, lambda: _known(load, path))
    limits = Limits(timeout_s, memory_mib << 20, first_seconds=_IMPORTING_S)
    version = hashlib.sha256(source).hexdigest()
    if signature.style != "own":
        return _group_verifier(signature, load, limits, version, range, completions)

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        call, bounds = load()
        if extracted is None:  # only the gold is given: only the function could know
            return Verdict("no_answer", reward=0.0, correct=False)
        given = {"answer": answer, "extra": extra}
        if not signature.takes_all:
            given = {name: given[name] for name in signature.names}
        return returned.verdict(calls.awaited(call(extracted, **given)), range or bounds)

    return Isolated(
        extract=lambda completion, finished: completion,
        judge=judge,
        limits=limits,
        version=version,
        reads=("*",),
        is_pure=False,  # what it imports or asks may change, and its version does not
    )


def _group_verifier(
    signature: Signature,
    load: Callable[[], tuple[Callable[..., Any], returned.Bounds]],
    limits: Limits,
    version: str,
    bounds: returned.Bounds | None,
    completions: str,
) -> GroupVerifier:
    is_batched = signature.style in ("trl", "verl-batch")

    def judge(group: Group) -> list[Verdict]:
        function, own = load()
        form = calls.form_of(group, signature, completions)
        values = calls.call(function, signature, group, form)
        if signature.style == "verl" and isinstance(values, tuple) and values:
            values = values[0]  # as verl takes it: the others are remarks of its graders
        if not is_batched:
            return [returned.verdict(values, bounds or own)]
        may_skip = signature.style == "trl"
        return returned.verdicts(values, len(group.completions), bounds or own, may_skip=may_skip)

    return GroupVerifier(
        judge,
        limits,
        version,
        is_batched=is_batched,
        columns=tuple(n for n in signature.required if n not in signatures.GOLDS),
        reads_tokens=bool({"completion_ids", "tokenized_prediction"} & {*signature.names}),
        needs_tokens="completion_ids" in signature.names,
    )


@functools.cache
def _load(path: str, source: bytes, function: str) -> tuple[Callable[..., Any], returned.Bounds]:
    """The function of a file, or the object that its class makes, and the range of its rewards.

    The source is compiled each time: bytecode of a file that changed within a second is stale.
    """
    module = types.ModuleType(f"rlvr_custom_verifier_{hashlib.sha256(source).hexdigest()[:12]}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # dataclasses look there
    if (folder := str(Path(path).parent)) not in sys.path:
        sys.path.append(folder)  # modules next to the file can be imported, as where it is run
    exec(compile(source, path, "exec"), vars(module))
    call = getattr(module, function, None)
    if not callable(call):
        known = user_code.functions(module)
        raise UsageError(f"`{path}` has no function `{function}`", f"it has {known}")
    low, high = getattr(module, "REWARD_RANGE", (0.0, 1.0))
    if math.isnan(float(low)) or not float(low) < float(high):
        raise UsageError(f"`{path}`: REWARD_RANGE is {(low, high)}", "write the lower bound first")
    function_or_object: Any = call
    if inspect.isclass(call):
        function_or_object = call()
    return function_or_object, (float(low), float(high))


def _known(load: Callable[[], tuple[Callable[..., Any], Any]], path: str) -> Any:
    """What the file gives, in this process; an error that says why it cannot be run."""
    try:
        return load()[0]
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"`{path}` cannot be run: {type(error).__name__}: {first_line(error)}"
            f"{user_code.raised_at(error)}",
            f"`python {shlex.quote(path)}` shows where",
        ) from error
