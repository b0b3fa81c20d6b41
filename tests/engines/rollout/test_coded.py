"""Keys and values as int8: what is sampled is near what it was, and depends on nothing new."""

import dataclasses

import pytest
import torch
from transformers import AutoModelForCausalLM, Gemma2Config, Qwen2Config

from rlvr_cli import config, registry
from rlvr_cli.engines.rollout import _batch
from rlvr_cli.engines.rollout._decoder import Decoder
from rlvr_cli.engines.rollout.graph import GraphEngine, row_bytes
from rlvr_cli.engines.training import local
from rlvr_cli.errors import UsageError
from rlvr_cli.kernels.coded import CodedCache
from rlvr_cli.protocols import Request, Row, SamplingParams

SIZES = {
    "vocab_size": 99, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
KINDS = {
    "grouped queries": Qwen2Config(**SIZES),
    "heads of 24, one for all": Qwen2Config(**SIZES | {"num_key_value_heads": 1}, head_dim=24),
    "windows in turn, capped": Gemma2Config(
        **SIZES, head_dim=16, sliding_window=9, query_pre_attn_scalar=8,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
    ),
}  # fmt: skip
LENGTHS = (1, 5, 2, 40, 9, 20, 1, 3)
REQUESTS = [Request([(7 * i + j) % 98 for j in range(n)], i) for i, n in enumerate(LENGTHS)]
LIMITS = [3, 14, 1, 9, 20, 2, 17, 5]


@pytest.fixture(scope="module")
def models(loaded):
    """Of each kind, with some keys that are far from 0 at all positions."""
    made = {}
    for kind, shape in KINDS.items():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(shape).eval()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(torch.randn_like(weight) * 0.1)
            for name, bias in model.named_parameters():
                if name.endswith("k_proj.bias"):
                    bias[-1] += 30.0
        model.set_attn_implementation("eager")  # sdpa leaves the cap of scores out
        made[kind] = dataclasses.replace(loaded, model=model, eos_ids=(-1,))
    return made


def sample(engine, chosen=range(8), temperature=1.5):
    requests, limits = zip(*[(REQUESTS[i], LIMITS[i]) for i in chosen], strict=True)
    made = dict(engine.generate(list(requests), SamplingParams(20, temperature), list(limits)))
    return [made[i] for i in range(len(requests))]


def gaps(own, completions, temperature=1.5):
    """Of the sampler's log-probs to the trainer's."""
    rows = [
        Row(r.prompt_token_ids, c.token_ids) for r, c in zip(REQUESTS, completions, strict=True)
    ]
    logps = local.LocalEngine(own, config.UpdateOptions()).logp(rows, temperature)
    return torch.cat(
        [
            torch.tensor(c.behaviour_logp) - torch.tensor(list(logp))
            for c, logp in zip(completions, logps, strict=True)
        ]
    ).abs()


@pytest.mark.parametrize("kind", KINDS)
def test_its_log_probs_are_near_the_trainers_and_not_the_same(models, kind):
    own = models[kind]
    gap = gaps(own, sample(GraphEngine(own, 8, cache="int8")))
    assert 1e-5 < float(gap.mean()) < 0.02 and float(gap.max()) < 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_a_completion_depends_neither_on_its_row_nor_on_the_rows_beside_it(
    models, kind, monkeypatch
):
    own = models[kind]
    together = sample(GraphEngine(own, 8, least_rows=8, cache="int8"))
    monkeypatch.setitem(_batch.PACE, "cpu", _batch.Pace(3, 1, 1))  # as on a GPU
    ways = [sample(GraphEngine(own, rows, least_rows=1, cache="int8")) for rows in (2, 3, 8)]
    for made in ways:
        for one, other in zip(made, together, strict=True):
            assert one.token_ids == other.token_ids
            assert one.behaviour_logp == pytest.approx(other.behaviour_logp, abs=1e-5)


def test_a_row_without_a_prompt_has_nothing_of_the_one_before(models):
    """A prompt of one token fills no position before it is decoded."""
    own = models["grouped queries"]
    alone = sample(GraphEngine(own, 1, cache="int8"), [6])
    assert sample(GraphEngine(own, 1, cache="int8"), [3, 6])[1:] == alone


def test_with_deterministic_its_bits_do_not_depend_on_them_either(models):
    own = models["grouped queries"]
    together, *ways = (
        sample(GraphEngine(own, rows, least_rows=1, deterministic=True, cache="int8"))
        for rows in (8, 3)
    )
    assert ways == [together]


def test_no_place_that_is_read_is_left_behind(models, monkeypatch):
    """All that is not copied is damaged when rows move."""
    own, move = models["grouped queries"], Decoder.move
    expected = sample(GraphEngine(own, 8, least_rows=8, cache="int8"))

    def poisoned(self, source_R, row_R, places):
        move(self, source_R, row_R, places)
        for cache in self._cache.values():
            cache.scales_BKL2[source_R] = 1e30
            cache.shift_BKD[source_R] = 1e30
            cache.scales_BKL2[row_R, :, places:] = 1e30

    monkeypatch.setattr(Decoder, "move", poisoned)
    made = sample(GraphEngine(own, 8, least_rows=1, cache="int8"))
    assert [c.token_ids for c in made] == [c.token_ids for c in expected]


def test_a_memory_model_has_such_a_cache_too(models):
    own = models["grouped queries"]
    engine = GraphEngine(own, 8, cache="int8", memory_model=models["heads of 24, one for all"])
    decoders = engine._batch(REQUESTS, SamplingParams(4, mu=0.5), 4)._decoders
    assert [type(decoder.layer(0)) for decoder in decoders] == [CodedCache] * 2


def test_a_row_takes_half_of_the_memory_and_its_scales(models):
    model = models["grouped queries"].model
    plain, coded = (row_bytes(model, 100, coded=flag) for flag in (False, True))
    assert plain - coded == 2 * 2 * 2 * 100 * (4 * 8 - (8 + 4))


def test_it_is_an_option_of_the_engine_and_off_unless_it_is_asked_for(loaded):
    assert registry.parse("rollout", "graph")[1]["cache"] == "model"
    engine = registry.build("rollout", "graph:rows=4,cache=int8")(loaded.policy, loaded)
    assert engine.coded
    with pytest.raises(UsageError, match="cache"):
        registry.build("rollout", "graph:cache=fp8")


def test_doctor_says_how_far_sampler_and_trainer_are_apart(rlvr):
    ran = rlvr("doctor", "--model", "builtin", "--engine", "graph:cache=int8")
    (line,) = [line for line in ran.out.splitlines() if " log-probs " in line]
    assert "nats per token" in line and not line.startswith("problem")


@pytest.mark.slow
def test_a_directory_that_was_begun_with_it_goes_on_with_it(
    rlvr, refused, chain, tmp_path, files_of
):
    words = ["rollout", chain / "prompts", "-n2", "--max-new-tokens=4", "--prompts-per-part=2"]
    spec, cut, whole = "graph:rows=4,cache=int8", tmp_path / "cut", tmp_path / "whole"
    assert rlvr(*words, "--out", whole, "--engine", spec).code == 0
    assert rlvr(*words, "--out", cut, "--engine", spec, "--shard", "1/2").code == 0
    err = refused(2, *words, "--out", cut, "--engine", "graph:rows=4,cache=model")
    assert "cache=int8" in err and "cache=model" in err
    assert rlvr(*words, "--out", cut, "--engine", "graph").code == 0
    assert files_of(cut) == files_of(whole)
