"""Completions whose wrong answers are spelled in six ways, for what Maj@k makes of equal answers.

    python -P benchmarks/spellings.py > spellings.jsonl
    rlvr import spellings.jsonl --out made && rlvr score made/rollouts --verifier math --out scores
    rlvr eval-passk scores --k 8 --equality text && rlvr eval-passk scores --k 8

200 prompts x 256 completions: 30% give the gold, the others one of ten wrong fractions, the first
of them as often as all others together, each in a spelling of its own choice.
"""

import json
import random
from fractions import Fraction


def spellings(value: Fraction) -> list[str]:
    top, bottom = value.numerator, value.denominator
    return [
        f"{top}/{bottom}",
        f"\\frac{{{top}}}{{{bottom}}}",
        f"\\dfrac{{{top}}}{{{bottom}}}",
        f"{2 * top}/{2 * bottom}",
        f"\\frac{{{3 * top}}}{{{3 * bottom}}}",
        f"{top / bottom}",
    ]


def main() -> None:
    rng = random.Random(0)
    for prompt in range(200):
        gold = Fraction(prompt + 1, 8)
        wrong = [gold + Fraction(step, 16) for step in range(1, 11)]
        for _ in range(256):
            chosen = gold
            if rng.random() >= 0.3:
                chosen = wrong[0] if rng.random() < 0.5 else rng.choice(wrong[1:])
            answer = rng.choice(spellings(chosen))
            row = {
                "prompt_id": f"p{prompt:03d}",
                "prompt": f"Find number {prompt}.",
                "answer": spellings(gold)[0],
                "completion": f"It is $\\boxed{{{answer}}}$.",
            }
            print(json.dumps(row))


if __name__ == "__main__":
    main()
