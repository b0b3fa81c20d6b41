"""What to do with an option of `rlvr train` that a process that follows a run was given."""

import shlex
from dataclasses import fields
from pathlib import Path

from rlvr_cli import run_config
from rlvr_cli.config import RunConfig


def run_of(arguments: list[str]) -> Path | None:
    """The run that a command line names with `--follow`; None without one."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--follow" and after:
            return Path(after)
        if word.startswith("--follow="):
            return Path(word.partition("=")[2])
    return None


def instead(run: Path, name: str) -> str | None:
    """Where the run that is followed has an option; None of an option that no run has."""
    from rlvr_cli.storage import run_folders  # heavy

    named = {f.name for options in vars(RunConfig()).values() for f in fields(options)}
    key = name.lstrip("-").replace("-", "_")
    if key not in named:
        return None
    if not run_folders.is_run(run):
        begins = f"rlvr train-step --follow {shlex.quote(str(run))} --config FILE"
        return f"set `{key}` in the TOML file that begins the run: `{begins}`"
    if key in run_config.MAY_CHANGE or key in run_config.MAY_MOVE:
        return f"set `{key}` in `{run / run_folders.CONFIG}`"
    return "leave it out: another value needs another run"
