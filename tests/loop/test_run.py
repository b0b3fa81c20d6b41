import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlvr_cli import config
from rlvr_cli.cli import app
from rlvr_cli.errors import UsageError
from rlvr_cli.loop import run as loop, run_directory, setup
from rlvr_cli.models import checkpoints

pytestmark = pytest.mark.slow

FLAGS = ["--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"]
UPDATE = ["--learning-rate", "3e-4", "--mini-batch-prompts", "2", "--epochs", "2"]
SMALL = [
    *FLAGS,
    *UPDATE,
    *["--eval-every", "2", "--eval-num-generations", "2", "--save-every", "1"],
]


def train(out: Path, *arguments: str) -> int:
    return app.run(["train", "--algo", "quatro", "--out", str(out), *SMALL, *arguments])


def files_of(folder: Path) -> dict[str, bytes]:
    paths = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in paths.items() if path.name != "metrics.jsonl"}


def lines_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("train") / "run"
    assert train(out, "--steps", "2", "--keep", "9") == 0
    return out


def test_stages_typed_by_hand_make_the_same_bytes(run, tmp_path):
    hand = tmp_path / "hand"
    for split in ("train", "heldout"):
        out = ["--out", str(hand / "prompts" / split)]
        assert app.run(["prompts", "task:expression", "--split", split, *out]) == 0
    model = "builtin"
    for step in (1, 2):
        here = hand / "steps" / f"{step:06d}"
        flags = ["--model", model, "--step", str(step), "--out", str(here / "rollouts"), *FLAGS]
        for stage, source, options in (
            ("rollout", hand / "prompts" / "train", flags),
            ("score", here / "rollouts", []),
            ("advantage", here / "scores", ["--algo", "quatro"]),
            ("train-step", here / "advantages", UPDATE),
        ):
            assert app.run([stage, str(source), *options]) == 0
        model = str(here / "update")
    assert files_of(hand / "steps") == files_of(run / "steps")
    assert files_of(hand / "prompts") == files_of(run / "prompts")


def test_a_shell_pipeline_makes_the_same_update(run, tmp_path):
    """The pipeline of the README, each command reading the path before it from stdin."""
    rollout = " ".join(["--step 1", *FLAGS, "--model builtin"])
    line = (
        f"rlvr prompts task:expression --split train | rlvr rollout {rollout} | rlvr score"
        f" | rlvr advantage --algo quatro | rlvr train-step --json {' '.join(UPDATE)}"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["path"] == "update"
    kinds = ["advantages", "prompts", "rollouts", "scores", "update"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kinds
    paths = files_of(tmp_path / "update" / "_checkpoint")
    assert paths == files_of(run / "steps" / "000001" / "update" / "_checkpoint")


def test_the_first_ratio_of_each_step_is_one(run):
    for line in lines_of(run)[1:]:
        assert abs(line["first_ratio_min"] - 1) < 1e-6
        assert abs(line["first_ratio_max"] - 1) < 1e-6
        assert line["sampler_gap"] < 1e-3


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Words for a run that evaluates six prompts, as sampling for all of them takes longest."""
    root = tmp_path_factory.mktemp("few")
    for split, limit in (("train", "24"), ("heldout", "6")):
        words = ["--split", split, "--limit", limit, "--out", str(root / split)]
        assert app.run(["prompts", "task:expression", *words]) == 0
    return ["--prompts", str(root / "train"), "--heldout", str(root / "heldout")]


@pytest.fixture(scope="module")
def whole(few, tmp_path_factory):
    """Four steps, with the two newest checkpoints kept."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert train(out, "--steps", "4", "--keep", "2", *few) == 0
    return out


def test_two_steps_and_two_more_are_four(few, whole, tmp_path):
    halves = tmp_path / "halves"
    assert train(halves, "--steps", "2", *few) == 0
    assert train(halves, "--steps", "4", *few) == 0
    assert files_of(halves) == files_of(whole)
    assert [line["step"] for line in lines_of(halves)] == [0, 1, 2, 3, 4]


def test_running_again_says_that_nothing_is_left(run, capsys):
    before = files_of(run)
    assert train(run, "--steps", "2", "--keep", "9") == 0
    assert "nothing left to do" in capsys.readouterr().err
    assert files_of(run) == before


def test_fewer_steps_than_there_are_leave_nothing_to_do(run, capsys, tmp_path):
    run = Path(shutil.copytree(run, tmp_path / "run"))
    assert train(run, "--steps", "1", "--keep", "9") == 0
    said = capsys.readouterr().err
    assert f"nothing left to do, `{run}` already has 2 steps, not 1" in said
    assert "step 2 of 2" in said


@pytest.mark.parametrize("part", ["steps", "prompts/train", "eval/000000/other"])
def test_no_run_begins_within_another(run, monkeypatch, capsys, part):
    before = files_of(run)
    monkeypatch.chdir(run.parent)
    assert train(Path(run.name) / part) == 2
    said = capsys.readouterr().err
    assert f"`{run.name}/{part}` is a part of the run `{run.name}`" in said
    assert f"resume that with `--out {run.name}`" in said
    assert files_of(run) == before


def test_no_run_begins_in_a_model_or_a_directory_of_a_stage(run, capsys, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert train(tmp_path / "model") == 2
    assert "holds a model, and no run" in capsys.readouterr().err
    shutil.copytree(run / "prompts" / "train", tmp_path / "prompts")
    assert train(tmp_path / "prompts") == 2
    assert "holds a directory of a stage, and no run" in capsys.readouterr().err
    assert not (tmp_path / "prompts" / "config.toml").exists()


def test_another_parameter_is_refused_by_name(run, capsys):
    assert train(run, "--steps", "2", "--seed", "7") == 2
    assert "seed was 0, is 7" in capsys.readouterr().err


def test_old_checkpoints_go_and_the_newest_and_the_best_stay(whole):
    kept = sorted(int(p.parts[-3]) for p in whole.glob("steps/*/update/_checkpoint"))
    best = run_directory.RunDirectory(whole).best_step()
    assert kept == sorted({3, 4, best} - {0})
    assert not list(whole.rglob("_pruned"))


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_a_checkpoint_that_is_not_whole_is_made_again_from_the_stored_rollouts(
    run, tmp_path, damage
):
    broken = tmp_path / "run"
    subprocess.run(["cp", "-r", str(run), str(broken)], check=True)
    checkpoint = broken / "steps" / "000002" / "update" / "_checkpoint"
    if damage == "gone":
        shutil.rmtree(checkpoint)
    else:
        with open(checkpoint / checkpoints.OPTIMIZER, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"x")
    assert train(broken, "--steps", "2", "--keep", "9") == 0
    assert files_of(broken) == files_of(run)


def test_a_train_step_whose_checkpoint_is_damaged_is_no_complete_one(run, tmp_path):
    hand = tmp_path / "000001"
    subprocess.run(["cp", "-r", str(run / "steps" / "000001"), str(hand)], check=True)
    (hand / "update" / "_checkpoint" / "model.safetensors").write_bytes(b"")
    words = ["train-step", str(hand / "advantages"), "--model", "builtin", *UPDATE]
    assert app.run(words) == 0
    assert files_of(hand / "update") == files_of(run / "steps" / "000001" / "update")


def test_other_content_under_the_same_names_is_refused(tmp_path, capsys):
    names = {split: str(tmp_path / split) for split in ("train", "heldout")}
    for split, path in names.items():
        app.run(["prompts", "task:expression", "--split", split, "--out", path, "--limit", "9"])
    words = ["--prompts", names["train"], "--heldout", names["heldout"], "--model", "builtin"]
    assert train(tmp_path / "run", "--steps", "1", *words) == 0
    shutil.rmtree(names["train"])
    app.run(["prompts", "task:expression", "--out", names["train"], "--limit", "8"])
    assert train(tmp_path / "run", "--steps", "2", *words) == 2
    assert "was started from other content: prompts changed" in capsys.readouterr().err


def test_a_torn_last_line_of_the_metrics_is_mended(run, tmp_path):
    torn = tmp_path / "run"
    subprocess.run(["cp", "-r", str(run), str(torn)], check=True)
    text = (torn / "metrics.jsonl").read_text()
    (torn / "metrics.jsonl").write_text(text[:-30])
    assert train(torn, "--steps", "2", "--keep", "9") == 0
    assert [line["step"] for line in lines_of(torn)] == [0, 1, 2]
    assert lines_of(torn)[:2] == [json.loads(line) for line in text.splitlines()[:2]]


def test_the_seconds_of_a_step_are_without_those_of_its_evaluation(tmp_path, monkeypatch):
    inner = loop.Run.evaluate

    def evaluate(run, step):  # as an engine with weights of its own does
        run.timer.seconds["sync_weights"] = 99.0
        return inner(run, step)

    monkeypatch.setattr(loop.Run, "evaluate", evaluate)
    assert train(tmp_path / "run", "--steps", "1", "--eval-every", "1") == 0
    assert "sync_weights" not in lines_of(tmp_path / "run")[1]["seconds"]


def test_stored_rollouts_can_be_trained_on_again(run, tmp_path):
    """The engine of the options samples: replay gives the same update without sampling."""
    engine = f"replay:path={run / 'steps' / '000001' / 'rollouts'}"
    replayed = tmp_path / "run"
    assert train(replayed, "--steps", "1", "--eval-every", "0", "--engine", engine) == 0
    weights = "steps/000001/update/_checkpoint/model.safetensors"
    assert (run / weights).read_bytes() == (replayed / weights).read_bytes()
    rows = [
        pq.read_table(folder / "steps" / "000001" / "scores").to_pylist()
        for folder in (run, replayed)
    ]
    assert rows[0] == rows[1]


def test_prompts_without_heldout_ones_are_refused(run, tmp_path, capsys):
    assert train(tmp_path / "run", "--prompts", str(run / "prompts" / "train")) == 2
    assert "none to evaluate on" in capsys.readouterr().err


def test_a_group_larger_than_the_prompts_is_refused(tmp_path):
    with pytest.raises(UsageError, match="a step takes"):
        list(setup.train(tmp_path, config.RunConfig(config.RunOptions(prompts_per_step=999))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_run_exits_with_75_and_says_how_to_go_on(few, tmp_path, number):
    out = tmp_path / "run"
    rlvr = Path(sys.executable).parent / "rlvr"
    arguments = [
        str(rlvr),
        "train",
        "--algo",
        "quatro",
        "--out",
        str(out),
        "--steps",
        "500",
        *SMALL,
        *few,
    ]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    end = time.monotonic() + 300
    while not list(out.glob("steps/*/rollouts")):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 75, stderr
    assert "finished parts are kept" in stderr
    assert f"resume with `rlvr train --algo quatro --out {out}" in stderr
    assert "Traceback" not in stderr


def test_no_kill_loses_or_changes_anything():
    """KILL, TERM, USR1 and STOP at random moments; every file equals an undisturbed run's."""
    script = Path(__file__).parents[1] / "crash.py"
    words = ["--scenario", "evaluations", "--kills", "8"]
    done = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    assert "every file equal" in done.stdout
