"""The flags that say how files of other tools are read: each command that reads them has all."""

import json
import re
import shlex
from dataclasses import fields

import pyarrow.parquet as pq
import pytest
import typer

from rlvr_cli import config
from rlvr_cli.cli import app

FLAGS = {"--" + (f.metadata["flag"] or f.name).replace("_", "-") for f in fields(config.Columns)}


def flags_of(name):
    command = typer.main.get_command(app.app).resolve_command(None, [name])[1]
    return {flag for parameter in command.params for flag in parameter.opts}


READERS = [n for n in app.command_names() if n != "lab" and "--correct-above" in flags_of(n)]


def row(i, right=True, **more):
    return {"id": i, "completion": f"{i}", "correct": right, **more}


# What is wrong with a file: its rows.
REFUSED = {
    "no id": [{"name": 1, "completion": "x", "correct": True}] * 2,
    "two golds": [row(0, answer="1"), row(0, answer="2")],
    "two texts": [row(0, prompt="1"), row(0, prompt="2")],
    "two steps": [row(0, step=1), row(0, step=2)],
    "a repeated sample": [row(0, trial=1), row(0, trial=1)],
    "a graded verdict": [row(0, 0.5), row(0, 0.75)],
    "two ways to write verdicts": [row(0, "pass"), row(0, "yes")],
    "a verdict that is none": [row(0, "maybe"), row(0, "maybe")],
    "lists of other lengths": [{"id": 0, "completion": ["x"], "correct": [True, False]}],
    "a row without an id": [row(0), row(None)],
    "a reward that is no number": [{**row(0), "reward": "high"}] * 2,
}
ASKED = {
    "a column that is not there": ("--id-column", "nope"),
    "no such value": ("--where", "id=9"),
    "no such column of a value": ("--where", "nope=9"),
    "no condition": ("--where", "id"),
    "a threshold over words": ("--correct-column", "completion", "--correct-above", "0.5"),
}


def test_the_commands_that_read_files_of_other_tools_are_these():
    assert {"eval-passk", "ucc", "diversity", "compare", "import"} <= set(READERS)


@pytest.mark.parametrize("command", READERS)
def test_a_command_that_reads_such_files_has_every_flag(command):
    assert flags_of(command) >= FLAGS


def words(command, path, out):
    files = [path, path] if command == "compare" else [path]
    return [command, *files, *(["--out", out] if command in ("import", "report") else [])]


@pytest.mark.parametrize("command", [n for n in READERS if n not in ("view", "report")])
@pytest.mark.parametrize("case", [*REFUSED, *ASKED])
def test_the_flags_of_every_hint_are_those_of_the_command(refused, jsonl, tmp_path, command, case):
    path = jsonl(*REFUSED.get(case, [row(0), row(0, False)]))
    if case == "a threshold over words":
        path = jsonl({"id": 0, "completion": "some words", "correct": True})
    err = refused(
        2 if case == "no condition" else 3,
        *words(command, path, tmp_path / "made"),
        *ASKED.get(case, ()),
    )
    hint = err.rpartition("hint: ")[2]
    named = set(re.findall(r"--[a-z][a-z-]+", hint))
    assert named and named <= flags_of(command), hint


# Each hint with a value in it, pasted behind the command that printed it.
PASTED = {
    "two golds": ("--answer-column none",),
    "two texts": ("--prompt-column none",),
    "two steps": ("--merge", "--source-column step", "--where step=1"),
    "a repeated sample": ("--repeats first", "--repeats keep", "--sample-column none"),
    "a graded verdict": ("--correct-above 0.5",),
}


@pytest.mark.parametrize("command", ["eval-passk", "ucc", "compare", "import"])
@pytest.mark.parametrize(("case", "flag"), [(c, f) for c, flags in PASTED.items() for f in flags])
def test_what_a_hint_says_works_when_it_is_pasted(rlvr, jsonl, tmp_path, command, case, flag):
    path = jsonl(*REFUSED[case])
    asked = words(command, path, tmp_path / "made")
    hint = rlvr(*asked).err.rpartition("hint: ")[2]
    assert flag in hint.replace("STEP", "1")
    ran = rlvr(*asked, *shlex.split(flag))
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("command", ["eval-passk", "ucc", "diversity", "compare"])
def test_what_is_correct_is_named_in_text_and_in_json(rlvr, jsonl, command):
    path = jsonl(*[{"id": i % 2, "completion": f"{i} 1", "score": i / 4} for i in range(4)])
    asked = words(command, path, None)
    assert "correct by `score` above 0.4" in rlvr(*asked, "--correct-above", "0.4").out
    read = json.loads(rlvr(*asked, "--correct-above", "0.4", "--json").out)["read"]
    first = read[0] if command == "compare" else read
    assert first == {"correct": ["score"], "correct_above": 0.4, "apart": []}


def test_files_that_are_sources_are_named_with_the_flag_that_merges_them(rlvr, jsonl, tmp_path):
    for step in (0, 50):
        rows = [{"input": f"{p}+1=", "output": f"{step}", "gts": f"{p}", "score": float(step > p),
                 "step": step} for p in range(2)]  # fmt: skip
        (tmp_path / "dump").mkdir(exist_ok=True)
        jsonl(*rows, name=f"dump/{step}.jsonl")
    out = rlvr("eval-passk", tmp_path / "dump").out
    assert "the 2 inputs have prompts in common and are sources (`0`, `50`)" in out
    assert "`0`, 2 prompts" in out and "`50`, 2 prompts" in out and "correct by `score`" in out
    assert "2 prompts, 2 completions each" in rlvr("eval-passk", tmp_path / "dump", "--merge").out


def test_flags_for_files_of_other_tools_are_refused_for_ones_own_directories(refused, known):
    for command in ("eval-passk", "ucc", "diversity"):
        err = refused(2, command, known / "scores", "--correct-column", "x")
        assert "--correct-column is for files of other tools" in err
    err = refused(2, "compare", known / "scores", known / "scores", "--where", "a=b")
    assert "--where is for files of other tools" in err


@pytest.mark.parametrize("command", ["eval-passk", "import"])
def test_a_threshold_that_is_no_number_is_refused(refused, jsonl, tmp_path, command):
    asked = words(command, jsonl(row(0)), tmp_path / "made")
    assert "--correct-above is nan" in refused(2, *asked, "--correct-above", "nan")


def test_a_report_of_what_was_imported_says_what_is_correct(rlvr, jsonl, tmp_path):
    pytest.importorskip("jinja2")
    path = jsonl(*[{"id": i % 2, "completion": f"{i} 1", "score": i / 4} for i in range(4)])
    made, page = tmp_path / "made", tmp_path / "report.html"
    assert rlvr("import", path, "--out", made, "--correct-above", "0.4").code == 0
    assert rlvr("report", made / "scores", "--out", page).code == 0
    assert "What is correct is what the imported files say: `score` above 0.4." in page.read_text()


def test_prompts_of_two_tasks_stay_two_when_they_are_imported(rlvr, jsonl, tmp_path):
    rows = [row(0, answer="1", source="a"), row(0, False, answer="2", source="b")]
    assert rlvr("import", jsonl(*rows), "--out", tmp_path / "made").code == 0
    made = pq.read_table(tmp_path / "made" / "prompts").to_pylist()
    assert [(p["prompt_id"], p["source"], p["answer"]) for p in made] == [
        ("a/0", "a", "1"), ("b/0", "b", "2"),
    ]  # fmt: skip
    scores = pq.read_table(tmp_path / "made" / "scores").to_pylist()
    assert [(s["prompt_id"], s["correct"]) for s in scores] == [("a/0", True), ("b/0", False)]


def test_a_prompt_of_several_runs_is_one_draw(rlvr, tmp_path):
    rows = [{"id": i, "correct": i % 3 > 0} for i in range(30)]
    for name in ("one", "two", "three"):
        path = tmp_path / "runs" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    alone = json.loads(rlvr("eval-passk", tmp_path / "runs" / "one.jsonl", "--json").out)
    runs = json.loads(rlvr("eval-passk", tmp_path / "runs", "--json").out)
    assert runs["prompts"] == alone["prompts"] == 30
    assert runs["metrics"] == alone["metrics"]
    assert {source: one["prompts"] for source, one in runs["sources"].items()} == {
        "one": 30, "two": 30, "three": 30
    }  # fmt: skip


def test_runs_of_a_prompt_are_averaged_before_prompts_are(rlvr, tmp_path):
    verdicts = {"one": {"a": 1, "b": 0}, "two": {"a": 0, "b": 0, "c": 1}}
    for name, of in verdicts.items():
        rows = "".join(json.dumps({"id": i, "correct": c}) + "\n" for i, c in of.items())
        (tmp_path / f"{name}.jsonl").write_text(rows)
    summary = json.loads(rlvr("eval-passk", tmp_path, "--json").out)
    assert summary["prompts"] == 3
    assert summary["metrics"]["pass@1"][0] == (0.5 + 0 + 1) / 3


@pytest.mark.parametrize("command", ["diversity", "compare"])
def test_several_runs_make_no_interval_narrower(rlvr, jsonl, tmp_path, command):
    rows = [{"id": i, "completion": f"{i} {n} {'x' * (i % 7)}", "correct": (i + n) % 3 > 0}
            for i in range(30) for n in range(2)]  # fmt: skip
    for place in ("a/one", "a/two", "b/one", "b/two"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        jsonl(*rows, name=f"{place}.jsonl")

    def summary(*paths):
        chosen = paths if command == "compare" else paths[:1]
        return json.loads(rlvr(command, *(tmp_path / path for path in chosen), "--json").out)

    alone, several = summary("a/one.jsonl", "b/one.jsonl"), summary("a", "b")
    assert several["metrics"] == alone["metrics"] and several["metrics"]
