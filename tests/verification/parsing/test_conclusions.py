"""What completions conclude: conclusions.jsonl has verifier, gold, completion, and who is right."""

import json
from pathlib import Path

import pytest

from rlvr_cli.verification.verifiers import choice, math, number

CASES = [json.loads(line) for line in Path(__file__).with_name("conclusions.jsonl").open()]


def _verdict(case):
    if case["verifier"] == "math":
        verifier = math.build()
        return verifier.judge(verifier.extract(case["completion"], True), case["gold"], {})
    verify = choice.build() if case["verifier"] == "choice" else number.build()
    extra = {"options": case["options"]} if "options" in case else {}
    return verify(case["completion"], answer=case["gold"], extra=extra)


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case['verifier']}: {case['completion']}"
)
def test_what_a_completion_concludes_is_paid_if_it_is_the_gold(case):
    assert (_verdict(case).reward == 1) is case["right"]
