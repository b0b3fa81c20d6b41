"""Tiny models of many architectures: each is decoded and trained right, or refused.

Truth is the model's own forward pass of each row alone, without padding and without a cache.
"""

import copy
import dataclasses

import pytest
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import RolloutOptions, UpdateOptions
from rlvr_cli.engines.rollout.graph import GraphEngine, row_bytes
from rlvr_cli.engines.rollout.transformers import TransformersEngine
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.memory_estimate import model_size, phases
from rlvr_cli.models import logprobs, packed_attention, policy
from rlvr_cli.protocols import Request, Row, SamplingParams
from rlvr_cli.runtime.device import Device

VOCABULARY = 99
ROOM = Device("cpu", 1 << 40, 1 << 40)
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 48, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 1, "max_position_embeddings": 512,
}  # fmt: skip
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
LINEAR = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2,
}  # fmt: skip
WINDOWS = {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1}
LATENT = {
    "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
    "v_head_dim": 16, "head_dim": 8, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1,
    "topk_group": 1, "first_k_dense_replace": 1,
}  # fmt: skip
RIGHT = {
    "phi3": {},
    "granite": {},
    "smollm3": {},
    "seed_oss": {},
    "olmo3": WINDOWS,
    "gpt_oss": EXPERTS | WINDOWS | {"num_local_experts": 4},
    "gemma3n_text": WINDOWS | {
        "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.0] * 4, "laurel_rank": 4,
        "intermediate_size": [48] * 4, "altup_num_inputs": 2, "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": VOCABULARY,
    },
    "gemma4_text": WINDOWS | {"hidden_size_per_layer_input": 8, "num_kv_shared_layers": 2,
                              "vocab_size_per_layer_input": VOCABULARY, "global_head_dim": 32},
    "glm4_moe": EXPERTS | {"n_routed_experts": 4, "first_k_dense_replace": 1},
    "deepseek_v3": EXPERTS | LATENT,
    "qwen3_next": EXPERTS | LINEAR | {"num_experts": 4, "shared_expert_intermediate_size": 16},
    "qwen3_5_text": LINEAR,
    "olmo_hybrid": LINEAR,
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "falcon_mamba": {"state_size": 8},
    "falcon_h1": MAMBA | {"mamba_d_ssm": 128, "mamba_chunk_size": 8, "lm_head_multiplier": 0.25},
    "granitemoehybrid": EXPERTS | MAMBA | {
        "num_local_experts": 4, "shared_intermediate_size": 16,
        "layer_types": ["mamba", "attention"] * 2,
    },
    "nemotron_h": EXPERTS | {
        "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 1,
        "layers_block_type": ["mamba", "attention", "mamba", "moe"], "n_routed_experts": 4,
        "moe_shared_expert_intermediate_size": 16, "chunk_size": 8,
    },
}  # fmt: skip
# Earlier releases of transformers pad Gemma 3n and 4 wrongly, or fail with adapted routers.
MENDED = ("gemma3n_text", "gemma4_text", "glm4_moe", "deepseek_v3")
LENGTHS = (7, 12, 3)
GENERATOR = torch.Generator().manual_seed(1)
PROMPTS, TOKENS = (
    [torch.randint(4, VOCABULARY - 5, (n,), generator=GENERATOR).tolist() for n in lengths]
    for lengths in ((1, 40, 12), LENGTHS)
)
ROWS = [Row(*both, 1.0 - i) for i, both in enumerate(zip(PROMPTS, TOKENS, strict=True))]


def save(kind, options, path):
    """Writes a random policy with the built-in one's tokenizer; its weights are wide."""
    if kind not in CONFIG_MAPPING:
        pytest.skip(f"transformers {transformers.__version__} has no {kind}")
    torch.manual_seed(0)
    made = CONFIG_MAPPING[kind]
    known = {
        *made().to_dict(),
        *made.attribute_map,
    }  # a config keeps any other name that it is given
    sizes = {name: size for name, size in SIZES.items() if name in known}
    model = AutoModelForCausalLM.from_config(made(**sizes | options)).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "A_log" not in name:
                weight.normal_(std=0.1)
    model.generation_config = transformers.GenerationConfig(eos_token_id=1, pad_token_id=0)
    model.save_pretrained(path)
    for file in policy.resolve("builtin").path.glob("*token*"):
        (path / file.name).write_bytes(file.read_bytes())
    return path


@pytest.fixture(scope="module", params=RIGHT)
def path(request, tmp_path_factory):
    return save(request.param, RIGHT[request.param], tmp_path_factory.mktemp("family") / "model")


def load(path):
    return policy.load(policy.resolve(str(path)))


@torch.no_grad()
def logps(model, prompt, tokens):
    token_ids = torch.tensor([[*prompt, *tokens]])
    logp_TV = model(token_ids, use_cache=False).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return logp_TV.gather(-1, torch.tensor(tokens)[:, None])[:, 0].tolist()


def assert_right(engine, loaded):
    requests = [Request(prompt, seed) for seed, prompt in enumerate(PROMPTS)]
    for index, completion in engine.generate(requests, SamplingParams(8)):
        expected = logps(loaded.model, PROMPTS[index], completion.token_ids)
        assert completion.behaviour_logp == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_log_probs_of_samples_and_of_stored_rows_are_those_of_a_row_alone(path):
    loaded = dataclasses.replace(load(path), eos_ids=(-1,))
    try:
        assert_right(TransformersEngine(loaded), loaded)
    except UsageError:  # an older transformers gives wrong log-probs
        if loaded.model.config.model_type not in MENDED:
            raise
    try:
        assert_right(GraphEngine(loaded, rows=2), loaded)
    except UsageError as refused:
        assert "--engine transformers" in refused.hint
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, ROWS, temperature=1.0)
    for row, logp_T, size in zip(ROWS, stats.logp_BT.tolist(), LENGTHS, strict=True):
        expected = logps(loaded.model, row.prompt_token_ids, row.token_ids)
        assert logp_T[:size] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.filterwarnings("ignore:the adapters leave the experts")
def test_what_an_update_saves_is_what_it_trained(path, rank, tmp_path):
    loaded = load(path)
    try:
        engine = LocalEngine(loaded, UpdateOptions(lora_rank=rank))
    except UsageError as refused:
        if loaded.model.config.model_type not in MENDED:
            raise
        assert "q_proj,k_proj" in refused.hint
        return
    before = [logps(engine.loaded.model, *row) for row in zip(PROMPTS, TOKENS, strict=True)]
    totals = Totals(tokens=sum(LENGTHS), sequences=len(ROWS), max_length=16)
    engine.accumulate(ROWS, objective.build("grpo"), totals, 1.0)
    engine.update(1e-2)
    engine.save(tmp_path / "made")
    again = load(tmp_path / "made").model
    for row, old in zip(zip(PROMPTS, TOKENS, strict=True), before, strict=True):
        trained = logps(engine.loaded.model, *row)
        assert logps(again, *row) == pytest.approx(trained, abs=1e-5)
        assert trained != pytest.approx(old, abs=1e-2)


def numbers_in(cache):
    """How many numbers the tensors of a cache have, whatever it is made of."""
    if isinstance(cache, torch.Tensor):
        return cache.numel()
    if hasattr(cache, "__dict__"):
        cache = vars(cache)
    parts = list(cache.values()) if isinstance(cache, dict) else cache
    return sum(map(numbers_in, parts)) if isinstance(parts, list) else 0


@torch.no_grad()
def test_the_memory_of_a_model_is_known_before_it_is_loaded(path):
    loaded = load(path)
    shape = model_size.shape_of(loaded.policy)
    assert shape.parameters == loaded.model.num_parameters()
    made = loaded.model(torch.tensor([TOKENS[2]]), use_cache=True)
    cache = numbers_in(made.get("past_key_values") or made.get("cache_params"))
    positions = 2 * shape.layers  # of a window, as a tensor
    assert 0 <= cache - LENGTHS[2] * shape.cached.per_token - shape.cached.per_row <= positions
    update = phases.training(shape, UpdateOptions(), ROOM, phases.UpdateSize(8, 64, 32))
    assert phases.rollout(shape, RolloutOptions(), ROOM, prompt=8, requests=4).total < update.total
    assert update.total > 16 * shape.parameters


UNPADDED = {  # their positions or states go through the padding
    "rwkv": {"attention_hidden_size": 64},
    "bart": {"d_model": 64, "decoder_layers": 2, "decoder_ffn_dim": 48,
             "decoder_attention_heads": 4, "is_decoder": True},
}  # fmt: skip


@pytest.mark.parametrize("kind", UNPADDED)
def test_a_model_that_ignores_padding_is_refused_and_decoded_one_by_one(kind, tmp_path):
    loaded = dataclasses.replace(load(save(kind, UNPADDED[kind], tmp_path)), eos_ids=(-1,))
    with pytest.raises(UsageError, match="are not those of its forward pass") as refused:
        assert_right(TransformersEngine(loaded), loaded)
    assert "transformers:batch_size=1" in refused.value.hint
    assert_right(TransformersEngine(loaded, 1), loaded)


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("bloom", {"n_layer": 2, "n_head": 4}, "are not those of its forward pass"),
        ("hrm_text", {}, "passes through a layer several times"),
        ("deepseek_v3", EXPERTS | LATENT, "its code fails there"),
    ],
)
def test_attention_that_a_static_cache_does_not_know_is_refused(kind, options, why, tmp_path):
    loaded = dataclasses.replace(load(save(kind, options, tmp_path)), eos_ids=(-1,))
    with pytest.raises(UsageError, match=f"the graph engine cannot .*{why}") as refused:
        assert_right(GraphEngine(loaded, rows=2), loaded)
    assert "--engine transformers" in refused.value.hint
    assert_right(TransformersEngine(loaded), loaded)


def test_adapters_that_a_model_cannot_be_run_with_are_refused(tmp_path):
    """Those of Phi-3.5-MoE's routers."""
    path = save("phimoe", {"num_local_experts": 4}, tmp_path)
    with pytest.raises(UsageError, match="all-linear: PhimoeForCausalLM cannot be run") as refused:
        LocalEngine(load(path), UpdateOptions(lora_rank=4))
    assert refused.value.hint == "name modules, as in --lora-targets q_proj,k_proj,v_proj,o_proj"
    LocalEngine(load(path), UpdateOptions(lora_rank=4, lora_targets="q_proj,k_proj,v_proj,o_proj"))


@pytest.mark.parametrize("make", [TransformersEngine, GraphEngine])
def test_prompts_may_hold_what_ends_a_completion(make, loaded):
    ends, prompts = loaded.eos_ids[0], ([9, loaded.eos_ids[0], loaded.pad_id, 8], [9])
    for prompt in (*prompts, [ends]):
        assert list(make(loaded).generate([Request(prompt, 0)], SamplingParams(2)))


@pytest.mark.parametrize("make", [TransformersEngine, GraphEngine])
def test_a_model_is_tried_once_however_many_steps_sample_from_it(make, loaded):
    model, tried = copy.deepcopy(loaded.model), []
    model.register_forward_pre_hook(
        lambda _, __, given: tried.append(given.get("use_cache") is False), with_kwargs=True
    )
    for _ in range(2):
        engine = make(dataclasses.replace(loaded, model=model))
        assert list(engine.generate([Request([9], 0)], SamplingParams(2)))
    assert sum(tried) == 2  # one forward pass of each text


def test_a_model_whose_tokens_see_later_ones_is_refused(tmp_path):
    save("bert-generation", {}, tmp_path)
    with pytest.raises(UserError, match="whose tokens see those after them"):
        load(tmp_path)


def test_a_row_takes_what_the_key_heads_of_its_layers_take(tmp_path, loaded):
    model = load(save("gemma4_text", RIGHT["gemma4_text"], tmp_path)).model
    if getattr(model.config, "per_layer_config", None) is None:
        pytest.skip("this transformers does not say what each layer has")
    sizes = [layer.head_dim for layer in model.config.per_layer_config]
    assert packed_attention.head_size(model) == max(sizes) == 32 > min(sizes)
    assert row_bytes(model, 10) == 2 * 10 * sum(sizes) * 2 * 4 + 8 * VOCABULARY
    config = loaded.model.config
    size = config.hidden_size // config.num_attention_heads
    values = 2 * 10 * config.num_hidden_layers * config.num_key_value_heads * size
    assert row_bytes(loaded.model, 10) == 4 * values + 8 * config.vocab_size
    assert packed_attention.head_size(loaded.model) == size


def test_a_model_whose_code_fails_with_its_configuration_is_refused(tmp_path):
    save("qwen3", {"num_key_value_heads": 3}, tmp_path)  # of four query heads
    with pytest.raises(DataError, match="cannot be run: Qwen3ForCausalLM fails with") as refused:
        load(tmp_path)
    assert "config.json" in refused.value.hint


def test_a_model_that_is_its_own_base_is_refused(tmp_path):
    experts = {"num_local_experts": 2, "intermediate_size_mlp": 48, "attention_chunk_size": 16}
    save("llama4_text", experts, tmp_path)
    with pytest.raises(UserError, match="computes its logits in a way that rlvr does not support"):
        load(tmp_path)
