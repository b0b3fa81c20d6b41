"""Damages real run directories, and judges what each command makes of them.

    python tests/fuzz/run_directories.py --cases 20000 --seed 1 --jobs 2

A case is one mutation of one file of a run that is finished, or was killed within a step, and one
command on it. What may come of it:

    mended    the command ends well, and all files are those of an undisturbed run
    refused   one line names the file or its folder, one hint says what to do; doing that works
    unread    the command ends well with the result that it has without the damage, as it does not
              need the file; `rlvr check RUN` refuses it
    harmless  nobody reads what was added

Another result, a traceback, `a defect of rlvr`, a second error line or a hang fails the case.
Each case is a fork of a process that has loaded what the commands load.
"""

import argparse
import collections
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import damage
import torch
from damage import Damage

from rlvr_cli.cli import app

HANGS_S = 180
SMALL = ["--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "8", "--prompts-per-part", "2"]
UPDATE = ["--learning-rate", "3e-4", "--mini-batch-prompts", "2"]
RUN = ["--eval-every", "1", "--eval-num-generations", "2", "--save-every", "1", "--keep", "2"]
STEPS = 2
ALGOS = {"plain": "grpo", "dlc": "grpo+dlc"}
LAST = f"{STEPS:06d}"


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code, None where it hung, and what it printed."""

    code: int | None
    out: str
    err: str


def forked(words: list[str], folder: Path, modules: Path | None = None) -> Outcome:
    """Runs a command in a fork of this process, in a folder."""
    printed = [folder / "out.txt", folder / "err.txt"]
    child = os.fork()
    if child == 0:
        code = 99
        try:
            torch.set_num_threads(1)
            for number, path in enumerate(printed, 1):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.chdir(folder)
            code = app.run(words)
            if modules:
                modules.write_text(json.dumps([*sys.modules]))
            sys.stdout.flush(), sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    end = time.monotonic() + HANGS_S
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.002)
    if done[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(done[1]) if done[0] else None
    return Outcome(code, *(path.read_text(errors="replace") for path in printed))


def commands(base: str, state: str) -> dict[str, list[str]]:
    """The commands that are tried on a run in the folder `run`."""
    step, last = "run/steps/000001", f"run/eval/{LAST if state == 'finished' else '000001'}"
    train = ["train", "--out", "run", *SMALL, *UPDATE, *RUN, "--algo", ALGOS[base]]
    train += ["--prompts", "../train", "--heldout", "../heldout", "--model", "builtin"]
    return {
        "train": [*train, "--steps", str(STEPS)],
        "more": [*train, "--steps", str(STEPS + 1)],
        "check": ["check", "run"],
        "report": ["report", "run", "--out", "page.html"],
        "eval-passk": ["eval-passk", f"{last}/scores", "--json"],
        "score": ["score", f"{step}/rollouts", "--out", f"{step}/scores"],
        "train-step": ["train-step", f"{step}/advantages", "--out", f"{step}/update", *UPDATE],
    }


def content(run: Path, known: dict[int, str]) -> dict[str, str]:
    """A hash of every file of a run; of metrics.jsonl without its seconds. `known` is by inode."""
    actual = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            actual[name] = "other"
        elif path.is_dir() or path.name in damage.NOT_WRITTEN:
            continue
        elif path.name == damage.METRICS:
            actual[name] = _without_seconds(path.read_bytes())
        else:
            inode = path.stat().st_ino
            actual[name] = known.get(inode) or hashlib.sha256(path.read_bytes()).hexdigest()
    return actual


def _without_seconds(data: bytes) -> str:
    with contextlib.suppress(ValueError, TypeError):
        lines = [json.loads(line) for line in data.splitlines()]
        lines = [{n: v for n, v in line.items() if n != "seconds"} for line in lines]
        data = json.dumps(lines).encode()
    return hashlib.sha256(data).hexdigest()


class Base:
    """A run that a command was tried on without damage, and what came of it."""

    def __init__(self, root: Path, name: str, state: str) -> None:
        self.path, self.name, self.state = root / f"{name}-{state}", name, state
        self.files = damage.files(self.path / "run")
        paths = (self.path / "run" / file for file in self.files)
        self.known = {p.stat().st_ino: hashlib.sha256(p.read_bytes()).hexdigest() for p in paths}
        self.commands = commands(name, state)
        self.expected: dict[str, tuple[dict[str, str], str]] = {}
        for command, words in self.commands.items():
            folder = self.fresh(root, "undisturbed")
            ran = forked(words, folder)
            assert ran.code == 0, (name, state, command, ran.err)
            self.expected[command] = content(folder / "run", self.known), result(ran, folder)
            shutil.rmtree(folder)

    def fresh(self, root: Path, name: str) -> Path:
        folder = root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        damage.linked_copy(self.path / "run", folder / "run")
        return folder


def result(ran: Outcome, folder: Path) -> str:
    """What a command gives beside the files of the run: its JSON, or its page without times."""
    page = folder / "page.html"
    return page.read_text() if page.exists() else ran.out


@dataclass(frozen=True)
class Verdict:
    """What a case came to, and the reason where it failed."""

    outcome: str
    why: str = ""


def judge(base: Base, command: str, folder: Path, done: Damage, ran: Outcome) -> Verdict:
    """What a command made of a damaged run."""
    if wrong := _unfit(ran):
        return Verdict("failed", wrong)
    expected, expected_result = base.expected[command]
    if ran.code != 0:
        return _refused(base, command, folder, done, ran)
    actual = content(folder / "run", base.known)
    touched = {str(path) for path in (*done.changed, *done.added)}
    others = {
        name
        for name in expected.keys() | actual.keys()
        if expected.get(name) != actual.get(name) and not _is_of(name, touched)
    }
    if done.kind == "rename":
        others = {name for name in others if name in expected}
    if others and not _is_said(others, ran):
        return Verdict("failed", f"other files than of an undisturbed run: {sorted(others)[:4]}")
    got = result(ran, folder)
    unfinished = base.state == "killed" and all(LAST in file.parts for file in done.changed)
    is_said = "skipped" in got or "left out" in got or unfinished  # as if killed earlier
    if got != expected_result and not is_said and command != "check":
        return Verdict("failed", "another result than without the damage")
    left = [path for path in done.changed if expected.get(str(path)) != actual.get(str(path))]
    if not left:
        return Verdict("mended" if done.changed else "harmless")
    if all(str(path) not in expected for path in left):
        return Verdict("mended")  # gone in an undisturbed run too
    if all(_is_as_if_killed_earlier(base, folder / "run" / path) for path in left):
        return Verdict("unread")
    if all(_means_the_same(base.path / "run" / p, folder / "run" / p) for p in left):
        return Verdict("harmless")
    checked = ran if command == "check" else forked(["check", "run"], folder)
    if checked.code == 3 and not _unfit(checked):
        return Verdict("unread")
    return Verdict("failed", f"{[str(path) for path in left]} stays as it is, and nothing says so")


def _is_of(name: str, touched: set[str]) -> bool:
    return any(name == path or name.startswith(f"{path}/") for path in touched)


def _is_as_if_killed_earlier(base: Base, path: Path) -> bool:
    """Whether the end of a directory is gone in a step that had not ended anyway."""
    is_gone = path.name == "_manifest.json" and not path.exists()
    return is_gone and base.state == "killed" and LAST in path.parts


def _means_the_same(before: Path, after: Path) -> bool:
    """Whether a text is as it was, but for the end of its last line, or for the times in it."""
    if before.suffix not in (".json", ".toml", ".jsonl", ".sha256") or not after.is_file():
        return False
    if before.name == damage.METRICS:
        return _without_seconds(before.read_bytes()) == _without_seconds(after.read_bytes())
    return before.read_bytes().strip() == after.read_bytes().strip()


def _is_said(others: set[str], ran: Outcome) -> bool:
    """Whether all that differs is a checkpoint that stays as an evaluation was left out."""
    return "left out" in ran.err and all("/_checkpoint/" in name for name in others)


def _unfit(ran: Outcome) -> str | None:
    """What no user may see."""
    if ran.code is None:
        return "it hangs"
    for text in ("Traceback", "a defect of rlvr"):
        if text in ran.err:
            where = ran.err[ran.err.index(text) :].strip().splitlines()
            return f"{where[0]} ... {where[-1]}"
    if ran.code not in (0, 1, 2, 3):
        return f"it ends with {ran.code}"
    return None


def _refused(base: Base, command: str, folder: Path, done: Damage, ran: Outcome) -> Verdict:
    lines = ran.err.strip().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    hints = [line for line in lines if line.lstrip().startswith("hint: ")]
    if len(errors) != 1 or len(hints) != 1:
        return Verdict("failed", f"{len(errors)} error lines, {len(hints)} hints: {ran.err[-300:]}")
    places = {path for file in (*done.changed, *done.added) for path in (file, *file.parents)}
    names = {str(path) for path in places if path != Path()} | {"run`"}
    if not any(name in errors[0] for name in names):
        return Verdict("failed", f"the error does not name the file: {errors[0]}")
    asked = re.search(r"(?:move|remove) `([^`]+)`", hints[0])
    if asked and command in ("train", "more", "score", "train-step"):
        moved = folder / asked[1]
        if not (moved.exists() or moved.is_symlink()):
            return Verdict("failed", f"the hint names what is not there: {hints[0]}")
        moved.rename(folder / "moved-away")
        again = forked(base.commands[command], folder)
        if again.code != 0:
            return Verdict("failed", f"{hints[0]}: then {again.err[-300:]}")
    return Verdict("refused")


def case(base: Base, root: Path, chance: random.Random) -> tuple[str, str, str, Verdict, str]:
    """The kind of file, the mutation, the command, what came of it, and how to see it again."""
    command = chance.choices(list(base.commands), weights=[4, 2, 4, 1, 2, 2, 1])[0]
    file, kind = chance.choice(base.files), chance.choice(damage.KINDS)
    folder = base.fresh(root, "case")
    done = damage.inflict(kind, folder / "run", file, chance)
    ran = forked(base.commands[command], folder)
    verdict = judge(base, command, folder, done, ran)
    told = f"{base.name}-{base.state}, {kind} {[str(p) for p in (*done.changed, *done.added)]}, "
    return damage.kind_of(file), kind, command, verdict, told + command


def make(root: Path, algos: list[str]) -> None:
    """The runs to damage, and the names of the modules that commands load, in `modules.json`."""
    for split, limit in (("train", "12"), ("heldout", "3")):
        words = ["--split", split, "--limit", limit, "--out", split]
        assert forked(["prompts", "task:expression", *words], root).code == 0
    names: set[str] = set()
    for name in algos:
        finished, killed = root / f"{name}-finished", root / f"{name}-killed"
        finished.mkdir()
        words = commands(name, "finished")["train"]
        ran = forked(words, finished, root / "modules.json")
        assert ran.code == 0, ran.err
        names |= set(json.loads((root / "modules.json").read_text()))
        _killed(finished, killed)
    for command in ("report", "eval-passk", "check"):
        words = commands(name, "finished")[command]
        assert forked(words, finished, root / "modules.json").code == 0
        names |= set(json.loads((root / "modules.json").read_text()))
    (root / "modules.json").write_text(json.dumps(sorted(names)))


def _killed(finished: Path, out: Path) -> None:
    """The run as a kill leaves it after it sampled and scored for the last step."""
    shutil.copytree(finished / "run", out / "run")
    shutil.rmtree(out / "run" / "eval" / LAST)
    for stage in ("update", "memory", "advantages"):
        shutil.rmtree(out / "run" / "steps" / LAST / stage, ignore_errors=True)
    for name in (damage.METRICS, damage.DIGESTS):
        lines = (out / "run" / name).read_bytes().splitlines(keepends=True)
        (out / "run" / name).write_bytes(b"".join(lines[:-1]))


def load(names: list[str]) -> None:
    """Imports what commands import; nothing is computed, as a fork must not inherit threads."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def work(root: Path, made: Path, cases: int, seed: int, until: float) -> None:
    """One job's cases; a line of JSON each."""
    load(json.loads((made / "modules.json").read_text()))
    for split in ("train", "heldout"):
        shutil.copytree(made / split, root / split)
    bases = [
        Base(root, name, state)
        for name in ALGOS
        if (made / f"{name}-finished").exists()
        for state in ("finished", "killed")
        if shutil.copytree(made / f"{name}-{state}", root / f"{name}-{state}")
    ]
    for number in range(cases):
        if time.monotonic() > until:
            break
        chance = random.Random(f"{seed} {number}")
        *what, verdict, told = case(chance.choice(bases), root, chance)
        row = [*what, verdict.outcome, verdict.why, f"seed {seed} {number}: {told}"]
        print(f"case: {json.dumps(row)}", flush=True)


def table(rows: list[list[str]]) -> str:
    """How often each kind of file came to each outcome, by mutation."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for kind, mutation, _, outcome, *_ in rows:
        counts[kind][f"{mutation} {outcome}"] += 1
    outcomes = ("mended", "refused", "unread", "harmless", "failed")
    lines = [f"| file | {' | '.join(outcomes)} | by mutation |", "|---" * (len(outcomes) + 2) + "|"]
    for kind in sorted(counts):
        of = collections.Counter[str]()
        for name, count in counts[kind].items():
            of[name.partition(" ")[2]] += count
        cells = " | ".join(str(of[outcome]) for outcome in outcomes)
        by = ", ".join(f"{name} {count}" for name, count in sorted(counts[kind].items()))
        lines.append(f"| {kind} | {cells} | {by} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--runs", nargs="+", choices=list(ALGOS), default=list(ALGOS))
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no case after so many")
    parser.add_argument("--made", type=Path, help="runs to damage, of an earlier call")
    parser.add_argument("--job", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        until = time.monotonic() + given.seconds
        if given.job is not None:
            return work(root, given.made, given.cases, given.seed + given.job, until)
        made = given.made or root
        if not (made / "modules.json").exists():
            made.mkdir(exist_ok=True)
            make(made, given.runs)
        words = [sys.executable, "-P", str(Path(__file__).resolve()), "--made", str(made)]
        words += ["--seconds", str(given.seconds), "--cases", str(-(-given.cases // given.jobs))]
        jobs = [
            subprocess.Popen([*words, "--seed", str(given.seed * 1000), "--job", str(job)],
                             stdout=subprocess.PIPE, text=True, env=_environment(root))
            for job in range(given.jobs)
        ]  # fmt: skip
        rows = []
        for job in jobs:
            assert job.stdout
            for line in filter(None, (line.partition("case: ")[2] for line in job.stdout)):
                rows.append(json.loads(line))
                if rows[-1][3] == "failed":
                    print(f"{rows[-1][5]}: {rows[-1][4]}", flush=True)
            assert job.wait() == 0, "a job failed"
    print(table(rows))
    failed = sum(row[3] == "failed" for row in rows)
    print(f"{len(rows)} cases, {failed} failed")
    sys.exit(failed > 0)


def _environment(root: Path) -> dict[str, str]:
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "XDG_CACHE_HOME": str(root / "cache"), "PYTHONPATH": here}


if __name__ == "__main__":
    main()
