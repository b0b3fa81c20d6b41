"""Every name of another trainer leads to an option that exists, and every spec builds."""

import shlex

import pytest

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.cli import app
from rlvr_cli.errors import UsageError
from rlvr_cli.specs import foreign


def flags_of(command: str) -> set[str]:
    return {flag for param in app._load(command).params for flag in param.opts}


FLAGS = {name: flags_of(name) for name in ("train", "rollout", "score", "logprob", "prompts")}
EVERY = set().union(*FLAGS.values())


@pytest.mark.parametrize("name", sorted({*foreign.OPTIONS, *foreign._SPECS}))
def test_a_name_of_another_trainer_leads_to_an_option_that_exists(name):
    hints = foreign.flags(f"--{name.replace('_', '-')}", EVERY)
    assert hints
    for hint in hints:
        flag, *values = shlex.split(hint)
        assert flag in EVERY
        for value in values:
            if flag == "--algo":
                objective.canonical(value)
            else:
                folders = {"--engine": "rollout", "--trainer": "training", "--track": "trackers"}
                registry.canonical(folders[flag], value)


@pytest.mark.parametrize("name", sorted(foreign.OPTIONS))
def test_no_option_of_a_run_is_taken_for_another(name):
    assert f"--{name.replace('_', '-')}" not in FLAGS["train"]


@pytest.mark.parametrize("name", sorted(foreign.PARTS["objectives"]))
def test_a_loss_of_another_trainer_leads_to_objectives_that_build(name):
    assert name.replace("_", "-") not in registry.names("objectives")
    with pytest.raises(UsageError) as error:
        objective.build(name)
    for spec in foreign.PARTS["objectives"][name]:
        assert f"`{spec}`" in str(error.value.hint)
        objective.build(spec)


@pytest.mark.parametrize("name", sorted(foreign.PARTS["modifiers"]))
def test_a_correction_of_another_trainer_leads_to_modifiers_that_build(name):
    assert name.replace("_", "-") not in registry.names("modifiers")
    for spec in foreign.PARTS["modifiers"][name]:
        objective.build(f"grpo+{spec}")
    with pytest.raises(UsageError) as error:
        objective.build(f"grpo+{name}")
    assert f"`{foreign.PARTS['modifiers'][name][0]}`" in str(error.value.hint)


def test_every_option_of_a_part_elsewhere_is_one_of_some_part_here():
    folders = ("objectives", "modifiers")
    ours = {o for f in folders for name in registry.names(f) for o in registry.options(f, name)}
    assert {key for near in foreign._IN_SPECS.values() for key in near} <= ours


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("grpo:epsilon=0.2", "`clip_low` or `clip_high`"),
        ("gmpo:epsilon=0.2", "`clip`"),
        ("cfpo:epsilon=0.2", "`width`"),
        ("cispo:epsilon_high=5", "`cap`"),
        ("grpo:clip_ratio_high=0.28", "`clip_high`"),
        ("dapo:clip_ratio_c=10", "`dual_clip`"),
        ("grpo+dual-clip:delta=10", "`c`"),
        ("grpo+kl:kl_loss_coef=0.001", "`beta`"),
        ("grpo+kl:kl_loss_type=k2", "`estimator`"),
        ("grpo:loss_agg_mode=token-mean", "`aggregation`"),
        ("fipo:decay_rate=32", "`half_life`"),
        ("grpo:esp=0.1", "`eps`"),
    ],
)
def test_an_option_of_a_loss_elsewhere_is_answered_with_the_one_here(spec, hint):
    with pytest.raises(UsageError) as error:
        objective.build(spec)
    assert f"did you mean {hint}?" in str(error.value.hint)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train --lr 1e-6", "`--learning-rate`"),
        ("train --learning_rate 1e-6", "`--learning-rate`"),
        ("train --beta 0.04", "`--algo grpo+kl:beta=0.001`"),
        ("train --kl-coef 0.001", "`--algo grpo+kl:beta=0.001`"),
        ("train --group-size 8", "`--num-generations`"),
        ("train -G 8", "`--num-generations`"),
        ("train --n 8", "`--num-generations`"),
        ("rollout --num-samples 8", "`--num-generations`"),
        ("rollout --max-tokens 8", "`--max-new-tokens`"),
        ("train --max-completion-length 8", "`--max-new-tokens`"),
        ("train --data.max_response_length 8", "`--max-new-tokens`"),
        ("train --per_device_train_batch_size 8", "`--prompts-per-step`"),
        ("train --num_train_epochs 1", "`--steps`"),
        ("train --output_dir x", "`--out`"),
        ("train -o x", "`--out`"),
        ("train --model-name-or-path x", "`--model`"),
        ("train --dataset x", "`--prompts`"),
        ("score --reward-funcs x", "`--verifier`"),
        ("train --use-vllm", "`--engine vllm`"),
        ("train --bf16", "`--trainer local:precision=bfloat16`"),
        ("rollout --max-new-tokns 8", "`--max-new-tokens`"),
        ("rollout --frobnicate", "see `rlvr rollout --help`"),
    ],
)
def test_an_option_of_another_trainer_is_answered_with_the_one_here(refused, words, hint):
    err = refused(2, *words.split())
    assert hint in err and f"has no option `{words.split()[1]}`" in err
