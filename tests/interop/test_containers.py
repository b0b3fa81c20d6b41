"""JSON in the shapes in which tools leave it."""

import json
import subprocess

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop import readers
from rlvr_cli.interop.completions import Stream

ROWS = [{"id": "a", "completion": "4", "correct": True},
        {"id": "b", "completion": "5", "correct": False}]  # fmt: skip
KEYED = {"a": {"completion": "4", "correct": True}, "b": {"completion": "5", "correct": False}}
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def read(tmp_path, value, name="rows.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return readers.read(path)


@pytest.mark.parametrize("name", ["results", "data", "samples", "rows", "predictions"])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_list_among_other_fields_holds_the_rows(tmp_path, name, indent):
    value = {"model": "m", "config": {"n": 8}, "scores": [0.5], name: ROWS}
    assert read(tmp_path, json.dumps(value, indent=indent)) == ROWS


def test_a_list_of_any_name_is_taken_if_its_objects_have_ids(tmp_path):
    assert read(tmp_path, {"model": "m", "evaluated_problems": ROWS}) == ROWS


def test_several_lists_of_rows_are_refused_and_the_hint_takes_one(tmp_path):
    with pytest.raises(DataError, match="several lists of rows: train, test") as error:
        read(tmp_path, {"train": ROWS, "test": ROWS})
    assert error.value.hint.startswith("""take one of them out: jq -c '.["train"][]' """)


def test_the_hint_of_a_list_with_an_evil_name_runs_nothing(tmp_path):
    evil = "a' ; touch ran; echo '"
    with pytest.raises(DataError) as error:
        read(tmp_path, {evil: ROWS, "test": ROWS})
    command = error.value.hint.partition(": ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=False, capture_output=True)
    assert not (tmp_path / "ran").exists()


def test_a_row_with_a_list_of_its_own_stays_one(tmp_path):
    for row in (
        {"id": "a", "messages": [{"role": "user", "content": "?"}], "completion": "4"},
        {"id": "a", "samples": [{"text": "4"}], "correct": True},
        {"prompt": "?", "responses": [{"text": "4"}, {"text": "5"}]},
    ):
        assert read(tmp_path, row) == [row]


def test_objects_under_their_ids_get_them(tmp_path):
    rows = [{"prompt_id": key, **row} for key, row in KEYED.items()]
    assert read(tmp_path, KEYED) == rows
    lists = {"a": [{"completion": "4"}, {"completion": "5"}], "b": [{"completion": "6"}]}
    assert [row["prompt_id"] for row in read(tmp_path, lists)] == ["a", "a", "b"]
    # OpenCompass' predictions
    predictions = {str(i): {"origin_prompt": "?", "prediction": "4", "gold": "4"} for i in (0, 1)}
    assert [row["prompt_id"] for row in read(tmp_path, predictions)] == ["0", "1"]
    assert read(tmp_path, {"0": {"id": "x", "completion": "4"}}) == [{"id": "x", "completion": "4"}]


def test_figures_by_task_are_no_rows(tmp_path):
    value = {"gsm8k": {"acc": 1.0, "stderr": 0.1}, "math": {"acc": 0.0, "stderr": 0.1}}
    assert read(tmp_path, value) == [value]
    with pytest.raises(DataError, match="none of the columns prompt_id"):
        tally(tmp_path / "rows.json")


def test_lists_of_responses_are_those_of_one_prompt_after_the_other(tmp_path):
    # bigcode-evaluation-harness' generations.json
    value = [["def f(): 1", "def f(): 2"], ["def g(): 1"]]
    assert read(tmp_path, value) == [
        {"prompt_id": "0", "completions": value[0]}, {"prompt_id": "1", "completions": value[1]},
    ]  # fmt: skip
    assert read(tmp_path, {"HumanEval/0": value[0], "HumanEval/1": value[1]}) == [
        {"prompt_id": "HumanEval/0", "completions": value[0]},
        {"prompt_id": "HumanEval/1", "completions": value[1]},
    ]


@pytest.mark.parametrize("orient", ["list", "dict"])
def test_columns_of_pandas_and_datasets_are_rows(tmp_path, orient):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    if orient == "dict":  # DataFrame.to_json without `orient`
        columns = {n: dict(zip("01", values, strict=True)) for n, values in columns.items()}
    assert read(tmp_path, columns) == ROWS


def test_columns_without_ids_are_rows_and_a_list_of_golds_is_none(tmp_path):
    columns = {"question": ["1?", "2?"], "answer": ["1", "2"]}
    assert read(tmp_path, columns) == [
        {"question": "1?", "answer": "1"}, {"question": "2?", "answer": "2"},
    ]  # fmt: skip
    row = {"question": "1?", "answer": ["1", "one"]}
    assert read(tmp_path, row) == [row]
    messages = {"prompt": [{"role": "user", "content": "1?"}], "completions": ["1"]}
    assert read(tmp_path, messages) == [messages]


@pytest.mark.parametrize("value", [[1, 2], [ROWS[0], "x"], [[1], [2]]])
def test_what_is_no_object_is_named_by_its_row(tmp_path, value):
    with pytest.raises(DataError, match=r"rows\.json` row [12] is not an object"):
        read(tmp_path, value)


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.txt", "rows.log", "rows"])
def test_the_content_says_whether_it_is_json_or_lines_of_it(tmp_path, name):
    assert read(tmp_path, LINES, name) == ROWS
    assert read(tmp_path, json.dumps(ROWS, indent=2), name) == ROWS
    assert read(tmp_path, json.dumps(ROWS), name) == ROWS
    assert read(tmp_path, json.dumps(ROWS[0], indent=2), name) == ROWS[:1]
    assert read(tmp_path, "\n\n" + "\n".join(json.dumps(r, indent=2) for r in ROWS), name) == ROWS


def test_a_text_that_is_no_json_is_refused_by_its_ending(tmp_path):
    with pytest.raises(DataError, match="no file name ending that rlvr reads, and does not begin"):
        read(tmp_path, "id,completion\n", "rows.txt")


def test_a_cut_file_is_named_by_the_line(tmp_path):
    with pytest.raises(DataError, match="line 7 is not JSON"):
        read(tmp_path, json.dumps(ROWS, indent=2)[:70])
    with pytest.raises(DataError, match="line 2 is not JSON") as error:
        read(tmp_path, LINES[:-10], "rows.jsonl")
    command = error.value.hint.split("`")[1]
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    assert shown == LINES[:-10].splitlines()[1]


def test_numbers_that_are_none_are_unknown_and_infinite_ones_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1, "reward": NaN, "completion": NaN}\n{"id": 1, "reward": 1.0}\n')
    (batch,) = Stream(path, wanted={"completion", "reward"})
    assert batch.reward.tolist()[1] == 1.0 and batch.reward[0] != batch.reward[0]
    assert batch.completion.to_pylist() == [None, None]
    path.write_text('{"id": 1, "reward": Infinity}\n')
    with pytest.raises(DataError, match="row 1 has `reward` = `inf`"):
        tally(path)
