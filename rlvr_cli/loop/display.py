"""A run of `train` on a terminal: live figures, then what it did and what to try next."""

import contextlib
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlvr_cli import run_config
from rlvr_cli.algorithms import objective
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import UsageError
from rlvr_cli.evaluation import compare, pass_at_k
from rlvr_cli.loop import by_source, input_places, launching, setup
from rlvr_cli.loop.following import Others
from rlvr_cli.loop.launching import Places
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.loop.stored_config import resumed
from rlvr_cli.models import policy as policies, which
from rlvr_cli.runtime import distributed
from rlvr_cli.stages import dropped, rollout_remarks, task_prompts, train_step, unanswered
from rlvr_cli.storage import metrics_log
from rlvr_cli.storage.run_folders import CONFIG
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import console, escape, plural, tables
from rlvr_cli.tracking import process as tracker_process

_WIDTH_OF_BAR = 90  # the columns of a terminal from which on there is a bar


def run_name(config: RunConfig, recipe: str | None) -> str:
    """The folder of a run that was given none: its recipe, or else its algorithm, and its seed."""
    spec = "".join(c if c.isalnum() or c in "-." else "-" for c in recipe or config.train.algo)
    return f"{spec}-seed{config.train.seed}"


def configuration(
    out: Path | None, files: list[Path], given: dict[str, dict[str, Any]], recipe: str | None
) -> tuple[Path, RunConfig]:
    """The path and the options of a run; one that was begun has its own as the defaults."""
    begun = RunDirectory(out).begun() if out else None
    if out and begun is not None:
        chosen = resumed(run_config.load(files, given, recipe, stored=begun), begun)
        _say_begun(out, chosen, given)
        return out, chosen
    chosen = run_config.load(files, given, recipe)
    is_unnamed = not run_config.names("model", files, given, recipe)
    if is_unnamed and chosen.train.model == policies.BUILTIN:
        chosen = _with_policy(chosen)
    if out:
        return out, chosen
    out = Path("runs") / run_name(chosen, recipe)
    begun = RunDirectory(out).begun()
    if begun is None:
        return out, chosen
    stored = resumed(run_config.load(files, given, recipe, stored=begun), begun)
    if (stored.train.model, stored.train.prompts) != (chosen.train.model, chosen.train.prompts):
        raise UsageError(
            f"`{out}` holds a run of `{stored.train.model}` on "
            f"`{stored.train.prompts or 'the built-in task'}`",
            f"resume it with `--out {shlex.quote(str(out))}`, or start another with another --out",
        )
    _say_begun(out, stored, given)
    return out, stored


def _with_policy(config: RunConfig) -> RunConfig:
    """The run with the built-in policy for its prompts; an error if they are of no such task."""
    given = task_prompts.directory(config.train.prompts)
    if given is None:
        return config
    name = which.builtin(Shards.open(given, "prompts"))
    return replace(config, train=replace(config.train, model=name))


def _say_begun(out: Path, chosen: RunConfig, given: dict[str, dict[str, Any]]) -> None:
    """Names the stored options of a run that differ from the defaults and were not given now."""
    if distributed.is_launched():
        return  # the process that launched this one said it
    usual = run_config.load([], given, stored=None if run_config.is_builtin(chosen) else {})
    changed = [
        f"{name} {escape.brief(value)}"
        for table, options in vars(chosen).items()
        for name, value in vars(options).items()
        if given.get(table, {}).get(name) is None
        and name not in ("algo", "engine", "trainer", "stale_correction")
        and value != getattr(vars(usual)[table], name)
    ]
    if changed:
        console.say(f"train: `{out}` was begun with {', '.join(changed)}: it stays so")


def dry_run(out: Path, config: RunConfig, *, follows: bool, as_json: bool) -> None:
    """Prints the configuration of a run that would begin or resume, as a TOML file."""
    if as_json:
        raise UsageError(
            "--dry-run prints a TOML file, and --json was given",
            "leave --json out: `rlvr train --config FILE` reads what is printed",
        )
    _say_builtin(out, config)
    setup.dry_run(setup.check(out, config, follows=follows))
    console.remark("train", f"this run would be in `{out}`", *setup.settled(config)[1])
    console.document(config.to_toml())


def _say_builtin(out: Path, config: RunConfig) -> None:
    """Says that a run trains the built-in policy, and if it is new, how to train another one."""
    if not run_config.is_builtin(config):
        return
    task = task_prompts.of_split(config.train, "train") or ""
    what = f"the built-in tiny policy on the built-in task `{task.partition(':')[0]}`"
    if RunDirectory(out).begun() is None:
        what = f"`{out}` is a new run of {what}; for others, use --model and --prompts"
    console.say(f"train: {what}")


def follow(out: Path, file: Path | None, *, as_json: bool) -> None:
    """Trains a run whose steps other processes sample and score; with a `file` it is a new one."""
    if file is None and RunDirectory(out).begun() is None:
        raise UsageError(
            f"`{out}` is not a run yet",
            "name its configuration with `--config FILE`, as `rlvr train --dry-run` prints one",
        )
    out, config = configuration(out, [file] if file else [], {}, None)
    train(out, config, track=None, as_json=as_json, others=Others(out))


def train(
    out: Path,
    config: RunConfig,
    *,
    track: str | None,
    as_json: bool,
    places: Places | None = None,
    others: Others | None = None,
) -> None:
    """Runs the loop with its figures live, then prints the table, the curves and the next commands.

    With `places` it starts the processes that sample and score; with `others` it has some.
    """
    if places:
        input_places.require(out, config)
        config, said = setup.settled(config, len(places.samplers))
        console.remark("train", *said)
        with launching.started(out, places) as others:
            return train(out, config, track=track, as_json=as_json, others=others)
    _say_builtin(out, config)
    console.say(f"train: {objective.canonical(config.train.algo)} -> `{out}`")
    given = (config.train.prompts, config.train.heldout)
    console.reads(*filter(task_prompts.directory, given))
    input_places.require(out, config, follows=others is not None)
    config, said = setup.settled(config)
    policy = policies.resolve(config.train.model)
    console.remark("train", *said, *setup.prompt_remarks(config, policy))
    if not distributed.current().is_main_process:
        for _ in setup.train(out, config, others):
            pass
        return
    start = time.monotonic()
    records, warnings = [], _Warnings(RunDirectory(out), config)
    with _display(config.train.steps) as show, tracker_process.tracking(out, track) as tracker:
        for record in setup.train(out, config, others):
            records.append(record)
            if len(records) == 2:
                console.say(_agreement_line(record))
            show(record)
            if tracker:
                tracker.start()
            warnings.look(record)
    _say_end(out, config.train.steps, records, time.monotonic() - start)
    done = records[-1]["step"]
    is_evaluated = config.train.eval_every and done >= config.train.steps
    summary = _report(out, config) if is_evaluated else {}
    console.result(out, {"steps": done, **summary}, as_json=as_json)


def _say_end(out: Path, steps: int, records: list[dict[str, Any]], seconds: float) -> None:
    """How far the run got, and whether anything was learned."""
    trained = [record for record in records if record["seconds"]]
    done = records[-1]["step"]
    if done < steps:
        console.say(f"train: stopped after step {done} of {steps}")
    elif not trained:
        has = f"all {plural.of(steps, 'step')}" if done == steps else f"{done} steps, not {steps}"
        console.say(f"train: nothing left to do, `{out}` already has {has}")
    else:
        console.say(f"train: {plural.of(len(trained), 'step')} in {seconds:.1f} s")
        if not any(record.get("tokens") for record in trained):
            console.say(
                "warning: no completion had a reward to learn from: the policy did not change"
            )


class _Warnings:
    """Warns of completions that were cut, have no answer or are dropped.

    Once of training, and once of evaluations.
    """

    def __init__(self, directory: RunDirectory, config: RunConfig) -> None:
        own = config.train.eval_max_new_tokens
        options = {"steps": "--max-new-tokens"}
        options["eval"] = "--eval-max-new-tokens" if own else "--max-new-tokens"
        self._directory, self._options = directory, options
        self._printed: set[tuple[str, str]] = set()

    def look(self, record: dict[str, Any]) -> None:
        held = train_step.drifted(record)
        self._say_once(("steps", "drifted"), (f"step {record['step']}: {text}" for text in held))
        for kind in ["steps", "eval"] if record["seconds"] else ["eval"]:
            folder = self._directory.of(kind, record["step"])
            if (folder / "scores" / MANIFEST).exists():
                rollouts, scores = (Shards.open(folder / name) for name in ("rollouts", "scores"))
                self._say_once((kind, "cut"), rollout_remarks.cut(rollouts, self._options[kind]))
                self._say_once((kind, "unanswered"), unanswered.warnings(scores, rollouts))
        update = self._directory.of("steps", record["step"]) / "update"
        if record["seconds"] and (update / MANIFEST).exists():
            self._say_once(("steps", "dropped"), dropped.warnings(Shards.open(update)))

    def _say_once(self, what: tuple[str, str], texts: Iterator[str]) -> None:
        """Prints what a generator yields; nothing is computed if it was printed before."""
        for text in texts if what not in self._printed else ():
            console.say(text)
            self._printed.add(what)


@contextlib.contextmanager
def _display(steps: int) -> Iterator[Any]:
    """A live line with a bar on a terminal, a plain line every few seconds elsewhere.

    Where it is too narrow for all of them, there is no bar and the figures take several lines.
    """
    if not console.stderr().is_terminal:
        yield _PlainLines(steps)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    columns = [TextColumn("step"), MofNCompleteColumn()]
    columns += [BarColumn(20)] if console.stderr().width >= _WIDTH_OF_BAR else []
    columns += [
        TextColumn("{task.description}", markup=False, table_column=Column()),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console.stderr()) as progress:
        task = progress.add_task("starting", total=steps)

        def show(record: dict[str, Any]) -> None:
            if "eval" in record:
                progress.console.print(_evaluation_line(record))
            progress.update(task, completed=record["step"], description=_figures(record))

        yield show


class _PlainLines:
    def __init__(self, steps: int) -> None:
        self._steps, self._printed = steps, 0.0

    def __call__(self, record: dict[str, Any]) -> None:
        if "eval" in record:
            console.say(_evaluation_line(record))
        if time.monotonic() - self._printed > 5 or record["step"] == self._steps:
            self._printed = time.monotonic()
            console.say(
                f"step {record['step']} of {max(record['step'], self._steps)}: {_figures(record)}"
            )


def _figures(record: dict[str, Any]) -> str:
    if "reward" not in record:
        return "starting"
    values = (record[name] for name in ("reward", "entropy", "kl"))
    reward, entropy, kl = (float("nan") if value is None else value for value in values)
    sources = by_source.line(record.get("sources", {}), "reward")
    by_sources = f" ({sources})" if sources else ""
    figures = f"reward {reward:.3f}{by_sources} entropy {entropy:.2f} kl {kl:.4f}"
    if record.get("clamp_count"):
        figures += f" clamped {record['clamp_count'] / record['tokens']:.2%}"
    if record["seconds"]:
        figures += f" {record['tokens'] / sum(record['seconds'].values()):,.0f} tok/s"
    return figures


def _evaluation_line(record: dict[str, Any]) -> str:
    shown = {name: record["eval"][name][0] for name in _shown(record)}
    values = ", ".join(f"{name} {tables.number(name, value)}" for name, value in shown.items())
    sources = by_source.line(record.get("eval_sources", {}), "pass@1")
    by_sources = f"; pass@1 of {sources}" if sources else ""
    return f"step {record['step']}: held-out {values}{by_sources}"


def _agreement_line(record: dict[str, Any]) -> str:
    """How much sampler and trainer differ before the first update of this process."""
    low, high, gap = (record[k] for k in ("first_ratio_min", "first_ratio_max", "sampler_gap"))
    if low is None:
        return f"step {record['step']}: no completion to train on"
    apart = "" if gap is None else f"; sampler and trainer differ by at most {gap:.1g} nats"
    return f"step {record['step']}: first importance ratios {low:.7f} to {high:.7f}{apart}"


def _shown(record: dict[str, Any]) -> list[str]:
    return [name for name in record["eval"] if not name.startswith(("avg@", "clusters", "ucr"))]


def _report(out: Path, config: RunConfig) -> dict[str, Any]:
    """The before/after table and the curves on stderr; the table's numbers."""
    directory = RunDirectory(out)
    lines = metrics_log.read(out).records.values()
    evaluated = [line for line in lines if "eval" in line]
    first, last = evaluated[0], evaluated[-1]
    before, after = (
        pass_at_k.run_measures(directory.of("eval", line["step"])) for line in (first, last)
    )
    before, after = compare.over_common_prompts(before, after)
    difference = compare.difference(before, after, "")
    rows = {name: difference.rows[name] for name in _shown(last)}
    columns = [f"step {first['step']}", f"step {last['step']}"]
    console.say(f"{len(before.prompt_id)} held-out prompts, mean [95% interval]")
    console.stderr().print(tables.comparison_table(columns, rows, "paired difference"))
    for line in tables.verdicts({name: difference.verdict[name] for name in rows}):
        console.say(line)
    names = [name for name in rows if name.startswith("pass@")]
    title = "held-out pass rates by step"
    console.draw(console.stderr(), tables.curves(evaluated, names, title, sys.stderr))
    _next_steps(directory, config)
    return {"best_step": directory.best_step(), "metrics": difference.as_json()["metrics"]}


def _next_steps(directory: RunDirectory, config: RunConfig) -> None:
    out, best_step = directory.path, directory.best_step()
    heldout = task_prompts.directory(config.train.heldout) or out / "prompts" / "heldout"
    best, last = (directory.of("steps", s) / "update" for s in (best_step, config.train.steps))
    other = "grpo" if config.train.algo.startswith("quatro") else "quatro"
    console.say("try next:")
    if best_step:
        words = ("rollout", heldout, "--model", best, "-n", 4, "--out", out / "try")
        console.say(f"  rlvr {shlex.join(map(str, words))}")
    if run_config.is_builtin(config):
        compared = replace(config, train=replace(config.train, algo=other))
        run = str(out.with_name(run_name(compared, None)))
        trains = shlex.join(
            ("rlvr", "train", "--config", str(out / CONFIG), "--algo", other, "--out", run)
        )
        console.say(f"  {trains} && {shlex.join(('rlvr', 'compare', run, str(out)))}")
    if config.train.steps:
        console.say(f"  rlvr check {shlex.quote(str(last))}")
