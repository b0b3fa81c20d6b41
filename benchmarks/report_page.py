"""What a report of many completions costs: seconds to make it, MB, seconds to open it.

    python -P benchmarks/report_page.py --prompts 2000 --completions 16 --runs 1

The completions read as solutions do: 100 to 400 words with formulas, those of a prompt alike. The
page is opened in headless Chromium, where there is one.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rlvr_cli.cli import app
from tests.report import browser

OPENINGS = (
    "We write the sum as", "Let us first simplify", "By the given condition we have",
    "Dividing both sides gives", "Substituting this back we get", "Note that", "It follows that",
    "Since both factors are positive,", "Now consider the second case, where", "This means that",
)  # fmt: skip
ENDINGS = (
    "which is what we wanted to show.",
    "so only one value remains.",
    "as the problem says.",
    "and the other root is negative.",
    "because the sides of the triangle are equal.",
    "which can be checked by hand.",
    "and we continue with the next step.",
)
WORDS = (
    "the", "number", "of", "triangle", "ratio", "therefore", "total", "distance", "each", "value",
    "probability", "remaining", "circle", "square", "integer", "divided", "between", "first",
)  # fmt: skip


def solution(rng: random.Random, prompt: int, answer: int) -> str:
    lines = [f"To find the answer to problem {prompt}, we proceed step by step."]
    for step in range(1, rng.randint(4, 14)):
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        formula = rng.choice(
            (f"{a} \\cdot {b} = {a * b}", f"\\frac{{{a}}}{{{b}}}x = {a + b}", f"x^2 + {a}x = {b}")
        )
        said = " ".join(rng.choices(WORDS, k=rng.randint(3, 12)))
        lines.append(
            f"{step}. **{rng.choice(OPENINGS)}** \\( {formula} \\), {said}, {rng.choice(ENDINGS)}"
        )
    lines.append(f"\\[\n\\boxed{{{answer}}}\n\\]\nThe answer is {answer}.")
    return "\n\n".join(lines)


def make(folder: Path, name: str, prompts: int, completions: int) -> Path:
    """Imported completions, about half of them right."""
    rng = random.Random(name)
    with open(folder / f"{name}.jsonl", "w") as file:
        for prompt in range(prompts):
            rate = rng.random()
            correct = [rng.random() < rate for _ in range(completions)]
            row = {
                "id": f"problem-{prompt:05d}",
                "prompt": f"Problem {prompt}: {' '.join(rng.choices(WORDS, k=40))}?",
                "answer": str(prompt),
                "source": f"level {prompt % 5}",
                "completions": [solution(rng, prompt, prompt + (not c)) for c in correct],
                "correct": correct,
            }
            file.write(json.dumps(row) + "\n")
    assert app.run(["import", str(folder / f"{name}.jsonl"), "--out", str(folder / name)]) == 0
    return folder / name


def opened(path: Path) -> None:
    """Prints when the page is painted and its table drawn, and how long its work takes."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        browser.opened(Path(profile)) as page,
    ):
        page.size(1200, 900)
        page.open(path)
        page.wait("document.documentElement.dataset.ready")
        paint, ready = page.run(
            "[performance.getEntriesByName('first-contentful-paint')[0]?.startTime,"
            " performance.getEntriesByName('table')[0].startTime]"
        )
        print(f"open, painted:    {paint / 1000:.2f} s")
        print(f"open, table:      {ready / 1000:.2f} s")
        for name, script in (
            ("sort", "document.querySelector('[data-key=rate0] button').click()"),
            ("search", "(() => { const f = document.getElementById('find'); f.elements.q.value = "
             "'circle ratio'; f.dispatchEvent(new Event('submit')); })()"),
            ("read a prompt", "document.querySelector('#prompt-table tbody a').click()"),
        ):  # fmt: skip
            start = time.perf_counter()
            page.run(script)
            if name == "read a prompt":
                page.wait("document.getElementById('reader').open")
            print(f"{name + ':':17} {time.perf_counter() - start:.2f} s")


def timed(made: list[Path], out: Path, bytecode: Path) -> tuple[float, float]:
    """Seconds of the command, and of all cores; Python's bytecode is kept as an install has it."""
    command = "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"
    words = [sys.executable, "-c", command, "report", *map(str, made), "--out", str(out)]
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        words, check=True, stdout=subprocess.DEVNULL,
        env={**kept, "PYTHONPYCACHEPREFIX": str(bytecode)},
    )  # fmt: skip
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--completions", type=int, default=16)
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        made = [make(root, f"run{n}", asked.prompts, asked.completions) for n in range(asked.runs)]
        size = sum((root / f"run{n}.jsonl").stat().st_size for n in range(asked.runs))
        print(
            f"{asked.runs * asked.prompts * asked.completions:,} completions, {size / 1e6:.0f} MB"
        )
        out = root / "report.html"
        took, processor = min(timed(made, out, root / "bytecode") for _ in range(2))
        print(f"rlvr report:      {took:.1f} s, {processor:.1f} s of processor time")
        print(f"page:             {out.stat().st_size / 1e6:.2f} MB")
        if browser.CHROMIUM:
            opened(out)
        else:
            print("no chromium: the page was not opened")


if __name__ == "__main__":
    main()
