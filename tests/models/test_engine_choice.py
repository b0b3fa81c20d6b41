"""The engine that `auto` is, by the configuration of a model and the kind of the device."""

import pytest
from transformers import (
    BloomConfig,
    Gemma2Config,
    Gemma3Config,
    LlamaConfig,
    MambaConfig,
    Qwen2Config,
    Qwen2VLConfig,
    Qwen3Config,
    Qwen3MoeConfig,
    Qwen3NextConfig,
)

from rlvr_cli.models import engine_choice, policy
from rlvr_cli.runtime import device

DENSE = (LlamaConfig, Qwen2Config, Qwen3Config, Gemma2Config)


@pytest.mark.parametrize("kind_of_model", DENSE)
def test_a_dense_decoder_is_sampled_as_a_graph_on_a_gpu(kind_of_model):
    assert engine_choice.choose(kind_of_model(), "cuda") == ("graph", "")


@pytest.mark.parametrize("kind_of_model", [*DENSE, MambaConfig, BloomConfig])
def test_on_a_cpu_it_is_transformers_without_a_word(kind_of_model):
    assert engine_choice.choose(kind_of_model(), "cpu") == ("transformers", "")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (MambaConfig(), "layers are of kind linear_attention"),
        (Qwen3NextConfig(), "layers are of kind linear_attention"),
        (BloomConfig(), "attention cannot be replaced"),
        (Qwen3MoeConfig(), "experts"),
        (LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0}), "kind dynamic"),
    ],
)
def test_a_model_that_cannot_be_captured_has_transformers_and_the_reason(config, why):
    engine, said = engine_choice.choose(config, "cuda")
    assert engine == "transformers" and why in said


def test_weights_that_the_trainer_divides_are_not_sampled_from_as_a_graph():
    engine, why = engine_choice.choose(LlamaConfig(), "cuda", divides=True)
    assert engine == "transformers" and "--trainer" in why


@pytest.mark.parametrize(
    ("config", "vllm", "engine", "why"),
    [
        (Qwen2VLConfig(), "0.26", "vllm", "prompts have images"),
        (Qwen2VLConfig(), "", "transformers", "prompts have images, and vLLM is not installed"),
        (Qwen2VLConfig(), "0.32+cpu", "transformers", "vLLM 0.32+cpu computes on the CPU"),
        (Gemma3Config(), "0.26", "transformers", "gemma3 was not compared in vLLM"),
    ],
)
def test_images_are_sampled_with_vllm_on_a_gpu_if_it_runs_and_was_compared(
    config, vllm, engine, why
):
    chosen, said = engine_choice.for_images(config, vllm)
    assert chosen == engine and why in said


def test_an_engine_that_is_named_stays():
    builtin = policy.resolve("builtin")
    assert engine_choice.resolve("vllm:eager=true", builtin) == ("vllm:eager=true", "")


def test_the_builtin_policy_has_the_engine_of_this_machine():
    expected = {"cpu": "transformers", "cuda": "graph"}[device.kind()]
    assert engine_choice.resolve("auto", policy.resolve("builtin")) == (expected, "")
