"""Runs whose files were damaged: what comes back, what is said, and what is left alone."""

import json
import shutil

import pytest

from rlvr_cli.cli import app
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.storage import atomic

pytestmark = pytest.mark.slow
STEPS = 3


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """The command of a tiny run that is evaluated at each step, without its folder."""
    root = tmp_path_factory.mktemp("prompts")
    for split, limit in (("train", "8"), ("heldout", "2")):
        where = ["--limit", limit, "--out", str(root / split)]
        assert app.run(["prompts", "task:expression", "--split", split, *where]) == 0
    data = ["--prompts", str(root / "train"), "--heldout", str(root / "heldout")]
    size = "--prompts-per-step 2 -n 4 --max-new-tokens 8 --eval-every 1 --eval-num-generations 2"
    return ["train", "--model", "builtin", *data, *size.split(), "--keep", "2"]


@pytest.fixture(scope="module")
def whole(words, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    assert app.run([*words, "--save-every", "1", "--steps", str(STEPS), "--out", str(out)]) == 0
    return out


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


@pytest.fixture
def resumed(rlvr, run):
    """Resumes the run by its folder alone; what it said."""

    def resume(*more):
        ran = rlvr("train", "--out", run, *more)
        assert ran.code == 0, ran.err
        return ran.err

    return resume


def content(run):
    """The bytes of every file but metrics.jsonl, and its records without their seconds."""
    files = {str(p.relative_to(run)): p for p in run.rglob("*") if p.is_file()}
    lines = files.pop("metrics.jsonl").read_text().splitlines()
    records = [{n: v for n, v in json.loads(line).items() if n != "seconds"} for line in lines]
    return {name: path.read_bytes() for name, path in files.items()}, records


def cut(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("stage", ["scores", "rollouts"])
def test_a_damaged_evaluation_is_made_again_from_its_checkpoint(run, whole, resumed, stage):
    cut(run / "eval" / "000002" / stage / "_manifest.json")
    said = resumed()
    assert "the evaluation of step 2 was damaged or cut off: it is sampled again" in said
    assert content(run) == content(whole)


def test_scores_of_an_evaluation_are_made_again_without_its_checkpoint(run, whole, resumed):
    assert not (run / "steps" / "000001" / "update" / "_checkpoint").exists()
    cut(run / "eval" / "000001" / "scores" / "_manifest.json")
    assert "the evaluation of step 1 was damaged or cut off: it is scored again" in resumed()
    assert content(run) == content(whole)


def test_an_evaluation_that_cannot_be_made_again_is_left_out_and_nothing_else(run, whole, resumed):
    (run / "eval" / "000001" / "rollouts" / "_manifest.json").unlink()
    said = resumed()
    assert "as is the checkpoint of step 1; that evaluation is left out" in said
    files, records = content(run)
    expected, before = content(whole)
    del expected["eval/000001/rollouts/_manifest.json"]
    assert (files, records) == (expected, before)


def test_what_may_be_the_best_is_not_pruned(run, resumed):
    """Step 2 is older than the last that is kept, and nobody knows any more how good it was."""
    shutil.rmtree(run / "eval" / "000002" / "scores")
    directory = RunDirectory(run)
    assert 2 in directory.may_be_best()
    shutil.rmtree(run / "eval" / "000002")
    directory = RunDirectory(run)
    directory.repair_metrics(STEPS)
    assert 2 in directory.may_be_best()
    resumed("--steps", "5", "--keep", "1", "--eval-every", "0")
    assert (run / "steps" / "000002" / "update" / "_checkpoint").exists()


@pytest.mark.parametrize("how", ["lost", "changed", "zeroed"])
def test_a_line_of_the_metrics_comes_back_with_its_evaluation(run, whole, resumed, how):
    log = run / "metrics.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    damaged = {
        "lost": b"",
        "changed": lines[1].replace(b'"missing": 0', b'"missing": 1'),
        "zeroed": bytes(len(lines[1])),
    }
    assert damaged[how] != lines[1]
    log.write_bytes(b"".join([lines[0], damaged[how], *lines[2:]]))
    assert "metrics.jsonl` " in resumed()
    assert content(run) == content(whole)


@pytest.mark.parametrize("data", [None, b"", b"\0" * 100, b"[train]\n", b"\xff", b"[" * 100_000])
def test_a_configuration_that_was_cut_or_lost_comes_back(run, whole, resumed, data):
    path = run / "config.toml"
    path.unlink() if data is None else path.write_bytes(data)
    assert "config.toml` was damaged or gone: it is written again as it was" in resumed()
    assert content(run) == content(whole)


def test_readers_take_the_configuration_of_a_run_from_its_copy(run, refused, rlvr):
    (run / "config.toml").unlink()
    assert rlvr("report", run, "--out", run.parent / "report.html").code == 0
    assert rlvr("track", run, "--to", "tensorboard").code == 0


def test_the_lock_of_a_process_that_was_killed_behind_its_last_step_goes(run, whole, resumed):
    (run / "steps" / "000003" / "update" / "_lock").write_text("{}")
    resumed()
    assert content(run) == content(whole)


def test_another_value_in_the_configuration_is_refused_and_the_hint_works(
    run, whole, refused, resumed
):
    path = run / "config.toml"
    path.write_text(path.read_text().replace("num_generations = 4", "num_generations = 5"))
    said = refused(3, "train", "--out", run)
    assert "was changed after the run was begun: num_generations was 4, is 5" in said
    assert f"remove `{path}`" in said
    path.unlink()
    resumed()
    assert content(run) == content(whole)


def test_what_decides_no_row_may_be_changed_in_the_configuration(run, resumed):
    path = run / "config.toml"
    path.write_text(path.read_text().replace("keep = 2", "keep = 9"))
    assert "config.toml` was changed: keep was 2, is 9" in resumed()
    assert "keep = 9" in path.read_text()
    assert "was changed" not in resumed()


@pytest.mark.parametrize("name", ["inputs.json", "_run.json"])
@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b"\0" * 9])
def test_the_digests_of_inputs_come_back(run, whole, resumed, name, data):
    path = run / name
    path.unlink() if data is None else path.write_bytes(data)
    resumed()
    assert content(run) == content(whole)


def test_going_on_from_an_earlier_checkpoint_is_said(run, whole, resumed):
    weights = run / "steps" / "000003" / "update" / "_checkpoint" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    atomic.write_atomic(weights, bytes(data))
    said = resumed()
    assert "the checkpoint of step 3 is damaged: continuing from that of step 2" in said
    assert content(run) == content(whole)


def test_strangers_in_the_folders_of_a_run_are_left_alone(run, whole, rlvr, resumed, tmp_path):
    strangers = [
        f"{folder}/{name}"
        for folder in ("", "steps", "eval", "prompts", "steps/000003", "steps/000003/update")
        for name in (".DS_Store", "notes.txt", "Thumbs.db", "000003.bak", "foo", "._000001")
    ]
    for name in strangers:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(b"\0")
    shutil.copytree(run / "steps" / "000003", run / "steps" / "000003 (1)")
    shutil.copytree(run / "eval" / "000003", run / "eval" / "copy of 000003")
    resumed()
    files, records = content(run)
    expected, before = content(whole)
    assert {n: d for n, d in files.items() if n in expected} == expected
    assert records == before
    assert all((run / name).exists() for name in strangers)
    for command in ("check", "report", "compare"):
        more = {"report": ["--out", tmp_path / "page.html"], "compare": [whole]}.get(command, [])
        ran = rlvr(command, run, *more)
        assert ran.code == 0, ran.err
    assert RunDirectory(run).last_step() == STEPS


def test_check_of_a_run_reads_all_of_it(run, rlvr, refused):
    assert rlvr("check", run).code == 0
    part = run / "steps" / "000001" / "scores" / "part-00000.parquet"
    cut(part)
    said = refused(3, "check", run)
    assert f"`{part}` does not match its checksum" in said
    assert "continues without it" in said
    (run / "steps" / "000002" / "rollouts" / "_manifest.json").unlink()
    assert "000002/rollouts" in rlvr("check", run).err


def test_scores_of_other_rollouts_are_made_again(run, whole, resumed):
    """As of rollouts that were damaged, and that a GPU sampled again with other bytes."""
    last, before = run / "steps" / f"{STEPS:06d}", run / "steps" / f"{STEPS - 1:06d}"
    for name in ("update", "scores", "advantages"):
        shutil.rmtree(last / name)
    shutil.copytree(before / "scores", last / "scores")
    resumed()
    assert content(run) == content(whole)
