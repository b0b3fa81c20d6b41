"""The same completions through rlvr, math-verify alone, and the scorers of verl and open-instruct.

    pip install --no-deps --target SYMPY antlr4-python3-runtime==4.11.0 pylatexenc
    python -P benchmarks/graders.py DATA VERL OPEN_INSTRUCT --sympy SYMPY [--only NAME ...]

DATA has answer_pairs.jsonl and gens/ with math_100x8_qwen25math.jsonl.gz and
gsm8k_1319x4_openai.jsonl.gz. VERL and OPEN_INSTRUCT are clones. Two of their scorers parse LaTeX by
sympy, which takes an older ANTLR than math-verify here. What a scorer does not use, such as the
client of a judge, is left empty.

Each grader runs in a process of its own, one completion after the other, after a first that loads
what it needs; rlvr remembers nothing. Where a file has an answer without its text, or GSM8K's
`A: 18`, each grader gets it in the form that it asks for: `\\boxed{18}`, `#### 18`, `Answer: 18`.
"""

import argparse
import contextlib
import importlib
import logging
import os
import re
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from rlvr_cli.interop import readers
from rlvr_cli.stages import score
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question

BOX = r"\boxed{%s}"
HASHES = "#### %s"
WORDS = "Answer: %s"
UNUSED = (
    "requests",
    "open_instruct.context_window_checker",
    "open_instruct.if_functions",
    "open_instruct.IFEvalG",
    "open_instruct.judge_utils",
    "open_instruct.rubrics",
    "open_instruct.rubrics.prompts",
    "open_instruct.rubrics.run_utils",
    "open_instruct.utils",
    "verl.utils.metric",
)


@dataclass
class Row:
    gold: str
    text: str  # with %s for the answer, if there is one
    answer: str | None
    label: bool

    def completion(self, form: str) -> str:
        if self.answer is None:
            return self.text
        return self.text.replace("%s", form.replace("%s", self.answer))


Grade = Callable[[str, str], Any]  # gold and completion; what it returns is read by `paid`


def package(name: str, folder: Path) -> None:
    """A package whose own `__init__`, which loads torch or ray, does not run."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def verl(module: str, given: argparse.Namespace, **options: Any) -> Grade:
    for name in ("verl", "verl.utils", "verl.utils.reward_score"):
        package(name, given.verl / name.replace(".", "/"))
    scorer = importlib.import_module(f"verl.utils.reward_score.{module}")
    return lambda gold, text: scorer.compute_score(text, gold, **options)


def open_instruct(name: str, given: argparse.Namespace) -> Grade:
    package("open_instruct", given.open_instruct / "open_instruct")
    verifier = getattr(importlib.import_module("open_instruct.ground_truth_utils"), name)()
    return lambda gold, text: verifier([], text, gold).score


def math_verify(given: argparse.Namespace) -> Grade:
    from math_verify import parse, verify

    def grade(gold: str, text: str) -> bool:
        marked = gold if "$" in gold or "boxed" in gold else f"${gold}$"
        return bool(verify(parse(marked), parse(text)))

    return grade


GRADERS: dict[str, tuple[str, str, Callable[[argparse.Namespace], Grade]]] = {
    "math-verify": (BOX, "", math_verify),
    "verl math_verify": (BOX, "", lambda g: verl("math_verify", g)),
    "verl math_reward": (BOX, "", lambda g: verl("math_reward", g)),
    "verl prime_math": (BOX, "", lambda g: verl("prime_math", g)),
    "verl math_dapo": (WORDS, "", lambda g: verl("math_dapo", g)),
    "verl math_dapo, box": (BOX, "", lambda g: verl("math_dapo", g, strict_box_verify=True)),
    "verl gsm8k": (HASHES, "gsm8k", lambda g: verl("gsm8k", g)),
    "verl gsm8k, flexible": (HASHES, "gsm8k", lambda g: verl("gsm8k", g, method="flexible")),
    "open-instruct math": (BOX, "", lambda g: open_instruct("MathVerifier", g)),
    "open-instruct gsm8k": (BOX, "gsm8k", lambda g: open_instruct("GSM8KVerifier", g)),
}
SYMPY = ("verl prime_math", "open-instruct math")
OURS = ("math", "math:unanchored=true")


def paid(result: Any) -> bool:
    if isinstance(result, dict):
        result = result["score"]
    return float(result[0] if isinstance(result, tuple) else result) > 0


def theirs(name: str, rows: list[Row], given: argparse.Namespace) -> tuple[float, list[Any]]:
    """Seconds, and for each row True, False, or the exception as text."""
    logging.disable(logging.CRITICAL)
    for unused in UNUSED:
        sys.modules[unused] = MagicMock(name=unused, __path__=[])
    form, _, make = GRADERS[name]
    if name in SYMPY:
        sys.path.insert(0, str(given.sympy))
    results: list[Any] = []
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
        grade = make(given)
        grade(r"\frac{1}{2}", r"so \boxed{\frac{2}{4}+x}")
        start = time.perf_counter()
        for row in rows:
            try:
                results.append(paid(grade(row.gold, row.completion(form))))
            except Exception as error:
                results.append(f"{type(error).__name__}: {error}")
        return time.perf_counter() - start, results


def ours(spec: str, rows: list[Row]) -> tuple[float, list[Any]]:
    (part,) = rewards.build(spec)
    questions = [
        Question(part.spec, part.verifier, row.completion(BOX), True, row.gold, {}) for row in rows
    ]
    with score.scorer(workers=1, use_cache=False) as scorer:
        scorer.verdicts([Question(part.spec, part.verifier, r"\boxed{2}", True, "2", {})])
        start = time.perf_counter()
        verdicts = scorer.verdicts(questions)
        seconds = time.perf_counter() - start
    return seconds, [v.status if v.reward is None else v.correct is True for v in verdicts]


def math(data: Path) -> Iterator[Row]:
    for row in readers.read(data / "gens/math_100x8_qwen25math.jsonl.gz"):
        for text, label in zip(row["completions"], row["correct"], strict=True):
            yield Row(str(row["answer"]), text, None, label)


def gsm8k(data: Path) -> Iterator[Row]:
    for row in readers.read(data / "gens/gsm8k_1319x4_openai.jsonl.gz"):
        gold = row["ground_truth"].rpartition("A: ")[2].strip()
        for text, label in zip(row["completions"], row["correct"], strict=True):
            yield Row(gold, text, None, label)


def gsm8k_marked(data: Path) -> Iterator[Row]:
    for row in gsm8k(data):
        found = re.search(r"^A: (.*)\s*\Z", row.text, re.M)
        if found:
            row.text, row.answer = f"{row.text[: found.start()]}%s", found[1].strip()
        yield row


def bare(text: str) -> str:
    """A text without the dollar signs around it."""
    inner = text.strip().strip("$").strip()
    return text if "$" in inner else inner


def sentence(answer: str) -> bool:
    """Whether a text cannot be the content of a box: it marks its formula, or is prose."""
    return bool(
        re.search(r"(?<!\\)\$|boxed|\\\(|\\\[|\\\Z|^[^\\]*[a-z']+ [a-z']+ [a-z']+ ", answer)
    )


def pairs(data: Path) -> Iterator[Row]:
    """Answers alone, as the graders' box holds them."""
    for row in readers.read(data / "answer_pairs.jsonl"):
        answer = bare(row["pred"])
        if not sentence(answer):
            yield Row(bare(row["gold"]), "%s", answer, row["label"])


def texts(data: Path) -> Iterator[Row]:
    """The other pairs: an answer in a sentence, or in a box of its own."""
    for row in readers.read(data / "answer_pairs.jsonl"):
        if sentence(bare(row["pred"])):
            yield Row(bare(row["gold"]), row["pred"], None, row["label"])


FILES = {f.__name__: f for f in (math, gsm8k, gsm8k_marked, pairs, texts)}


def report(rows: list[Row], results: dict[str, tuple[float, list[Any]]], shown: int) -> None:
    print(
        f"{'':22}{'as labelled':>12}{'paid wrong':>12}{'lost right':>12}{'faults':>8}{'s/1000':>8}"
    )
    labels = [row.label for row in rows]
    for name, (seconds, made) in results.items():
        counts = Counter(
            zip(labels, (m if m in (True, False) else None for m in made), strict=True)
        )
        agree = counts[True, True] + counts[False, False]
        faults = counts[True, None] + counts[False, None]
        print(f"{name:22}{agree:12}{counts[False, True]:12}{counts[True, False]:12}{faults:8}"
              f"{1000 * seconds / len(rows):8.2f}")  # fmt: skip
        for fault, count in Counter(m for m in made if isinstance(m, str)).most_common(shown):
            print(f"    {count} x {fault[:100]}")
    groups = defaultdict(list)
    for index, row in enumerate(rows):
        verdicts = [made[index] for _, made in results.values()]
        if len({str(v) for v in (row.label, *verdicts)}) > 1:
            groups[row.label, tuple(str(v)[:1] for v in verdicts)].append(row)
    print(f"{sum(map(len, groups.values()))} disagreements in {len(groups)} groups")
    for (label, letters), members in sorted(groups.items(), key=lambda g: -len(g[1])):
        wrong = [n for n, x in zip(results, letters, strict=True) if x != str(label)[:1]]
        print(f"  {len(members)} labelled {'right' if label else 'wrong'}; against it: {wrong}")
        distinct = Counter((r.gold, r.answer or r.text[-120:]) for r in members)
        for (gold, answer), count in distinct.most_common(shown):
            print(f"    {count} x {gold[-120:]!r} <- {answer!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("verl", type=Path)
    parser.add_argument("open_instruct", type=Path)
    parser.add_argument("--sympy", type=Path, required=True, help="comes first on two paths")
    parser.add_argument("--only", nargs="*", choices=FILES, default=list(FILES))
    parser.add_argument("--every", type=int, default=1, help="take each nth completion")
    parser.add_argument("--shown", type=int, default=3)
    given = parser.parse_args()
    for file in given.only:
        rows = list(FILES[file](given.data))[:: given.every]
        print(f"\n{file}: {len(rows)} completions, {sum(r.label for r in rows)} labelled right")
        results = {spec: ours(spec, rows) for spec in OURS}
        for name, (_, kind, _) in GRADERS.items():
            if file.startswith(kind):
                with ProcessPoolExecutor(1, mp_context=get_context("fork")) as one:
                    results[name] = one.submit(theirs, name, rows, given).result()
                print(f"{file}: {name} {results[name][0]:.1f} s", file=sys.stderr, flush=True)
        report(rows, results, given.shown)


if __name__ == "__main__":
    main()
