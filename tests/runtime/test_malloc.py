import platform
import subprocess
import sys

import pytest

ARRAYS = """
import resource, numpy as np
from rlvr_cli.runtime import malloc
{first}
def taken():
    [np.ones(1 << 18) for _ in range(4)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = taken()
for _ in range(20):
    after = taken()
print(after - before)
"""


def faults(first: str) -> int:
    """Page faults of 20 times four arrays of 512 pages each, which are freed each time."""
    ran = subprocess.run(
        [sys.executable, "-P", "-c", ARRAYS.format(first=first)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told anything")
def test_memory_that_was_freed_is_taken_again_without_a_fault():
    kept = faults("malloc.keep_freed()")
    assert kept < 2_500
    plain = faults("pass")
    if plain < 20_000:
        pytest.skip("pages are larger than 4 KiB here, or memory is kept anyway")
    assert kept < plain / 8
