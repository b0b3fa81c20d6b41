import json
import math
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import tallies
from rlvr_cli.evaluation.load import tally
from rlvr_cli.interop import parquet_columns


def rows(seed: int = 0, prompts: int = 7, count: int = 400) -> list[dict]:
    rng = random.Random(seed)
    return [
        {
            "id": f"p{rng.randrange(prompts)}",
            "correct": rng.choice([True, False, None]),
            "completion": f"text {rng.randrange(9)}",
            "extracted": rng.choice(["1", "2", None]),
            "source": rng.choice(["one", "two"]),
        }
        for _ in range(count)
    ]


def counted(found: list[dict]) -> dict:
    """The counts by source and id, in plain Python."""
    made: dict = {}
    for row in found:
        entry = made.setdefault((row["source"], row["id"]), {"n": 0, "c": 0, "x": 0, "texts": []})
        entry["x"] += row["correct"] is None
        entry["n"] += row["correct"] is not None
        entry["c"] += row["correct"] is True
        entry["texts"] += [row["completion"]] if row["correct"] else []
    return made


def written(folder: Path, found: list[dict], ending: str) -> Path:
    path = folder / f"rows.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(found), path, row_group_size=50)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize("batch", [3, 1000])
def test_a_streamed_tally_is_the_one_of_all_rows(tmp_path, monkeypatch, ending, batch):
    monkeypatch.setattr(parquet_columns, "TEXT_ROWS_PER_BATCH", batch)
    monkeypatch.setattr("rlvr_cli.interop.completions.ROWS_PER_BATCH", batch)
    monkeypatch.setattr(tallies, "MANY_ROWS", 10)
    found = rows()
    made, _ = tally(written(tmp_path, found, ending), texts=True)
    truth = counted(found)
    assert made.prompt_id == [f"{source}/{prompt}" for source, prompt in truth]
    assert made.source == [source for source, _ in truth]
    assert made.n_P.tolist() == [entry["n"] for entry in truth.values()]
    assert made.correct_P.tolist() == [entry["c"] for entry in truth.values()]
    assert made.excluded_P.tolist() == [entry["x"] for entry in truth.values()]
    assert made.texts == [entry["texts"] for entry in truth.values()]
    wrong = [r for r in found if r["correct"] is False and r["extracted"]]
    assert sum(map(sum, made.wrong or [])) == len(wrong)


def test_columns_taken_as_they_are_count_like_rows(tmp_path):
    found = [{k: v for k, v in row.items() if k != "source"} for row in rows()]
    plain, _ = tally(written(tmp_path, found, "parquet"))
    by_row, _ = tally(written(tmp_path, found, "jsonl"))
    assert plain.prompt_id == by_row.prompt_id and plain.wrong == by_row.wrong
    np.testing.assert_array_equal(plain.correct_P, by_row.correct_P)
    assert plain.source == [None] * len(plain.prompt_id)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string(), pa.bool_()])
def test_verdicts_of_any_column_type_are_read(tmp_path, kind):
    values = {"string": ["1", "0", None, "true"]}.get(str(kind), [1, 0, None, 1])
    correct = pa.array(values).cast(kind)
    table = pa.table({"id": pa.array([7, 7, 7, 8]), "correct": correct})
    pq.write_table(table, tmp_path / "rows.parquet")
    made, _ = tally(tmp_path / "rows.parquet")
    assert (made.prompt_id, made.n_P.tolist(), made.correct_P.tolist()) == (
        ["7", "8"], [2, 1], [1, 1],
    )  # fmt: skip


def test_lists_in_parquet_are_one_completion_each(tmp_path):
    table = pa.table({"id": ["a", "b"], "responses": [["x", "y"], ["z"]], "scores": [[1, 0], [1]]})
    pq.write_table(table, tmp_path / "rows.parquet")
    made, _ = tally(tmp_path / "rows.parquet", texts=True)
    assert (made.n_P.tolist(), made.texts) == ([2, 1], [["x"], ["z"]])


def test_a_bad_verdict_in_a_column_is_named_by_its_place(tmp_path):
    table = pa.table({"id": ["a", "a"], "correct": ["true", "maybe"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"row 2 has `correct` = `maybe`"):
        tally(tmp_path / "rows.parquet")


def test_a_pattern_names_many_files(tmp_path):
    for name in "ab":
        table = pa.table({"id": [name, name], "correct": [True, False]})
        pq.write_table(table, tmp_path / f"part-{name}.parquet")
    made, _ = tally(tmp_path / "part-*.parquet")
    assert (made.prompt_id, made.n_P.tolist()) == (["a", "b"], [2, 2])
    with pytest.raises(DataError, match="does not exist"):
        tally(tmp_path / "nope-*.parquet")


def test_repeated_samples_that_are_kept_are_counted(tmp_path):
    found = [{"id": "a", "sample_index": i, "correct": True} for i in (0, 1, 1, 2)]
    found += [{"id": "b", "sample_index": i, "correct": True} for i in (0, 1)]
    for ending in ("jsonl", "parquet"):
        path = written(tmp_path, found, ending)
        assert tally(path, columns=Columns(repeats="keep"))[0].repeated == 1


def test_a_better_name_that_turns_up_later_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rlvr_cli.interop.completions.ROWS_PER_BATCH", 1)
    path = written(tmp_path, [{"id": "a", "acc": 1}, {"id": "a", "correct": 0}], "jsonl")
    with pytest.raises(DataError, match="`acc` in its first rows and `correct` later") as error:
        tally(path)
    assert "--correct-column" in error.value.hint


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1), st.data())
def test_runs_of_a_prompts_rows_are_counted_as_single_rows_are(runs, data):
    id_N = np.repeat(*map(np.int32, zip(*runs, strict=True)))
    verdicts = st.lists(st.sampled_from([-1, 0, 1]), min_size=len(id_N), max_size=len(id_N))
    correct_N = np.array(data.draw(verdicts), dtype=np.int8)
    truth = np.zeros((3, 5), dtype=int)
    np.add.at(truth, (correct_N + 1, id_N), 1)
    with pytest.MonkeyPatch.context() as patch:
        for least in (0, 10_000):  # as runs, and one by one
            patch.setattr(tallies, "LONG_RUN", least)
            made = tallies._counted(id_N, correct_N, 5)
            assert (made.tolist(), made.dtype) == (truth.tolist(), np.int64)


@pytest.mark.parametrize("n", [4, 300])
def test_pass_rates_of_sorted_rows_are_exact(tmp_path, n):
    right = np.random.default_rng(0).random((20, n)) < 0.3
    names = [f"p{i}" for i in np.arange(20).repeat(n)]
    table = pa.table({"prompt_id": names, "correct": right.reshape(-1)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=777)
    made, _ = tally(tmp_path / "rows.parquet")
    assert made.prompt_id == [f"p{i}" for i in range(20)]
    assert made.correct_P.tolist() == right.sum(axis=1).tolist()
    assert set(made.n_P.tolist()) == {n} and not made.excluded_P.any()


def test_completions_drawn_are_the_same_ones_each_time_and_as_many_right_as_chance_has_it():
    prompts, n, right = 600, 16, 4
    made = tallies.Tally(
        [f"p{i}" for i in range(prompts)], np.full(prompts, n), np.full(prompts, right),
        np.zeros(prompts, dtype=int), [["a", "b", "c", "d"]] * prompts, [],
        source=[None] * prompts, ids=[f"p{i}" for i in range(prompts)],
    )  # fmt: skip
    fewer = tallies.drawn(made, np.full(prompts, 8))
    assert fewer.correct_P.tolist() == tallies.drawn(made, np.full(prompts, 8)).correct_P.tolist()
    assert [len(texts) for texts in fewer.texts] == fewer.correct_P.tolist()
    assert all(texts == sorted(set(texts)) for texts in fewer.texts)
    share = np.bincount(fewer.correct_P, minlength=5) / prompts
    exact = [math.comb(4, j) * math.comb(12, 8 - j) / math.comb(16, 8) for j in range(5)]
    assert np.abs(share - exact).max() < 0.07
    one = tallies.drawn(tallies.chosen(made, [5]), np.array([8]))
    assert one.correct_P[0] == fewer.correct_P[5]  # whatever the others are
    whole = tallies.drawn(made, np.full(prompts, 99))
    assert whole.n_P.tolist() == made.n_P.tolist() and whole.texts == made.texts
