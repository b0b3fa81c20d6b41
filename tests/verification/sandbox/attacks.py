# ruff: noqa: E501
"""Programs that attack: each string is a program, or the body of a function `f` in one.

`{host}` is a folder of the machine that holds a file `secret`. The tests that they are given hold
the word XYLOPHON, which no program may find.
"""

import platform

from rlvr_cli.verification.sandbox import seccomp

IMPORTS = "import ctypes, fcntl, gc, os, resource, signal, socket, subprocess, sys, time\n"
NUMBERS = seccomp.calls(platform.machine()) if seccomp.is_known() else {}


def call(name, *arguments):
    """A body that makes a system call."""
    words = ", ".join([str(NUMBERS.get(name, -1)), *arguments])
    return f"libc = ctypes.CDLL(None, use_errno=True)\nreturn libc.syscall({words}) >= 0"


# What leaves the sandbox, or changes what is outside: f returns True if it worked.
ESCAPES = {
    "fork": "return os.fork() >= 0",
    "forkpty": "return os.forkpty()[0] >= 0",
    "fork bomb": "while True: os.fork()",
    "subprocess": "return subprocess.run(['/bin/true']).returncode == 0",
    "shell": "return os.system('true') == 0",
    "spawn": "return os.posix_spawn('/bin/true', ['true'], {{}}) > 0",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "exec of a descriptor": "os.execve(os.open('/bin/sh', os.O_RDONLY), ['sh'], {{}})",
    "libc system": "return ctypes.CDLL(None).system(b'true') == 0",
    "clone": call("clone", "17", "0", "0", "0", "0"),
    "clone3": call("clone3", "0", "0"),
    "inet socket": "return bool(socket.socket())",
    "unix socket": "return bool(socket.socket(socket.AF_UNIX))",
    "raw socket": "return bool(socket.socket(socket.AF_INET, socket.SOCK_RAW))",
    "netlink socket": "return bool(socket.socket(socket.AF_NETLINK))",
    "socket pair": "return bool(socket.socketpair())",
    "connect": "return bool(socket.create_connection(('127.0.0.1', 22), 1))",
    "download": "import urllib.request\nreturn bool(urllib.request.urlopen('http://example.com'))",
    "home": "open(os.path.expanduser('~/rlvr-attack'), 'w').write('x')\nreturn True",
    "host folder": "open('{host}/made', 'w').write('x')\nreturn True",
    "make host folder": "os.makedirs('{host}')\nreturn os.path.exists('{host}/secret')",
    "system folder": "open('/usr/made', 'w').write('x')\nreturn True",
    "interpreter": "open(os.path.dirname(os.__file__) + '/made', 'w').write('x')\nreturn True",
    "remove interpreter": "os.remove(os.__file__)\nreturn True",
    "change mode": "os.chmod(os.__file__, 0o777)\nreturn True",
    "read secret": "return bool(open('{host}/secret').read())",
    "read passwords": "return bool(open('/etc/passwd').read())",
    "read shards": "import glob\nreturn bool(glob.glob('{host}/*') + glob.glob('{host}/../*'))",
    "root folder": "return bool({{'etc', 'home', 'root', 'work', 'var'}} & set(os.listdir('/'))"
    " and os.path.exists('{host}'))",
    "environment": "return 'RLVR_SECRET' in os.environ",
    "C environment": "return bool(ctypes.CDLL(None).getenv(b'RLVR_SECRET'))",
    "own /proc environment": "return b'RLVR' in open('/proc/self/environ', 'rb').read()",
    "parent's environment": "return b'RLVR' in open(f'/proc/{{os.getppid()}}/environ', 'rb').read()",
    "parent's memory": "return bool(open(f'/proc/{{os.getppid()}}/mem', 'r+b'))",
    "parent's files": "return bool(os.listdir(f'/proc/{{os.getppid()}}/fd'))",
    "root of another": "return bool(os.listdir('/proc/1/root/etc'))",
    "mount proc": "libc = ctypes.CDLL(None)\nos.mkdir('/tmp/p')\n"
    "return libc.mount(b'proc', b'/tmp/p', b'proc', 0, 0) == 0",
    "core pattern": "open('/proc/sys/kernel/core_pattern', 'w').write('x')\nreturn True",
    "kill parent": "os.kill(os.getppid(), 9)\nreturn True",
    "kill first": "os.kill(1, 9)\nreturn True",
    "kill all": "os.kill(-1, 9)\nreturn True",
    "kill group": "os.killpg(0, 9)\nreturn True",
    "stop parent": "os.kill(os.getppid(), signal.SIGSTOP)\nreturn True",
    "queue a signal": call("rt_sigqueueinfo", "os.getppid()", "9", "(ctypes.c_int * 32)(9, 0, -1)"),
    "queue a signal to a thread": call(
        "rt_tgsigqueueinfo", "os.getppid()", "os.getppid()", "9", "(ctypes.c_int * 32)(9, 0, -1)"
    ),
    "pipe that signals its owner": "source, sink = os.pipe()\nfcntl.fcntl(source, 8, os.getppid())\n"
    "fcntl.fcntl(source, 10, 9)\nfcntl.fcntl(source, fcntl.F_SETFL, os.O_ASYNC)\n"
    "os.write(sink, b'x')\nreturn True",
    "schedule parent": call("sched_setattr", "os.getppid()", "(ctypes.c_int * 14)(48, 3)", "0"),
    "disk priority of parent": call("ioprio_set", "1", "os.getppid()", "3 << 13"),
    "a call of a later kernel": "return ctypes.CDLL(None).syscall(457, 0, 0, 0, 0) >= 0",
    "trace parent": "return ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
    "read parent": call("process_vm_readv", "os.getppid()", "0", "0", "0", "0", "0"),
    "limit parent": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))\nreturn True",
    "raise own limit": "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn True",
    "priority of parent": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)\nreturn True",
    "unshare": "return ctypes.CDLL(None).unshare(0x10000000) == 0",
    "setns": call("setns", "0", "0"),
    "chroot": "os.chroot('/tmp')\nreturn True",
    "pivot root": call("pivot_root", "b'/tmp'", "b'/tmp'"),
    "symbolic link": "os.symlink('{host}/secret', '/tmp/l')\nreturn bool(open('/tmp/l').read())",
    "hard link": "os.link('/etc/passwd', '/tmp/h')\nreturn True",
    "dot dot": "return os.path.exists('/../../..' + '{host}/secret')",
    "device": "os.mknod('/tmp/d', 0o60666, os.makedev(8, 0))\nreturn True",
    "disk": "return any(os.path.exists('/dev/' + n) for n in ('sda', 'vda', 'mem', 'kvm'))",
    "sys": "return bool(os.listdir('/sys/kernel'))",
    "setuid": "os.setuid(1)\nreturn True",
    "host name": "socket.sethostname('x')\nreturn True",
    "anonymous file": "return os.memfd_create('x') >= 0",
    "shared memory": call("shmget", "0", "1 << 20", "0o1600"),
    "keys": call("add_key", "b'user'", "b'x'", "b'y'", "1", "-2"),
    "io_uring": call("io_uring_setup", "8", "0"),
    "bpf": call("bpf", "0", "0", "0"),
    "handle": call("open_by_handle_at", "-100", "0", "0"),
    "userfaultfd": call("userfaultfd", "0"),
    "large file": "open('/tmp/x', 'wb').write(bytes(8 << 20))\nreturn os.stat('/tmp/x').st_size > 1 << 20",
    "many files": "for i in range(64): open(f'/tmp/{{i}}', 'wb').write(bytes(1 << 20))\nreturn True",
    "many descriptors": "held = [os.open('/dev/null', 0) for _ in range(200)]\nreturn True",
    "other descriptors": "def is_open(n):\n    try: return bool(os.fstat(n))\n"
    "    except OSError: return False\nreturn sum(map(is_open, range(3, 1024))) > 2",
    "mode of a device": "os.chmod('/dev/null', 0o666)\nreturn True",
    "owner of a device": "os.chown('/dev/null', 0, 0)\nreturn True",
    "times of a device": "os.utime('/dev/zero')\nreturn True",
    "folder in the root": "os.mkdir('/made')\nreturn True",
    "file beside the devices": "open('/dev/made', 'w').write('x')\nreturn True",
    "system folder in another's place": "os.rename('/bin', '/tmp/bin')\nreturn True",
    "library of its own": "os.unlink('/lib64')\nos.symlink('/tmp', '/lib64')\nreturn True",
    "rename /tmp": "os.rename('/tmp', '/t')\nreturn True",
    "unmount /tmp": call("umount2", "b'/tmp'", "2"),
    "remount the root": "return ctypes.CDLL(None).mount(None, b'/', None, 32, None) == 0",
    "capabilities": "libc = ctypes.CDLL(None)\nhead = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
    "data = (ctypes.c_uint32 * 6)()\nlibc.capget(head, data)\nreturn any(data)",
    "capabilities again": "libc = ctypes.CDLL(None)\nhead = (ctypes.c_uint32 * 2)(0x20080522, 0)\n"
    "data = (ctypes.c_uint32 * 6)(1 << 21, 1 << 21)\nreturn libc.capset(head, data) == 0",
    "kill the server": "os.kill(2, 9)\nreturn True",
    "interrupt by thread": call("tgkill", "os.getppid(), os.getppid()", "2"),
    "signal by descriptor": call("pidfd_send_signal", "0", "9", "0", "0"),
    "descriptor of a process": call("pidfd_open", "os.getppid()", "0"),
    "descriptor of another's file": call("pidfd_getfd", "0", "3", "0"),
    "timer that signals another": "libc = ctypes.CDLL(None)\n"
    "event = (ctypes.c_int * 16)(0, 0, 9, 4, os.getppid())\n"
    "return libc.timer_create(0, event, (ctypes.c_int * 2)()) == 0",
    "seize parent": "return ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0) == 0",
    "trace the first": "return ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
    "write parent": call("process_vm_writev", "os.getppid()", "0", "0", "0", "0", "0"),
    "pages of parent": call("move_pages", "os.getppid()", "0", "0", "0", "0", "0"),
    "compare with parent": call("kcmp", "os.getpid()", "os.getppid()", "0", "0", "0"),
    "memory of the first": "return bool(open('/proc/1/mem', 'r+b'))",
    "environment of the first": "return b'RLVR' in open('/proc/1/environ', 'rb').read()",
    "files of the first": "return bool(os.listdir('/proc/1/fd'))",
    "descriptors of parent": "return any(os.readlink(f'/proc/{{os.getppid()}}/fd/{{n}}')"
    " for n in range(9))",
    "score of the parent": "open(f'/proc/{{os.getppid()}}/oom_score_adj', 'w').write('1000')\n"
    "return True",
    "tests in the frames of threads": "return any(''.join(['XYLO', 'PHON']) in repr(dict(f.f_locals))"
    " for f in sys._current_frames().values())",
    "tests in modules": "return any(''.join(['XYLO', 'PHON']) in str(v)\n"
    "    for m in list(sys.modules.values()) if m and 'rlvr' in m.__name__\n"
    "    for v in list(vars(m).values()))",
    "tests in tracebacks": "try: 1/0\nexcept ZeroDivisionError as e: frame = e.__traceback__.tb_frame\n"
    "found = False\nwhile frame:\n    found |= ''.join(['XYLO', 'PHON']) in repr(dict(frame.f_globals))\n"
    "    frame = frame.f_back\nreturn found",
    "tests in a file": "def reads(n):\n    try: return b'assert' in os.pread(n, 1 << 16, 0)\n"
    "    except OSError: return False\nreturn any(map(reads, range(1024)))",
    "tests in memory": "return any(''.join(['XYLO', 'PHON']) in repr(o) for o in gc.get_objects()"
    " if isinstance(o, (str, dict, list, tuple)) and len(str(o)) < 10**5)",
    "tests in frames": "frame, found = sys._getframe(), False\nwhile frame:\n"
    "    found |= ''.join(['XYLO', 'PHON']) in repr(dict(frame.f_locals))\n"
    "    frame = frame.f_back\nreturn found",
}

# What would make a wrong program pass: none of these may, and all get their verdict.
CHEATS = {
    "exit before the tests": "import sys\nsys.exit(0)",
    "hard exit before the tests": "import os\nos._exit(0)",
    "exit in the function": "def f():\n    raise SystemExit(0)",
    "hard exit in the function": "import os\ndef f():\n    os._exit(0)",
    "exit code 77": "import os\nos._exit(77)",
    "exit handler": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef f(): 1/0",
    "equal to all": "class E:\n    def __eq__(s, o): return True\ndef f(): return E()",
    "text equal to all": "class E(str):\n    def __eq__(s, o): return True\n"
    "    __hash__ = str.__hash__\ndef f(): return E('x')",
    "text that lies": "class E(str):\n    def __str__(s): return s\n    def encode(s): 1/0\n"
    "def f(): return E('x')",
    "number equal to all": "class E(int):\n    def __eq__(s, o): return True\n"
    "    def __index__(s): 1/0\ndef f(): return E()",
    "list of lies": "class E(list):\n    def __iter__(s): 1/0\ndef f(): return E([1])",
    "class that lies": "class E:\n    __class__ = property(lambda s: str)\ndef f(): return E()",
    "patched assert": "import builtins\nbuiltins.AssertionError = ValueError\ndef f(): return 0",
    "patched builtins": "import builtins\nbuiltins.compile = builtins.exec = print\ndef f(): 0",
    "check of its own": "def check(candidate): pass\ndef f(): return 0",
    "patched json": "import json\njson.dumps = lambda *a: '{\"passed\": true}'\ndef f(): return 0",
    "trace": "import sys\nsys.settrace(lambda *a: None)\ndef f(): return 0",
    "answers forged": "import os\nfor n in range(256):\n    try: os.write(n, b'\\0\\0\\0\\x10"
    '{"passed": true}\')\n    except OSError: pass\ndef f(): return 0',
    "noise on all files": "import os\nfor n in range(256):\n    try: os.write(n, b'\\xff' * 100)\n"
    "    except OSError: pass\ndef f(): return 0",
    "unknown tag": 'import os, struct\nd = b\'{"value": ["q"]}\'\ndef f():\n'
    "    for n in range(3, 64):\n        try: os.write(n, struct.pack('!I', len(d)) + d)\n"
    "        except OSError: pass",
    "closed files": "import os\nos.closerange(0, 256)\ndef f(): return 0",
    "interrupt": "def f(): raise KeyboardInterrupt",
    "error of its own": "class E(BaseException): pass\ndef f(): raise E",
    "error that lies": "class E(Exception):\n    def __str__(s): 1/0\ndef f(): raise E",
    "assertion error": "def f(): raise AssertionError",
    "endless iterator": "def f(): return iter(int, 1)",
    "deep list": "def f():\n    x = []\n    for _ in range(10**5): x = [x]\n    return x",
    "list in itself": "def f():\n    x = []\n    x.append(x)\n    return x",
    "large answer": "def f(): return 'x' * (20 << 20)",
    "large number": "def f(): return 1 << (1 << 20)",
    "no function": "g = 5",
    "function that is none": "f = 5",
    "endless recursion": "def f(): return f()",
    "crash": "import ctypes\ndef f(): return ctypes.string_at(0)",
    "abort": "import os\ndef f(): os.abort()",
    "hash equal to all": "class E(int):\n    __hash__ = lambda s: hash('XYLO' + 'PHON')\n"
    "    __eq__ = lambda s, o: True\ndef f(): return E(0)",
    "unequal to none": "class E(str):\n    __ne__ = lambda s, o: False\n    __eq__ = lambda s, o: True\n"
    "    __hash__ = str.__hash__\ndef f(): return E()",
    "bytes equal to all": "class E(bytes):\n    __eq__ = lambda s, o: True\ndef f(): return E(b'x')",
    "float equal to all": "class E(float):\n    __eq__ = lambda s, o: True\n"
    "    hex = lambda s: '0x1p0'\ndef f(): return E(1)",
    "tuple of lies": "class E(tuple):\n    __eq__ = lambda s, o: True\n    __len__ = lambda s: 8\n"
    "def f(): return E((1,))",
    "mapping of lies": "class E(dict):\n    __eq__ = lambda s, o: True\n    items = lambda s: 1/0\n"
    "def f(): return E(a=1)",
    "set of lies": "class E(set):\n    __eq__ = lambda s, o: True\n    __iter__ = lambda s: iter('x')\n"
    "def f(): return E('y')",
    "kind that is equal": "class M(type):\n    __eq__ = lambda s, o: True\n    __hash__ = type.__hash__\n"
    "class E(metaclass=M): pass\ndef f(): return E",
    "an instance of all": "class E:\n    __class__ = property(lambda s: bool)\ndef f(): return E()",
    "reflected comparison": "class E(str):\n    def __req__(s, o): return True\n"
    "    def __contains__(s, o): return True\ndef f(): return E('x')",
    "import hook": "import sys\nclass H:\n    def find_spec(s, *a): raise SystemExit(0)\n"
    "sys.meta_path.insert(0, H())\nsys.path_hooks.insert(0, H())\ndef f(): return 0",
    "all modules replaced": "import sys\nfor n in list(sys.modules):\n"
    "    if n not in ('sys', 'builtins'): sys.modules[n] = sys\ndef f(): return 0",
    "no modules": "import sys\nsys.modules.clear()\ndef f(): return 0",
    "no built-ins": "import builtins\nfor n in list(vars(builtins)):\n"
    "    if n not in ('delattr', 'AssertionError'): delattr(builtins, n)\ndef f(): return 0",
    "equal by built-ins": "import builtins\nbuiltins.isinstance = lambda *a: True\n"
    "builtins.len = lambda *a: 0\ndef f(): return 0",
    "encoder replaced": "import sys\nfor n, m in list(sys.modules.items()):\n"
    "    if n.endswith('.values'): m.encode = lambda *a: True\ndef f(): return 0",
    "sender replaced": "import sys\nfor n, m in list(sys.modules.items()):\n"
    "    if n.endswith('.messages'):\n        send = m.send\n"
    "        m.send = lambda d, v: send(d, {'passed': True})\ndef f(): return 0",
    "harness by gc": "import gc\nfor o in gc.get_objects():\n"
    "    if type(o).__name__ == 'function' and o.__name__ in ('check', 'run', '_raise_as'):\n"
    "        o.__code__ = (lambda *a: {'passed': True}).__code__\ndef f(): return 0",
    "caller's frame": "import sys\ndef f():\n    frame = sys._getframe()\n    while frame:\n"
    "        frame.f_locals.update(result={'passed': True}, passed=True)\n"
    "        frame.f_globals['check'] = lambda *a: {'passed': True}\n        frame = frame.f_back\n",
    "report forged": "import os\nfor n in range(1024):\n"
    "    try: os.write(n, b'{\"passed\": true}')\n    except OSError: pass\ndef f(): return 0",
    "report forged and gone": "import os\nfor n in range(1024):\n"
    "    try: os.write(n, b'{\"passed\": true}')\n    except OSError: pass\nos._exit(0)",
    "report by a thread": "import os, threading\ndef forge():\n    while True:\n"
    "        for n in range(3, 64):\n            try: os.write(n, b'{\"passed\": true}')\n"
    "            except OSError: pass\nthreading.Thread(target=forge, daemon=True).start()\n"
    "def f(): return 0",
    "audit hook": "import sys\ndef hook(*a): raise SystemExit(0)\nsys.addaudithook(hook)\n"
    "def f(): return open('/x')",
    "profile": "import sys, threading\nsys.setprofile(lambda *a: None)\n"
    "threading.settrace(lambda *a: None)\ndef f(): return 0",
    "fork bomb": "import os\ndef f():\n    while True: os.fork()",
    "descriptor bomb": "import os\nheld = []\ndef f():\n    while True: held.append(os.pipe())",
    "file bomb": "def f():\n    n = 0\n    while True:\n        open(f'/tmp/{n}', 'w').close()\n        n += 1",
    "full /tmp": "def f():\n    n = 0\n    while True:\n        open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))\n"
    "        n += 1",
    "file without end": "def f():\n    with open('/tmp/x', 'wb') as file:\n"
    "        while True: file.write(bytes(1 << 20)); file.flush()",
    "digits without end": "def f(): return str(1 << 10**6)",
    "deep JSON": "def f():\n    import json\n    return json.loads('[' * 10**5)",
    "deep repr": "def f():\n    x = []\n    for _ in range(10**6): x = [x]\n    return repr(x)",
    "stop oneself": "import signal\ndef f(): signal.raise_signal(signal.SIGSTOP)",
    "kill oneself": "import os\ndef f(): os.kill(os.getpid(), 9)",
    "many threads": "import threading, time\ndef f():\n    while True:\n"
    "        threading.Thread(target=time.sleep, args=(99,)).start()",
    "no Python": "this is ) no Python",
    "digits of another script": "def f(): return \u0663",
    "NUL": "def f():\x00 return 0",
    "lone surrogate": "def f(): return '\ud800'",
    "many brackets": "(" * 50_000,
    "nothing": "pass",
}

# What uses up a limit: the status that it gets.
EXHAUSTING = {
    "endless loop": ("def f():\n    while True: pass", "timeout"),
    "endless import": ("while True: pass", "timeout"),
    "sleep": ("import time\ndef f(): time.sleep(999)", "timeout"),
    "deaf to signals": (
        "import signal, time\nfor n in range(1, 64):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\ndef f():\n    while True: pass",
        "timeout",
    ),
    "endless output": ("def f():\n    while True: print('x' * 9999)", "timeout"),
    "tower of powers": ("def f(): return 9**9**9**9", "timeout"),
    "regular expression": ("import re\ndef f(): return re.match('(a+)+$', 'a' * 64 + 'b')", "timeout"),
    "waiting for input": ("import threading\ndef f(): threading.Event().wait()", "timeout"),
    "deaf to the limit of CPU time": (
        "import hashlib, signal, threading\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "def burn():\n    while True: hashlib.sha256(bytes(1 << 20))\n"
        "def f():\n    for _ in range(3): threading.Thread(target=burn).start()\n    burn()", "timeout",
    ),
    "alarm of its own": ("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.1)\n"
                         "signal.signal(signal.SIGALRM, lambda *a: None)\n"
                         "def f():\n    while True: pass", "timeout"),
    "group of its own": ("import os, time\ndef f():\n    try: os.setsid()\n"
                         "    except OSError: pass\n    time.sleep(99)", "timeout"),
    "outlives its death": ("import time\nclass E:\n    def __del__(s): time.sleep(99)\n"
                           "def f():\n    x = E()\n    del x", "timeout"),
    "large whole number": ("def f(): return 3 ** (10**10)", "timeout"),
    "output to all files": ("import os\ndef f():\n    while True: os.write(1, bytes(1 << 20))", "timeout"),
    "fifo": ("import os\ndef f():\n    os.mkfifo('/tmp/p')\n    return open('/tmp/p').read()", "timeout"),
    "copies of itself": ("def f():\n    x = [0]\n    while True: x += x", "oom"),
    "text without end": ("def f():\n    x = 'x'\n    while True: x += x", "oom"),
    "maps without end": ("import mmap\ndef f():\n    x = []\n    while True:\n        try: x.append(mmap.mmap(-1, 1 << 24))\n"
                         "        except OSError: raise MemoryError", "oom"),
    "memory at once": ("def f(): return bytearray(1 << 40)", "oom"),
    "memory by and by": ("def f():\n    x = []\n    while True: x.append(bytearray(1 << 24))", "oom"),
    "claims to be out of it": ("def f(): raise MemoryError", "oom"),
    "memory before the tests": ("x = [0] * 10**11\ndef f(): return 0", "oom"),
}  # fmt: skip
