"""The numbers that `init` chooses fit the model's context, the data and the memory."""

import dataclasses

import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.init import choosing, facts
from rlvr_cli.init.choosing import Machine
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.runtime.device import Device

CPU = Machine(Device("cpu", 64 << 30, 64 << 30))


def gpu(gib: float, **more: int) -> Machine:
    size = int(gib * 2**30)
    return Machine(Device("cuda", size, size, "a GPU"), **more)


@pytest.fixture(scope="module")
def model():
    return facts.of_model("builtin")


def data(longest: int, *, rows: int = 100) -> facts.DataFacts:
    return facts.DataFacts(rows, "", True, 3, longest, (3, 3, longest), None, "")


def chosen(model, machine, longest=8, rows=80, evaluates=True):
    return choosing.choose(model, data(longest), machine, rows=rows, evaluates=evaluates)


def test_completions_fit_into_what_the_longest_prompt_leaves_of_the_context(model):
    config, why = chosen(model, CPU, longest=400)
    assert config.rollout.max_new_tokens == 512 - 400
    assert "the context of 512 leaves" in why["rollout"]["max_new_tokens"].why


def test_a_few_prompts_that_leave_no_room_are_skipped_and_the_file_says_so(model):
    config, why = chosen(model, CPU, longest=600)
    assert config.rollout.overlong == "skip" and config.rollout.max_new_tokens == 256
    assert "600 tokens" in why["rollout"]["overlong"].why


def test_prompts_of_which_many_leave_no_room_are_refused(model):
    long = dataclasses.replace(data(600), lengths=(600,) * 5)
    with pytest.raises(UsageError, match="600 tokens, and the context of `builtin` is 512"):
        choosing.choose(model, long, CPU, rows=80, evaluates=True)


@pytest.mark.parametrize("rows", [1, 5, 31, 33, 100_000])
def test_a_step_takes_no_more_prompts_than_there_are(model, rows):
    config, _ = chosen(model, CPU, rows=rows)
    assert config.train.prompts_per_step <= rows
    assert 20 <= config.train.steps <= 200


def test_without_prompts_to_evaluate_on_nothing_is_evaluated(model):
    assert chosen(model, CPU, evaluates=False)[0].train.eval_every == 0


def test_processes_get_a_part_of_each_step_and_a_trainer_that_shares_the_work(model):
    config, _ = chosen(model, gpu(80, nodes=2, per_node=4), rows=80)
    parts = -(-config.train.prompts_per_step // config.rollout.prompts_per_part)
    assert parts >= 8 and config.train_step.trainer == "deepspeed:zero=2"
    with pytest.raises(UsageError, match="8 processes to share them"):
        chosen(model, gpu(80, nodes=2, per_node=4), rows=7)


@pytest.mark.parametrize("free", [0.02, 0.05, 0.2, 1, 80])
def test_what_is_chosen_fits_into_the_memory_by_the_estimate(model, free):
    machine = gpu(free)
    config, _ = chosen(model, machine)
    needs = phases.run(
        shape_of(model.policy, config.train_step), config, machine.device, prompt=8, reference=True
    )
    assert all(need.total <= machine.device.free for need in needs)


def test_less_memory_takes_smaller_micro_batches_with_the_reason(model):
    config, why = chosen(model, gpu(0.2))
    choice = why["train_step"]["micro_batch_tokens"]
    assert config.train_step.micro_batch_tokens == choice.value < 16384
    assert choice.why.startswith("training would take ")


def test_memory_that_nothing_fits_into_is_refused(model):
    with pytest.raises(UsageError, match="even if only adapters are trained"):
        chosen(model, gpu(0.001))
