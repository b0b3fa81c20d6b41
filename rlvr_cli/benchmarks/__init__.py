"""Benchmarks: one small TOML file each, of where the data is and how its authors measure it.

The folder listing is the registry; a file of the user's own is named by its path.
"""

import dataclasses
import difflib
import hashlib
import json
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rlvr_cli import config, run_config
from rlvr_cli.errors import UsageError

FOLDER = Path(__file__).parent
_ENDING = ".toml"


@dataclass(frozen=True)
class Data:
    """Where the rows are: a data set of the Hub, a file of one, or a `path`; and their columns."""

    hub: str = ""
    config: str = ""
    split: str = ""
    file: str = ""
    path: str = ""
    gated: bool = False
    layout: str = ""
    id_column: str = ""
    prompt_column: str = ""
    answer_column: str = ""

    @property
    def columns(self) -> dict[str, str | None]:
        names = ("id_column", "prompt_column", "answer_column")
        return {name: getattr(self, name) or None for name in names}


@dataclass(frozen=True)
class Definition:
    """A benchmark: its data, the verifier of its prompts, and the options to sample with.

    `prompts` are the allowed numbers of prompts, several if copies differ; empty means any.
    `warning` is printed each time.
    """

    name: str
    summary: str
    data: Data
    verifier: str = ""
    prompts: tuple[int, ...] = ()
    licence: str = ""
    source: str = ""
    notes: str = ""
    warning: str = ""
    rollout: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def identity(self) -> dict[str, str]:
        """The name, and a hash of all that decides which prompts these are."""
        content = [vars(self.data), self.verifier, self.prompts]
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return {"name": self.name, "definition": digest}


def names() -> list[str]:
    """The built-in benchmarks, sorted."""
    return sorted(path.stem for path in FOLDER.glob(f"*{_ENDING}"))


def load_all(words: str) -> list[Definition]:
    """The definitions of `aime25,my.toml`; an error for one that is named twice."""
    definitions = [load(word.strip()) for word in words.split(",") if word.strip()]
    known = [definition.name for definition in definitions]
    if not definitions:
        raise UsageError("no benchmark is named", f"there are {', '.join(names())}")
    for name in known:
        if known.count(name) > 1:
            raise UsageError(f"`{name}` is named twice", "name each benchmark once")
    return definitions


def load(name: str) -> Definition:
    """The definition of a name, or of a file that ends in .toml."""
    if name.endswith(_ENDING):
        return _read(Path(name))
    if name in names():
        return _read(FOLDER / f"{name}{_ENDING}")
    plain = name.lower().replace("_", "-")
    near = [n for n in names() if n.replace("-", "") == plain.replace("-", "")]
    near = near or difflib.get_close_matches(plain, names(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}? " if near else ""
    raise UsageError(
        f"unknown benchmark `{name}`",
        f"{hint}there are {', '.join(names())}; or name a file of your own, as in my.toml",
    )


def entries(name: str | None = None, *, in_full: bool = True) -> dict[str, dict[str, Any]]:
    """What each benchmark is, by its name; `in_full` its definition too."""
    listed: dict[str, dict[str, Any]] = {}
    for one in [name] if name else names():
        definition = load(one)
        listed[one] = {"summary": definition.summary}
        if in_full:
            listed[one]["text"] = "\n".join(_lines(definition))
    return listed


def _lines(definition: Definition) -> list[str]:
    data = {n: v for n, v in vars(definition.data).items() if v}
    facts = {
        "data": _spelled(data), "prompts": " or ".join(map(str, definition.prompts)),
        "verifier": definition.verifier, "sampling": _spelled(definition.rollout),
        "licence": definition.licence, "source": definition.source, "notes": definition.notes,
        "warning": definition.warning,
    }  # fmt: skip
    return [f"{name}: {value}" for name, value in facts.items() if value]


def _spelled(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {config.toml(value)}" for name, value in values.items())


def _read(path: Path) -> Definition:
    try:
        raw = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"cannot read `{path}`: {error}", "see docs/benchmarks.md for what a definition holds"
        ) from error
    data, rollout = raw.pop("data", {}), raw.pop("rollout", {})
    for table, values, kind in (("data", data, Data), ("rollout", rollout, config.RolloutOptions)):
        if not isinstance(values, dict):
            raise UsageError(f"`{path}`: `{table}` is {values!r}", f"write a table, [{table}]")
        _require_known(path, f"key of [{table}]", values, {f.name for f in fields(kind)})
    own = {f.name: f for f in fields(Definition) if f.name not in ("name", "data", "rollout")}
    _require_known(path, "key", raw, set(own))
    prompts = raw.pop("prompts", [])
    counts = prompts if isinstance(prompts, list) else [prompts]
    if not all(type(count) is int and count > 0 for count in counts):
        raise UsageError(f"`{path}`: `prompts` is {prompts!r}", "write how many, as prompts = 30")
    for name, value in {**raw, **data}.items():
        if type(value) is not (bool if name == "gated" else str):
            raise UsageError(f"`{path}`: `{name}` is {value!r}", f'write it as {name} = "..."')
    if not data.get("hub") and not data.get("path"):
        raise UsageError(
            f"`{path}` does not say where its data is",
            'write under [data] either hub = "OWNER/NAME" or path = "rows.jsonl"',
        )
    known = {f.name: f for f in fields(config.RolloutOptions)}
    options = {n: run_config.typed(path, known[n], value) for n, value in rollout.items()}
    for name in ("template", "prefix"):
        if options.get(name) and (file := path.parent / options[name]).is_file():
            options[name] = str(file)
    if data.get("path"):
        data["path"] = str(path.parent / data["path"])
    config.make(config.RolloutOptions, options)  # within their bounds
    summary = raw.pop("summary", path.stem)
    return Definition(path.stem, summary, Data(**data), prompts=tuple(counts), **raw,
                      rollout=options)  # fmt: skip


def _require_known(path: Path, noun: str, given: dict[str, Any], known: set[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(sorted(known))}"
            raise UsageError(f"`{path}`: unknown {noun} `{name}`", hint)
