import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.interop import readers
from rlvr_cli.interop.completions import Columns, Stream

DATA = Path(__file__).parents[3] / "shared" / "data"
ROWS = [
    {"id": "a", "completion": "2+3", "correct": True},
    {"id": "a", "completion": "one\ntwo, \"three\"\u2028four", "correct": False},
    {"id": "b", "completion": "", "correct": True},
]  # fmt: skip


def needs(name: str):
    reason = f"there is no {DATA / name}"
    return pytest.mark.skipif(not (DATA / name).exists(), reason=reason)


@dataclass
class Collected:
    """The batches of a stream as lists."""

    prompt_id: list
    completion: list
    correct: list
    reward: list
    rows: list


def collected(path: Path, **columns: str) -> Collected:
    stream = Stream(path, Columns(**columns), wanted={"completion", "correct", "reward"})
    result = Collected([], [], [], [], [])
    for batch in stream:
        nothing = [None] * len(batch)
        result.prompt_id += batch.prompt_id.to_pylist()
        result.completion += nothing if batch.completion is None else batch.completion.to_pylist()
        truths = nothing if batch.correct is None else batch.correct.tolist()
        result.correct += [None if t is None or t < 0 else bool(t) for t in truths]
        rewards = nothing if batch.reward is None else batch.reward.tolist()
        result.reward += [None if r is None or r != r else r for r in rewards]
        result.rows += batch.rows
    if stream.graded and "correct" not in stream.has:
        result.correct = [None] * len(result.correct)
    return result


def write(path: Path, rows: list[dict]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(json.dumps(rows) if path.suffix == ".json" else text, encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json", "parquet", "csv"])
def test_every_format_gives_the_same_completions(tmp_path, ending):
    result = collected(write(tmp_path / f"rows.{ending}", ROWS))
    assert result.prompt_id == ["a", "a", "b"]
    assert result.completion == [row["completion"] for row in ROWS]
    assert result.correct == [True, False, True]


def test_the_files_of_a_directory_are_read_in_order(tmp_path):
    write(tmp_path / "part-1.jsonl", ROWS[:2])
    write(tmp_path / "part-2.parquet", ROWS[2:])
    write(tmp_path / "_hidden.jsonl", ROWS)
    (tmp_path / "readme.md").write_text("no rows")
    assert collected(tmp_path).prompt_id == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("value", "truth"),
    [
        (True, True), (False, False), (1, True), (0, False), (1.0, True), (0.0, False),
        ("true", True), ("False", False), (" 1 ", True), ("0", False), ("1.0", True),
        (None, None), ("", None), ("nan", None), (float("nan"), None), ("None", None),
    ],
)  # fmt: skip
def test_a_verdict_is_read_however_it_is_written(tmp_path, value, truth):
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "correct": value}, {"id": 1, "correct": True}])
    assert collected(path).correct == [truth, True]


@pytest.mark.parametrize("value", ["maybe", 2, -1, "yes please", [], {"a": 1}])
def test_a_verdict_that_is_none_is_refused(tmp_path, value):
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "correct": [True, value]}])
    with pytest.raises(DataError, match="row 1 has `correct`"):
        collected(path)


@pytest.mark.parametrize(
    ("value", "reward"),
    [(1, 1.0), ("0.5", 0.5), (True, 1.0), (-2, -2.0), (None, None), (float("nan"), None)],
)
def test_a_reward_is_read_however_it_is_written(tmp_path, value, reward):
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "reward": value}, {"id": 1, "reward": 1}])
    result = collected(path)
    assert result.reward == [reward, 1.0]
    graded = reward not in (None, 0.0, 1.0)
    assert result.correct == ([None, None] if graded else [reward and True, True])


def test_graded_rewards_do_not_say_what_is_correct(tmp_path):
    rewards = [0.1, 0.0, 1.0, 0.5]
    path = write(tmp_path / "rows.jsonl", [{"id": 1, "reward": rewards}])
    assert collected(path).correct == [None] * 4
    with pytest.raises(DataError, match="graded rewards, which do not say what is correct"):
        pass_at_k.tally(path)


def test_lists_of_a_row_are_one_completion_each(tmp_path):
    rows = [{"id": "a", "responses": ["x", "y"], "scores": [1, None], "rest": 7}]
    result = collected(write(tmp_path / "rows.jsonl", rows))
    assert (result.prompt_id, result.completion) == (["a", "a"], ["x", "y"])
    assert result.reward == [1.0, None]
    assert result.rows[0] is result.rows[1]


def test_lists_of_other_lengths_are_refused_by_their_row(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"id": "a", "responses": ["x"], "scores": [1, 0]}])
    with pytest.raises(DataError, match=r"row 1 .* 1 in `responses`, 2 in `scores`"):
        collected(path)


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize(("name", "flag"), [("is_correct", "correct"), ("score", "reward")])
def test_one_verdict_for_several_completions_is_refused(rlvr, tmp_path, ending, name, flag):
    path = tmp_path / f"rows{ending}"
    rows = [{"id": "a", "responses": ["x"], name: 1}, {"id": "b", "responses": ["x", "y"], name: 0}]
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        write(path, rows)
    with pytest.raises(DataError, match=f"row 2 holds 2 completions and one `{name}`") as caught:
        pass_at_k.tally(path)
    words = caught.value.hint.rpartition(": ")[2].split()
    assert words == [f"--{flag}-column", "none"]
    assert rlvr("import", path, *words, "--out", tmp_path / "made").code == 0
    assert pq.read_table(tmp_path / "made" / "rollouts").num_rows == 3
    write(tmp_path / "one.jsonl", rows[:1])
    assert pass_at_k.tally(tmp_path / "one.jsonl")[0].n_P.tolist() == [1]


def test_a_column_that_may_be_the_id_is_in_the_hint(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"idx": 3, "completion": "x", "correct": True}])
    with pytest.raises(DataError, match="has none of the columns") as caught:
        pass_at_k.tally(path)
    assert caught.value.hint.endswith("with --id-column, as in --id-column idx")
    assert pass_at_k.tally(path, columns=Columns(id="idx"))[0].prompt_id == ["3"]


def test_a_dot_steps_into_a_nested_object(tmp_path):
    rows = [{"meta": {"id": 3}, "out": {"text": "x"}, "eval": {"ok": 1}}]
    result = collected(
        write(tmp_path / "rows.jsonl", rows),
        id="meta.id", completion="out.text", correct="eval.ok",
    )  # fmt: skip
    assert (result.prompt_id, result.completion, result.correct) == (["3"], ["x"], [True])


def test_a_name_with_a_dot_goes_before_a_nested_one():
    assert readers.look_up({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert readers.look_up({"a": {"b": 2}}, "a.b") == 2
    assert readers.look_up({"a": 3}, "a.b") is None


def test_a_column_that_starts_late_is_found(tmp_path):
    rows = [{"id": i} for i in range(1500)] + [{"id": 0, "correct": True}]
    assert collected(write(tmp_path / "rows.jsonl", rows)).correct[-1] is True


def test_a_file_that_starts_with_a_byte_order_mark_is_read(tmp_path):
    for name, text in (("a.jsonl", '{"id": 1, "correct": 1}\n'), ("a.csv", "id,correct\n1,1\n")):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert collected(tmp_path / name).correct == [True]


@pytest.mark.parametrize("damage", ["cut", "changed", "no gzip"])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    path = write(tmp_path / "rows.jsonl.gz", ROWS * 100)
    data = bytearray(path.read_bytes())
    data[40] ^= 255
    bad = {"cut": path.read_bytes()[:-9], "changed": bytes(data), "no gzip": b"hello"}[damage]
    path.write_bytes(bad)
    with pytest.raises(DataError, match=r"rows\.jsonl\.gz"):
        readers.read(path)


def test_text_that_is_no_utf_8_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(DataError, match="utf-8"):
        readers.read(tmp_path / "rows.jsonl")


def test_a_cut_parquet_file_is_refused(tmp_path):
    path = write(tmp_path / "rows.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a complete Parquet file"):
        readers.read(path)


@needs("gens/math_100x8_qwen25math.jsonl.gz")
def test_pass_at_k_of_stored_math_generations(rlvr):
    path = DATA / "gens" / "math_100x8_qwen25math.jsonl.gz"
    words = ("--id-column", "id", "--correct-column", "correct", "--json")
    result = json.loads(rlvr("eval-passk", path, "--k", "1,8", *words).out)
    rows = readers.read(path)
    assert (result["prompts"], result["n"], result["excluded"]) == (100, [8, 8], 0)
    assert result["metrics"]["pass@8"][0] == sum(any(row["correct"]) for row in rows) / 100
    mean = sum(sum(row["correct"]) for row in rows) / 800
    assert result["metrics"]["pass@1"][0] == result["metrics"]["avg@k"][0] == pytest.approx(mean)


@needs("gens/math_100x8_qwen25math.jsonl.gz")
def test_ucc_at_k_of_stored_math_generations(rlvr):
    path = DATA / "gens" / "math_100x8_qwen25math.jsonl.gz"
    result = json.loads(rlvr("ucc", path, "--k", "1,8", "--json").out)["metrics"]
    assert result["ucc@1"][0] <= result["ucc@8"][0] == result["clusters"][0]


@needs("gens/gsm8k_1319x4_openai.jsonl.gz")
def test_pass_at_k_of_stored_gsm8k_generations(rlvr):
    path = DATA / "gens" / "gsm8k_1319x4_openai.jsonl.gz"
    words = ("--id-column", "id", "--correct-column", "correct", "--merge", "--k", "4", "--json")
    result = json.loads(rlvr("eval-passk", path, *words).out)
    share = sum(any(row["correct"]) for row in readers.read(path)) / 1319
    assert (result["prompts"], result["n"]) == (1319, [4, 4])
    assert result["metrics"]["pass@4"][0] == pytest.approx(share)


@pytest.mark.parametrize(
    ("name", "count", "first", "answer"),
    [
        pytest.param("bench/math500.jsonl.gz", 500, "test/precalculus/807.json",
                     r"\left( 3, \frac{\pi}{2} \right)", marks=needs("bench/math500.jsonl.gz")),
        pytest.param("bench/gsm8k_test.jsonl.gz", 1319, "gsm8k_test-000001", "18",
                     marks=needs("bench/gsm8k_test.jsonl.gz")),
    ],
)  # fmt: skip
def test_prompts_of_stored_benchmarks(rlvr, tmp_path, name, count, first, answer):
    assert rlvr("prompts", DATA / name, "--out", tmp_path / "made").code == 0
    table = pq.read_table(tmp_path / "made")
    assert table.num_rows == count == len(table["prompt_id"].unique())
    row = table.slice(0, 1).to_pylist()[0]
    assert row["prompt_id"] == first and row["answer"].endswith(answer)
    assert len(json.loads(row["messages"])) > 50
