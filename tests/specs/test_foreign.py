"""Every name of another trainer leads to an option that exists, and every spec builds."""

import shlex

import pytest

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.cli import app
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
