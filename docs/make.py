"""Writes what the reference pages take from the code: `python -P docs/make.py`.

A page is prose with blocks in it. What stands between `<!-- NAME -->` and `<!-- end NAME -->` is
written by the function of that name here; tests/docs/ holds every page to it.
"""

import ast
import contextlib
import importlib.util
import inspect
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pyarrow as pa

from rlvr_cli import config, registry, run_config
from rlvr_cli.cli import added, app
from rlvr_cli.report import glossary
from rlvr_cli.storage import columns, schema

THRESHOLD = 0.8  # of the cosine in UCC@k, by default
DOCS = Path(__file__).parent
STAGES: dict[str, Any] = vars(config.RunConfig())
OPTIONS = {option.name: option for stage in STAGES.values() for option in fields(stage)}
FAMILIES = {
    "builtin": "the built-in policy on the built-in task",
    "builtin-vl": "the built-in policy that reads images on its task",
    "apo": "Anchored Policy Optimization",
    "apmpo": "APMPO",
    "apmpo-vl": "APMPO on images and text",
    "quatro": "QUATRO",
    "iac": "IAC, from When Sharpening Becomes Collapse",
    "dapo-iac-dlc": "DAPO with IAC and DLC",
    "grpo-n": "two-stage training",
    "ce-gppo": "CE-GPPO",
    "clip-cov": "Clip-Cov, from The Entropy Mechanism",
    "kl-cov": "KL-Cov, from the same paper",
    "cppo": "CPPO",
    "fipo": "FIPO",
    "dppo-tv": "DPPO with total variation",
    "maxrl": "MaxRL",
    "vespo": "VESPO",
    "aspo": "ASPO",
    "m2po": "M2PO",
    "sapo": "SAPO",
    "gspo-token": "GSPO-token",
    "otb": "OTB",
    "gdpo": "GDPO",
    "nsr": "NSR",
    "up-dapo": "UP on DAPO",
    "top-entropy": "the 20% of tokens of highest entropy, on DAPO",
}

EXAMPLE = {  # verdicts on four completions of each prompt, by file
    "before.jsonl": {"a": [1, 0, 0, 0], "b": [0, 0, 0, 0], "c": [1, 1, 0, 1]},
    "after.jsonl": {"a": [1, 0, 1, 0], "b": [0, 1, 0, 0], "c": [1, 1, 1, 1]},
}
EXAMPLE_QUESTIONS = {"6 * 7 = ?": "42", "1 / 3 = ?": "0.333"}
EXAMPLE_COMMANDS = (
    "prompts questions.jsonl --verifier number",
    "doctor prompts",
    "eval-passk after.jsonl --k 1,4",
    "compare before.jsonl after.jsonl",
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in [list(head), *cells]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


# docs/cli.md


def command_paths() -> list[str]:
    """Every command, as in `lab sharpening`, in the order of `rlvr --help`."""
    paths: list[str] = []
    for name in app.command_names():
        paths += [f"{name} {sub}" for sub in app.subcommand_names(name)] or [name]
    return paths


def command_module(path: str) -> Any:
    """The module of a command, as in `rlvr_cli.commands.lab.two_stage`."""
    name = ".".join(["rlvr_cli.commands", *path.replace("-", "_").split()])
    is_there = importlib.util.find_spec(name)
    return importlib.import_module(name if is_there else f"{name}_")  # as in import_


def examples(path: str) -> list[str]:
    """The command lines that a command's help shows."""
    lines = str(command_module(path).__doc__).splitlines()
    return [line.strip() for line in lines if line.startswith("    rlvr ")]


def commands() -> str:
    return "\n\n".join(_command(path) for path in command_paths())


def command_list() -> str:
    return table(
        ["command", ""],
        [
            [f"[`rlvr {path}`](#rlvr-{path.replace(' ', '-')})", _summary(path)]
            for path in command_paths()
        ],
    )


def _summary(path: str) -> str:
    return str(command_module(path).__doc__).partition("\n")[0]


def _command(path: str) -> str:
    module = command_module(path)
    signature = inspect.signature(added.extended(path, module.command))  # as the app wraps it
    rows = [_parameter(parameter) for parameter in signature.parameters.values()]
    arguments = [name.strip("`") for name, kind, *_ in rows if "argument" in kind]
    usage = " ".join(["rlvr", path, "[OPTIONS]", *arguments])
    lines = [f"## rlvr {path}", inspect.cleandoc(module.__doc__), f"Usage: `{usage}`"]
    return "\n\n".join([*lines, table(["name", "type", "default", "meaning"], rows)])


def _parameter(parameter: inspect.Parameter) -> tuple[str, str, str, str]:
    """An argument or option: its name, type, default and help text."""
    kind, info = get_args(parameter.annotation)[:2]
    kind, _ = _without_none(kind)
    is_repeated = get_origin(kind) is list
    words = _type_of(get_args(kind)[0] if is_repeated else kind)
    text, _, default = (info.help or "").replace("\\<", "<").partition(" \\[default: ")
    default = default.removesuffix("]").strip("'") or _default_of(parameter)
    if type(info).__name__ == "ArgumentInfo":
        name = info.metavar or parameter.name.upper() + "..." * is_repeated
        name = name if default == "required" else f"[{name}]"
        return f"`{name}`", f"argument, {words}", default, text
    flags = [flag for flag in (info.default, *(info.param_decls or ())) if isinstance(flag, str)]
    flags = flags or [f"--{parameter.name.replace('_', '-')}"]
    kinds = [words, _bounds(*_limits(parameter.name, info)), "may be repeated" * is_repeated]
    name = ", ".join(f"`{name}`" for flag in flags for name in flag.split("/"))
    shown = default if not default or default == "required" or " " in default else f"`{default}`"
    return name, ", ".join(filter(None, kinds)), "" if words == "flag" else shown, text


def _default_of(parameter: inspect.Parameter) -> str:
    """The default in a command's signature; nothing where it is None or an empty text."""
    if parameter.default is parameter.empty:
        return "required"
    return "" if parameter.default is None else str(parameter.default)


def _limits(name: str, info: Any) -> tuple[float | None, float | None]:
    """The bounds of an option, which those that `train` has in its file keep there."""
    if info.min is None and name in OPTIONS:
        return OPTIONS[name].metadata["least"], OPTIONS[name].metadata["most"]
    return info.min, info.max


def _without_none(kind: Any) -> tuple[Any, bool]:
    """The type in `type | None`, and whether None was there."""
    inner = [one for one in get_args(kind) if one is not type(None)]
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        return inner[0], len(inner) < len(get_args(kind))
    return kind, False


def _type_of(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)[:-1])) + f" or {get_args(kind)[-1]}"
    names = {bool: "flag", int: "integer", float: "number", str: "text", Path: "path"}
    return names[kind]


def _bounds(least: float | None, most: float | None) -> str:
    ends = [f"at least {least}" if least is not None else ""]
    ends.append(f"at most {most}" if most is not None else "")
    return ", ".join(end for end in ends if end)


# docs/config.md


def tables() -> str:
    made = []
    for stage, values in STAGES.items():
        rows = [
            (
                f"`{option.name}`",
                _kind_and_bounds(option),
                f"`{json.dumps(option.default)}`",
                option.metadata["help"],
            )
            for option in fields(values)
        ]
        name = stage.replace("_", "-")
        made.append(f"### `[{name}]`\n\n{table(['key', 'type', 'default', 'meaning'], rows)}")
    return "\n\n".join(made)


def _kind_and_bounds(option: Any) -> str:
    kind = "boolean" if option.type is bool else _type_of(option.type)
    bounds = _bounds(option.metadata["least"], option.metadata["most"])
    return f"{kind}, {bounds}" if bounds else kind


def recipe_examples() -> str:
    made = []
    for name, title in FAMILIES.items():
        others = ", ".join(f"`{other}`" for other in family(name))
        also = f" Of the same family: {others}." if others else ""
        made.append(
            f"### `{name}`\n\n{title[0].upper()}{title[1:]}.{also}\n\n"
            f"```toml\n{run_config.recipe(name)[1].to_toml()}```"
        )
    return "\n\n".join(made)


def family(name: str) -> list[str]:
    """The recipes of one paper: those whose comment refers to the recipe of this name."""
    reference = f"as in the recipe `{name}`"
    comments = {other: " ".join(run_config.recipe(other)[0]) for other in run_config.recipes()}
    return [other for other, text in comments.items() if reference in text]


# docs/shards.md


def kinds() -> str:
    return "\n\n".join(_kind(kind) for kind in schema.KINDS)


def _kind(kind: str) -> str:
    writers = ", ".join(f"`{name}`" for name in columns.WRITERS[kind])
    rows = [
        (
            f"`{field.name}`",
            type_name(field.type),
            (field.metadata or {}).get(b"unit", b"").decode(),
            "yes" if field.nullable else "",
            columns.MEANING[kind][field.name],
        )
        for field in schema.schema(kind, only=tuple(columns.MEANING[kind]))
    ]
    head = ["column", "type", "unit or values", "null", "meaning"]
    text = f"### {kind}\n\n{columns.ROWS[kind]} Written by {writers}.\n\n{table(head, rows)}"
    extra = [
        (f"`{name}`", extra.unit, extra.meaning, extra.writer)
        for name, extra in columns.EXTRA.get(kind, {}).items()
    ]
    if extra:
        more = table(["column", "unit", "meaning", "made by"], extra)
        text += f"\n\nThere may be more columns, all nullable `double`:\n\n{more}"
    return text


def type_name(kind: Any) -> str:
    """An Arrow type, as in `list of float`."""
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"list of {type_name(kind.value_type)}"
    return f"{kind}"


def manifest() -> str:
    return table(["key", "meaning"], [(f"`{k}`", text) for k, text in columns.MANIFEST.items()])


def metadata() -> str:
    return table(["key", "meaning"], [(f"`{k}`", text) for k, text in columns.METADATA.items()])


# docs/metrics.md


def report_glossary() -> str:
    rows = [
        (entry.title, f"{entry.line} {entry.more.format(threshold=THRESHOLD)}".strip())
        for entry in glossary.ENTRIES.values()
    ]
    return table(["figure", "meaning"], rows)


# docs/first-hour.md


def first_hour() -> str:
    """The table of benchmarks/first_hour.py, which counts the scripts beside it."""
    path = DOCS.parent / "benchmarks" / "first_hour.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.table())


# docs/json.md


def schema_of(path: str) -> dict[str, Any]:
    """The JSON Schema of a command's `--json`, by the command as in `lab sharpening`."""
    return dict(json.loads((DOCS / "schemas" / f"{path.replace(' ', '-')}.json").read_text()))


def json_command_paths() -> list[str]:
    """The commands that have --json."""
    signatures = {path: inspect.signature(command_module(path).command) for path in command_paths()}
    return [path for path, signature in signatures.items() if "json" in signature.parameters]


def json_commands() -> str:
    return "\n\n".join(_json_object(path, schema_of(path)) for path in json_command_paths())


def _json_object(path: str, shape: dict[str, Any]) -> str:
    own = {k: v for k, v in shape["properties"].items() if k not in ("command", "inputs")}
    lines = [f"### rlvr {path}", shape["description"], _keys(shape | {"properties": own})]
    shared = [f"[{_shared(one)}](#{_shared(one)})" for one in shape.get("allOf", [])]
    if shared:
        lines.append(f"And the keys of {' and '.join(shared)}.")
    return "\n\n".join(lines)


def json_shared() -> str:
    made = []
    for name, shape in schema_of("common")["$defs"].items():
        made += [f"### {name}", f"{shape['description']} Type: {_json_type(shape)}."]
        made += [_keys(shape)] if [*_key_rows(shape)] else []
    return "\n\n".join(made)


def _keys(shape: dict[str, Any]) -> str:
    return table(["key", "type", "always", "meaning"], _key_rows(shape))


def _key_rows(shape: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str, str, str]]:
    """The keys of an object, and those of the objects in it that are described there."""
    for name, value in shape.get("properties", {}).items():
        always = "yes" if name in shape.get("required", []) else ""
        described = value.get("description") or _target(value)["description"]
        yield f"`{prefix}{name}`", _json_type(value), always, described
        inner, key = value, f"{prefix}{name}"
        while "properties" not in inner:
            more = inner.get("additionalProperties")
            if isinstance(more, dict):
                inner, key = more, f"{key}.NAME"
            elif isinstance(inner.get("items"), dict):
                inner, key = inner["items"], f"{key}[]"
            else:
                break
        yield from _key_rows(inner, f"{key}.")


def _json_type(shape: dict[str, Any]) -> str:
    """A type in words, as in `list of text`; a shared one as a link to where it is described."""
    if choices := shape.get("anyOf"):
        return " or ".join(map(_json_type, choices))
    if shared := shape.get("$ref") or shape.get("allOf"):
        name = _shared(shape if isinstance(shared, str) else shared[0])
        return f"[{name}](#{name})"
    if values := shape.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    kinds = shape.get("type", "any")
    words = {"string": "text", "array": "list", "boolean": "true or false"}
    shown = [words.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
    entry = shape.get("items") or shape.get("additionalProperties")
    if isinstance(entry, dict) and entry and "properties" not in entry:
        of = _json_type(entry)
        shown = [f"{k} of {of}" if k in ("list", "object") else k for k in shown]
    return " or ".join(shown)


def _shared(shape: dict[str, Any]) -> str:
    """The name of the definition that a schema refers to."""
    return str(shape["$ref"]).rpartition("/")[2]


def _target(shape: dict[str, Any]) -> dict[str, Any]:
    return dict(schema_of("common")["$defs"][_shared(shape)])


def json_examples() -> str:
    """Commands on a small file, and what they print: each key on a line, numbers rounded."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        files: dict[str, list[dict[str, Any]]] = {
            name: [{"id": i, "correct": c} for i, marks in verdicts.items() for c in marks]
            for name, verdicts in EXAMPLE.items()
        }
        questions = [{"prompt": q, "answer": a} for q, a in EXAMPLE_QUESTIONS.items()]
        for name, rows in (files | {"questions.jsonl": questions}).items():
            Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return "\n\n".join(map(_json_example, EXAMPLE_COMMANDS))


def _json_example(words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert app.run([*words.split(), "--json"]) == 0, words
    made = json.loads(out.getvalue(), parse_float=lambda number: float(f"{float(number):.4g}"))
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in made.items()]
    return f"```sh\nrlvr {words} --json\n```\n\n```json\n{{\n" + ",\n".join(lines) + "\n}\n```"


# README.md


def summaries() -> str:
    """The commands with what each does, as `rlvr --help` has them."""
    rows = [(f"`rlvr {name}`", app.summary(name)) for name in app.command_names()]
    return table(["command", "what it does"], rows)


# docs/objectives.md


def objectives() -> str:
    return algorithms("objective", "objectives")


def modifiers() -> str:
    return algorithms("modifier", "modifiers")


def algorithms(head: str, folder: str) -> str:
    """The files of a folder: what each says of itself, its equation and its options.

    The docstring of a file has the summary with the paper, and lines `Elsewhere:` and `Use:`; that
    of its `build` has the equation, as an indented block or as its first sentence.
    """
    rows = []
    for path, text in files(folder):
        name = path.stem.replace("_", "-")
        summary, *notes = text.split("\n\n", 1)
        said = {k: " ".join(v.split()) for k, v in re.findall(NOTE, "".join(notes))}
        what, paper = re.fullmatch(r"(.*?)(?: \((.*)\))?\.?", summary, re.S).groups()
        options = registry.canonical(folder, name).partition(":")[2].replace(",", ", ")
        link = f"[`{name}`](../{path.relative_to(DOCS.parent)})"
        elsewhere = said.get("Elsewhere", "").rstrip(".")
        cells = (_equation(path), paper or "", code(options), elsewhere, said.get("Use", ""))
        rows.append((link, what, *cells))
    return table(
        [head, "", "equation", "paper", "options, with defaults", "also in", "use it when or for"],
        rows,
    )


NOTE = r"(?m)^(\w+): (.*(?:\n    .*)*)"


def _equation(path: Path) -> str:
    """The lines of an equation in the docstring of `build`, or else its first sentence."""
    build = next(n for n in ast.parse(path.read_text()).body if getattr(n, "name", "") == "build")
    text = ast.get_docstring(build) or ""
    indented = [line for line in text.splitlines() if line.startswith("    ")]
    lines = indented or [line for line in text.splitlines() if re.match(r"\S+ = ", line)]
    said = "<br>".join(code(" ".join(line.split())) for line in lines)
    return said or text.partition("\n\n")[0]


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def terms() -> str:
    """The files that several objectives share: a link to each, and the first line of each."""
    rows = []
    for path, text in files("terms"):
        summary = text.partition("\n")[0].partition(" Shapes:")[0]
        rows.append((f"[`{path.stem}`](../{path.relative_to(DOCS.parent)})", summary))
    return table(["shared by several", ""], rows)


def files(folder: str) -> Iterator[tuple[Path, str]]:
    """The files of a folder of algorithms, and the docstring of each."""
    for path in sorted((DOCS.parent / "rlvr_cli" / "algorithms" / folder).glob("[a-z]*.py")):
        yield path, ast.get_docstring(ast.parse(path.read_text())) or ""


def grpo() -> str:
    path = DOCS.parent / "rlvr_cli" / "algorithms" / "objectives" / "grpo.py"
    return f"```python\n{path.read_text()}```"


PAGES: dict[str, tuple[Callable[[], str], ...]] = {
    "../README.md": (summaries,),
    "cli.md": (command_list, commands),
    "config.md": (tables, recipe_examples),
    "first-hour.md": (first_hour,),
    "json.md": (json_examples, json_commands, json_shared),
    "metrics.md": (report_glossary,),
    "objectives.md": (objectives, modifiers, terms, grpo),
    "shards.md": (kinds, manifest, metadata),
}


def page(name: str) -> str:
    """A page with its blocks written anew."""
    text = (DOCS / name).read_text()
    for block in PAGES[name]:
        start, end = f"<!-- {block.__name__} -->", f"<!-- end {block.__name__} -->"
        head, found, rest = text.partition(start)
        _, closed, tail = rest.partition(end)
        assert found and closed, f"{name} has no block {start} ... {end}"
        text = f"{head}{start}\n\n{block()}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name))
