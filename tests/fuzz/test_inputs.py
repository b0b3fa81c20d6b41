"""Files and command lines that chance makes: each is taken or refused in a line.

The cases are the same each time. Many more: `python tests/fuzz/inputs.py --cases 20000`.
"""

import os
import runpy
from pathlib import Path

import pytest

CASES = 500
FIRST = 7_000_000
SHARES = 4  # tests, so that several processes divide them


@pytest.fixture(scope="module")
def inputs():
    """The names of the script, whose commands change the environment."""
    before = dict(os.environ)
    yield runpy.run_path(str(Path(__file__).with_name("inputs.py")))
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_no_input_ends_in_a_traceback_or_a_defect(inputs, chain, tmp_path, share):
    begun = inputs["Known"](chain, inputs["layouts"]())
    failed = []
    for number in range(FIRST + share, FIRST + CASES, SHARES):
        words, _, wrong = inputs["tried"](number, tmp_path, begun)
        if wrong:
            failed.append(f"python tests/fuzz/inputs.py --case {number}: {words}: {wrong}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(
    ("code", "out", "err", "wrong"),
    [
        (3, b"", b"error: `a` is no JSON\nhint: look\n", ""),
        (0, b'{"a": 1}\n', b"", ""),
        (1, b"", b"error: a defect of rlvr: KeyError\n", "a defect"),
        (3, b"", b"error: \x1b[31m\n", "control characters"),
        (3, b"", b"error: \xff\n", "no UTF-8"),
        (3, b"", b"", "not one error"),
        (9, b"", b"error: a\n", "exit code 9"),
        (0, b'{"a": NaN}\n', b"", "no JSON"),
    ],
)
def test_what_is_wrong_is_seen(inputs, code, out, err, wrong):
    found = inputs["problem"](["check", "--json"], inputs["Ran"](code, out, err, "", 1.0))
    assert wrong in found and bool(found) == bool(wrong)
