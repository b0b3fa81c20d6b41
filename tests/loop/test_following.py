import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlvr_cli import fixtures, run_config
from rlvr_cli.cli import app
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.loop import launching, published, schedule, setup, stored_config, waiting
from rlvr_cli.loop.launching import Places
from rlvr_cli.loop.schedule import Schedule
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage import run_folders
from rlvr_cli.storage.shards import MANIFEST, Shards, seal

pytestmark = pytest.mark.slow

SMALL = [
    *("--prompts-per-step", "4", "-n", "4", "--max-new-tokens", "16", "--prompts-per-part", "2"),
    *("--learning-rate", "3e-4", "--eval-every", "2", "--eval-num-generations", "2"),
    *("--save-every", "2", "--steps", "4"),
]
CODE = "import torch; torch.set_num_threads(1); from rlvr_cli.cli.app import main; main()"


class Command:
    """A command line that runs beside the test."""

    def __init__(self, log: Path, *words: object) -> None:
        self.log = log
        with open(log, "ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CODE, *map(str, words)],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip

    def wait(self) -> int:
        return self.process.wait(900)

    def said(self) -> str:
        return self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def until(is_there, commands: list[Command] = ()) -> None:
    deadline = time.monotonic() + 900
    while not is_there():
        assert time.monotonic() < deadline, [command.said() for command in commands]
        time.sleep(0.01)


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> list[str]:
    """Words for a run that trains on few prompts and evaluates two."""
    root = tmp_path_factory.mktemp("few")
    for split, limit in (("train", "24"), ("heldout", "2")):
        words = ["--split", split, "--limit", limit, "--out", str(root / split)]
        assert app.run(["prompts", "task:expression", *words]) == 0
    return [*SMALL, "--prompts", str(root / "train"), "--heldout", str(root / "heldout")]


@pytest.fixture(scope="module")
def ahead(few, tmp_path_factory) -> Path:
    """A run of one process that samples two steps ahead."""
    out = tmp_path_factory.mktemp("ahead") / "run"
    assert app.run(["train", *few, "--ahead", "2", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def in_turn(few, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("in-turn") / "run"
    assert app.run(["train", *few, "--steps", "2", "--out", str(out)]) == 0
    return out


def files_of(run: Path, *but: str) -> dict[str, bytes]:
    """A run's files without those of its configuration and the policies that it published."""
    but = ("config.toml", "_run.json", "inputs.json", *but)
    paths = {str(p.relative_to(run)): p for p in sorted(run.rglob("*")) if p.is_file()}
    files = {n: p.read_bytes() for n, p in paths.items() if n not in but and "/policy/" not in n}
    lines = [json.loads(line) for line in files.pop("metrics.jsonl").splitlines()]
    records = [{k: v for k, v in line.items() if k != "seconds"} for line in lines]
    kept = {name: data for name, data in files.items() if not name.startswith("_logs")}
    return kept | {"metrics.jsonl": json.dumps(records).encode()}


def staleness(run: Path) -> list[int | None]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line).get("staleness") for line in lines[1:]]


def algo(run: Path, step: int) -> str:
    return Shards.open(Schedule(run, 9, 9).rollouts(step).parent / "advantages").params["algo"]


def test_a_run_that_samples_ahead_says_how_stale_each_step_is(ahead):
    assert staleness(ahead) == [0, 1, 2, 2]
    assert [schedule.version(Schedule(ahead, 4, 2).rollouts(t)) for t in (1, 2, 3, 4)] == [
        0,
        0,
        0,
        1,
    ]


def test_steps_that_an_earlier_policy_sampled_are_corrected_and_no_others(ahead, in_turn):
    assert ["is-correction" in algo(ahead, step) for step in (1, 2)] == [False, True]
    assert "correction_cut" in (ahead / "metrics.jsonl").read_text()
    first = [files_of(run) for run in (ahead, in_turn)]
    assert len([name for name in first[0] if name.startswith("steps/000001/")]) > 8
    for name, data in first[0].items():
        if name.startswith("steps/000001/"):
            assert first[1][name] == data, name
    assert staleness(in_turn) == [None] * 2


@pytest.mark.parametrize("done", [1, 3])
def test_a_run_that_was_cut_off_while_it_sampled_ahead_ends_with_the_same_bytes(
    done, ahead, tmp_path
):
    config = run_config.load([ahead / "config.toml"], {})
    cut = setup.train(tmp_path / "run", config)
    assert [next(cut)["step"] for _ in range(done + 1)] == [*range(done + 1)]
    cut.close()
    assert (Schedule(tmp_path / "run", 4, 2).rollouts(done + 1) / MANIFEST).exists()
    assert [record["step"] for record in setup.train(tmp_path / "run", config)][-1] == 4
    assert files_of(tmp_path / "run") == files_of(ahead)


@pytest.fixture(scope="module")
def followed(ahead, tmp_path_factory) -> Path:
    """A run of four processes, of which one is killed and one comes later."""
    root = tmp_path_factory.mktemp("followed")
    run, config = root / "run", root / "run.toml"
    sampler = Command(root / "sampler", "rollout", "--follow", run)
    scorer = Command(root / "scorer", "score", "--follow", run)
    text = (ahead / "config.toml").read_text()
    config.write_text(text.replace("ahead = 2", "ahead = 1"))
    trainer = Command(root / "trainer", "train-step", "--follow", run, "--config", config)
    everyone = [sampler, scorer, trainer]
    until((run / "steps" / "000001" / "update" / MANIFEST).exists, everyone)
    sampler.kill()
    added = Command(root / "added", "rollout", "--follow", run, "--ahead", 1)
    assert [one.wait() for one in (added, scorer, trainer)] == [0, 0, 0], trainer.said()
    assert "is sampled, from the policy of step" in sampler.said() + added.said()
    return run


def test_processes_that_follow_a_run_make_what_one_makes_of_their_schedule(followed, tmp_path):
    assert max(staleness(followed)) <= 1
    words = ["--config", str(followed / "config.toml"), "--schedule-of", str(followed)]
    assert app.run(["train", *words, "--out", str(tmp_path / "again")]) == 0
    assert files_of(tmp_path / "again") == files_of(followed)


def test_what_was_published_stays_known_when_its_weights_are_gone(followed):
    assert not list(followed.rglob("_weights/*"))
    assert [published.read(followed, step) is None for step in (1, 2, 3, 4)] == [False] * 3 + [True]
    rollouts = Shards.open(Schedule(followed, 4, 1).rollouts(4))
    sampled = schedule.version(rollouts.path)
    assert rollouts.params["policy"] == published.read(followed, sampled).policy


def test_a_step_whose_policy_is_gone_is_begun_again_with_the_newest(ahead, tmp_path, rlvr):
    run, source = tmp_path / "run", Path(fixtures.__file__).parent / "policy"
    shutil.copytree(ahead, run)
    last = Schedule(run, 4, 2).rollouts(4)
    for step in (1, 3):
        after = Policy(source, str(last.parents[1] / f"{step:06d}" / "update"), f"identity {step}")
        published.publish(
            lambda to: shutil.copytree(source, to, dirs_exist_ok=True), run, step, after
        )
    listing = json.loads((last / MANIFEST).read_text())
    shutil.rmtree(last.parent)
    last.mkdir(parents=True)
    listing = {k: v for k, v in listing.items() if k not in ("sha256", "summary")}
    (last / "_plan.json").write_bytes(seal({**listing, "parts": []}))
    assert schedule.version(last) == 1
    (published.folder(run, 1) / "_weights" / "config.json").unlink()
    ran = rlvr("rollout", "--follow", run)
    assert ran.code == 0 and "begun again with that of step 3" in ran.err, ran
    assert schedule.version(last) == 3 and Shards.open(last).rows == 16


def test_a_follower_ends_where_a_file_stops_the_run(followed, tmp_path, rlvr):
    (followed / waiting.STOP).touch()
    ran = rlvr("rollout", "--follow", followed)
    (followed / waiting.STOP).unlink()
    assert ran.code == 0 and "_stop` exists: remove it" in ran.err


def test_processes_that_are_started_together_make_the_bytes_of_one_in_turn(few, in_turn, tmp_path):
    out = tmp_path / "run"
    assert app.run(["train", *few, "--steps", "2", "--async", "--out", str(out)]) == 0
    assert files_of(out) == files_of(in_turn)
    assert (out / "_logs" / "sampler-0.log").read_text().count("is sampled") == 2


def test_processes_are_started_once_the_run_knows_its_configuration(few, refused, tmp_path):
    """What they read of an earlier one, such as fewer steps, would have them end at once."""
    refused(2, "train", *few, "--async", "--prompts-per-step", 25, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / launching.LOGS).exists()


@pytest.mark.parametrize("happened", ["moved", "begun again"])
def test_a_follower_ends_where_its_run_is_no_longer_the_one_it_joined(happened, ahead, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(ahead, run)
    shutil.rmtree(run / "steps" / "000004")
    for step in (1, 2, 3):  # nothing is published: so it waits
        shutil.rmtree(run / "steps" / f"{step:06d}" / "update")
    shutil.rmtree(run / "steps" / "000003")
    scorer = Command(tmp_path / "scorer", "score", "--follow", run)
    until(lambda: "waiting for rollouts" in scorer.said(), [scorer])
    if happened == "moved":
        run.rename(tmp_path / "moved")
        said = f"`{run}` was moved or removed"
    else:
        text, inputs = run_folders.kept(run)
        stored_config.keep(run, text.replace("steps = 4", "steps = 9", 1), inputs)  # which may be
        stored_config.keep(run, text.replace("seed = 0", "seed = 1", 1), inputs)
        said = f"`{run}` was begun again, with other options"
    assert scorer.wait() == 3 and said in scorer.said(), scorer.said()


@pytest.mark.parametrize("started_by", ["--async", "--follow"])
def test_a_run_that_is_refused_before_others_may_join_leaves_nothing(
    started_by, few, rlvr, refused, tmp_path, monkeypatch
):
    """Its hints say to begin with other options, which a run that was begun would refuse."""
    run, usage = tmp_path / "runs" / "run", shutil.disk_usage
    words = ["train", *few, "--ahead", 1, "--out", run]
    if started_by == "--async":
        words.append(started_by)
    else:
        (tmp_path / "run.toml").write_text(rlvr(*words, "--dry-run").out)
        words = ["train-step", "--follow", run, "--config", tmp_path / "run.toml"]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=1 << 20))
    assert "a checkpoint with the weights for samplers takes" in refused(1, *words)
    assert not run.parent.exists()


def test_a_run_with_more_steps_than_it_had_is_joined_before_its_trainer_starts(followed, tmp_path):
    """The weights of the newest policy are gone by then: the trainer publishes them again."""
    run = tmp_path / "run"
    shutil.copytree(followed, run)
    config = run / "config.toml"
    config.write_text(config.read_text().replace("steps = 4", "steps = 5", 1))
    sampler = Command(tmp_path / "sampler", "rollout", "--follow", run)
    scorer = Command(tmp_path / "scorer", "score", "--follow", run)
    until(lambda: "waiting for a policy from the trainer" in sampler.said(), [sampler])
    trainer = Command(tmp_path / "trainer", "train-step", "--follow", run)
    assert [one.wait() for one in (sampler, scorer, trainer)] == [0, 0, 0], sampler.said()
    assert len(staleness(run)) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algo", "grpo+dlc"], "samples with a memory model that each update trains on"),
        (["--max-draws", "2"], "what is drawn depends on rewards that are not there yet"),
        (["--stale-correction", "iss"], "unknown modifier `iss`"),
        (["--sampler-gpus", "0"], "one process samples and trains"),
        (["--async", "--sampler-gpus", "0,0"], "write their numbers"),
    ],
)
def test_what_cannot_be_sampled_ahead_is_refused(words, said, refused, tmp_path):
    assert said in refused(2, "train", *SMALL, "--ahead", 1, *words, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "config.toml").exists()


def test_followers_take_the_options_of_their_run(followed, refused, tmp_path):
    assert "`temperature` was given" in refused(
        2, "rollout", "--follow", followed, "--temperature", 0.5
    )
    assert "begun with --ahead 1" in refused(2, "rollout", "--follow", followed, "--ahead", 2)
    said = refused(2, "train-step", "--follow", tmp_path / "none")
    assert "is not a run yet" in said and "--config FILE" in said


def test_options_that_the_run_decides_are_refused_with_the_place_to_set_them(
    followed, refused, rlvr, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(followed, run)
    said = refused(2, "train-step", "--follow", run, "--steps", 3)
    assert "no option `--steps`" in said and f"set `steps` in `{run / 'config.toml'}`" in said
    said = refused(2, "train-step", f"--follow={run}", "--learning-rate", 1)
    assert "another value needs another run" in said
    said = refused(2, "rollout", "--follow", tmp_path / "new", "-n", 2)
    assert "set `num_generations` in the TOML file that begins the run" in said
    assert "leave --follow out" in refused(2, "rollout", "--follow", run, "--out", tmp_path / "o")


def test_prompts_that_moved_are_named_where_followers_read_it(
    followed, few, refused, rlvr, tmp_path
):
    run, config = tmp_path / "run", tmp_path / "run" / "config.toml"
    shutil.copytree(followed, run)
    prompts = few[few.index("--prompts") + 1]
    shutil.copytree(prompts, tmp_path / "moved")
    config.write_text(config.read_text().replace(prompts, str(tmp_path / "gone")))
    for words in (["train-step"], ["rollout"], ["score"]):
        said = refused(3, *words, "--follow", run)
        assert f'say where: `prompts = "DIR"` in `{config}`' in said
    config.write_text(config.read_text().replace(str(tmp_path / "gone"), str(tmp_path / "moved")))
    for words in (["rollout"], ["score"], ["train-step"]):
        assert rlvr(*words, "--follow", run).code == 0


@pytest.mark.parametrize("command", ["rollout", "score"])
def test_what_no_trainer_makes_a_run_is_not_waited_for(command, rlvr, refused, tmp_path):
    (tmp_path / "run.toml").write_text("")
    assert rlvr("prompts", "task:expression", "--limit", 1, "--out", tmp_path / "p").code == 0
    for name in ("run.toml", "p"):
        err = refused(3, command, "--follow", tmp_path / name)
        assert f"`{tmp_path / name}` is no run directory" in err
        assert "train-step --follow" in err


def test_a_sampler_that_comes_before_the_trainer_waits_and_says_for_what(tmp_path):
    early = Command(tmp_path / "log", "rollout", "--follow", tmp_path / "my run")
    until(lambda: "waiting for the run" in early.said(), [early])
    assert f"`rlvr train-step --follow '{tmp_path / 'my run'}' --config FILE`" in early.said()
    os.kill(early.process.pid, signal.SIGKILL)
    early.wait()


def test_a_run_ends_with_the_exit_code_of_what_failed_for_it(rlvr, jsonl, tmp_path):
    (tmp_path / "fails.py").write_text("def reward(completion):\n    raise ValueError('no')\n")
    row = {"id": "a", "prompt": "1+1=", "completion": "2", "answer": "2"}
    assert rlvr("import", jsonl(row), "--out", tmp_path / "made").code == 0
    words = ["--verifier", f"{tmp_path / 'fails.py'}:reward", "--max-error-rate", "0"]
    score = ["score", str(tmp_path / "made" / "rollouts"), *words]
    child = launching.Child("the scorer", score, None, tmp_path / "scorer.log", 1)
    child.start()
    assert child.process.wait() == 4
    with pytest.raises(
        UserError, match=r"the scorer ended with 4: .*the verifier failed"
    ) as caught:
        child.look()
    assert caught.value.exit_code == 4


def test_gpus_are_divided_between_samplers_and_the_trainer(monkeypatch):
    monkeypatch.setenv("RLVR_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    places = Places.parse("0,1", "2,3", asynchronous=True)
    assert (places.samplers, places.take(1)) == (("0", "1"), 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert Places.parse(None, None, asynchronous=False) is None


def test_gpus_are_numbered_among_those_that_a_scheduler_gave(monkeypatch):
    monkeypatch.setenv("RLVR_VISIBLE_DEVICES", "")  # so that what the test leaves is undone
    del os.environ["RLVR_VISIBLE_DEVICES"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    places = Places.parse("0,1", "2", asynchronous=True)
    assert (places.samplers, places.take(1)) == (("4", "5"), 1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    assert Places.parse("0,1", "2", asynchronous=True) == places  # as a rank does
    with pytest.raises(UsageError, match="names 3"):
        Places.parse("3", "2", asynchronous=True)
