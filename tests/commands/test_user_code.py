"""Code of the user's own through the real commands: from files, from packages, and refused."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rlvr_cli
from rlvr_cli import registry
from rlvr_cli.storage.shards import Shards

CODE = '''
    """Objectives, engines and others of the user's own."""

    from rlvr_cli.algorithms import objective
    from rlvr_cli.algorithms.objectives import grpo
    from rlvr_cli.engines.rollout import transformers
    from rlvr_cli.engines.training import local
    from rlvr_cli.protocols import Verdict

    EQUALITY = "text"


    def build(*, clip: float = 0.2, tags: list[str] | None = None):
        """GRPO with one clip for both sides."""
        if clip < 0:
            raise ValueError("clip must not be below 0")
        return grpo.build(clip_low=clip, clip_high=clip)


    def twice(*, times: int = 2):
        """Twice the surrogate."""
        return lambda base: base.with_penalty(lambda batch: times * 0 * batch.logp_BT)


    def engine(*, batch_size: int = 8):
        return transformers.build(batch_size=batch_size)


    def trainer():
        return local.build()


    def task(*, numbers: list[int] = (5, 6), options: dict[str, int] = {}):
        """Numbers to reach."""
        return [
            {"prompt_id": f"own-{n}", "prompt": f"{n}=", "answer": str(n),
             "verifier": "expression", "source": "own", "extra": options or None}
            for n in numbers
        ]


    def verify(*, reward: float = 1.0):
        """The same reward for every completion."""
        def judge(completion, *, answer, extra):
            return Verdict("ok", reward=reward, correct=True, extracted=completion[:1])
        return judge


    def plain(completion, answer, extra):
        return 0.25


    def layout(*, gold: str = "a"):
        """A question and its answer."""
        return lambda row: {"prompt": row["q"], "answer": row[gold], "verifier": "expression"}


    def similar(*, same: float = 1.0):
        """All alike."""
        import numpy as np
        return lambda texts, index: np.full((len(texts), len(texts)), same)


    def broken(*, x: int = 1):
        return 1 / 0


    def tracker(*, to: str = "kept.txt"):
        """The steps, in a file."""
        from rlvr_cli.protocols import Tracked

        class Steps:
            def start(self, run):
                return Tracked(run.name)

            def log(self, step, figures, samples):
                with open(to, "a") as file:
                    file.write(f"{step} {len(samples)}\\n")

            def finish(self):
                pass

        return Steps()


    class rows:
        """One row a prompt."""

        SUFFIX = ".jsonl"

        def recognises(names):
            return "own" in names

        def write(groups):
            return ({"own": group["prompt_id"]} for group in groups)
'''
KINDS = {
    "objectives": "build", "modifiers": "twice", "rollout": "engine", "training": "trainer",
    "tasks": "task", "verifiers": "verify", "similarities": "similar", "formats": "rows",
    "layouts": "layout", "trackers": "tracker",
}  # fmt: skip
TINY = ["-n2", "--max-new-tokens=4", "--model=builtin"]
EVIL = """
import pathlib
pathlib.Path({mark!r}).touch()
def f(completion, answer, extra):
    return 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch, copy):
    """A working directory with own code and a chain of stages."""
    (tmp_path / "own-code.py").write_text(textwrap.dedent(CODE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package that offers something of each kind; more may be offered by others."""

    def install(distribution="ownpkg", version="1.0", names=KINDS, **more):
        module = f"{distribution}_code"
        site = tmp_path / distribution
        info = site / f"{distribution}-{version}.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(textwrap.dedent(CODE))
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )
        lines = [f"[rlvr.{kind}]\nown-{name} = {module}:{name}\n" for kind, name in names.items()]
        lines += [f"[rlvr.{kind}]\n{entry}\n" for kind, entry in more.items()]
        (info / "entry_points.txt").write_text("".join(lines))
        monkeypatch.syspath_prepend(site)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), *_paths()]))
        return site

    yield install
    for name in [name for name in sys.modules if name.endswith("pkg_code")]:
        del sys.modules[name]


def _paths():
    root = str(Path(rlvr_cli.__file__).parents[1])
    return [path for path in (os.environ.get("PYTHONPATH", ""), root) if path]


def succeeded(ran):
    assert ran.code == 0, ran.err
    return ran


def pipeline(rlvr, name):
    """Every command, with each of its specs named by `name(kind)`; the directory of each stage."""
    Path("own.jsonl").write_text('{"q": "5=", "b": "5"}\n')
    layout = f"{name('layouts')}:gold=b"
    succeeded(rlvr("prompts", "own.jsonl", "--layout", layout, "--out", "o/layout"))
    chosen = name("tasks")
    task = chosen if ".py:" in chosen else f"task:{chosen}"
    succeeded(rlvr("prompts", f"{task}:numbers=[5,7,9]", "--out", "o/prompts"))
    engine = name("rollout")
    succeeded(rlvr("rollout", "o/prompts", *TINY, "--engine", engine))
    verifier = f"0.5*{name('verifiers')}:reward=0.5+0.5*expression"
    succeeded(rlvr("score", "o/rollouts", "--verifier", verifier))
    algo = f"{name('objectives')}:clip=0.3,tags=[a,b]+{name('modifiers')}:times=3+entropy"
    succeeded(rlvr("advantage", "o/scores", "--algo", algo))
    trainer = name("training")
    succeeded(rlvr("train-step", "o/advantages", "--algo", algo, "--trainer", trainer))
    similarity = f"{name('similarities')}:same=0.5,jaccard"
    ran = succeeded(rlvr("diversity", "o/rollouts", "--similarity", similarity, "--json"))
    assert "same=0.5 similarity" in ran.out
    succeeded(rlvr("export", "o/scores", "--format", name("formats"), "--out", "o/rows.jsonl"))
    assert json.loads(Path("o/rows.jsonl").read_text().splitlines()[0]) == {"own": "own-5"}
    stages = ("prompts", "rollouts", "scores", "advantages", "update")
    return [Shards.open(Path("o") / stage).params for stage in stages]


def train(rlvr, name, *words):
    algo = f"{name('objectives')}:clip=0.3+{name('modifiers')}"
    return rlvr(
        "train", "--algo", algo, "--engine", name("rollout"), "--trainer", name("training"),
        "--steps=1", "--prompts-per-step=2", "-n2", "--max-new-tokens=4", "--eval-every=0",
        "--out", "run", *words,
    )  # fmt: skip


def test_a_file_holds_something_of_each_kind(here, rlvr):
    (here / "sub").mkdir()
    (here / "sub" / "own-code.py").symlink_to(here / "own-code.py")
    prompts, rollouts, scores, advantages, update = pipeline(
        rlvr, lambda kind: f"./own-code.py:{KINDS[kind]}"
    )
    digest = prompts["task"].partition("from=")[2].partition(",")[0]
    assert digest.startswith("sha256-") and len(digest) == 7 + 64
    assert prompts["task"] == f"own-code.py:task:from={digest},numbers=[5,7,9],options={{}}"
    assert rollouts["engine"] == f"own-code.py:engine:from={digest},batch_size=8"
    assert scores["verifier"] == (f"0.5*own-code.py:verify:from={digest},reward=0.5+0.5*expression")
    assert advantages["algo"] == (
        f"own-code.py:build:from={digest},clip=0.3,tags=[a,b]"
        f"+own-code.py:twice:from={digest},times=3+entropy:coef=0.0001"
    )
    assert update["algo"] == advantages["algo"]
    assert update["trainer"] == f"own-code.py:trainer:from={digest}"


def test_a_package_offers_something_of_each_kind(here, installed, rlvr):
    installed()
    prompts, rollouts, scores, advantages, update = pipeline(
        rlvr, lambda kind: f"own-{KINDS[kind]}"
    )
    assert prompts["task"].startswith("own-task:from=ownpkg==1.0,numbers=[5,7,9]")
    assert rollouts["engine"] == "own-engine:from=ownpkg==1.0,batch_size=8"
    assert scores["verifier"] == "0.5*own-verify:from=ownpkg==1.0,reward=0.5+0.5*expression"
    assert advantages["algo"].startswith("own-build:from=ownpkg==1.0,clip=0.3,tags=[a,b]+own-twice")
    assert update["trainer"] == "own-trainer:from=ownpkg==1.0"


@pytest.mark.parametrize("spec", ["own-code.py:tracker:to=kept.txt", "own-tracker"])
def test_a_tracker_of_ones_own_is_sent_a_run(here, installed, rlvr, trained, spec):
    installed()
    shutil.copytree(trained, "run")
    succeeded(rlvr("track", "run", "--to", spec, "--samples=2"))
    assert Path("kept.txt").read_text() == "0 2\n1 2\n2 2\n"
    assert "The steps, in a file. (ownpkg==1.0)" in rlvr("list", "trackers").out


def test_a_run_trains_with_code_of_a_file_and_refuses_another_version_of_it(here, rlvr, refused):
    name = lambda kind: f"own-code.py:{KINDS[kind]}"  # noqa: E731
    succeeded(train(rlvr, name))
    assert succeeded(train(rlvr, name)).out.strip() == "run"
    with open("own-code.py", "a") as file:
        file.write("# changed\n")
    ran = train(rlvr, name, "--steps=2")
    assert ran.code == 2
    assert "`run` was started from other content: own-code.py:build" in ran.err


def test_doctor_and_dry_runs_take_code_of_a_file(here, rlvr):
    name = lambda kind: f"own-code.py:{KINDS[kind]}"  # noqa: E731
    assert 'algo = "own-code.py:build:clip=0.3' in succeeded(train(rlvr, name, "--dry-run")).out
    words = ["--model", "builtin", "--algo", name("objectives"), "--engine", name("rollout")]
    succeeded(rlvr("doctor", *words, "--trainer", name("training"), "--max-new-tokens=8"))
    succeeded(rlvr("doctor", "copy/prompts", "--verifier", name("verifiers")))


@pytest.mark.slow
def test_ranks_and_worker_processes_take_code_of_a_file(here):
    words = ["rollout", "copy/prompts", "-n2", "--max-new-tokens=4", "--nproc=2", "--out=two"]
    words += ["--engine=own-code.py:engine", "--prompts-per-part=2"]
    command = [str(Path(sys.executable).with_name("rlvr")), *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_paths())}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    assert Shards.open(Path("two")).params["engine"].startswith("own-code.py:engine:from=sha256-")


@pytest.mark.slow
def test_plain_functions_of_a_file_verify_in_worker_processes(here, rlvr):
    succeeded(rlvr("score", "copy/rollouts", "--verifier", "own-code.py:plain", "--out=s"))
    scores = Shards.open(Path("s"))
    assert set(scores.table()["reward"].to_pylist()) == {0.25}
    spec = scores.params["verifier"]
    assert spec == (
        "custom:path=own-code.py,function=plain,timeout_s=10.0,memory_mib=2048,range=none,"
        "completions=auto,sha256="
    )
    assert list(scores.params["files"]) == [spec] and len(scores.params["files"][spec]) == 64


def test_paths_may_be_absolute_or_in_the_home_directory(here, rlvr, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    shown = [
        succeeded(rlvr("list", "objectives", f"{path}:build")).out.split()[-1]
        for path in ("own-code.py", "./own-code.py", here / "own-code.py", "~/own-code.py")
    ]
    assert len(set(shown)) == 1
    shutil.copy("own-code.py", "c++,.py")
    assert '"c++,.py":build:from=' in rlvr("list", "objectives", '"c++,.py":build').out


def test_a_stage_made_elsewhere_goes_on_where_its_code_lies_now(here, rlvr, monkeypatch):
    (here / "code").mkdir()
    shutil.move("own-code.py", "code/own-code.py")
    algo = "code/own-code.py:build"
    succeeded(rlvr("advantage", "copy/scores", "--algo", algo, "--out", "a"))
    monkeypatch.chdir(here / "code")
    out = ["--out", "../u", "--rollouts", "../copy/rollouts"]
    succeeded(rlvr("train-step", "../a", "--algo", "own-code.py:build", *out))
    monkeypatch.chdir("/")
    trusted = ["--trust-file", here / "code/own-code.py", "--out", here / "v"]
    succeeded(rlvr("train-step", here / "a", *trusted))


@pytest.mark.parametrize(
    "text", ["custom:path=evil.py,function=f", "evil.py:f", "0.5*evil.py:f+number"]
)
def test_code_that_a_column_names_runs_only_if_it_is_trusted(here, rlvr, refused, jsonl, text):
    mark = here / "ran"
    (here / "evil.py").write_text(EVIL.format(mark=str(mark)))
    jsonl({"id": "a", "prompt": "5=", "answer": "5", "verifier": text})
    succeeded(rlvr("prompts", "rows.jsonl", "--out", "p"))
    succeeded(rlvr("rollout", "p", *TINY, "--out", "r"))
    small = ["--model=builtin", "--steps=1", "--prompts-per-step=1", "-n2", "--max-new-tokens=4",
             "--eval-every=0"]  # fmt: skip
    ways = [
        ["score", "r", "--out", "s"],
        ["score", "r", "--out", "s", "--dry-run"],
        ["doctor", "p"],
        ["doctor", "rows.jsonl"],
        ["train", "--prompts", "p", *small, "--out", "t"],
        ["train", "--prompts", "p", *small, "--out", "t", "--dry-run"],
    ]
    for words in ways:
        ran = rlvr(*words)
        assert ran.code == 2, (words, ran)
        message, hint = ran.err.splitlines()[-2:]
        assert message.startswith("error: `evil.py` is code that the `verifier` column of")
        again = " ".join([*words, "--trust-file evil.py"])
        assert hint == f"hint: if you trust it: `rlvr {again}`"
        assert not mark.exists()
    succeeded(rlvr(*ways[0], "--trust-file", "evil.py"))
    assert mark.exists()
    succeeded(rlvr("score", "r", "--out", "again", "--verifier", "./evil.py:f"))


def test_code_that_a_directory_or_a_configuration_names_runs_only_if_it_is_trusted(
    here, rlvr, refused
):
    mark = here / "ran"
    text = textwrap.dedent(CODE) + f"\nimport pathlib\npathlib.Path({str(mark)!r}).touch()\n"
    (here / "evil.py").write_text(text)
    succeeded(rlvr("advantage", "copy/scores", "--algo", "evil.py:build", "--out", "a"))
    (here / "run.toml").write_text('[train]\nalgo = "evil.py:build"\n')
    mark.unlink()
    (here / "evil.py").write_text(text)
    registry.user_code._run.cache_clear()
    for words in (
        ["train-step", "a", "--out", "u"],
        ["train", "--config", "run.toml", "--dry-run"],
        ["train", "--config", "run.toml", "--out", "t"],
        ["doctor", "--model", "builtin", "--config", "run.toml"],
    ):
        err = refused(2, *words)
        assert "`evil.py` is code that" in err and "--trust-file evil.py`" in err
        assert not mark.exists()
    assert "`a` names" in refused(2, "train-step", "a", "--out", "u")
    succeeded(rlvr("train", "--config", "run.toml", "--dry-run", "--trust-file", "evil.py"))
    assert mark.exists()
    with open("evil.py", "a") as file:
        file.write("# changed\n")
    err = refused(3, "train-step", "a", "--out", "u", "--trust-file", "evil.py")
    assert "`evil.py` has changed: it is sha256-" in err


def test_the_list_shows_what_packages_offer_and_which(here, installed, rlvr):
    installed()
    out = rlvr("list", "objectives").out
    assert "  own-build     GRPO with one clip for both sides. (ownpkg==1.0)\n" in out
    assert "own-build:from=ownpkg==1.0,clip=0.2,tags=none" in out
    shown = json.loads(rlvr("list", "--json").out)["lists"]
    for kind, name in KINDS.items():
        assert shown[kind][f"own-{name}"]["from"] == "ownpkg==1.0"
    assert shown["tasks"]["own-task"]["options"]["numbers"] == {"default": [5, 6]}


def test_a_name_of_rlvrs_own_wins_and_two_packages_with_one_name_are_refused(
    here, installed, rlvr, refused
):
    installed("firstpkg", "1.0", {"modifiers": "twice"}, objectives="grpo = firstpkg_code:broken")
    installed("otherpkg", "2.1", {"modifiers": "twice"}, training="bad = nowhere_pkg_code")
    listed = rlvr("list", "objectives").out
    assert "grpo (hidden)" in listed and "of firstpkg==1.0, hidden by rlvr's own `grpo`" in listed
    assert registry.canonical("objectives", "grpo").startswith("grpo:clip_low=0.2")
    err = refused(2, "advantage", "copy/scores", "--algo", "grpo+own-twice", "--out", "a")
    assert "`own-twice` is offered by" in err and "firstpkg==1.0" in err and "otherpkg==2.1" in err
    ran = succeeded(rlvr("list", "training"))
    assert "bad" in ran.out and "cannot be imported" in ran.out


def test_another_version_of_a_package_is_refused(here, installed, rlvr, refused):
    site = installed()
    algo = ["--algo", "own-build", "--out", "a"]
    succeeded(rlvr("advantage", "copy/scores", *algo))
    info = site / "ownpkg-1.0.dist-info"
    text = (info / "METADATA").read_text().replace("1.0", "1.1")
    (info / "METADATA").write_text(text)
    info.rename(site / "ownpkg-1.1.dist-info")
    err = refused(3, "train-step", "a", "--out", "u")
    assert "`own-build` is that of ownpkg==1.1, and ownpkg==1.0 was used" in err
    shutil.rmtree(site)
    assert "ownpkg==1.0, which is not installed" in refused(2, "train-step", "a", "--out", "u")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("own-code.py", "unknown objective `own-code.py`"),
        ("own-code.py:", "names no function"),
        ("own-code.py:nothing", "has no function `nothing`"),
        ("own-code.py:build:clip=-1", "clip must not be below 0"),
        ("own-code.py:build:cilp=1", "did you mean `clip`?"),
        ("own-code.py:build:tags=a", "a list, as in [a,b] or none was expected"),
        ("own-code.py:build:tags=[a", "a bracket is not closed"),
        ("own-code.py:broken", "ZeroDivisionError: division by zero"),
        ("own-code.py:engine", "does not give an Objective"),
        ("own-code.py:plain", "needs the option `completion`"),
        ("grpo+own-code.py:build", "does not give an Objective"),
        ("absent.py:build", "cannot read the file `absent.py`"),
        ("failing.py:build", "failing.py` cannot be run: NameError"),
        ("args.py:build", "args.py:build` is not a builder: **options"),
    ],
)
def test_code_that_is_none_is_refused_in_one_line(here, refused, spec, words):
    (here / "failing.py").write_text("nonsense\n")
    (here / "args.py").write_text("def build(**options):\n    return 1\n")
    for code in (2, 3):
        if (code == 3) == spec.startswith("absent"):
            assert words in refused(code, "advantage", "copy/scores", "--algo", spec, "--out", "a")


def test_an_error_within_own_code_is_said_with_its_line(here, refused):
    text = textwrap.dedent(CODE) + "\ndef later():\n    return lambda base: 1 / 0\n"
    (here / "own-code.py").write_text(text)
    err = refused(1, "advantage", "copy/scores", "--algo", "grpo+own-code.py:later", "--out", "a")
    assert f"own-code.py` line {len(text.splitlines())}: ZeroDivisionError" in err
    assert "defect" not in err
