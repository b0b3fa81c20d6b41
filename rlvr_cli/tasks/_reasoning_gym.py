"""The package reasoning-gym: its generators and scorers, and its entries as text.

It is read in one version: a later one makes other problems of the same seed, and which of its
scorers evaluate what a model wrote is known of this one alone.
"""

import ast
import dataclasses
import functools
import importlib
import json
import os
import subprocess
import sys
import warnings
from importlib import metadata
from typing import Any

from rlvr_cli.errors import Advice, UsageError

VERSION = "0.1.25"
INSTALL = "pip install 'rlvr[reasoning-gym]'"
_START = (
    "from rlvr_cli.runtime import parents; parents.die_with_parent({parent}); "
    "from rlvr_cli.tasks._reasoning_gym import main; main()"
)
# Modules whose scorers pass a model's text to `eval`, though they need only literals.
_EVALUATING = (
    "algorithmic.binary_matrix",
    "algorithmic.spiral_matrix",
    "algorithmic.string_insertion",
    "games.n_queens",
)
# Those whose generators give no entry of their own: it is a mixture of the others.
_NO_GENERATORS = {"composite"}


def require() -> None:
    """An error where the package is not installed, or in another version."""
    try:
        installed = metadata.version("reasoning-gym")
        metadata.version("six")  # it imports six and does not say so
    except metadata.PackageNotFoundError as error:
        raise UsageError(
            f"reasoning-gym needs {error.name}, which is not installed", INSTALL
        ) from None
    if installed != VERSION:
        raise UsageError(
            f"reasoning-gym {installed} is installed; rlvr knows the scorers of {VERSION}",
            f"pip install reasoning-gym=={VERSION}",
        )


def rows(requests: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The entries of each request, and reasoning-gym's system messages by their names.

    A request is what `_entries` takes. They come from a process of its own, as five generators
    iterate over sets of texts, so that their entries depend on the seed of Python's hashes: it is
    fixed there. What they print is dropped.
    """
    require()
    read, write = os.pipe()
    with open(read, "rb") as theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START.format(parent=os.getpid()), str(write)],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[write],
        )
        os.close(write)
        with process:
            assert process.stdin
            process.stdin.write(json.dumps(requests).encode())
            process.stdin.close()
            answer = theirs.read()
    if process.returncode:
        raise UsageError(
            f"reasoning-gym's generators ended with exit code {process.returncode}",
            "`python -c 'import reasoning_gym'` shows whether it can be imported",
        )
    answered = json.loads(answer)
    if "error" in answered:
        raise ValueError(answered["error"])
    for advice in answered["skipped"]:
        warnings.warn(Advice(advice), stacklevel=2)
    return list(answered["rows"]), dict(answered["system"])


def main() -> None:
    """Answers the requests that stdin holds, over the descriptor of the first argument."""
    with open(int(sys.argv[1]), "w") as out:
        try:
            rows: list[dict[str, Any]] = []
            skipped: list[str] = []
            for request in json.load(sys.stdin):
                rows += _entries(**request, skipped=skipped)
            json.dump({"rows": rows, "skipped": skipped, "system": _system_messages()}, out)
        except ValueError as error:
            json.dump({"error": str(error)}, out)


def _entries(
    name: str,
    *,
    difficulty: int | None,
    config: dict[str, Any],
    seed: int,
    size: int,
    skipped: list[str],
) -> list[dict[str, Any]]:
    """The first entries that a generator makes, in order: two of them remember what they generated.

    Where it gives an index up, the next one is taken, and `skipped` says so.
    """
    data = data_set(name, difficulty, config, seed, size)
    entries: list[dict[str, Any]] = []
    failed: list[str] = []
    while len(entries) < size:
        index = len(entries) + len(failed)
        try:
            entry = data[index]
        except Exception as error:
            failed.append(f"problem {index} of seed {seed}: {type(error).__name__}: {error}")
            if len(failed) > 10 + size:
                raise ValueError(f"`{name}` makes too few of its problems: {failed[0]}") from error
            continue
        question, answer = str(entry["question"]), entry["answer"]
        entries.append(
            {"name": name, "index": index, "question": question, "answer": answer,
             "entry": encoded(entry)}
        )  # fmt: skip
    if failed:
        skipped.append(f"`{name}` makes no {failed[0]}; {len(failed)} were passed over")
    return entries


def names() -> list[str]:
    """The generators that have entries of their own, sorted."""
    return sorted(set(_package().DATASETS) - _NO_GENERATORS)


def data_set(
    name: str, difficulty: int | None, config: dict[str, Any], seed: int = 0, size: int = 1
) -> Any:
    """A generator's data set at a level of its curriculum, with these values of its config.

    ValueError where it has no such generator, level or value.
    """
    package = _package()
    if name not in names():
        known = ", ".join(names())
        raise ValueError(f"reasoning-gym has no generator `{name}`; it has {known}")
    data_class, kind = package.DATASETS[name]
    own = {field.name for field in dataclasses.fields(kind)}
    if unknown := sorted(set(config) - own | set(config) & {"seed", "size"}):
        given = ", ".join(sorted(own - {"seed", "size"}))
        raise ValueError(f"`{name}` has no value `{unknown[0]}`; it has {given}")
    values = {"seed": seed, "size": size}
    try:
        if difficulty is None:
            chosen = kind(**values, **config)
        else:
            curriculum = _curriculum(name, difficulty)
            chosen = dataclasses.replace(curriculum.generate_configuration(values), **config)
        return data_class(config=chosen)
    except (AssertionError, TypeError) as error:
        level = "" if difficulty is None else f" at difficulty {difficulty}"
        raise ValueError(f"`{name}` refuses its values{level}: {error}") from error


def _curriculum(name: str, difficulty: int) -> Any:
    package = _package()
    if name not in package.CURRICULA:
        raise ValueError(f"`{name}` has no levels of difficulty; give values with `config`")
    curriculum = package.create_curriculum(name)
    levels = max(len(attribute.levels) for attribute in curriculum.attributes.values())
    if not 0 <= difficulty < levels:
        raise ValueError(
            f"difficulty is {difficulty}, that of `{name}` goes from 0 to {levels - 1}"
        )
    curriculum.set_global_level(difficulty)
    return curriculum


@functools.cache
def _package() -> Any:
    """The module with the registry of generators; it takes seconds to import."""
    require()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the syntax of what it imports
        import reasoning_gym

    for name in _EVALUATING:
        vars(importlib.import_module(f"reasoning_gym.{name}"))["eval"] = ast.literal_eval
    return reasoning_gym.factory


def _system_messages() -> dict[str, str]:
    _package()
    from reasoning_gym import utils

    return dict(utils.SYSTEM_PROMPTS)


# Entries as text. JSON has no tuples and no keys but text, which some scorers distinguish.


def encoded(entry: Any) -> str:
    """An entry as JSON text from which `decoded` makes its equal; ValueError of an unknown type."""
    return json.dumps(_plain(entry), ensure_ascii=False)


def decoded(text: str) -> Any:
    return _rebuilt(json.loads(text))


def _plain(value: Any) -> Any:
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if not isinstance(value, dict):
        raise ValueError(f"an entry of reasoning-gym holds a {type(value).__name__}")
    pairs = [(_plain(key), _plain(item)) for key, item in value.items()]
    if all(isinstance(key, str) for key, _ in pairs) and set(value) not in ({"tuple"}, {"dict"}):
        return dict(pairs)
    return {"dict": [list(pair) for pair in pairs]}


def _rebuilt(value: Any) -> Any:
    if isinstance(value, list):
        return [_rebuilt(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tuple"}:
        return tuple(_rebuilt(item) for item in value["tuple"])
    if set(value) == {"dict"}:
        return {_rebuilt(key): _rebuilt(item) for key, item in value["dict"]}
    return {key: _rebuilt(item) for key, item in value.items()}
