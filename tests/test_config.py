import tomllib
from dataclasses import fields

import pytest

from rlvr_cli import config, run_config
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


def test_a_file_that_is_missing_or_no_toml_is_named(refused, toml):
    said = refused(2, "train", "--config", "nope.toml", "--dry-run")
    assert "cannot read `nope.toml`: No such file or directory" in said
    assert "hint: `rlvr init` writes such a file" in said
    said = refused(2, "train", "--config", toml("{}"), "--dry-run")
    assert "is not TOML: " in said and "write it as `rlvr init` does" in said


def test_flags_go_before_the_file_and_the_file_before_the_defaults(rlvr, toml):
    path = toml("[train]\nsteps = 7\nseed = 3\n[train-step]\nlearning_rate = 1\n")
    ran = rlvr("train", "--config", path, "--seed", 4, "--dry-run")
    summary = tomllib.loads(ran.out)
    assert ran.code == 0
    assert (summary["train"]["steps"], summary["train"]["seed"]) == (7, 4)
    assert summary["train-step"]["learning_rate"] == 1.0
    assert summary["rollout"]["num_generations"] == 16  # of the recipe of the built-in task


def test_another_model_starts_from_the_defaults():
    assert run_config.load([], {"train": {"model": "a/b"}}).rollout == config.RolloutOptions()


def test_a_configuration_reads_back_as_it_was_written(toml):
    loaded_config = run_config.load(
        [], {"train": {"algo": 'quatro:delta=0.05+kl:on="x"', "model": "a/b"}}
    )
    assert run_config.load([toml(loaded_config.to_toml())], {}) == loaded_config


def test_every_knob_has_a_help_text_and_one_place():
    names = [field.name for table in fields(RunConfig) for field in fields(table.default)]
    assert len(names) == len(set(names))
    assert all(k.metadata["help"] for t in fields(RunConfig) for k in fields(t.default))


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({}, 1e-6),
        ({"lora_rank": 8}, 1e-5),
        ({"lora_rank": 0}, 1e-6),
        ({"lora_rank": 8, "learning_rate": 1e-6}, 1e-6),
    ],
)
def test_adapters_have_ten_times_the_learning_rate_unless_it_is_given(toml, given, rate):
    model = {"train": {"model": "a/b"}}
    assert run_config.load([], model | {"train_step": given}).train_step.learning_rate == rate
    lines = "".join(f"{name} = {value}\n" for name, value in given.items())
    path = toml(f"[train-step]\n{lines}")
    assert run_config.load([path], model).train_step.learning_rate == rate


def test_adapters_that_were_begun_keep_their_learning_rate():
    stored = {"train_step": {"lora_rank": 8, "learning_rate": 1e-6}}
    loaded = run_config.load([], {"train_step": {"lora_rank": 8}}, stored=stored)
    assert loaded.train_step.learning_rate == 1e-6


def test_a_recipe_of_full_weights_gives_adapters_its_own_rate():
    given = {"train": {"model": "builtin"}, "train_step": {"lora_rank": 8}}
    assert run_config.load([], given, "quatro").train_step.learning_rate == 1e-6


def test_what_a_dry_run_prints_is_a_file_for_the_same_run(rlvr, tmp_path):
    words = ("--algo", "quatro+kl:beta=0.01", "--lora-rank", 4, "-n", 4, "--seed", 3)
    first = rlvr("train", *words, "--out", tmp_path / "run", "--dry-run")
    (tmp_path / "run.toml").write_text(first.out)
    again = rlvr("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run", "--dry-run")
    assert (first.code, again.code) == (0, 0)
    assert again.out == first.out and tomllib.loads(first.out)["rollout"]["num_generations"] == 4
    assert f"this run would be in `{tmp_path / 'run'}`" in first.err


def test_a_new_run_says_first_that_it_trains_what_is_built_in(rlvr, refused, tmp_path):
    ran = rlvr("train", "--out", tmp_path / "run", "--dry-run")
    what = "the built-in tiny policy on the built-in task `expression`"
    assert ran.err.startswith(
        f"train: `{tmp_path / 'run'}` is a new run of {what}; for others, use "
    )
    said = refused(2, "train", "--out", tmp_path / "run", "--dry-run", "--json")
    assert "--dry-run prints a TOML file, and --json was given" in said


def test_help_of_a_run_has_its_options_in_groups(rlvr):
    out = rlvr("train", "--help").out
    groups = [name for name in config.GROUPS[1:] if name != config.READING]
    places = [out.index(f"─ {name} ─") for name in ("Options", *groups)]
    assert places == sorted(places)
    essentials = out[places[0] : places[1]]
    assert all(name in essentials for name in ("--model", "--prompts", "--steps", "--out"))
    assert essentials.count("│ --") <= 20 and "--adam-eps" not in essentials
    assert "60 in the built-in run" in " ".join(out.replace("│", " ").split())


def test_every_option_has_a_group():
    for table in fields(RunConfig):
        for option in fields(table.default):
            assert config.group(type(table.default), option) in config.GROUPS
