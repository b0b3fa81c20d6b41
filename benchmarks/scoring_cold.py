"""How fast `math` verifies with an empty cache, the loading of its libraries included.

    PYTHONPATH=CHECKOUT python -P benchmarks/scoring_cold.py GENERATIONS.jsonl [--samples 16]

Run it in turn with two checkouts to compare them. Counted is the time from the first question to
the last verdict: starting the processes, what they import, and verifying.
"""

import argparse
import tempfile
import time
from pathlib import Path

from rlvr_cli.interop import readers
from rlvr_cli.stages import score
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("generations", type=Path)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    (part,) = rewards.build("math")
    questions = []
    for row in readers.read(given.generations):
        texts = row["completions"]
        gold = str(row.get("answer") or row["ground_truth"])
        for i in range(given.samples or len(texts)):
            text = texts[i % len(texts)]
            questions.append(Question(part.spec, part.verifier, text, True, gold, {}))
    start = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        score.scorer(workers=given.workers, cache=Path(folder) / "cache") as scorer,
    ):
        verdicts = scorer.verdicts(questions)
    seconds = time.perf_counter() - start
    right = sum(bool(verdict.correct) for verdict in verdicts)
    print(f"{len(questions) / seconds:,.0f} a second, {seconds:.2f} s, {right} right")


if __name__ == "__main__":
    main()
