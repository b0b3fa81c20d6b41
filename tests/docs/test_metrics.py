"""The figures that commands write are those of docs/metrics.md, and the other way round."""

import json
import re
import shutil
from pathlib import Path

import pytest

from rlvr_cli.cli import app
from rlvr_cli.storage.shards import Shards

PLACEHOLDERS = {"K": r"\d+", "N": r"\d+", "NAME": r".+"}
SMALL = ["--steps=1", "--prompts-per-step=4", "-n4", "--max-new-tokens=16", "--eval-every=1"]
IN_EVERY_OBJECT = {"command", "inputs", "path"}
NOT_HERE = {"sync_weights", "publish"}  # with vLLM, with --async
VARIANTS = {
    "grpo": ["--model=builtin", "--prompts={root}/train", "--heldout={root}/heldout", "--ahead=1"],
    "grpo+dlc": ["--memory-model=auto"],
    "apo+is-correction+reject+off-policy-mask": ["--max-draws=2"],
    "grpo+clip-cov+kl-cov+top-entropy": [],
}


@pytest.fixture(scope="module")
def documented(reference):
    """The names in the table of a section of the page."""
    text = reference.page("metrics.md")

    def names(heading: str) -> set[str]:
        section = text.partition(f"\n### {heading}\n")[2]
        assert section, f"docs/metrics.md has no section {heading}"
        table = re.split(r"^##", section, maxsplit=1, flags=re.M)[0]
        rows = re.findall(r"^\| (`[^|]+`) \|", table, re.M)
        return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}

    return names


@pytest.fixture(scope="module")
def records(trained, tmp_path_factory):
    """The lines of metrics.jsonl of runs that differ in what they have."""
    root = tmp_path_factory.mktemp("variants")
    for name, first in (("train", 2), ("heldout", 12)):
        rows = [
            {"prompt": f"{n}=", "answer": f"{n}", "verifier": "expression", "source": f"s{n % 2}"}
            for n in range(first, first + 4)
        ]
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert app.run(["prompts", str(root / f"{name}.jsonl"), "--out", str(root / name)]) == 0
    runs = [trained]
    for algo, given in VARIANTS.items():
        runs.append(root / algo)
        words = ["train", "--algo", algo, "--out", str(root / algo), *SMALL]
        words += [word.format(root=root) for word in given]
        assert app.run([*words, "--eval-num-generations=2"]) == 0
    lines = [line for run in runs for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [json.loads(line) for line in lines]


def generalised(name: str, described: set[str]) -> str:
    """The page's name for a figure: `pass@K` for `pass@8`."""
    for other in described:
        pieces = re.split(r"(NAME|(?<=[@-])[KN]$)", other)
        if re.fullmatch("".join(PLACEHOLDERS.get(p, re.escape(p)) for p in pieces), name):
            return other
    return name


def all_names(described: set[str], *found: dict) -> set[str]:
    return {generalised(name, described) for one in found for name in one}


def test_the_page_is_made_from_the_code(up_to_date):
    up_to_date("metrics.md")


@pytest.mark.slow
def test_every_figure_of_a_step_is_on_the_page_and_occurs(documented, records):
    assert all_names(set(), *records) == documented("Of a step")


def test_every_stage_that_is_timed_is_on_the_page(documented, records):
    found = all_names(set(), *(record["seconds"] for record in records))
    assert found | NOT_HERE == documented("In `seconds`")


def test_every_figure_of_a_source_is_on_the_page(documented, records):
    found = [one for r in records for one in r.get("sources", {}).values()]
    assert found and all_names(set(), *found) == documented("In `sources`")
    evaluated = [one for r in records for one in r.get("eval_sources", {}).values()]
    assert all_names(set(), *evaluated) == documented("In `sources`") | {"pass@1", "pass@2"}


def test_every_figure_of_a_runs_evaluation_is_on_the_page(documented, records):
    described = documented("In `eval`")
    found = all_names(described, *(record["eval"] for record in records if "eval" in record))
    assert found | {"pass@1"} == described  # pass@1 may be taken for a pass@N


def test_informative_is_the_share_of_groups_whose_rewards_are_not_all_equal(trained):
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    for record in lines[1:]:
        rows = Shards.open(trained / "steps" / f"{record['step']:06d}" / "scores").table()
        groups: dict[str, set[float]] = {}
        for row in rows.to_pylist():
            groups.setdefault(row["prompt_id"], set()).add(row["reward"])
        differing = [name for name, rewards in groups.items() if len(rewards) > 1]
        assert record["informative"] == len(differing) / len(groups)


STAGES = {
    "prompts": [
        ["prompts"],
        ["prompts", "--drop-easiest=0.25", "--scores=scores"],
        ["prompts", "--keep-rate=0,1", "--scores=scores"],
        ["some.jsonl", "more.jsonl", "--drop-unusable", "--drop-duplicates", "--without=prompts"],
    ],
    "rollout": [["prompts"], ["prompts", "--max-draws=3", "--prompts-per-step=3"]],
    "score": [["rollouts"]],
    "logprob": [["rollouts", "--ref-model=builtin"]],
    "advantage": [["scores"]],
    "train-step": [["advantages"], ["corrected"]],
}


@pytest.mark.parametrize("stage", STAGES)
def test_every_figure_of_a_stage_is_on_the_page_and_occurs(
    documented, rlvr, copy, monkeypatch, stage
):
    monkeypatch.chdir(copy)
    found = []
    for name in ("some", "more"):
        Path(f"{name}.jsonl").write_text(json.dumps({"prompt": name, "answer": "1"}) + "\n")
    if stage == "train-step":
        chosen = "clip-cov+kl-cov+top-entropy"
        algo = f"--algo=nsr+anchor+is-correction+reject+off-policy-mask+{chosen}"
        anchored = ["advantage", "scores", algo, "--out=corrected"]
        reference = ["logprob", "rollouts", "--ref-model=builtin", "--ref-top-k=8"]
        assert rlvr(*anchored).code == rlvr(*reference).code == 0
    for number, words in enumerate(STAGES[stage]):
        if stage == "rollout":
            words = [*words, "-n4", "--max-new-tokens=16"]
        ran = rlvr(stage, *words, "--out", f"out-{number}", "--json")
        assert ran.code == 0, ran.err
        found.append(json.loads(ran.out))
    described = documented(f"rlvr {stage}")
    assert all_names(described, *found) - IN_EVERY_OBJECT == described


def test_every_figure_of_a_run_is_on_the_page(documented, rlvr, trained, tmp_path):
    words = ["--steps=2", "--prompts-per-step=4", "-n4", "--max-new-tokens=16", "--eval-every=1"]
    out = shutil.copytree(trained, tmp_path / "run")
    ran = rlvr("train", *words, "--eval-num-generations=2", "--out", out, "--json")
    assert json.loads(ran.out).keys() - IN_EVERY_OBJECT == documented("rlvr train")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("eval-passk", ["scores"]),
        ("ucc", ["scores"]),
        ("diversity", ["scores", "--logprobs=logprobs"]),
        ("coverage", ["prompts", "--model=builtin", "--k=1,4"]),
    ],
)
def test_every_figure_of_an_evaluation_is_on_the_page_and_occurs(
    documented, rlvr, copy, monkeypatch, command, words
):
    monkeypatch.chdir(copy)
    assert rlvr("logprob", "rollouts").code == 0
    summary = json.loads(rlvr(command, *words, "--json").out)
    own, common = documented(f"rlvr {command}"), documented("Of every evaluation")
    found = all_names(own, summary, summary["metrics"]) - IN_EVERY_OBJECT
    assert own <= found <= own | common
    assert command == "coverage" or common <= found


def test_every_figure_of_a_comparison_is_on_the_page(documented, rlvr, trained):
    summary = json.loads(rlvr("compare", trained, trained, "--json").out)
    assert summary.keys() - IN_EVERY_OBJECT == documented("rlvr compare")


def test_every_figure_of_a_report_is_on_the_page(documented, rlvr, trained, tmp_path):
    pytest.importorskip("jinja2")
    summary = json.loads(rlvr("report", trained, "--out", tmp_path / "r.html", "--json").out)
    assert summary.keys() - IN_EVERY_OBJECT == documented("rlvr report")


def test_every_figure_of_the_lab_is_on_the_page(documented, rlvr, tmp_path):
    words = [
        "--algo=grpo",
        "--rewards=1,1,0",
        "--initial=0.4,0.4,0.2",
        "--steps=2",
        "--format=none",
    ]
    ran = rlvr("lab", "two-stage", *words, "--seeds=1", "--jobs=1", "--out", tmp_path, "--json")
    summary = json.loads(ran.out)
    (outcome,) = summary["outcomes"].values()
    assert summary.keys() - IN_EVERY_OBJECT == documented("rlvr lab") - {"checks"}
    assert outcome.keys() == documented("In `outcomes`")
