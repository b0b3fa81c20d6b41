"""Seconds of 1,000 seeds of 500 steps, all at once and one seed at a time, interleaved.

    python benchmarks/lab_speed.py

One thread. CPU seconds stand beside wall seconds: the former are those of a quiet core. A loop over
seeds is timed on a few and scaled up.
"""

import argparse
import platform
import time

import torch

from rlvr_cli.lab.bandit import Settings, simulate
from rlvr_cli.lab.systems import classes


def seconds(settings: Settings, seeds: range) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    simulate(classes(), settings, seeds)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{platform.machine()}, torch {torch.__version__}; {given.seeds} seeds, 500 steps, best "
          f"of {given.rounds}; wall and CPU seconds\n")  # fmt: skip
    print("| objective | G | at once, wall | at once, CPU | a loop over seeds, CPU | ratio |")
    print("|---|---|---|---|---|---|")
    for algo in ("dr-grpo", "grpo+iac", "quatro"):
        for size in (8, 32):
            settings = Settings(algo, size)
            simulate(classes(), Settings(algo, size, steps=5), range(2))
            pairs = [
                (seconds(settings, range(given.seeds)),
                 [seconds(settings, range(s, s + 1)) for s in range(given.alone)])
                for _ in range(given.rounds)
            ]  # fmt: skip
            wall = min(p[0][0] for p in pairs)
            cpu = min(p[0][1] for p in pairs)
            loop = min(sum(c for _, c in p[1]) / given.alone * given.seeds for p in pairs)
            print(f"| {algo} | {size} | {wall:.1f} | {cpu:.1f} | {loop:.0f} | {loop / cpu:.0f} |")


if __name__ == "__main__":
    main()
