"""Which checkpoints of a run stay, whole or as weights alone, and what is said of the others."""

import json
import os
import resource
import shutil
import time
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from rlvr_cli.cli import app
from rlvr_cli.errors import DataError, UserError
from rlvr_cli.loop import pruning, published
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.models import checkpoints, policy
from rlvr_cli.stages import convert

pytestmark = pytest.mark.slow

SMALL = ["--prompts-per-step=2", "-n2", "--max-new-tokens=4", "--eval-every=0", "--steps=5"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of five steps, with all of their checkpoints; not to be changed."""
    root = tmp_path_factory.mktemp("made")
    for name, words in {"full": [], "lora": ["--lora-rank=2"]}.items():
        out = str(root / name)
        assert app.run(["train", "--algo=grpo", *SMALL, *words, "--keep=9", "--out", out]) == 0
    return root


@pytest.fixture
def full(made, tmp_path):
    return shutil.copytree(made / "full", tmp_path / "full")


def prune(run, keep, keep_weights=0):
    pruning.prune(RunDirectory(run), keep, keep_weights)


def update_of(run, step):
    return run / "steps" / f"{step:06d}" / "update"


def left(run):
    """What each step holds of its policy."""
    folders = {step: sorted(p.name for p in update_of(run, step).iterdir() if p.is_dir())
               for step in range(1, 6)}  # fmt: skip
    return {step: names for step, names in folders.items() if names}


def content(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_weights_alone_stay_of_the_checkpoints_before_those_that_are_kept(full):
    before = content(update_of(full, 5))
    prune(full, 1, 2)
    assert left(full) == {3: ["_weights"], 4: ["_weights"], 5: ["_checkpoint"]}
    assert content(update_of(full, 5)) == before
    unchanged = content(full)
    prune(full, 1, 2)
    assert content(full) == unchanged
    prune(full, 1, 1)
    assert left(full) == {4: ["_weights"], 5: ["_checkpoint"]}
    prune(full, 2, 0)
    assert left(full) == {4: ["_weights"], 5: ["_checkpoint"]}
    prune(full, 1, 0)
    assert left(full) == {5: ["_checkpoint"]}


def test_weights_alone_are_what_convert_writes(full, tmp_path):
    source = update_of(full, 4) / "_checkpoint"
    convert.write(str(source), tmp_path / "made", "float32")
    expected = policy.load(policy.resolve(str(source))).model.state_dict()
    prune(full, 1, 1)
    kept = update_of(full, 4) / "_weights"
    assert content(kept) == content(tmp_path / "made")
    found = policy.resolve(str(update_of(full, 4)))
    assert found.path == kept and found.trainer_digest is None
    result = AutoModelForCausalLM.from_pretrained(kept, dtype="auto").state_dict()
    assert result.keys() == expected.keys()
    assert all(value.equal(expected[name]) for name, value in result.items())


def test_of_adapters_all_but_the_optimizers_state_stays(made, tmp_path):
    run = shutil.copytree(made / "lora", tmp_path / "run")
    before = policy.resolve(str(update_of(run, 4)))
    expected = content(before.path)
    del expected[checkpoints.OPTIMIZER]
    assert before.trainer_digest
    prune(run, 1, 1)
    assert left(run) == {4: ["_weights"], 5: ["_checkpoint"]}
    after = policy.resolve(str(update_of(run, 4)))
    assert content(after.path) == expected and after.digest == policy.Policy(after.path, "").digest
    assert after.base.name == "builtin" and after.trainer_digest is None


@pytest.mark.parametrize("moment", ["unfinished", "both", "pruned"])
def test_what_a_kill_leaves_is_finished_by_the_next_step(full, tmp_path, moment):
    undisturbed = shutil.copytree(full, tmp_path / "undisturbed")
    prune(undisturbed, 2, 1)
    update = update_of(full, 3)
    if moment == "unfinished":  # the weights are half written
        (update / "_tmp-_weights").mkdir()
        (update / "_tmp-_weights" / "model.safetensors").write_bytes(b"half")
        assert policy.resolve(str(update)).path == update / "_checkpoint"
    else:
        convert.write(str(update / "_checkpoint"), update / "_weights", "float32")
        assert policy.resolve(str(update)).path == update / "_checkpoint"
    if moment == "pruned":
        (update / "_checkpoint").rename(update / "_pruned_checkpoint")
        assert policy.resolve(str(update)).path == update / "_weights"
    prune(full, 2, 1)
    assert content(full) == content(undisturbed)


def test_what_a_killed_process_left_of_a_removal_is_in_nobodys_way(tmp_path):
    """The step was made again meanwhile, and is removed a second time."""
    for folder in ("policy/_weights", "policy/_pruned", "update/_checkpoint"):
        (tmp_path / "steps" / "000001" / folder).mkdir(parents=True)
    left = (
        tmp_path / "steps/000001/update/_pruned_checkpoint",
        tmp_path / "steps/000001/policy/_pruned",
    )
    for folder in left:
        folder.mkdir(exist_ok=True)
        (folder / "model.safetensors").touch()
    published.prune(tmp_path, range(1, 2))
    assert not list((tmp_path / "steps" / "000001" / "policy").iterdir())
    shutil.copytree(tmp_path / "steps" / "000001", tmp_path / "steps" / "000002")
    prune(tmp_path, keep=1)
    assert not list((tmp_path / "steps" / "000001" / "update").iterdir())


def test_weights_that_cannot_be_written_leave_the_checkpoint(full):
    """A limit on the size of files stands for a disk that is full."""
    before = content(update_of(full, 4))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(UserError, match=r"cannot write `.*_weights`: File too large"):
            prune(full, 1, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert content(update_of(full, 4)) == before


def test_a_run_is_never_resumed_from_weights_alone(full):
    prune(full, 1, 3)
    assert RunDirectory(full).last_step() == 5
    shutil.rmtree(update_of(full, 5) / "_checkpoint")
    assert RunDirectory(full).last_step() == 0


def test_how_many_stay_may_change_when_a_run_goes_on(rlvr, full):
    words = ["train", "--algo=grpo", *SMALL, "--keep=2", "--keep-weights=1", "--out", full]
    ran = rlvr(*words)
    assert ran.code == 0, ran.err
    assert left(full) == {3: ["_weights"], 4: ["_checkpoint"], 5: ["_checkpoint"]}


def test_a_run_stands_for_its_newest_checkpoint(full):
    newest = update_of(full, 5) / "_checkpoint"
    assert policy.resolve(str(full)).path == newest
    assert policy.resolve(str(full / "steps" / "000005")).path == newest
    for file in policy.resolve("builtin").path.iterdir():
        shutil.copyfile(file, full / file.name)
    assert policy.resolve(str(full)).path == full


def test_a_checkpoint_that_was_removed_is_named_with_those_that_are_there(full):
    text = (full / "config.toml").read_text()
    (full / "config.toml").write_text(text.replace("keep = 9", "keep = 2"))
    (full / "_run.json").unlink()  # its copy
    prune(full, 2)
    for name in (update_of(full, 3), update_of(full, 3) / "_checkpoint", full / "steps" / "000003"):
        with pytest.raises(DataError, match="the checkpoint of step 3 was removed by --keep 2; "
                           "there are those of steps 4, 5") as said:  # fmt: skip
            policy.resolve(str(name))
        assert str(update_of(full, 5)) in said.value.hint
    assert policy.resolve(said.value.hint.split("`")[1]).path.exists()
    with pytest.raises(DataError, match="there is no policy at"):
        policy.resolve(str(update_of(full, 9)))


def test_the_policy_of_stored_rollouts_that_was_removed_is_named(rlvr, refused, full, tmp_path):
    text = (full / "config.toml").read_text()
    (full / "config.toml").write_text(text.replace("keep = 9", "keep = 1"))
    (full / "_run.json").unlink()  # its copy
    prune(full, 1, 1)
    words = ["--columns", "entropy", "--out", tmp_path / "made"]
    err = refused(3, "logprob", full / "steps" / "000004" / "rollouts", *words)
    assert "the checkpoint of step 3 was removed by --keep 1; there are those of steps 4, 5" in err
    err = refused(3, "logprob", full / "steps" / "000005" / "rollouts", *words)
    assert "the checkpoint of step 4 was removed by --keep 1, only its weights are kept" in err
    assert f"name `{update_of(full, 4)}`" in err
    checked = rlvr("check", update_of(full, 4), "--json")
    assert json.loads(checked.out)["checkpoint"] == "weights alone"


def test_a_step_that_wrote_no_checkpoint_says_why(tmp_path):
    out = tmp_path / "run"
    words = [*SMALL, "--steps=3", "--save-every=2", "--out", str(out)]
    assert app.run(["train", "--algo=grpo", *words]) == 0
    with pytest.raises(DataError, match=r"step 1 wrote no checkpoint \(--save-every 2\); there "
                       "are those of steps 2, 3"):  # fmt: skip
        policy.resolve(str(update_of(out, 1)))
    for step in (2, 3):
        shutil.rmtree(update_of(out, step))
    with pytest.raises(DataError, match="has no checkpoint"):
        policy.resolve(str(out))


def test_an_update_made_by_hand_whose_checkpoint_is_gone_is_made_again(rlvr, copy):
    assert rlvr("train-step", copy / "advantages").code == 0
    shutil.rmtree(copy / "update" / "_checkpoint")
    with pytest.raises(DataError, match="there is no checkpoint in") as said:
        policy.resolve(str(copy / "update"))
    assert "run the `rlvr train-step` that made it again" in said.value.hint
    assert rlvr("train-step", copy / "advantages").code == 0
    assert policy.resolve(str(copy / "update")).path.exists()


def test_every_file_of_a_run_has_the_mode_of_the_users_umask(made):
    probe = Path(made / "probe")
    probe.touch()
    files = [path for path in made.rglob("*") if path.is_file()]
    assert len(files) > 100
    assert {path.stat().st_mode for path in files} == {probe.stat().st_mode}


def test_the_checkpoint_before_stays_until_the_newest_is_on_disk(tmp_path, monkeypatch):
    run, sync, held = tmp_path / "run", os.fsync, {}

    def slow(descriptor):
        """A disk that takes the weights of a step once the step after it was begun."""
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.name == "model.safetensors":
            step, deadline = int(path.parents[2].name), time.monotonic() + 120
            while step < 5 and not (run / f"steps/{step + 1:06d}/rollouts").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            held[step] = [n for n in range(1, 6) if (update_of(run, n) / "_checkpoint").exists()]
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    words = ["train", "--algo=grpo", *SMALL, "--save-every=1", "--keep=1", "--out", str(run)]
    assert app.run(words) == 0
    assert all({step - 1, step} <= {0, *there} for step, there in held.items())
    assert sorted(held) == [1, 2, 3, 4, 5]
    assert list(left(run)) == [5]
