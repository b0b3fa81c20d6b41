"""What is one prompt and one sample in files of other tools, and which of them are kept apart."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation import diversity
from rlvr_cli.evaluation.load import tally
from rlvr_cli.interop.completions import Stream
from rlvr_cli.interop.names import KNOWN


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def counts(path, **columns):
    tallied, _ = tally(path, columns=Columns(**columns))
    pairs = zip(tallied.n_P.tolist(), tallied.correct_P.tolist(), strict=True)
    return dict(zip(tallied.prompt_id, pairs, strict=True))


@pytest.fixture(params=["jsonl", "parquet"])
def file(tmp_path, request):
    return lambda *rows, name="rows": write(tmp_path / f"{name}.{request.param}", list(rows))


def row(prompt_id, right=True, **more):
    return {"id": prompt_id, "correct": right, **more}


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.string()])
def test_an_id_is_the_same_as_a_number_and_as_text(tmp_path, kind):
    write(tmp_path / "a.jsonl", [row(1.0, sample_index=0), row("1", sample_index=1)])
    write(tmp_path / "b.jsonl", [row(1, sample_index=2), row(1.5, sample_index=0)])
    table = pa.table({"id": pa.array([1]).cast(kind), "correct": [True], "sample_index": [3]})
    pq.write_table(table, tmp_path / "c.parquet")
    (tmp_path / "d.csv").write_text("id,correct,sample_index\n1.0,true,4\n")
    assert counts(tmp_path) == {"1": (5, 5), "1.5": (1, 1)}


def test_a_prompt_with_two_golds_is_refused_with_both_rows(file):
    path = file(row(0, answer="4"), row(1, answer="5"), row(0, answer="7"))
    with pytest.raises(DataError) as error:
        counts(path)
    assert str(error.value) == (
        f"prompt `0` has two golds: `answer` is `4` in `{path}` row 1 and `7` in `{path}` row 3"
    )
    for flag in ("--source-column", "--id-column", "--answer-column none"):
        assert flag in error.value.hint
    assert counts(path, gold="none") == {"0": (2, 2), "1": (1, 1)}


def test_a_prompt_with_two_texts_is_refused_unless_its_source_differs(file):
    rows = [row(0, prompt="1+1?", task="a"), row(0, prompt="2+2?", task="b")]
    with pytest.raises(DataError, match="prompt `0` has two texts: `prompt` is `1\\+1\\?` in"):
        counts(file(*rows))
    assert counts(file(*rows), source="task") == {"a/0": (1, 1), "b/0": (1, 1)}


def test_golds_are_compared_over_batches_and_a_row_without_one_says_nothing(file, monkeypatch):
    monkeypatch.setattr("rlvr_cli.interop.completions.ROWS_PER_BATCH", 1)
    monkeypatch.setattr("rlvr_cli.interop.parquet_columns.ROWS_PER_BATCH", 1)
    assert counts(file(row(0, answer=4), row(0, answer=None), row(0, answer=4)))["0"] == (3, 3)
    with pytest.raises(DataError, match=r"has two golds: `answer` is `4` in .* row 1 and `5` in"):
        counts(file(row(0, answer=4), row(0, answer=None), row(0, answer=5)))


def test_messages_that_end_with_the_completion_are_one_prompt(file):
    rows = [
        row(0, messages=[{"role": "user", "content": "2+2"}, {"role": "assistant", "content": c}])
        for c in ("4", "5")
    ]
    assert counts(file(*rows)) == {"0": (2, 2)}
    other = row(0, messages=[{"role": "user", "content": "1+1"}])
    with pytest.raises(DataError, match="prompt `0` has two texts"):
        counts(file(*rows, other))


@pytest.mark.parametrize("name", KNOWN["sample"])
def test_a_sample_that_occurs_twice_is_refused_under_every_name(file, name):
    rows = [row("a", **{name: i}) for i in (0, 1, 1)] + [row("b", **{name: 0})]
    path = file(*rows)
    with pytest.raises(DataError) as error:
        counts(path)
    assert str(error.value) == (
        f"`{path}` has sample 1 of prompt `a` in row 2 and in row 3 (`{name}`)"
    )
    assert counts(path, repeats="keep") == {"a": (3, 3), "b": (1, 1)}
    assert counts(path, repeats="first") == {"a": (2, 2), "b": (1, 1)}
    assert counts(path, sample="none") == {"a": (3, 3), "b": (1, 1)}


def test_samples_with_names_in_place_of_numbers_are_told_apart(file):
    rows = [row("a", completion_id=f"cmpl-{i}") for i in (1, 2, 1)]
    with pytest.raises(DataError, match="sample `cmpl-1` of prompt `a` in row 1 and in row 3"):
        counts(file(*rows))


def test_the_first_of_rows_that_repeat_a_sample_is_the_one_that_counts(file):
    path = file(row("a", True, trial=0, completion="x"), row("a", False, trial=0, completion="y"))
    batches = list(Stream(path, Columns(repeats="first"), wanted={"completion", "correct"}))
    assert [t for b in batches for t in b.completion.to_pylist()] == ["x"]
    assert counts(path, repeats="first") == {"a": (1, 1)}


def test_a_number_of_a_row_with_a_list_is_that_of_the_list(file):
    rows = [{"id": "a", "trial": t, "correct": [True, False]} for t in (0, 1)]
    assert counts(file(*rows)) == {"a": (4, 2)}
    assert counts(file(*[{"id": "a", "trial": t, "correct": [True]} for t in (0, 1)]))["a"] == (
        2,
        2,
    )
    with pytest.raises(DataError, match="sample `1/0` of prompt `a` in row 2 and in row 3"):
        counts(file(*rows, rows[1]))


@pytest.mark.parametrize("name", ["sample_id", "run", "epoch"])
def test_a_column_that_is_one_in_all_rows_of_a_prompt_numbers_no_samples(file, name):
    rows = [row(p, **{name: value}) for p, value in (("a", 7), ("a", 7), ("b", 8), ("b", 8))]
    assert counts(file(*rows)) == {"a": (2, 2), "b": (2, 2)}


def test_two_steps_of_one_file_are_not_one_prompts_samples(file):
    path = file(row("a", True, step=0), row("a", False, step=50))
    with pytest.raises(DataError, match="has completions of two steps: `step` is `0`") as error:
        counts(path)
    assert "--where step=STEP" in error.value.hint and "--merge" in error.value.hint
    assert counts(path, where=["step=50"]) == {"a": (1, 0)}
    assert counts(path, source="step") == {"0/a": (1, 1), "50/a": (1, 0)}
    assert counts(path, merge=True) == {"a": (2, 1)}


def test_files_with_prompts_of_their_own_are_one_set(tmp_path):
    for part in range(3):
        rows = [row(f"p{part}"), row(f"p{part}", False)]
        write(tmp_path / f"train-{part:05d}-of-00003.parquet", rows)
    assert counts(tmp_path) == {f"p{part}": (2, 1) for part in range(3)}
    assert tally(tmp_path)[0].read["apart"] == []


def test_files_that_share_prompts_are_sources_unless_they_are_merged(tmp_path, file):
    for name, right in (("0", False), ("50", True)):
        path = file(row("a", right), row("b", True), name=name)
    tallied, _ = tally(path.parent)
    assert tallied.prompt_id == ["0/a", "0/b", "50/a", "50/b"]
    assert tallied.source == ["0", "0", "50", "50"]
    assert tallied.read["apart"] == ["0", "50"]
    assert counts(path.parent, merge=True) == {"a": (2, 1), "b": (2, 2)}


def test_files_that_number_other_samples_of_the_same_prompts_are_one_set(tmp_path):
    for rank in range(2):
        rows = [row("a", sample_index=2 * rank + i) for i in range(2)]
        write(tmp_path / f"rank-{rank}.jsonl", rows)
    assert counts(tmp_path) == {"a": (4, 4)}
    write(tmp_path / "rank-2.jsonl", [row("a", False, sample_index=0)])
    assert counts(tmp_path) == {"rank-0/a": (2, 2), "rank-1/a": (2, 2), "rank-2/a": (1, 0)}
    assert counts(tmp_path, merge=True) == {"a": (5, 4)}


def test_files_named_by_a_seed_as_nemo_skills_names_them_are_samples(tmp_path):
    for seed in range(3):
        write(tmp_path / f"output-rs{seed}.jsonl", [row("a", seed > 0)])
    assert counts(tmp_path) == {"a": (3, 2)}


def test_files_of_one_name_in_several_folders_are_named_by_their_folders(tmp_path):
    for folder in ("base", "trained"):
        write(tmp_path / folder / "samples.v1.jsonl", [row("a", source="math")])
    found = counts(tmp_path / "*" / "samples.v1.jsonl")
    assert list(found) == ["base/samples.v1/math/a", "trained/samples.v1/math/a"]


def test_each_file_has_its_own_columns(tmp_path):
    write(tmp_path / "a.jsonl", [{"id": "a", "correct": True}])
    write(tmp_path / "b.jsonl", [{"id": "b", "acc": 0.0}])
    assert counts(tmp_path) == {"a": (1, 1), "b": (1, 0)}
    assert tally(tmp_path)[0].read["correct"] == ["correct", "acc"]


def test_rewards_are_right_above_a_threshold(file):
    path = file(*[{"id": "a", "reward": r} for r in (0.2, 0.5, 0.9, None)])
    with pytest.raises(DataError, match="graded rewards") as error:
        counts(path)
    assert "--correct-above 0.5" in error.value.hint
    assert counts(path, correct_above=0.5) == {"a": (3, 1)}
    assert tally(path, columns=Columns(correct_above=0.5))[0].read == {
        "correct": ["reward"], "correct_above": 0.5, "apart": [],
    }  # fmt: skip


def test_a_threshold_reads_the_reward_where_there_are_verdicts_too(file):
    path = file(row("a", True, reward=0.2), row("a", True, reward=0.8))
    assert counts(path) == {"a": (2, 2)}
    assert counts(path, correct_above=0.5) == {"a": (2, 1)}
    assert counts(path, correct="correct", correct_above=0.5) == {"a": (2, 2)}


def test_rewards_of_one_and_minus_one_are_verdicts(file):
    assert counts(file({"id": "a", "score": -1.0}, {"id": "a", "score": 1.0})) == {"a": (2, 1)}
    with pytest.raises(DataError, match="graded rewards"):
        counts(file(*[{"id": "a", "score": s} for s in (-1.0, 0.0, 1.0)]))


def test_graded_rewards_of_one_file_are_no_verdicts_beside_anothers_verdicts(tmp_path):
    write(tmp_path / "a.jsonl", [row("a")])
    write(tmp_path / "b.jsonl", [{"id": "b", "reward": 0.5}])
    with pytest.raises(DataError, match="graded rewards"):
        counts(tmp_path)
    write(tmp_path / "b.jsonl", [{"id": "b", "reward": -1}, {"id": "b", "reward": 1}])
    write(tmp_path / "c.jsonl", [{"id": "c", "reward": 0}, {"id": "c", "reward": 1}])
    assert counts(tmp_path) == {"a": (1, 1), "b": (2, 1), "c": (2, 1)}


def test_the_entropy_of_answers_needs_verdicts_that_are_not_graded(tmp_path):
    rows = [{"id": "a", "completion": f"text {i}", "score": i / 2} for i in range(3)]
    path = write(tmp_path / "rows.jsonl", rows)
    assert diversity.load(path).read["correct"] == []
    path = write(tmp_path / "rows.jsonl", [r | {"extracted": "4"} for r in rows])
    with pytest.raises(DataError, match="graded rewards"):
        diversity.load(path)
    [group] = diversity.load(path, Columns(correct_above=0.6)).groups.values()
    assert (group.right, dict(group.wrong)) == (1, {"4": 2})


def test_rows_are_chosen_by_the_value_of_a_column(file):
    path = file(row("a", True, model="x"), row("a", False, model="y"), row("b", True, model="x"))
    assert counts(path, where=["model=x"]) == {"a": (1, 1), "b": (1, 1)}
    assert counts(path, where=["model=y", "id=a"]) == {"a": (1, 0)}
    with pytest.raises(DataError, match="has `model` = `z`; there are `x`, `y`"):
        counts(path, where=["model=z"])
    with pytest.raises(DataError, match="has no column `modle`"):
        counts(path, where=["modle=x"])
    with pytest.raises(UsageError, match="--where is `model`"):
        counts(path, where=["model"])


def test_a_bad_verdict_is_named_by_its_file_and_row(tmp_path, file):
    file(row("a", "true"), name="1")
    path = file(row("b", "true"), row("b", "maybe"), name="2")
    with pytest.raises(DataError, match=r"2\.(jsonl|parquet)` row 2 has `correct` = `maybe`"):
        counts(path.parent)


def test_columns_are_for_files_and_not_for_directories_of_ones_own(known):
    with pytest.raises(UsageError, match="--correct-above is for files of other tools"):
        tally(known / "scores", columns=Columns(correct_above=0.5))


def test_prompts_and_golds_are_text_where_they_are_asked_for(file):
    messages = [{"role": "user", "content": "2+2"}]
    path = file(row(0, messages=messages, answer=4), row(1, messages=messages, answer=5))
    [batch] = Stream(path, wanted={"prompt", "gold"})
    assert (list(map(json.loads, batch.prompt.to_pylist())), batch.gold.to_pylist()) == (
        [messages] * 2, ["4", "5"],
    )  # fmt: skip
    [batch] = Stream(path, wanted={"correct"})
    assert batch.prompt is None and batch.gold is None


def test_a_file_that_calls_the_prompt_a_sample_and_the_sample_a_repeat_is_read(file):
    """rwkv-skills: `answer` is the model's, `ref_answer` the gold."""
    rows = [
        {"benchmark_name": "aime24", "dataset_split": "test", "sample_index": s, "repeat_index": r,
         "context": "q", "answer": f"{s + r}", "ref_answer": f"{s}", "is_passed": r == 0}
        for s in range(2) for r in range(3)
    ]  # fmt: skip
    assert counts(file(*rows), id="sample_index") == {"0": (3, 1), "1": (3, 1)}
    with pytest.raises(DataError, match="sample 2 of prompt `1` in row 6 and in row 7"):
        counts(file(*rows, rows[-1]), id="sample_index")


def test_greedy_and_sampled_rows_of_one_file_are_told_apart_by_their_kind(file):
    """A greedy completion and samples, each numbered from 0."""
    kinds = [("greedy", 0), ("sample", 0), ("sample", 1)]
    rows = [{"sample_id": "q7", "kind": k, "gen_idx": i, "is_correct": k == "greedy"}
            for k, i in kinds]  # fmt: skip
    with pytest.raises(DataError, match="sample 0 of prompt `q7` in row 1 and in row 2"):
        counts(file(*rows), id="sample_id")
    assert counts(file(*rows), id="sample_id", where=["kind=sample"]) == {"q7": (2, 0)}


def test_rollouts_that_a_question_index_groups_have_lists_of_golds(file):
    """TRACE: `golden_answers` are the golds, `answer` is what a rollout answered."""
    rows = [
        {"question_index": 0, "question": "q", "golden_answers": ["Paris"], "sample_id": i,
         "answer": answer, "score": float(answer == "Paris")}
        for i, answer in enumerate(("Paris", "Lyon"))
    ]  # fmt: skip
    assert counts(file(*rows), id="question_index") == {"0": (2, 1)}


def test_completions_of_two_models_are_not_taken_for_samples_of_one(file):
    rows = [row(0, True, model="a"), row(0, False, model="b"), row(1, True, model="a")]
    path = file(*rows)
    with pytest.raises(DataError) as error:
        counts(path)
    assert str(error.value) == (
        f"prompt `0` has completions of two models: `model` is `a` in `{path}` row 1 and `b` in "
        f"`{path}` row 2"
    )
    assert "--source-column model," in error.value.hint
    assert counts(path, source="model") == {"a/0": (1, 1), "b/0": (1, 0), "a/1": (1, 1)}
    assert counts(path, where=["model=a"]) == {"0": (1, 1), "1": (1, 1)}
    assert counts(path, merge=True) == {"0": (2, 1), "1": (1, 1)}
    assert counts(file(*[r | {"model": "a"} for r in rows])) == {"0": (2, 1), "1": (1, 1)}


def test_a_list_of_models_says_which_wrote_each_completion(file):
    path = file(row(0, [True, False], models=["a", "b"]), row(1, [True, True], models=["a", "b"]))
    with pytest.raises(DataError, match="prompt `0` has completions of two models: `models`") as e:
        counts(path)
    assert "--source-column models," in e.value.hint
    apart = {"a/0": (1, 1), "b/0": (1, 0), "a/1": (1, 1), "b/1": (1, 1)}
    assert counts(path, source="models") == apart
    assert counts(path, merge=True) == {"0": (2, 1), "1": (2, 2)}
    judges = file(row(0, [True, False], models=["x", "y", "z"]), name="judges")
    assert counts(judges) == {"0": (2, 1)}


def test_without_ids_the_text_is_offered_as_one(file):
    path = file({"question": "1+1?", "correct": True}, {"question": "2+2?", "correct": False})
    with pytest.raises(DataError, match="has none of the columns prompt_id") as error:
        counts(path)
    assert error.value.hint.endswith(", or the text: --id-column question")
    assert counts(path, id="question") == {"1+1?": (1, 1), "2+2?": (1, 0)}


def test_rows_inside_objects_come_with_the_line_that_takes_them_out(tmp_path):
    path = tmp_path / "results 1.json"
    rows = [{"id": 1, "problem": "2+2?", "model_output": "4"}]
    results = {"AIME24": {"num_total": 1, "examples": rows}}
    path.write_text(json.dumps({"model_name": "m", "results": results}))
    with pytest.raises(DataError, match="is one object, which holds rows in") as error:
        list(Stream(path, wanted={"completion"}))
    assert error.value.hint == (
        """take them out: jq -c '.["results"]["AIME24"]["examples"][]' """
        f"'{path}' > rows.jsonl"
    )


def test_lists_in_a_single_row_are_not_its_rows(tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"prompt": "2+2?", "outputs": [{"index": 0, "text": "4"}]}))
    with pytest.raises(DataError, match="has none of the columns prompt_id") as error:
        list(Stream(path, wanted={"completion"}))
    assert "or the text: --id-column prompt" in error.value.hint
