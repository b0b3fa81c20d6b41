"""Runs that are moved or copied, between steps or within one, go on to the same bytes."""

import shutil

import pytest

STEPS = ["--steps=3", "--prompts-per-step=2", "-n2", "--max-new-tokens=6", "--eval-every=0",
         "--save-every=1", "--keep=9"]  # fmt: skip
NAMED = ["--model=model", "--prompts=prompts"]
WITHIN = {"rollout": (), "score": ("rollouts",), "update": ("rollouts", "scores", "advantages")}


def content(run):
    """All that the run holds but what says where its parents lie, and how long it took."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in run.rglob("*.*")
        if path.suffix in (".parquet", ".safetensors") or path.name == "inputs.json"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory, chain):
    """A folder with a model, prompts and a run of three steps on them; not to be changed."""
    from rlvr_cli.cli import app
    from rlvr_cli.models import policy

    root = tmp_path_factory.mktemp("whole")
    shutil.copytree(policy.resolve("builtin").path, root / "model")
    shutil.copytree(chain / "prompts", root / "prompts")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert app.run(["train", *NAMED, *STEPS, "--out", "run"]) == 0
    return root


@pytest.fixture
def cut(whole, tmp_path, monkeypatch):
    """Gives a copy of the folder whose run ended within its third step, after these stages."""

    def make(done):
        here = shutil.copytree(whole, tmp_path / "here")
        for path in (here / "run" / "steps" / "000003").iterdir():
            if path.name not in done:
                shutil.rmtree(path)
        log = here / "run" / "metrics.jsonl"
        log.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
        monkeypatch.chdir(here)
        return here

    return make


def went_on(ran, run, whole):
    assert ran.code == 0, ran.err
    assert content(run) == content(whole / "run")


@pytest.mark.parametrize("done", WITHIN.values(), ids=WITHIN)
def test_a_run_that_moved_alone_goes_on_within_a_step(whole, cut, rlvr, done):
    here = cut(done)
    (here / "else" / "deep").mkdir(parents=True)
    shutil.move("run", "else/deep/run")
    went_on(rlvr("train", "--out", "else/deep/run"), here / "else" / "deep" / "run", whole)


@pytest.mark.parametrize("done", WITHIN.values(), ids=WITHIN)
def test_a_run_goes_on_with_its_model_and_prompts_given_where_they_moved(
    whole, cut, rlvr, refused, done
):
    here = cut(done)
    for name in ("model", "prompts"):
        shutil.move(name, f"the {name}")
    said = refused(3, "train", "--out", "run")
    assert "`model` is not there, the model of the run" in said and "`--model DIR`" in said
    said = refused(3, "train", "--out", "run", "--model", "the model")
    assert "`prompts` is not there, the prompts of the run" in said and "`--prompts DIR`" in said
    places = ["--model", "the model", "--prompts", "the prompts"]
    went_on(rlvr("train", "--out", "run", *places), here / "run", whole)
    assert rlvr("train", "--out", "run", "--steps", 4).code == 0


def test_a_run_that_is_reached_through_a_link_from_elsewhere_goes_on(
    whole, cut, rlvr, tmp_path, monkeypatch
):
    here = cut(("rollouts",))
    (tmp_path / "links" / "deep").mkdir(parents=True)
    (tmp_path / "links" / "deep" / "run").symlink_to(here / "run")
    went_on(rlvr("train", "--out", tmp_path / "links" / "deep" / "run"), here / "run", whole)


def test_a_copy_whose_times_are_others_goes_on(whole, cut, rlvr, tmp_path, monkeypatch):
    shutil.copytree(cut(("rollouts", "scores")), tmp_path / "copy", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "copy")
    went_on(rlvr("train", "--out", "run"), tmp_path / "copy" / "run", whole)


def test_other_prompts_or_another_model_are_refused_where_they_are_given_as_moved(
    whole, cut, rlvr, refused
):
    cut(())
    assert rlvr("prompts", "task:expression", "--limit", 5, "--out", "other").code == 0
    said = refused(2, "train", "--out", "run", "--prompts", "other")
    assert "was started from other content: prompts changed" in said


def test_adapters_go_on_after_their_base_moved(whole, cut, rlvr, refused):
    cut(())
    words = [*NAMED, *STEPS[1:], "--lora-rank=2", "--steps=1", "--out", "adapted"]
    assert rlvr("train", *words).code == 0
    shutil.move("adapted", "prompts-and-runs")
    shutil.move("model", "base")
    ran = rlvr("train", "--out", "prompts-and-runs", "--model", "base", "--steps=2")
    assert ran.code == 0, ran.err
