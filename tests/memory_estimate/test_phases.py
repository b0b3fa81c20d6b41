"""The memory that a run is said to need, against what torch allocates."""

import contextlib
import dataclasses
import functools
import gc
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, Gemma2Config, LlamaConfig, Qwen2Config

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.cli import app
from rlvr_cli.config import RolloutOptions, RunConfig, UpdateOptions
from rlvr_cli.engines.rollout.transformers import TransformersEngine
from rlvr_cli.errors import Advice, UserError
from rlvr_cli.kernels import reference, sizes
from rlvr_cli.memory_estimate import model_size, phases
from rlvr_cli.memory_estimate.cache_size import CacheSize
from rlvr_cli.models import logprobs, policy
from rlvr_cli.models.policy import Loaded
from rlvr_cli.protocols import Request, Row, SamplingParams
from rlvr_cli.runtime import distributed
from rlvr_cli.runtime.device import Device
from rlvr_cli.storage.shards import Shards

ROOM = Device("cpu", 1 << 40, 1 << 40)
GPU = Device("cuda", 80 << 30, 80 << 30, "GPU 0")
BUILTIN = policy.resolve("builtin")
# Qwen2.5-1.5B
CACHED = CacheSize(28 * 2 * 2 * 128)
LARGE = model_size.Shape(1_543_714_304, 1_543_714_304, 28, 1536, 8960, 12, 128, CACHED, 151_936)
SIZES = {
    "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 3, "num_attention_heads": 8,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": True,
}  # fmt: skip
CAPPED = functools.partial(Gemma2Config, head_dim=8, query_pre_attn_scalar=8, sliding_window=512)
KINDS = {"llama": LlamaConfig, "qwen": Qwen2Config, "gemma": CAPPED}
LEAST = "--recompute-activations --micro-batch-tokens 1536"
DEEPSPEED = ["deepspeed:zero=2", "deepspeed:zero=3,precision=bfloat16"]


class Allocated:
    peak = after = 0


@contextlib.contextmanager
def allocated():
    """Bytes that torch's CPU allocator holds beyond those at the start: at most, and at the end."""
    result = Allocated()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        yield result
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        result.after += event.nbytes()
        result.peak = max(result.peak, result.after)


def small(kind, vocabulary, folder):
    """A model with random weights, in memory and as a directory that says its shape."""
    config = KINDS[kind](vocab_size=vocabulary, **SIZES)
    model = AutoModelForCausalLM.from_config(config).eval()
    if kind == "gemma":
        model.set_attn_implementation("eager")
    config.save_pretrained(folder)
    result = policy.Policy(folder, "small")
    return Loaded(dataclasses.replace(BUILTIN), model, None, (1,), 0, 512), model_size.shape_of(
        result
    )


def rows_of(count=8, length=64, prompt=8):
    rng = np.random.default_rng(0)
    sizes = [length - i % 3 for i in range(count)]
    return [
        Row(
            rng.integers(0, 300, prompt).tolist(),
            rng.integers(0, 300, size - prompt).tolist(),
            advantage=(-1.0) ** i,
            old_logp=[-5.0] * (size - prompt),
        )
        for i, size in enumerate(sizes)
    ]


def measured(kind, vocabulary, folder, *, length=64, **options):
    """Bytes that are allocated, and that were said: between updates, and at the peak of one."""
    options = UpdateOptions(micro_batch_tokens=256, **options)
    rows, algo = rows_of(length=length), objective.build("grpo")
    gc.collect()  # what an earlier test left would be counted as freed
    totals = Totals(tokens=sum(len(r.token_ids) for r in rows), sequences=8, max_length=length)
    with allocated() as at_rest:
        loaded, numbers = small(kind, vocabulary, folder)
        engine = registry.build("training", options.trainer)(loaded, options, 0)
        engine.accumulate(rows, algo, totals, 1.0)
        engine.update(1e-4)
    with allocated() as passing:
        engine.accumulate(rows, algo, totals, 1.0)
    rest = sum(phases.trainer_state(numbers, options, ROOM).values())
    need = phases.training(numbers, options, ROOM, phases.UpdateSize(8, length, length - 8))
    return at_rest.after, rest, at_rest.after + passing.peak, need.total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "vocabulary", "precision", "recompute"),
    [
        ("llama", 4000, "float32", False),
        ("llama", 300, "float32", True),
        ("qwen", 4000, "bfloat16", True),
        ("qwen", 300, "bfloat16", False),
    ],
)
def test_an_update_allocates_what_was_said_within_a_tenth(
    kind, vocabulary, precision, recompute, tmp_path
):
    trainer = f"local:precision={precision}"
    rest, said, peak, need = measured(
        kind, vocabulary, tmp_path, trainer=trainer, recompute_activations=recompute
    )
    assert rest == pytest.approx(said, rel=0.001)
    assert 0.99 * peak <= need <= 1.1 * peak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "recompute", "length"),
    [
        ("float32", False, 128),
        ("float32", True, 128),
        ("bfloat16", False, 64),
        ("bfloat16", True, 64),
    ],
)
def test_capped_attention_scores_are_in_what_was_said(precision, recompute, length, tmp_path):
    options = {"trainer": f"local:precision={precision}", "recompute_activations": recompute}
    rest, said, peak, need = measured("gemma", 300, tmp_path, length=length, **options)
    assert rest == pytest.approx(said, rel=0.001)
    assert 0.99 * peak <= need <= 1.1 * peak


@pytest.mark.slow
@pytest.mark.engine("deepspeed")
def test_with_deepspeed_it_is_within_a_seventh(tmp_path):
    words = [sys.executable, "-P", __file__, str(tmp_path), *DEEPSPEED]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for spec, (_, _, peak, need) in json.loads(done.stdout.splitlines()[-1]).items():
        assert need == pytest.approx(peak, rel=0.15), spec


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunks", [1, 4])
def test_statistics_of_tokens_take_little_more_than_a_chunk_of_logits(monkeypatch, dtype, chunks):
    rows, size, hidden = 64, 8192, 32
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", rows * size)
    rng = torch.Generator().manual_seed(0)
    hidden_NH = torch.randn(chunks * rows, hidden, generator=rng).to(dtype).requires_grad_()
    head_VH = torch.randn(size, hidden, generator=rng).to(dtype).requires_grad_()
    target_N = torch.randint(size, (chunks * rows,), generator=rng)
    with allocated() as actual:
        stats = reference.token_stats(hidden_NH, head_VH, target_N, entropy_gradient=True)
        (stats.logp_N - stats.entropy_N).sum().backward()
    gradient = size * hidden * 4  # summed in float32
    assert actual.peak <= 1.3 * 4 * rows * size + 1.5 * gradient


def test_sampling_allocates_what_was_said_within_a_fifth(tmp_path):
    loaded, numbers = small("llama", 4000, tmp_path)
    options = RolloutOptions(max_new_tokens=16)
    requests = [Request(list(range(40)), seed) for seed in range(32)]
    with allocated() as actual:
        list(TransformersEngine(loaded).generate(requests, SamplingParams(16)))
    need = phases.rollout(numbers, options, ROOM, prompt=40, requests=32)
    assert actual.peak <= need.total - need.parts["weights"] <= 1.2 * actual.peak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "prompt", "new"),
    [("transformers", 120, 8), ("transformers", 8, 60), ("graph", 120, 8)],
)
def test_capped_scores_of_prompts_and_steps_are_in_what_was_said(engine, prompt, new, tmp_path):
    loaded, numbers = small("gemma", 300, tmp_path)
    options = RolloutOptions(max_new_tokens=new, engine=engine)
    requests = [Request([seed, *range(prompt - 1)], seed) for seed in range(32)]
    with allocated() as actual:
        sampler = registry.build("rollout", engine)(loaded.policy, loaded)
        list(sampler.generate(requests, SamplingParams(new)))
    need = phases.rollout(numbers, options, ROOM, prompt=prompt, requests=32)
    assert 0.99 * actual.peak <= need.total - need.parts["weights"] <= 1.1 * actual.peak


def test_log_probs_with_capped_scores_take_what_was_said_within_a_tenth(tmp_path):
    loaded, numbers = small("gemma", 300, tmp_path)
    with torch.no_grad(), allocated() as actual:
        logprobs.completion_stats(loaded.model, rows_of(4, 400), temperature=1.0)
    need = phases.evaluation(numbers, ROOM, model_size.PaddedRows(1600, 400))
    assert 0.99 * actual.peak <= need.total - need.parts["weights"] <= 1.1 * actual.peak


@pytest.mark.parametrize("tokens", [4000, 8])  # fewer than a row has: it goes through alone
def test_log_probs_with_capped_scores_are_said_for_the_longest_row_there_is(
    refused, known, monkeypatch, tmp_path, tokens
):
    folder = shutil.copytree(BUILTIN.path, tmp_path / "policy")
    CAPPED(vocab_size=99, **SIZES | {"intermediate_size": 8}).save_pretrained(folder)
    full = Device("cuda", 80 << 30, 1 << 10, "GPU 0")
    monkeypatch.setattr("rlvr_cli.runtime.device.here", lambda: full)
    words = ("--model", folder, "--micro-batch-tokens", tokens, "--out", tmp_path / "made")
    err = refused(1, "logprob", known / "rollouts", *words)
    tables = Shards.open(known / "rollouts", "rollouts").table().to_pylist()
    longest = max(len(row["prompt_token_ids"]) + len(row["token_ids"]) for row in tables)
    numbers = model_size.shape_of(policy.Policy(folder, "policy"))
    need = phases.evaluation(numbers, full, model_size.PaddedRows(max(tokens, longest), longest))
    assert f"one pass {phases.gib(need.parts['one pass'])}" in err


def test_the_shape_is_the_models_and_adapters_alone_are_trained(loaded):
    shape = model_size.shape_of(BUILTIN)
    assert shape.parameters == shape.trained == loaded.model.num_parameters()
    assert (shape.layers, shape.hidden, shape.intermediate, shape.vocabulary) == (3, 128, 256, 99)
    assert (shape.attention, shape.cached) == (128, (3 * 2 * 64, 0))
    pytest.importorskip("peft")
    adapted = model_size.shape_of(BUILTIN, UpdateOptions(lora_rank=2))
    assert adapted.trained == 3 * 2 * (2 * (128 + 128) + 2 * (128 + 64) + 3 * (128 + 256))
    assert not adapted.head_trained


def needed(device, **options):
    return phases.training(
        LARGE, UpdateOptions(**options), device, phases.UpdateSize(256, 1536, 1024)
    )


def test_a_model_with_all_its_state_is_18_bytes_a_parameter_on_a_gpu():
    parts = needed(GPU).parts
    state = parts["weights"] + parts["float32 weights"] + parts["Adam's moments"]
    assert state + parts["gradients"] == 18 * LARGE.parameters


@pytest.mark.parametrize("trainer", ["deepspeed:zero=2", "deepspeed:zero=3"])
def test_zero_needs_less_on_more_devices_and_with_offload(trainer):
    options = UpdateOptions(trainer=trainer)
    one, eight = (sum(phases.trainer_state(LARGE, options, GPU, size).values()) for size in (1, 8))
    off = dataclasses.replace(options, trainer=f"{trainer},offload=optimizer")
    assert eight < one and sum(phases.trainer_state(LARGE, off, GPU, 1).values()) < one / 2


@pytest.mark.parametrize(
    ("gib", "remedy"),
    [
        (80, ""),
        (64, "--micro-batch-tokens 8192"),
        (46, "--micro-batch-tokens 4096"),
        (32, "--micro-batch-tokens 2048"),
        (28, LEAST),
        (
            24,
            f"{LEAST} --trainer deepspeed:zero=2 --nproc 2",
        ),
        (1, ""),
    ],
)
def test_what_makes_an_update_fit_is_said(gib, remedy):
    need = needed(dataclasses.replace(GPU, free=gib << 30))
    assert need.remedy == remedy
    assert (need.total <= gib << 30) == (gib == 80)


def test_too_little_of_a_gpu_is_refused_by_how_much_and_of_the_host_only_warned_of():
    tight = dataclasses.replace(GPU, free=32 << 30)
    need = needed(tight)
    with pytest.raises(
        UserError, match=r"GiB, [\d.]+ GiB more than is free of GPU 0: weights 2\.88"
    ):
        phases.require(BUILTIN, need, tight)
    host = dataclasses.replace(tight, kind="cpu")
    with pytest.warns(Advice, match="more than is free"):
        phases.require(BUILTIN, needed(host), host)
    phases.require(BUILTIN, needed(GPU), GPU)


def test_a_batch_of_rollouts_that_does_not_fit_is_made_smaller():
    options = RolloutOptions(max_new_tokens=1024)
    tight = dataclasses.replace(GPU, free=12 << 30)
    need = phases.rollout(LARGE, options, tight, prompt=512, requests=4096)
    assert need.total > tight.free and need.remedy == "--engine transformers:batch_size=64"


@pytest.mark.engine("vllm")
def test_vllm_beside_a_trainer_is_given_the_share_that_is_left():
    options = RolloutOptions(max_new_tokens=1024, engine="vllm")
    reserved_bytes = {"weights": 45 << 30}
    need = phases.rollout(
        LARGE, options, GPU, prompt=512, requests=4096, reserved_bytes=reserved_bytes
    )
    assert need.total == 85 << 30 and need.remedy == "--engine vllm:gpu_memory=0.43"


@pytest.mark.engine("vllm")
def test_a_run_holds_its_start_policy_and_a_sleeping_vllm():
    given = RunConfig(rollout=RolloutOptions(engine="vllm"))
    _, update = phases.run(LARGE, given, GPU, prompt=512, reference=True)
    assert update.parts["initial policy"] == 2 * LARGE.parameters
    assert update.parts["vLLM asleep"] == 2 << 30


@pytest.mark.parametrize(
    ("words", "phase"),
    [
        (["rollout", "prompts", "--model", "builtin", "-n4"], "rollout"),
        (["train-step", "advantages"], "training"),
        (["logprob", "rollouts"], "log-probs"),
        (["train", "--steps", "1"], "rollout"),
    ],
)
def test_a_gpu_without_memory_is_refused_before_anything_is_loaded(
    refused, copy, monkeypatch, tmp_path, words, phase
):
    full = Device("cuda", 80 << 30, 1 << 20, "GPU 0")
    monkeypatch.setattr("rlvr_cli.runtime.device.here", lambda: full)
    monkeypatch.setattr(policy, "load", lambda *a, **k: pytest.fail("weights were loaded"))
    paths = [str(copy / w) if (copy / w).exists() else w for w in words]
    err = refused(1, *paths, "--out", tmp_path / "made")
    assert f"{phase} with `builtin` needs" in err and "more than is free of GPU 0" in err


def test_a_host_without_memory_is_a_line_and_the_command_goes_on(rlvr, copy, monkeypatch, tmp_path):
    full = Device("cpu", 80 << 30, 1 << 20)
    monkeypatch.setattr("rlvr_cli.runtime.device.here", lambda: full)
    ran = rlvr("logprob", copy / "rollouts", "--out", tmp_path / "made")
    assert ran.code == app.errors.DONE
    assert "warning: log-probs with `builtin` needs" in ran.err


def test_a_memory_model_is_held_beside_the_policy_with_its_optimizer_where_it_is_trained():
    results = [phases.memory_model_bytes(LARGE, GPU, trained=trained) for trained in (False, True)]
    assert results == [2 * LARGE.parameters, (2 + 4 + 8) * LARGE.parameters]


def test_the_graph_engine_takes_as_many_rows_as_fit():
    options = RolloutOptions(max_new_tokens=1024, engine="graph:rows=256")
    needs = {}
    for gib in (80, 16, 8):
        position = Device("cuda", 80 << 30, gib << 30, "GPU 0")
        needs[gib] = phases.rollout(LARGE, options, position, prompt=64, requests=4096)
        assert needs[gib].total <= position.free
    complete = 2 * 28 * 2 * 128 * 2 * 256 * (1024 + 64)  # keys and values, in bfloat16
    values = [needs[gib].parts["keys and values"] for gib in (80, 16, 8)]
    assert values[0] == complete and complete % values[2] == 0 and values[2] < values[1] <= complete
    options = dataclasses.replace(options, engine="graph:rows=256,cache=int8")
    large = Device("cuda", 80 << 30, 80 << 30, "GPU 0")
    coded = phases.rollout(LARGE, options, large, prompt=64, requests=4096).parts
    assert coded["keys and values"] == complete * 132 // 256


if __name__ == "__main__":
    folder, *specs = sys.argv[1:]
    print(json.dumps({s: measured("llama", 1000, Path(folder), trainer=s) for s in specs}))
    distributed.leave()
