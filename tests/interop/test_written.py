"""Lists that stand in a file as text are read as lists, and texts that look like them are not."""

import csv
import json

import pytest

from rlvr_cli.interop.completions import Columns, Stream

TEXTS = ["it's 4", 'she said "5"']


@pytest.fixture
def texts_of(tmp_path):
    """The completions and verdicts of one row, written as CSV by Python's `str` or as JSON."""

    def read(row, write=str):
        path = tmp_path / "rows.csv"
        cells = {name: one if isinstance(one, str) else write(one) for name, one in row.items()}
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(cells))
            writer.writeheader()
            writer.writerow(cells)
        stream = Stream(path, Columns(), wanted={"completion", "correct", "reward", "extracted"})
        pairs = [zip(one.completion, one.correct.tolist(), strict=True) for one in stream]
        return [(str(text), verdict) for pair in pairs for text, verdict in pair]

    return read


@pytest.mark.parametrize("write", [str, json.dumps])
def test_lists_of_completions_and_of_verdicts(texts_of, write):
    row = {"id": "a", "completions": TEXTS, "correct": [True, False]}
    assert texts_of(row, write) == [(TEXTS[0], 1), (TEXTS[1], 0)]


@pytest.mark.parametrize("write", [str, json.dumps])
def test_a_conversation_with_a_turn_of_the_model(texts_of, write):
    turns = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "it is 4"}]
    row = {"id": "a", "completion": turns, "correct": "1"}
    assert texts_of(row, write) == [("it is 4", 1)]


@pytest.mark.parametrize(
    "text", ["[1, 2]", "['a']", '{"role": "admin", "content": "x"}', "[unclosed", "[]"]
)
def test_one_completion_that_looks_like_a_list_stays_a_text(texts_of, text):
    assert texts_of({"id": "a", "completion": text, "correct": "1"}) == [(text, 1)]


def test_an_answer_that_is_a_list_belongs_to_one_completion(texts_of):
    row = {"id": "a", "completion": "so [1, 2]", "predictions": "[1, 2]", "correct": "1"}
    assert texts_of(row) == [("so [1, 2]", 1)]
