"""Images in vLLM on the CPU, of tiny random policies."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli import registry
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import images, logprobs, policy as policies
from rlvr_cli.protocols import Request, Row, SamplingParams

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]

HOT = SamplingParams(8, temperature=0.7)


@pytest.fixture(scope="module", autouse=True)
def _loads():
    pytest.importorskip("vllm", exc_type=ImportError)


def prompt(own, text, *shown):
    """The token ids of a question after images."""
    content = [{"type": "image"} for _ in shown] + [{"type": "text", "text": text}]
    rendered = own.tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    if not shown:
        return own.tokenizer(rendered, add_special_tokens=False)["input_ids"]
    return images.expanded(own.processor, rendered, shown)


def requests_of(own, vision):
    red, blue = vision.picture((255, 0, 0)), vision.picture((0, 0, 255), size=(64, 48))
    shown = [(red,), (blue, red), (), (red, red)]
    return [
        Request(prompt(own, "24=", *images_), 10 * i + seed, images=images_)
        for i, images_ in enumerate(shown)
        for seed in range(2)
    ]


def sample(engine, requests, sampling=HOT):
    by_index = dict(engine.generate(requests, sampling))
    return [by_index[index] for index in range(len(requests))]


def largest_gap(own, requests, completions, temperature=0.7):
    rows = [Row(r.prompt_token_ids, c.token_ids, images=r.images)
            for r, c in zip(requests, completions, strict=True)]  # fmt: skip
    with torch.no_grad():
        logp_BT = logprobs.completion_stats(own.model, rows, temperature=temperature).logp_BT
    logps = logprobs.unpad(logp_BT, rows)
    return max(
        abs(c.behaviour_logp - logp).max() for c, logp in zip(completions, logps, strict=True)
    )


def loaded(vision, kind):
    return policies.load(policies.resolve(str(vision.policy(kind))))


def changed(own, step):
    """Another policy's weights in memory, those that read images included."""
    with torch.no_grad():
        for parameter in own.model.parameters():
            parameter.add_(torch.randn_like(parameter) * step)


@pytest.fixture(scope="module")
def own(vision):
    """A policy in memory whose weights these tests change."""
    return loaded(vision, "qwen2_vl")


@pytest.fixture(scope="module")
def trainer(own):
    return LocalEngine(own, UpdateOptions())


@pytest.fixture(scope="module")
def engine(own):
    return registry.build("rollout", "vllm:max_length=256")(own.policy, own)


@pytest.fixture
def ready(engine, trainer, own):
    engine.sync_weights(trainer, own.policy)
    return engine


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl", "smolvlm"])
def test_the_log_probs_of_each_kind_are_the_trainers(vision, kind):
    own = loaded(vision, kind)
    engine = registry.build("rollout", "vllm:max_length=256")(own.policy, own)
    engine.sync_weights(LocalEngine(own, UpdateOptions()), own.policy)
    requests = requests_of(own, vision)
    assert largest_gap(own, requests, sample(engine, requests)) < 1e-4


def test_a_policy_alone_samples_with_the_log_probs_of_its_files(vision):
    own = loaded(vision, "qwen2_vl")
    engine = registry.build("rollout", "vllm:max_length=256")(own.policy)
    requests = requests_of(own, vision)
    assert largest_gap(own, requests, sample(engine, requests)) < 1e-4


def test_new_weights_of_images_and_text_are_those_that_are_sampled_from(
    ready, trainer, own, vision
):
    """vLLM keeps what it made of an image, which was of the weights before."""
    requests = requests_of(own, vision)
    sample(ready, requests)
    changed(own, 0.02)
    stale = sample(ready, requests)
    assert largest_gap(own, requests, stale) > 1e-2
    ready.sync_weights(trainer, own.policy)
    assert largest_gap(own, requests, sample(ready, requests)) < 1e-4


def test_a_seed_decides_its_sample_and_images_decide_it_too(ready, own, vision):
    red, blue = vision.picture((255, 0, 0)), vision.picture((0, 0, 255))
    token_ids = prompt(own, "47=", red)
    assert token_ids == prompt(own, "47=", blue)
    requests = [Request(token_ids, seed, images=(data,)) for data in (red, blue)
                for seed in range(6)]  # fmt: skip
    first, again = sample(ready, requests), sample(ready, requests[::-1])[::-1]
    assert [c.token_ids for c in first] == [c.token_ids for c in again]
    assert [c.token_ids for c in first[:6]] != [c.token_ids for c in first[6:]]


def test_placeholders_of_images_are_never_sampled(ready, own, vision):
    requests = [Request(prompt(own, "1"), seed) for seed in range(30)]
    drawn = {i for c in sample(ready, requests, SamplingParams(64, 2.0)) for i in c.token_ids}
    assert len(drawn) > 50 and not drawn & images.placeholder_ids(own.processor)


def test_a_prompt_with_other_tokens_than_its_images_make_is_refused(ready, own, vision):
    small, large = vision.picture((255, 0, 0)), vision.picture((255, 0, 0), size=(64, 64))
    more = Request(prompt(own, "47=", large), 0, images=(small,))
    with pytest.raises(DataError, match="a prompt has 12 image tokens more than vLLM makes"):
        sample(ready, [more])
    fewer = Request(prompt(own, "47=", small), 0, images=(large,))
    with pytest.raises(DataError, match=r"a prompt with 1 images as .* tokens"):
        sample(ready, [fewer])
    request = Request(prompt(own, "47=", small), 0, images=(small,))
    assert largest_gap(own, [request], sample(ready, [request])) < 1e-4


def test_images_whose_tokens_see_each_other_are_refused_on_a_cpu(vision, tmp_path):
    """vLLM for CPUs lets each see the earlier ones alone; text is sampled as ever."""
    shutil.copytree(vision.policy("gemma3"), tmp_path / "policy")
    file = tmp_path / "policy/model.safetensors"
    weights = {  # as the hub's checkpoints name them
        name.replace("vision_tower.", "vision_tower.vision_model."): value
        for name, value in load_file(file).items()
    }
    save_file(weights, file, {"format": "pt"})
    own = policies.load(policies.resolve(str(tmp_path / "policy")))
    engine = registry.build("rollout", "vllm:max_length=256")(own.policy, own)
    engine.sync_weights(LocalEngine(own, UpdateOptions()), own.policy)
    text = [Request(prompt(own, "24="), 0)]
    assert largest_gap(own, text, sample(engine, text)) < 1e-4
    data = vision.picture((255, 0, 0))
    with pytest.raises(UsageError, match="each attends only to the earlier ones") as error:
        sample(engine, [Request(prompt(own, "24=", data), 0, images=(data,))])
    assert "--engine transformers" in error.value.hint


@pytest.mark.parametrize("train_vision", [False, True])
def test_adapters_are_sampled_from_those_of_the_vision_tower_included(
    vision, tmp_path, train_vision
):
    own = loaded(vision, "qwen2_vl")
    trainer = LocalEngine(own, UpdateOptions(lora_rank=4, train_vision=train_vision))
    sampler = registry.build("rollout", "vllm:max_length=256")(own.policy, own, 4)
    with torch.no_grad():
        for name, parameter in own.model.named_parameters():
            if "lora_" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    trainer.save(tmp_path / "adapters")
    sampler.sync_weights(trainer, policies.resolve(str(tmp_path / "adapters")))
    requests = requests_of(own, vision)
    assert largest_gap(own, requests, sample(sampler, requests)) < 1e-4
    if not train_vision:
        return
    alone = registry.build("rollout", "vllm:max_length=256")(
        policies.resolve(str(tmp_path / "adapters"))
    )
    assert largest_gap(own, requests, sample(alone, requests)) < 1e-4
