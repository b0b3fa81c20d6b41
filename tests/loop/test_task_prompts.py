"""A run that names a task in place of directories: `train --prompts task:shapes`."""

import tomllib

import pyarrow.parquet as pq
import pytest

from rlvr_cli.config import RunOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.models import policy as policies, tokenizers
from rlvr_cli.stages import task_prompts
from rlvr_cli.storage.shards import Shards

SMALL = ["--steps=1", "--prompts-per-step=2", "--num-generations=2", "--mini-batch-prompts=0"]


def tasks(prompts="", heldout=""):
    options = RunOptions(prompts=prompts, heldout=heldout)
    return [task_prompts.of_split(options, split) for split in ("train", "heldout")]


def test_the_split_that_is_held_out_is_that_of_the_same_task_unless_another_is_named():
    assert tasks() == ["expression:split=train", "expression:split=heldout"]
    train, heldout = tasks("task:shapes:largest=4")
    assert train.startswith("shapes:split=train") and "largest=4" in train
    assert heldout == train.replace("train", "heldout")
    assert tasks("task:shapes", "task:expression")[1] == "expression:split=heldout"
    assert tasks("prompts", "task:expression:split=train") == [None, "expression:split=train"]
    assert tasks("prompts", "other") == [None, None]


def test_a_task_of_one_split_needs_another_to_evaluate_on():
    with pytest.raises(UsageError, match="of one split, and --heldout is not given"):
        tasks("task:shapes:split=heldout")


def test_a_run_on_the_task_of_images_takes_the_policy_that_reads_them(rlvr, tmp_path):
    words = ["--prompts", "task:shapes", "--out", tmp_path / "run", "--dry-run"]
    ran = rlvr("train", *words)
    assert ran.code == 0, ran.err
    shown = tomllib.loads(ran.out)["train"]
    assert (shown["model"], shown["prompts"]) == ("builtin-vl", "task:shapes")
    assert "on the built-in task `shapes`" in ran.err and not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_on_a_task_writes_its_prompts_and_goes_on(rlvr, tmp_path):
    run = tmp_path / "run"
    words = ["--prompts", "task:shapes:count=6", *SMALL, "--eval-num-generations=1", "--out", run]
    ran = rlvr("train", *words)
    assert ran.code == 0, ran.err
    for split in ("train", "heldout"):
        prompts = Shards.open(run / "prompts" / split, "prompts")
        assert (prompts.rows, (prompts.path / "__images").is_dir()) == (6, True)
    rollouts = pq.read_table(next((run / "steps" / "000001" / "rollouts").glob("*.parquet")))
    assert len(rollouts) == 4
    ran = rlvr("train", *words, "--steps=2")
    assert ran.code == 0, ran.err
    assert (run / "steps" / "000002" / "update" / "_manifest.json").exists()


def test_a_policy_of_text_alone_is_refused_before_it_samples(refused, tmp_path):
    words = ["--prompts", "task:shapes:count=6", "--model=builtin", *SMALL, "--eval-every=0"]
    err = refused(3, "train", *words, "--out", tmp_path / "run")
    assert "reads only text" in err
    assert not (tmp_path / "run").exists()


def test_prompts_with_images_of_a_built_in_task_need_no_model(rlvr, tmp_path):
    prompts = tmp_path / "prompts"
    assert rlvr("prompts", "task:shapes:count=2", "--out", prompts).code == 0
    ran = rlvr("rollout", prompts, "-n", 1, "--max-new-tokens=4", "--out", tmp_path / "rollouts")
    assert ran.code == 0, ran.err
    assert "using the built-in tiny policy `builtin-vl`" in ran.err
    words = ["--prompts", prompts, "--eval-every=0", *SMALL, "--out", tmp_path / "run"]
    ran = rlvr("train", *words, "--dry-run")
    assert tomllib.loads(ran.out)["train"]["model"] == "builtin-vl", ran.err


def test_the_policy_that_reads_images_is_small_and_knows_the_words_of_its_task():
    policy = policies.resolve("builtin-vl")
    assert policies.reads_images(policy)
    assert (policy.path / "model.safetensors").stat().st_size <= 3_000_000
    tokenizer = tokenizers.load(policy)
    from rlvr_cli.tasks import shapes

    for colour in shapes.COLOURS:
        text = shapes.QUESTION.format(colour=colour)
        assert len(tokenizer(text)["input_ids"]) == len(text.split()) + 1  # the full stop
