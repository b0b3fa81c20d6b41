"""Files as verl, TRL, lm-eval, lighteval and EvalPlus write them, read and written again."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry
from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally

NAMES = [name for name in registry.names("formats") if name != "jsonl"]
FORMATS = [name for name in NAMES if hasattr(registry.module("formats", name), "write")]


def counts(path, **columns) -> dict[str, tuple[int, int]]:
    tallied, _ = tally(path, columns=Columns(**columns))
    pairs = zip(tallied.n_P.tolist(), tallied.correct_P.tolist(), strict=True)
    return dict(zip(tallied.prompt_id, pairs, strict=True))


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def doc(i: int, **more) -> dict:
    return {"doc_id": i, "doc": {"question": "q"}, "target": "4", "arguments": [["q", {}]],
            "resps": [[f"it is {i}"]], "filtered_resps": [str(i)], "filter": "strict-match",
            "metrics": ["exact_match"], "exact_match": 1.0, "doc_hash": "h", **more}  # fmt: skip


def test_lm_eval_samples(tmp_path):
    path = lines(tmp_path / "samples_gsm8k_2026-01-01T00-00-00.1.jsonl", doc(3), doc(4))
    tallied, _ = tally(path, texts=True)
    assert (tallied.prompt_id, tallied.source) == (["3", "4"], ["gsm8k", "gsm8k"])
    assert tallied.texts == [["it is 3"], ["it is 4"]]


def test_samples_of_several_tasks_are_kept_apart(tmp_path):
    for task, right in (("aime", 0.0), ("gsm8k", 1.0)):
        lines(tmp_path / f"samples_{task}_2026-01-01T00-00-00.1.jsonl", doc(0, exact_match=right))
    assert counts(tmp_path) == {"aime/0": (1, 0), "gsm8k/0": (1, 1)}


def test_two_filters_are_not_two_completions(tmp_path):
    path = lines(tmp_path / "samples_x.jsonl", doc(0), doc(0, filter="flexible-extract"))
    with pytest.raises(DataError, match="filters strict-match and flexible-extract") as error:
        tally(path)
    assert error.value.hint == "take one with --where filter=strict-match"
    assert counts(path, where=["filter=flexible-extract"]) == {"0": (1, 1)}


def test_repeats_that_a_filter_did_not_judge_are_excluded_and_counted(tmp_path):
    path = lines(tmp_path / "samples_x.jsonl", doc(0, resps=[["a", "b", "c"]]))
    tallied, _ = tally(path)
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [2])


def test_choices_by_likelihood_have_a_verdict_and_no_text(tmp_path):
    row = doc(0, resps=[[["-1.5", "False"]], [["-2.0", "False"]]], metrics=["acc"], acc=0.0)
    assert counts(lines(tmp_path / "samples_arc.jsonl", row)) == {"0": (1, 0)}


@pytest.mark.parametrize("form", ["__{}__", "{}"])
def test_lighteval_details(tmp_path, form):
    rows = [
        {form.format("doc"): {"id": "7", "query": "q", "task_name": "aime", "choices": ["4"],
                              "gold_index": [0]},
         form.format("model_response"): {"text": ["it is 4"]},
         form.format("metric"): {"extractive_match": right}}
        for right in (1.0, 0.0)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "details.parquet")
    assert counts(tmp_path / "details.parquet") == {"7": (2, 1)}
    tallied, _ = tally(tmp_path / "details.parquet", texts=True)
    assert (tallied.texts, tallied.source) == ([["it is 4"]], ["aime"])


def test_a_metric_over_many_completions_is_no_verdict_of_one(tmp_path):
    row = {"doc": {"id": "7"}, "model_response": {"text": ["a", "b"]}, "metric": {"pass@1": 1.0}}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "details.parquet")
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(tmp_path / "details.parquet")


def test_evalplus_results(tmp_path):
    results = {
        "HumanEval/0": [
            {"task_id": "HumanEval/0", "solution": f"s{i}", "base_status": b, "plus_status": p}
            for i, (b, p) in enumerate([("pass", "pass"), ("pass", "fail"), ("timeout", None)])
        ]
    }
    (tmp_path / "r.json").write_text(json.dumps({"date": "d", "hash": "h", "eval": results}))
    assert counts(tmp_path / "r.json") == {"HumanEval/0": (3, 1)}
    by_prompt = counts(tmp_path / "r.json", correct="base_correct")
    assert by_prompt == {"HumanEval/0": (3, 2)}


def test_verl_rollouts_are_grouped_by_their_prompt(tmp_path):
    rows = [{"input": q, "output": o, "gts": "4", "score": s, "step": 1}
            for q, o, s in (("2+2", "4", 1.0), ("2+2", "5", 0.0), ("1+1", "2", 1.0))]  # fmt: skip
    assert list(counts(lines(tmp_path / "1.jsonl", *rows)).values()) == [(2, 1), (1, 1)]


def test_trl_completions_with_one_and_with_two_rewards(tmp_path):
    rows = [{"step": 1, "prompt": "2+2", "completion": c, "accuracy_reward": r, "advantage": 0.0}
            for c, r in (("4", 1.0), ("5", 0.0))]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "one.parquet")
    assert list(counts(tmp_path / "one.parquet").values()) == [(2, 1)]
    two = [row | {"format_reward": 1.0} for row in rows]
    pq.write_table(pa.Table.from_pylist(two), tmp_path / "two.parquet")
    with pytest.raises(DataError, match="which completions are correct"):
        tally(tmp_path / "two.parquet")
    named = counts(tmp_path / "two.parquet", correct="accuracy_reward")
    assert list(named.values()) == [(2, 1)]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read_to_the_same_rows(rlvr, known, tmp_path, name):
    ran = rlvr("export", known / "scores", "--format", name, "--out", tmp_path / "file")
    assert ran.code == 0, ran.err
    path = tmp_path / f"rows{registry.module('formats', name).SUFFIX}"
    (tmp_path / "file").rename(path)
    assert rlvr("import", path, "--out", tmp_path / "again").code == 0
    for kind, columns in (
        ("rollouts", ["prompt_id", "sample_index", "completion"]),
        ("scores", ["prompt_id", "sample_index", "reward", "correct"]),
    ):
        first = pq.read_table(known / kind).select(columns)
        assert pq.read_table(tmp_path / "again" / kind).select(columns).equals(first), kind


@pytest.mark.parametrize("name", FORMATS)
def test_a_written_file_is_recognised_by_its_format_alone(rlvr, known, tmp_path, name):
    if name == "trl":
        return  # it has ids of its own there, and so is plain
    rlvr("export", known / "scores", "--format", name, "--out", tmp_path / "file")
    if registry.module("formats", name).SUFFIX == ".parquet":
        names = set(pq.read_schema(tmp_path / "file").names)
    else:
        names = set(json.loads((tmp_path / "file").read_text().splitlines()[0]))
    assert [n for n in NAMES if registry.module("formats", n).recognises(names)] == [name]
