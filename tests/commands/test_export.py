import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def root(known, tmp_path):
    return shutil.copytree(known, tmp_path / "root")


def test_json_lines_hold_all_that_is_known_of_a_completion(rlvr, root):
    ran = rlvr("export", root / "scores")
    assert (ran.code, ran.out) == (0, f"{root / 'scores.jsonl'}\n")
    assert ran.err == f"export: 8 rows of `{root / 'scores'}` -> `{root / 'scores.jsonl'}`\n"
    rows = [json.loads(line) for line in (root / "scores.jsonl").read_text().splitlines()]
    wanted = {"prompt_id": "a", "messages": "5=", "answer": "5", "sample_index": 2,
              "completion": "9-4", "reward": 1.0, "correct": True}  # fmt: skip
    assert wanted.items() <= rows[2].items()


def test_json_is_one_object_with_the_path(rlvr, root):
    out = root / "rows.jsonl"
    summary = json.loads(rlvr("export", root / "rollouts", "--out", out, "--json").out)
    assert (summary["path"], summary["rows"]) == (str(out), 8)


def test_what_is_exported_imports_to_the_same_rows(rlvr, root):
    rlvr("export", root / "scores", "--out", root / "out.jsonl")
    words = ("--model", "builtin", "--out", root / "again")
    assert rlvr("import", root / "out.jsonl", *words).code == 0
    for kind, names in (
        ("prompts", ["prompt_id", "messages", "answer"]),
        ("rollouts", ["prompt_id", "sample_index", "completion", "token_ids"]),
        ("scores", ["prompt_id", "sample_index", "reward", "correct"]),
    ):
        first, second = (pq.read_table(root / way / kind).select(names) for way in ("", "again"))
        assert first.equals(second), kind


def test_verl_gets_the_columns_that_it_reads(rlvr, root):
    ran = rlvr("export", root / "scores", "--format", "verl")
    assert (ran.code, ran.out) == (0, f"{root / 'scores.parquet'}\n")
    table = pq.read_table(root / "scores.parquet")
    assert table.column_names == [
        *("data_source", "prompt", "ability", "reward_model", "extra_info"),
        *("responses", "scores"),
    ]
    first = table.to_pylist()[0]
    assert first["prompt"] == [{"role": "user", "content": "5="}]
    assert first["reward_model"] == {"style": "rule", "ground_truth": "5"}
    assert first["extra_info"]["index"] == "a"
    assert first["responses"] == ["2+3", "1+1", "9-4", "5"]
    assert first["scores"] == [1, 0, 1, 0]


def test_verl_gets_typed_columns_where_nothing_is_known(rlvr, jsonl, tmp_path):
    rlvr("prompts", jsonl({"prompt": "5=", "answer": "5"}), "--out", tmp_path / "prompts")
    rlvr("export", tmp_path / "prompts", "--format", "verl")
    schema = pq.read_table(tmp_path / "prompts.parquet").schema
    assert schema.field("ability").type != pa.null()
    assert schema.field("scores").type == pa.list_(pa.float64())


def test_what_verl_stored_can_be_imported(rlvr, root):
    rlvr("export", root / "scores", "--format", "verl")
    words = ("--id-column", "extra_info.index", "--out", root / "again")
    assert rlvr("import", root / "scores.parquet", *words).code == 0
    for kind, name in (("rollouts", "completion"), ("scores", "reward")):
        first, second = (pq.read_table(root / way / kind)[name] for way in ("", "again"))
        assert first.to_pylist() == second.to_pylist()


def test_every_kind_of_completion_can_be_exported(rlvr, chain, tmp_path):
    for kind, rows in (("prompts", 6), ("rollouts", 24), ("scores", 24), ("advantages", 24)):
        for format in ("jsonl", "verl"):
            out = tmp_path / f"{kind}.{format}"
            words = ("--format", format, "--out", out, "--json")
            summary = json.loads(rlvr("export", chain / kind, *words).out)
            assert summary["rows"] == (6 if format == "verl" else rows)


def test_exporting_again_gives_the_same_bytes(rlvr, root):
    out = root / "rows.jsonl"
    rlvr("export", root / "scores", "--out", out)
    before = out.read_bytes()
    assert rlvr("export", root / "scores", "--out", out).code == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("source", "words", "code", "message"),
    [
        ("nope", (), 3, "does not exist"),
        ("scores", ("--format", "csv"), 2, "unknown format `csv`"),
        ("scores", ("--format", "inspect-ai"), 2, "that rlvr reads and does not write"),
        ("scores", ("--out", "prompts"), 1, "cannot write `prompts`"),
        ("scores", ("--out", "."), 1, "cannot write `.`"),
    ],
)
def test_a_wrong_word_is_refused(refused, root, monkeypatch, source, words, code, message):
    monkeypatch.chdir(root)
    assert message in refused(code, "export", source, *words)


def test_log_probs_have_no_such_form(rlvr, refused, root):
    rlvr("logprob", root / "rollouts", "--model", "builtin")
    assert "holds logprobs" in refused(3, "export", root / "logprobs")
