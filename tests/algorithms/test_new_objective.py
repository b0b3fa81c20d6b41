"""A new objective is one file and one test file: nothing else has to know of it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_cli import registry

ROOT = Path(__file__).parents[2]
OBJECTIVE = '''
"""Plain policy gradient: the reward as it is, without ratio and clip."""

from rlvr_cli.algorithms.objective import ADVANTAGE, Objective
from rlvr_cli.algorithms.terms import ratio, surrogate, weight


def build(*, scale: float = 2.0) -> Objective:
    """A = scale r; the gain of a token is A logp."""
    return Objective(
        advantage=lambda step: {ADVANTAGE: scale * step.reward_N},
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, _: surrogate.log_prob(batch.logp_BT, batch.advantage_B[:, None]),
        weight=weight.token_mean,
        ratio="none",
        group_relative=False,
    )
'''
TEST = '''
"""Plain policy gradient from its equations."""

import numpy as np

DEFAULTS = "plain-gradient:scale=2.0"


def estimate(batch):
    return 2 * batch.reward


def cost(row, batch):
    weight = row.advantage / batch.tokens
    return -weight * row.logp.sum(), np.full(row.length, -weight)


def test_plain_gradient_is_its_equations(matches):
    matches("plain-gradient", estimate, cost)
'''


@pytest.mark.slow
def test_an_objective_without_a_clip_is_one_file_and_one_test_file(tmp_path):
    for name in ("rlvr_cli", "commands", "kernels", "fixtures", "tests/algorithms"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    new = tmp_path / "rlvr_cli/algorithms/objectives/plain_gradient.py"
    new.write_text(OBJECTIVE)
    (tmp_path / "tests/algorithms/objectives/test_plain_gradient.py").write_text(TEST)
    words = ["-q", "-k", "plain-gradient or plain_gradient", "-p", "no:cacheprovider"]
    files = ["test_spec.py", "test_objective.py", "objectives/test_plain_gradient.py"]
    command = [sys.executable, "-P", "-m", "pytest", *words]
    command += [f"tests/algorithms/{file}" for file in files]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "RLVR_ORACLE_BATCHES": "20"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    passed = int(re.search(r"(\d+) passed", ran.stdout)[1])
    assert passed > 10 * len(registry.names("modifiers"))
