"""One sandbox for many programs: what one leaves, the next does not find."""

import contextlib
import os
import signal
import textwrap
import threading
import time
from pathlib import Path

import pytest

from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.sandbox.packages import Packages
from rlvr_cli.verification.sandbox.process import Sandbox

pytestmark = pytest.mark.slow

SERVER = {"bubblewrap": 3, "unshare": 2, "none": 1}  # processes, those around it included
LIMITS = {"seconds": 60.0, "memory_bytes": 1 << 28, "file_bytes": 1 << 20, "output_bytes": 1 << 20}


@pytest.fixture(params=launch.KINDS)
def sandbox(request):
    if not launch.works(request.param):
        pytest.skip(f"{request.param} does not work here")
    with Sandbox(request.param, Packages()) as started:
        yield started


def run(sandbox, program, tests="assert f() == 'WORD'", seconds=60.0):
    job = {"program": textwrap.dedent(program), "style": "tests", **LIMITS}
    return sandbox.run(job, {"tests": tests, "prompt": "", "entry_point": "f"}, seconds)


def below(sandbox):
    """The processes of a sandbox."""
    waiting, found = [sandbox._process.pid], []
    while waiting:
        found.append(pid := waiting.pop())
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:
            continue
        waiting += [int(child) for child in children.split()]
    return found


def is_alone(sandbox):
    """Whether a sandbox comes to have no process but its server within seconds."""
    deadline = time.monotonic() + 60
    while len(below(sandbox)) > SERVER[sandbox._kind] and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(below(sandbox)) == SERVER[sandbox._kind]


def kill(processes):
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has_ended(pid):
    """Whether a process ends within seconds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


LEAVES = {
    "files": "import os\nfor n in range(99): open(f'{n}', 'w').write('x')\nos.mkdir('d')",
    "files of no rights": "import os\nos.makedirs('a/b')\nopen('a/b/c', 'w')\nos.chmod('a/b', 0)\n"
    "os.chmod('a', 0)\nos.chmod('.', 0)",
    "deep folders": "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')",
    "an attribute": "import os\nos.setxattr('.', 'user.x', b'1')",
    "a link": "import os\nos.symlink('/', 'l')",
    "times": "import os\nos.utime('.', (1, 1))",
    "modules": "import json, sys\njson.dumps = json.loads = None\nsys.modules['math'] = json\n"
    "sys.modules['left'] = json\nsys.path.insert(0, '.')",
    "built-ins": "import builtins\nbuiltins.left = builtins.len = builtins.isinstance = None",
    "an environment": "import os\nos.environ['left'] = '1'\nos.umask(0o777)",
    "flags of files": "import fcntl, os\nfor n in range(3): fcntl.fcntl(n, 4, os.O_NONBLOCK)",
    "a limit": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    "a handler": "import signal\nfor n in (2, 10, 14, 15, 24): signal.signal(n, signal.SIG_IGN)",
    "a thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()",
    "a session": "import os, threading, time\ntry: os.setsid()\nexcept OSError: pass\n"
    "threading.Thread(target=time.sleep, args=(99,)).start()",
    "an exit handler": "import atexit, time\natexit.register(time.sleep, 99)",
    "a hook": "import sys\nsys.addaudithook(lambda *a: 1/0)",
    "a trace": "import sys, threading\nsys.settrace(lambda *a: 1/0)",
    "a recursion limit": "import sys\nsys.setrecursionlimit(50)",
    "a seed": "import random\nrandom.seed(1)",
    "a locale": "import locale\nlocale.setlocale(locale.LC_ALL, 'C')",
    "a mask of signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))",
    "a lock of a file": "import fcntl, os\nfcntl.flock(os.open(os.__file__, 0), fcntl.LOCK_EX)",
    "its end": "import os\nos._exit(0)",
    "its memory": "x = []\nwhile True: x.append(bytearray(1 << 22))",
    "its time": "while True: pass",
}

LOOKS = """
import builtins, fcntl, json, math, os, random, resource, signal, stat, sys, threading

def f():
    found = [name for name in ("left", "x") if name in sys.modules or hasattr(builtins, name)]
    found += os.listdir(".") + list(os.environ) + os.listxattr(".")
    found += [n for n in range(3) if fcntl.fcntl(n, 3) & os.O_NONBLOCK]
    found += ["time"] if os.stat(".").st_mtime < 1e9 else []
    found += ["mode"] if not os.stat(".").st_mode & stat.S_IWUSR else []
    found += ["math"] if math.sqrt(4) != 2 or json.loads("[1]") != [1] else []
    found += ["threads"] * (threading.active_count() - 1)
    found += ["limit"] if sys.getrecursionlimit() < 900 else []
    found += ["limit"] if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 64 else []
    found += ["handler"] if signal.getsignal(15) != signal.SIG_DFL else []
    found += signal.pthread_sigmask(signal.SIG_BLOCK, [])
    random.seed()
    fcntl.flock(os.open(os.__file__, 0), fcntl.LOCK_EX)  # one that is kept is waited for in vain
    return str(found)
"""


def test_nothing_that_a_program_leaves_is_there_for_the_next(sandbox):
    assert run(sandbox, LOOKS, "assert f() == '[]', f()") == {"passed": True}
    passed = {}
    for name, program in LEAVES.items():
        run(sandbox, f"{program}\ndef f(): return 'WORD'", seconds=2.0)
        assert is_alone(sandbox), name
        passed[name] = run(sandbox, LOOKS, "assert f() == '[]', f()")
    assert passed == {name: {"passed": True} for name in LEAVES}


SEARCHES = """
import ctypes, os
libc = ctypes.CDLL(None)
source, sink = os.pipe()
made = ["".join(["MA", "RK", "ED"]) * 3 for _ in range(9)]

def f():
    "The pages of this process that hold a word, read backwards so that the search finds no copy."
    seen, step = set(), 4096
    for near in [id(made[0]), id(f), id(libc), id(ctypes), id(None), id(os.environ)]:
        first = near // step * step
        for place in range(first - 3000 * step, first + 3000 * step, step):
            if libc.write(sink, ctypes.c_void_p(place), step) == step:  # else it is not mapped
                text = os.read(source, step)[::-1]
                seen |= {word for word in (b"DEKRAM", b"NOHPOLYX") if word in text}
    return sorted(seen)
"""


def test_no_test_of_this_or_an_earlier_program_is_in_the_memory_of_one(sandbox):
    tests = "WORD = 'XYLOPHON' * 99\nassert f() == [b'DEKRAM'], f()"
    for _ in range(3):
        assert run(sandbox, SEARCHES, tests) == {"passed": True}


def test_a_sandbox_that_dies_costs_the_program_that_it_was_at_and_no_other(sandbox):
    assert run(sandbox, "def f(): return 'WORD'") == {"passed": True}
    outcome = []
    program = "import time\ndef f(): time.sleep(60)"
    thread = threading.Thread(target=lambda: outcome.append(run(sandbox, program, seconds=30.0)))
    assert is_alone(sandbox)
    thread.start()
    while len(below(sandbox)) <= SERVER[sandbox._kind]:
        time.sleep(0.01)
    kill(below(sandbox))
    thread.join()
    assert outcome == [{"status": "error", "reason": "the sandbox died with the program"}]
    assert run(sandbox, "def f(): return 'WORD'") == {"passed": True}


def test_a_sandbox_that_died_while_it_waited_is_started_again(sandbox):
    assert run(sandbox, "def f(): return 'WORD'") == {"passed": True}
    processes = below(sandbox)
    kill(processes)
    assert all(has_ended(pid) for pid in processes)
    assert run(sandbox, "def f(): return 'WORD'") == {"passed": True}


def test_the_next_program_after_a_time_out_has_all_of_its_time(sandbox):
    for _ in range(3):
        assert run(sandbox, "while True: pass", seconds=0.3) == {"status": "timeout"}
        assert run(sandbox, "def f(): return 'WORD'") == {"passed": True}


def test_sets_of_text_have_one_order_and_chance_is_chance(sandbox):
    order = "def f(): return str({'a', 'b', 'c', 'd', 'e'})"
    chance = "import random\ndef f(): return random.random()"
    answers = {run(sandbox, order, "assert f() == 0, f()")["reason"] for _ in range(3)}
    assert len(answers) == 1
    answers = {run(sandbox, chance, "assert f() == 0, f()")["reason"] for _ in range(3)}
    assert len(answers) == 3


def test_a_sandbox_that_is_closed_leaves_no_process(sandbox):
    run(sandbox, "def f(): return 'WORD'")
    processes = below(sandbox)
    sandbox.close()
    assert all(has_ended(pid) for pid in processes)
