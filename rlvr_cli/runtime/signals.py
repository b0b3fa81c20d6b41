"""The signals that end a command, from a terminal, a scheduler or `kill`: all have the same effect.

The main thread is interrupted, as by ctrl-c: finished work is kept, and the exit code is 75. If it
is deep in a library that waits for something else or drops the interrupt, another thread ends the
process. Nothing is lost by that, as nothing is lost by SIGKILL.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

from rlvr_cli.errors import INTERRUPTED

# A scheduler's: SIGTERM of all of them, SIGUSR1 of `#SBATCH --signal=USR1` and of SGE's -notify,
# SIGXCPU of LSF's and SGE's limits; SIGHUP of a terminal that is closed.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGXCPU)
GRACE_S = 8.0  # from the signal to the end of the process: `docker stop` waits for ten
_WORDS_S = 1.0  # for the last words, where nobody may read them

_received: signal.Signals | None = None
_is_over = False  # whether the command has ended


def handled() -> tuple[signal.Signals, ...]:
    """Those that end this process: not those that it was started to ignore, as with nohup."""
    return tuple(number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN)


def received() -> bool:
    """Whether this process was asked to end."""
    return _received is not None


def words(number: signal.Signals | None = None) -> str:
    """What to say of the signal that was received."""
    number = number or _received
    by = f" by {number.name}" if number and number != signal.SIGINT else ""
    return f"interrupted{by}; finished parts are kept"


def listen(last_words: Callable[[], object]) -> None:
    """From now on each of the signals interrupts the main thread.

    If the process still runs some seconds later, it says its last words and ends.
    """
    global _is_over
    _is_over = False
    read, write = os.pipe()
    os.set_blocking(write, False)
    numbers = handled()
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget)  # the pipe is shared with a fork
    threading.Thread(target=_watch, args=(read, numbers, last_words), daemon=True).start()
    for number in numbers:
        signal.signal(number, _interrupt)


def stop_listening() -> None:
    """Called when the command has ended: a signal that comes later has nothing to interrupt."""
    global _is_over
    _is_over = True


def _forget() -> None:
    signal.set_wakeup_fd(-1)


def _interrupt(number: int, _: object) -> None:
    global _received
    if not _is_over:
        _received = signal.Signals(number)
        raise KeyboardInterrupt


def _watch(read: int, numbers: tuple[int, ...], last_words: Callable[[], object]) -> None:
    global _received
    while (number := os.read(read, 1)[0]) not in numbers:
        pass
    time.sleep(GRACE_S)
    _received = _received or signal.Signals(number)  # the main thread may not have come to it
    saying = threading.Thread(target=last_words, daemon=True)
    saying.start()
    saying.join(_WORDS_S)
    os._exit(INTERRUPTED)
