"""Fewer rows are decoded as they end: what is sampled stays what it was."""

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from rlvr_cli import registry
from rlvr_cli.engines.rollout import _batch
from rlvr_cli.engines.rollout._batch import Pace
from rlvr_cli.engines.rollout._decoder import Decoder
from rlvr_cli.engines.rollout._step import DecodingStep
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Request, SamplingParams

PACES = {
    "a poll at each step": Pace(1, 0, 1),
    "polled as on a GPU": Pace(3, 1, 1),
}
LIMITS = {
    "unlike": [1 + 7 * i % 23 for i in range(16)],
    "of one token and a long one": [1] * 15 + [40],
    "all at once": [9] * 16,
    "half at once": [4] * 8 + [25] * 8,
    "the last rows longest": list(range(1, 33, 2)),
}


@pytest.fixture(params=PACES)
def pace(request, monkeypatch):
    monkeypatch.setitem(_batch.PACE, "cpu", PACES[request.param])
    return PACES[request.param]


@pytest.fixture
def decoded(monkeypatch):
    """How many rows each run of steps had."""
    actual, run = [], DecodingStep.run

    def watched(self, rows, steps):
        actual.append(rows)
        run(self, rows, steps)

    monkeypatch.setattr(DecodingStep, "run", watched)
    return actual


def tiny(loaded, seed, layers=2):
    config = Qwen2Config(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return dataclasses.replace(loaded, model=model, eos_ids=(98,))


@pytest.fixture(scope="module")
def policy(loaded):
    """A random policy whose completions end by chance, one token in a hundred."""
    return tiny(loaded, 0)


@pytest.fixture(scope="module")
def endless(policy):
    """The same, and completions are as long as their limits."""
    return dataclasses.replace(policy, eos_ids=(-1,))


@pytest.fixture(scope="module")
def memory(loaded):
    return tiny(loaded, 1, layers=1)


def requests_of(loaded, count):
    prompts = [loaded.tokenizer(text)["input_ids"] for text in ("2=", "47=", "113=", "9*9-1")]
    prompts.append(prompts[0][:1])
    return [Request(prompts[seed % len(prompts)], seed) for seed in range(count)]


def sample(engine, requests, sampling, limits=None):
    by_index = dict(engine.generate(requests, sampling, limits))
    return [by_index[index] for index in range(len(requests))]


def assert_same(made, expected):
    for one, other in zip(made, expected, strict=True):
        assert (one.token_ids, one.finish_reason) == (other.token_ids, other.finish_reason)
        assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=1e-5)
        assert (one.policy_logp is None) == (other.policy_logp is None)
        assert (one.policy_logp or []) == pytest.approx(other.policy_logp or [], abs=1e-5)


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_it_samples_what_it_samples_with_all_rows(endless, memory, decoded, pace, name, mu):
    requests, limits = requests_of(endless, 16), LIMITS[name]
    sampling = SamplingParams(max(limits), 1.5, mu=mu)
    completions = sample(
        GraphEngine(endless, 16, least_rows=1, memory_model=memory), requests, sampling, limits
    )
    fewer, decoded[:] = list(decoded), []
    expected = sample(
        GraphEngine(endless, 16, least_rows=16, memory_model=memory), requests, sampling, limits
    )
    assert_same(completions, expected)
    assert [len(c.token_ids) for c in completions] == limits
    assert set(decoded) == {16} and fewer == sorted(fewer, reverse=True)
    assert (fewer[-1] < 16) == (name != "all at once")


@pytest.mark.slow
def test_rows_are_refilled_first_and_become_fewer_when_nothing_waits(endless, decoded, pace):
    requests = requests_of(endless, 40)
    limits = [1 + 5 * i % 19 for i in range(39)] + [60]
    sampling = SamplingParams(60, 1.5)
    completions = sample(GraphEngine(endless, 12, least_rows=2), requests, sampling, limits)
    assert [count for count, _ in _runs(decoded)] == [12, 6, 3, 2]
    assert_same(
        completions, sample(GraphEngine(endless, 64, least_rows=64), requests, sampling, limits)
    )


def _runs(values):
    """Each value and how often it stands there in a row."""
    runs = []
    for value in values:
        if not runs or runs[-1][0] != value:
            runs.append([value, 0])
        runs[-1][1] += 1
    return runs


def test_rows_that_end_by_themselves_become_fewer_too(policy, decoded, pace):
    some = dataclasses.replace(policy, eos_ids=(98, *range(7)))
    requests, sampling = requests_of(some, 32), SamplingParams(24, 1.5)
    completions = sample(GraphEngine(some, 32, least_rows=1), requests, sampling)
    assert {c.finish_reason for c in completions} == {"stop", "length"}
    assert len(set(decoded)) > 2
    assert_same(completions, sample(GraphEngine(some, 32, least_rows=32), requests, sampling))


def test_as_many_rows_as_are_asked_for_stay(endless, decoded, pace):
    sampling, limits = SamplingParams(30), [1 + i for i in range(30)]
    sample(GraphEngine(endless, 32, least_rows=8), requests_of(endless, 30), sampling, limits)
    assert [count for count, _ in _runs(decoded)] == [32, 16, 8]


@pytest.mark.parametrize(
    "longest, runs", [(40, [[8, 2], [4, 13], [1, 25]]), (30, [[8, 2], [4, 28]])]
)
def test_rows_stay_where_too_few_tokens_are_left_to_pay_for_a_capture(
    endless, decoded, monkeypatch, longest, runs
):
    monkeypatch.setitem(_batch.PACE, "cpu", Pace(1, 0, 20))
    sampling, limits = SamplingParams(40), [2] * 4 + [15] * 2 + [longest]
    sample(GraphEngine(endless, 8, least_rows=1), requests_of(endless, 7), sampling, limits)
    assert _runs(decoded) == runs


def test_the_same_requests_have_the_same_bits_again(policy, pace):
    requests, sampling = requests_of(policy, 24), SamplingParams(20, 1.5)
    engine = GraphEngine(policy, 16, least_rows=1)
    assert sample(engine, requests, sampling) == sample(engine, requests, sampling)


def test_a_row_that_moves_takes_the_places_that_it_has_filled_and_no_others(policy):
    decoder = Decoder(policy.model, rows=6, length=10)
    layers = range(policy.model.config.num_hidden_layers)
    before = []
    for layer in layers:
        for cache in decoder.layer(layer):
            before.append(cache.normal_().clone())
    decoder.move(torch.tensor([5, 3]), torch.tensor([0, 2]), 7)
    for old in before:
        old[[0, 2], :, :7] = old[[5, 3], :, :7]
    after = [cache for layer in layers for cache in decoder.layer(layer)]
    assert all(torch.equal(one, other) for one, other in zip(after, before, strict=True))


def test_no_place_that_is_read_is_left_behind(endless, pace, monkeypatch):
    """All that is not copied is damaged when rows move."""
    requests, limits = requests_of(endless, 16), LIMITS["the last rows longest"]
    sampling, move = SamplingParams(40, 1.5), Decoder.move
    expected = sample(GraphEngine(endless, 16, least_rows=16), requests, sampling, limits)

    def poisoned(self, source_R, row_R, places):
        move(self, source_R, row_R, places)
        for caches in self._cache.values():
            for cache in caches:
                cache[source_R] = 1e30
                cache[row_R, :, places:] = 1e30

    monkeypatch.setattr(Decoder, "move", poisoned)
    assert_same(
        sample(GraphEngine(endless, 16, least_rows=1), requests, sampling, limits), expected
    )


def test_fewer_rows_than_one_are_refused():
    with pytest.raises(UsageError, match="least_rows must be 1"):
        registry.build("rollout", "graph:least_rows=0")
