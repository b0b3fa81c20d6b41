"""What a command may run, read and send to if the command line itself does not name it.

Code of a file, a file that an option of a verifier names, a service that completions are sent to
and the variable that holds its key are used if the command line names them: in a spec, or with
`--trust-file` or `--trust-host`. If only data, a manifest or a configuration names them, they
are refused. A file is trusted as it was when the command began: one that changes meanwhile is
refused too.
"""

import contextlib
import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import DataError, Untrusted, UsageError, UserError
from rlvr_cli.specs import grammar

# The environment carries it, as ranks and the processes of verifiers inherit that.
_VARIABLE = "RLVR_TRUSTED"
SAFE_PATH, OURS = "PYTHONSAFEPATH", "rlvr"
"""Has Python import nothing from the current folder; `OURS` where rlvr, not the user, set it."""
_OPTIONS = {"rubric": "texts", "url": "hosts", "key_variable": "variables"}
_WEIGHT = re.compile(r"^\s*-?[0-9.]+([eE][+-]?[0-9]+)?\s*\*")


@dataclass(frozen=True)
class Named:
    """What is trusted: by their paths files, which may run too, and texts, which are only read.

    `hosts` are as in `http://localhost:8000`, `variables` those that hold the key of a service.
    """

    files: Iterable[Path | str] = ()
    texts: Iterable[Path | str] = ()
    hosts: Iterable[str] = ()
    variables: Iterable[str] = ()


@contextlib.contextmanager
def trusting(named: Named) -> Iterator[None]:
    """Trusts these until the end of the block, in processes that are started in it too."""
    before = os.environ.get(_VARIABLE)
    try:
        trust(named)
        yield
    finally:
        os.environ.pop(_VARIABLE, None)
        if before is not None:
            os.environ[_VARIABLE] = before


def trust(named: Named) -> None:
    """Trusts these in this process and in those that it starts."""
    known = _known()
    for path in named.files:
        known["files"].setdefault(str(real(path)), _sha256(real(path)))
    for url in named.hosts:
        if not host_of(url):
            raise UsageError(f"`{url}` is no host", "write it as in http://localhost:8000")
        known["hosts"].append(host_of(url))
    known["texts"] += [str(real(path)) for path in named.texts]
    known["variables"] += named.variables
    os.environ[_VARIABLE] = json.dumps(known)


def _known() -> dict[str, Any]:
    """As the environment has it; each file with the sha256 of its first content."""
    empty: dict[str, Any] = {"files": {}, "texts": [], "hosts": [], "variables": []}
    with contextlib.suppress(ValueError, TypeError, KeyError):
        empty |= json.loads(os.environ[_VARIABLE])
    return empty


def files() -> list[Path]:
    """The files that may run, by their real paths."""
    return [Path(path) for path in _known()["files"]]


def real(path: Path | str) -> Path:
    with contextlib.suppress(RuntimeError):  # of a `~user` that is not known
        path = Path(path).expanduser()
    return Path(path).resolve()


def _sha256(path: Path) -> str:
    """Of a file's content; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def host_of(url: str) -> str:
    """Scheme, host and port of a URL, as errors and `--trust-host` have them; empty of no URL."""
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(url.strip())
        if parts.scheme and parts.netloc:
            return f"{parts.scheme}://{parts.netloc}"
    return ""


def named_in(words: Iterable[str]) -> Named:
    """What the words of a command line name. The name of an existing file is no spec."""
    named: dict[str, list[str]] = {"files": [], "texts": [], "hosts": [], "variables": []}
    for word in words:
        value = word.partition("=")[2] if word.startswith("--") else word
        if not os.path.lexists(value):
            _add(named, value.removeprefix("task:"))
    return Named(**{kind: list(dict.fromkeys(filter(None, all_))) for kind, all_ in named.items()})


def _add(named: dict[str, list[str]], text: str) -> None:
    """Adds what a sum or a list of specs names, and what the specs within them name."""
    for read_as in (grammar.pieces, grammar.listed):
        with contextlib.suppress(UserError):  # most words are no specs
            for piece in read_as(text):
                read = grammar.read(_WEIGHT.sub("", piece))
                options = dict(read.options)
                own = str(options.get("path") or "") if read.name == "custom" else ""
                named["files"].append(read.path or own)
                for option, kind in _OPTIONS.items():
                    if isinstance(value := options.get(option), str):
                        named[kind].append(host_of(value) if kind == "hosts" else value)
                of = options.get("of")
                for item in of.values() if isinstance(of, dict) else of or ():
                    if isinstance(item, str) and not isinstance(of, str):
                        _add(named, item)


def require_code(path: Path | str, *, named_by: str = "") -> Path:
    """The real path of a file that may run; Untrusted if nothing on the command line names it.

    `named_by` says what did name it.
    """
    return _require(path, named_by, "code")


def require_text(path: Path | str) -> Path:
    """The real path of a file that may be read; Untrusted as `require_code`."""
    return _require(path, "", "text")


def _require(path: Path | str, named_by: str, kind: Literal["code", "text"]) -> Path:
    place, known = real(path), _known()
    if str(place) not in (*known["files"], *(known["texts"] if kind == "text" else ())):
        raise Untrusted(str(path), named_by, kind)
    return place


def require_unchanged(path: Path, content: bytes) -> None:
    """DataError if a trusted file is not what it was when the command began."""
    begun = _known()["files"].get(str(real(path)))
    if begun is not None and begun != hashlib.sha256(content).hexdigest():
        raise DataError(f"`{path}` has changed since this command began", "run the command again")


def require_service(host: str, host_variable: str, key_variable: str, *, named_by: str) -> None:
    """An error if nothing but `named_by` names a service, or the variable of the key for it.

    `host_variable` of the environment may name the host, too. The `key_variable` that is usual for
    the service is empty.
    """
    known = _known()
    if host not in (*known["hosts"], host_of(os.environ.get(host_variable, ""))):
        raise Untrusted(host, named_by, "host")
    if key_variable and key_variable not in known["variables"]:
        raise UsageError(
            f"{named_by} sends {host} what the variable {key_variable} holds, and this command "
            "does not name that variable",
            "name the verifier with --verifier",
        )
