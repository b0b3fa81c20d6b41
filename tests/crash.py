"""Disturbs training runs at random moments and compares what is left with an undisturbed run.

    python tests/crash.py --kills 500 --jobs 14
    python tests/crash.py --scenario nproc --seed 3 --run 17
    python tests/crash.py --scenario graph -- --model DIR --prompts DIR --eval-every 0 --algo nsr

A disturbance is KILL, TERM or USR1, or STOP and then KILL or CONT; of several processes it meets
the launcher (of one of two machines), a rank, or all of them; of a run that others follow the
trainer, a sampler or scorer (which is started again), or all of them. Afterwards no process is
left, and the run goes on. Once it is complete its files are those of an undisturbed run, byte by
byte but for the seconds in metrics.jsonl, and no temporary one is among them. Words behind `--` are
added to those of `rlvr train`. A run that fails stays where it lies, with its log.

Attempts of most scenarios are forks of a process that has imported what a run imports: so the kills
fall into the loop, not into imports. Those of `nproc`, `nodes`, `follow` and `vllm` are real
command lines; `nodes` needs root (tests/machines.py).
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import disturbed
import torch
from disturbed import Disturbed, Scenario, Timing

from rlvr_cli.cli import app

torch.set_num_threads(1)
COMMON = (
    *("--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"),
    *("--learning-rate", "3e-4", "--mini-batch-prompts", "2"),
    *("--eval-num-generations", "2", "--keep-weights", "2"),
)
NOW_AND_THEN = ("--eval-every", "3", "--save-every", "2")
FOLLOW = ("--async", "--ahead", "2")
EACH = ("--eval-every", "1", "--save-every", "1")
SCENARIOS = {
    "grpo": Scenario(("--algo", "grpo", "--engine", "transformers", *NOW_AND_THEN)),
    "dlc": Scenario(("--algo", "grpo+dlc", "--engine", "graph", *NOW_AND_THEN)),
    "evaluations": Scenario(("--algo", "quatro+kl", "--engine", "transformers", *EACH)),
    "nproc": Scenario(("--algo", "grpo", *NOW_AND_THEN, "--nproc", "2"), forks=False),
    "nodes": Scenario(
        ("--algo", "grpo", *NOW_AND_THEN, "--trainer", "deepspeed:zero=2"),
        forks=False,
        machines=True,
    ),
    "graph": Scenario(
        ("--algo", "grpo", "--engine", "graph:rows=64,least_rows=64", *NOW_AND_THEN),
        same_bytes=not disturbed.has_gpu(),  # see docs/limits.md
    ),
    "follow": Scenario(
        ("--algo", "grpo", *NOW_AND_THEN, *FOLLOW), forks=False, follows=True, same_bytes=True
    ),
    "images": Scenario(
        ("--algo", "grpo", "--engine", "transformers", *NOW_AND_THEN, "--model", "builtin-vl"),
        task="task:shapes",
    ),
    "vllm": Scenario(
        ("--algo", "grpo", "--engine", "vllm", *NOW_AND_THEN), forks=False, same_bytes=False
    ),
}
SCHEDULE = "schedule"
BY_DEFAULT = ("grpo", "dlc", "evaluations", "nproc")


@dataclass
class Tally:
    """What the runs of a scenario showed."""

    scenario: Scenario
    timing: Timing = Timing(0, 0)
    expected: dict[str, str] = field(default_factory=dict)
    begun: int = 0
    runs: int = 0
    equal: int = 0
    kills: list[tuple[str, str, str]] = field(default_factory=list)


def load(names: list[str]) -> None:
    """Imports what a run imported; nothing is computed, as a fork must not inherit threads."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def forked(work, result: Path) -> int:
    """Does the work in a fork, which writes what it returns, or why it failed; its pid."""
    child = os.fork()
    if child:
        return child
    try:
        done = {"done": work()}
    except disturbed.Broken as broken:
        done = {"broken": str(broken)}
    except BaseException:
        done = {"broken": traceback.format_exc()}
    result.write_text(json.dumps(done))
    os._exit(0)


def outcome(result: Path):
    """What a fork's work returned; an error if it failed."""
    done = json.loads(result.read_text())
    if "broken" in done:
        raise disturbed.Broken(done["broken"])
    return done["done"]


def undisturbed(name: str, scenario: Scenario, root: Path) -> list:
    """Makes a run that nothing disturbs: its modules, seconds and content."""
    root.mkdir()
    modules = root / "modules.json"
    if scenario.forks:
        short = replace(scenario, words=(*scenario.words, "--steps", "1"))
        if Disturbed(short, root / "short").attempt(modules):
            raise disturbed.Broken(f"{name}: {(root / 'short.log').read_text()[-500:]}")
        load(json.loads(modules.read_text()))
    if scenario.follows:  # its schedule is that of the others, whose bytes are equal then
        at = scenario.words.index("--schedule-of")
        words = scenario.words[:at] + scenario.words[at + 2 :]
        Disturbed(replace(scenario, words=words), root / SCHEDULE).complete()
    begins, start, began = [], time.monotonic(), time.time_ns()
    if scenario.machines:  # whose bytes are those of as many processes of one machine
        words = (*scenario.words, "--nproc", str(scenario.processes))
        scenario = replace(scenario, words=words, machines=False)
    run = Disturbed(scenario, root / "undisturbed")
    watch = forked(lambda: _until_begun(run.run, began, start), root / "begins.json")
    run.complete()
    seconds = time.monotonic() - start
    os.waitpid(watch, 0)
    begins = outcome(root / "begins.json")
    names = json.loads(modules.read_text()) if scenario.forks else []
    return [names, begins, seconds - begins, disturbed.content(run.run)]


def _until_begun(run: Path, began: int, start: float) -> float:
    while not disturbed.has_begun(run, began):
        time.sleep(0.01)
    return time.monotonic() - start


def disturb(run: Disturbed, expected: dict[str, str], steps: int) -> list:
    """Completes a run that is disturbed, and compares it; its disturbances, whether it is equal."""
    run.complete()
    actual = disturbed.content(run.run)
    other = {name for name in expected | actual if expected.get(name) != actual.get(name)}
    if other and run.scenario.same_bytes:
        raise disturbed.Broken(f"{len(other)} files differ: {sorted(other)[:5]}")
    disturbed.check(run.run, steps)
    shutil.rmtree(run.run)
    run.log.unlink()
    return [run.kills, not other]


def prompts_of(task: str, scratch: Path) -> tuple[str, ...]:
    """Makes prompts of a task to train on and held-out ones; the words of `rlvr train` for them."""
    words = []
    for option, split, limit in (("--prompts", "train", "24"), ("--heldout", "heldout", "6")):
        out = str(scratch / f"{split}-{task.removeprefix('task:')}")
        made = ["prompts", task, "--split", split, "--limit", limit, "--out", out]
        os.waitpid(forked(lambda made=made: app.run(made), scratch / "_"), 0)
        assert outcome(scratch / "_") == 0
        words += [option, out]
    return tuple(words)


def prepare(given: argparse.Namespace, scratch: Path) -> dict[str, Tally]:
    """The undisturbed run of each scenario, all at once; what they import is imported here too."""
    names = given.scenario or BY_DEFAULT
    prompts = {task: prompts_of(task, scratch) for task in {SCENARIOS[n].task for n in names}}
    common = (*COMMON, "--steps", str(given.steps))
    tallies, waiting = {}, {}
    for name in names:
        scenario = SCENARIOS[name]
        words = (*scenario.words, *common, *prompts[scenario.task], *given.words)
        scenario = replace(scenario, words=words)
        if scenario.follows:
            words = ("--schedule-of", str(scratch / name / SCHEDULE))
            scenario = replace(scenario, words=(*scenario.words, *words))
        if given.commands:
            scenario = replace(scenario, forks=False)
        tallies[name] = Tally(scenario)
        result = scratch / f"{name}.json"
        work = lambda name=name, s=scenario: undisturbed(name, s, scratch / name)  # noqa: E731
        waiting[name] = forked(work, result)
    for name, child in waiting.items():
        os.waitpid(child, 0)
        modules, begins, works, expected = outcome(scratch / f"{name}.json")
        load(modules)
        tallies[name].timing, tallies[name].expected = Timing(begins, works), expected
    return tallies


def play(given: argparse.Namespace, tallies: dict[str, Tally], scratch: Path) -> list[str]:
    """Runs of all scenarios, `jobs` at a time, until each has its kills; what was wrong."""
    end = time.monotonic() + given.minutes * 60
    memory = disturbed.gpu_memory() if given.jobs == 1 and disturbed.has_gpu() else None
    running: dict[int, tuple[str, int, Path]] = {}
    wrong: list[str] = []
    while True:
        lacking = {n: given.kills - len(t.kills) for n, t in tallies.items()}
        if given.run is not None:
            lacking = {n: 1000 for n, t in tallies.items() if not t.begun}
        names = [n for n, kills in lacking.items() if kills > 0 and time.monotonic() < end]
        if names and not wrong and len(running) < given.jobs:
            busy = Counter(name for name, _, _ in running.values())
            name = min(names, key=lambda n: (busy[n] * tallies[n].scenario.processes, n))
            tally = tallies[name]
            number = tally.begun if given.run is None else given.run
            tally.begun += 1
            run = Disturbed(
                tally.scenario, scratch / name / f"run-{number}",
                random.Random(f"{given.seed} {name} {number}"), lacking[name], tally.timing, memory,
            )  # fmt: skip
            result = scratch / name / f"run-{number}.json"
            work = lambda run=run, tally=tally: disturb(run, tally.expected, given.steps)  # noqa: E731
            running[forked(work, result)] = name, number, result
            continue
        if not running:
            return wrong
        child, _ = os.wait()
        name, number, result = running.pop(child)
        try:
            kills, is_equal = outcome(result)
            tallies[name].kills += kills
            tallies[name].runs += 1
            tallies[name].equal += is_equal
        except disturbed.Broken as broken:
            wrong.append(
                f"{name}, run {number}: {broken}\n  it lies in {scratch / name}; again with "
                f"`python tests/crash.py --scenario {name} --seed {given.seed} --run {number}`"
            )


def table(tallies: dict[str, Tally]) -> str:
    """What was disturbed, how and when."""
    signals = sorted({kill[0] for tally in tallies.values() for kill in tally.kills})
    phases = Counter(kill[2] for tally in tallies.values() for kill in tally.kills)
    rows = [["scenario", "kills", *signals, "runs", "files", "equal", "phases"]]
    for name, tally in tallies.items():
        by_signal, by_phase = (Counter(kill[i] for kill in tally.kills) for i in (0, 2))
        files = sum(kind != "a folder" for kind in tally.expected.values())
        said = ", ".join(f"{phase} {by_phase[phase]}" for phase in phases if by_phase[phase])
        counts = [len(tally.kills), *(by_signal[s] for s in signals), tally.begun]
        rows.append([name, *counts, files, tally.equal, said])
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(str(v).ljust(w) for v, w in zip(row, widths, strict=True)) for row in rows]
    for name, tally in tallies.items():
        if tally.scenario.processes > 1 or tally.scenario.follows:
            targets = Counter(f"{signal} {target}" for signal, target, _ in tally.kills)
            lines.append(f"{name}: " + ", ".join(f"{k} {n}" for k, n in sorted(targets.items())))
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--scenario", action="append", choices=SCENARIOS, help=f"by default {BY_DEFAULT}")
    add("--kills", type=int, default=50, help="disturbances of each scenario")
    add("--steps", type=int, default=6, help="of a run")
    add("--jobs", type=int, default=1, help="runs at the same time")
    add("--commands", action="store_true", help="no attempt is a fork: each is a command line")
    add("--seed", type=int, default=0)
    add("--run", type=int, help="this run alone")
    add("--minutes", type=float, default=600.0, help="begin no run after so many")
    add("words", nargs="*", help="of `rlvr train`")
    given = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="crash-"))
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = (
        "1"  # a GPU that was started here is lost to forks
    )
    start = time.monotonic()
    tallies = prepare(given, scratch)
    wrong = play(given, tallies, scratch)
    print(table(tallies))
    if wrong:
        sys.exit("\n".join(wrong))
    shutil.rmtree(scratch)
    kills, runs = (
        sum(len(t.kills) for t in tallies.values()),
        sum(t.runs for t in tallies.values()),
    )
    is_equal = all(tally.equal == tally.runs for tally in tallies.values())
    said = "every file equal" if is_equal else "each complete, not all with equal bytes"
    print(f"{kills} kills over {runs} runs in {time.monotonic() - start:.0f} s: {said}")


if __name__ == "__main__":
    main()
