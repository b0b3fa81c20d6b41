"""`init` writes a file that runs, and its commands work when they are pasted."""

import importlib.util
import json
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlvr_cli
from rlvr_cli import run_config
from rlvr_cli.models import policy as policies

SMALL = ("--steps=1", "--max-new-tokens=12", "--prompts-per-step=4", "-n2", "--eval-every=1")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(tmp_path):
    """A model directory of a user's own."""
    return shutil.copytree(policies.resolve("builtin").path, tmp_path / "my model")


@pytest.fixture
def questions(jsonl):
    rows = ({"question": f"{n}=", "answer": str(n), "level": n % 3} for n in range(4, 34))
    return jsonl(*rows, name="questions.jsonl")


def init(rlvr, *words):
    ran = rlvr("init", *words, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def run_all(rlvr, commands, *more):
    for line in commands:
        name, *words = shlex.split(line)
        assert name == "rlvr"
        ran = rlvr(*words, *(more if words[0] == "train" else ()))
        assert ran.code == 0, (line, ran.err)


@pytest.mark.slow
def test_the_commands_it_prints_train_a_model_of_ones_own_on_a_file_of_ones_own(
    rlvr, model, questions
):
    made = init(rlvr, "--model", model, "--data", questions.name, "--verifier", "expression")
    assert [line.split()[1] for line in made["commands"]] == ["prompts", "prompts", "train"]
    run_all(rlvr, made["commands"], *SMALL)
    heldout, train = (
        pq.read_table(f"prompts/{name}/part-00000.parquet")["prompt_id"].to_pylist()
        for name in ("heldout", "train")
    )
    assert (len(heldout), len(train)) == (6, 24) and not set(heldout) & set(train)


def test_what_is_given_or_chosen_is_set_and_the_rest_are_commented_defaults(rlvr, questions):
    init(rlvr, "--model", "builtin", "--data", questions.name, "--verifier", "expression")
    text = Path("run.toml").read_text()
    written = tomllib.loads(text)
    assert written["train"]["model"] == "builtin" and "algo" not in written["train"]
    assert '# algo = "grpo"  # the objective' in text
    uncommented = "\n".join(
        line.removeprefix("# ") if " = " in line else line for line in text.splitlines()
    )
    (whole := questions.with_name("whole.toml")).write_text(uncommented)
    assert run_config.load([whole], {}) == run_config.load([questions.with_name("run.toml")], {})
    for line in text.splitlines():
        if " = " in line and not line.startswith("#"):
            assert "  # " in line, f"`{line}` says no reason"


def test_an_existing_file_is_kept_without_force(rlvr, refused, questions):
    Path("run.toml").write_text("mine")
    words = ("init", "--model", "builtin", "--data", questions.name)
    assert "`run.toml` exists already" in refused(2, *words)
    assert Path("run.toml").read_text() == "mine"
    assert rlvr(*words, "--force").code == 0 and Path("run.toml").read_text() != "mine"
    Path("other.slurm").touch()
    assert "`other.slurm` exists" in refused(2, *words, "--slurm", "--out", "other.toml")


@pytest.mark.parametrize(
    ("golds", "prompt", "verifier"),
    [
        (["7", "1,200", "-3.5"], "How many?", "number"),
        (["A", "(C)", "B."], "Which one? A, B, C or D", "choice"),
        ([r"\frac12", "x^2+1", "3"], "How many?", "math:unanchored=true"),
        ([r"\frac12", "x^2+1", "3"], r"Answer in \boxed{}.", "math"),
    ],
)
def test_the_verifier_follows_from_the_golds_and_from_what_the_prompts_ask_for(
    rlvr, jsonl, golds, prompt, verifier
):
    rows = ({"question": f"{n} {prompt}", "answer": gold} for n, gold in enumerate(golds))
    made = init(rlvr, "--model", "builtin", "--data", jsonl(*rows).name)
    assert made["verifier"].startswith(f"{verifier} (")
    assert f"--verifier {verifier} " in made["commands"][0]


def test_golds_that_no_verifier_reads_are_refused_with_the_names_of_verifiers(refused, jsonl):
    rows = ({"question": f"{n}?", "answer": "a long tale of words"} for n in range(3))
    said = refused(3, "init", "--model", "builtin", "--data", jsonl(*rows).name)
    assert "such as `a long tale of words`" in said and "--verifier: choice, code" in said
    said = refused(3, "init", "--model=builtin", "--data=rows.jsonl", "--verifier=number")
    assert "`number` cannot read any of the golds" in said


def test_messages_are_measured_by_the_chat_template_and_refused_without_one(
    rlvr, refused, jsonl, model
):
    rows = (
        {"prompt": [{"role": "user", "content": f"{n}="}], "reward_model": {"ground_truth": "4"}}
        for n in range(5)
    )
    data = jsonl(*rows).name
    assert "no chat template" in refused(3, "init", "--model", model, "--data", data)
    path = model / "tokenizer_config.json"
    template = "{% for m in messages %}=={{ m['content'] }}{% endfor %}"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))
    made = init(rlvr, "--model", model, "--data", data)
    assert "golds in `reward_model.ground_truth`" in made["data"]
    assert (
        "messages of 4 (median) to 4 tokens" in made["data"] and "a chat template" in made["model"]
    )


def test_a_column_is_named_once(rlvr, jsonl):
    """The reasoning before the #### of a gold is kept as a further fact of its row."""
    rows = ({"question": f"{n} + 1?", "answer": f"It is {n + 1}.\n#### {n + 1}", "level": 1}
            for n in range(5))  # fmt: skip
    made = init(rlvr, "--model", "builtin", "--data", jsonl(*rows).name)
    assert "prompts in `question`, golds in `answer`, others: level;" in made["data"]


def test_a_folder_of_parquet_files_with_splits_is_trained_and_evaluated_on_its_splits(
    rlvr, tmp_path
):
    (tmp_path / "mine").mkdir()
    for split, first, count in (("train", 4, 20), ("test", 30, 5)):
        rows = [{"problem": f"{n}=", "answer": str(n)} for n in range(first, first + count)]
        pq.write_table(pa.Table.from_pylist(rows), f"mine/{split}-00000-of-00001.parquet")
    words = ("--split", "train", "--heldout-split", "test")
    made = init(rlvr, "--model", "builtin", "--data", "mine", *words)
    assert made["data"].startswith("20 rows")
    run_all(rlvr, made["commands"][:-1])
    assert [pq.read_table(f"prompts/{name}").num_rows for name in ("train", "heldout")] == [20, 5]


def test_prompts_that_are_there_already_are_taken_as_they_are(rlvr, chain):
    prompts = chain / "prompts"
    made = init(rlvr, "--model", "builtin", "--data", prompts, "--heldout", prompts)
    assert [line.split()[1] for line in made["commands"]] == ["train"]
    assert tomllib.loads(Path("run.toml").read_text())["train"]["prompts"] == str(prompts)


def test_prompts_that_name_no_verifier_are_made_anew_with_one(rlvr, questions):
    assert rlvr("prompts", questions, "--out", "bare").code == 0
    made = init(rlvr, "--model", "builtin", "--data", "bare", "--heldout", "bare")
    assert [line.split()[1] for line in made["commands"]] == ["prompts", "prompts", "train"]
    assert all("--verifier number" in line for line in made["commands"][:2])


def test_names_of_columns_that_no_comment_may_hold_leave_the_file_readable(rlvr, jsonl):
    data = jsonl(*({"prompt": f"{n}=", "answer": "4", "a\nb = \x7f": 1} for n in range(5)))
    init(rlvr, "--model", "builtin", "--data", data.name)
    assert tomllib.loads(Path("run.toml").read_text())["train"]["model"] == "builtin"


def test_too_few_rows_to_keep_some_are_all_trained_on_and_it_says_so(rlvr, jsonl):
    made = init(rlvr, "--model=builtin", "--data", jsonl({"question": "4=", "answer": "4"}).name)
    assert tomllib.loads(Path("run.toml").read_text())["train"]["eval_every"] == 0
    assert any("--heldout" in remark for remark in made["remarks"])


def test_ids_that_rows_share_are_refused(refused, jsonl):
    jsonl({"id": "a", "prompt": "4=", "answer": "4"}, {"id": "a", "prompt": "5=", "answer": "5"})
    said = refused(3, "init", "--model=builtin", "--data=rows.jsonl")
    assert "1 ids of several rows each, such as `a`" in said and "--id-column" in said


def test_gpus_of_another_machine_need_their_memory(refused, questions):
    words = ("init", "--model=builtin", "--data", questions.name)
    assert "--gpu-memory 80" in refused(2, *words, "--gpus", 4)
    assert "--gpu-memory 80" in refused(2, *words, "--nodes", 2, "--slurm")
    assert "add --slurm" in refused(2, *words, "--nodes", 2, "--gpu-memory", 80)


CLUSTER = ("--slurm", "--docker", "--nodes=2", "--gpus=4", "--gpu-memory=80")


def test_a_slurm_job_starts_the_run_on_all_nodes_and_goes_back_into_the_queue(rlvr, questions):
    made = init(rlvr, "--model=builtin", "--data", questions.name, *CLUSTER)
    assert made["commands"][-1] == "sbatch run.slurm"
    job = Path("run.slurm").read_text()
    for line in ("--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--requeue"):
        assert f"#SBATCH {line}\n" in job
    subprocess.run(["bash", "-n", "run.slurm"], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "run.slurm"], check=True)


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (1, False), (75, True)])
def test_the_job_ends_as_the_run_does_and_is_queued_again_if_it_was_interrupted(
    rlvr, questions, tmp_path, code, requeued
):
    init(rlvr, "--model=builtin", "--data", questions.name, *CLUSTER)
    (tmp_path / "bin").mkdir()
    for name, body in (
        ("srun", f'echo "$@" >>called; exit {code}'),
        ("scontrol", 'echo "$@" >>called'),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    job = tmp_path / "run.slurm"
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7"}
    assert subprocess.run(["bash", job], env=environment).returncode == code
    called = Path("called").read_text().splitlines()
    assert called[0] == "rlvr train --config run.toml --out runs/run --nnodes 2 --nproc 4"
    assert (called[1:] == ["requeue 7"]) is requeued


def test_the_image_installs_what_the_run_needs_from_files_that_the_checkout_has(rlvr, questions):
    init(rlvr, "--model=builtin", "--data", questions.name, *CLUSTER)
    text = Path("Dockerfile").read_text()
    assert "RUN pip install '/src[deepspeed,gpu]'" in text and "--nproc 4" in text
    root = Path(rlvr_cli.__file__).parents[1]
    for line in text.splitlines():
        if line.startswith("COPY "):
            for name in line.split()[1:-1]:
                assert (root / name).exists(), name
    if shutil.which("hadolint"):
        subprocess.run(["hadolint", "--failure-threshold=error", "Dockerfile"], check=True)


def test_what_the_run_needs_and_is_not_installed_here_is_said(rlvr, questions):
    made = init(rlvr, "--model=builtin", "--data", questions.name, *CLUSTER)
    missing = [name for name in ("deepspeed", "triton") if not importlib.util.find_spec(name)]
    said = [remark for remark in made["remarks"] if "pip install" in remark]
    assert len(said) == bool(missing)
    assert all({"triton": "gpu"}.get(name, name) in said[0] for name in missing)
