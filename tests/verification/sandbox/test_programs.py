"""Right and wrong programs of every layout of tests, as Python runs them in one process.

`programs.jsonl` has a completion, a gold, what stands beside it, and whether the program passes:
`fault` where the gold would pay any program, or needs what is not there.
"""

import json
from pathlib import Path

import pytest

from rlvr_cli.verification.parsing import programs

pytestmark = pytest.mark.slow

CASES = [json.loads(line) for line in Path(__file__).with_name("programs.jsonl").open()]
NEITHER = ("bad_gold", "error")


def test_every_program_passes_where_it_would_in_a_process_of_its_own(judged):
    questions = [(programs.read(c["completion"]), c["gold"], c["extra"]) for c in CASES]
    found = {}
    for case, verdict in zip(CASES, judged(questions), strict=True):
        came = "fault" if verdict.status in NEITHER else verdict.reward == 1.0
        if came != case["passes"]:
            found[case["what"]] = (case["passes"], verdict.status, verdict.reason)
    assert not found


def test_a_script_may_write_as_much_as_is_expected_of_it(judged):
    gold = json.dumps({"inputs": ["5"], "outputs": ["\n".join(map(str, range(250_000)))]})
    texts = [f"print(*range({count}), sep='\\n')" for count in (250_000, 249_999)]
    right, wrong, endless = judged([(t, gold, {}) for t in (*texts, "while True: print(1)")])
    assert right.reward == 1.0
    assert wrong.reward == endless.reward == 0.0 and "more output" in endless.reason
