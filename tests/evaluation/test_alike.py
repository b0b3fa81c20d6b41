import shutil

import pytest

from rlvr_cli.evaluation import alike
from rlvr_cli.evaluation.alike import Alike
from rlvr_cli.storage.shards import Shards


def scores_of(path):
    return Shards.open(path / "scores")


def test_evaluations_of_one_seed_share_completions_where_the_policies_agree(trained):
    before, after = (scores_of(trained / "eval" / f"{step:06d}") for step in (0, 2))
    tables = [scores.parent("rollouts").table() for scores in (before, after)]
    token_ids, others = (table["token_ids"].to_pylist() for table in tables)
    found = alike.of(before, after)
    assert found == Alike(len(others), sum(map(list.__eq__, token_ids, others)), 0, 0)
    assert 0 < found.same < found.completions
    assert found.described(("a", "b")).endswith("are the same in both, with the same verdicts")


@pytest.mark.parametrize("option", ["--seed=1", "--temperature=0.5", "--limit=5"])
def test_sides_that_were_sampled_otherwise_share_nothing(rlvr, chain, tmp_path, option):
    words = ["-n4", "--max-new-tokens=16", "--prompts-per-part=3", "--out", tmp_path / "rollouts"]
    assert rlvr("rollout", chain / "prompts", *words, option).code == 0
    assert rlvr("score", tmp_path / "rollouts").code == 0
    assert alike.of(scores_of(chain), scores_of(tmp_path)) is None


def test_verdicts_of_one_side_alone_are_counted(rlvr, chain, tmp_path):
    (tmp_path / "none.py").write_text("def none(completion, answer):\n    return 0.0\n")
    words = ["--verifier", f"{tmp_path}/none.py:none", "--out", tmp_path / "scores"]
    assert rlvr("score", chain / "rollouts", *words).code == 0
    first, second = scores_of(chain), Shards.open(tmp_path / "scores")
    right = sum(first.table()["correct"].to_pylist())
    assert alike.of(first, second) == Alike(first.rows, first.rows, right, 0)
    assert alike.of(second, first) == Alike(first.rows, first.rows, 0, right)


def test_completions_that_were_imported_or_moved_away_are_not_told_apart(known, chain, tmp_path):
    assert alike.of(scores_of(known), scores_of(chain)) is None
    assert alike.of(None, scores_of(chain)) is None
    shutil.copytree(chain / "scores", tmp_path / "scores")
    assert alike.of(scores_of(tmp_path), scores_of(chain)) is None
