"""Options added to commands: whom to trust, and where the parents of directories are now."""

import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import nodes
from rlvr_cli.specs import trust
from rlvr_cli.terminal import console

Command = Callable[..., Any]

TrustFile = Annotated[
    list[Path] | None,
    typer.Option(
        "--trust-file", exists=True, dir_okay=False,
        help="let this code run if data, a manifest or a configuration names it; repeatable",
        rich_help_panel=config.FILES,
    ),
]  # fmt: skip
TrustHost = Annotated[
    list[str] | None,
    typer.Option(
        "--trust-host", metavar="URL",
        help="let completions go to this host if data, a manifest or a configuration names it, "
        "as in http://localhost:8000; repeatable",
        rich_help_panel=config.FILES,
    ),
]  # fmt: skip
Nnodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="nodes; start this same command on each \\[default: 1]",
        rich_help_panel=config.MEMORY,
    ),
]
NodeRank = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="the rank of this node, from 0 \\[default: in order of arrival]",
        rich_help_panel=config.MEMORY,
    ),
]
RdzvEndpoint = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="where nodes meet: a free port on one of them \\[default: MASTER_ADDR:MASTER_PORT, "
        "or the first node of Slurm's step]",
        rich_help_panel=config.MEMORY,
    ),
]
_READ = ("prompts", "rollouts")
_PARENTS = {
    "compare": (*_READ, "scores"), "diversity": _READ, "doctor": ("rollouts",), "eval-passk": _READ,
    "export": (*_READ, "scores"), "report": (*_READ, "scores"), "track": _READ,
    "train-step": ("scores",), "ucc": _READ, "view": (*_READ, "scores"),
}  # fmt: skip
"""The kinds of directories that a command looks up as parents of what it is given.

`doctor` has a --prompts of its own, which is both the run's and that.
"""
_ALONE = ("doctor", "serve")
"""The commands whose --nproc is no number of processes that meet."""


def extended(name: str, command: Command) -> Command:
    """A command with the options that are added to it."""
    return _trusts(_moved(name, _on_nodes(name, command)))


def _trusts(command: Command) -> Command:
    """Gives a command `--trust-file` and `--trust-host`, for what only something it reads names."""

    def wrapper(**values: Any) -> Any:
        files, hosts = values.pop("trust_file") or [], values.pop("trust_host") or []
        trust.trust(trust.Named(files=files, hosts=hosts))
        _require_finite(values)
        return command(**values)

    return taking(wrapper, command, trust_file=TrustFile, trust_host=TrustHost)


def _require_finite(values: dict[str, Any]) -> None:
    """An error for an option that is infinite or no number, as a float may be."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')} is {value}", "it must be a finite number")


def _on_nodes(name: str, command: Command) -> Command:
    """Gives a command of several processes the options that start them on several nodes."""
    if "nproc" not in inspect.signature(command).parameters or name in _ALONE:
        return command

    def wrapper(**values: Any) -> Any:
        count, rank = values.pop("nnodes") or 1, values.pop("node_rank")
        nodes.set_options(count, rank, values.pop("rdzv_endpoint"))
        return command(**values)

    return taking(wrapper, command, nnodes=Nnodes, node_rank=NodeRank, rdzv_endpoint=RdzvEndpoint)


def _moved(name: str, command: Command) -> Command:
    """Gives a command `--prompts DIR` and its like, for the parents that moved of what it reads."""
    flags = {f"moved_{kind}": kind for kind in _PARENTS.get(name, ())}
    if not flags:
        return command

    def wrapper(**values: Any) -> Any:
        from rlvr_cli.storage import moved
        from rlvr_cli.storage.shards import Shards

        given = {
            Shards.open(path, kind).digest: path
            for flag, kind in flags.items()
            for path in values.pop(flag) or []
        }
        for digest, path in given.items():
            moved.remember(digest, path)
        result = command(**values)
        for path in (path for digest, path in given.items() if not moved.is_used(digest)):
            console.remark(name, f"warning: no directory that was read was made from `{path}`")
        return result

    return taking(wrapper, command, **{flag: _flag(kind) for flag, kind in flags.items()})


def _flag(kind: str) -> Any:
    text = f"where the {kind} that this input was made from are now; repeatable"
    option = typer.Option(f"--{kind}", metavar="DIR", help=text, rich_help_panel=config.FILES)
    return Annotated[list[Path] | None, option]


def taking(
    wrapper: Command,
    command: Command,
    *,
    defaults: dict[str, Any] | None = None,
    without: str = "",
    **added: Any,
) -> Command:
    """A wrapper that takes a command's parameters, but for one, and those that were added.

    An added one is None unless `defaults` says otherwise.
    """
    keyword, defaults = inspect.Parameter.KEYWORD_ONLY, defaults or {}
    signature = inspect.signature(command)
    own = [p.replace(kind=keyword) for n, p in signature.parameters.items() if n != without]
    more = [
        inspect.Parameter(n, keyword, default=defaults.get(n), annotation=k)
        for n, k in added.items()
    ]
    wrapped = functools.wraps(command)(wrapper)
    wrapped.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *more]}
    return wrapped
