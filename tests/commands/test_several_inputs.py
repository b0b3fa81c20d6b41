"""Several directories to one command: replay, stored generations of others, curricula."""

import json
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.cli import app
from rlvr_cli.models import policy
from rlvr_cli.storage.shards import Shards

FAST = ("--learning-rate", "1e-3")


def table(path):
    return Shards.open(path).table()


def hint_of(said):
    """The words of the first command in a hint."""
    return shlex.split(said.partition("hint: ")[2].partition("`rlvr ")[2].partition("`")[0])


def test_of_several_one_that_cannot_be_read_is_named_before_where_they_go(refused, tmp_path):
    (tmp_path / "a").mkdir()
    said = refused(3, "score", tmp_path / "a", tmp_path / "b")
    assert f"`{tmp_path / 'a'}` is an empty folder" in said and "--out" not in said


@pytest.fixture(scope="session")
def inputs(chain, tmp_path_factory):
    """a: the chain's completions; b: other completions of its prompts; both: scores of both."""
    root = tmp_path_factory.mktemp("inputs")
    shutil.copytree(chain, root / "a")
    sampling = ["-n3", "--max-new-tokens=16", "--seed=7", "--out", f"{root}/b/rollouts"]
    for words in (
        ["rollout", f"{root}/a/prompts", *sampling],
        ["score", f"{root}/b/rollouts"],
        ["advantage", f"{root}/b/scores"],
        ["score", f"{root}/a/rollouts", f"{root}/b/rollouts", "--out", f"{root}/both/scores"],
        ["advantage", f"{root}/both/scores"],
    ):
        assert app.run(words) == 0
    return root


@pytest.fixture
def mine(inputs, tmp_path):
    """The inputs, to be changed."""
    return shutil.copytree(inputs, tmp_path / "inputs")


@pytest.fixture
def stored(rlvr, inputs, jsonl, tmp_path):
    """A stored completion of another model: one that is right, of a prompt of `inputs`."""
    row = table(inputs / "a" / "prompts").to_pylist()[0]
    text = json.loads(row["messages"])
    answer = {"id": row["prompt_id"], "prompt": text, "answer": row["answer"], "correct": True,
              "completion": f"{row['answer']}*1", "finish_reason": "stop"}  # fmt: skip
    words = ("--model", "builtin", "--prompts", inputs / "a" / "prompts")
    assert rlvr("import", jsonl(answer), *words, "--out", tmp_path / "stored").code == 0
    return tmp_path / "stored"


def test_each_row_says_which_input_it_is_of_and_each_part_is_that_of_its_input(inputs):
    both = Shards.open(inputs / "both" / "scores")
    each = [table(inputs / name / "scores") for name in "ab"]
    assert both.table().drop(["input"]).equals(pa.concat_tables(each))
    assert both.table()["input"].to_pylist() == [0] * 24 + [1] * 18
    recorded = both.manifest["parents"]["rollouts"]
    assert [one["path"] for one in recorded] == ["../../a/rollouts", "../../b/rollouts"]
    assert "input" not in each[0].column_names


def test_a_group_is_a_prompt_of_one_input(inputs):
    each = [table(inputs / name / "advantages") for name in "ab"]
    apart = table(inputs / "both" / "advantages")
    assert apart["advantage"].to_pylist() == [
        value for one in each for value in one["advantage"].to_pylist()
    ]
    assert Shards.open(inputs / "both" / "advantages").summary["groups"] == 12


def test_scores_of_all_and_advantages_of_each_give_the_same_update(rlvr, inputs, tmp_path):
    each = [inputs / name / "advantages" for name in "ab"]
    words = (*FAST, "--mini-batch-prompts", 5, "--epochs", 2)
    assert rlvr("train-step", *each, *words, "--out", tmp_path / "each").code == 0
    both = inputs / "both" / "advantages"
    assert rlvr("train-step", both, *words, "--out", tmp_path / "both").code == 0
    first, second = (Shards.open(tmp_path / name) for name in ("each", "both"))
    assert first.table().equals(second.table()) and first.rows == 2 * 3
    assert first.summary["policy"] == second.summary["policy"]
    assert len(first.manifest["parents"]["advantages"]) == 2


def test_the_order_of_inputs_decides(rlvr, refused, inputs, tmp_path):
    pair = [inputs / name / "rollouts" for name in "ba"]
    assert rlvr("score", *pair, "--out", tmp_path / "scores").code == 0
    assert table(tmp_path / "scores")["input"].to_pylist() == [0] * 18 + [1] * 24
    err = refused(2, "score", *reversed(pair), "--out", tmp_path / "scores")
    assert "was made with other parameters" in err and "parents was" in err


def test_shares_of_several_inputs_are_the_bytes_of_one_process(rlvr, inputs, tmp_path, files_of):
    pair = [inputs / name / "rollouts" for name in "ab"]
    out = tmp_path / "both" / "scores"
    for share in ("1/2", "0/2"):
        assert rlvr("score", *pair, "--out", out, "--shard", share).code == 0
    parts = [{n: b for n, b in files_of(path).items() if n.startswith("part-")}
             for path in (out, inputs / "both" / "scores")]  # fmt: skip
    assert parts[0] == parts[1] and len(parts[0]) == 3


def test_completions_are_verified_by_the_prompts_of_their_own_input(rlvr, jsonl, tmp_path):
    for name, gold in (("x", "1"), ("y", "2")):
        row = {"id": "q", "prompt": f"{name}?", "answer": gold, "completion": "It is 2."}
        rlvr("import", jsonl(row, {**row, "completion": "1"}), "--out", tmp_path / name)
    pair = [tmp_path / name / "rollouts" for name in "xy"]
    assert rlvr("score", *pair, "--verifier", "number", "--out", tmp_path / "scores").code == 0
    assert table(tmp_path / "scores")["reward"].to_pylist() == [0, 1, 1, 0]
    assert rlvr("advantage", tmp_path / "scores").code == 0
    assert rlvr("export", tmp_path / "scores", "--out", tmp_path / "rows.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["input"], row["answer"]) for row in rows] == [(0, "1")] * 2 + [(1, "2")] * 2


def test_ids_that_are_two_prompts_are_not_taken_for_one(rlvr, refused, jsonl, tmp_path):
    for name in "xy":
        row = {"id": "q", "prompt": f"{name}?", "answer": "1", "completion": "1", "correct": True}
        rlvr("import", jsonl(row, row), "--out", tmp_path / name)
    pair = [tmp_path / name / "rollouts" for name in "xy"]
    rlvr("score", *pair, "--verifier", "number", "--out", tmp_path / "scores")
    two = f"`q` is one prompt in `{tmp_path / 'x' / 'prompts'}` and another in"
    assert two in refused(3, "eval-passk", tmp_path / "scores")
    assert two in refused(3, "advantage", tmp_path / "scores", "--merge", "--out", tmp_path / "m")
    assert rlvr("advantage", tmp_path / "scores").code == 0


def test_stored_answers_of_a_stronger_model_join_the_groups_with_merge(
    rlvr, refused, inputs, stored, tmp_path
):
    pair = (inputs / "a" / "scores", stored / "scores", "--out", tmp_path / "advantages")
    assert "has one completion, its group needs two" in refused(3, "advantage", *pair)
    assert rlvr("advantage", *pair, "--merge").code == 0
    rows = table(tmp_path / "advantages").to_pylist()
    (better,) = [row for row in rows if row["input"]]
    group = [row for row in rows if row["prompt_id"] == better["prompt_id"]]
    assert better["group_size"] == len(group) == 5 and better["advantage"] > 0
    assert sum(row["advantage"] for row in group) == pytest.approx(0)
    assert Shards.open(tmp_path / "advantages").summary["groups"] == 6
    words = ("train-step", tmp_path / "advantages", "--model", "builtin", *FAST)
    assert "does not say which policy it was sampled from" in refused(2, *words)
    ran = rlvr(*words, "--off-policy", "--mini-batch-prompts", 1)
    assert ran.code == 0 and "tokens count as if `builtin` had sampled them" in ran.err
    assert sorted(table(tmp_path / "update")["sequences"].to_pylist()) == [4, 4, 4, 4, 4, 5]
    assert rlvr("check", tmp_path / "advantages").code == 0


def test_traces_in_the_layout_of_luffy_guide_a_policy(rlvr, tmp_path):
    """Its columns, as `Elliott/Openr1-Math-46k-8192` has them: the answer is a list of turns."""
    model = shutil.copytree(policy.resolve("builtin").path, tmp_path / "chat")
    settings = json.loads((model / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    (model / "tokenizer_config.json").write_text(json.dumps(settings))
    rows = [
        {"data_source": "openr1.math",
         "prompt": [{"role": "system", "content": "Reason."}, {"role": "user", "content": f"{n}="}],
         "target": [{"role": "assistant", "content": f"<think>\nEasy.\n</think>\n\n{n}*1"}],
         "ability": "math", "reward_model": {"style": "rule", "ground_truth": str(n)},
         "extra_info": {"split": "train", "index": n}}
        for n in (4, 6)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "luffy.parquet")
    at = (tmp_path / "luffy.parquet", "--out")
    assert rlvr("prompts", *at, tmp_path / "prompts", "--verifier", "expression").code == 0
    words = ("--id-column", "extra_info.index", "--completion-column", "target")
    words = (*words, "--prompts", tmp_path / "prompts", "--model", model)
    assert rlvr("import", *at, tmp_path / "stored", *words).code == 0
    own = tmp_path / "own" / "rollouts"
    sampling = ("--model", model, "-n3", "--max-new-tokens=8", "--out", own)
    assert rlvr("rollout", tmp_path / "prompts", *sampling).code == 0
    both = tmp_path / "both"
    pair = (own, tmp_path / "stored" / "rollouts", "--out", both / "scores")
    assert rlvr("score", *pair).code == 0
    assert table(both / "scores").slice(6)["correct"].to_pylist() == [True, True]
    assert rlvr("advantage", both / "scores", "--merge").code == 0
    assert table(both / "advantages")["group_size"].to_pylist() == [4] * 8
    assert rlvr("train-step", both / "advantages", "--model", model, "--off-policy").code == 0


def test_what_only_several_inputs_can_be_is_refused_of_one(refused, inputs, tmp_path):
    words = ("--merge", "--out", tmp_path / "m")
    assert "--merge is for several inputs" in refused(
        2, "advantage", inputs / "a" / "scores", *words
    )


def test_earlier_steps_of_a_run_are_replayed_off_policy_with_a_correction(
    rlvr, refused, trained, tmp_path
):
    steps = [trained / "steps" / f"{step:06d}" for step in (1, 2)]
    scores = [step / "scores" for step in steps]
    words = ("--model", trained, "--out")
    each = [step / "advantages" for step in steps]
    said = refused(2, "train-step", *each, *words, tmp_path / "u")
    assert "was sampled from another policy" in said and "--off-policy" in said
    ran = rlvr("train-step", *each, *words, tmp_path / "plain", "--off-policy", "--algo", "grpo")
    assert ran.code == 0 and "importance ratios begin at 1" in ran.err
    algo = ("--algo", "grpo+is-correction", "--out", tmp_path / "corrected")
    assert rlvr("advantage", *scores, *algo).code == 0
    ran = rlvr("train-step", tmp_path / "corrected", *words, tmp_path / "u", "--off-policy")
    assert ran.code == 0 and "ratios begin" not in ran.err
    plain, corrected = (Shards.open(tmp_path / name).table() for name in ("plain", "u"))
    assert corrected["loss"].to_pylist() != plain["loss"].to_pylist()
    assert corrected["sequences"].to_pylist() == plain["sequences"].to_pylist() == [32]


def test_the_hint_about_two_algorithms_makes_advantages_of_one(
    rlvr, refused, inputs, tmp_path, monkeypatch
):
    """As the steps of a run that samples ahead have: some are corrected and some are not."""
    monkeypatch.chdir(tmp_path)
    corrected = ("--algo", "grpo+is-correction", "--out", "corrected")
    assert rlvr("advantage", inputs / "b" / "scores", *corrected).code == 0
    said = refused(2, "train-step", inputs / "a" / "advantages", "corrected", "--out", "u")
    assert rlvr(*hint_of(said)).code == 0
    made = Shards.open(tmp_path / "mixed" / "advantages")
    assert "+is-correction" in made.params["algo"] and len(made.inputs) == 1
    assert rlvr("train-step", made.path).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--algo", "dapo"), "`advantages` was made by grpo:"),
        (("--temperature", "0.5"), "was sampled at temperature 1.0, "),
        (("--top-k", "3"), "not from the policy itself"),
    ],
)
def test_inputs_of_which_one_update_cannot_be_made_are_refused(
    rlvr, refused, mine, words, message, tmp_path
):
    other = mine / "b" / "rollouts"
    if "--algo" not in words:
        shutil.rmtree(mine / "b")
        sampling = (*words, "-n2", "--max-new-tokens=8", "--limit=2", "--out", other)
        assert rlvr("rollout", mine / "a" / "prompts", *sampling).code == 0
        rlvr("score", other)
        rlvr("advantage", mine / "b" / "scores")
    else:
        rlvr("advantage", mine / "b" / "scores", *words, "--out", mine / "b" / "other")
        shutil.rmtree(mine / "b" / "advantages")
        (mine / "b" / "other").rename(mine / "b" / "advantages")
    pair = [mine / name / "advantages" for name in "ab"]
    said = refused(2, "train-step", *pair, "--out", tmp_path / "u")
    assert message.removeprefix("`advantages` ") in said


def test_a_policy_with_other_tokens_is_refused_off_policy_too(rlvr, refused, inputs, tmp_path):
    other = shutil.copytree(policy.resolve("builtin").path, tmp_path / "other")
    words = json.loads((other / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    one, two = (name for name, number in vocabulary.items() if number in (4, 5))
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    (other / "tokenizer.json").write_text(json.dumps(words))
    pair = [inputs / name / "advantages" for name in "ab"]
    flags = ("--model", other, "--off-policy", "--out", tmp_path / "u")
    said = refused(3, "train-step", *pair, *flags)
    assert f"`{inputs / 'a' / 'rollouts'}` has other tokens than `{other}`" in said
    rlvr("export", inputs / "b" / "scores", "--out", tmp_path / "b.jsonl")
    assert rlvr("import", tmp_path / "b.jsonl", "--model", other, "--out", tmp_path / "i").code == 0
    rlvr("advantage", tmp_path / "i" / "scores")
    assert rlvr("train-step", tmp_path / "i" / "advantages", *flags).code == 0


def test_several_inputs_need_a_place_of_their_own(refused, inputs):
    for command, kind in (("score", "rollouts"), ("train-step", "advantages")):
        pair = [inputs / name / kind for name in "ab"]
        assert "say where it goes, as in `--out mixed/" in refused(2, command, *pair)


def test_the_reference_of_all_inputs_is_made_by_the_command_in_the_hint(
    rlvr, refused, mine, monkeypatch
):
    monkeypatch.chdir(mine)
    pair = ("a/scores", "b/scores")
    rlvr("advantage", *pair, "--algo", "grpo+kl", "--out", "kl/advantages")
    said = refused(3, "train-step", "kl/advantages")
    assert "needs ref_logp" in said
    words = hint_of(said)
    assert words[:3] == ["logprob", "a/rollouts", "b/rollouts"]
    assert rlvr(*(word.replace("MODEL", "builtin") for word in words)).code == 0
    made = words[words.index("--out") + 1]
    assert table(Path(made))["input"].to_pylist() == [0] * 24 + [1] * 18
    assert rlvr("train-step", "kl/advantages", "--logprobs", made).code == 0


def test_log_probs_beside_each_input_are_found(rlvr, mine):
    for name in "ab":
        assert rlvr("logprob", mine / name / "rollouts", "--columns", "old_logp").code == 0
    pair = [mine / name / "advantages" for name in "ab"]
    words = ("--old-logprobs", "stored", "--out", mine / "u")
    assert rlvr("train-step", *pair, *words).code == 0
    assert len(Shards.open(mine / "u").manifest["parents"]["logprobs"]) == 2


def test_evaluations_keep_inputs_with_the_same_prompts_apart_unless_merged(
    rlvr, refused, inputs, tmp_path
):
    both = inputs / "both" / "scores"
    apart = json.loads(rlvr("eval-passk", both, "--json").out)
    each = [json.loads(rlvr("eval-passk", inputs / n / "scores", "--json").out) for n in "ab"]
    assert apart["read"]["apart"] == ["a", "b"] and apart["prompts"] == 6
    means = [one["metrics"]["pass@1"][0] for one in each]
    assert apart["metrics"]["pass@1"][0] == pytest.approx(sum(means) / 2)
    assert [s["metrics"]["pass@1"][0] for s in apart["sources"].values()] == means
    merged = json.loads(rlvr("eval-passk", both, "--merge", "--json").out)
    assert merged["n"] == [7, 7] and merged["read"] == {}
    for command in ("ucc", "diversity"):
        assert json.loads(rlvr(command, both, "--json").out)["read"]["apart"] == ["a", "b"]
    assert rlvr("compare", both, inputs / "a" / "scores").code in (0, 3)
    said = refused(3, "report", both, "--out", tmp_path / "r.html")
    assert "have prompts in common" in said
    assert rlvr(*hint_of(said.replace("`rlvr score`", "")), "--out", tmp_path / "r.html").code == 0


def test_inputs_of_different_prompts_are_reported_as_one(rlvr, inputs, known, tmp_path):
    words = ("--verifier", "expression", "--out", tmp_path / "scores")
    assert rlvr("score", inputs / "a" / "rollouts", known / "rollouts", *words).code == 0
    assert rlvr("report", tmp_path / "scores", "--out", tmp_path / "r.html").code == 0
    assert rlvr("doctor", tmp_path / "scores").code in (0, 3)
    found = json.loads(rlvr("eval-passk", tmp_path / "scores", "--json").out)
    assert found["prompts"] == 8 and found["read"] == {}
    facts = json.loads(rlvr("check", tmp_path / "scores", "--json").out)
    assert len(facts["parents"]["rollouts"]) == 2


def test_a_curriculum_takes_success_rates_over_all_inputs(rlvr, inputs, tmp_path):
    rows = table(inputs / "both" / "scores").to_pylist()
    rates = {}
    for row in rows:
        rates.setdefault(row["prompt_id"], []).append(row["correct"])
    wanted = [name for name, right in rates.items() if 0.1 <= sum(right) / len(right) <= 0.9]
    words = ("--keep-rate", "0.1,0.9", "--scores", inputs / "both" / "scores")
    assert rlvr("prompts", inputs / "a" / "prompts", *words, "--out", tmp_path / "p").code == 0
    assert sorted(table(tmp_path / "p")["prompt_id"].to_pylist()) == sorted(wanted) != []


def test_a_directory_of_one_input_is_as_before(inputs, tmp_path, rlvr):
    one = Shards.open(inputs / "a" / "scores")
    assert isinstance(one.manifest["parents"]["rollouts"], dict) and one.manifest["only"] is None
    part = pq.read_schema(one.path / "part-00000.parquet")
    assert "input" not in part.names and b'"merge"' not in part.metadata[b"rlvr"]


def test_directories_of_an_earlier_version_are_inputs_beside_those_of_this(rlvr, inputs, tmp_path):
    old = Path(__file__).parents[1] / "stored" / "0.1.0" / "whole" / "rollouts"
    out = tmp_path / "scores"
    assert rlvr("score", old, inputs / "a" / "rollouts", "--out", out).code == 0
    assert rlvr("advantage", out).code == 0 and rlvr("check", out).code == 0
    assert set(table(out)["input"].to_pylist()) == {0, 1}


def test_completions_under_two_verifiers_are_trained_on_twice_and_it_is_said(rlvr, mine):
    again = mine / "a" / "by-text"
    words = ("--verifier", "text", "--out", again)
    assert rlvr("score", mine / "a" / "rollouts", *words).code == 0
    assert rlvr("advantage", again, "--out", mine / "a" / "others").code == 0
    pair = (mine / "a" / "advantages", mine / "a" / "others", "--out", mine / "u")
    ran = rlvr("train-step", *pair)
    assert ran.code == 0
    assert f"the completions of `{mine / 'a' / 'rollouts'}` are trained on 2 times" in ran.err
    assert table(mine / "u")["sequences"].to_pylist() == [48]
