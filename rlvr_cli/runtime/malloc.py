"""How much freed memory this process keeps, and how many cores it uses."""

import contextlib
import ctypes
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT_BYTES, MAPPED_BYTES = 128 << 20, 32 << 20
BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def keep_freed() -> None:
    """Has this process keep up to KEPT_BYTES of freed memory for its next arrays.

    glibc returns it at once, and each page that is taken again costs a fault of about 2
    microseconds: a third of the time of clustering 256 completions. Other C libraries are left
    alone.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, MAPPED_BYTES)


def take_one_core() -> None:
    """Has numpy, if it is not loaded yet, multiply on one core; the user's own number stays."""
    os.environ.setdefault(BLAS_THREADS, "1")
