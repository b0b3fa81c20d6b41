import tomllib
from dataclasses import fields

import pytest

from rlvr_cli import config
from rlvr_cli.config import RunConfig


@pytest.fixture
def toml(tmp_path):
    """Writes a configuration file; its path."""

    def write(text: str):
        (tmp_path / "run.toml").write_text(text)
        return tmp_path / "run.toml"

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trian]\nsteps = 1\n", ["unknown table `trian`", "did you mean `train`?"]),
        ("[train]\nstep = 1\n", ["unknown key of [train] `step`", "did you mean `steps`?"]),
        ("[train]\ntemperature = 1\n", ["key of [train] `temperature`", "belongs in [rollout]"]),
        ("[rollout]\nsteps = 1\n", ["unknown key of [rollout] `steps`", "belongs in [train]"]),
        ("steps = 1\n", ["unknown table `steps`", "`steps` belongs in [train]"]),
        ("zzz = 1\n", ["unknown table `zzz`", "train, rollout, train-step"]),
        ("[train]\nzzz = 1\n", ["unknown key of [train] `zzz`", "there are algo, model"]),
        ("[train]\nlearning_rate = 1.0\n", ["`learning_rate` belongs in [train-step]"]),
        ("[train]\nlearning-rate = 1.0\n", ["`learning_rate`? it belongs in [train-step]"]),
        ("[train-step]\nlearning-rate = 1.0\n", ["did you mean `learning_rate`?"]),
        ("[train-step]\nlr = 1.0\n", ["did you mean `learning_rate`?"]),
        ("[train]\nbeta = 0.1\n", ["did you mean `--algo grpo+kl:beta=0.001`?"]),
        ("[train_step]\nepochs = 1\n", ["did you mean `train-step`?"]),
        ("train = 1\n", ["`train` is 1"]),
        ("[train]\nsteps = '1'\n", ["`steps` is '1'", "steps = 100"]),
        ("[train]\nsteps = 1.5\n", ["`steps` is 1.5", "steps = 100"]),
        ("[train]\nsteps = true\n", ["`steps` is True"]),
        ("[train]\nsteps = [1]\n", ["`steps` is [1]"]),
        ("[train]\nalgo = 1\n", ["`algo` is 1"]),
        ("[rollout]\noverlong = 'cut'\n", ["`overlong` is 'cut'", "error", "skip", "truncate"]),
        ("[rollout]\ntemperature = -1\n", ["temperature is -1", "0 is the least"]),
        ("[rollout]\ntemperature = nan\n", ["temperature is nan"]),
        ("[rollout]\nnum_generations = 0\n", ["is 0", "1 is the least"]),
        ("[train\n", ["run.toml", "line 1"]),
    ],
)
def test_a_wrong_file_is_a_usage_error(refused, toml, tmp_path, text, message):
    err = refused(2, "train", "--config", toml(text), "--dry-run", "--out", tmp_path / "run")
    assert all(part in err for part in message), err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[train]\nalgo = 'gropo'\n", 2, "did you mean `grpo`?"),
        ("[rollout]\nengine = 'vlm'\n", 2, "unknown rollout engine `vlm`"),
        ("[rollout]\ntemperature = 0\n", 2, "the same completion"),
        ("[train]\nprompts = 'nope'\n", 3, "`nope` does not exist"),
        ("[train]\nmodel = 'nope'\n", 3, "no policy at `nope`"),
    ],
)
@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_name_that_leads_nowhere_is_refused(refused, toml, tmp_path, text, code, message, words):
    assert message in refused(
        code, "train", "--config", toml(text), "--out", tmp_path / "r", *words
    )
    assert not (tmp_path / "r" / "steps").exists()


def test_a_missing_file_is_named(refused):
    assert "nope.toml" in refused(2, "train", "--config", "nope.toml", "--dry-run")


def test_flags_go_before_the_file_and_the_file_before_the_defaults(rlvr, toml):
    path = toml("[train]\nsteps = 7\nseed = 3\n[train-step]\nlearning_rate = 1\n")
    ran = rlvr("train", "--config", path, "--seed", 4, "--dry-run")
    summary = tomllib.loads(ran.out)
    assert ran.code == 0
    assert (summary["train"]["steps"], summary["train"]["seed"]) == (7, 4)
    assert summary["train-step"]["learning_rate"] == 1.0
    assert summary["rollout"]["num_generations"] == 16  # of the recipe of the built-in task


def test_another_model_starts_from_the_defaults():
    assert config.load([], {"train": {"model": "a/b"}}).rollout == config.RolloutOptions()


def test_a_configuration_reads_back_as_it_was_written(toml):
    loaded_config = config.load(
        [], {"train": {"algo": 'quatro:delta=0.05+kl:on="x"', "model": "a/b"}}
    )
    assert config.load([toml(loaded_config.to_toml())], {}) == loaded_config


def test_every_knob_has_a_help_text_and_one_place():
    names = [field.name for table in fields(RunConfig) for field in fields(table.default)]
    assert len(names) == len(set(names))
    assert all(k.metadata["help"] for t in fields(RunConfig) for k in fields(t.default))
