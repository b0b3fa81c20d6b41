"""What is wrong with a command line that cannot be read, and what to write instead."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.cli import followed
from rlvr_cli.specs import foreign

_EXAMPLE = re.compile(r"^ {4}(\S.*)$", re.MULTILINE)


def is_help(error: Any) -> bool:
    """Whether an error of typer is the help, of what was called without a word."""
    return type(error).__name__ == "NoArgsIsHelpError"


def explained(error: Any, commands: Sequence[str], run: Path | None = None) -> tuple[str, str]:
    """The message and the hint of an error of typer.

    `commands` are the command that was called and the folder of it, where the error knows of none;
    `run` is what it was to follow.
    """
    context = getattr(error, "ctx", None)
    name = context.command_path if context else " ".join(["rlvr", *commands])
    message_and_hint = _unknown(error, name, run) or _missing(error, name)
    return message_and_hint or (error.format_message(), f"see `{name} --help`")


def _unknown(error: Any, name: str, run: Path | None) -> tuple[str, str] | None:
    """Of an option that a command does not have, and the one that was meant."""
    option = getattr(error, "option_name", None)
    if option is None or not error.ctx:
        return None
    known = {flag for param in error.ctx.command.params for flag in param.opts}
    near = foreign.flags(option, known) or difflib.get_close_matches(option, sorted(known), n=2)
    message = f"`{name}` has no option `{option}`"
    if run and (instead := followed.instead(run, option)):
        return message, instead
    if not near:
        return message, f"see `{name} --help`"
    return message, f"did you mean {' or '.join(f'`{flag}`' for flag in near)}?"


def _missing(error: Any, name: str) -> tuple[str, str] | None:
    """Of what a command needs and was not given; the last example of its help."""
    param = getattr(error, "param", None)
    if type(error).__name__ != "MissingParameter" or param is None:
        return None
    flags = [flag for flag in param.opts if flag.startswith("--")]
    needed = flags[0] if flags else (param.metavar or param.name.upper())
    examples = _EXAMPLE.findall(error.ctx.command.help or "")
    hint = f"as in `{examples[-1]}`" if examples else f"see `{name} --help`"
    return f"`{name}` needs {needed}", hint
