"""Seconds until `rlvr view` shows something, from the moment it is started, on a terminal.

    python -P benchmarks/viewing.py --prompts 2000 --completions 16

Of a JSON-lines file with one row a completion, of one with one row a prompt, and of the directory
that `rlvr import` makes of it: the median of the rounds with the programs' files in memory, and
once after they were dropped from it (of files that no other process has open). `all` is until the
last row of the file was read too.
"""

import argparse
import fcntl
import json
import os
import pty
import random
import select
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import termios
import time
from pathlib import Path

import rlvr_cli
from rlvr_cli.cli import app

COMMAND = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()", "view"]
WORDS = [f"word{n}" for n in range(25)]


def make(folder: Path, prompts: int, completions: int) -> list[Path]:
    """A file with a row a completion, one with a row a prompt, and what is imported of it."""
    rng = random.Random(0)
    flat, nested = folder / "flat.jsonl", folder / "nested.jsonl"
    with flat.open("w") as one, nested.open("w") as many:
        for prompt in range(prompts):
            texts = [
                " ".join(rng.choices(WORDS, k=rng.randint(50, 400))) for _ in range(completions)
            ]
            correct = [rng.random() < 0.4 for _ in texts]
            asked = {"id": f"p{prompt}", "prompt": f"question {prompt}?", "answer": str(prompt)}
            for text, right in zip(texts, correct, strict=True):
                one.write(json.dumps(asked | {"completion": text, "correct": right}) + "\n")
            many.write(json.dumps(asked | {"completions": texts, "correct": correct}) + "\n")
    assert app.run(["import", str(nested), "--out", str(folder / "made")]) == 0
    return [flat, nested, folder / "made"]


def seconds(path: Path, shown: bytes, absent: bytes = b"") -> float:
    """Until the screen has `shown`, and its last title no longer has `absent`."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    start = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, str(path)], stdin=side, stdout=side, stderr=side, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(side)
    written = b""
    while not (shown in written and (not absent or absent not in written[-3000:])):
        if select.select([main], [], [], 0.01)[0]:
            written += os.read(main, 1 << 16)
        assert time.monotonic() - start < 60, written[-500:]
    took = time.monotonic() - start
    os.write(main, b"q")
    process.wait()
    os.close(main)
    return took


def drop() -> None:
    """Asks the kernel to forget the files of Python's packages and of rlvr."""
    packages = Path(sysconfig.get_paths()["purelib"])
    names = ("numpy", "pyarrow", "pydantic", "pydantic_core", "rich", "textual", "typer")
    for folder in (*(packages / name for name in names), Path(rlvr_cli.__file__).parent):
        for path in folder.rglob("*"):
            if path.suffix in (".py", ".pyc") or ".so" in path.suffixes:
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--completions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in make(Path(folder), asked.prompts, asked.completions):
            warm = [seconds(path, b"sample 0 of") for _ in range(asked.rounds)]
            all_read = [seconds(path, b"sample 0 of", b"so far") for _ in range(asked.rounds)]
            drop()
            cold = seconds(path, b"sample 0 of")
            print(f"{path.name:<12} first screen {statistics.median(warm):.2f} s, all "
                  f"{statistics.median(all_read):.2f} s, cold {cold:.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
