"""Files in other tools' layouts, and what is read from them."""

import json

import pytest

from rlvr_cli.interop.completions import Columns, Stream


@pytest.fixture
def store(tmp_path):
    """Writes one JSON value, or rows as JSON lines, under a name."""

    def write(name, *rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        is_lines = name.endswith(".jsonl")
        path.write_text("".join(json.dumps(r) + "\n" for r in rows) if is_lines
                        else json.dumps(rows[0], indent=4))  # fmt: skip
        return path

    return write


@pytest.fixture
def counts():
    """The number of completions with a verdict, and of the correct ones, of each prompt."""

    def read(path, **columns):
        found = {}
        for batch in Stream(
            path,
            Columns(**{n.removesuffix("_column"): v for n, v in columns.items()}),
            wanted={"correct", "reward", "source"},
        ):
            ids = batch.prompt_id.to_pylist()
            for prompt_id, verdict in zip(ids, batch.correct.tolist(), strict=True):
                n, correct = found.get(prompt_id, (0, 0))
                found[prompt_id] = (n + (verdict >= 0), correct + (verdict == 1))
        return found

    return read


@pytest.fixture
def verdicts():
    """The verdict of each completion: 1, 0, or -1 where there is none."""

    def read(path, **columns):
        batches = Stream(
            path,
            Columns(**{n.removesuffix("_column"): v for n, v in columns.items()}),
            wanted={"correct", "reward"},
        )
        return [verdict for batch in batches for verdict in batch.correct.tolist()]

    return read
