"""Seconds of 1,000 seeds of 500 steps, all at once and one seed at a time, for every objective.

    python -P benchmarks/lab_speed.py

The system of four classes, one thread; both ways alternate and the best round counts. CPU seconds
stand beside wall seconds: the former are those of a quiet core. A loop over seeds is timed on a
few and scaled up.
"""

import argparse
import os
import platform
import time
from importlib.metadata import version

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.lab.bandit import simulate
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.systems import classes

FOUR_ACTIONS = {"apo": "apo:k=2"}
MODIFIED = (
    *("dr-grpo+negative-only", "grpo+dual-clip", "grpo+entropy", "grpo+iac"),
    *("grpo+is-correction", "grpo+kl", "nsr+anchor:k=2"),
)
SIZES = (8, 32)


def seconds(settings: Settings, seeds: range) -> tuple[float, float]:
    """Wall and CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    simulate(classes(), settings, seeds)
    return time.perf_counter() - wall, time.process_time() - cpu


def measured(settings: Settings, seeds: int, alone: int, rounds: int) -> tuple[float, ...]:
    """Wall and CPU of all seeds at once, and CPU of a loop over them, each of its best round."""
    seconds(Settings(settings.algo, settings.group_size, steps=5), range(2))
    at_once, loop = [], []
    for _ in range(rounds):
        at_once.append(seconds(settings, range(seeds)))
        single = sum(seconds(settings, range(s, s + 1))[1] for s in range(alone))
        loop.append(single / alone * seeds)
    return min(wall for wall, _ in at_once), min(cpu for _, cpu in at_once), min(loop)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--algo", action="append", help="these alone; may be repeated")
    given = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.machine()}, {os.cpu_count()} cores (load {load}), Python "
          f"{platform.python_version()}, torch {version('torch')}, numpy {version('numpy')}; "
          f"{given.seeds} seeds, 500 steps, best of {given.rounds}\n")  # fmt: skip
    print("| objective | G | at once, wall s | at once, CPU s | a loop over seeds, CPU s | ratio |")
    print("|---|---|---|---|---|---|")
    names = [n for n in registry.names("objectives") if not objectives.build(n).token_columns]
    everything = [FOUR_ACTIONS.get(n, n) for n in names] + list(MODIFIED)
    for algo in given.algo or everything:
        for size in SIZES:
            settings = Settings(algo, size)
            wall, cpu, loop = measured(settings, given.seeds, given.alone, given.rounds)
            print(f"| {algo} | {size} | {wall:.1f} | {cpu:.1f} | {loop:.0f} | {loop / cpu:.0f} |",
                  flush=True)  # fmt: skip
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nLoad at the end: {load}.")


if __name__ == "__main__":
    main()
