"""Several processes on one machine: the same results, and one message when one of them dies."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from rlvr_cli import config
from rlvr_cli.errors import UsageError
from rlvr_cli.loop import setup
from rlvr_cli.runtime import distributed
from rlvr_cli.storage import locks

pytestmark = pytest.mark.slow

CODE = "from rlvr_cli.cli.app import main; main()"
TRAIN = ["train", "--algo", "grpo", "--steps", "2", "--eval-every", "0", "--prompts-per-step", "8"]
TRAIN += ["--prompts-per-part", "4", "--trainer", "deepspeed:zero=2"]


def start(*words, stdin=None):
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CODE, *map(str, words)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finished(process, text=None):
    out, err = process.communicate(text, timeout=900)
    return process.returncode, out, err


def children_of(process):
    """The workers that a launching process has started, by rank."""
    actual = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            if parent == process.pid:
                with open(f"/proc/{pid}/environ") as file:
                    actual |= {
                        int(v[5:]): int(pid)
                        for v in file.read().split("\0")
                        if v.startswith("RANK=")
                    }
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass  # it has ended meanwhile
    return actual


def metrics_of(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1, 0)),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, (3, 8, 1)),
        ({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8", "SLURM_LOCALID": "1"}, (3, 8, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1, 0)),  # the batch script itself
        ({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, (0, 1, 0)),
    ],
)
def test_a_process_knows_its_place(monkeypatch, variables, expected):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    position = distributed.current.__wrapped__()
    assert (position.rank, position.size, position.local_rank) == expected


@pytest.mark.parametrize("parts", [[], ["--prompts-per-part=3"], ["--prompts-per-part=64"]])
def test_two_processes_sample_what_one_does(chain, tmp_path, files_of, parts):
    """The path comes from a pipe and reaches both; each has a part of three of the six prompts."""
    words = ["rollout", "-", "-n4", "--max-new-tokens=16", *parts]
    running = start(*words, "--nproc=2", "--out", tmp_path / "made", stdin=subprocess.PIPE)
    code, out, err = finished(running, f"{chain / 'prompts'}\n")
    assert (code, out) == (0, f"{tmp_path / 'made'}\n"), err
    assert err.count("24 completions") == 1
    result, expected = files_of(tmp_path / "made"), files_of(chain / "rollouts")
    assert result.keys() == expected.keys()
    parts = [name for name in result if name.startswith("part-")]
    assert len(parts) == 2 and all(result[name] == expected[name] for name in parts)


def test_an_error_of_all_processes_is_said_once(tmp_path):
    words = ["train", "--steps=1", "--nproc=2", "--max-draws=2", "--out", tmp_path / "run"]
    code, out, err = finished(start(*words))
    assert (code, out) == (2, "")
    assert err.count("error:") == err.count("--max-draws is 2") == 1


@pytest.mark.parametrize(
    ("options", "trainer", "message"),
    [
        ({"max_draws": 2, "prompts_per_part": 16}, "", "--max-draws is 2, and 2 processes"),
        ({}, ":zero=3", "--engine transformers.* which zero=3 divides among the processes"),
    ],
)
@pytest.mark.engine("deepspeed")
def test_what_two_processes_cannot_divide_is_refused(
    tmp_path, monkeypatch, options, trainer, message
):
    chosen = config.RunConfig(
        rollout=config.RolloutOptions(**options),
        train_step=config.UpdateOptions(trainer=f"deepspeed{trainer}"),
    )
    world = distributed.World(0, 2, 0)
    monkeypatch.setattr(distributed, "current", lambda: world)
    with pytest.raises(UsageError, match=message):
        setup.check(tmp_path / "run", chosen)


@pytest.mark.engine("deepspeed")
@pytest.mark.parametrize("processes", [(2, 1), (1, 2)])
def test_a_run_with_default_parts_goes_on_with_another_number_of_processes(tmp_path, processes):
    words = [*TRAIN[:-4], "--trainer", "deepspeed:zero=2", "--out", tmp_path / "run"]
    for steps, number in enumerate(processes, 1):
        code, _, err = finished(start(*words, f"--steps={steps}", f"--nproc={number}"))
        assert code == 0, err
    counts = [len(list(p.glob("rollouts/*.parquet"))) for p in (tmp_path / "run/steps").iterdir()]
    assert sorted(counts) == sorted([2, 2] if processes == (2, 1) else [1, 2])


@pytest.mark.engine("deepspeed")
def test_weights_that_are_gathered_for_the_trainer_alone_are_not_sampled_from(tmp_path):
    """By modules within the model, that is: one process gathers a whole forward pass."""
    for engine, refused in (("graph", True), ("transformers", False)):
        chosen = config.RunConfig(
            rollout=config.RolloutOptions(engine=engine),
            train_step=config.UpdateOptions(trainer="deepspeed:zero=3"),
        )
        with pytest.raises(UsageError, match="zero=3") if refused else contextlib.nullcontext():
            setup.check(tmp_path / engine, chosen)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "run"
    code, _, err = finished(start(*TRAIN, "--out", out))
    assert code == 0, err
    return metrics_of(out)


@pytest.mark.engine("deepspeed")
def test_a_run_on_two_processes_that_lost_one_goes_on_and_has_the_losses_of_one(alone, tmp_path):
    """Killed in its first step: the other process is stopped, one message, nothing is lost."""
    out = tmp_path / "run"
    running = start(*TRAIN, "--nproc=2", "--out", out)
    while running.poll() is None and not (out / "steps/000001/rollouts").exists():
        time.sleep(0.05)
    os.kill(children_of(running)[1], signal.SIGKILL)
    code, _, err = finished(running)
    assert code == 1
    assert err.count("error:") == 1 and "process 1 of 2 was killed by SIGKILL" in err

    code, _, err = finished(start(*TRAIN, "--nproc=2", "--out", out))
    assert code == 0, err
    for one, two in zip(alone, metrics_of(out), strict=True):
        for name in ("reward", "loss", "grad_norm", "kl", "entropy"):
            assert two.get(name) == (one.get(name) and pytest.approx(one[name], rel=1e-4, abs=1e-5))


@pytest.mark.engine("deepspeed")
def test_a_run_of_one_process_goes_on_with_two(alone, tmp_path):
    out = tmp_path / "run"
    code, _, err = finished(start(*TRAIN, "--steps=1", "--out", out))
    assert code == 0, err
    code, _, err = finished(start(*TRAIN, "--nproc=2", "--out", out))
    assert code == 0, err
    last = metrics_of(out)[-1]
    assert last["step"] == 2
    for name in ("reward", "loss", "grad_norm", "kl", "entropy"):
        assert last[name] == pytest.approx(alone[-1][name], rel=1e-4, abs=1e-5)


WAITING = """
import sys, time
import torch.distributed
from rlvr_cli.errors import UserError
from rlvr_cli.runtime import distributed
print("ready", flush=True)
sys.stdin.readline()
if distributed.start().rank:
    time.sleep(600)
try:
    distributed.gather(1)
except UserError as error:
    print(error)
distributed.leave()
"""


def test_a_process_that_the_others_wait_for_in_vain_is_said(reserved_port):
    """They begin together, when both have torch, as one waits for the other's beginning, too."""
    position = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserved_port)}
    running = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WAITING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | position | {"RANK": rank, "LOCAL_RANK": rank, "RLVR_TIMEOUT_S": "8"},
        )
        for rank in "01"
    ]
    assert [process.stdout.readline() for process in running] == ["ready\n"] * 2
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    said, _ = running[0].communicate(timeout=900)
    running[1].kill()
    running[1].communicate()
    assert said.startswith("process 0 of 2 timed out: it waited 8 s for the others"), said


@pytest.mark.engine("deepspeed")
def test_a_run_that_is_told_to_stop_says_how_to_go_on(tmp_path):
    out = tmp_path / "run"
    running = start(*TRAIN, "--nproc=2", "--out", out)
    while running.poll() is None and not (out / "steps/000001/rollouts").exists():
        time.sleep(0.05)
    running.send_signal(signal.SIGUSR1)
    code, _, err = finished(running)
    assert code == 75
    assert err.count("error:") == 1 and "interrupted by SIGUSR1" in err and "rlvr train" in err
    assert "death signal" not in err


@pytest.mark.engine("deepspeed")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_run_leaves_no_process_and_goes_on_at_once(tmp_path, family):
    """Its launcher is killed while both processes train; then one of these is told to end."""
    lock = tmp_path / "run" / "_lock"
    words = [sys.executable, "-P", "-c", CODE, *TRAIN, "--nproc=2", "--out", tmp_path / "run"]

    def begun(before):
        process = family.start(words, stderr=subprocess.PIPE, text=True)
        while (held_by := locks.holder(lock)) in (None, before):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        assert len(family.members()) >= 3
        return process, held_by

    process, held_by = begun(None)
    process.kill()
    process.communicate()
    again, held_by = begun(held_by)
    assert [m.pid for m in family.members() if m.session == process.pid] == []
    os.kill(held_by.pid, signal.SIGHUP)
    _, err = again.communicate(timeout=900)
    assert again.returncode == 75
    assert "process 0 of 2 was ended by SIGHUP" in err and "rlvr train" in err
    assert family.left() == []


def test_a_port_that_is_in_use_is_said():
    position = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    code = "from rlvr_cli.runtime import distributed; distributed.start()"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, **position, "MASTER_PORT": port},
        )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("rlvr_cli.errors.UserError: process 0 of 2 cannot reach the others")
    assert port in last and "in use" in last
