"""What a path stands for, and what lies beside the rows."""

import gzip
import io
import json
import os
import sys
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import Advice, DataError, UsageError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop import places, readers
from rlvr_cli.runtime.several import together

ROWS = [{"id": "a", "completion": "4", "correct": True},
        {"id": "b", "completion": "5", "correct": False}]  # fmt: skip


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def left_out(folder):
    """What reading a folder leaves out and says, and the rows that it reads."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = readers.read(folder)
    return [str(w.message) for w in caught if w.category is Advice], rows


def test_files_that_are_named_together_are_read_in_that_order(tmp_path):
    first, second = lines(tmp_path / "z.jsonl", ROWS[0]), lines(tmp_path / "a.jsonl", ROWS[1])
    both = together([first, second])
    assert readers.read(both) == ROWS
    assert (str(both), places.stem(both)) == (f"{first}, {second}", "z+a")


def test_a_file_that_is_named_twice_is_refused(tmp_path):
    path = lines(tmp_path / "a.jsonl", *ROWS)
    with pytest.raises(UsageError, match=r"a\.jsonl` is named twice"):
        readers.read(together([path, tmp_path]))
    (tmp_path / "b.jsonl").symlink_to(path)
    with pytest.raises(UsageError, match="is named twice"):
        readers.read(tmp_path)


def test_a_link_to_nothing_is_called_one(tmp_path):
    (tmp_path / "rows.jsonl").symlink_to(tmp_path / "gone.jsonl")
    for path in (tmp_path / "rows.jsonl", tmp_path, tmp_path / "*.jsonl"):
        with pytest.raises(DataError, match=r"is a link to `.*gone\.jsonl`, which does not exist"):
            readers.read(path)


def test_a_folder_without_rows_says_what_it_holds_and_where_they_may_be(tmp_path):
    (tmp_path / "README.md").write_text("no rows")
    with pytest.raises(DataError, match=r"it holds README\.md"):
        readers.read(tmp_path)
    (tmp_path / "deep").mkdir()
    lines(tmp_path / "deep" / "rows.jsonl", *ROWS)
    with pytest.raises(DataError) as error:
        readers.read(tmp_path)
    pattern = error.value.hint.rpartition(" ")[2].strip("'")
    assert readers.read(places.Path(pattern)) == ROWS


@pytest.mark.parametrize("pattern", ["**", "**/*", "**/*.jsonl", "*", "[ab]/*"])
def test_a_pattern_reads_each_file_once(tmp_path, pattern):
    for name, row in zip("ab", ROWS, strict=True):
        (tmp_path / name / "logs").mkdir(parents=True)
        lines(tmp_path / name / "rows.jsonl", row)
        (tmp_path / name / "README.md").write_text("no rows")
    assert readers.read(tmp_path / pattern) == ROWS


# What EleutherAI/lm-evaluation-harness writes as `results_*.json`, shortened.
LM_EVAL = {"results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.5}},
           "group_subtasks": {"gsm8k": []}, "configs": {"gsm8k": {"task": "gsm8k"}},
           "versions": {"gsm8k": 3.0}, "n-samples": {"gsm8k": {"original": 2, "effective": 2}},
           "git_hash": "x", "date": 1.0, "model_name": "m"}  # fmt: skip
# What PrimeIntellect-ai/verifiers writes as `metadata.json`, shortened.
VERIFIERS = {"env_id": "math-python", "model": "z-ai/glm-4.6", "num_examples": 2,
             "sampling_args": {"temperature": 1.0}, "avg_reward": 0.5}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "stranger"),
    [
        ("results_2026-01-01T00-00-00.1.json", LM_EVAL),
        ("metadata.json", VERIFIERS),
        ("config.json", {"architectures": ["LlamaForCausalLM"], "id2label": {"0": "LABEL_0"}}),
        ("dataset_info.json", {"splits": {"train": {"num_examples": 2}}, "features": {}}),
        ("state.json", {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}),
        ("metrics.json", {"pass@1": 0.5, "gsm8k": {"acc": 0.5}}),
        ("mbpp_pass_at_k.json", {"pass@1": 0.5, "model": "m", "split": "complete"}),  # BigCodeBench
    ],
)
def test_settings_and_figures_beside_the_rows_are_left_out_and_said(tmp_path, name, stranger):
    lines(tmp_path / "samples_gsm8k.jsonl", *ROWS)
    (tmp_path / name).write_text(json.dumps(stranger, indent=2))
    (tmp_path / "README.md").write_text("# Runs")
    (tmp_path / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (tmp_path / "run.log").write_text("started")
    files = [path for path in sorted(tmp_path.iterdir()) if path.suffix in (".json", ".jsonl")]
    for source in (tmp_path, tmp_path / "*", together(files)):
        (said,), rows = left_out(source)
        assert rows == ROWS and f"`{name}`" in said


def test_folders_of_one_object_a_file_are_rows(tmp_path):
    for number, row in enumerate(ROWS):
        (tmp_path / f"{number}.json").write_text(json.dumps(row))
    assert left_out(tmp_path) == ([], ROWS)


def test_samples_whose_results_lie_beside_are_left_out(tmp_path):
    solution = {"task_id": "HumanEval/0", "solution": "x"}
    result = {**solution, "base_status": "pass", "plus_status": "fail"}
    stem = "meta-llama--Meta-Llama-3-8B_vllm_temp_0.0"
    for name in (f"{stem}.jsonl", f"{stem}-sanitized.jsonl"):
        lines(tmp_path / name, solution)
    results = {"date": "", "hash": "x", "eval": {"HumanEval/0": [result]}}
    (tmp_path / f"{stem}-sanitized_eval_results.json").write_text(json.dumps(results))
    with pytest.warns(Advice, match="-sanitized.jsonl"):
        tallied, _ = tally(tmp_path)
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [0])


def test_samples_of_human_eval_are_left_out_beside_their_results(tmp_path):
    row = {"task_id": "HumanEval/0", "completion": "    return 1"}
    lines(tmp_path / "samples.jsonl", row)
    lines(tmp_path / "samples.jsonl_results.jsonl", row | {"result": "passed", "passed": True})
    with pytest.warns(Advice, match="`samples.jsonl`"):
        tallied, _ = tally(tmp_path)
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [0])


def test_a_row_in_a_folder_is_named_by_its_file(tmp_path):
    lines(tmp_path / "a.jsonl", *ROWS)
    lines(tmp_path / "b.jsonl", ROWS[0], {"step": 1, "loss": 0.5})
    with pytest.raises(DataError, match=r"b\.jsonl` row 2 has no `id`"):
        tally(tmp_path)
    lines(tmp_path / "b.jsonl", ROWS[0], ROWS[0] | {"correct": "maybe"})
    with pytest.raises(DataError, match=r"b\.jsonl` row 2 has `correct` = `maybe`"):
        tally(tmp_path)


def piped(monkeypatch, data: bytes):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


JSONL = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


@pytest.mark.parametrize(
    "data",
    [
        JSONL, gzip.compress(JSONL), JSONL.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + JSONL,
        json.dumps(ROWS).encode(), json.dumps({"results": ROWS}, indent=2).encode(),
        "\n".join(json.dumps(row, indent=2) for row in ROWS).encode(),  # as `jq .` prints them
        b"id,completion,correct\na,4,true\nb,5,false\n",
    ],
    ids=["jsonl", "gzip", "crlf", "mark", "list", "object", "jq", "csv"],
)  # fmt: skip
def test_stdin_is_recognised_by_its_content(rlvr, monkeypatch, data):
    piped(monkeypatch, data)
    ran = rlvr("eval-passk", "-", "--json")
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert (result["prompts"], result["metrics"]["pass@1"][0]) == (2, 0.5)


def test_a_parquet_file_on_stdin_is_read(rlvr, monkeypatch):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    piped(monkeypatch, sink.getvalue().to_pybytes())
    assert json.loads(rlvr("eval-passk", "-", "--json").out)["prompts"] == 2


def test_a_path_on_stdin_is_still_one(rlvr, tmp_path, monkeypatch):
    piped(monkeypatch, f"{lines(tmp_path / 'rows.jsonl', *ROWS)}\n".encode())
    assert json.loads(rlvr("eval-passk", "--json").out)["prompts"] == 2


@pytest.mark.parametrize("words", [["ucc"], ["diversity"], ["import", "--out", "made"]])
def test_every_command_on_completions_reads_stdin(rlvr, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    rows = [row | {"completion": c} for row in ROWS for c in "xy"]
    piped(monkeypatch, "".join(json.dumps(row) + "\n" for row in rows).encode())
    ran = rlvr(words[0], "-", *words[1:])
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("words", [["prompts", "-", "--out", "made"], ["doctor", "-"]])
def test_prompts_come_from_stdin_too(rlvr, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    piped(monkeypatch, b'{"question": "1+1?", "answer": "2"}\n')
    ran = rlvr(*words)
    assert ran.code == 0, ran.err


def test_a_file_is_compared_with_stdin_and_stdin_not_with_itself(
    rlvr, refused, tmp_path, monkeypatch
):
    path = lines(tmp_path / "a.jsonl", *ROWS)
    piped(monkeypatch, JSONL)
    assert "second `-`" in rlvr("compare", path, "-").out
    assert "`-` is named twice" in refused(2, "compare", "-", "-")
    assert "`-` is named twice" in refused(2, "eval-passk", "-", "-")


def test_errors_about_stdin_call_it_by_its_name(refused, monkeypatch):
    piped(monkeypatch, JSONL + b"{nothing\n")
    err = refused(3, "eval-passk", "-")
    assert err.startswith("error: `-` line 3 is not JSON")
    piped(monkeypatch, b"")
    assert "stdin holds 0 lines" in refused(2, "eval-passk", "-")


def test_directories_of_rlvr_are_not_read_as_files_of_others(refused, known, tmp_path):
    path = lines(tmp_path / "a.jsonl", *ROWS)
    assert "is a directory of rlvr" in refused(2, "eval-passk", known / "scores", path)


@pytest.mark.parametrize("command", ["prompts", "eval-passk", "import"])
def test_a_pipe_with_a_name_is_refused_and_not_waited_for(refused, tmp_path, command):
    pipe = tmp_path / "rows.jsonl"
    os.mkfifo(pipe)
    said = refused(2, command, pipe, "--out", tmp_path / "made")
    assert f"`{pipe}` is a pipe or a device, and no file" in said and "write `-` in its" in said
