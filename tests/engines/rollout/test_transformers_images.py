"""Sampling completions of prompts with images, and the log-probs that the trainer gives them."""

import numpy as np
import pytest
import torch

from rlvr_cli.engines.rollout.transformers import TransformersEngine
from rlvr_cli.models import images, logprobs, policy as policies
from rlvr_cli.protocols import Request, Row, SamplingParams

KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "gemma3", "smolvlm", "idefics3",
         "llava", "llava_next", "llava_onevision", "internvl")  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def loaded(request, vision):
    return policies.load(policies.resolve(str(vision.policy(request.param))))


@pytest.fixture(scope="module")
def requests(loaded, vision):
    """Prompts with one image, with two of other sizes, and with none."""
    red, blue = vision.picture((255, 0, 0)), vision.picture((0, 0, 255), size=(48, 32))
    asked = [("What is this?", (red,)), ("Which of these?", (blue, red)), ("1 + 2", ())]
    return [
        Request(_prompt(loaded, text, own), seed, images=own)
        for seed, (text, own) in enumerate(asked * 2)
    ]


def _prompt(loaded, text, own):
    content = [{"type": "image"} for _ in own] + [{"type": "text", "text": text}]
    rendered = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    if own:
        return images.expanded(loaded.processor, rendered, own)
    return loaded.tokenizer(rendered, add_special_tokens=False)["input_ids"]


def _sampled(loaded, requests, **options):
    engine = TransformersEngine(loaded, **options)
    return [done for _, done in sorted(engine.generate(requests, SamplingParams(12)))]


def test_logps_are_those_of_the_trainer(loaded, requests):
    completions = _sampled(loaded, requests)
    rows = [
        Row(request.prompt_token_ids, done.token_ids, images=request.images)
        for request, done in zip(requests, completions, strict=True)
    ]
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, rows, temperature=1.0)
    for logp_T, done in zip(logprobs.unpad(stats.logp_BT, rows), completions, strict=True):
        np.testing.assert_allclose(logp_T, done.behaviour_logp, atol=2e-5)


def test_a_completion_does_not_depend_on_its_batch(loaded, requests):
    assert [done.token_ids for done in _sampled(loaded, requests)] == [
        done.token_ids for done in _sampled(loaded, requests, batch_size=1)
    ]
