"""Several nodes: the same bytes, and all end when one does, with a line that says which and why."""

import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.runtime import distributed, network, nodes
from rlvr_cli.runtime.nodes import NodeOptions

CODE = "from rlvr_cli.cli.app import main; main()"


@pytest.fixture(scope="module")
def two():
    """Two machines, tests/machines.py; neither knows the other's name but from its list."""
    module = runpy.run_path(str(Path(__file__).parents[1] / "machines.py"))
    if why := module["why_absent"]():
        pytest.skip(f"two machines ({why})")
    with module["Two"]() as machines:
        yield machines


@pytest.fixture
def start(two):
    """Starts a command on each of the machines, which meet on the first; killed after the test."""
    running = []

    def begin(*words, on=two, **more):
        place = f"{two[0].name}:29500"
        for machine in on:
            command = [*machine.prefix, sys.executable, "-P", "-c", CODE, *map(str, words)]
            running.append(
                subprocess.Popen(
                    [*command, "--nnodes=2", f"--rdzv-endpoint={place}"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "RLVR_TIMEOUT_S": "300", **more},
                )
            )
        return running[-len(on) :]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def ended(processes):
    """The exit code of each and what it said."""
    said = [process.communicate(timeout=500) for process in processes]
    return [(p.returncode, *texts) for p, texts in zip(processes, said, strict=True)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node1:29500", ("node1", 29500)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[fd00::1]:29500", ("fd00::1", 29500)),
    ],
)
def test_an_endpoint_is_a_name_or_an_address_and_a_port(text, place):
    assert NodeOptions(2, None, text).place() == place


@pytest.mark.parametrize("text", ["node1", "node1:", ":29500", "node1:0", "node1:65536", "node1:x"])
def test_another_endpoint_is_refused(text):
    with pytest.raises(UsageError, match="--rdzv-endpoint is") as refused:
        NodeOptions(2, None, text).place()
    assert "node1:29500" in refused.value.hint


def test_nodes_need_a_place_to_meet_and_ranks_below_their_number(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="nothing says where they meet"):
        NodeOptions(2).place()
    with pytest.raises(UsageError, match="--node-rank is 2, and --nnodes 2"):
        NodeOptions(2, 2, "node1:29500").own_rank()


def test_a_place_to_meet_whose_host_nobody_knows_is_refused_and_not_waited_for(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError, match=r"`no\.\.host`, and this machine knows no") as refused:
        nodes.Nodes(NodeOptions(2, 1, "no..host:29500"), 1).meet()
    assert "--rdzv-endpoint 10.0.0.1:29500" in refused.value.hint
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")  # where pods get their names later
    monkeypatch.setenv("RLVR_TIMEOUT_S", "1")
    with pytest.raises(UserError, match=r"did not meet at `no\.\.host:29500` within 1 s"):
        nodes.Nodes(NodeOptions(2, 1, "no..host:29500"), 1).meet()


def test_a_service_that_answers_nothing_where_the_nodes_meet_is_not_waited_for_without_a_word(
    monkeypatch,
):
    monkeypatch.setenv("RLVR_TIMEOUT_S", "1")
    monkeypatch.setattr(nodes, "_ANSWER_S", timedelta(seconds=0.5))
    with socket.create_server(("127.0.0.1", 0)) as service:
        place = f"localhost:{service.getsockname()[1]}"
        with pytest.raises(UserError, match="within 1 s: what answers there is not another node"):
            nodes.Nodes(NodeOptions(2, 1, place), 1).meet()


def test_options_of_nodes_without_their_number_are_refused(refused):
    for words in (("--rdzv-endpoint=node1:29500",), ("--node-rank=1",)):
        assert "add --nnodes" in refused(2, "train", "--steps=1", *words)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"MASTER_ADDR": "n7"}, "n7:29500"),
        ({"MASTER_ADDR": "n7", "MASTER_PORT": "1234"}, "n7:1234"),
        ({"MASTER_PORT": "1234"}, "127.0.0.1:1234"),
        ({"SLURM_STEP_NODELIST": "n1", "SLURM_JOB_ID": "7"}, "n1:15007"),
        ({"SLURM_STEP_NODELIST": "n[1-2,5]", "SLURM_JOB_ID": "7"}, "n1:15007"),
        ({"SLURM_STEP_NODELIST": "gpu[005,007-009]", "SLURM_JOB_ID": "7"}, "gpu005:15007"),
        ({"SLURM_STEP_NODELIST": "r[1-2]n[05-06].x,z", "SLURM_JOB_ID": "30007"}, "r1n05.x:15007"),
        ({"SLURM_STEP_NODELIST": "a-b,c[1-2]", "MASTER_PORT": "1"}, "a-b:1"),
        ({"SLURM_STEP_NODELIST": "a", "MASTER_ADDR": "b", "MASTER_PORT": "1"}, "b:1"),
    ],
)
def test_the_launcher_says_where_processes_meet(monkeypatch, variables, expected):
    for name in ("MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_NODELIST", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert distributed.meeting_place() == expected


@pytest.mark.parametrize(
    ("place", "gpus", "expected"),
    [((3, 8, 3, 4), 4, 3), ((5, 8, 1, 4), 4, 1), ((3, 8, 3, 4), 1, 0), ((6, 8, 6, 8), 4, None)],
)
def test_a_process_takes_the_gpu_of_its_number_or_the_only_one_that_slurm_shows_it(
    monkeypatch, place, gpus, expected
):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    world = distributed.World(*place)
    if expected is None:
        with pytest.raises(UsageError, match="process 6 of 8 is number 6 of its machine"):
            distributed._gpu(world, gpus)
    else:
        assert distributed._gpu(world, gpus) == expected


def test_processes_that_another_launcher_started_are_not_taken_for_those_of_nproc(
    refused, monkeypatch
):
    """As a pod of Kubeflow's PyTorchJob, or one task a node of srun."""
    for variables in (
        {"RANK": "0", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
    ):
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            distributed.current.cache_clear()
            said = refused(2, "train", "--steps=1", "--nproc=8")
        distributed.current.cache_clear()
        assert "--nproc is 8, and 2 processes were started already" in said
        assert "add --nnodes 2" in said


def test_the_interface_of_each_address_is_known():
    known = network.interfaces()
    assert known["127.0.0.1"] == "lo"
    assert set(known.values()) <= {name for _, name in socket.if_nameindex()}
    assert network.is_own("localhost") and not network.is_own("192.0.2.1")
    assert network.source("localhost", 1) is None and network.source("no such name", 1) is None


@pytest.mark.slow
def test_a_node_that_is_killed_ends_the_other_and_the_next_attempt_has_the_bytes_of_one_machine(
    start, two, chain, tmp_path, files_of
):
    """First the node where they meet is killed, then the other is told to end."""
    words = ["rollout", chain / "prompts", "-n4", "--max-new-tokens=16", "--prompts-per-part=3"]
    words += ["--out", tmp_path / "made"]

    def attempt(node, number):
        """Ends a node once it is at its work; the exit codes, and what was said."""
        before = {*tmp_path.glob("made/_writer-*")}
        processes = start(*words)
        while not {*tmp_path.glob("made/_writer-*")} - before:
            if any(p.poll() is not None for p in processes):
                return ended(processes)
            time.sleep(0.02)
        processes[node].send_signal(number)
        return ended(processes)

    for node, number in ((0, signal.SIGKILL), (1, signal.SIGTERM)):
        for _ in range(20):
            codes = attempt(node, number)
            if codes[1 - node][0] != 0:
                break
            shutil.rmtree(tmp_path / "made")  # the work was done before the signal came
        why = "is gone" if number == signal.SIGKILL else "was interrupted by SIGTERM"
        code, _, said = codes[1 - node]
        assert code == 75 and said.count("error:") == 1, said
        assert f"node {node} (`{two[node].name}`) {why}" in said
        assert "resume with `rlvr rollout" in said
    codes = ended(start(*words))
    assert [code for code, _, _ in codes] == [0, 0], codes
    assert [out for _, out, _ in codes] == [f"{tmp_path / 'made'}\n", ""]
    made, expected = files_of(tmp_path / "made"), files_of(chain / "rollouts")
    assert made.keys() == expected.keys()
    assert all(made[name] == expected[name] for name in made if name.startswith("part-"))
