"""Built-in templates of a question's text, one file each; its comment says what it is for."""

import difflib
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The built-in templates, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.jinja"))


def path(name: str) -> Path:
    """The file of a template; an error if there is none of that name."""
    if name in names():
        return FOLDER / f"{name}.jinja"
    near = [known for known in names() if name in known] or difflib.get_close_matches(name, names())
    hint = f"did you mean {' or '.join(f'`{known}`' for known in near)}? " if near else ""
    raise UsageError(
        f"`{name}` is neither a built-in template nor a file",
        f"{hint}there are {', '.join(names())}; or name a Jinja file",
    )


def entries(name: str | None = None) -> dict[str, dict[str, Any]]:
    """The purpose of each template by its name; for a single one also its text."""
    listed = {}
    for one in [name] if name else names():
        comment, _, text = path(one).read_text().partition("#}")
        summary = comment.removeprefix("{#").strip("- ")
        listed[one] = {"summary": summary} | ({"text": text.strip()} if name else {})
    return listed
