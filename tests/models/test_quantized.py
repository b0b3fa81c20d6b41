"""Policies with quantized weights, as the Hub has them."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.models import policy, quantized

BUILTIN = policy.resolve("builtin").path
TINY = ["-n2", "--max-new-tokens=4"]
TRAIN = ["train", *TINY, "--eval-every=0", "--prompts-per-step=2", "--steps=1"]
LARGEST = 448  # of float8_e4m3


def configure(path, **values):
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.fixture
def fp8(tmp_path, monkeypatch):
    """The built-in policy in FP8, as Qwen and DeepSeek publish theirs: a scale a block of 128."""
    monkeypatch.chdir(tmp_path)
    path, stored = shutil.copytree(BUILTIN, tmp_path / "fp8"), {}
    for name, value in load_file(BUILTIN / "model.safetensors").items():
        stored[name] = value
        if name.endswith("proj.weight"):
            scale = float(value.abs().max()) / LARGEST
            blocks = [-(-size // 128) for size in value.shape]
            stored[name] = (value.float() / scale).to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = torch.full(blocks, scale)
    save_file(stored, path / "model.safetensors", {"format": "pt"})
    how = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
    configure(path, quantization_config=how | {"weight_block_size": [128, 128]})
    return path


def test_it_is_sampled_from_and_its_training_is_refused_with_a_hint_that_works(
    fp8, copy, rlvr, refused
):
    assert rlvr("rollout", "copy/prompts", *TINY, "--model", fp8, "--out", "sampled").code == 0
    said = refused(2, *TRAIN, "--prompts", "copy/prompts", "--model", fp8, "--out", "run")
    assert "has quantized weights (fp8), which cannot be trained" in said
    assert f"`rlvr convert {fp8} --out DIR`" in said
    assert rlvr("convert", fp8, "--out", "plain", "--dtype", "float32").code == 0
    before, after = (load_file(p / "model.safetensors") for p in (BUILTIN, fp8.parent / "plain"))
    for name, value in before.items():
        step = float(value.abs().max()) / 2**4  # half a step of e4m3's three bits, at its largest
        assert torch.allclose(after[name], value.float(), rtol=0, atol=step), name
    ran = rlvr(*TRAIN, "--prompts", "copy/prompts", "--model", "plain", "--out", "run")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("values", "how"),
    [
        ({}, ""),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
        ({"quantization_config": {"load_in_4bit": True}}, "quantized"),
        ({"text_config": {"quantization_config": {"quant_method": "awq"}}}, "awq"),
    ],
)
def test_the_method_is_read_from_the_configuration(tmp_path, values, how):
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert quantized.method(tmp_path) == how


def test_a_method_whose_package_is_missing_is_named_with_it(tmp_path, copy, refused):
    path = shutil.copytree(BUILTIN, tmp_path / "gptq")
    configure(path, quantization_config={"quant_method": "gptq", "bits": 4, "group_size": 128})
    for words in (
        ["convert", path],
        ["rollout", tmp_path / "copy/prompts", *TINY, "--model", path],
    ):
        said = refused(2, *words, "--out", tmp_path / "out")
        assert "requires optimum" in said and "hint: install what it names" in said


def test_weights_that_the_configuration_has_no_place_for_are_named(tmp_path, copy, rlvr):
    path = shutil.copytree(BUILTIN, tmp_path / "model")
    layers = json.loads((path / "config.json").read_text())
    fewer = layers["num_hidden_layers"] - 1
    kinds = {"layer_types": layers["layer_types"][:fewer]} if layers.get("layer_types") else {}
    configure(path, num_hidden_layers=fewer, **kinds)
    ran = rlvr(
        "rollout", tmp_path / "copy/prompts", *TINY, "--model", path, "--out", tmp_path / "r"
    )
    assert f"of the weights in `{path}` are not used, model.layers.{fewer}." in ran.err
