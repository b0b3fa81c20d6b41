"""One step of `rlvr train` on 1, 2, 4, 8 cards: seconds by stage, share of linear, memory, losses.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/scaling.py DIR --cards 1 2 4 8 --prompts 256 --new-tokens 1024
    python -P benchmarks/scaling.py DIR --cards 2 --kill

The prompts are the same for every number of cards, and so are the tokens of a step. `--kill` kills
the last rank with SIGKILL in each phase of the second step, sees that all ranks stop with one
message, runs the same command again, and compares what it then has with an undisturbed run: every
part that was intact must still be the same file, every directory intact, every loss equal. The
weights of DIR are random and its objective is nsr, as in gpu_step.py; a policy that rlvr has, such
as builtin, is trained by --algo on the built-in task. On a CPU (`--engine transformers`) the
processes share its cores, so their seconds say nothing. One JSON file a number of cards.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]
STAGES = ("rollout", "sync_weights", "logprob", "train_step")
SAME = ("loss", "grad_norm", "entropy")


def words(
    options: argparse.Namespace, cards: int, out: Path, steps: int, *, save_every: int
) -> list[str]:
    folder, given = Path(options.folder), []
    if folder.is_dir():
        prompts = folder / "prompts"
        if not prompts.exists():
            results = [
                "prompts",
                folder / "prompts.jsonl",
                "--verifier",
                "number",
                "--out",
                prompts,
            ]
            subprocess.run([*RLVR, *map(str, results)], check=True, stdout=subprocess.DEVNULL)
        given = ["--prompts", prompts]
    given += [
        "--algo", options.algo, "--model", options.folder, "--steps", steps,
        "--eval-every", 0, "--save-every", save_every, "--prompts-per-step", options.prompts,
        "--prompts-per-part", max(1, options.prompts // 32),
        "--num-generations", options.generations, "--max-new-tokens", options.new_tokens,
        "--engine", options.engine, "--trainer", options.trainer, "--nproc", cards,
        "--micro-batch-tokens", options.micro_batch_tokens, "--out", out,
    ]  # fmt: skip
    given += ["--recompute-activations"] * options.recompute
    return [*RLVR, "train", *map(str, given)]


def start(command: list[str]) -> subprocess.Popen:
    def heed() -> None:  # an interrupt, which a shell has its background jobs ignore
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed
    )


def ranks_of(process: subprocess.Popen, cards: int) -> dict[int, int]:
    """The process ids of the ranks: the children that torchrun started, or the process itself."""
    if cards == 1:
        return {0: process.pid}  # its own children are what it compiles with
    actual = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent != process.pid:
                continue
            for variable in (entry / "environ").read_text().split("\0"):
                if variable.startswith("RANK="):
                    actual[int(variable[5:])] = int(entry.name)
        except OSError:
            continue  # it has ended meanwhile
    return actual


class Memory(threading.Thread):
    """The most that each card, or on a CPU each process, has held, in GiB."""

    def __init__(self, process: subprocess.Popen, cards: int) -> None:
        super().__init__(daemon=True)
        self._process, self._count = process, cards
        self._done, self.most = threading.Event(), {}
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        self._cards = visible.split(",")[:cards] if visible else list(map(str, range(cards)))

    def run(self) -> None:
        while not self._done.wait(0.5):
            for name, gib in self._held().items():
                self.most[name] = max(self.most.get(name, 0.0), round(gib, 2))

    def stop(self) -> dict[str, float]:
        self._done.set()
        self.join()
        return dict(sorted(self.most.items()))

    def _held(self) -> dict[str, float]:
        if cards := nvidia("index,memory.used"):
            stored = {index: float(mib) / 1024 for index, mib in cards}
            return {f"card {i}": stored[i] for i in self._cards if i in stored}
        stored = {}
        for rank, pid in ranks_of(self._process, self._count).items():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            lines = dict(line.partition(":")[::2] for line in status.splitlines())
            if "VmHWM" in lines:
                stored[f"process {rank}"] = int(lines["VmHWM"].split()[0]) / 2**20
        return stored


def nvidia(fields: str) -> list[list[str]]:
    """What nvidia-smi says of each card; nothing where there is none."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except FileNotFoundError:
        return []
    return [line.split(", ") for line in done.stdout.splitlines()]


def measured(options: argparse.Namespace, cards: int, scratch: Path) -> Iterator[dict]:
    """A run on so many cards: medians over its steps but the first, which starts the engines."""
    run = scratch / f"on-{cards}"
    running = start(words(options, cards, run, options.steps + 1, save_every=10**6))
    memory = Memory(running, cards)
    memory.start()
    said = stopped(running, run, options.steps)
    peaks = memory.stop()
    if len(records(run)) < options.steps:
        sys.exit(f"{cards} cards: {said[-2000:]}")
    steps = records(run)[: options.steps]
    timed = [step["seconds"] for step in steps[1:]] or [step["seconds"] for step in steps]
    yield {
        "cards": cards,
        "seconds": {
            name: round(median(step[name] for step in timed), 3)
            for name in STAGES
            if all(name in step for step in timed)
        },
        "memory_gib": peaks,
        "tokens": [step["tokens"] for step in steps],
        **{name: [step[name] for step in steps] for name in SAME},
    }


def stopped(running: subprocess.Popen, run: Path, steps: int) -> str:
    """What a run said until so many steps were recorded; then it is interrupted.

    So it writes no checkpoint, which for a policy of billions of parameters takes minutes.
    """
    reader = threading.Thread(target=lambda: said.append(running.communicate()[1]))
    said: list[str] = []
    reader.start()
    while reader.is_alive() and len(records(run)) < steps:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    reader.join()
    return said[0]


def records(run: Path) -> list[dict]:
    """Those of complete lines of the metrics but the evaluation's before the first step."""
    file = run / "metrics.jsonl"
    text = file.read_text() if file.exists() else ""
    lines = text[: text.rfind("\n") + 1].splitlines()
    return [record for record in map(json.loads, lines) if record["step"]]


def compared(first: dict, one: dict) -> dict:
    """A run with its share of linear scaling and its differences from the first."""
    times = one["cards"] / first["cards"]
    one["share_of_linear"] = {
        name: round(first["seconds"][name] / seconds / times, 3)
        for name, seconds in one["seconds"].items()
        if seconds
    }
    one["difference"] = {name: apart(one[name], first[name]) for name in SAME}
    return one


def apart(ours: list[float], theirs: list[float]) -> float:
    """The largest difference of two runs' figures, relative above 1: a loss may be 0."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(one - other) / max(abs(other), 1.0) for one, other in pairs)


def kill(options: argparse.Namespace, cards: int, scratch: Path) -> Iterator[dict]:
    """What each killed run lost, and how it went on."""
    undisturbed = scratch / f"undisturbed-{cards}"
    done = subprocess.run(
        words(options, cards, undisturbed, options.steps, save_every=1),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    expected = records(undisturbed)
    took = expected[1]["seconds"]  # the engines were started in the first step
    handed = took.get("sync_weights", 0.0)
    # The file that a phase of step 2 begins behind, and how long after it to kill; an update ends
    # with the checkpoint, which takes most of its time.
    begins = {
        "hand-over": ("steps/000001/update", handed / 2),
        "rollout": ("steps/000001/update", handed + 0.6 * took["rollout"]),
        "update": ("steps/000002/advantages", 0.15 * took["train_step"]),
    }
    for phase, when in begins.items():
        if phase in options.phases and (phase != "hand-over" or handed):
            yield killed(options, cards, scratch / f"{phase}-{cards}", phase, *when, expected)


def killed(
    options: argparse.Namespace,
    cards: int,
    run: Path,
    phase: str,
    behind: str,
    seconds: float,
    expected: list[dict],
) -> dict:
    command = words(options, cards, run, options.steps, save_every=1)
    running = start(command)
    while running.poll() is None and not (run / behind / "_manifest.json").exists():
        time.sleep(0.005)
    time.sleep(seconds)
    ranks = ranks_of(running, cards)
    if running.poll() is not None or not ranks:
        sys.exit(f"nothing was left to kill in {phase}: {running.communicate()[1][-2000:]}")
    os.kill(ranks[max(ranks)], signal.SIGKILL)
    moment = time.monotonic()
    _, said = running.communicate()
    stopped = time.monotonic() - moment
    messages = [line for line in said.splitlines() if line.startswith("error:")]
    parts = {path: path.stat().st_mtime_ns for path in run.rglob("part-*.parquet")}
    code = running.returncode
    if not code:
        sys.exit(f"killed in {phase}, ended as if nothing had been: {said[-2000:]}")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    if again.returncode:
        sys.exit(f"killed in {phase}, did not go on: {again.stderr[-2000:]}")
    kept = {path for path, result in parts.items()
            if path.exists() and path.stat().st_mtime_ns == result}  # fmt: skip
    return {
        "cards": cards,
        "killed_in": phase,
        "exit_code": code,
        "messages": messages,
        "seconds_until_all_stopped": round(stopped, 2),
        "parts_whole_at_the_kill": len(parts),
        "of_them_made_again": sorted(str(path.relative_to(run)) for path in parts.keys() - kept),
        "directories_not_whole": damaged(run),
        "difference": {
            name: apart([r[name] for r in records(run)], [r[name] for r in expected])
            for name in SAME
        },
    }


def damaged(run: Path) -> list[str]:
    """What of a run is not intact: every part against its checksum, every kept checkpoint."""
    from rlvr_cli.errors import DataError
    from rlvr_cli.models.policy import checkpoint_state
    from rlvr_cli.storage.shards import Shards

    values = []
    for manifest in sorted(run.rglob("_manifest.json")):
        try:
            shards = Shards.open(manifest.parent)
            for index in range(len(shards)):
                shards.part(index)
            if shards.kind == "steps" and checkpoint_state(shards) == "damaged":
                values.append(str(manifest.parent))
        except DataError as error:
            values.append(str(error))
    return values


def facts() -> dict:
    from importlib.metadata import version

    import torch

    cards = [name for (name,) in nvidia("name")]
    return {"machine": cards or f"CPU, {os.cpu_count()} cores", "torch": torch.__version__} | {
        name: version(name) for name in ("transformers", "deepspeed")
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="what gpu_step.py made, or a policy that rlvr has")
    parser.add_argument("--cards", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kill", action="store_true")
    phases = ["hand-over", "rollout", "update"]
    parser.add_argument("--phases", nargs="+", choices=phases, default=phases, help="of --kill")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--algo", default="nsr")
    parser.add_argument("--engine", default="vllm:max_length=2048")
    parser.add_argument("--trainer", default="deepspeed:zero=2")
    parser.add_argument("--micro-batch-tokens", type=int, default=16384)
    parser.add_argument("--recompute", action="store_true", help="activations")
    parser.add_argument("--against", type=Path, help="a JSON of fewer cards, if not in this run")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    options = parser.parse_args()
    if options.kill and options.steps < 2:
        parser.error("--kill is in the second step: --steps 2 or more")
    options.results.mkdir(parents=True, exist_ok=True)
    setting = {name: str(value) for name, value in vars(options).items()} | facts()
    with tempfile.TemporaryDirectory() as scratch:
        first = json.loads(options.against.read_text())["found"][0] if options.against else None
        for cards in options.cards:
            make = kill if options.kill else measured
            name = f"scaling-{'kill-' if options.kill else ''}{Path(options.folder).name}-{cards}"
            mine = []
            for one in make(options, cards, Path(scratch)):
                first = first or one
                mine.append(one if options.kill else compared(first, one))
                print(json.dumps(one), flush=True)
                text = json.dumps({"setting": setting, "found": mine}, indent=1)
                (options.results / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
