"""Starts vLLM servers of a policy, one a GPU, waits until they answer, and ends them."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlvr_cli import registry
from rlvr_cli.engines.rollout import _vllm_images, _vllm_logits
from rlvr_cli.engines.serving import names, server, weights, worker
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device
from rlvr_cli.terminal import console, plural

_LOOK_S, _END_S = 0.2, 2.0
_FLAGS = {
    "tensor_parallel": "--tensor-parallel-size",
    "pipeline_parallel": "--pipeline-parallel-size",
    "gpu_memory": "--gpu-memory-utilization",
    "max_length": "--max-model-len",
    "max_sequences": "--max-num-seqs",
}
_OTHERS = ("dtype", "float32_head", "cache_gib", "prefix_caching", "eager")


@dataclass(frozen=True)
class Settings:
    """How many servers, where, and how vLLM is set up: a spec as of `--engine vllm:...`."""

    count: int = 1
    host: str = "127.0.0.1"
    port: int = 8000
    engine: str = "vllm"
    key_variable: str = ""

    @property
    def urls(self) -> list[str]:
        return [f"http://{self.host}:{self.port + i}/v1" for i in range(self.count)]

    @property
    def spec(self) -> str:
        """What `--engine` of a rollout takes to ask these servers."""
        urls = ",".join(f"url={url}" for url in self.urls)
        return f"openai:{urls}" + (f",key_variable={self.key_variable}" * bool(self.key_variable))


def check(policy: Policy, settings: Settings) -> None:
    """Refuses what cannot be served; starts nothing."""
    name, _ = registry.parse("rollout", settings.engine)
    if name != "vllm":
        raise UsageError(
            f"--engine is {name}, and vLLM serves", "as in `--engine vllm:max_length=4096`"
        )
    registry.build("rollout", settings.engine)
    if policy.base:
        raise UsageError(
            f"`{policy.name}` holds adapters, and a server takes a complete model",
            f"merge them with `rlvr convert {shlex.quote(policy.name)} --out DIR`, and serve that",
        )
    if settings.key_variable and not os.environ.get(settings.key_variable):
        raise UsageError(
            f"--key-variable is {settings.key_variable}, which is not set",
            f"set it to a key of your own, as in `export {settings.key_variable}=$(uuidgen)`",
        )
    for port in range(settings.port, settings.port + settings.count):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
            except OSError as error:
                raise UsageError(
                    f"cannot listen at {settings.host}:{port}: {error.strerror}",
                    "choose other ports with --port",
                ) from None


@contextlib.contextmanager
def running(policy: Policy, settings: Settings) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The servers, once all of them answer, until the end of the block."""
    check(policy, settings)
    decodable, placeholders = _vllm_logits.unsampled(policy)
    environment = os.environ | {
        weights.DECODABLE: str(decodable),
        weights.PLACEHOLDERS: ",".join(map(str, sorted(placeholders))),
        weights.STARTED_WITH: str(policy.path.resolve()),
        _vllm_images.VARIABLE: str(policy.path.resolve()) * policies.reads_images(policy),
        "VLLM_API_KEY": os.environ.get(settings.key_variable, ""),
    }
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for index, gpus in enumerate(_gpus(settings)):
            words = [sys.executable, "-P", "-m", server.__name__, str(os.getpid())]
            words += _words(policy, settings, settings.port + index)
            own = environment | ({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})
            servers.append(subprocess.Popen(words, env=own, stdin=subprocess.DEVNULL, stdout=2))
        for process, url in zip(servers, settings.urls, strict=True):
            _wait(process, url.removesuffix("/v1"))
        yield servers
    finally:
        _end(servers)


def watch(servers: list[subprocess.Popen[bytes]], urls: list[str]) -> None:
    """Returns when the last of the servers has ended by itself; says when one has."""
    left = dict(zip(urls, servers, strict=True))
    while left:
        time.sleep(_LOOK_S)
        for url, process in list(left.items()):
            if (code := process.poll()) is not None:
                del left[url]
                console.say(
                    f"serve: {url} ended with code {code}; {plural.of(len(left), 'server')} left"
                )
    raise UserError("no server is left", "its own messages are above; start them again")


def _gpus(settings: Settings) -> list[str]:
    """The GPUs of each server, as CUDA_VISIBLE_DEVICES; empty on a CPU."""
    if device.torch_device().type != "cuda":
        return [""] * settings.count
    import torch

    _, options = registry.parse("rollout", settings.engine)
    each = options["tensor_parallel"] * options["pipeline_parallel"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = visible.split(",") if visible else [str(i) for i in range(torch.cuda.device_count())]
    if each * settings.count > len(there):
        raise UsageError(
            f"{settings.count} servers need {each} GPUs each, and this machine has {len(there)} "
            "GPUs",
            f"start {max(1, len(there) // each)} with --nproc",
        )
    return [",".join(there[i * each : (i + 1) * each]) for i in range(settings.count)]


def _words(policy: Policy, settings: Settings, port: int) -> list[str]:
    """The options of vLLM's own server."""
    _, options = registry.parse("rollout", settings.engine)
    on_gpu = device.torch_device().type == "cuda"
    dtype = options["dtype"] if options["dtype"] != "auto" else "bfloat16" if on_gpu else "float32"
    words = ["--model", str(policy.path.resolve()), "--served-model-name", names.of(policy.digest)]
    words += ["--host", settings.host, "--port", str(port), "--dtype", dtype]
    words += ["--logprobs-mode", "processed_logprobs", "--uvicorn-log-level", "warning"]
    words += ["--disable-log-stats", "--generation-config", "vllm"]
    words += ["--middleware", f"{weights.__name__}.{weights.Weights.__name__}"]
    words += ["--worker-extension-cls", f"{worker.__name__}.{worker.Extension.__name__}"]
    for name, flag in _FLAGS.items():
        if options[name]:
            words += [flag, str(options[name])]
    if options["cache_gib"]:
        words += ["--kv-cache-memory-bytes", str(int(options["cache_gib"] * 2**30))]
    if options["float32_head"]:
        words += ["--hf-overrides", '{"head_dtype": "float32"}']
    words += ["--enable-prefix-caching" if options["prefix_caching"] else _no("prefix-caching")]
    if options["eager"] or not on_gpu:
        words += ["--enforce-eager"]
    if not on_gpu:  # per-request seeds do not work with chunked prefill there
        words += [_no("chunked-prefill")]
    if policies.reads_images(policy):
        words += _vllm_images.words()
    _refuse_others(options)
    return words


def _no(name: str) -> str:
    return f"--no-enable-{name}"


def _refuse_others(options: dict[str, Any]) -> None:
    """An error where an option of the engine has no counterpart here."""
    defaults = registry.parse("rollout", "vllm")[1]
    for name in options.keys() - {*_FLAGS, *_OTHERS}:
        if options[name] != defaults[name]:
            raise UsageError(f"`serve` has no counterpart of vllm's `{name}`", "leave it out")


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    """Until a server answers; an error if it ends before."""
    while True:
        code = process.poll()
        if code is not None:
            raise UserError(
                f"the server at {url} ended with code {code} before it was ready",
                "its own messages are above; VLLM_LOGGING_LEVEL=INFO shows more of them",
            )
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=60):
            return
        time.sleep(_LOOK_S)


def _end(servers: list[subprocess.Popen[bytes]]) -> None:
    """Ends servers, with all that they started."""
    for process in servers:
        with contextlib.suppress(OSError):
            process.send_signal(signal.SIGTERM)
    end = time.monotonic() + _END_S
    for process in servers:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
