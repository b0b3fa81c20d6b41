"""What a command costs before it does anything, and which packages it imports meanwhile.

    python -P benchmarks/starting.py --runs 5

Each command runs in a process of its own, after one run that is not counted; the median of the
seconds of wall and of CPU, and the largest resident memory. `--against PYTHON` names another
environment's interpreter, whose rlvr is measured in turn with this one. The rollout samples
one completion of eight tokens of each of four prompts from the built-in policy.
"""

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

START = "from rlvr_cli.cli.app import main; main()"
LOADED = """
import atexit, sys
names = ("numpy", "pyarrow", "pandas", "scipy", "sklearn", "torch", "transformers")
atexit.register(lambda: print("loaded:", *(n for n in names if n in sys.modules), file=sys.stderr))
"""
COMMANDS = {
    "rlvr --help": ["--help"],
    "rlvr train --dry-run": ["train", "--dry-run", "--out", "{folder}/run"],
    "rlvr prompts": ["prompts", "task:expression", "--limit=4", "--out", "{folder}/out"],
    "rlvr score": ["score", "{folder}/rollouts", "--out", "{folder}/out"],
    "rlvr rollout": ["rollout", "{folder}/prompts", "-n1", "--max-new-tokens=8",
                     "--out", "{folder}/out"],
}  # fmt: skip


def run(python: str, words: list[str], folder: Path, before: str = "") -> tuple[str, list[float]]:
    """What a command said on stderr; its seconds of wall and of CPU, and its peak in MiB."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    words = [word.format(folder=folder) for word in words]
    start = time.perf_counter()
    process = subprocess.Popen(
        [python, "-P", "-c", before + START, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"rlvr {' '.join(words)}: exit code {process.returncode}\n{said}")
    peak = used.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)
    return said, [wall, used.ru_utime + used.ru_stime, peak]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", help="the Python of another environment")
    arguments = parser.parse_args()
    pythons = [sys.executable, *filter(None, [arguments.against])]
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "pyarrow"))
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python "
          f"{platform.python_version()}, {packages}; medians of {arguments.runs}")  # fmt: skip
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for words in (
            ["prompts", "task:expression", "--limit=4", "--out", "{folder}/prompts"],
            ["rollout", "{folder}/prompts", "-n4", "--out", "{folder}/rollouts"],
        ):
            run(sys.executable, words, folder)
        for title, words in COMMANDS.items():
            measured: dict[str, list[list[float]]] = {python: [] for python in pythons}
            loaded = {python: run(python, words, folder, LOADED)[0] for python in pythons}
            for _ in range(arguments.runs):
                for python in pythons:
                    measured[python].append(run(python, words, folder)[1])
            for python in pythons:
                wall, cpu, peak = map(statistics.median, zip(*measured[python], strict=True))
                names = loaded[python].rpartition("loaded:")[2].strip() or "none"
                print(f"{title:22} {wall:6.2f} s  CPU {cpu:6.2f} s  {peak:6.0f} MiB  {names}")


if __name__ == "__main__":
    main()
