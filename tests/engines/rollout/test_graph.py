"""Sampling over a static cache, on the built-in policy and on small models of other kinds."""

import dataclasses
import json

import pytest
import torch
from scipy import stats
from transformers import Gemma2Config, LlamaConfig, MistralConfig, Qwen2Config

from rlvr_cli import config, registry
from rlvr_cli.engines.rollout import _batch
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.engines.rollout.transformers import TransformersEngine
from rlvr_cli.engines.training import local
from rlvr_cli.errors import UsageError
from rlvr_cli.models import lm_head, policy, stops
from rlvr_cli.protocols import Request, Row, SamplingParams

PROMPTS = ["2=", "47=", "113=", "9*9-1", "8="]
SIZES = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 256,
}  # fmt: skip


@pytest.fixture(scope="module")
def engine(loaded):
    return GraphEngine(loaded, rows=8)


@pytest.fixture(scope="module")
def noise_1(loaded):
    return GraphEngine(loaded, rows=8, noise=1)


def requests_of(loaded, seeds=range(100, 130)):
    """Requests whose prompts are of unlike lengths, one of a single token among them."""
    prompts = [loaded.tokenizer(text)["input_ids"] for text in PROMPTS]
    prompts.append(prompts[0][:1])
    assert len(set(map(len, prompts))) > 3
    return [Request(prompts[i % len(prompts)], seed) for i, seed in enumerate(seeds)]


def sample(engine, requests, sampling, **options):
    """The completions in the order of their requests."""
    by_index = dict(engine.generate(requests, sampling, **options))
    return [by_index[index] for index in range(len(requests))]


def assert_same(made, expected, tolerance=1e-5):
    assert [c.token_ids for c in made] == [c.token_ids for c in expected]
    assert [c.finish_reason for c in made] == [c.finish_reason for c in expected]
    for one, other in zip(made, expected, strict=True):
        assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=tolerance)


@pytest.mark.parametrize(
    "sampling",
    [
        SamplingParams(12),
        SamplingParams(12, temperature=1.5),
        SamplingParams(12, temperature=0.0),
        SamplingParams(12, temperature=1.5, top_p=0.7),
        SamplingParams(12, temperature=1.5, top_k=3),
    ],
)
def test_with_noise_1_it_samples_what_transformers_own_generate_samples(loaded, noise_1, sampling):
    requests = requests_of(loaded)
    assert_same(
        sample(noise_1, requests, sampling),
        sample(TransformersEngine(loaded), requests, sampling),
        1e-4,
    )


def test_its_log_probs_are_the_trainers_within_a_ten_thousandth_of_a_nat(loaded, engine):
    requests = requests_of(loaded)
    completions = sample(engine, requests, SamplingParams(12, temperature=0.8))
    rows = [
        Row(r.prompt_token_ids, c.token_ids) for r, c in zip(requests, completions, strict=True)
    ]
    logps = local.LocalEngine(loaded, config.UpdateOptions()).logp(rows, 0.8)
    for completion, logp_T in zip(completions, logps, strict=True):
        assert completion.behaviour_logp == pytest.approx(logp_T, abs=1e-4)


@pytest.mark.slow
def test_a_completion_is_the_same_to_the_bit_in_any_row_and_with_any_batch_mates(loaded, engine):
    sampling = SamplingParams(12, temperature=1.5)
    same = [Request(loaded.tokenizer("47=")["input_ids"], seed) for seed in range(24)]
    together = sample(engine, same, sampling)
    assert sample(engine, same[::-1], sampling)[::-1] == together
    others = requests_of(loaded, range(500, 508))
    mixed = sample(engine, [*others, *same[5:9]], sampling)[len(others) :]
    assert_same(mixed, together[5:9])
    assert_same([sample(engine, [one], sampling)[0] for one in same[:3]], together[:3])


@pytest.mark.slow
def test_more_requests_than_rows_are_taken_up_as_rows_end(loaded, engine):
    requests = requests_of(loaded, range(30))
    few, sampling = GraphEngine(loaded, rows=3), SamplingParams(12)
    assert_same(sample(few, requests, sampling), sample(engine, requests, sampling))
    order = [index for index, _ in few.generate(requests, sampling)]
    assert sorted(order) == list(range(30)) and order != sorted(order)


def test_each_request_may_have_a_limit_of_its_own(loaded):
    never = GraphEngine(dataclasses.replace(loaded, eos_ids=(98,)), rows=4)
    limits = [1 + 7 * i % 11 for i in range(12)]
    completions = sample(never, requests_of(loaded, range(12)), SamplingParams(20), limits=limits)
    assert [len(c.token_ids) for c in completions] == limits
    assert {c.finish_reason for c in completions} == {"length"}


def test_every_end_of_sequence_id_stops_and_is_the_last_token(loaded):
    digits = loaded.tokenizer("13579")["input_ids"]
    ends = (loaded.eos_ids[0], *digits)
    engine = GraphEngine(dataclasses.replace(loaded, eos_ids=ends), rows=16)
    completions = sample(engine, requests_of(loaded, range(60)), SamplingParams(8, temperature=1.5))
    assert len({c.token_ids[-1] for c in completions if c.finish_reason == "stop"}) > 2
    for completion in completions:
        assert len(completion.token_ids) == len(completion.behaviour_logp)
        ending = [token in ends for token in completion.token_ids]
        assert not any(ending[:-1])
        assert ending[-1] == (completion.finish_reason == "stop")


def test_a_stop_at_the_last_token_of_the_budget_is_a_stop(loaded, engine):
    request = requests_of(loaded)[:1]
    length = len(sample(engine, request, SamplingParams(30, temperature=0.0))[0].token_ids)
    completions = sample(engine, request, SamplingParams(length, temperature=0.0))[0]
    assert (len(completions.token_ids), completions.finish_reason) == (length, "stop")


def test_it_samples_from_what_the_trainer_holds_and_leaves_it_as_it_is(loaded):
    own = policy.load(policy.resolve("builtin"))
    engine, requests = GraphEngine(own, rows=8, noise=1), requests_of(loaded)
    attention = own.model.config._attn_implementation
    before = sample(engine, requests, SamplingParams(12))
    assert own.model.config._attn_implementation == attention
    with torch.no_grad():
        own.model.get_output_embeddings().weight.mul_(0.5)
    after = sample(engine, requests, SamplingParams(12))
    assert [c.token_ids for c in after] != [c.token_ids for c in before]
    assert_same(after, sample(TransformersEngine(own), requests, SamplingParams(12)), 1e-4)


KINDS = {
    "grouped queries": LlamaConfig(**SIZES, num_key_value_heads=2),
    "heads as wide as asked": Qwen2Config(**SIZES, num_key_value_heads=1, head_dim=24),
    "a window": MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=7),
    "windows in turn, capped": Gemma2Config(
        **SIZES, num_key_value_heads=2, head_dim=16, sliding_window=9, query_pre_attn_scalar=8,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_other_kinds_give_the_log_probs_of_their_own_forward_pass(loaded, kind):
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(KINDS[kind]).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    model.set_attn_implementation("eager")  # sdpa leaves the cap of scores out
    other = dataclasses.replace(loaded, model=model, eos_ids=(98,))
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(98, (n,), generator=generator).tolist() for n in (1, 5, 70, 20, 90)]
    requests = [Request(prompt, seed) for seed, prompt in enumerate(prompts)]
    completions = sample(GraphEngine(other, rows=2), requests, SamplingParams(30))
    for request, completion in zip(requests, completions, strict=True):
        token_ids = torch.tensor([[*request.prompt_token_ids, *completion.token_ids]])
        with torch.no_grad():
            logp_SV = model(token_ids).logits[0].log_softmax(-1)
        first = len(request.prompt_token_ids) - 1
        logp_T = logp_SV[first:-1].gather(-1, token_ids[0, first + 1 :, None])[:, 0]
        assert completion.behaviour_logp == pytest.approx(logp_T.tolist(), abs=1e-4)


def test_layers_without_keys_and_values_of_all_tokens_are_refused(loaded, monkeypatch):
    monkeypatch.setattr(loaded.model.config, "layer_types", ["linear_attention"], raising=False)
    with pytest.raises(UsageError, match="linear_attention"):
        sample(GraphEngine(loaded), requests_of(loaded), SamplingParams(2))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1, 2])
def test_tokens_are_as_frequent_as_the_policy_says(loaded, noise):
    prompt, count = loaded.tokenizer("47=")["input_ids"], 20_000
    requests = [Request(prompt, seed) for seed in range(count)]
    completions = sample(
        GraphEngine(loaded, rows=1024, noise=noise), requests, SamplingParams(1, temperature=1.5)
    )
    with torch.no_grad():
        logits_V = loaded.model(torch.tensor([prompt])).logits[0, -1]
    expected_V = torch.softmax(logits_V.double() / 1.5, -1) * count
    counts_V = torch.bincount(torch.tensor([c.token_ids[0] for c in completions]), minlength=99)
    often = expected_V >= 5
    counts = [*counts_V[often].tolist(), int(counts_V[~often].sum())]
    expected = [*expected_V[often].tolist(), float(expected_V[~often].sum())]
    assert len(counts) > 5
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_wide_logits_of_halves_are_those_of_float32(loaded):
    torch.manual_seed(0)
    head = lm_head.OutputHead(torch.randn(9, 4).bfloat16(), torch.randn(9).bfloat16(), 2.0, 3.0)
    hidden = torch.randn(5, 4).bfloat16()
    wide = lm_head.OutputHead(head.weight_VH.float(), head.bias_V.float(), 2.0, 3.0)
    torch.testing.assert_close(head.wide_logits(hidden), wide.logits(hidden.float()))


def test_no_requests_have_no_completions(engine):
    assert sample(engine, [], SamplingParams(4)) == []


def test_the_folder_builds_it_for_a_policy(loaded):
    result = registry.build("rollout", "graph:rows=2")(policy.resolve("builtin"))
    requests = requests_of(loaded)[:3]
    sampling = SamplingParams(4)
    assert_same(sample(result, requests, sampling), sample(GraphEngine(loaded), requests, sampling))


def test_on_a_gpu_no_fewer_rows_are_decoded_than_least_rows_however_few_requests_there_are(loaded):
    """Another batch has other roundings there: a resumed run asks for less than it did before."""
    engine = GraphEngine(loaded, rows=16, least_rows=16)
    assert engine._batch(requests_of(loaded)[:2], SamplingParams(4), 4).rows == 2
    engine.supports_continuous_batching = True  # as on a GPU
    assert engine._batch(requests_of(loaded)[:2], SamplingParams(4), 4).rows == 16


def test_a_number_of_rows_below_one_is_refused():
    with pytest.raises(UsageError, match="rows must be 1"):
        registry.build("rollout", "graph:rows=0")


@pytest.mark.slow
def test_the_command_goes_on_where_it_stopped_to_the_same_bytes(rlvr, chain, tmp_path, files_of):
    words = ["--engine", "graph:rows=4", "-n4", "--max-new-tokens=8", "--prompts-per-part=2"]
    for name in ("whole", "cut"):
        ran = rlvr("rollout", chain / "prompts", "--out", tmp_path / name, *words)
        assert ran.code == 0, ran.err
    for lost in ("_manifest.json", "part-00001.parquet"):
        (tmp_path / "cut" / lost).unlink()
    ran = rlvr("rollout", chain / "prompts", "--out", tmp_path / "cut", *words)
    assert ran.code == 0, ran.err
    assert files_of(tmp_path / "cut") == files_of(tmp_path / "whole")


def test_a_run_samples_from_the_weights_that_it_trains(rlvr, tmp_path):
    words = ["--steps=2", "--prompts-per-step=3", "-n4", "--max-new-tokens=8", "--eval-every=0"]
    words += ["--learning-rate=1e-2", "--engine=graph", "--out", tmp_path / "run"]
    ran = rlvr("train", "--algo", "nsr", *words)
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert [line["sampler_gap"] < 1e-4 for line in lines[1:]] == [True, True]
    weights = [policy.resolve(str(tmp_path / f"run/steps/00000{n}/update")).digest for n in (1, 2)]
    assert weights[0] != weights[1]


def test_a_completion_ends_at_a_stop_string_and_is_the_beginning_of_the_one_without(loaded, engine):
    requests, text = requests_of(loaded), loaded.tokenizer.decode
    whole = sample(engine, requests, SamplingParams(16, temperature=1.5))
    stop = stops.StopStrings(loaded.tokenizer, ("+", "*2", "-1"))
    stopped = sample(engine, requests, SamplingParams(16, temperature=1.5, stop=("+", "*2", "-1")))
    assert_same(stopped, [stop.cut(completion) for completion in whole])
    ended = [c for c in stopped if text(c.token_ids).endswith(("+", "*2", "-1"))]
    assert len(ended) > 3 and {c.finish_reason for c in ended} == {"stop"}
    assert any(len(a.token_ids) < len(b.token_ids) for a, b in zip(stopped, whole, strict=True))


@pytest.mark.parametrize("pace", [_batch.Pace(4, 1, 1), _batch.Pace(3, 0, 128)])
def test_a_stop_string_ends_a_row_that_has_gone_on_meanwhile_as_on_a_gpu(
    loaded, engine, pace, monkeypatch
):
    requests = requests_of(loaded)
    sampling = SamplingParams(16, temperature=1.5, stop=("+", "*2", "-1"))
    expected = sample(engine, requests, sampling)
    monkeypatch.setitem(_batch.PACE, "cpu", pace)
    assert_same(sample(engine, requests, sampling), expected)


RANDOM = [
    SamplingParams(8, temperature=1.5),
    SamplingParams(8, temperature=1.5, top_p=0.7),
    SamplingParams(8, temperature=1.5, top_k=3),
]


@pytest.mark.parametrize("sampling", RANDOM)
def test_a_completion_depends_on_its_prompt_and_seed_alone(loaded, engine, noise_1, sampling):
    requests = requests_of(loaded, range(12))
    together = sample(engine, requests, sampling)
    assert_same(sample(GraphEngine(loaded, rows=3), requests, sampling), together)
    assert_same(sample(engine, requests[4:6], sampling), together[4:6])
    assert [c.token_ids for c in together] != [
        c.token_ids for c in sample(noise_1, requests, sampling)
    ]


def test_the_likeliest_tokens_are_the_same_with_either_noise(loaded, engine, noise_1):
    requests, greedy = requests_of(loaded, range(12)), SamplingParams(8, temperature=0.0)
    assert sample(engine, requests, greedy) == sample(noise_1, requests, greedy)


@pytest.mark.slow
def test_a_directory_keeps_the_noise_that_it_was_begun_with(
    rlvr, refused, chain, tmp_path, files_of
):
    words = ["rollout", chain / "prompts", "-n4", "--max-new-tokens=8", "--prompts-per-part=2"]
    folders = {noise: tmp_path / f"noise-{noise}" for noise in (1, 2)}
    for noise, folder in folders.items():
        spec, other = f"graph:rows=4,noise={noise}", f"graph:noise={3 - noise}"
        whole = tmp_path / f"whole-{noise}"
        assert rlvr(*words, "--out", whole, "--engine", spec).code == 0
        assert rlvr(*words, "--out", folder, "--engine", spec, "--shard", "1/2").code == 0
        err = refused(2, *words, "--out", folder, "--engine", other)
        assert f"noise={noise}" in err and f"noise={3 - noise}" in err
        assert rlvr(*words, "--out", folder, "--engine", "graph").code == 0
        assert files_of(folder) == files_of(whole)
    assert files_of(folders[1]) != files_of(folders[2])


def test_a_noise_that_there_is_not_is_refused():
    with pytest.raises(UsageError, match="noise must be 1 or 2"):
        registry.build("rollout", "graph:noise=3")
