"""A custom verifier that misbehaves as its completion says."""

import importlib
import os
import resource
import signal
import time


def verify(completion, *, answer, extra):
    word, _, value = completion.partition(" ")
    return TOYS[word](value, answer)


def spin(value, answer):
    while True:
        pass


def compute(value, answer):
    end = time.process_time() + float(value)
    while time.process_time() < end:
        pass
    return True


def sleep(value, answer):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def leave_an_orphan(value, answer):
    if os.fork() == 0:
        os.setsid()
        with open(value, "w") as file:
            file.write(str(os.getpid()))
        time.sleep(600)
    return True


def raising(value, answer):
    raise ValueError(f"no luck with {answer}")


def crash(value, answer):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing its memory down would take a while
    os.kill(os.getpid(), signal.SIGSEGV)


def close_files(value, answer):
    os.closerange(3, 64)
    time.sleep(600)


def read_environment(value, answer):
    return value in os.environ


def load(value, answer):
    return bool(importlib.import_module(value))


TOYS = {
    "load": load,
    "say": lambda value, answer: value == answer,
    "spin": spin,
    "compute": compute,
    "sleep": sleep,
    "orphan": leave_an_orphan,
    "raise": raising,
    "exit": lambda value, answer: os._exit(int(value)),
    "leave": lambda value, answer: (_ for _ in ()).throw(SystemExit(0)),
    "crash": crash,
    "killed": lambda value, answer: os.kill(os.getpid(), signal.SIGKILL),
    "memory": lambda value, answer: bool(bytearray(1 << 45)),
    "deep": lambda value, answer: (lambda f: f(f))(lambda f: f(f)),
    "close": close_files,
    "print": lambda value, answer: print("noise") or True,
    "return": lambda value, answer: eval(value),
    "pid": lambda value, answer: {"reward": 1, "extracted": os.getpid()},
    "environment": read_environment,
}
