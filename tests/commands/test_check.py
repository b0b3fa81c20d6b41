import json

import pytest

from rlvr_cli.stages import score
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import Share


def test_a_whole_directory_says_what_it_holds_and_who_made_it(rlvr, chain):
    ran = rlvr("check", chain / "scores")
    assert (ran.code, ran.out) == (0, f"{chain / 'scores'}\n")
    assert ran.err.startswith(f"`{chain / 'scores'}` is complete: scores, 24 rows, 2 parts\n")
    for line in ("  stage: score", '  parents: {"rollouts": "../rollouts"}'):
        assert line in ran.err.splitlines()


def test_json_is_one_object_and_nothing_else_is_said(rlvr, chain):
    ran = rlvr("check", chain / "advantages", "--json")
    summary = json.loads(ran.out)
    assert ran.err == ""
    assert (summary["path"], summary["kind"]) == (str(chain / "advantages"), "advantages")
    assert summary["params"]["algo"] == (
        "grpo:clip_low=0.2,clip_high=0.2,eps=1e-06,ddof=1,aggregation=seq-mean-token-mean"
    )


def test_a_changed_part_is_named(refused, copy):
    part = copy / "scores" / "part-00001.parquet"
    part.write_bytes(part.read_bytes().replace(b"ok", b"ko", 1))
    err = refused(3, "check", copy / "scores")
    assert "part-00001.parquet` does not match its checksum" in err


def test_a_missing_part_is_named(refused, copy):
    (copy / "scores" / "part-00001.parquet").unlink()
    assert "part-00001.parquet`: No such file" in refused(3, "check", copy / "scores")


def test_a_changed_manifest_is_named(refused, copy):
    path = copy / "scores" / "_manifest.json"
    path.write_text(path.read_text().replace('"rows": 12', '"rows": 13'))
    assert "_manifest.json` was cut or changed" in refused(3, "check", copy / "scores")


def test_an_unfinished_directory_says_how_much_is_done(rlvr, refused, copy):
    rollouts = Shards.open(copy / "rollouts")
    assert score.run(rollouts, copy / "half", share=Share.of_process(0, 2)) is None
    err = refused(3, "check", copy / "half")
    assert "not complete: 1 of 2 parts" in err and "`rlvr score`" in err


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_changed_checkpoint_is_named(rlvr, refused, copy, name):
    rlvr("train-step", copy / "advantages")
    assert rlvr("check", copy / "update").code == 0
    with open(copy / "update" / "_checkpoint" / name, "ab") as file:
        file.write(b" ")
    assert "checkpoint` is not as it was written" in refused(3, "check", copy / "update")


@pytest.mark.parametrize(
    ("name", "message"), [("nope", "does not exist"), (".", "is an empty folder")]
)
def test_what_is_no_directory_of_shards_is_refused(refused, tmp_path, name, message):
    assert message in refused(3, "check", tmp_path / name)
