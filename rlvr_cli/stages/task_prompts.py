"""Prompts of a built-in task in place of a directory, as in `train --prompts task:shapes`."""

from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.config import RunOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.specs import grammar

MARK = "task:"
BUILTIN_TASK = "expression"  # of a run that names none


def directory(given: str) -> Path | None:
    """The directory of prompts that a run was given; None of a task, or where none was given."""
    return None if not given or given.startswith(MARK) else Path(given)


def of_split(options: RunOptions, split: str) -> str | None:
    """The task that a run makes its prompts of, for its split `train` or `heldout`.

    None where it was given a directory, or has prompts to train on and none to evaluate on. A task
    to train on is also the one to evaluate on, in its held-out split, unless another is named.
    """
    given = options.prompts if split == "train" else options.heldout
    if not given and split == "heldout" and options.prompts.startswith(MARK):
        return _with_split(options.prompts.removeprefix(MARK), split, replaces=True)
    if not given:
        return None if options.prompts else _with_split(BUILTIN_TASK, split)
    return _with_split(given.removeprefix(MARK), split) if given.startswith(MARK) else None


def _with_split(task: str, split: str, *, replaces: bool = False) -> str:
    """A task with every option written out, of this split unless it says another."""
    name, options = registry.parse("tasks", task)
    if "split" not in options:
        raise UsageError(
            f"`{MARK}{task}` has no splits, and a run needs prompts to evaluate on",
            f"make both with `rlvr prompts {MARK}{task} --out DIR`, and name the directories",
        )
    has_split = any(key == "split" for key, _ in grammar.read(task).options)
    if replaces and has_split:
        raise UsageError(
            f"--prompts is `{MARK}{task}`, of one split, and --heldout is not given",
            f"leave `split` out, or name --heldout {MARK}{name}:split=heldout",
        )
    if has_split:
        return registry.canonical("tasks", task)
    joint = "," if grammar.read(task).options else ":"
    return registry.canonical("tasks", f"{task}{joint}split={split}")
