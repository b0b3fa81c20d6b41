"""APO from rollouts to updates: what the reference finds likeliest, made, stored and read."""

import json

import pyarrow.parquet as pq
import pytest
import torch

from rlvr_cli.cli import app
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import policy
from rlvr_cli.stages import train_step
from rlvr_cli.storage.shards import Shards

APO = "apo:k=3"
FLAGS = ["--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"]
UPDATE = ["--micro-batch-tokens", "60", "--learning-rate", "1e-3", "--mini-batch-prompts", "2"]
TOP_K = ["--ref-model", "builtin", "--columns", "ref_topk_ids,ref_topk_logp", "--ref-top-k", "3"]


def files_of(folder):
    actual = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in actual.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps of APO from the built-in policy."""
    out = tmp_path_factory.mktemp("anchored") / "run"
    words = ["--steps", "2", "--keep", "9", "--eval-every", "0", *FLAGS, *UPDATE]
    assert app.run(["train", "--algo", APO, "--out", str(out), *words]) == 0
    return out


@pytest.mark.slow
def test_a_run_stores_the_likeliest_tokens_of_where_it_started(run):
    digest = policy.resolve("builtin").digest
    for step in ("000001", "000002"):
        shards = Shards.open(run / "steps" / step / "logprobs", "logprobs")
        assert shards.manifest["only"] == ["ref_topk_ids", "ref_topk_logp"]
        assert shards.params["ref_top_k"] == 3
        assert (shards.params["reference"], shards.params["policy"]) == (digest, None)


@pytest.mark.slow
def test_stages_typed_by_hand_make_the_same_bytes(run, tmp_path):
    hand, model = tmp_path / "hand", "builtin"
    words = ["--split", "train", "--out", str(hand / "prompts" / "train")]
    assert app.run(["prompts", "task:expression", *words]) == 0
    for step in (1, 2):
        here = hand / "steps" / f"{step:06d}"
        flags = ["--model", model, "--step", str(step), "--out", str(here / "rollouts"), *FLAGS]
        for stage, source, options in (
            ("rollout", hand / "prompts" / "train", flags),
            ("score", here / "rollouts", []),
            ("logprob", here / "rollouts", [*TOP_K, *UPDATE[:2]]),
            ("advantage", here / "scores", ["--algo", APO]),
            ("train-step", here / "advantages", UPDATE),
        ):
            assert app.run([stage, str(source), *options]) == 0
        model = str(here / "update")
    assert files_of(hand / "steps") == files_of(run / "steps")


@pytest.mark.slow
def test_the_first_ratios_are_exactly_1_in_every_step(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]
    for line in lines[1:]:
        assert (line["first_ratio_min"], line["first_ratio_max"]) == (1, 1)


def test_the_anchor_changes_the_update(rlvr, copy):
    assert rlvr("logprob", copy / "rollouts", *TOP_K).code == 0
    for name, algo in (("with", APO), ("without", "apo:k=3,beta=0")):
        words = ("--algo", algo, "--out", copy / name)
        assert rlvr("advantage", copy / "scores", *words).code == 0
        words = ("--learning-rate", "1e-3", "--out", copy / f"update-{name}")
        assert rlvr("train-step", copy / name, *words).code == 0
    with_anchor, without = (
        pq.read_table(copy / f"update-{name}")["loss"][0].as_py() for name in ("with", "without")
    )
    assert with_anchor != without


def test_the_likeliest_tokens_are_made_by_the_command_in_the_hint(rlvr, refused, copy):
    rlvr("advantage", copy / "scores", "--algo", "apo", "--out", copy / "anchored")
    err = refused(3, "train-step", copy / "anchored")
    assert "needs ref_topk_ids and ref_topk_logp" in err
    words = err.splitlines()[-1].partition("`")[2].partition("`")[0]
    assert "--ref-top-k 8" in words
    assert rlvr(*words.replace("MODEL", "builtin").split()[1:]).code == 0
    assert rlvr("train-step", copy / "anchored").code == 0


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (slice(20, None), "the policy gives no log-probs: hidden_NH holds NaN in row 0"),
        (98, "the policy gives a log-prob of nan to a completion of `"),  # no prompt has this token
    ],
)
def test_a_policy_whose_own_log_probs_are_no_numbers_is_refused(chain, tmp_path, damaged, message):
    advantages, source = Shards.open(chain / "advantages"), policy.resolve("builtin")
    engine = train_step.trainer(policy.load(source), UpdateOptions(), 0)
    with torch.no_grad():
        next(engine.loaded.model.parameters())[damaged] = torch.nan
    with pytest.raises(DataError, match=message):
        train_step.run(
            advantages, tmp_path / "made", source, UpdateOptions(), engine=lambda: engine
        )
    assert not (tmp_path / "made" / "_manifest.json").exists()
