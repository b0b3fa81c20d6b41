"""The comparison on a language model: its prompts, the order of its runs, and its page."""

import json
import random
import re
import sys
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import pytest

from rlvr_cli import registry
from rlvr_cli.lab import ledger
from rlvr_cli.verification.verifiers import expression

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import head_to_head  # noqa: E402
import head_to_head_lm  # noqa: E402
import lm.page  # noqa: E402
import lm.plan  # noqa: E402
import lm.start  # noqa: E402
import lm.tasks  # noqa: E402

sys.path.remove(str(BENCHMARKS))  # kernels.py there hides a package
plan, page, tasks = lm.plan, lm.page, lm.tasks

RATES = [1e-6, 1e-5, 1e-4]
SETTING = plan.Setting("countdown", "0" * 16, samples=8)
SOLVED = [name for name, task in tasks.TASKS.items() if task.solved]


def record(cell, *, correct=(4, 4, 4, 4), right=0.5, entropy=1.0, setting=SETTING):
    """What a run leaves behind, with these figures at its end."""
    evals = [{"step": 2, "eval": {"pass@1": [right, 0, 1], "pass@16": [0.9, 0, 1],
                                  "entropy": [entropy, 0, 2], "kl": [0.1, 0, 1]}}]  # fmt: skip
    made = asdict(cell) | {
        "key": cell.key(setting), "setting": asdict(setting), "shared": False, "evals": evals,
        "machine": {"device": "a GPU", "torch": "2", "policy": "1"}, "phases": {"rollout": 1.0},
        "curve": {name: [0.5, 0.6] for name in ("reward", "entropy", "tokens")},
        "seconds": {"train": 1.0, "final": 1.0},
    }  # fmt: skip
    if cell.split == "test":
        ucc = [float(c > 0) for c in correct]
        prompts = [f"p{number}" for number in range(len(correct))]
        made["final"] = {"samples": 8, "prompts": prompts, "correct": list(correct), "ucc@8": ucc,
                         "length": 7.0}  # fmt: skip
    return made


@pytest.mark.parametrize("name", list(tasks.TASKS))
def test_the_splits_share_no_prompt(name):
    texts = [{json.dumps(row["prompt"]) for row in tasks.prompts(name, split, 40)}
             for split in tasks.SPLITS]  # fmt: skip
    assert [len(t) for t in texts] == [40, 40, 40]
    assert len(set.union(*texts)) == 120


@pytest.mark.parametrize("name", SOLVED)
def test_the_start_learns_right_answers_of_training_prompts_alone(name):
    golds = {p[0]: p for p, _ in _drawn(name, 100)}
    verify = expression.build()
    for prompt, answer in tasks.answers(name, 30):
        assert tasks.split_of(prompt) == "train"
        _, gold, extra = golds[prompt]
        assert verify(answer, answer=gold, extra=extra).correct


def _drawn(name, count):
    solved = tasks.TASKS[name].solved(random.Random(f"{name} answers 0"))
    return [next(solved) for _ in range(count)]


def test_tasks_without_right_answers_refuse_a_start():
    with pytest.raises(ValueError, match="--examples 0"):
        tasks.answers("word-problems", 1)


def test_the_objectives_of_the_plan_exist():
    for spec in (spec for tier in plan.TIERS for spec in tier):
        objective, *modifiers = spec.split("+")
        assert registry.parse("objectives", objective)[0] in registry.names("objectives")
        names = [registry.parse("modifiers", modifier)[0] for modifier in modifiers]
        assert set(names) <= set(registry.names("modifiers"))


def test_runs_at_the_default_rate_come_before_the_search_and_grpo_before_all():
    cells = plan.ordered(["apo", "grpo"], [0, 1], RATES, 1e-5, {})
    assert [(c.spec, c.seed) for c in cells[:5]] == [
        (plan.START, 0), ("grpo", 0), ("grpo", 1), ("apo", 0), ("apo", 1),
    ]  # fmt: skip
    assert {c.split for c in cells[5:]} == {"tune"}
    assert [c.spec for c in cells[5:]] == 3 * ["grpo"] + 3 * ["apo"]
    assert [c.rate for c in cells[5:8]] == [1e-5, 1e-6, 1e-4]


def test_runs_of_all_tiers_at_the_default_rate_come_before_any_search():
    given = Namespace(objectives=None, tiers=2, seeds=[0], rates=[1e-5, 1e-4], rate=1e-5)
    cells = head_to_head_lm.due(given, {}, set())
    specs = list(dict.fromkeys(spec for tier in plan.TIERS[:2] for spec in tier))
    assert [(c.spec, c.split) for c in cells[: 1 + len(specs)]] == [
        (spec, "test") for spec in [plan.START, *specs]
    ]
    assert {c.split for c in cells[1 + len(specs) :]} == {"tune"}


def test_a_run_that_is_too_long_for_the_time_left_does_not_hold_up_others():
    given = Namespace(
        objectives=["grpo+iac+dlc", "apo"], seeds=[0], rates=[1e-5], rate=1e-5, first=150
    )
    dlc = plan.Cell("grpo+iac+dlc", 1e-5, 0, "test")
    waiting = head_to_head_lm.in_time(given, {}, set(), 200)
    assert waiting and dlc not in waiting
    assert dlc in head_to_head_lm.in_time(given, {}, set(), 301)
    timed = {plan.Cell("grpo", 1e-5, 0, "test"): {"wall": 90}}
    assert dlc in head_to_head_lm.in_time(given, timed, set(), 200)
    measured = timed | {plan.Cell("grpo+iac+dlc", 1e-5, 1, "test"): {"wall": 210}}
    assert dlc not in head_to_head_lm.in_time(given, measured, set(), 200)
    assert plan.Cell("apo", 1e-5, 0, "test") in head_to_head_lm.in_time(given, measured, set(), 100)


def test_an_objective_is_tuned_once_all_its_rates_were_tried():
    searched = [plan.Cell("apo", rate, plan.TUNE_SEED, "tune") for rate in RATES]
    done = {c: record(c, right=r) for c, r in zip(searched, (0.2, 0.3, 0.4), strict=True)}
    assert plan.tuned("apo", RATES, done) == 1e-4
    cells = plan.ordered(["grpo", "apo"], [0], RATES, 1e-5, done)
    assert plan.Cell("apo", 1e-4, 0, "test") in cells
    assert [c for c in cells if c.spec == "grpo" and c.rate != 1e-5 and c.split == "test"] == []
    del done[searched[0]]
    assert plan.tuned("apo", RATES, done) is None


def test_records_of_another_setting_are_not_taken_for_runs_that_are_done(tmp_path):
    cell = plan.Cell("grpo", 1e-5, 0, "test")
    other = plan.Setting("countdown", "1" * 16, samples=8)
    lines = [record(cell), record(cell), record(cell, setting=other), {"pilot": "countdown"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(plan.by_cell(plan.read([tmp_path / "a.jsonl"], SETTING))) == [cell]
    assert len(plan.read([tmp_path / "a.jsonl"])) == 2
    assert cell.key(SETTING) != cell.key(other)


def written(tmp_path, rows):
    results, target = tmp_path / "results.jsonl", tmp_path / "page.md"
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    target.write_text(f"Before.\n{page.BEGIN}stale words{page.END}After.\n")
    page.write(results, target, rate=1e-5)
    return target.read_text()


def test_the_page_says_what_was_measured_and_what_was_not(tmp_path):
    figures = {"grpo": [(4, 4, 4, 4), (4, 4, 4, 5)], "apo": [(6, 6, 6, 6), (6, 6, 6, 7)],
               "quatro:delta=0.1": [(8, 8, 2, 0), (8, 8, 2, 1)]}  # fmt: skip
    rows = [
        record(plan.Cell(spec, 1e-5, seed, "test"), correct=correct)
        for spec, runs in figures.items()
        for seed, correct in enumerate(runs)
    ]
    said = written(tmp_path, rows)
    assert said.startswith("Before.\n") and said.endswith("After.\n") and "stale words" not in said
    assert "At 1e-05, of 4 claims 2 hold, 0 hold in part, 1 does not hold, " in said
    figures = ledger.figures_of([tmp_path / "page.jsonl"])
    found = ledger.tested("apo", 2, figures, ["A10", "A17"])
    model = "SmolLM2-135M at 1e-05"
    assert set(figures) == {model} and found["A17"][model] == ()
    assert [(c.statement, c.mean) for c in found["A10"][model]] == [("pass@1, points", 25)]
    (check,) = ledger.tested("quatro", 2, figures, ["Q12"])["Q12"][model]
    assert (check.statement, check.mean, check.state) == ("ucc@8, less grpo's", -0.125, "open")
    assert "- `quatro:delta=0.1`: +6.2 points at k = 1, -12.5 at k = 8" in said
    assert "- `apo`: +25.0 points at k = 1, +0.0 at k = 8; the order never changes." in said
    for title in ("all at 1e-05", "each at its tuned rate"):
        assert f"Fewer than three seeds, {title}: `grpo`, `quatro:delta=0.1`" in said
    assert (tmp_path / "page.svg").read_text().startswith("<?xml")


def test_the_page_marks_the_rate_that_was_tuned_and_draws_the_runs_at_it(tmp_path):
    cells = [plan.Cell("apo", rate, plan.TUNE_SEED, "tune") for rate in RATES[1:]]
    rows = [record(cell, right=right) for cell, right in zip(cells, (0.3, 0.4), strict=True)]
    at_both = [plan.Cell(spec, 1e-5, 0, "test") for spec in ("grpo", "apo")]
    rows += [record(cell) for cell in (*at_both, plan.Cell("apo", 1e-4, 0, "test"))]
    said = written(tmp_path, rows)
    assert "| `apo` | 30.0 / 90.0 | **40.0** / 90.0 |" in said
    labels = re.findall("<!-- (.+?) -->", (tmp_path / "page.svg").read_text())
    assert "apo" in labels and "apo at 0.0001" in labels and "grpo at 0.0001" not in labels


def test_an_interval_over_seeds_has_students_quantile_to_its_last_digit():
    from scipy.special import stdtrit

    for seeds in head_to_head.T_95:
        assert head_to_head.T_95[seeds] == pytest.approx(stdtrit(seeds - 1, 0.975), abs=5e-6)
    mean, half = head_to_head.interval([1.0, 2.0, 6.0])
    assert mean == 3 and half == pytest.approx(4.30265 * 7**0.5 / 3**0.5, rel=1e-5)


def test_the_start_is_no_run_and_no_chance_is_printed_as_none(tmp_path):
    cells = [plan.Cell(plan.START, 0.0, 0, "test"), plan.Cell("grpo", 1e-5, 0, "test")]
    rows = [record(cell, correct=(1,) * 60) for cell in cells]
    rows.append(record(plan.Cell("apo", 1e-5, 0, "test"), correct=(7,) * 60))
    said = written(tmp_path, rows)
    assert "; a GPU, torch 2; 2 runs.\n" in said
    assert " | < 0.001 |\n" in said and "0.000" not in said


def test_the_page_without_runs_says_so(tmp_path):
    assert "No run was made yet." in written(tmp_path, [])


def test_a_page_is_of_one_setting(tmp_path):
    cell = plan.Cell("grpo", 1e-5, 0, "test")
    other = plan.Setting("countdown", "1" * 16, samples=8)
    with pytest.raises(SystemExit, match=SETTING.digest):
        written(tmp_path, [record(cell), record(cell, setting=other)])


def test_the_page_in_docs_is_of_the_records(tmp_path):
    committed = (BENCHMARKS.parent / "docs/head-to-head-lm.md").read_text()
    (tmp_path / "page.md").write_text(f"{page.BEGIN}{page.END}")
    page.write(BENCHMARKS / "results/head-to-head-lm.jsonl", tmp_path / "page.md", rate=1e-5)
    written = (tmp_path / "page.md").read_text().replace("page.svg", "head-to-head-lm.svg")
    assert written in committed
    figures = (BENCHMARKS.parent / "docs/head-to-head-lm.jsonl").read_text()
    assert (tmp_path / "page.jsonl").read_text() == figures
