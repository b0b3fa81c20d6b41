import json

import numpy as np
import pyarrow as pa
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop import labels


def place(at: int) -> str:
    return f"row {at + 1}"


def read(*values, above=None):
    """The verdicts of a list, and of a column of Parquet where all are of one type."""
    verdicts = labels.Verdicts("correct", above).read(list(values), place).tolist()
    if len({type(v) for v in values if v is not None}) == 1:
        column = pa.array(values)
        assert labels.Verdicts("correct", above).read(column, place).tolist() == verdicts
    return verdicts


@pytest.mark.parametrize(
    "words",
    [
        ("pass", "fail"), ("PASSED", "FAILED"), ("Passed", "Fail"), ("C", "I"), ("C", "N"),
        ("yes", "no"), ("Yes", "No"), ("correct", "incorrect"), ("Right", "Wrong"),
        ("True", "False"), (1, -1), (1.0, -1.0), ("1", "-1"), (1, 0), ("1.0", "0.0"), (True, False),
        (str(np.bool_(True)), str(np.bool_(False))),
    ],
)  # fmt: skip
def test_the_two_words_of_a_pair_are_right_and_wrong(words):
    right, wrong = words
    assert read(right, wrong, None, right) == [1, 0, -1, 1]


@pytest.mark.parametrize(
    ("values", "bad", "other"),
    [
        (["pass", "no"], "no", "pass"), ([True, "pass"], "pass", "True"), ([1, 0, -1], "-1", "1"),
        ([True, -1], "-1", "True"), (["C", "correct"], "correct", "C"), ([1, "yes"], "yes", "1"),
    ],
)  # fmt: skip
def test_two_ways_to_write_verdicts_are_refused_in_one_column(values, bad, other):
    with pytest.raises(DataError) as error:
        read(*values)
    where = f"row {len(values)} has `correct` = `{bad}`, and others have `{other}`"
    assert str(error.value) == where


def test_words_of_another_batch_are_remembered():
    verdicts = labels.Verdicts("correct")
    verdicts.read(["C", "I"], place)
    with pytest.raises(DataError, match="row 1 has `correct` = `yes`, and others have `C`"):
        verdicts.read(["yes"], place)


@pytest.mark.parametrize("value", ["maybe", "A", [1], {"a": 1}, "inf"])
def test_what_is_no_verdict_is_named_with_its_row(value):
    with pytest.raises(DataError, match=r"row 2 has `correct` = .*, which is not a verdict"):
        labels.Verdicts("correct").read([None, value], place)


@pytest.mark.parametrize("value", [0.5, "0.25", 2, "P"])
def test_a_graded_verdict_is_refused_and_the_hint_says_how_to_grade(value):
    with pytest.raises(DataError, match=r"row 1 has .*, neither right nor wrong") as error:
        read(value, value)
    assert "--correct-above 0.5" in error.value.hint


def test_above_a_threshold_is_right_and_at_it_is_wrong():
    assert read(0.5, 0.51, None, 1.0, above=0.5) == [0, 1, -1, 1]
    assert read("0.5", "7", "", above=0.5) == [0, 1, -1]
    assert read("C", "P", "I", "N", above=0.25) == [1, 1, 0, 0]
    assert read(True, False, above=0.5) == [1, 0]
    with pytest.raises(DataError, match="row 2 has `correct` = `maybe`, which is not a number"):
        read("1", "maybe", above=0.5)


def test_a_value_in_the_dictionary_that_no_row_has_is_no_error():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["1", "maybe"]))
    assert labels.Verdicts("correct").read(column, place).tolist() == [1, 1]


def test_rewards_are_graded_unless_they_are_two_values_of_a_verdict():
    for values, graded in (([0, 1], False), ([-1, 1], False), ([-1, 0, 1], True), ([0.5], True),
                           ([1], False), ([float("nan"), 1], False)):  # fmt: skip
        assert labels.are_graded(np.array(values, dtype=float), set()) is graded, values
    before: set[float] = set()
    assert not labels.are_graded(np.array([0.0]), before)
    assert labels.are_graded(np.array([-1.0]), before)  # of another batch


def test_numbers_that_are_none_are_named_with_their_row():
    with pytest.raises(DataError, match="row 2 has `score` = `high`, which is not a finite number"):
        labels.numbers(["1", "high"], "score", place)
    with pytest.raises(DataError, match="row 1 has `score` = `10000"):
        labels.numbers([10**400, 1], "score", place)
    assert json.dumps(labels.numbers(["1", "", None], "score", place).tolist()) == "[1.0, NaN, NaN]"
