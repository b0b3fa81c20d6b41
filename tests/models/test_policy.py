import copy
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma2Config

from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.rollout.graph import GraphEngine
from rlvr_cli.engines.rollout.transformers import TransformersEngine
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import Advice, DataError
from rlvr_cli.models import checkpoints, logprobs, policy, tokenizers
from rlvr_cli.protocols import Request, Row, SamplingParams


@pytest.fixture
def copied(tmp_path):
    folder = tmp_path / "policy"
    shutil.copytree(policy.resolve("builtin").path, folder)
    return folder


def test_a_missing_weight_is_refused_and_not_filled_at_random(copied):
    weights = load_file(copied / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="lacks 1 of the model's weights"):
        policy.load(policy.resolve(str(copied)))


def test_weights_that_are_no_numbers_are_named_for_what_they_are(copied):
    weights = load_file(copied / "model.safetensors")
    weights["model.norm.weight"][:] = float("nan")
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="NaN or infinite: its weights are damaged"):
        policy.load(policy.resolve(str(copied)))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_broken_file_is_one_clear_line(copied, name):
    (copied / name).write_bytes((copied / name).read_bytes()[:50])
    with pytest.raises(DataError, match="cannot load"):
        policy.load(policy.resolve(str(copied)))


def test_the_digest_is_of_the_weights_and_not_of_the_optimizer(copied):
    before = policy.resolve(str(copied)).digest
    assert before == policy.resolve("builtin").digest
    (copied / checkpoints.OPTIMIZER_BEFORE).write_bytes(b"earlier moments")
    assert policy.resolve(str(copied)).digest == before
    earlier = policy.resolve(str(copied)).trainer_digest
    (copied / checkpoints.OPTIMIZER).parent.mkdir()
    (copied / checkpoints.OPTIMIZER).write_bytes(b"moments")
    assert policy.resolve(str(copied)).digest == before
    assert None is not earlier != policy.resolve(str(copied)).trainer_digest is not None
    (copied / "config.json").write_bytes((copied / "config.json").read_bytes() + b" ")
    assert policy.resolve(str(copied)).digest != before


@pytest.fixture
def padded(copied):
    """The built-in policy with 29 rows behind its vocabulary, each a likely token's."""
    weights = load_file(copied / "model.safetensors")
    rows = weights["model.embed_tokens.weight"]
    weights["model.embed_tokens.weight"] = torch.cat([rows, rows[1:30]])
    save_file(weights, copied / "model.safetensors", {"format": "pt"})
    settings = json.loads((copied / "config.json").read_text()) | {"vocab_size": 128}
    (copied / "config.json").write_text(json.dumps(settings))
    return policy.load(policy.resolve(str(copied)))


def test_rows_behind_the_tokenizers_vocabulary_change_no_log_prob_and_no_sample(padded, loaded):
    rows = [Row([20, 30], [9, 8, 1]), Row([5], [12, 0])]
    wanted, actual = (
        logprobs.completion_stats(result.model, rows, temperature=1.0)
        for result in (loaded, padded)
    )
    assert torch.allclose(wanted.logp_BT, actual.logp_BT, atol=1e-5)
    assert torch.allclose(wanted.entropy_BT, actual.entropy_BT, atol=1e-5)
    requests = [Request([20, 30], seed) for seed in range(40)]
    for _, completion in TransformersEngine(padded).generate(requests, SamplingParams(12)):
        assert max(completion.token_ids) < 99


def test_a_checkpoint_of_a_padded_policy_holds_its_rows_and_nothing_new(padded, tmp_path):
    before = load_file(padded.policy.path / "model.safetensors")
    LocalEngine(padded, UpdateOptions()).save(tmp_path / "made")
    after = load_file(tmp_path / "made" / "model.safetensors")
    assert after.keys() == before.keys()
    assert after["model.embed_tokens.weight"].shape == (128, 128)
    policy.load(policy.resolve(str(tmp_path / "made")))


def test_capped_logits_of_no_token_are_refused(copied):
    """tanh(-inf) is -1: a bias cannot leave them out."""
    config = Gemma2Config(
        vocab_size=128, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, attn_logit_softcapping=None,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(copied)
    with pytest.raises(DataError, match="caps its logits, and 29 of them belong to no") as said:
        policy.load(policy.resolve(str(copied)))
    assert "resize_token_embeddings(99)" in said.value.hint


def test_attention_scores_are_capped_by_all_that_samples_trains_or_evaluates(copied):
    vocabulary = len(tokenizers.load(policy.resolve("builtin")))
    config = Gemma2Config(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=64,
        query_pre_attn_scalar=4, sliding_window=5, attn_logit_softcapping=2.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(copied)
    config.attn_logit_softcapping = None
    uncapped = AutoModelForCausalLM.from_config(config).eval()
    uncapped.load_state_dict(model.state_dict())
    with pytest.warns(Advice, match="its attention is eager") as said:
        own = policy.load(policy.resolve(str(copied)))
        policy.load(policy.resolve(str(copied)))
    assert len(said) == 1

    requests = [Request([5 + n, *range(2, 2 + n)], n) for n in range(8)]
    for engine in (TransformersEngine(own), GraphEngine(own, 4)):
        by_index = dict(engine.generate(requests, SamplingParams(12)))
        rows = [Row(r.prompt_token_ids, by_index[i].token_ids) for i, r in enumerate(requests)]
        trained = LocalEngine(own, UpdateOptions()).logp(rows, 1.0)
        for i, row in enumerate(rows):
            exact = _logp(model, row)
            assert by_index[i].behaviour_logp == pytest.approx(exact, abs=1e-5)
            assert trained[i] == pytest.approx(exact, abs=1e-5)
            assert _logp(uncapped, row) != pytest.approx(exact, abs=1e-2)


def _logp(model, row):
    model.set_attn_implementation("eager")
    token_ids = torch.tensor([[*row.prompt_token_ids, *row.token_ids]])
    with torch.no_grad():
        logp_SV = model(token_ids).logits[0].log_softmax(-1)
    first = len(row.prompt_token_ids)
    return logp_SV[first - 1 : -1].gather(-1, token_ids[0, first:, None])[:, 0].tolist()


def test_a_folder_of_models_is_answered_with_one_of_them(copied, tmp_path):
    folder = tmp_path / "models"
    shutil.copytree(copied, folder / "snapshots" / "b")
    for name in ("snapshots/b", "a"):
        with pytest.raises(DataError, match="is not a model directory") as caught:
            policy.resolve(str(folder))
        assert (
            caught.value.hint == f"name a Hugging Face model directory, such as `{folder / name}`"
        )
        shutil.copytree(copied, folder / "a", dirs_exist_ok=True)
    assert policy.resolve(str(folder / "a")).path == folder / "a"
