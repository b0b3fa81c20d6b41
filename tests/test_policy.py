import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli import forward, policy
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.protocols import Request, Row, SamplingParams
from rlvr_cli.rollout.transformers import Engine as Sampler
from rlvr_cli.training.local import Engine as Trainer


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
    with pytest.raises(DataError, match="no numbers: its weights are damaged"):
        policy.load(policy.resolve(str(copied)))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_broken_file_is_one_clear_line(copied, name):
    (copied / name).write_bytes((copied / name).read_bytes()[:50])
    with pytest.raises(DataError, match="cannot load"):
        policy.load(policy.resolve(str(copied)))


def test_the_digest_is_of_the_weights_and_not_of_the_optimizer(copied):
    before = policy.resolve(str(copied)).digest
    assert before == policy.resolve("builtin").digest
    (copied / policy.TRAINER_STATE).write_bytes(b"moments")
    assert policy.resolve(str(copied)).digest == before
    (copied / "config.json").write_bytes((copied / "config.json").read_bytes() + b" ")
    assert policy.resolve(str(copied)).digest != before


def test_messages_go_through_the_chat_template_and_text_does_not(loaded):
    assert (
        policy.encode_prompt(loaded.tokenizer, "a", '"57="') == loaded.tokenizer("57=")["input_ids"]
    )
    with pytest.raises(DataError, match="prompt `a` is a list of messages"):
        policy.encode_prompt(loaded.tokenizer, "a", '[{"role": "user", "content": "57="}]')


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
    wanted, found = (
        forward.completion_stats(made.model, rows, temperature=1.0) for made in (loaded, padded)
    )
    assert torch.allclose(wanted.logp_BT, found.logp_BT, atol=1e-5)
    assert torch.allclose(wanted.entropy_BT, found.entropy_BT, atol=1e-5)
    requests = [Request([20, 30], seed) for seed in range(40)]
    for _, completion in Sampler(padded).generate(requests, SamplingParams(12)):
        assert max(completion.token_ids) < 99


def test_a_checkpoint_of_a_padded_policy_holds_its_rows_and_nothing_new(padded, tmp_path):
    before = load_file(padded.policy.path / "model.safetensors")
    Trainer(padded, UpdateOptions()).save(tmp_path / "made")
    after = load_file(tmp_path / "made" / "model.safetensors")
    assert after.keys() == before.keys()
    assert after["model.embed_tokens.weight"].shape == (128, 128)
    policy.load(policy.resolve(str(tmp_path / "made")))
