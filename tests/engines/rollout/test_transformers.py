"""Sampling with transformers, on the built-in policy."""

import dataclasses

import pytest
import torch
from scipy import stats

from rlvr_cli import registry
from rlvr_cli.engines.rollout.transformers import GumbelSampler, TransformersEngine
from rlvr_cli.kernels.reference import gumbel
from rlvr_cli.models import logprobs, policy, stops
from rlvr_cli.protocols import Request, Row, SamplingParams

PROMPTS = ["2=", "47=", "113=", "9*9-1", "8="]


@pytest.fixture(scope="module")
def engine(loaded):
    return TransformersEngine(loaded)


def requests_of(loaded, seeds=range(100, 112)):
    """Requests whose prompts are of unlike lengths."""
    prompts = [loaded.tokenizer(text)["input_ids"] for text in PROMPTS]
    assert len(set(map(len, prompts))) > 2
    return [Request(prompts[i % len(prompts)], seed) for i, seed in enumerate(seeds)]


def sample(engine, requests, sampling):
    """The completions in the order of their requests."""
    by_index = dict(engine.generate(requests, sampling))
    return [by_index[index] for index in range(len(requests))]


def assert_same(made, expected):
    assert [c.token_ids for c in made] == [c.token_ids for c in expected]
    assert [c.finish_reason for c in made] == [c.finish_reason for c in expected]
    for one, other in zip(made, expected, strict=True):
        assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=1e-4)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_the_behaviour_log_probs_are_the_policys_at_the_temperature(loaded, engine, temperature):
    requests = requests_of(loaded)
    completions = sample(engine, requests, SamplingParams(10, temperature=temperature))
    rows = [
        Row(r.prompt_token_ids, c.token_ids) for r, c in zip(requests, completions, strict=True)
    ]
    with torch.no_grad():
        logp_BT = logprobs.completion_stats(loaded.model, rows, temperature=temperature).logp_BT
    for completion, logps in zip(completions, logprobs.unpad(logp_BT, rows), strict=True):
        assert completion.behaviour_logp == pytest.approx(logps, abs=1e-4)


def test_a_rows_sample_does_not_depend_on_its_batch_mates_or_the_batch_size(loaded, engine):
    requests, sampling = requests_of(loaded), SamplingParams(10)
    together = sample(engine, requests, sampling)
    alone = [sample(engine, [request], sampling)[0] for request in requests]
    assert_same(alone, together)
    assert_same(sample(engine, requests[::-1], sampling)[::-1], together)
    assert_same(sample(TransformersEngine(loaded, batch_size=5), requests, sampling), together)


def test_a_shorter_budget_gives_the_start_of_the_same_sample(loaded, engine):
    requests = requests_of(loaded)
    long = sample(engine, requests, SamplingParams(10))
    short = sample(engine, requests, SamplingParams(3))
    assert [c.token_ids for c in short] == [c.token_ids[:3] for c in long]


def test_seeds_decide_the_sample(loaded, engine):
    prompt = loaded.tokenizer("47=")["input_ids"]
    hot = SamplingParams(8, temperature=2.0)
    completions = sample(engine, [Request(prompt, seed) for seed in range(30)], hot)
    again = sample(engine, [Request(prompt, seed) for seed in range(30)], hot)
    assert completions == again
    assert len({tuple(c.token_ids) for c in completions}) > 15


def test_a_temperature_of_zero_takes_the_likeliest_token_whatever_the_seed(loaded, engine):
    greedy = SamplingParams(6, temperature=0.0)
    for text in PROMPTS:
        prompt = loaded.tokenizer(text)["input_ids"]
        one, other = sample(engine, [Request(prompt, 1), Request(prompt, 2)], greedy)
        assert one.token_ids == other.token_ids
        tokens = list(prompt)
        for token, logp in zip(one.token_ids, one.behaviour_logp, strict=True):
            with torch.no_grad():
                logp_V = loaded.model(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
            assert float(logp_V.max()) == pytest.approx(logp, abs=1e-4)
            assert float(logp_V[token]) == pytest.approx(logp, abs=1e-4)
            tokens.append(token)


def first_tokens(loaded, engine, sampling, count, text="47="):
    """First sampled tokens with their log-probs, and the policy's distribution over them."""
    prompt = loaded.tokenizer(text)["input_ids"]
    completions = sample(engine, [Request(prompt, seed) for seed in range(count)], sampling)
    with torch.no_grad():
        logits_V = loaded.model(torch.tensor([prompt])).logits[0, -1]
    prob_V = torch.softmax(logits_V.double() / sampling.temperature, -1)
    drawn = torch.tensor([c.token_ids[0] for c in completions])
    return drawn, torch.tensor([c.behaviour_logp[0] for c in completions]).double(), prob_V


def test_tokens_are_as_frequent_as_the_policy_says(loaded, engine):
    sampling = SamplingParams(1, temperature=1.5)
    drawn, logp, prob_V = first_tokens(loaded, engine, sampling, 3000)
    torch.testing.assert_close(logp.exp(), prob_V[drawn], rtol=1e-3, atol=1e-6)
    counts_V = torch.bincount(drawn, minlength=len(prob_V)).double()
    often = prob_V * 3000 >= 5
    counts = torch.cat([counts_V[often], counts_V[~often].sum()[None]])
    expected = torch.cat([prob_V[often], prob_V[~often].sum()[None]]) * 3000
    assert len(counts) > 3
    assert stats.chisquare(counts.numpy(), expected.numpy()).pvalue > 1e-3


def test_top_k_draws_from_the_likeliest_alone_and_renormalises(loaded, engine):
    drawn, logp, prob_V = first_tokens(loaded, engine, SamplingParams(1, 1.5, top_k=3), 300)
    kept = prob_V.topk(3).indices
    assert set(drawn.tolist()) == set(kept.tolist())
    torch.testing.assert_close(logp.exp(), prob_V[drawn] / prob_V[kept].sum(), rtol=1e-4, atol=0)


def test_top_k_of_one_is_certain_of_the_likeliest(loaded, engine):
    drawn, logp, prob_V = first_tokens(loaded, engine, SamplingParams(1, 1.5, top_k=1), 20)
    assert set(drawn.tolist()) == {int(prob_V.argmax())}
    assert logp.tolist() == [0] * 20


def test_top_p_draws_from_the_nucleus_alone_and_renormalises(loaded, engine):
    drawn, logp, prob_V = first_tokens(loaded, engine, SamplingParams(1, 1.5, top_p=0.6), 400)
    ordered, order = prob_V.sort(descending=True)
    size = int((ordered.cumsum(0) < 0.6).sum()) + 1
    nucleus = order[:size]
    assert 1 < size < len(prob_V)
    assert set(drawn.tolist()) == set(nucleus.tolist())
    torch.testing.assert_close(logp.exp(), prob_V[drawn] / prob_V[nucleus].sum(), rtol=1e-4, atol=0)


def sampled(probabilities, sampling, count=64):
    """What a sampler draws from hand-made probabilities, and the log-probs it keeps."""
    scores_BV = torch.tensor([probabilities]).log().expand(count, -1)
    sampler = GumbelSampler(torch.arange(count), sampling)
    sampler(None, scores_BV)
    return dict(zip(sampler.token[0].tolist(), sampler.logp[0].exp().tolist(), strict=True))


def test_the_nucleus_is_the_fewest_tokens_that_reach_top_p():
    probabilities = [0.1, 0.4, 0.2, 0.3]
    for top_p, kept in [
        (0.39, {1: 1.0}),
        (0.41, {1: 4 / 7, 3: 3 / 7}),
        (0.69, {1: 4 / 7, 3: 3 / 7}),
        (0.71, {1: 4 / 9, 3: 3 / 9, 2: 2 / 9}),
        (1.0, {1: 0.4, 3: 0.3, 2: 0.2, 0: 0.1}),
    ]:
        assert sampled(probabilities, SamplingParams(1, top_p=top_p)) == pytest.approx(kept)


def test_top_p_follows_top_k():
    # Of the two likeliest, 4/7 and 3/7, the first alone reaches a half.
    probabilities = sampled([0.1, 0.4, 0.2, 0.3], SamplingParams(1, top_p=0.5, top_k=2))
    assert probabilities == pytest.approx({1: 1.0})


def test_a_top_k_beyond_the_vocabulary_keeps_all():
    probabilities = sampled([0.1, 0.4, 0.2, 0.3], SamplingParams(1, top_k=50))
    assert probabilities == pytest.approx({0: 0.1, 1: 0.4, 2: 0.2, 3: 0.3})


def test_a_sample_is_the_argmax_of_the_log_probs_plus_the_rows_noise():
    prob = torch.tensor([0.1, 0.4, 0.2, 0.3])
    sampler = GumbelSampler(torch.arange(50), SamplingParams(1))
    for position in range(3):
        sampler(None, prob.log().expand(50, 4))
        expected = (prob.log() + gumbel(torch.arange(50), position, 4)).argmax(-1)
        assert sampler.token[position].tolist() == expected.tolist()


def test_every_end_of_sequence_id_stops_and_is_the_last_token(loaded):
    digits = loaded.tokenizer("13579")["input_ids"]
    ends = (loaded.eos_ids[0], *digits)
    engine = TransformersEngine(dataclasses.replace(loaded, eos_ids=ends))
    completions = sample(engine, requests_of(loaded, range(60)), SamplingParams(8, temperature=1.5))
    stopped = [c for c in completions if c.finish_reason == "stop"]
    assert len({c.token_ids[-1] for c in stopped}) > 2
    for completion in completions:
        assert len(completion.token_ids) == len(completion.behaviour_logp)
        ending = [token in ends for token in completion.token_ids]
        assert not any(ending[:-1])
        assert ending[-1] == (completion.finish_reason == "stop")


def test_a_completion_that_does_not_stop_is_cut_at_its_budget(loaded):
    never = TransformersEngine(dataclasses.replace(loaded, eos_ids=(98,)))
    completions = sample(never, requests_of(loaded), SamplingParams(3, temperature=0.0))
    assert {(len(c.token_ids), c.finish_reason) for c in completions} == {(3, "length")}


def test_a_stop_at_the_last_token_of_the_budget_is_a_stop(loaded, engine):
    request = requests_of(loaded)[:1]
    length = len(sample(engine, request, SamplingParams(30, temperature=0.0))[0].token_ids)
    completions = sample(engine, request, SamplingParams(length, temperature=0.0))[0]
    assert (len(completions.token_ids), completions.finish_reason) == (length, "stop")


def test_a_pad_id_within_a_prompt_is_a_token_like_any_other(loaded, engine):
    prompts = [[loaded.pad_id, 30, loaded.pad_id, 31], [30] * 9]
    requests = [Request(prompt, 4) for prompt in prompts]
    completions = sample(engine, requests, SamplingParams(6, temperature=1.5))
    for request, completion in zip(requests, completions, strict=True):
        row = Row(request.prompt_token_ids, completion.token_ids)
        with torch.no_grad():
            logp_BT = logprobs.completion_stats(loaded.model, [row], temperature=1.5).logp_BT
        assert completion.behaviour_logp == pytest.approx(logp_BT[0].tolist(), abs=1e-4)


def test_no_requests_have_no_completions(engine):
    assert sample(engine, [], SamplingParams(4)) == []


def test_the_folder_builds_it_for_a_policy(loaded):
    result = registry.build("rollout", "transformers:batch_size=2")(policy.resolve("builtin"))
    requests = requests_of(loaded)[:3]
    assert_same(
        sample(result, requests, SamplingParams(4)),
        sample(TransformersEngine(loaded), requests, SamplingParams(4)),
    )


def test_a_completion_ends_at_a_stop_string_and_is_the_beginning_of_the_one_without(loaded, engine):
    requests, text = requests_of(loaded), loaded.tokenizer.decode
    whole = sample(engine, requests, SamplingParams(16, temperature=1.5))
    stop = stops.StopStrings(loaded.tokenizer, ("+", "*2", "-1"))
    stopped = sample(engine, requests, SamplingParams(16, temperature=1.5, stop=("+", "*2", "-1")))
    assert_same(stopped, [stop.cut(completion) for completion in whole])
    ended = [c for c in stopped if text(c.token_ids).endswith(("+", "*2", "-1"))]
    assert len(ended) > 3 and {c.finish_reason for c in ended} == {"stop"}
    assert any(len(a.token_ids) < len(b.token_ids) for a, b in zip(stopped, whole, strict=True))
