import errno
import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

from rlvr_cli.report import sources, tables
from rlvr_cli.storage import branch_origins, locks
from rlvr_cli.storage.shards import Shards

# What differs between a run and a branch that changes nothing: its origin, and the seconds.
OF_A_BRANCH = {"branch.json", "inputs.json", "_run.json"}
REWARD = "def reward(completion, answer):\n    return float(len(completion) {} 4)\n"


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """Two steps of train, evaluated at each, in the current folder; to be changed."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(trained, "run")


def files_below(path: Path) -> dict[str, bytes]:
    files = {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}
    if "metrics.jsonl" in files:
        records = map(json.loads, files["metrics.jsonl"].splitlines())
        timeless = [{n: v for n, v in r.items() if n != "seconds"} for r in records]
        files["metrics.jsonl"] = json.dumps(timeless).encode()
    return files


def steps_logged(path: Path) -> list[int]:
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def branch(rlvr, *words: object) -> list[Path]:
    ran = rlvr("branch", *words)
    assert ran.code == 0, ran.err
    return [Path(line) for line in ran.out.splitlines()]


def train(rlvr, *words: object) -> str:
    ran = rlvr("train", "--out", *words)
    assert ran.code == 0, ran.err
    return ran.err


@pytest.mark.parametrize("at", [0, 1])
def test_a_branch_that_changes_nothing_goes_on_to_the_bytes_of_the_run(rlvr, run, at):
    (same,) = branch(rlvr, run, "--at", at, "--algo", "grpo", "--out", "branches")
    train(rlvr, same)
    ours, theirs = (
        {n: data for n, data in files_below(p).items() if n not in OF_A_BRANCH}
        for p in (same, Path(run))
    )
    assert ours == theirs
    assert rlvr("check", same).code == 0


def test_a_branch_shares_what_the_run_had_sampled_ahead_of_it(rlvr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("-n2", "--prompts-per-step=2", "--max-new-tokens=4", "--eval-every=0")
    train(rlvr, "run", "--ahead=2", "--steps=4", "--keep=9", *small)
    same, other = branch(
        rlvr, "run", "--at", 1, "--algo", "grpo", "--algo", "rloo", "--out", "branches"
    )
    assert [len(list(other.glob(f"steps/00000{step}/rollouts"))) for step in (2, 3, 4)] == [1, 1, 1]
    train(rlvr, same)
    assert files_below(same / "steps") == files_below(tmp_path / "run" / "steps")
    train(rlvr, other)
    assert rlvr("check", other).code == 0


def test_a_branch_shares_files_and_is_whole_without_the_run(rlvr, run):
    dapo, own = branch(
        rlvr, run, "--at", 1, "--algo", "dapo", "--algo", "grpo", "--out", "branches"
    )
    for inner in (
        "steps/000001/update/_checkpoint/model.safetensors",
        "steps/000001/scores/part-00000.parquet",
        "steps/000002/rollouts/part-00000.parquet",
        "steps/000002/scores/_manifest.json",
        "eval/000001/logprobs/part-00000.parquet",
        "prompts/train/part-00000.parquet",
    ):
        assert os.path.samefile(run / Path(inner), dapo / inner)
    assert not (dapo / "steps/000002/advantages").exists()
    assert not (dapo / "steps/000002/update").exists()
    assert (own / "steps/000002/advantages").exists()
    before = files_below(own)
    sampled = Shards.open(dapo / "steps/000002/rollouts").table()
    shutil.rmtree(run)
    said = train(rlvr, dapo)
    assert "first importance ratios 1.0000000 to 1.0000000" in said
    assert Shards.open(dapo / "steps/000002/rollouts").table() == sampled
    assert steps_logged(dapo) == [0, 1, 2]  # each step once, those of the run among them
    assert Shards.open(dapo / "steps/000002/update").params["algo"].startswith("dapo:")
    assert Shards.open(dapo / "steps/000001/update").params["algo"].startswith("grpo:")
    assert files_below(own) == before  # what one branch does changes no other
    for path in (dapo, own):
        assert rlvr("check", path).code == 0


def test_a_branch_that_was_copied_to_another_machine_goes_on(rlvr, run, tmp_path):
    (made,) = branch(rlvr, run, "--at", 1, "--algo", "rloo", "--out", "branches")
    elsewhere = shutil.copytree(made, tmp_path / "other" / "place" / "alone")
    for gone in ("branches", "run"):
        shutil.rmtree(gone)
    train(rlvr, elsewhere)
    assert rlvr("check", elsewhere).code == 0


def test_another_verifier_scores_stored_completions_once_and_evaluations_with_them(rlvr, run):
    Path("reward.py").write_text(REWARD.format("<"))
    words = ["--algo", "grpo", "--algo", "dapo", "--verifier", "", "--verifier"]
    ran = rlvr("branch", run, "--at", 1, *words, "reward.py:reward", "--out", "b", "--json")
    facts = json.loads(ran.out)
    stored = ("steps/000002", "eval/000000", "eval/000001")
    rows = [Shards.open(Path(run) / inner / "rollouts").rows for inner in stored]
    assert facts["scored"] == sum(rows)
    own, other, _, dapo = (Path(made["path"]) for made in facts["branches"])
    for inner in stored:
        scores = Shards.open(other / inner / "scores")
        assert "reward.py" in scores.params["verifier"]
        assert os.path.samefile(
            scores.path / "_manifest.json", dapo / inner / "scores/_manifest.json"
        )
        lengths = [
            len(text)
            for text in Shards.open(other / inner / "rollouts").table()["completion"].to_pylist()
        ]
        assert scores.table()["reward"].to_pylist() == [float(n < 4) for n in lengths]
    first = json.loads((other / "metrics.jsonl").read_text().splitlines()[0])
    share = Shards.open(other / "eval/000000/scores").summary["correct"]
    assert first["eval"]["pass@1"][0] == pytest.approx(share)
    assert (
        facts["branches"][1]["command"] == f"rlvr train --out {other} --verifier reward.py:reward"
    )
    assert rlvr("train", "--out", dapo).code == 2  # code that only the configuration names
    ran = rlvr(*shlex.split(facts["branches"][3]["command"])[1:])
    assert ran.code == 0 and "damaged" not in ran.err, ran.err
    for path in (own, other, dapo):
        assert rlvr("check", path).code == 0
    assert Shards.open(dapo / "eval/000002/scores").params["verifier"] == scores.params["verifier"]


def test_verdicts_of_the_same_completions_are_compared_one_by_one(rlvr, run):
    Path("reward.py").write_text(REWARD.format("<"))
    words = ["--verifier", "", "--verifier", "reward.py:reward", "--out", "b"]
    own, other = branch(rlvr, run, "--at", 1, *words)
    right, short = (
        Shards.open(path / "eval/000001/scores").table()["correct"].to_pylist()
        for path in (own, other)
    )
    ran = rlvr("compare", own, other, "--json")
    assert json.loads(ran.out)["alike"] == {
        "completions": len(right),
        "same": len(right),
        "first_alone": sum(a and not b for a, b in zip(right, short, strict=True)),
        "second_alone": sum(b and not a for a, b in zip(right, short, strict=True)),
    }
    text = rlvr("compare", own, other).out
    assert f"{len(right)} of {len(right)} completions are the same in both" in text


def test_a_verifier_whose_file_has_changed_scores_again(rlvr, run):
    Path("reward.py").write_text(REWARD.format("<"))
    words = ["--verifier", "reward.py:reward", "--prompts-per-step=4", "-n4", "--steps=1"]
    train(rlvr, "first", "--max-new-tokens=16", "--eval-every=0", *words)
    (same,) = branch(rlvr, "first", "--at", 0, *words[:2], "--out", "same")
    assert branch_origins.newest(same).changed == {}
    Path("reward.py").write_text(REWARD.format(">="))
    (mended,) = branch(rlvr, "first", "--at", 0, *words[:2], "--out", "mended")
    (was, now) = branch_origins.newest(mended).changed["verifier"]
    assert was != now and "reward.py" in was
    before, after = (
        Shards.open(path / "steps/000001/scores").table()["reward"].to_pylist()
        for path in (same, mended)
    )
    assert after == [1 - reward for reward in before]
    train(rlvr, mended, *words[:2])


def test_steps_without_a_checkpoint_are_refused_with_the_nearest_that_has_one(rlvr, refused, run):
    shutil.rmtree(run / Path("steps/000001/update/_checkpoint"))
    words = ("branch", run, "--algo", "dapo", "--steps", 4, "--out", "b", "--at")
    err = refused(3, *words, 1)
    assert "the checkpoint of step 1 of `run` was removed (--keep 2); there are those of 2" in err
    assert "the nearest is `--at 2`" in err
    assert branch(rlvr, *words[1:], 2) == [Path("b/dapo")]
    err = refused(3, *words, 9)
    assert "has not finished step 9, its last is 2" in err and "`--at 2`" in err
    weights = run / Path("steps/000002/update/_checkpoint/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    err = refused(3, *words[:-2], "other", "--at", 2)
    assert "the checkpoint of step 2 of `run` is not as it was written" in err
    assert "the nearest is `--at 0`" in err
    assert not Path("other").exists()


REFUSED = {
    "no run": ("branch steps --at 0", 3, "`steps` is not a run of train"),
    "within the run": ("branch run --at 1 --out run/b", 2, "as in `--out run-branches`"),
    "no step is left": ("branch run --at 2 --algo dapo", 2, "in `--steps 22`"),
    "an objective sampled otherwise": ("branch run --at 1 --algo dapo+dlc", 2, "leave `+dlc` out"),
    "an unknown objective": ("branch run --at 1 --algo dapoo", 2, "did you mean `dapo`"),
    "an objective twice": ("branch run --at 1 --algo dapo --algo dapo:clip_low=0.2", 2, "twice"),
    "golds of another kind": ("branch run --at 1 --verifier choice", 3, "cannot read 4 of 4 golds"),
    "code that may not run": ("branch run --at 1 --verifier code", 2, "--allow-code-execution"),
    "an option of no branch": ("branch run --at 1 --learning-rate 1", 2, "has no option"),
    "something in the way": ("branch run --at 1 --algo gspo", 2, "`b/gspo` exists, and is not"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_a_branch_is_refused_before_anything_is_made(
    refused, trained, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    Path("run").symlink_to(trained)
    Path("steps").mkdir()
    Path("b/gspo").mkdir(parents=True)
    command, code, said = words
    assert said in refused(code, *command.split()[:2], "--out", "b", *command.split()[2:])
    assert os.listdir("b") == ["gspo"] and os.listdir("b/gspo") == []


def test_code_that_only_the_run_names_is_not_run(rlvr, refused, run):
    Path("reward.py").write_text(REWARD.format("<"))
    words = ["--verifier", "reward.py:reward", "--prompts-per-step=4", "-n4", "--steps=1"]
    train(rlvr, "first", "--max-new-tokens=16", "--eval-every=0", *words)
    err = refused(2, "branch", "first", "--at", 0, "--algo", "dapo", "--out", "b")
    assert "`reward.py` is code that the configuration of the run names" in err
    hint = err.partition("if you trust it: `rlvr ")[2].partition("`")[0]
    assert branch(rlvr, *shlex.split(hint)[1:]) == [Path("b/dapo")]


def test_another_file_system_takes_a_copy_that_is_asked_for(rlvr, refused, run, monkeypatch):
    link = os.link

    def within_one(source, target, **options):
        if Path(source).is_relative_to(Path(run).resolve()):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(source, target, **options)

    monkeypatch.setattr(os, "link", within_one)
    words = ("branch", "run", "--at", 1, "--algo", "dapo", "--algo", "rloo", "--out", "b")
    err = refused(1, *words)
    assert "cannot be shared with" in err and "Invalid cross-device link" in err
    assert not Path("b").exists()
    facts = json.loads(rlvr(*words, "--copy", "--json").out)
    assert facts["copied_bytes"] == facts["shared_bytes"]  # the second branch shares the copy
    weights = "steps/000001/update/_checkpoint/model.safetensors"
    assert os.path.samefile(f"b/dapo/{weights}", f"b/rloo/{weights}")
    assert not os.path.samefile(f"run/{weights}", f"b/rloo/{weights}")
    assert rlvr("check", "b/rloo").code == 0


def test_the_same_command_makes_what_is_missing_and_keeps_what_is_there(rlvr, run):
    words = (run, "--at", 1, "--algo", "dapo", "--algo", "rloo", "--out", "b")
    dapo, rloo = branch(rlvr, *words)
    before = files_below(dapo)
    shutil.rmtree(rloo)
    killed = Path("b/_tmp-branches/rloo/steps/000001")  # as a process that was killed leaves it
    killed.mkdir(parents=True)
    ran = rlvr("branch", *words)
    assert ran.out.splitlines() == ["b/dapo", "b/rloo"]
    assert "1 run with" in ran.err and "`b/dapo` existed already" in ran.err
    assert files_below(dapo) == before
    assert sorted(os.listdir("b")) == ["dapo", "rloo"]
    assert rlvr("check", rloo).code == 0


def test_a_branch_of_a_branch_says_all_that_it_came_from_however_often_it_is_resumed(
    rlvr, refused, run
):
    (first,) = branch(rlvr, run, "--at", 0, "--algo", "dapo", "--out", "b")
    train(rlvr, first)
    (second,) = branch(rlvr, first, "--at", 1, "--algo", "rloo", "--out", "b/deeper")
    train(rlvr, second, "--steps", 3)
    nearest, farther = branch_origins.of(second)
    assert (nearest.run, nearest.at, nearest.changed) == (
        "../../dapo",
        1,
        {"algo": ("dapo", "rloo")},
    )
    assert (farther.run, farther.at, farther.changed) == (
        "../../../run",
        0,
        {"algo": ("grpo", "dapo")},
    )
    policy = Shards.open(first / "steps/000001/update").summary["policy"]
    assert nearest.policy == policy
    facts = json.loads(rlvr("check", second, "--json").out)
    assert [origin["at"] for origin in facts["origins"]] == [1, 0]
    assert (
        "branched from: `../../dapo` at step 1: algo was dapo, is rloo" in rlvr("check", second).err
    )
    assert steps_logged(second) == [0, 1, 2, 3]
    (source,) = sources.open_all([second])
    name, shown = tables.line(source)["config"][0]
    assert name == "branched from"
    assert [text for _, text in shown] == [nearest.described(), farther.described()]
    (second / "branch.json").unlink()
    ran = rlvr("check", second)
    assert ran.code == 3 and "branch.json` is gone" in ran.err
    err = refused(3, "branch", second, "--at", 2, "--algo", "dapo", "--out", "deepest")
    assert "branch.json` is gone" in err


def test_a_branch_never_repeats_steps_that_were_made_otherwise(rlvr, refused, run):
    (made,) = branch(rlvr, run, "--at", 1, "--algo", "rloo", "--out", "b")
    shutil.rmtree(made / "steps/000001/update/_checkpoint")
    before = files_below(made)
    err = refused(3, "train", "--out", made)
    assert "has no complete checkpoint since step 1, where it branched" in err
    hint = err.partition("make it again: `rlvr ")[2].partition("`")[0]
    assert branch(rlvr, *shlex.split(hint.replace("DIR", "again"))[1:]) == [Path("again/rloo")]
    assert {n: d for n, d in files_below(made).items() if n in before} == before


def test_what_lies_outside_of_the_run_is_found_from_a_branch_elsewhere(rlvr, run, tmp_path):
    from rlvr_cli.models import policy

    shutil.copytree(policy.resolve("builtin").path, "model")
    for split in ("train", "heldout"):
        task = f"task:expression:split={split}"
        assert rlvr("prompts", task, "--limit", 4, "--out", split).code == 0
    words = ["--model", "model", "--prompts", "train", "--heldout", "heldout", "--lora-rank", 2]
    small = ["--steps=2", "--prompts-per-step=2", "-n2", "--max-new-tokens=8", "--eval-every=1"]
    train(rlvr, "own", "--algo", "grpo+kl", *words, *small, "--eval-num-generations=2",
          "--save-every=1")  # fmt: skip
    same, other = branch(
        rlvr, "own", "--at", 1, "--algo", "grpo+kl", "--algo", "rloo", "--out", "much/deeper/b"
    )
    assert (same / "steps/000002/logprobs").exists()  # of the reference policy
    assert not (other / "steps/000002/logprobs").exists()
    for path in (same, other):
        for inner in ("steps/000001", "steps/000002", "eval/000001"):
            rollouts = Shards.open(path / inner / "rollouts")
            assert rollouts.parent("prompts").path.resolve().parent == tmp_path
            assert policy.of(rollouts, None).path.exists()
        assert policy.resolve(str(path)).base.path.resolve() == tmp_path / "model"
    train(rlvr, same)
    weights = "steps/000002/update/_checkpoint/adapter_model.safetensors"
    assert (same / weights).read_bytes() == (Path("own") / weights).read_bytes()


def test_a_branch_of_a_run_in_a_store_names_its_url(bucket, rlvr, run):
    (first,) = branch(rlvr, run, "--at", 1, "--algo", "dapo", "--out", "b")
    urls = [bucket.url("b/dapo"), bucket.url("run")]
    for path, url in zip((first, run), urls, strict=True):
        assert rlvr("push", path, url).code == 0
    (of_both,) = branch(rlvr, urls[0], "--at", 0, "--algo", "gspo", "--out", "c")
    assert [origin.run for origin in branch_origins.of(of_both)] == urls
    (again,) = branch(rlvr, of_both, "--at", 0, "--algo", "rloo", "--out", "d")
    assert [origin.run for origin in branch_origins.of(again)] == ["../../c/gspo", *urls]


def test_a_tracker_is_told_all_steps_of_a_branch_and_where_it_came_from(rlvr, run):
    (made,) = branch(rlvr, run, "--at", 1, "--algo", "rloo", "--out", "b")
    Path("tracker.py").write_text(
        "import json\nfrom rlvr_cli.protocols import Tracked\n"
        "class Own:\n"
        "    def start(self, run):\n"
        "        json.dump(run.config['branch'], open('config.json', 'w'))\n"
        "        return Tracked('key', None)\n"
        "    def log(self, step, figures, samples):\n"
        "        print(step, file=open('steps.txt', 'a'))\n"
        "    def finish(self): pass\n"
        "def build(): return Own()\n"
    )
    ran = rlvr("track", made, "--to", "tracker.py:build", "--once")
    assert ran.code == 0, ran.err
    assert json.loads(Path("config.json").read_text())["run"] == "../../run"
    assert Path("steps.txt").read_text().split() == ["0", "1"]


def test_a_run_that_another_process_trains_is_branched_meanwhile(rlvr, run):
    with locks.locked(run / Path("_lock"), across_machines=True):
        (made,) = branch(rlvr, run, "--at", 1, "--algo", "rloo", "--out", "b")
    assert rlvr("check", made).code == 0


def test_another_verifier_shares_the_completions_of_draws_and_draws_again(rlvr, run):
    words = ["--max-draws=3", "--prompts-per-step=4", "-n4", "--steps=1", "--max-new-tokens=12"]
    train(rlvr, "drawn", "--eval-every=0", *words)
    drawn = "steps/000001/rollouts/_draws/0"
    (other,) = branch(rlvr, "drawn", "--at", 0, "--verifier", "format", "--out", "b")
    assert os.path.samefile(f"drawn/{drawn}/rollouts/part-00000.parquet",
                            other / drawn / "rollouts/part-00000.parquet")  # fmt: skip
    assert not (other / drawn / "scores").exists()
    assert not (other / "steps/000001/rollouts/_manifest.json").exists()
    ran = rlvr("train", "--out", other)
    assert ran.code == 3 and "not one of 12 groups" in ran.err  # none of them is boxed
