"""The digest of a policy is over all the weights that a loader reads, and over no others."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from rlvr_cli.errors import DataError
from rlvr_cli.models import policy, pretrained


@pytest.fixture
def model(tmp_path):
    return shutil.copytree(policy.resolve("builtin").path, tmp_path / "model")


def indexed(model, name):
    """The model with all its weights in one file that an index names."""
    weights = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    place = model / name
    place.parent.mkdir(exist_ok=True)
    save_file(weights, place, {"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(weights, str(name))}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


@pytest.mark.parametrize("name", ["../other/model.safetensors", "{}/other/x.safetensors"])
def test_an_index_that_names_a_file_outside_its_folder_is_refused(model, name, tmp_path):
    indexed(model, name.format(tmp_path))
    with pytest.raises(DataError, match="which is not in its folder"):
        _ = policy.resolve(str(model)).digest
    with pytest.raises(DataError, match="which is not in its folder"):
        pretrained.model(model)


def test_weights_in_a_subfolder_are_part_of_the_policy(model):
    place = indexed(model, "parts/x.safetensors")
    policy.load(policy.resolve(str(model)))
    before = policy.resolve(str(model)).digest
    data = bytearray(place.read_bytes())
    data[-1] ^= 1
    place.write_bytes(data)
    assert policy.resolve(str(model)).digest != before


def test_links_are_read_as_what_they_link_to_as_in_a_cache_of_the_hub(model, tmp_path):
    before, blobs, snapshot = policy.resolve(str(model)).digest, tmp_path / "blobs", tmp_path / "s"
    blobs.mkdir(), snapshot.mkdir()
    for number, path in enumerate(sorted(model.iterdir())):
        path.rename(blobs / str(number))
        (snapshot / path.name).symlink_to(Path("../blobs") / str(number))
    assert policy.resolve(str(snapshot)).digest == before
    policy.load(policy.resolve(str(snapshot)))


def test_a_model_beside_which_adapters_name_another_one_is_refused(model):
    named = {"peft_type": "LORA", "base_model_name_or_path": "owner/other"}
    (model / "adapter_config.json").write_text(json.dumps(named))
    with pytest.raises(DataError, match="adapters of `owner/other`: loaders take the weights of"):
        _ = policy.resolve(str(model)).digest
