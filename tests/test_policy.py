import shutil

import pytest
from safetensors.torch import load_file, save_file

from rlvr_cli import policy
from rlvr_cli.errors import DataError


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
