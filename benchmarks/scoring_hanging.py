"""What hung questions cost the others: 100 of 10,000 hang, beside the same without them.

    python -P benchmarks/scoring_hanging.py GENERATIONS.jsonl [--hanging 100] [--how compute]

GENERATIONS as for scoring.py; its completions are repeated, and none is remembered. A hung question
sleeps with SIGTERM ignored, or asks whether `10^{10^{10^{10}}}` is `10^{10}`, which computes for
ever and hears no signal; the clock of the latter stands still while other work has the cores, so
that one wants a machine of its own. The ideal is the time of the others alone, measured in the same
run before and after, and the time-outs shared out among the workers.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from rlvr_cli.interop import readers
from rlvr_cli.protocols import Verdict
from rlvr_cli.specs import trust
from rlvr_cli.stages import score
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question, Scorer

SLEEP = """
import signal, time
def verify(completion, *, answer, extra):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)
"""


def question(spec: str, completion: str, answer: str) -> Question:
    (part,) = rewards.build(spec)
    return Question(part.spec, part.verifier, completion, True, answer, {})


def hung(how: str, timeout_s: float, folder: str) -> Question:
    if how == "compute":
        return question(f"math:timeout_s={timeout_s}", r"\boxed{10^{10^{10^{10}}}}", "10^{10}")
    path = Path(folder) / "sleep.py"
    path.write_text(SLEEP)
    trust.trust(trust.Named([path]))
    return question(f"{path}:verify,timeout_s={timeout_s}", "", "")


def timed(scorer: Scorer, questions: list[Question]) -> tuple[float, list[Verdict]]:
    start = time.perf_counter()
    verdicts = scorer.verdicts(questions)
    return time.perf_counter() - start, verdicts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--hanging", type=int, default=100)
    parser.add_argument("--how", choices=["sleep", "compute"], default="sleep")
    parser.add_argument("--timeout-s", type=float, default=3.0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    given = parser.parse_args()
    rows = list(readers.read(given.generations))
    asked = [question("math", text, str(r["answer"])) for r in rows for text in r["completions"]]
    every = given.questions // given.hanging
    hangs = [index % every == every // 2 for index in range(given.questions)]
    others = [asked[index % len(asked)] for index, h in enumerate(hangs) if not h]
    with (
        tempfile.TemporaryDirectory() as folder,
        score.scorer(workers=given.workers, use_cache=False) as scorer,
    ):
        one, rest = hung(given.how, given.timeout_s, folder), iter(others)
        mixed = [one if h else next(rest) for h in hangs]
        scorer.verdicts(others[:100])
        before, wanted = timed(scorer, others)
        seconds, result = timed(scorer, mixed)
        after, _ = timed(scorer, others)
    assert [v for v, h in zip(result, hangs, strict=True) if not h] == wanted
    assert {v.status for v, h in zip(result, hangs, strict=True) if h} == {"timeout"}
    ideal = (before + after) / 2 + sum(hangs) * given.timeout_s / given.workers
    print(f"{len(mixed)} questions, {sum(hangs)} {given.how} until their time-out of"
          f" {given.timeout_s:g} s, {given.workers} workers")  # fmt: skip
    print(f"the others alone {before:.2f} s before, {after:.2f} s after; ideal {ideal:.2f} s")
    print(f"all {seconds:.2f} s: {seconds / ideal:.3f} of the ideal; the others' verdicts equal")


if __name__ == "__main__":
    main()
