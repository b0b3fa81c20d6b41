"""Objectives that see a batch as a whole: the parts of its rewards, the ranks of its tokens."""

import json
import shlex
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.cli import app
from rlvr_cli.config import UpdateOptions
from rlvr_cli.stages import batch
from rlvr_cli.storage.shards import Shards

ALGO = "grpo+clip-cov:share=0.2,low=0+kl-cov:share=0.1+top-entropy:share=0.5"
SHARES = ("cov_clipped", "cov_penalised", "top_entropy")


SHORT = "def short(completion, *, answer, extra):\n    return len(completion) % 3 / 2\n"


def train(out, *words):
    fixed = ["--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "8"]
    fixed += ["--mini-batch-prompts", "2", "--eval-every", "0"]
    fixed += ["--algo", ALGO, "--learning-rate", "1e-3", "--keep", "9"]
    return app.run(["train", *fixed, "--out", str(out), *words])


def files_of(folder):
    paths = (p for p in folder.rglob("*") if p.is_file() and p.name != "metrics.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps of it; not to be changed."""
    out = tmp_path_factory.mktemp("choices") / "run"
    assert train(out, "--steps", "2") == 0
    return out


def test_the_shares_of_the_tokens_that_are_chosen_are_in_the_metrics(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines[1:]:
        assert 0 < line["cov_clipped"] <= 0.2 and 0 < line["cov_penalised"] <= 0.1
        assert 0.45 < line["top_entropy"] < 0.65


@pytest.mark.parametrize("lost", ["update", "logprobs"])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bytes(run, tmp_path, lost):
    again = shutil.copytree(run, tmp_path / "run")
    for name in {"update", lost}:
        shutil.rmtree(again / "steps/000002" / name)
    assert train(again, "--steps", "2") == 0
    assert files_of(again) == files_of(run)


def test_the_advantages_are_those_of_each_reward_on_its_own(copy, rlvr):
    (copy / "short.py").write_text(SHORT)
    sum_of = f"1*expression+0.5*{copy}/short.py:short"
    words = ("--verifier", sum_of, "--out", copy / "summed")
    assert rlvr("score", copy / "rollouts", *words).code == 0
    words = ("--algo", "gdpo", "--out", copy / "made")
    assert rlvr("advantage", copy / "summed", *words).code == 0
    scores, advantages = (Shards.open(copy / n).table().to_pandas() for n in ("summed", "made"))
    total = 0
    for name, weight in (("reward_expression", 1.0), ("reward_short", 0.5)):
        by_prompt = scores.groupby("prompt_id")[name]
        off, spread = scores[name] - by_prompt.transform("mean"), by_prompt.transform("std")
        total = total + weight * off / (spread + 1e-4)
    expected = total / (total.std() + 1e-4)
    assert np.allclose(advantages["advantage"], expected, rtol=1e-9, atol=1e-12)
    assert scores["reward_expression"].std() > 0 and scores["reward_short"].std() > 0


def test_how_an_update_is_cut_changes_no_choice(run):
    """One token a micro-batch or all of them, and mini-batches of any size."""
    step = run / "steps/000002"
    read = [
        batch.read(
            *(Shards.open(step / name) for name in ("advantages", "rollouts", "logprobs")),
            objectives.build(ALGO),
            UpdateOptions(mini_batch_prompts=size, micro_batch_tokens=tokens),
        )
        for size, tokens in ((1, 1), (0, 4096))
    ]
    for one, other in zip(*(each.rows for each in read), strict=True):
        assert one.token_columns.keys() == set(SHARES)
        for name in SHARES:
            assert one.token_columns[name].tolist() == other.token_columns[name].tolist()


def test_micro_batches_of_a_token_make_the_update_of_one(run, rlvr, tmp_path):
    """One optimizer step on all tokens: by AdamW, whose first is the sign of the gradient."""
    step, made = run / "steps/000001", {}
    for tokens in (1, 4096):
        out = tmp_path / str(tokens)
        words = ("--micro-batch-tokens", tokens, "--learning-rate", "1e-3", "--out", out)
        ran = rlvr("train-step", step / "advantages", *words)
        assert ran.code == 0, ran.err
        table = pq.read_table(out / "part-00000.parquet").to_pylist()[0]
        made[tokens] = table, load_file(out / "_checkpoint/model.safetensors")
    (one, weights), (other, others) = made.values()
    assert [one[name] for name in SHARES] == [other[name] for name in SHARES]
    for name in ("loss", "grad_norm"):
        assert one[name] == pytest.approx(other[name], rel=1e-4)
    moved = torch.cat([(weights[n] - others[n]).abs().flatten() for n in weights])
    assert (moved > 1e-4).float().mean() < 1e-3


def test_stages_by_hand_name_the_log_probs_that_are_missing_and_take_them(copy, rlvr, refused):
    words = ("--algo", "grpo+clip-cov:low=0+top-entropy", "--out", copy / "chosen")
    assert rlvr("advantage", copy / "scores", *words).code == 0
    err = refused(3, "train-step", copy / "chosen", "--out", copy / "made")
    assert "needs old_logp and entropy" in err
    hint = err.partition("make it with `")[2].partition("`")[0]
    assert rlvr(*shlex.split(hint)[1:]).code == 0
    ran = rlvr("train-step", copy / "chosen", "--out", copy / "made", "--json")
    assert ran.code == 0, ran.err
    assert 0 < json.loads(ran.out)["top_entropy"] < 0.5


def test_tokens_are_not_chosen_by_the_log_probs_of_another_policy(run, rlvr, refused, tmp_path):
    """Those beside the advantages are of the policy that sampled, and another one is updated."""
    copy = shutil.copytree(run, tmp_path / "run")
    step, other = copy / "steps/000001", str(copy / "steps/000002/update")
    words = ("train-step", step / "advantages", "--model", other, "--off-policy")
    err = refused(3, *words, "--out", copy / "made")
    assert "old_logp and entropy of another policy than" in err
    hint = err.partition("make it with `")[2].partition("`")[0]
    assert rlvr(*shlex.split(hint)[1:]).code == 0
    made = shlex.split(hint)[-1]
    assert rlvr(*words, "--logprobs", made, "--out", copy / "made").code == 0


def test_one_reward_has_no_parts_to_normalise(refused, copy, tmp_path):
    err = refused(2, "train", "--algo", "gdpo", "--out", tmp_path / "run")
    assert "--verifier is not given" in err and "`--verifier 0.9*math+0.1*format`" in err
    err = refused(3, "advantage", copy / "scores", "--algo", "gdpo", "--out", tmp_path / "made")
    assert "was scored by the verifier of each prompt" in err


@pytest.mark.parametrize("algo", ["grpo", "quatro", "reinforce-pp"])
def test_one_completion_a_prompt_is_refused_before_it_is_sampled(refused, tmp_path, algo):
    err = refused(2, "train", "--algo", algo, "-n", "1", "--dry-run", "--out", tmp_path / "run")
    assert f"{algo} compares 2 completions of a prompt or more, --num-generations is 1" in err
    assert "use --num-generations 2" in err


@pytest.mark.parametrize("algo", ["reinforce", "nsr", "topr"])
def test_an_objective_that_compares_none_takes_one_completion_a_prompt(rlvr, tmp_path, algo):
    words = ("train", "--algo", algo, "-n", "1", "--dry-run", "--out", tmp_path / "run")
    assert rlvr(*words).code == 0


def test_groups_no_larger_than_the_subsets_are_refused(refused, copy, tmp_path):
    words = ("train", "--algo", "pass-at-k:k=8", "-n", "8", "--out", tmp_path / "run")
    err = refused(2, *words)
    assert "9 completions of a prompt or more, --num-generations is 8" in err
    assert "use --num-generations 16" in err
    words = ("--algo", "pass-at-k", "--out", tmp_path / "made")
    assert "has 4 completions, its group needs 5" in refused(
        3, "advantage", copy / "scores", *words
    )


def test_with_divided_weights_every_step_needs_its_checkpoint(refused, tmp_path):
    pytest.importorskip("deepspeed")
    words = ("--trainer", "deepspeed:zero=3", "--engine", "transformers", "--save-every", "2")
    words += ("--steps", "4", "--eval-every", "0", "--out", tmp_path / "run")
    err = refused(2, "train", "--algo", "grpo+kl-cov", *words)
    assert "--save-every is 2" in err and "--save-every 1" in err
