import json
import math
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.cli import app
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import write_all_shards


def test_the_advantages_of_known_rewards(rlvr, known, tmp_path):
    ran = rlvr("advantage", known / "scores", "--out", tmp_path / "made")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    said = (
        "2 of 2 groups carry signal (100%), 0 rewards missing, 0 groups at the floor, 8 rows kept"
    )
    assert ran.err.startswith(f"advantage: {said}; ")
    assert len(ran.err.splitlines()) == 1
    table = pq.read_table(tmp_path / "made")
    half, quarter = 0.5 / math.sqrt(1 / 3), 0.25 / 0.5  # rewards 1010 and 1000, ddof 1
    expected = [half, -half, half, -half, 3 * quarter, -quarter, -quarter, -quarter]
    assert table["advantage"].to_pylist() == pytest.approx(expected, rel=1e-5)
    assert table["group_mean"].to_pylist() == [0.5] * 4 + [0.25] * 4
    assert table["keep"].to_pylist() == [True] * 8


def test_mask_truncated_leaves_out_what_was_cut(rlvr, refused, jsonl, tmp_path):
    rows = [
        {"id": "a", "prompt": "5=", "completion": "2+3", "reward": reward, "finish_reason": reason}
        for reward, reason in ((1.0, "stop"), (0.0, "length"), (0.0, "stop"), (1.0, None))
    ]
    rlvr("import", jsonl(*rows[:3]), "--model", "builtin", "--out", tmp_path / "known")
    words = ("--algo", "grpo+mask-truncated", "--out", tmp_path / "made")
    ran = rlvr("advantage", tmp_path / "known" / "scores", *words)
    assert ran.code == 0 and "2 rows kept" in ran.err
    table = pq.read_table(tmp_path / "made")
    assert table["keep"].to_pylist() == [True, False, True]
    assert table["group_size"].to_pylist() == [3] * 3
    rlvr("import", jsonl(*rows, name="more.jsonl"), "--model", "builtin", "--out", tmp_path / "not")
    words = ("--algo", "grpo+mask-truncated", "--out", tmp_path / "refused")
    err = refused(3, "advantage", tmp_path / "not" / "scores", *words)
    assert "does not say why sample 3 of prompt `a` ended" in err


def test_quatro_records_the_dual_of_each_prompt(rlvr, known, tmp_path):
    words = ("--algo", "quatro:delta=0.05", "--out", tmp_path / "made", "--json")
    ran = rlvr("advantage", known / "scores", *words)
    summary = json.loads(ran.out)
    assert (summary["path"], summary["groups"], summary["floored"]) == (
        str(tmp_path / "made"),
        2,
        0,
    )
    kl = pq.read_table(tmp_path / "made")["achieved_kl"].to_pylist()
    assert kl == pytest.approx([0.05] * 8, abs=1e-9)


def test_two_shares_make_the_bytes_of_one_run(rlvr, copy, chain, files_of):
    for share in ("0/2", "1/2"):
        rlvr("advantage", copy / "scores", "--out", copy / "two", "--shard", share)
    assert files_of(copy / "two") == files_of(chain / "advantages")


def test_the_directory_lies_beside_the_scores(rlvr, copy):
    shutil.rmtree(copy / "advantages")
    assert rlvr("advantage", copy / "scores").out == f"{copy / 'advantages'}\n"


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, chain, tmp_path):
    ran = rlvr("advantage", chain / "scores", "--out", tmp_path / "made", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert "24 rows by grpo:clip_low=0.2" in ran.err
    assert not (tmp_path / "made").exists()


def test_running_again_changes_nothing_and_says_so(rlvr, chain, files_of):
    before = files_of(chain / "advantages")
    ran = rlvr("advantage", chain / "scores", "--algo", "grpo:clip_low=0.2")
    assert (ran.code, ran.out) == (0, f"{chain / 'advantages'}\n")
    assert "nothing left to do" in ran.err
    assert files_of(chain / "advantages") == before


def test_another_algorithm_is_refused_with_the_old_and_the_new_one(refused, chain):
    err = refused(2, "advantage", chain / "scores", "--algo", "quatro")
    assert "algo was grpo:" in err and "is quatro:delta=0.1" in err


def test_another_directory_than_scores_is_refused(refused, chain):
    assert "scores were expected" in refused(3, "advantage", chain / "rollouts")


@pytest.mark.parametrize(
    ("algo", "message"),
    [
        ("gropo", "did you mean `grpo`"),
        ("GRPO", "grpo"),
        ("", "there are apmpo, apo"),
        ("grpo:clip_lo=0.1", "the options of `grpo` are clip_low, clip_high, eps, ddof"),
        ("grpo:gamma=1", "the options of `grpo` are clip_low, clip_high, eps, ddof"),
        ("grpo:clip_low=wide", "a number was expected"),
        ("grpo:clip_low=nan", "clip_low"),
        ("pass-at-k:k=0.5", "an integer was expected"),
        ("grpo:ddof=0.5", "one of 0, 1 was expected"),
        ("grpo:clip_low", "has no value"),
        ("quatro:ratio=token", "one of sequence, length-normalized"),
        ("quatro:delta=0", "above 0"),
        ("grpo+lk", "did you mean `kl`?"),
        ("grpo+", "there are"),
        ("grpo+kl+kl:beta=1", "names a modifier twice"),
        ("grpo:clip_low=1.5", "clip_low must be from 0 to 1"),
        ("quatro+dual-clip", "bounds PPO's clipped ratio, this objective has another surrogate"),
        ("is-correction", "unknown objective"),
        ("apo+is-correction+is-correction:kind=icepop", "names a modifier twice"),
        ("grpo+overlong", "4096 tokens is not below the longest completion of 16"),
    ],
)
def test_a_wrong_algorithm_is_a_usage_error(refused, chain, tmp_path, algo, message):
    words = ("--algo", algo, "--out", tmp_path / "made")
    assert message in refused(2, "advantage", chain / "scores", *words)
    assert not (tmp_path / "made").exists()


def test_a_group_of_one_is_refused_unless_allowed(rlvr, refused, jsonl, tmp_path):
    source = jsonl({"id": "a", "completion": "2+3", "correct": True})
    rlvr("import", source, "--out", tmp_path)
    err = refused(3, "advantage", tmp_path / "scores")
    assert "prompt `a` has one completion" in err and "--allow-singletons" in err
    assert rlvr("advantage", tmp_path / "scores", "--allow-singletons").code == 0
    assert pq.read_table(tmp_path / "advantages")["advantage"].to_pylist() == [0]


def test_a_reward_below_zero_is_refused_where_it_is_divided_by_their_mean(refused, jsonl, tmp_path):
    rows = [{"id": "a", "completion": c, "reward": r} for c, r in (("5", 1.0), ("6", -1.0))]
    assert app.run(["import", str(jsonl(*rows)), "--out", str(tmp_path)]) == 0
    words = ("advantage", tmp_path / "scores", "--out", tmp_path / "made", "--algo")
    err = refused(3, *words, "maxrl")
    assert "scores` holds the reward -1 for prompt `a`" in err and "--algo rloo" in err
    assert app.run([*map(str, words), "rloo"]) == 0


def test_a_missing_reward_leaves_the_statistics_and_is_not_kept(rlvr, jsonl, tmp_path):
    rewards = [1.0, 0.0, None, 1.0]
    source = jsonl(*({"id": "a", "completion": "2+3", "reward": reward} for reward in rewards))
    rlvr("import", source, "--out", tmp_path)
    assert "1 reward missing" in rlvr("advantage", tmp_path / "scores").err
    table = pq.read_table(tmp_path / "advantages")
    assert table["keep"].to_pylist() == [True, True, False, True]
    assert table["advantage"].to_pylist()[2] is None
    assert table["group_mean"].to_pylist()[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("first", [True, False])
def test_a_group_without_any_reward_is_not_kept(rlvr, jsonl, tmp_path, first):
    groups = [("a", None), ("a", None), ("b", 1.0), ("b", 0.0)]
    rows = [{"id": n, "completion": "2+3", "reward": r} for n, r in sorted(groups, reverse=first)]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    assert rlvr("advantage", tmp_path / "scores").code == 0
    keep = pq.read_table(tmp_path / "advantages").select(["prompt_id", "keep"]).to_pylist()
    assert {row["prompt_id"]: row["keep"] for row in keep} == {"a": False, "b": True}


def test_groups_of_equal_rewards_can_be_left_out(rlvr, jsonl, tmp_path):
    rows = [("a", 1.0), ("a", 1.0), ("b", 1.0), ("b", 0.0)]
    rlvr("import", jsonl(*({"id": n, "completion": "", "reward": r} for n, r in rows)),
         "--out", tmp_path)  # fmt: skip
    rlvr("advantage", tmp_path / "scores", "--drop-uninformative")
    keep = pq.read_table(tmp_path / "advantages")["keep"].to_pylist()
    assert keep == [False, False, True, True]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 1, 2], "3 completions of prompt `expression-002`, 4 were expected"),
        ([0, 1, 2, 2], "one of them twice"),
    ],
)
def test_an_incomplete_group_is_refused_by_its_prompt(refused, copy, rows, message):
    """Rows of the first group are taken out of the rollouts and of the scores."""
    rollouts = Shards.open(copy / "rollouts")
    scores = Shards.open(copy / "scores")
    cut_rollouts = _with_first_group(
        rollouts, copy / "cut", {"prompts": rollouts.parent("prompts")}, rows
    )
    _with_first_group(scores, copy / "cut-scores", {"rollouts": cut_rollouts}, rows)
    words = ("--out", copy / "made")
    assert message in refused(3, "advantage", copy / "cut-scores", *words)


def _with_first_group(shards, out, parents, rows):
    def make(index):
        table = shards.part(index)
        return table if index else pa.concat_tables([table.take(rows), table.slice(4)])

    stage, params = shards.manifest["stage"], shards.params
    return write_all_shards(out, Plan(shards.kind, stage, params, parents, len(shards)), make)


def test_rollouts_that_moved_are_named_with_a_flag(rlvr, copy):
    shutil.move(copy / "rollouts", copy / "elsewhere")
    words = ("--rollouts", copy / "elsewhere", "--out", copy / "made")
    assert rlvr("advantage", copy / "scores", *words).code == 0


def test_signs_without_a_baseline_need_a_verdict_and_not_only_a_reward(
    rlvr, refused, jsonl, tmp_path
):
    rows = [{"id": "a", "completion": "2+3", "reward": reward} for reward in (0.2, 0.9)]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    for algo in ("nsr", "psr", "w-reinforce"):
        err = refused(3, "advantage", tmp_path / "scores", "--algo", algo)
        assert "no verdict `correct` for sample 0 of prompt `a`" in err and "rlvr score" in err


@pytest.mark.parametrize(
    ("algo", "keep", "advantage"),
    [
        ("nsr", [False, True, False, True], [None, -1, None, -1]),
        ("psr", [True, False, True, False], [1, None, 1, None]),
        ("w-reinforce", [True] * 4, [0.1, -1, 0.1, -1]),
    ],
)
def test_the_other_class_leaves_the_batch(rlvr, known, tmp_path, algo, keep, advantage):
    words = ("--algo", algo, "--out", tmp_path / "made")
    assert rlvr("advantage", known / "scores", *words).code == 0
    table = pq.read_table(tmp_path / "made").slice(0, 4)
    assert table["keep"].to_pylist() == keep
    kept = zip(table["advantage"].to_pylist(), keep, strict=True)
    assert [a if k else None for a, k in kept] == advantage


def test_an_objective_writes_columns_of_its_own(rlvr, chain, tmp_path):
    for algo, names in (
        ("apmpo", ["power", "clip_low", "clip_high"]),
        ("dapo+overlong:buffer=4", ["overlong"]),
        ("quatro", ["lam", "mu", "achieved_kl", "floored"]),
    ):
        words = ("--algo", algo, "--out", tmp_path / algo)
        assert rlvr("advantage", chain / "scores", *words).code == 0
        table = pq.read_table(tmp_path / algo)
        assert table.column_names[7:] == names
        assert all(table[name].null_count < table.num_rows for name in names)


def test_a_length_penalty_does_not_make_a_group_of_equal_rewards_informative(rlvr, jsonl, tmp_path):
    rows = [{"id": "a", "prompt": "5=", "completion": c, "reward": 1.0} for c in ("2+3", "1+1+1+2")]
    rlvr("import", jsonl(*rows), "--out", tmp_path, "--model", "builtin")
    words = ("--algo", "grpo+overlong:buffer=3,longest=8", "--drop-uninformative", "--json")
    summary = json.loads(rlvr("advantage", tmp_path / "scores", *words).out)
    assert (summary["informative"], summary["informative_share"], summary["kept"]) == (0, 0, 0)
    assert any(pq.read_table(tmp_path / "advantages")["advantage"].to_pylist())


def test_a_group_with_one_reward_left_has_advantage_0_and_is_counted(rlvr, jsonl, tmp_path):
    groups = [("a", 1.0), ("a", None), ("b", None), ("b", None), ("c", 1.0), ("c", 0.0)]
    rows = ({"id": name, "completion": "2+3", "reward": reward} for name, reward in groups)
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    summary = json.loads(rlvr("advantage", tmp_path / "scores", "--json").out)
    assert (summary["one_reward"], summary["no_reward"], summary["missing"]) == (1, 1, 3)
    values = pq.read_table(tmp_path / "advantages")["advantage"].to_pylist()
    assert values[:4] == [0, None, None, None] and values[4] > 0 > values[5]


@pytest.mark.parametrize(
    ("algo", "hint"),
    [
        ("dr-grpo", "dr-grpo:longest=4096"),
        ("grpo:aggregation=constant", "dr-grpo:longest=4096"),
        ("dppo-tv", "dppo-tv:aggregation=token-mean"),
        ("grpo+overlong:buffer=2", "overlong:longest=4096"),
    ],
)
def test_a_limit_that_imported_completions_do_not_have_is_asked_for(
    rlvr, refused, jsonl, tmp_path, algo, hint
):
    rows = [{"id": "a", "completion": text, "reward": r} for text, r in (("2+3", 1.0), ("1", 0.0))]
    source = jsonl(*rows)
    rlvr("import", source, "--model", "builtin", "--prompt-column", "id", "--out", tmp_path)
    err = refused(2, "advantage", tmp_path / "scores", "--algo", algo)
    assert "does not say how long a completion could be" in err and f"`{hint}`" in err


@pytest.mark.parametrize("algo", ["opo", "reinforce-pp", "grpo+overlong:buffer=2,longest=4"])
def test_what_counts_tokens_refuses_text_without(refused, rlvr, jsonl, tmp_path, algo):
    rows = [{"id": "a", "completion": text, "reward": r} for text, r in (("2+3", 1.0), ("1", 0.0))]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    err = refused(3, "advantage", tmp_path / "scores", "--algo", algo)
    assert "text without token ids, and this objective counts tokens" in err
    assert rlvr("advantage", tmp_path / "scores", "--algo", "grpo").code == 0


def test_overlong_and_the_constant_length_are_relative_to_the_longest_that_was_said(
    rlvr, jsonl, tmp_path
):
    rows = [{"id": "a", "completion": text, "reward": r} for text, r in (("2+3", 1.0), ("1", 0.0))]
    source = jsonl(*rows)
    rlvr("import", source, "--model", "builtin", "--prompt-column", "id", "--out", tmp_path)
    algo = "dr-grpo+overlong:buffer=2,longest=4"
    assert rlvr("advantage", tmp_path / "scores", "--algo", algo).code == 0
    table = pq.read_table(tmp_path / "advantages")
    lengths = pq.read_table(tmp_path / "rollouts")["token_ids"].to_pylist()
    expected = [-max(len(ids) - 2, 0) / 2 for ids in lengths]
    assert table["overlong"].to_pylist() == expected
