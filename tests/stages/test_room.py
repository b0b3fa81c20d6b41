"""The room on disk that checkpoints take, and what is said where it is not there."""

import dataclasses
import json

import pytest

from rlvr_cli import config
from rlvr_cli.cli import app
from rlvr_cli.config import RunOptions, UpdateOptions
from rlvr_cli.errors import Advice, UserError
from rlvr_cli.models import policy
from rlvr_cli.stages import room
from rlvr_cli.storage import disk

BUILTIN = policy.resolve("builtin")


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_checkpoint_takes_what_was_estimated(trained):
    made = size_of(trained / "steps" / "000002" / "update" / "_checkpoint")
    assert made == pytest.approx(room.of_checkpoint(BUILTIN), rel=0.01)


@pytest.mark.slow
def test_a_checkpoint_of_adapters_takes_what_was_estimated(chain, tmp_path):
    out = str(tmp_path / "update")
    assert app.run(["train-step", str(chain / "advantages"), "--lora-rank=16", "--out", out]) == 0
    estimate = room.of_checkpoint(BUILTIN, UpdateOptions(lora_rank=16))
    assert size_of(tmp_path / "update" / "_checkpoint") == pytest.approx(estimate, rel=0.1)


def test_of_a_run_the_newest_and_the_best_and_the_one_that_is_written_are_counted():
    chosen = config.RunConfig(train=RunOptions(keep=2, keep_weights=3, eval_every=5))
    needs = room.of_run(chosen, BUILTIN)
    assert needs.complete == 4
    assert needs.peak(1) == needs.checkpoint
    assert needs.peak(4) == 4 * needs.checkpoint
    assert needs.peak(6) == 4 * needs.checkpoint + 2 * needs.weights
    assert needs.peak(99) == 4 * needs.checkpoint + 4 * needs.weights
    with_memory = room.of_run(chosen, BUILTIN, BUILTIN)
    assert with_memory.checkpoint == 2 * needs.checkpoint and with_memory.weights == needs.weights


def test_the_policies_that_samplers_read_are_counted_while_the_next_is_written():
    chosen = config.RunConfig(train=RunOptions(steps=9, ahead=2, keep=1, eval_every=0))
    alone, needs = (room.of_run(chosen, BUILTIN, publishes=p) for p in (False, True))
    assert (alone.published, needs.published) == (0, 4)
    assert needs.peak(1) - alone.peak(1) == 4 * needs.weights
    short = dataclasses.replace(chosen, train=RunOptions(steps=2, ahead=2))
    assert room.of_run(short, BUILTIN, publishes=True).published == 1  # the last step has none


@pytest.mark.filterwarnings("error::rlvr_cli.errors.Advice")
def test_published_policies_that_go_are_room_that_a_run_has(tmp_path):
    """Sparse files stand for large weights."""
    free = disk.free(tmp_path)
    for step in range(1, 5):
        folder = tmp_path / f"steps/{step:06d}/policy/_weights"
        folder.mkdir(parents=True)
        with open(folder / "model.safetensors", "wb") as file:
            file.truncate(2 * free)
    needs = room.Room(1, 2 * free, 1, 0, evaluates=False, published=3)
    needs.check(tmp_path, RunOptions(steps=9), 4, adapters=False)


def test_too_little_for_the_policies_of_samplers_is_refused_or_said(tmp_path):
    free, train = disk.free(tmp_path), RunOptions(steps=9, save_every=1)
    large = room.Room(1, 2 * free, 1, 0, evaluates=False, published=2)
    with pytest.raises(UserError, match="a checkpoint with the weights for samplers takes"):
        large.check(tmp_path, train, 0, adapters=False)
    many = room.Room(1, int(free / 1.5), 1, 0, evaluates=False, published=2)
    with pytest.warns(Advice, match="GB for samplers.* a larger disk with --out"):
        many.check(tmp_path, train, 0, adapters=False)


def test_the_steps_that_save_are_those_of_save_every_of_evaluations_and_the_last():
    train = RunOptions(steps=7, save_every=3, eval_every=2)
    assert [s for s in range(1, 8) if room.saves(train, [s], adapters=False)] == [2, 3, 4, 6, 7]
    assert room.saves(train, range(1, 8), adapters=True) == 7


def test_too_little_for_one_checkpoint_is_refused_and_for_all_of_them_is_said(tmp_path):
    free, train = disk.free(tmp_path), RunOptions(steps=9, save_every=1)
    large = room.Room(2 * free, 0, keep=2, keep_weights=0, evaluates=False)
    with pytest.raises(UserError, match=r"a checkpoint takes .* and .* are free in"):
        large.check(tmp_path, train, 0, adapters=False)
    large.check(tmp_path, train, last=9, adapters=False)  # nothing is left to write
    half = room.Room(int(free / 3.5), 0, keep=4, keep_weights=0, evaluates=False)
    with pytest.warns(Advice, match="keep fewer with `--keep 2`"):
        half.check(tmp_path, train, 0, adapters=False)
    only = room.Room(int(free / 1.5), 0, keep=1, keep_weights=0, evaluates=False)
    with pytest.warns(Advice, match="take a larger disk with --out"):
        only.check(tmp_path, train, 0, adapters=False)


@pytest.mark.filterwarnings("error::rlvr_cli.errors.Advice")
def test_what_a_run_holds_is_room_that_it_has(tmp_path):
    """Sparse files stand for large checkpoints."""
    free = disk.free(tmp_path)
    for step in range(1, 4):
        folder = tmp_path / f"steps/{step:06d}/update/_checkpoint"
        folder.mkdir(parents=True)
        with open(folder / "model.safetensors", "wb") as file:
            file.truncate(2 * free)
    needs = room.Room(2 * free, 0, keep=1, keep_weights=0, evaluates=False)
    needs.check(tmp_path, RunOptions(steps=9), 3, adapters=False)


def test_a_step_without_room_says_that_its_rollouts_stay(tmp_path):
    needs = room.Room(2 * disk.free(tmp_path), 0, keep=2, keep_weights=0, evaluates=True)
    for step in (5, 6):
        (tmp_path / f"steps/{step:06d}/update/_checkpoint").mkdir(parents=True)
    with pytest.raises(UserError, match=r"the checkpoint of step 7 takes .* are free in") as caught:
        needs.require(tmp_path, 7)
    assert "keep fewer with `--keep 1`" in caught.value.hint
    assert "it continues from the rollouts of this step" in caught.value.hint


def test_fewer_checkpoints_are_advised_only_if_that_frees_one(tmp_path):
    needs = room.Room(2 * disk.free(tmp_path), 0, keep=2, keep_weights=0, evaluates=True)
    (tmp_path / "steps/000001/update/_checkpoint").mkdir(parents=True)
    with pytest.raises(UserError) as caught:
        needs.require(tmp_path, 2)
    assert "--keep" not in caught.value.hint and "run the same command again" in caught.value.hint


def test_doctor_says_what_the_checkpoints_of_a_run_take(rlvr):
    words = ["--model=builtin", "--steps=3", "--save-every=1", "--eval-every=0", "--keep=1"]
    ran = rlvr("doctor", *words, "--json")
    (found,) = (f for f in json.loads(ran.out)["findings"] if f["subject"] == "disk")
    assert found["level"] == "ok" and "at most 2 at once, 5.49 MB each" in found["text"]
