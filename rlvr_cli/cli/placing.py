"""Where URLs of stores are taken: what a command reads is fetched, and it writes to none of them.

Each value of a command's options that names a place in a store becomes the path of a copy, before
the command sees it. What a command writes stays on this machine: `rlvr push` sends it.
"""

import functools
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.terminal import console, escape

WRITTEN = ("out", "cache", "data_dir", "folder", "follow")
"""The options that name what a command writes, or what it keeps for itself."""
TEXTS = (
    *("url", "verifier", "engine", "trainer", "trust_host", "trust_file", "to", "track", "push"),
    *("answer_from", "system", "prefix", "suffix", "stop", "chat_template_kwargs", "separator"),
    *("title", "name", "where", "equality", "similarity", "algo", "spec", "split", "layout"),
)
"""Those whose values are no paths, or are looked up by what reads them."""
_OF_THE_HUB = ("sources", "data")  # whose data sets have splits and configurations
_STAYS = {
    ("track", "run"): "notes in a run what it sent",
    **{("init", name): "records the paths of its inputs" for name in ("model", "data", "heldout")},
}
_READS_NO_WEIGHTS = ("report", "compare", "eval-passk", "ucc", "diversity", "export")


def placed(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that is given paths where its words name places in stores."""

    @functools.wraps(command)
    def wrapper(**values: Any) -> Any:
        console.forget_urls()
        for option, value in values.items():
            if option in TEXTS or not isinstance(value, str | Path | list):
                continue
            if isinstance(value, list):
                values[option] = [_place(name, option, one) for one in value]
            else:
                values[option] = _place(name, option, value)
        return command(**values)

    return wrapper


def read(word: str) -> str:
    """The local path of what a word names, which may be the URL of a directory in a store."""
    return str(_place("", "", word))


def _place(name: str, option: str, value: Any) -> Any:
    """A value as it is, or the path of a copy of what it names, in its own type."""
    if not isinstance(value, str | Path) or ":/" not in str(value):
        return value
    from rlvr_cli.stores.store import url_of

    url = url_of(value)
    if url is None or (option in _OF_THE_HUB and url.startswith("hf://datasets/")):
        return value
    if (name, option) in _STAYS:
        raise UsageError(
            f"`rlvr {name}` {_STAYS[name, option]}, and `{escape.redacted(url)}` is in a store",
            f"bring it here: `rlvr pull {shlex.quote(escape.redacted(url))} DIR`",
        )
    if option in WRITTEN:
        raise _refused(name.replace("/", " "), option, escape.redacted(url.rpartition("::")[2]))
    from rlvr_cli.stores import cache

    path, sent = cache.local(url, weights=name not in _READS_NO_WEIGHTS)
    what = f"fetched {sent.bytes / 1e6:,.3g} MB of" if sent else "unchanged since it was fetched:"
    shown = escape.redacted(url)
    console.remark(name or "rlvr", f"{what} `{shown}`, read in `{path}`")
    console.call_by_url(path, shown)
    if path.name == shown.rpartition("/")[2]:  # what would be next to it
        console.call_by_url(path.parent, shown.rpartition("/")[0])
    return type(value)(path) if isinstance(value, Path) else str(path)


def _refused(name: str, option: str, url: str) -> UsageError:
    flag = f"--{option.replace('_', '-')}"
    if option == "folder":
        scheme, _, place = url.partition("://")
        if scheme.lower() in ("file", "local"):
            return UsageError(
                f"`{url}` is the URL of a place on this machine",
                f"name the place itself: `rlvr {name} {shlex.quote(place)} URL`",
            )
        return UsageError(f"`{url}` is in a store already", "name a directory on this machine")
    if option != "out":
        return UsageError(
            f"{flag} is `{url}`, and what `rlvr {name}` keeps there must be on this machine",
            f"name a directory of this machine with {flag}",
        )
    local = shlex.quote(url.rstrip("/").rpartition("/")[2] or "out")
    pull = f"; to resume the run there, first `rlvr pull {shlex.quote(url)} {local}`"
    return UsageError(
        f"`rlvr {name}` writes only to this machine, and --out is `{url}`",
        f"give it `--out {local}`, and then run `rlvr push {local} {shlex.quote(url)}`"
        + pull * (name == "train"),
    )
