"""`rlvr bench` from rows to the report, with the built-in policy and real stages."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from rlvr_cli.storage.shards import Shards

ROWS = [{"id": f"q{i}", "problem": f"{i}=", "answer": str(i)} for i in range(2, 8)]
DEFINITION = """\
summary = "sums"
verifier = "math:unanchored=true,unfinished=true"
prompts = 6
[data]
path = "rows.jsonl"
[rollout]
num_generations = 4
temperature = 0.7
max_new_tokens = 8
prompts_per_part = 2
"""
STAGES = ("passk", "prompts", "rollouts", "scores", "ucc")


@pytest.fixture
def definition(tmp_path, jsonl):
    """A benchmark of six sums; the path of its file."""
    jsonl(*ROWS)
    (tmp_path / "sums.toml").write_text(DEFINITION)
    return tmp_path / "sums.toml"


@pytest.fixture
def bench(definition, tmp_path, rlvr):
    """Measures the built-in policy; into `out` unless told otherwise."""

    def run(*words, out=tmp_path / "out", model="builtin"):
        return rlvr("bench", definition, "--model", model, "--out", out, *words)

    return run


def contents(out):
    """The bytes of every file, by its place."""
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and p.name != "_lock"
    }


def test_a_benchmark_becomes_directories_a_table_and_a_report(bench, tmp_path):
    ran = bench("--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["benchmarks"]["sums"]
    assert (found["prompts"], found["of"], found["n"]) == (6, 6, 4)
    assert list(found["metrics"]) == ["pass@1", "pass@4", "maj@4", "ucc@4"]
    assert (found["temperature"], found["max_new_tokens"]) == (0.7, 8)
    out = tmp_path / "out"
    assert sorted(p.name for p in (out / "sums").iterdir()) == list(STAGES)
    assert b"sums" in (out / "report.html").read_bytes()
    assert json.loads((out / "summary.json").read_bytes())["benchmarks"]["sums"] == found
    assert "sums 6 x 4" in " ".join(ran.err.split()) and "not the benchmark" not in ran.err


def test_the_figures_are_those_of_the_commands(bench, rlvr, tmp_path):
    bench()
    sums = tmp_path / "out" / "sums"
    again = tmp_path / "again"
    options = ["-n4", "--temperature=0.7", "--max-new-tokens=8", "--prompts-per-part=2"]
    words = ["rollout", sums / "prompts", "--model", "builtin", "--out", again / "rollouts"]
    assert rlvr(*words, *options).code == 0
    assert rlvr("score", again / "rollouts").code == 0
    for name in ("rollouts", "scores"):
        assert Shards.open(again / name).digest == Shards.open(sums / name).digest
    figures = json.loads((tmp_path / "out" / "summary.json").read_bytes())["benchmarks"]["sums"]
    passk = json.loads(rlvr("eval-passk", sums / "scores", "--json").out)["metrics"]
    ucc = json.loads(rlvr("ucc", sums / "scores", "--json").out)["metrics"]
    assert all(({**passk, **ucc})[name] == cells for name, cells in figures["metrics"].items())


def test_a_finished_benchmark_says_so_and_keeps_its_bytes(bench, tmp_path):
    bench()
    before = contents(tmp_path / "out")
    ran = bench()
    assert "nothing left to do" in ran.err and "sums" in ran.err
    assert contents(tmp_path / "out") == before


@pytest.mark.slow
def test_a_killed_benchmark_goes_on_to_the_same_bytes(bench, definition, tmp_path):
    bench(out=tmp_path / "whole" / "b")
    out = tmp_path / "killed" / "b"
    code = "import sys; from rlvr_cli.cli.app import main; sys.exit(main())"
    words = ["bench", str(definition), "--model", "builtin", "--out", str(out)]
    for _ in range(9):  # until one has not come to its end by the time of the kill
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *words],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ,
        )
        while process.poll() is None and not list(out.glob("sums/rollouts/part-*.parquet")):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not (out / "summary.json").exists():
            break
        shutil.rmtree(out)
    assert list(out.glob("sums/rollouts/part-*.parquet"))
    assert bench(out=out).code == 0
    assert not list(out.rglob("_partial*"))

    def plain(folder):  # paths of the two directories stand in summaries and the report
        found = contents(folder)
        return {n: data.replace(b"killed/b", b"whole/b") for n, data in found.items()}

    assert plain(out) == plain(tmp_path / "whole" / "b")


def test_other_options_are_refused_and_those_not_given_stay(bench, refused, definition, tmp_path):
    assert bench("-n2", "--limit", "4").code == 0
    ran = bench()
    assert ran.code == 0 and "num_generations 2" in ran.err and "nothing left to do" in ran.err
    assert "4 of 6 x 2" in ran.err and "not the benchmark: sums" in ran.err
    words = ["bench", definition, "--model", "builtin", "--out", tmp_path / "out"]
    assert "num_generations was 2, is 3" in refused(2, *words, "-n3")
    assert "limit was 4, is 5" in refused(2, *words, "--limit", "5")
    definition.write_text(DEFINITION.replace("unfinished=true", "percent=strict"))
    assert "definition" in refused(2, *words)


def test_greedy_benchmarks_refuse_several_completions_before_anything_is_sampled(
    definition, refused, tmp_path
):
    definition.write_text(DEFINITION.replace("temperature = 0.7", "temperature = 0"))
    err = refused(2, "bench", definition, "--model", "builtin", "--out", tmp_path / "out")
    assert "`sums` is measured at temperature 0" in err and "--temperature 0.6" in err
    assert not (tmp_path / "out" / "sums" / "rollouts").exists()


def test_programs_run_only_if_told(jsonl, definition, refused, tmp_path):
    definition.write_text(DEFINITION.replace("math:unanchored=true,unfinished=true", "code"))
    err = refused(2, "bench", definition, "--model", "builtin", "--out", tmp_path / "out")
    assert "--allow-code-execution" in err
    assert not (tmp_path / "out" / "sums" / "rollouts").exists()


def test_a_benchmark_that_wants_more_tokens_than_there_are_takes_fewer_and_says_so(
    bench, definition, tmp_path
):
    definition.write_text(DEFINITION.replace("max_new_tokens = 8", "max_new_tokens = 32768"))
    ran = bench("--limit", "1", "-n1", "--json")
    assert "at most 256 new tokens, not 32768, as `builtin` has a context of 512" in ran.err
    assert json.loads(ran.out)["benchmarks"]["sums"]["max_new_tokens"] == 256


def test_another_model_beside_it_is_compared_as_hinted(bench, rlvr, tmp_path):
    bench(out=tmp_path / "one")
    err = bench("--seed", "1", out=tmp_path / "two").err
    (line,) = [line for line in err.splitlines() if "rlvr compare" in line]
    words = line.partition("`rlvr ")[2].rstrip("`").split()
    assert words == ["compare", *(f"{tmp_path / name}/sums/scores" for name in ("one", "two"))]
    assert rlvr(*words).code == 0


def test_a_model_is_needed(refused, definition):
    assert "no model is named" in refused(2, "bench", definition)


def test_prompts_that_were_skipped_are_named_below_the_table(definition, bench, jsonl):
    jsonl(*ROWS, {"id": "long", "problem": "1+" * 400 + "1=", "answer": "401"})
    definition.write_text(DEFINITION.replace("prompts = 6\n", ""))
    ran = bench("--overlong", "skip", "--json")
    assert ran.code == 0, ran.err
    assert "sums: over 6 of 7 prompts, as no completion of the others has a verdict" in ran.err
    assert json.loads(ran.out)["benchmarks"]["sums"]["left_out"] == 1
