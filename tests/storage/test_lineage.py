import shutil

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.storage import lineage


@pytest.mark.parametrize("start", ["rollouts", "scores", "advantages", "."])
def test_relatives_are_found_from_each_of_them(chain, start):
    ancestors = lineage.find(chain / start)
    paths = (ancestors.rollouts, ancestors.prompts, ancestors.scores, ancestors.advantages)
    names = [shards.path.name for shards in paths if shards]
    assert names == ["rollouts", "prompts", "scores", "advantages"] and ancestors.logprobs is None


def test_metrics_lead_to_the_scores_they_were_made_from(rlvr, chain, tmp_path):
    rlvr("eval-passk", chain / "scores", "--out", tmp_path / "metrics")
    ancestors = lineage.find(tmp_path / "metrics")
    assert ancestors.scores and ancestors.scores.path.samefile(chain / "scores")


def test_metrics_of_a_foreign_file_have_no_rollouts(rlvr, jsonl, tmp_path):
    rows = [{"id": "a", "correct": True}, {"id": "a", "correct": False}]
    rlvr("eval-passk", jsonl(*rows), "--out", tmp_path / "metrics")
    with pytest.raises(DataError, match="not made from scores"):
        lineage.find(tmp_path / "metrics")


def test_the_directory_that_was_given_counts_before_its_namesake(copy, rlvr):
    rlvr("score", copy / "rollouts", "--verifier", "number", "--out", copy / "others")
    scores = [lineage.find(copy / name).scores for name in ("others", "scores", "rollouts")]
    assert [shards and shards.path.name for shards in scores] == ["others", "scores", "scores"]


def test_scores_of_other_rollouts_are_no_relatives(copy, rlvr):
    shutil.rmtree(copy / "rollouts")
    flags = ("-n4", "--max-new-tokens=16", "--seed=1", "--out", copy / "rollouts")
    rlvr("rollout", copy / "prompts", *flags)
    assert lineage.find(copy / "rollouts").scores is None


def test_prompts_that_moved_are_missing_and_no_error(copy):
    (copy / "prompts").rename(copy / "moved")
    assert lineage.find(copy / "scores").prompts is None


@pytest.mark.parametrize(
    ("name", "message"), [("nope", "does not exist"), ("prompts", "holds prompts, rollouts or")]
)
def test_what_is_no_rollouts_is_refused(chain, name, message):
    with pytest.raises(DataError, match=message):
        lineage.find(chain / name)


def test_a_file_is_refused_with_the_import_to_type(jsonl):
    path = jsonl({"id": "a"})
    with pytest.raises(DataError) as caught:
        lineage.find(path)
    assert caught.value.hint == f"make directories of it: rlvr import {path} --out imported"
