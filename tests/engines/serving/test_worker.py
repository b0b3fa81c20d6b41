"""A model's weights are compared with the files that they were loaded from."""

import pytest
import torch
from safetensors.torch import save_file

from rlvr_cli.engines.serving import worker


def model(norm, fused):
    weights = torch.nn.Module()
    weights.norm = torch.nn.Parameter(norm.bfloat16())
    weights.qkv = torch.nn.Parameter(fused)
    return weights


def test_weights_that_were_not_loaded_are_noticed(tmp_path):
    new, old = torch.tensor([1.0, 0.3]), torch.tensor([1.0, 0.2])
    save_file({"norm": new, "q": torch.ones(2)}, tmp_path / "model.safetensors")
    worker._require(model(new, torch.ones(6)), tmp_path)
    with pytest.raises(ValueError, match="`norm` is not what"):
        worker._require(model(old, torch.ones(6)), tmp_path)


def test_files_of_which_nothing_can_be_compared_are_refused(tmp_path):
    save_file({"q": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="no weight can be compared"):
        worker._require(model(torch.ones(2), torch.ones(6)), tmp_path)
