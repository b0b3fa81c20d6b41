"""What is refused before a model is loaded: each kind of bad input, in earnest and in a dry run.

The model's weights are damaged, so that whatever loads them fails with a message of its own.
"""

import contextlib
import shutil

import pytest

from rlvr_cli.cli import app
from rlvr_cli.models import policy

SMALL = "-n 2 --max-new-tokens 8"
RUN = f"--prompts-per-step 4 --steps 1 --eval-every 0 {SMALL}"
ROLLOUT = "rollout prompts --model damaged --out new"
TRAIN = f"train --model damaged --prompts prompts {RUN} --out new"
BEGUN = f"train --model model --prompts prompts {RUN} --out run"


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """Prompts and what follows of them, a run, and a model whose weights cannot be read."""
    root = tmp_path_factory.mktemp("refusals")
    model = shutil.copytree(policy.resolve("builtin").path, root / "model")
    rows = [f'{{"id": "{i}", "prompt": "{i}=", "answer": "{i}"}}\n' for i in range(8)]
    (root / "own.jsonl").write_text("".join(rows))
    with contextlib.chdir(root):
        for words in (
            "prompts task:expression --limit 8 --out prompts",
            "prompts own.jsonl --out own",
            f"rollout prompts {SMALL} --model model",
            "score rollouts",
            "advantage scores",
            "train-step advantages",
            BEGUN,
        ):
            assert app.run(words.split()) == 0
    shutil.copytree(model, root / "toothless")
    (root / "toothless" / "tokenizer.json").unlink()
    (root / "empty").mkdir()
    (root / "wrong.toml").write_text("[train]\nlearning_rate = 1.0\n")
    damaged = shutil.copytree(model, root / "damaged")
    (damaged / "model.safetensors").write_bytes(b"damaged")
    return root


# What is wrong: the command, its exit code, and a part of the message.
CHECKED = {
    "a directory of another kind": ("rollout scores --out new", 3, "prompts were expected"),
    "no such directory": ("rollout nope --out new", 3, "`nope` does not exist"),
    "no model for prompts of one's own": ("rollout own --out new", 2, "no --model is given"),
    "no such model": ("rollout prompts --model nope --out new", 3, "no policy at `nope`"),
    "no model in a folder": ("rollout prompts --model empty --out new", 3, "no config.json"),
    "no tokenizer": ("rollout prompts --model toothless --out new", 3, "no tokenizer"),
    "an option out of bounds": (f"{ROLLOUT} --top-p 2", 2, "--top-p is 2"),
    "an option of another trainer": (f"{ROLLOUT} --lr 1", 2, "no option `--lr`"),
    "an unknown engine": (f"{ROLLOUT} --engine vlm", 2, "unknown rollout engine"),
    "an unknown option of an engine": (f"{ROLLOUT} --engine graph:rws=1", 2, "rws"),
    "a group of equal completions": (f"{ROLLOUT} --temperature 0", 2, "the same completion"),
    "too few prompts": (f"{ROLLOUT} --prompts-per-step 9", 2, "--prompts-per-step 8"),
    "draws without a number": (f"{ROLLOUT} --max-draws 2", 2, "--prompts-per-step"),
    "rollouts of another model": ("rollout prompts --model damaged", 2, "policy was"),
    "rollouts begun otherwise": ("rollout prompts --model model --seed 3", 2, "seed was 0, is 3"),
    "a verifier that is not known": ("score rollouts --verifier mth", 2, "unknown verifier"),
    "code that nobody allowed": ("score rollouts --verifier code", 2, "--allow-code-execution"),
    "scores begun otherwise": ("score rollouts --verifier number", 2, "verifier was None"),
    "an algorithm that is not known": ("advantage scores --algo gropo", 2, "did you mean"),
    "advantages begun otherwise": ("advantage scores --algo dapo", 2, "algo was grpo"),
    "columns that nothing gives": ("logprob rollouts --columns x", 2, "x"),
    "an update begun otherwise": ("train-step advantages --epochs 3", 2, "epochs was 1, is 3"),
    "an update of another policy": ("train-step advantages --model damaged", 2, "another policy"),
    "a key in the wrong table": (f"{TRAIN} --config wrong.toml", 2, "belongs in [train-step]"),
    "a recipe that is not known": (f"{TRAIN} --recipe gropo", 2, "unknown recipe"),
    "a run on prompts of one's own": (f"train --prompts own {RUN}", 2, "no --model is given"),
    "a run of no such model": (f"train --prompts own --model nope {RUN}", 3, "no policy at"),
    "a run on rollouts": (f"{TRAIN} --prompts rollouts", 3, "prompts were expected"),
    "no prompts to evaluate on": (f"{TRAIN} --eval-every 1", 2, "--heldout DIR"),
    "evaluations of equals": (
        f"{TRAIN} --heldout own --eval-every 1 --eval-temperature 0", 2,
        "--eval-num-generations 1",
    ),
    "a temperature below 0": (f"{TRAIN} --eval-temperature -0.5", 2, "--eval-temperature is"),
    "samples of another distribution": (f"{TRAIN} --top-k 4", 2, "not from the policy itself"),
    "a schedule without an end": (f"{TRAIN} --schedule linear", 2, "--decay-updates"),
    "a trainer that is not known": (f"{TRAIN} --trainer locl", 2, "unknown training engine"),
    "a memory model without its use": (f"{TRAIN} --memory-model auto", 2, "+dlc"),
    "a run begun with another model": (f"{BEGUN} --model damaged", 2, "content: policy changed"),
    "a run begun otherwise": (f"{BEGUN} --temperature 0.5", 2, "temperature was 1.0, is 0.5"),
}  # fmt: skip


@pytest.mark.parametrize("dry", [False, True], ids=["run", "dry-run"])
@pytest.mark.parametrize("fault", CHECKED)
def test_it_is_refused_before_a_model_is_loaded(refused, here, monkeypatch, fault, dry):
    words, code, message = CHECKED[fault]
    monkeypatch.chdir(here)
    before = sorted(here.rglob("*"))
    err = refused(code, *words.split(), *["--dry-run"] * dry)
    assert message in err
    assert [path for path in sorted(here.rglob("*")) if "_lock" not in path.name] == before


@pytest.mark.parametrize("words", [ROLLOUT, TRAIN, f"{BEGUN} --steps 2"])
def test_nothing_else_is_wrong_in_a_dry_run(rlvr, here, monkeypatch, words):
    monkeypatch.chdir(here)
    assert rlvr(*words.split(), "--dry-run").code == 0
    assert not (here / "new").exists()


@pytest.mark.parametrize("words", [ROLLOUT, TRAIN])
def test_whatever_loads_the_model_fails_on_its_weights(refused, here, monkeypatch, words):
    monkeypatch.chdir(here)
    assert "cannot load `damaged`: Error while deserializing" in refused(3, *words.split())
    shutil.rmtree(here / "new", ignore_errors=True)


def test_a_run_whose_prompts_changed_is_refused_in_a_dry_run_too(
    rlvr, refused, here, tmp_path, monkeypatch
):
    monkeypatch.chdir(shutil.copytree(here, tmp_path / "here"))
    shutil.rmtree("prompts")
    assert rlvr("prompts", "task:expression", "--limit", 4, "--out", "prompts").code == 0
    for words in (f"{BEGUN} --dry-run", BEGUN):
        assert "other content: prompts changed" in refused(2, *words.split())
