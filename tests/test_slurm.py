"""The job files of examples/slurm, run by a Slurm cluster of two nodes on this machine.

It takes three minutes: `RLVR_TEST_SLURM=1 pytest tests/test_slurm.py`, as root, where Slurm is.
"""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from rlvr_cli.cli import app

EXAMPLES = Path(__file__).parents[1] / "examples" / "slurm"
ON_CPU = ("--gpus-per-node=0", "--gpus-per-task=0", "--cpus-per-task=1")
TRAIN = ("--algo=grpo", "--steps=6", "--eval-every=0", "--prompts-per-step=8", "--save-every=2",
         "--prompts-per-part=4", "--trainer=deepspeed:zero=2", "--max-new-tokens=16")  # fmt: skip
STAGE = ("-n8", "--max-new-tokens=16", "--prompts-per-part=2")

pytestmark = [pytest.mark.slow, pytest.mark.engine("deepspeed")]


@pytest.fixture(scope="module")
def slurm():
    import runpy

    return runpy.run_path(str(Path(__file__).with_name("slurm.py")))


@pytest.fixture(scope="module")
def cluster(slurm, tmp_path_factory):
    if "RLVR_TEST_SLURM" not in os.environ:
        pytest.skip("Slurm (RLVR_TEST_SLURM is not set)")
    if why := slurm["why_absent"]():
        pytest.skip(f"Slurm ({why})")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "bin").mkdir()
    command = "from rlvr_cli.cli.app import main; main()"
    script = folder / "bin" / "rlvr"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -P -c '{command}' \"$@\"\n")
    script.chmod(0o755)
    with slurm["Cluster"](folder / "cluster") as cluster:
        cluster.environment |= {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
        }
        yield cluster


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_on_two_nodes_is_interrupted_goes_back_into_the_queue_and_is_completed(
    cluster, tmp_path, monkeypatch
):
    """The signal is that of the time limit, which has no seconds to wait for here."""
    monkeypatch.chdir(tmp_path)
    job = cluster.submit(
        "--time=5", *ON_CPU[:1], str(EXAMPLES / "train.sbatch"), *TRAIN, "--out=run"
    )
    log = tmp_path / f"rlvr-train-{job}.log"
    until(lambda: (tmp_path / "run/steps/000002/rollouts").exists())
    cluster.run("scancel", "--signal=USR1", str(job))
    ended = cluster.wait(job, 180)
    said = log.read_text()
    assert ended == "COMPLETED", said
    assert "was interrupted by SIGUSR1" in said
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [*range(7)]
    assert app.run(["check", "run/steps/000006/update"]) == 0


def test_an_array_shares_the_rollouts_and_one_that_is_interrupted_goes_on(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert app.run(["prompts", "task:expression", "--limit=24", "--out=prompts"]) == 0
    words = ("rollout", "prompts", *STAGE, "--out=rollouts")
    job = cluster.submit(
        "--array=0-1", "--time=5", *ON_CPU[1:], str(EXAMPLES / "stage.sbatch"), *words
    )
    until(lambda: [*tmp_path.glob("rollouts/part-*.parquet")])
    cluster.run("scancel", "--signal=USR1", f"{job}_1")
    assert cluster.wait(job, 180) == "COMPLETED"
    assert app.run(["rollout", "prompts", *STAGE, "--out=alone"]) == 0
    assert parts(tmp_path / "rollouts") == parts(tmp_path / "alone")
    assert app.run(["check", "rollouts"]) == 0
