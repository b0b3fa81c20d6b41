"""DeepSpeed on the CPU, with one process and with two, against plain torch."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

pytestmark = [pytest.mark.engine("deepspeed"), pytest.mark.slow]

WORKER = Path(__file__).with_name("deepspeed_worker.py")
SPECS = [
    *(f"deepspeed:zero={zero}" for zero in range(4)),
    "deepspeed:zero=2,offload=optimizer",
    "deepspeed:zero=2,pack=true",
    "deepspeed:zero=3,pack=true",
    "deepspeed:zero=3,offload=all",
]
HALF = "deepspeed:zero=2,precision=bfloat16"
FOLDER = Path(sys.prefix) / "triton"  # where `make test` puts it
BESIDE = importlib.util.find_spec("triton") is not None
KERNELS = ["reference", *(["triton"] if BESIDE or (FOLDER / "triton").exists() else [])]


def worker():
    spec = importlib.util.spec_from_file_location("deepspeed_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ran(folder, processes, specs):
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    words = [sys.executable, "-P", *(launcher if processes > 1 else []), str(WORKER), str(folder)]
    paths = [os.environ.get("PYTHONPATH", ""), *([] if BESIDE else [str(FOLDER)])]
    environment = {"PYTHONPATH": ":".join(filter(None, paths)), "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [*words, *specs], env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {n: tmp_path_factory.mktemp(f"processes-{n}") for n in (1, 2)}


@pytest.fixture(scope="module")
def made(folders):
    kernels = [f"kernels={name}" for name in KERNELS]
    specs = {1: [*SPECS, HALF], 2: [*SPECS, HALF, *kernels]}
    return {n: ran(folder, n, specs[n]) for n, folder in folders.items()}


@pytest.fixture(scope="module")
def expected():
    """The same four updates in plain torch."""
    module = worker()
    engine = module.start("local")
    return module.updates(engine, module.rows_of(engine), 4)


def close(one, other, rel=1e-5):
    for a, b in zip(one, other, strict=True):
        assert a == pytest.approx(b, rel=rel, abs=1e-5)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("spec", SPECS)
def test_losses_metrics_and_norms_are_those_of_plain_torch(made, expected, spec, processes):
    close(made[processes][spec]["said"], expected)


@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_ratios_are_exactly_1(made, processes):
    for by_spec in made[processes].values():
        first = by_spec["said"][0]
        assert (first["ratio_min"], first["ratio_max"], first["clipped"]) == (1, 1, 0)


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("spec", [*SPECS, HALF])
def test_a_resumed_engine_goes_on_exactly(made, spec, processes):
    actual = made[processes][spec]
    assert actual["resumed_logp"] == actual["ahead"]
    assert actual["resumed"] == actual["said"][2:]


@pytest.mark.parametrize(
    "kernels", ["reference", pytest.param("triton", marks=pytest.mark.engine("triton"))]
)
def test_a_divided_head_has_the_gradient_of_plain_torch_by_all_kernels(made, folders, kernels):
    """ZeRO-3 gathers what a kernel reads, and its hooks share out what a kernel makes."""
    actual = torch.load(folders[2] / f"{kernels}.pt")
    expected = {name: p.grad for name, p in worker().accumulated("local")._master.items()}
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        assert gradient.any()
        scale = torch.stack(
            [g.norm() for n, g in expected.items() if module_of(n) == module_of(name)]
        )
        assert (actual[name] - gradient).norm() <= 1e-5 * scale.norm(), name


def module_of(name):
    """The module of a parameter: an error is measured against its weight and bias together.

    A bias of keys shifts all scores of a query alike, but for the rotation, so that most of its
    gradient cancels, and what rounding leaves of it depends on the processor.
    """
    return name.rpartition(".")[0]


def test_bfloat16_follows_float32_within_its_rounding(made, expected):
    for processes in (1, 2):
        first = made[processes][HALF]["said"][0]
        assert first["norm"] == pytest.approx(expected[0]["norm"], rel=0.02)
        assert first["entropy"] == pytest.approx(expected[0]["entropy"], rel=0.02)


def test_whole_weights_are_the_same_on_every_stage_and_number_of_processes(made):
    sums = [made[n][spec]["sum"] for n in (1, 2) for spec in SPECS]
    counts = {made[n][spec]["count"] for n in (1, 2) for spec in SPECS}
    assert sums == pytest.approx([sums[0]] * len(sums), rel=1e-5)
    assert len(counts) == 1


@pytest.mark.parametrize("number", range(len(SPECS)), ids=SPECS)
def test_a_checkpoint_of_two_processes_is_plain_torchs_on_one(folders, made, expected, number):
    """Its logits are the engine's, and an engine on another number of processes goes on from it."""
    path, module = folders[2] / str(number), worker()
    engine = module.start("local", path)
    logps = engine.logp(module.ROWS, 1.0)
    for logp, saved in zip(logps, made[2][SPECS[number]]["ahead"], strict=True):
        assert logp == pytest.approx(saved, abs=1e-5)
    old = module.rows_of(module.start("local"))
    close(module.updates(engine, old, 2), expected[2:])
    tied = AutoModelForCausalLM.from_pretrained(path)
    assert tied.lm_head.weight.data_ptr() == tied.model.embed_tokens.weight.data_ptr()
