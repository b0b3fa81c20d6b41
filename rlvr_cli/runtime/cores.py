"""The cores that this process may use."""

import os
import sys


def available() -> int:
    """How many the scheduler gives this process; all of the machine's where it does not say."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
