"""Figures of each source, where a run trains on several."""

import json

import pytest

from rlvr_cli.cli import app
from rlvr_cli.loop import by_source
from rlvr_cli.report import page, sources, training
from rlvr_cli.storage.shards import Shards

WORDS = ["--steps=2", "--prompts-per-step=6", "-n4", "--max-new-tokens=16", "--eval-every=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps of train on two sources; not to be changed."""
    root = tmp_path_factory.mktemp("sources")
    for name, asked in {"train": range(2, 9), "heldout": range(10, 13)}.items():
        rows = [
            {"prompt": f"{n}=", "answer": str(n), "verifier": "expression", "source": f"s{n % 2}"}
            for n in asked
        ]
        path = root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert app.run(["prompts", str(path), "--out", str(root / name)]) == 0
    words = [f"--prompts={root / 'train'}", f"--heldout={root / 'heldout'}", *WORDS]
    words += ["--eval-num-generations=2", f"--out={root / 'run'}"]
    assert app.run(["train", "--model=builtin", *words]) == 0
    return root / "run", words


def records(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def test_the_figures_of_the_sources_add_up_to_those_of_the_step(run):
    for record in records(run[0])[1:]:
        found = record["sources"]
        assert sum(f["prompts"] for f in found.values()) == record["prompts"] == 6
        here = run[0] / "steps" / f"{record['step']:06d}"
        rows = Shards.open(here / "scores").table().to_pylist()
        odd = {"prompt_id": set(), "reward": []}
        for row in rows:
            if int(row["prompt_id"][-6:]) % 2 == 0:  # the first row asks for 2
                odd["prompt_id"].add(row["prompt_id"])
                odd["reward"].append(row["reward"])
        assert found["s1"]["prompts"] == len(odd["prompt_id"])
        assert found["s1"]["completions"] == len(odd["reward"])
        assert found["s1"]["reward"] == pytest.approx(sum(odd["reward"]) / len(odd["reward"]))
        total = sum(f["reward"] * f["completions"] for f in found.values())
        assert total / len(rows) == pytest.approx(record["reward"])
        tokens = sum(f["length"] * f["completions"] for f in found.values())
        assert tokens == pytest.approx(record["tokens"])


def test_an_evaluation_has_the_figures_of_each_source_and_its_pass_rates(run):
    record = records(run[0])[-1]
    found = record["eval_sources"]
    assert {name: f["prompts"] for name, f in found.items()} == {"s0": 2, "s1": 1}
    mean = (2 * found["s0"]["pass@1"][0] + found["s1"]["pass@1"][0]) / 3
    assert mean == pytest.approx(record["eval"]["pass@1"][0])
    assert found["s0"]["pass@1"][0] == pytest.approx(found["s0"]["correct"])


def test_a_resumed_run_repeats_the_figures(rlvr, run, tmp_path):
    path, words = run
    before = records(path)
    (path / "metrics.jsonl").write_text("")
    assert rlvr("train", *words).code == 0
    for was, now in zip(before, records(path), strict=True):
        assert now.get("sources") == was.get("sources")
        assert now["step"] == 0 or "eval" not in was or now["eval_sources"] == was["eval_sources"]


def test_a_run_on_one_source_has_none(trained):
    for record in records(trained):
        assert "sources" not in record and "eval_sources" not in record


def test_so_many_sources_that_each_row_has_its_own_have_no_figures(rlvr, jsonl, tmp_path):
    rows = [
        {"id": f"p{i}", "prompt": "5=", "answer": "5", "verifier": "expression", "source": f"u{i}",
         "completion": "5"}
        for i in range(by_source.MOST + 1)
    ]  # fmt: skip
    for count, expected in ((by_source.MOST + 1, 0), (by_source.MOST, by_source.MOST)):
        out = tmp_path / str(count)
        path = jsonl(*rows[:count], name=f"{count}.jsonl")
        assert rlvr("import", path, "--model", "builtin", "--out", out).code == 0
        assert rlvr("score", out / "rollouts", "--verifier", "expression").code == 0
        assert len(by_source.of_step(out)) == expected


def test_the_line_of_a_step_names_four_sources():
    figures = {f"s{i}": {"reward": i / 8} for i in range(6)} | {"s1": {"reward": None}}
    assert by_source.line(figures, "reward") == "s0 0.00, s1 -, s2 0.25, s3 0.38, ..."
    assert by_source.line({"a": {"pass@1": [0.5, 0.0, 1.0]}}, "pass@1") == "a 0.50"
    assert by_source.line({}, "reward") == ""


def test_the_report_draws_each_source(run, trained):
    pytest.importorskip("jinja2")
    html = page.make(sources.open_all([run[0]])).html
    without = page.make(sources.open_all([trained])).html
    for title, *_ in training.BY_SOURCE:
        assert title in html and title not in without
