"""Worker processes: each fault is one task's, and no process is left over."""

import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvr_cli.protocols import Limits, Verdict
from rlvr_cli.specs import trust
from rlvr_cli.verification.workers import pool as pools
from rlvr_cli.verification.workers.pool import Pool, Task

pytestmark = pytest.mark.slow

TOYS = f"custom:path={Path(__file__).with_name('toys.py')},function=verify"
LIMITS = Limits(seconds=2.0, memory_bytes=1 << 30)


def task(words, answer="a", limits=LIMITS):
    return Task(TOYS, words, answer, {}, limits)


def run(pool, *words, limits=LIMITS):
    """The verdicts of toys, in order; each comes once."""
    answers = list(pool.run([task(w, limits=limits) for w in words]))
    assert sorted(index for index, _ in answers) == list(range(len(words)))
    return [verdict for _, verdict in sorted(answers, key=lambda pair: pair[0])]


@pytest.fixture(scope="module", autouse=True)
def _trusted():
    with trust.trusting(trust.Named([Path(__file__).with_name("toys.py")])):
        yield


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


def test_a_module_that_loads_for_longer_than_a_verdict_may_take_is_loaded_beforehand(tmp_path):
    """Its first use is a time-out; a task that hangs anyway is one, and is tried twice at most."""
    (tmp_path / "of_a_slow_disk.py").write_text("import time; time.sleep(4)")
    slow = {"environment": {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}}
    words = ("say a", "load of_a_slow_disk", "say b", "sleep", "load of_a_slow_disk")
    with Pool(2, late_imports=["of_a_slow_disk"], **slow) as pool:
        statuses = [verdict.status for verdict in run(pool, *words)]
    assert statuses == ["ok", "ok", "ok", "timeout", "ok"]
    with Pool(2, **slow) as pool:
        assert [verdict.status for verdict in run(pool, *words[:2])] == ["ok", "timeout"]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


FAULTS = {
    "raise": ("error", "ValueError: no luck with a"),
    "exit 3": ("error", "its process ended with exit code 3"),
    "exit 0": ("error", "its process ended with exit code 0"),
    "leave": ("error", "SystemExit: 0"),
    "crash": ("error", "its process died of SIGSEGV"),
    "killed": ("oom", "killed by the kernel, as it does when memory is short"),
    "memory": ("oom", None),
    "deep": ("error", "RecursionError: maximum recursion depth exceeded"),
    "close": ("error", "its process closed the socket of its results"),
    "return None": ("error", "it returned None, no reward"),
    "return float('nan')": ("error", "its reward nan is not from 0 to 1; say range=[LOW,HIGH]"),
    "return 2": ("error", "its reward 2.0 is not from 0 to 1; say range=[LOW,HIGH]"),
    "return 'x' * 500": ("error", "it returned '" + "x" * 76 + "..., no reward"),
    "unknown": ("error", "KeyError: 'unknown'"),
    "spin": ("timeout", None),
    "sleep": ("timeout", None),
}


def test_each_fault_has_its_status_and_costs_no_other_task(pool):
    words = [w for fault in FAULTS for w in ("say a", fault, "say b")]
    verdicts = run(pool, *words)
    assert verdicts[0::3] == [Verdict("ok", 1.0, True)] * len(FAULTS)
    assert verdicts[2::3] == [Verdict("ok", 0.0, False)] * len(FAULTS)
    for fault, verdict in zip(FAULTS, verdicts[1::3], strict=True):
        text = verdict.reason and re.sub(r" \(toys\.py line \d+\)$", "", verdict.reason)
        assert (verdict.status, verdict.reward, text) == (FAULTS[fault][0], None, FAULTS[fault][1])


def test_an_orphan_in_a_session_of_its_own_is_killed_with_its_worker(tmp_path):
    with Pool(1) as pool:
        assert run(pool, f"orphan {tmp_path}/pid")[0].correct is True
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
        assert is_alive(pid)
    assert not is_alive(pid)


def test_what_a_verifier_prints_is_no_result(pool, capfd):
    assert run(pool, "print")[0].correct is True
    assert capfd.readouterr().out == ""


def test_hanging_tasks_cost_the_others_nothing():
    limit, size, hanging, work = 2.0, 2, 4, 400
    words = ["sleep" if i % (work // hanging) == 3 else "say a" for i in range(work)]
    with Pool(size) as pool:
        run(pool, "say a")
        start = time.monotonic()
        verdicts = run(pool, *words, limits=Limits(limit, 1 << 30))
        seconds = time.monotonic() - start
    assert [v.status for v in verdicts].count("timeout") == hanging
    assert [v.correct for v in verdicts].count(True) == work - hanging
    assert seconds >= limit * hanging / size


def test_the_clock_of_a_task_starts_when_its_process_takes_it_up(pool):
    """Sixty tasks of 0.1 s on two processes take three times the limit of one."""
    run(pool, "say a", "say a")  # both have loaded the verifier
    words = ["return __import__('time').sleep(0.1) or 1"] * 60
    verdicts = run(pool, *words, limits=Limits(1.0, 1 << 30))
    assert {v.status for v in verdicts} == {"ok"}


def test_the_clock_stands_still_while_others_have_the_cores():
    """Twelve tasks of 0.4 s of computing on at most as many processes, with a limit of 0.7 s."""
    words = ["compute 0.4"] * 12
    with Pool(12) as pool:
        run(pool, *["say a"] * 12)  # each has loaded the verifier
        verdicts = run(pool, *words, limits=Limits(0.7, 1 << 30))
    assert {v.status for v in verdicts} == {"ok"}


def test_an_answer_that_comes_while_the_clock_is_looked_at_is_no_time_out(monkeypatch):
    def look(worker, seconds):
        select.select([worker.channel], [], [], 120)  # as long as another has the core
        return starved(worker, seconds)

    starved = pools._starved
    monkeypatch.setattr(pools, "_starved", look)
    with Pool(1) as pool:
        run(pool, "say a")
        words = "return __import__('time').sleep(0.5) or 1"
        assert run(pool, words, limits=Limits(0.1, 1 << 30)) == [Verdict("ok", 1.0, True)]


def test_a_process_is_replaced_after_so_many_tasks():
    with Pool(1, recycle=3) as pool:
        pids = [v.extracted for v in run(pool, *["pid"] * 10)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 3, 1]


def test_a_large_task_that_nobody_reads_blocks_no_one(pool):
    verdicts = run(pool, "sleep", *[f"say {'x' * 500_000}"] * 6, "say a")
    assert [v.status for v in verdicts] == ["timeout"] + ["ok"] * 7


def test_strange_text_arrives_as_it_was_sent(pool):
    text = "\x00\ud800\U0001f600\u2028\n"
    ((index, verdict),) = pool.run([task(f"say {text}", answer=text)])
    assert (index, verdict.correct) == (0, True)


def test_no_process_is_started_before_a_task_comes_nor_left_when_it_closes():
    pool = Pool(2)
    assert pool._server is None
    run(pool, "say a")
    server = pool._server._process.pid
    workers = [worker.pid for worker in pool._workers]
    pool.close()
    assert not any(map(is_alive, [server, *workers]))
    pool.close()


def test_a_broken_off_run_leaves_no_process():
    pool = Pool(2)
    answers = pool.run([task("say a"), task("sleep"), task("sleep")])
    next(answers)
    workers = [worker.pid for worker in pool._workers]
    answers.close()
    assert not any(map(is_alive, workers))


def test_a_process_that_replaces_a_hanging_one_has_not_the_whole_time_of_the_first_load():
    limits = Limits(seconds=0.5, memory_bytes=1 << 30, first_seconds=100_000.0)
    with Pool(1) as pool:
        verdicts = run(pool, "say a", "sleep 9999", "sleep 9999", limits=limits)
    assert [verdict.status for verdict in verdicts] == ["ok", "timeout", "timeout"]


@pytest.mark.parametrize("number", ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"])
def test_a_signal_to_all_processes_of_a_job_is_no_verdict(pool, number):
    """The command ends them if it ends; what a verifier starts is ended by it all the same."""
    kill = f"__import__('os').kill(__import__('os').get{{}}(), __import__('signal').{number})"
    child = "(lambda p: (p.send_signal(15), p.wait())[1] == -15)"
    child += "(__import__('subprocess').Popen(['sleep', '600']))"
    words = [f"return {kill.format(who)} or 1" for who in ("pid", "ppid")]
    verdicts = run(pool, *words, f"return {child}", "say a")
    assert verdicts == [Verdict("ok", 1.0, True)] * 4


@pytest.mark.parametrize("fork", [True, False])
def test_they_die_with_the_process_that_started_them(family, fork):
    """Killed while a verifier sleeps; a fork of it holds its descriptors and does not matter."""
    code = (
        "import os, sys, time\n"
        "from rlvr_cli.protocols import Limits\n"
        "from rlvr_cli.specs import trust\n"
        "from rlvr_cli.verification.workers.pool import Pool, Task\n"
        f"limits, spec = Limits(600.0, 1 << 30), {TOYS!r}\n"
        f"toys = trust.Named([{str(Path(TOYS[12:].split(',')[0]))!r}])\n"
        "with trust.trusting(toys), Pool(2) as pool:\n"
        "    tasks = [Task(spec, w, 'a', {}, limits) for w in ('say a', 'sleep', 'sleep')]\n"
        "    for _ in pool.run(tasks):\n"
        f"        if {fork} and not os.fork():\n"
        "            os.setsid()\n"
        "            time.sleep(600)\n"
        "            os._exit(0)\n"
        "        print('judged', flush=True)\n"
    )
    words = [sys.executable, "-P", "-c", code]
    process = family.start(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "judged\n"
    while len(family.members()) < 4 + fork:  # itself, the one that forks, two workers
        time.sleep(0.02)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while len(left := family.members()) > fork and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(left) == fork
