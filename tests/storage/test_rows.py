"""Rows found by the id of their prompt."""

import json
import random

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.stages import prompts
from rlvr_cli.storage import rows

NAMES = [f"p{number}" for number in range(2500)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    table = [
        {"prompt_id": name, "messages": json.dumps(name), "answer": None, "verifier": None,
         "source": "names", "extra": None}
        for name in NAMES
    ]  # fmt: skip
    return prompts.make_all_parts(table, tmp_path_factory.mktemp("rows") / "prompts", params={})


def test_rows_are_taken_in_any_order_over_all_parts(made):
    numbers = random.Random(0).sample(range(len(NAMES)), 700)
    taken = rows.of(made).take(numbers, ["messages", "prompt_id"])
    assert taken.equals(made.table().take(numbers).select(["messages", "prompt_id"]))
    assert rows.of(made).take([], ["prompt_id"]).num_rows == 0


def test_each_part_that_holds_some_is_read_and_no_other(made, tmp_path):
    known = rows.Rows(made)
    (made.path / "part-00001.parquet").rename(tmp_path / "away")
    assert known.take([2400, 3], ["prompt_id"])["prompt_id"].to_pylist() == ["p2400", "p3"]
    with pytest.raises(DataError, match="cannot read"):
        known.take([1500], ["prompt_id"])
    (tmp_path / "away").rename(made.path / "part-00001.parquet")


def test_an_id_has_the_number_of_its_row_and_an_unknown_one_is_refused(made):
    names = random.Random(1).sample(NAMES, 100)
    assert rows.of(made).numbers_of(names) == [NAMES.index(name) for name in names]
    with pytest.raises(DataError, match="holds no prompt `other`"):
        rows.of(made).numbers_of(["p3", "other"])


def test_the_ids_are_read_once_for_the_same_content(made):
    assert rows.of(made) is rows.of(made)
