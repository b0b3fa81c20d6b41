"""Two steps of `rlvr train` with each of the newer objectives, two updates a step."""

import json
import math

import pytest

from rlvr_cli.cli import app

NAMES = [
    *("sapo", "gspo-token", "dppo-tv", "dppo-kl", "luspo", "maxrl", "vespo", "ce-gppo", "opo"),
    "m2po",
    "topr",
    "dro",
    "aspo",
    "cppo",
    "cfpo",
    "fipo",
    "grpo+up",
]
SMALL = [
    *["--steps", "2", "--prompts-per-step", "8", "--mini-batch-prompts", "4", "-n", "4"],
    *["--max-new-tokens", "6", "--eval-every", "0", "--learning-rate", "1e-3"],
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_objective_trains_the_builtin_policy(tmp_path, name):
    assert app.run(["train", "--algo", name, "--out", str(tmp_path / "run"), *SMALL]) == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [row for line in lines if "loss" in (row := json.loads(line))]
    assert [row["step"] for row in steps] == [1, 2]
    assert all(math.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in steps)
