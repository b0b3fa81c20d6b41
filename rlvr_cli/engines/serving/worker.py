"""What `rlvr serve` adds to the worker of vLLM that holds the model."""

from typing import Any

from rlvr_cli.engines.rollout import _vllm_weights
from rlvr_cli.engines.rollout.vllm import _mask_padding
from rlvr_cli.runtime import device


class Extension:
    """Methods of a worker, whose `model_runner` holds the model."""

    model_runner: Any

    def mask_padding(self, decodable: int) -> None:
        """Never samples the ids from `decodable` on, which pad the output head."""
        _mask_padding(self.model_runner.get_model(), decodable)

    def take_policy(self, path: str) -> None:
        """Loads the weights in a directory in place of those that it has."""
        on_gpu = device.torch_device().type == "cuda"
        _vllm_weights.reload(self.model_runner, path, on_gpu=on_gpu)
