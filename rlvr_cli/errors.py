"""The errors a user sees, and the exit code of each."""

import shlex
from typing import Literal

DONE, FAILED, USAGE, BAD_DATA, TOO_MANY_ERRORS, INTERRUPTED = 0, 1, 2, 3, 4, 75
READER_GONE = 141  # as a shell reports a tool that SIGPIPE ended


class UserError(Exception):
    """One line that says what is wrong, where and with which value, and a hint that fixes it."""

    exit_code = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(UserError):
    """The command's words are wrong."""

    exit_code = USAGE


class Untrusted(UsageError):
    """Data, a manifest or a configuration names what the command line does not."""

    def __init__(
        self, name: str, named_by: str = "", kind: Literal["code", "text", "host"] = "code"
    ) -> None:
        by = named_by or "a specification"
        messages = {
            "code": f"`{name}` is code that {by} names, and this command does not: it was not run",
            "text": f"`{name}` is a file that {by} names, and this command does not: it was not "
            "read",
            "host": f"{by} sends completions to {name}, which this command does not name: nothing "
            "was sent",
        }
        self.name, self.kind = name, kind
        self.flag = "--trust-host" if kind == "host" else "--trust-file"
        super().__init__(messages[kind], f"if you trust it, add `{self.flag} {shlex.quote(name)}`")


class DataError(UserError):
    """What the command was given to read is wrong."""

    exit_code = BAD_DATA


class TooManyErrors(UserError):
    """The stage is done, but more of its rows failed than the user allows."""

    exit_code = TOO_MANY_ERRORS


class Interrupted(UserError):
    """The stage was stopped; running it again resumes it."""

    exit_code = INTERRUPTED


class OutputError(UserError):
    """The work is done, but its result could not be printed."""


class ReaderGone(UserError):
    """What read stdout ended before the result did, as `head` does; there is nothing to say."""

    exit_code = READER_GONE

    def __init__(self) -> None:
        super().__init__("what read stdout has ended")


class Advice(UserWarning):
    """A possible problem: it is printed in one line, and the command continues."""


def first_line(error: BaseException) -> str:
    """The first line of another library's error, short enough to be part of one of ours."""
    return str(error).strip().partition("\n")[0][:200]
