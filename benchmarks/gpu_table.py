"""Tables of the steps that gpu_step.py and gpu_step_trl.py timed on one card.

    python -P benchmarks/gpu_table.py graph.jsonl trl.jsonl --write docs/gpu-step.md

takes what the runs printed, puts it among the records that are stored, in place of the same run's,
and writes both the records and the page. Without --write it prints the tables of both; without
records those of what is stored.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).parent))
from evaluation_cost import put

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for

Run = dict[str, Any]  # what the run was, and `steps`: their records
RESULTS = Path(__file__).parent / "results" / "gpu-step-nvidia-h200.json"
NAME = "steps"
SETTING = ("shape", "mean_length", "rows", "new_tokens", "lora_rank")
PHASES = ("rollout", "sync", "rewards, log-probs", "update", "other")
UNKNOWN = "-"
USUAL = 16384  # tokens of a micro-batch


def read(path: Path) -> Run:
    """The run that a file of JSON lines is of; other lines in it are what libraries print."""
    run: Run = {"steps": []}
    for line in path.read_text().splitlines():
        if line.startswith('{"run"'):
            run |= json.loads(line)["run"]
        elif line.startswith('{"step"'):
            run["steps"].append(json.loads(line))
    if "who" not in run or not run["steps"]:
        sys.exit(f"{path} has no run with a step: it is not what gpu_step.py printed, or it failed")
    return run


def merged(stored: list[Run], new: list[Run]) -> list[Run]:
    """Each run once, the new one of two; all of them on one kind of card."""
    runs = {identity(run): run for run in [*stored, *new]}
    if len(cards := {run["card"] for run in runs.values()}) > 1:
        sys.exit(f"the runs are on {' and '.join(sorted(cards))}: name another file by --results")
    return list(runs.values())


def identity(run: Run) -> tuple[Any, ...]:
    names = (*SETTING, "who", "engine", "trainer", "micro_batch_tokens", "recompute")
    return tuple(run.get(name) for name in names)


def tables(runs: list[Run]) -> list[str]:
    if not runs:
        return ["Not measured yet."]
    runs = in_order(runs)
    ends = [(run, step) for run in runs for step in first_and_last(run)]
    heads = ["", "step", "tokens", *PHASES, "whole step", "of TRL's"]
    seconds = table(heads, runs, [seconds_of(runs, run, step) for run, step in ends], ends)
    heads = ["", "step", "tokens/s: rollout", "update", "MFU: update", "step", "W: rollout",
             "update", "step", "GiB: torch", "card"]  # fmt: skip
    rates = table(heads, runs, [rates_of(step) for _, step in ends], ends)
    return [
        *facts(runs), "", "Seconds:", "", *seconds, "", "Rates, power and peak memory:", "", *rates,
        *checkpoints(runs),
    ]  # fmt: skip


def in_order(runs: list[Run]) -> list[Run]:
    """Runs of a setting beside each other, settings as they came."""
    settings = list(dict.fromkeys(map(setting, runs)))
    return sorted(runs, key=lambda run: (settings.index(setting(run)), run["who"] != "rlvr"))


def setting(run: Run) -> tuple[Any, ...]:
    return tuple(run[name] for name in SETTING)


def first_and_last(run: Run) -> list[dict[str, Any]]:
    """The first step, and the last one without a checkpoint; the last of a run always has one."""
    steps = sorted(run["steps"], key=lambda step: step["step"])
    plain = [step for step in steps[1:] if not step["saved"]]
    return [steps[0], *(plain or steps[1:])[-1:]]


def facts(runs: list[Run]) -> list[str]:
    versions = {name: {run["versions"].get(name) for run in runs} - {None} for name in
                ("torch", "transformers", "vllm", "deepspeed", "peft")}  # fmt: skip
    named = [f"{name} {' and '.join(sorted(each))}" for name, each in versions.items() if each]
    hosts = list(dict.fromkeys(run["host"] for run in runs))
    line = f"{runs[0]['card']}; {', '.join(named)}."
    if len(hosts) > 1:
        line += f" {len(hosts)} cards, which the letters behind the runs tell apart."
    return [line]


def label(runs: list[Run], run: Run) -> str:
    """What a row is of: the engine of ours, or TRL; what else of it and its card differs."""
    if run["who"] != "rlvr":
        name = f"{run['who']}, {run['engine']}"
    else:
        name = f"rlvr, `{run['engine']}`"
        name += f", `{run['trainer']}`" if run["trainer"] != "local" else ""
        size = run["micro_batch_tokens"]
        name += f", micro-batches of {size:,}" if size != USUAL else ""
    name += ", recomputing" if run["recompute"] else ""
    hosts = list(dict.fromkeys(each["host"] for each in runs))
    return f"{name} ({chr(97 + hosts.index(run['host']))})" if len(hosts) > 1 else name


def title(run: Run) -> str:
    length = f"mean {run['mean_length']}, at most" if run["mean_length"] else "each"
    adapters = f", LoRA of rank {run['lora_rank']}" if run["lora_rank"] else ""
    return (
        f"**{run['shape']}{adapters}: {run['rows']} rows, {length} {run['new_tokens']:,} tokens**"
    )


def table(
    heads: list[str], runs: list[Run], cells: list[list[str]], ends: list[tuple[Run, Any]]
) -> list[str]:
    """Rows below the title of their setting."""
    lines, last = [row(heads), row(["---"] * len(heads))], None
    for (run, step), each in zip(ends, cells, strict=True):
        if setting(run) != last:
            lines.append(row([title(run), *[""] * (len(heads) - 1)]))
            last = setting(run)
        lines.append(row([label(runs, run), str(step["step"]), *each]))
    return lines


def row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def seconds_of(runs: list[Run], run: Run, step: dict[str, Any]) -> list[str]:
    known = step["seconds"]
    phases = [f"{known[name]:.1f}" if name in known else UNKNOWN for name in PHASES]
    return [f"{step['sampled']:,}", *phases, f"{step['whole']:.1f}", of_trl(runs, run, step)]


def of_trl(runs: list[Run], run: Run, step: dict[str, Any]) -> str:
    """The share of TRL's time on the same card, first steps beside first ones, last beside last."""
    if run["who"].startswith("TRL"):
        return ""
    for other in runs:
        same = setting(other) == setting(run) and other["host"] == run["host"]
        if same and other["who"].startswith("TRL"):
            place = first_and_last(run).index(step)
            return f"{step['whole'] / first_and_last(other)[-1 if place else 0]['whole']:.2f}"
    return UNKNOWN


def rates_of(step: dict[str, Any]) -> list[str]:
    def known(value: float | None) -> str:
        return UNKNOWN if value is None else f"{value:,}"

    mfu = [f"{step['mfu'][name]:.3f}" for name in ("update", "whole")]
    watts = [known(step["watts"].get(name)) for name in ("rollout", "update", "whole")]
    gib = [known(step["gib"][name]) for name in ("torch", "card")]
    speeds = [known(step[f"{name}_tokens_s"]) for name in ("rollout", "update")]
    return [*speeds, *mfu, *watts, *gib]


def checkpoints(runs: list[Run]) -> list[str]:
    """What checkpoints add to the steps after the first, of the runs that wrote any."""
    heads = ["", "a step without", "with", "of it the checkpoint", "the step after",
             "the last, until all is on disk"]  # fmt: skip
    lines = []
    for run in runs:
        steps = {step["step"]: step for step in run["steps"]}
        if not any(step["saved"] for step in steps.values()):
            continue
        last = steps[max(steps)]
        after = {number + 1 for number, step in steps.items() if step["saved"]}
        later = [step for number, step in steps.items() if number > 1 and step is not last]
        saved = [step for step in later if step["saved"]]
        plain = [step for step in later if not step["saved"] and step["step"] not in after]
        followers = [step for step in later if not step["saved"] and step["step"] in after]
        cells = [middle(map(total, plain)), middle(map(total, saved)), middle(map(written, saved)),
                 middle(map(total, followers)),
                 f"{total(last):.1f}" if last["saved"] else UNKNOWN]  # fmt: skip
        lines.append(row([f"{title(run).strip('*')}; {label(runs, run)}", *cells]))
    if not lines:
        return []
    intro = "Seconds with checkpoints, medians of the steps after the first:"
    return ["", intro, "", row(heads), row(["---"] * len(heads)), *lines]


def written(step: dict[str, Any]) -> float:
    return float(step["seconds"].get("checkpoint", 0.0))


def total(step: dict[str, Any]) -> float:
    return float(step["whole"]) + written(step)


def middle(values: Any) -> str:
    listed = list(values)
    return f"{median(listed):.1f}" if listed else UNKNOWN


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", type=Path, nargs="*", metavar="RECORDS", help="JSON lines")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the stored records")
    parser.add_argument("--write", type=Path, help=f"a page with <!-- {NAME} --> in it")
    options = parser.parse_args()
    stored = json.loads(options.results.read_text())["runs"] if options.results.exists() else []
    runs = merged(stored, [read(path) for path in options.records])
    lines = tables(runs)
    if options.write is None:
        print("\n".join(lines))
        return
    put(options.write, NAME, lines)
    options.results.write_text(json.dumps({"runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
