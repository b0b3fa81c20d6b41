"""What a run refuses of its prompts before a model is loaded."""

import re
import shlex

import pytest
import torch

from rlvr_cli.config import RolloutOptions, RunConfig, RunOptions, UpdateOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.loop import preflight
from rlvr_cli.models import policy


@pytest.fixture
def sets(rlvr, jsonl, tmp_path):
    """Makes directories of prompts by the texts that they ask; their paths."""

    def make(**texts):
        for name, asked in texts.items():
            rows = [{"prompt": text, "answer": "5", "verifier": "expression"} for text in asked]
            path = jsonl(*rows, name=f"{name}.jsonl")
            assert rlvr("prompts", path, "--out", tmp_path / name).code == 0
        return [tmp_path / name for name in texts]

    return make


@pytest.mark.parametrize("dry_run", [True, False])
def test_held_out_prompts_are_not_trained_on(refused, sets, tmp_path, dry_run):
    train, heldout = sets(train=["5=", "6=", "7="], heldout=["6 =", "6=", "9="])
    words = ["train", "--model", "builtin", "--prompts", train, "--heldout", heldout]
    words += ["--out", tmp_path / "run"]
    err = refused(2, *words, *["--dry-run"] * dry_run)
    assert (
        "1 of 3 held-out prompts are trained on, 1 with the same text, as `heldout-000002`" in err
    )
    assert not (tmp_path / "run").exists()


def test_the_hint_makes_prompts_that_may_be_trained_on(rlvr, refused, sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("train", "--model", "builtin", "--heldout", heldout, "--dry-run")
    words += ("--prompts-per-step", 1)
    command = re.search(
        r"`rlvr (.*?)`", refused(2, *words, "--prompts", train).partition("hint")[2]
    )
    assert rlvr(*shlex.split(command[1])).code == 0
    assert rlvr(*words, "--prompts", "trained-on").code == 0


def test_an_overlap_that_is_allowed_is_said(rlvr, sets):
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout)
    ran = rlvr("train", *words, "--allow-overlap", "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and "1 of 1 held-out prompts are trained on" in ran.err


def test_prompts_that_are_not_evaluated_on_may_be_trained_on(rlvr, sets):
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout, "--eval-every", 0)
    ran = rlvr("train", *words, "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and "trained on" not in ran.err


def test_the_built_in_task_is_looked_at_too(refused, rlvr, tmp_path):
    rlvr("prompts", "task:expression", "--limit", 3, "--out", tmp_path / "heldout")
    err = refused(2, "train", "--heldout", tmp_path / "heldout", "--dry-run")
    assert "3 of 3 held-out prompts are trained on" in err


def test_repeated_prompts_are_counted_before_they_are_trained_on(rlvr, sets):
    train, heldout = sets(train=["5=", "5=", "7="], heldout=["9="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout)
    ran = rlvr("train", *words, "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and f"1 of the 3 prompts of `{train}` repeat an earlier one" in ran.err


def test_a_dry_run_refuses_messages_without_a_template_and_too_few_prompts(
    refused, rlvr, jsonl, tmp_path
):
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}="}], "answer": str(n), "verifier": "number"}
        for n in (1, 2)
    ]
    assert rlvr("prompts", jsonl(*rows), "--out", tmp_path / "p").code == 0
    words = ["train", "--model", "builtin", "--prompts", tmp_path / "p", "--eval-every", 0]
    words += ["--out", tmp_path / "run", "--dry-run"]
    assert "the policy has no chat template" in refused(3, *words, "--prompts-per-step", 2)
    (tmp_path / "chat.jinja").write_text("{{ messages[-1]['content'] }}")
    words += ["--template", tmp_path / "chat.jinja"]
    err = refused(2, *words)
    assert "a step takes 32 prompts, and there are 2" in err and "--prompts-per-step 2" in err
    assert rlvr(*words, "--prompts-per-step", 2).code == 0


def test_data_in_place_of_prompts_is_answered_with_the_command_that_makes_them(
    refused, rlvr, jsonl, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    data = jsonl({"prompt": "5=", "answer": "5", "verifier": "expression"})
    words = ("train", "--model", "builtin", "--prompts", data, "--eval-every", 0, "--dry-run")
    command = re.search(r"`rlvr (.*?)`", refused(3, *words).partition("hint")[2])
    assert rlvr(*shlex.split(command[1])).code == 0 and (tmp_path / "prompts").is_dir()


def config_of(*, engine="vllm", algo="grpo", **update):
    return RunConfig(
        train=RunOptions(algo=algo),
        rollout=RolloutOptions(engine=engine),
        train_step=UpdateOptions(**update),
    )


def test_adapters_of_experts_are_refused_where_vllm_samples(mixture):
    experts, dense = (policy.resolve(str(p)) for p in (mixture("qwen3_moe"), "builtin"))
    with pytest.raises(UsageError, match="experts among them") as error:
        preflight.check_adapters(config_of(lora_rank=4), experts)
    names = re.search(r"--lora-targets (\S+)`", error.value.hint)[1]
    for config in (
        config_of(lora_rank=4, lora_targets=names),
        config_of(lora_rank=4, engine="transformers"),
        config_of(),
    ):
        preflight.check_adapters(config, experts)
    preflight.check_adapters(config_of(lora_rank=4), dense)


@pytest.mark.parametrize("algo", ["grpo", "grpo:ddof=0+kl:beta=0.1"])
@pytest.mark.parametrize("engine", ["vllm:quantization=fp8", "graph:cache=int8"])
def test_the_remark_on_a_quantized_sampler_names_an_algorithm_that_corrects_for_it(algo, engine):
    (remark,) = preflight.sampler_remarks(config_of(engine=engine, algo=algo))
    _, corrected = shlex.split(re.search(r"`(--algo .*)`", remark)[1])
    assert corrected == f"{algo}+is-correction"
    assert f"in {engine.partition('=')[2]}, which gives other log-probs" in remark
    assert not preflight.sampler_remarks(config_of(engine=engine, algo=corrected))
    assert not preflight.sampler_remarks(config_of(algo=algo))
    assert not preflight.sampler_remarks(
        config_of(engine=engine, algo=algo, old_logprobs="rollout")
    )


@pytest.mark.parametrize(
    ("algo", "corrected"),
    [
        ("grpo", "grpo+is-correction"),
        ("grpo+off-policy-mask", "grpo+off-policy-mask+is-correction"),
        ("grpo+is-correction:cap=5", "grpo+is-correction:cap=5"),
        ("m2po", "m2po"),
    ],
)
def test_a_stale_step_is_corrected_for_its_sampler_once(algo, corrected):
    assert preflight.corrected(config_of(algo=algo)) == corrected
    assert preflight.corrected(config_of(algo=algo, old_logprobs="rollout")) == algo


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may compute in FP8")
def test_fp8_is_refused_before_a_run_on_a_machine_that_cannot(refused, tmp_path):
    """With vLLM it is the device; without, the installation."""
    words = ["--engine", "vllm:quantization=fp8", "--out", tmp_path / "run"]
    err = refused(2, "train", "--algo", "grpo", "--model", "builtin", *words)
    assert "quantization=fp8 needs a GPU" in err or "vLLM is not installed" in err
    assert not (tmp_path / "run").exists()
