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
SPEC = "code:timeout_s=6.0,memory_mib=256"
HASTY = "code:timeout_s=2.0,memory_mib=256"
AT_ONCE = 6
TESTS = "WORD = 'XYLOPHON'\nassert f() == WORD"
SAFE = "WORD = 'XYLOPHON'\nassert f() == 'safe'"

needs_filter = pytest.mark.skipif(not seccomp.is_known(), reason="no filter for this machine")


@pytest.fixture(scope="module", params=["bubblewrap", "unshare"])
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
    tasks = [Task(spec, text, tests, {}, Limits(30.0, 2 << 30)) for text in programs.values()]
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
def test_no_cheat_passes_and_each_is_simply_wrong(sandbox):
    pool, _, _ = sandbox
    verdicts = run(pool, CHEATS, TESTS)
    assert {n: v for n, v in verdicts.items() if (v.status, v.correct) != ("ok", False)} == {}
    assert all(v.reason for v in verdicts.values())


def test_what_uses_up_a_limit_ends_there_with_its_status(sandbox):
    pool, _, _ = sandbox
    verdicts = run(pool, {name: text for name, (text, _) in EXHAUSTING.items()}, TESTS, HASTY)
    expected = {name: (status, None) for name, (_, status) in EXHAUSTING.items()}
    assert {name: (v.status, v.reward) for name, v in verdicts.items()} == expected


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
    server = pool._server._process.pid
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        started = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        mine = {str(worker.pid) for worker in pool._workers}
        below = [p for w in mine for p in Path(f"/proc/{w}/task/{w}/children").read_text().split()]
        if set(started) <= mine and not below:
            break
        time.sleep(0.02)
    assert set(started) <= mine and not below
    assert os.listdir(temporary) == []
