"""Hostile programs: none escapes, hangs or leaves a process over, and each has its status."""

import json
import os
import runpy
import textwrap
import time
from pathlib import Path

import pytest

from rlvr_cli.protocols import Limits
from rlvr_cli.verification.sandbox import launch, seccomp
from rlvr_cli.verification.workers.pool import Pool, Task

pytestmark = pytest.mark.slow

LISTS = runpy.run_path(str(Path(__file__).with_name("attacks.py")))
IMPORTS, ESCAPES, CHEATS, EXHAUSTING = map(
    LISTS.__getitem__, ("IMPORTS", "ESCAPES", "CHEATS", "EXHAUSTING")
)
SPEC = "code:timeout_s=60.0,memory_mib=256"
HASTY = "code:timeout_s=2.0,memory_mib=256"
PATIENT = "code:timeout_s=120.0,memory_mib=256"  # on a slow machine too, memory ends first
AT_ONCE = 6
MOST_WAITING = 3  # a sandbox without a program: its server, and what bubblewrap has around it
TESTS = "WORD = 'XYLOPHON'\nassert f() == WORD"
SAFE = "WORD = 'XYLOPHON'\nassert f() == 'safe'"

needs_filter = pytest.mark.skipif(not seccomp.is_known(), reason="no filter for this machine")


@pytest.fixture(params=["bubblewrap", "unshare"], scope="module")
def sandbox(request, tmp_path_factory):
    """A pool whose programs run in a kind of sandbox, and what the machine has to lose."""
    if not launch.works(request.param):
        pytest.skip(f"{request.param} does not work here")
    host = tmp_path_factory.mktemp("host")
    (host / "secret").write_text("secret")
    temporary = tmp_path_factory.mktemp("temporary")
    settings = {"RLVR_SECRET": "1", "TMPDIR": str(temporary), launch.VARIABLE: request.param}
    with Pool(AT_ONCE, environment=settings) as pool:
        yield pool, host, temporary


def run(pool, programs, tests, spec=SPEC):
    """The verdict of each program, by name."""
    tasks = [Task(spec, text, tests, {}, Limits(150.0, 2 << 30)) for text in programs.values()]
    verdicts = dict(pool.run(tasks))
    return {name: verdicts[index] for index, name in enumerate(programs)}


def trying(body, host):
    """A program whose f says `escaped` if the attack worked."""
    attack = textwrap.indent(body.format(host=host), "    ")
    return (
        f"{IMPORTS}def attack():\n{attack}\n"
        "def f():\n    try: return 'escaped' if attack() else 'safe'\n"
        "    except Exception: return 'safe'\n"
    )


@needs_filter
def test_nothing_escapes(sandbox):
    pool, host, _ = sandbox
    verdicts = run(pool, {name: trying(body, host) for name, body in ESCAPES.items()}, SAFE)
    assert {name: v for name, v in verdicts.items() if v.correct is not True} == {}
    assert os.listdir(host) == ["secret"]
    assert not Path("~/rlvr-attack").expanduser().exists()


@needs_filter
def test_no_cheat_passes_either_where_nothing_but_the_filter_isolates():
    unsafe = {name: text for name, text in CHEATS.items() if "/tmp" not in text}
    with Pool(AT_ONCE, environment={launch.VARIABLE: "none"}) as pool:
        verdicts = run(pool, unsafe, TESTS)
    assert {n: v for n, v in verdicts.items() if (v.status, v.correct) != ("ok", False)} == {}


@needs_filter
def test_no_cheat_passes_and_each_is_simply_wrong(sandbox):
    pool, _, _ = sandbox
    verdicts = run(pool, CHEATS, TESTS)
    assert {n: v for n, v in verdicts.items() if (v.status, v.correct) != ("ok", False)} == {}
    assert all(v.reason for v in verdicts.values())


@pytest.mark.parametrize(("status", "spec"), [("timeout", HASTY), ("oom", PATIENT)])
def test_what_uses_up_a_limit_ends_there_with_its_status(sandbox, status, spec):
    pool, _, _ = sandbox
    programs = {name: text for name, (text, ends) in EXHAUSTING.items() if ends == status}
    verdicts = run(pool, programs, TESTS, spec)
    assert {v.status for v in verdicts.values()} == {status}, verdicts
    assert {v.reward for v in verdicts.values()} == {None}


def test_a_limit_that_is_used_up_is_wrong_where_one_says_so(sandbox):
    pool, _, _ = sandbox
    program = {"loop": "def f():\n    while True: pass"}
    verdict = run(pool, program, TESTS, spec="code:timeout_s=0.5,exceeding=wrong")["loop"]
    assert (verdict.status, verdict.reward, verdict.correct) == ("timeout", 0.0, False)


def test_programs_that_read_and_write(sandbox):
    pool, _, _ = sandbox
    tests = json.dumps({"inputs": ["2\n", "3\n"], "outputs": ["4\n", "6\n"]})
    programs = {
        "right": "print(int(input()) * 2)",
        "main": "if __name__ == '__main__': print(int(input()) * 2)",
        "spaces": "print('', int(input()) * 2, '\\n\\n')",
        "wrong": "print(int(input()) + 2)",
        "exit 0": "print(int(input()) * 2); raise SystemExit",
        "exit 1": "print(int(input()) * 2); raise SystemExit(1)",
        "endless output": "while True: print('x' * 9999)",
        "raises": "print(int(input()) * 2); 1/0",
        "no input": "print(4)",
        "hard exit": "import os; os._exit(0)",
        "outputs in memory": "import gc; print('6\\n' in str(gc.get_objects()) or 7)",
        "writes to stderr": "import sys; print(int(input()) * 2); print(9, file=sys.stderr)",
    }
    verdicts = run(pool, programs, tests)
    passing = [name for name, v in verdicts.items() if v.correct]
    assert passing == ["right", "main", "spaces", "exit 0", "writes to stderr"]
    assert {v.status for v in verdicts.values()} == {"ok"}


def test_no_process_and_no_file_stays_behind(sandbox):
    pool, _, temporary = sandbox
    run(pool, {"sleep": "import time\ndef f(): time.sleep(99)", "right": "f = str"}, TESTS, HASTY)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if all(len(below(worker.pid)) <= MOST_WAITING for worker in pool._workers):
            break
        time.sleep(0.02)
    assert all(len(below(worker.pid)) <= MOST_WAITING for worker in pool._workers)
    assert os.listdir(temporary) == []
    everything = below(pool._server._process.pid)
    pool.close()
    deadline = time.monotonic() + 60
    while (alive := [p for p in everything if is_alive(p)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive == []


def below(pid):
    """The processes that a process started, and what they started."""
    try:
        found = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return found + [p for child in found for p in below(child)]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
