"""What opening, searching and reporting many completions costs.

    python -P benchmarks/looking.py --prompts 1000 --completions 32

Seconds of processor time of one process, after its imports; the best of three for what is quick.
"""

import argparse
import json
import platform
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr_cli.cli import app
from rlvr_cli.report import page, sources
from rlvr_cli.storage import lineage
from rlvr_cli.viewer.directories import DirectoryIndex

WORDS = [f"word{n}" for n in range(25)]


def make(folder: Path, prompts: int, completions: int) -> Path:
    """Imported completions of 50 to 400 words, two in five of them right."""
    rng = random.Random(0)
    with open(folder / "rows.jsonl", "w") as file:
        for prompt in range(prompts):
            sizes = [rng.randint(50, 400) for _ in range(completions)]
            row = {
                "id": f"p{prompt}",
                "prompt": f"question {prompt}?",
                "completions": [" ".join(rng.choices(WORDS, k=size)) for size in sizes],
                "correct": [rng.random() < 0.4 for _ in sizes],
            }
            file.write(json.dumps(row) + "\n")
    assert app.run(["import", str(folder / "rows.jsonl"), "--out", str(folder / "made")]) == 0
    return folder / "made"


def seconds(work: Callable[[], Any], rounds: int = 3) -> float:
    values = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        values.append(time.process_time() - start)
    return min(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--completions", type=int, default=32)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = make(Path(folder), asked.prompts, asked.completions)
        actual = lineage.find(result)
        index = DirectoryIndex(actual)
        rows = iter(range(len(index)))
        print(f"{len(index):,} completions; Python {platform.python_version()}")
        print(f"view, open:          {seconds(lambda: DirectoryIndex(actual)):.3f} s")
        search = seconds(lambda: DirectoryIndex(actual).holding("word3 word5"))
        print(f"view, open, search:  {search:.3f} s")
        index.detail(next(rows))
        print(f"view, next:          {seconds(lambda: index.detail(next(rows))):.4f} s")
        opened = sources.open_all([result])
        print(f"report:              {seconds(lambda: page.make(opened), 1):.1f} s")


if __name__ == "__main__":
    main()
