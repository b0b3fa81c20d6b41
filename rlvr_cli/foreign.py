"""Files that other tools wrote: JSONL, Parquet and CSV rows under the names they use."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError

ID = ("prompt_id", "id", "uid", "unique_id", "task_id", "question_id", "doc_id")
PROMPT = ("messages", "prompt", "problem", "question", "instruction", "query")
ANSWER = ("reward_model.ground_truth", "ground_truth", "answer", "solution", "label")
COMPLETION = ("completion", "completions", "response", "responses", "output", "generation", "text")
CORRECT = ("correct", "is_correct", "passed", "is_solved", "acc")
REWARD = ("reward", "rewards", "score", "scores")
_SUFFIXES = (".jsonl", ".json", ".parquet", ".csv")


@dataclass(frozen=True)
class Generations:
    """One row a completion; None in a column that the file does not have."""

    prompt_id: list[str]
    completion: list[str | None]
    reward: list[float | None]
    correct: list[bool | None]
    rows: list[dict[str, Any]] = field(repr=False)
    has_completions: bool
    has_verdicts: bool
    used: frozenset[str | None] = frozenset()  # the columns that these were read from


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, of the files in a directory, or of a gzipped file."""
    if path.is_dir():
        found = sorted(
            p for p in path.iterdir() if _suffix(p) in _SUFFIXES and p.name[0] not in "._"
        )
        rows = [row for file in found for row in read(file)]
    elif not path.exists():
        raise DataError(f"`{path}` does not exist", "check the path")
    else:
        readers = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl, ".json": _json}
        if _suffix(path) not in readers:
            raise DataError(
                f"`{path}` has none of the endings that rlvr reads",
                f"name it with one of {', '.join(_SUFFIXES)}; .gz may follow",
            )
        rows = list(readers[_suffix(path)](path))
    if not rows:
        raise DataError(f"`{path}` holds no rows", "check that the file was written to its end")
    return rows


def is_known(path: Path) -> bool:
    """Whether the file's ending is one that `read` reads."""
    return _suffix(path) in _SUFFIXES


def _suffix(path: Path) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _text(path: Path) -> str:
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"cannot read `{path}`: {error}", "check the file") from error


def _jsonl(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise DataError(
                    f"`{path}` line {number} is not JSON: {error}",
                    f"look at it with `sed -n {number}p {path}`",
                ) from error
            yield _checked(path, number, row)


def _json(path: Path) -> Iterator[dict[str, Any]]:
    try:
        value = json.loads(_text(path))
    except ValueError as error:
        raise DataError(f"`{path}` is not JSON: {error}", "name JSON lines .jsonl") from error
    rows = value if isinstance(value, list) else [value]
    return (_checked(path, number, row) for number, row in enumerate(rows, 1))


def _checked(path: Path, number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"`{path}` row {number} is no object: {str(row)[:60]}", "one object a row")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"`{path}` row {number} holds half a surrogate pair, which is no text: {error}",
            "remove it; a tool cut the text between the two halves of a character",
        ) from error
    return row


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(csv.DictReader(io.StringIO(_text(path), newline="")), 1):
        if None in row:
            raise DataError(
                f"`{path}` row {number} has more cells than the header: {str(row[None])[:60]}",
                "put quotes around text that holds commas",
            )
        yield row


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"`{path}` is no whole Parquet file: {error}", "copy or write it again"
        ) from error


def look_up(row: dict[str, Any], name: str) -> Any:
    """The value under a name; a dot steps into a nested object."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def column(
    rows: list[dict[str, Any]], given: str | None, known: tuple[str, ...], flag: str, where: Path
) -> str | None:
    """The name of a column: the one given, or the first of the known names that the file has."""
    for name in [given] if given else known:
        if any(look_up(row, name) is not None for row in rows):
            return name
    if given:
        raise DataError(
            f"`{where}` has no column `{given}`; it has {', '.join(map(str, rows[0]))}",
            f"name one of them with {flag}",
        )
    return None


def required(
    rows: list[dict[str, Any]], given: str | None, known: tuple[str, ...], flag: str, where: Path
) -> str:
    name = column(rows, given, known, flag, where)
    if name is None:
        raise DataError(
            f"`{where}` has none of the columns {', '.join(known)}; "
            f"it has {', '.join(map(str, rows[0]))}",
            f"name the right one with {flag}",
        )
    return name


def generations(
    path: Path,
    *,
    id_column: str | None = None,
    completion_column: str | None = None,
    correct_column: str | None = None,
    reward_column: str | None = None,
) -> Generations:
    """Completions and what is known of them; lists in a row are one completion each.

    Rewards of 0 and 1 say what is correct where no column does; graded ones do not.
    """
    rows = read(path)
    id_name = required(rows, id_column, ID, "--id-column", path)
    names = {
        "completion": column(rows, completion_column, COMPLETION, "--completion-column", path),
        "correct": column(rows, correct_column, CORRECT, "--correct-column", path),
        "reward": column(rows, reward_column, REWARD, "--reward-column", path),
    }
    found: dict[str, list[Any]] = {
        "id": [],
        "completion": [],
        "correct": [],
        "reward": [],
        "row": [],
    }
    for number, row in enumerate(rows, 1):
        values: dict[str, Any] = {key: name and look_up(row, name) for key, name in names.items()}
        values["completion"] = _spoken(values["completion"])
        lists = {key: value for key, value in values.items() if isinstance(value, list)}
        if len({len(value) for value in lists.values()}) > 1:
            sizes = ", ".join(f"{len(value)} in `{names[key]}`" for key, value in lists.items())
            raise DataError(f"`{path}` row {number} holds lists of different lengths: {sizes}")
        prompt_id = look_up(row, id_name)
        if prompt_id is None:
            raise DataError(f"`{path}` row {number} has no `{id_name}`", "every row needs one")
        if any(not value for value in lists.values()):
            raise DataError(
                f"`{path}` row {number} holds an empty list for prompt `{prompt_id}`",
                "remove the row, or fill it",
            )
        for index in range(max([len(value) for value in lists.values()], default=1)):
            found["id"].append(str(prompt_id))
            found["row"].append(row)
            for key, value in values.items():
                found[key].append(value[index] if key in lists else value)
    correct, reward = _verdicts(found["correct"], found["reward"], path, names)
    return Generations(
        found["id"],
        [None if value is None else str(value) for value in found["completion"]],
        reward,
        correct,
        found["row"],
        names["completion"] is not None,
        bool(names["correct"] or names["reward"]),
        frozenset({id_name, *names.values()}),
    )


def _verdicts(
    corrects: list[Any], rewards: list[Any], path: Path, names: dict[str, str | None]
) -> tuple[list[bool | None], list[float | None]]:
    """Correctness and reward, each from the other where the file has only one of them."""
    correct = [_boolean(value, n, path, names) for n, value in enumerate(corrects, 1)]
    reward = [_number(value, n, path, names) for n, value in enumerate(rewards, 1)]
    if names["reward"] and not names["correct"] and set(reward) <= {0.0, 1.0, None}:
        correct = [None if value is None else value == 1 for value in reward]
    if names["correct"] and not names["reward"]:
        reward = [None if value is None else float(value) for value in correct]
    return correct, reward


def _spoken(value: Any) -> Any:
    """The text of a completion that is a list of messages; a list of such lists one by one."""
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(message, dict) and "content" in message for message in value):
        return "".join(str(message["content"]) for message in value)
    return [_spoken(item) for item in value]


def _boolean(value: Any, number: int, path: Path, names: dict[str, str | None]) -> bool | None:
    words = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in words:
        return words[word]
    if word in ("", "nan", "none", "null"):
        return None
    raise DataError(
        f"`{path}` completion {number} has `{names['correct']}` = `{value}`",
        "write true or false, or name another column with --correct-column",
    )


def _number(value: Any, number: int, path: Path, names: dict[str, str | None]) -> float | None:
    if value is None or value == "":
        return None
    try:
        result = float(value)
    except (TypeError, ValueError):
        result = float("inf")
    if result != result:
        return None
    if abs(result) == float("inf"):
        raise DataError(
            f"`{path}` completion {number} has `{names['reward']}` = `{str(value)[:40]}`",
            "write a finite number, or name another column",
        )
    return result
