"""The `rlvr` command: it lists the folder of commands, and imports one when it runs."""

import ast
import contextlib
import difflib
import importlib
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rlvr_cli import __version__, errors
from rlvr_cli.cli import added, checkout, faults, followed, options, placing, usage
from rlvr_cli.runtime import distributed, signals, stdin
from rlvr_cli.specs import trust, user_code
from rlvr_cli.storage import disk, moved
from rlvr_cli.terminal import console, escape, streams

_Refusal: Any = typer.BadParameter.__mro__[2]  # click's ClickException, wherever typer keeps it
_HEAD_START_S = 5.0
_ABORTED = 130  # of typer, where an interrupt comes before it knows the command
_COMMANDS = Path(__file__).parents[1] / "commands"
_ORDER = (
    *("prompts", "rollout", "score", "logprob", "advantage", "train-step"),
    *("memory-step", "init", "train", "branch", "bench", "serve"),
    *("eval-passk", "ucc", "diversity", "coverage", "compare", "report", "view", "track"),
    *("import", "export", "convert", "push", "pull", "check", "doctor", "list"),
)


def command_names() -> list[str]:
    """The commands that the folder holds, in the order of the loop."""
    stems = [path.stem for path in _COMMANDS.glob("*.py") if not path.stem.startswith("__")]
    stems += [path.parent.name for path in _COMMANDS.glob("*/__init__.py")]
    known = {stem.strip("_").replace("_", "-") for stem in stems}
    return [n for n in _ORDER if n in known] + sorted(known - set(_ORDER))


def _file(name: str) -> Path:
    """The file of a command; a folder's is that of its package, a name in it `folder/name`."""
    stem = name.replace("-", "_")
    candidates = (f"{stem}.py", f"{stem}/__init__.py", f"{stem}_.py")
    return next(path for c in candidates if (path := _COMMANDS / c).exists())


def subcommand_names(name: str) -> list[str]:
    """The commands of a folder of commands, sorted; none of a file."""
    folder = _file(name).parent
    if folder == _COMMANDS or "/" in name:
        return []
    stems = (path.stem for path in folder.glob("*.py") if not path.stem.startswith("__"))
    return sorted(stem.replace("_", "-") for stem in stems)


def summary(name: str) -> str:
    """The first line of a command's docstring, read without importing it."""
    tree = ast.parse(_file(name).read_text())
    return (ast.get_docstring(tree) or "").partition("\n")[0]


class Commands(TyperGroup):
    """Shows each command by its docstring; loads the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return command_names()

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        if cmd_name not in command_names():
            return None
        return TyperCommand(cmd_name, help=summary(cmd_name), rich_markup_mode=None)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # typer would make it exit code 130 without a word
            raise errors.Interrupted(signals.words()) from error
        except (Exception, SystemExit) as error:
            if signals.received() and not isinstance(error, typer.Exit | errors.Interrupted):
                raise errors.Interrupted(signals.words()) from error  # as a library passes it on
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, ...]:
        if args[0] not in command_names() and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], command_names(), n=2)
            hint = f"did you mean {' or '.join(f'`rlvr {n}`' for n in near)}?" if near else ""
            raise errors.UsageError(f"unknown command `{args[0]}`", hint or "see `rlvr --help`")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(args[0]), rest


class Folder(TyperGroup):
    """The commands of a folder, such as `rlvr lab sharpening`; loads the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return subcommand_names(str(self.name))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.list_commands(ctx):
            return None
        path = f"{self.name}/{cmd_name}"
        return TyperCommand(cmd_name, help=summary(path), rich_markup_mode=None)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, ...]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"did you mean `rlvr {self.name} {near[0]}`? " if near else ""
            raise errors.UsageError(
                f"unknown command `{self.name} {args[0]}`", f"{hint}there are {', '.join(known)}"
            )
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _load(f"{self.name}/{args[0]}"), rest


def _load(name: str) -> Any:
    if subcommand_names(name):
        group = Folder(name=name, help=summary(name), no_args_is_help=True)
        group.rich_markup_mode = None
        return group
    parts = _file(name).relative_to(_COMMANDS).with_suffix("").parts
    module = importlib.import_module(".".join(["rlvr_cli.commands", *parts]))
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    last = name.rpartition("/")[2]
    command = options.announced(name.replace("/", " "), module.command)
    command = placing.placed(name, added.extended(name, console.results_alone()(command)))
    single.command(name=last, help=module.__doc__)(command)
    return typer.main.get_command(single)


# The list of commands is plain text: rich would cost more than all the rest of `rlvr --help`.
app = typer.Typer(
    cls=Commands, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _show_version(value: bool) -> None:
    if value:
        print(f"rlvr {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="print the version"
    ),
) -> None:
    """Reinforcement learning with verifiable rewards, one command per stage."""


def main(launcher: int | None = None) -> None:
    """Runs the command line; an error is one line that says what is wrong, and a hint.

    `launcher` is the pid of the process that runs the command line in several.
    """
    streams.settle()
    ending = distributed.Ending()
    distributed.end_with_launcher(launcher)
    arguments = sys.argv[1:]
    try:
        if not distributed.is_launched():
            signals.listen(lambda: _interrupted(signals.words(), arguments))
        if not distributed.current().is_main_process:
            console.mute()
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # it warns of connections left open
        os.environ.setdefault("TQDM_DISABLE", "1")  # the bars of libraries
        os.environ.setdefault(trust.SAFE_PATH, trust.OURS)  # processes that libraries start, too
        logging.getLogger("DeepSpeed").addFilter(lambda record: record.levelno >= logging.ERROR)
        ending.code = run(arguments)
        signals.stop_listening()
    except KeyboardInterrupt:  # outside of a command
        signals.stop_listening()
        ending.code = _interrupted(signals.words(), arguments)
    if ending.code == errors.DONE and distributed.is_launched():
        distributed.leave()
    sys.exit(ending.code)


def run(arguments: list[str]) -> int:
    """The exit code of a command line; the code that it names may run meanwhile."""
    with trust.trusting(trust.named_in(arguments)), moved.forgotten():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    command: Any = typer.main.get_command(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show(warnings.showwarning)
            checkout.check()
            code = int(command.main(arguments, prog_name="rlvr", standalone_mode=False) or 0)
            if code == _ABORTED:
                raise errors.Interrupted(signals.words())
            console.document("")  # what is printed and still held back fails here, if at all
            return code
    except errors.ReaderGone as error:
        return error.exit_code
    except errors.Interrupted as error:
        return _interrupted(str(error), arguments)
    except errors.Untrusted as error:
        again = escape.command(["rlvr", *arguments, error.flag, error.name])
        _fail(str(error), f"if you trust it: `{again}`")
        return error.exit_code
    except errors.UserError as error:
        _fail(str(error), error.hint)
        return error.exit_code
    except _Refusal as error:
        if usage.is_help(error):
            print(error.format_message(), file=sys.stderr)
        else:
            console.error(*usage.explained(error, _called(arguments), followed.run_of(arguments)))
        return errors.USAGE
    except Exception as error:
        if os.environ.get("RLVR_DEBUG"):
            raise
        if refused := disk.explain(error):
            _fail(str(refused), refused.hint)
            return refused.exit_code
        if waited := distributed.lost(error):
            _fail(str(waited), waited.hint)
            return waited.exit_code
        if distributed.is_cut_off(error):
            return _cut_off()
        if distributed.is_launched() and distributed.current().is_main_process:
            time.sleep(_HEAD_START_S)  # it may be that another process died, which will be said
        where = f"{type(error).__name__}: {error}"
        if blamed := user_code.blamed(error):
            _fail(f"{blamed}: {where}", "RLVR_DEBUG=1 shows the full traceback")
        elif explained := faults.explained(error):
            _fail(str(explained), explained.hint)
            return explained.exit_code
        else:
            _fail(f"a defect of rlvr: {where}", "RLVR_DEBUG=1 shows where; please report it")
        return errors.FAILED


def _called(arguments: list[str]) -> list[str]:
    """The names of the command that a command line calls, and of the folder that it is in."""
    name = next(iter(arguments), "")
    if name not in command_names():
        return []
    return [name, *(word for word in arguments[1:2] if word in subcommand_names(name))]


def _show(others: Callable[..., None]) -> Callable[..., None]:
    """Says rlvr's own warnings in one line; leaves the others as they are."""

    def show(message: Any, category: Any, *where: Any) -> None:
        if issubclass(category, errors.Advice):
            console.say(f"warning: {message}")
        else:
            others(message, category, *where)

    return show


def _fail(message: str, hint: str) -> None:
    """One message, even if many processes fail alike: the main process reports first."""
    place = distributed.current()
    if not place.is_main_process:
        time.sleep(_HEAD_START_S * (1 if place.local_rank == 0 else 2))
        message = f"{place}: {message}"
    distributed.note_failure(message, hint)
    console.error(message, hint)


def _cut_off() -> int:
    """The exit code of a process that lost another one; a launcher, if any, reports the cause."""
    if distributed.IS_WATCHED in os.environ:
        return distributed.CUT_OFF
    time.sleep(_HEAD_START_S)
    message = f"{distributed.current()} lost its connection to another one, which has ended"
    console.error(message, "see the message of that one; the same command resumes the run")
    return errors.FAILED


def _interrupted(message: str, arguments: list[str]) -> int:
    command = escape.command(["rlvr", *stdin.named(arguments)])
    with contextlib.suppress(OSError):  # the terminal may be gone
        console.error(message, f"resume with `{command}`")
    return errors.INTERRUPTED
