"""What `rlvr serve` adds to the worker of vLLM that holds the model."""

from pathlib import Path
from typing import Any

from rlvr_cli.engines.rollout import _vllm_logits, _vllm_weights
from rlvr_cli.runtime import device


class Extension:
    """Methods of a worker, whose `model_runner` holds the model."""

    model_runner: Any

    def mask(self, decodable: int, placeholders: list[int]) -> None:
        """Never samples the ids from `decodable` on, which pad the output head, nor placeholders"""
        _vllm_logits.mask(self.model_runner.get_model(), decodable, placeholders)

    def take_policy(self, path: str) -> None:
        """Loads the weights in a directory in place of those that it has."""
        on_gpu = device.torch_device().type == "cuda"
        _vllm_weights.reload(self.model_runner, path, on_gpu=on_gpu)
        _require(self.model_runner.get_model(), Path(path))


def _require(model: Any, path: Path) -> None:
    """An error unless the model's weights are those of a directory, where they have a name there.

    Others are fused, divided or packed by then: norms, and mostly embeddings and down projections,
    are as in the files. vLLM has answered with the weights that it had before.
    """
    from safetensors import safe_open

    parameters, compared = dict(model.named_parameters()), 0
    mapper = getattr(model, "hf_to_vllm_mapper", None)  # of models whose parts have other names
    for file in sorted(path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no dict)
                own = next(iter(mapper.apply_list([name])), "") if mapper else name
                if own not in parameters:
                    continue
                parameter, stored = parameters[own].detach(), tensors.get_tensor(name)
                if parameter.shape != stored.shape:
                    continue
                compared += 1
                if not parameter.cpu().equal(stored.to(parameter.dtype)):
                    raise ValueError(f"`{name}` is not what {file} holds after it was loaded")
    if not compared:
        raise ValueError("no weight can be compared: all names or shapes differ from the files'")
