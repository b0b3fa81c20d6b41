"""Prompts with images through the stages and a run, on a tiny policy that reads them."""

import filecmp
import json
import shutil

import numpy as np
import pyarrow.dataset as datasets
import pytest
import torch
from safetensors.torch import load_file

from rlvr_cli.cli import app
from rlvr_cli.models import chat, policy as policies, questions, tokenizers
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards

REWARD = """
def share(completion, **row):
    return sum(c in "0123456789" for c in completion) / max(1, len(completion))
"""


@pytest.fixture(scope="module")
def qwen(vision):
    return vision.policy("qwen2_vl")


@pytest.fixture(scope="module")
def root(tmp_path_factory, vision):
    """Six prompts, of which the third and the sixth have no image, and the fifth has two."""
    root = tmp_path_factory.mktemp("pictures")
    (root / "red.png").write_bytes(vision.picture((255, 0, 0)))
    (root / "blue.png").write_bytes(vision.picture((0, 0, 255), size=(48, 32)))
    shown = [["red.png"], ["blue.png"], [], ["red.png"], ["blue.png", "red.png"], []]
    rows = [
        {"prompt": [{"role": "user", "content": [
            *({"type": "image", "image": name} for name in names),
            {"type": "text", "text": f"{number}: what is this?"},
        ]}], "answer": str(number)}
        for number, names in enumerate(shown)
    ]  # fmt: skip
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "reward.py").write_text(REWARD)
    words = ["prompts", f"{root}/rows.jsonl", "--verifier", "number", "--out", f"{root}/prompts"]
    assert app.run(words) == 0
    return root


@pytest.fixture(scope="module")
def sampled(root, qwen):
    for words in (
        ["rollout", f"{root}/prompts", "-n4", "--max-new-tokens=8", "--model", str(qwen)],
        ["score", f"{root}/rollouts", "--verifier", f"{root}/reward.py:share"],
        ["logprob", f"{root}/rollouts"],
        ["advantage", f"{root}/scores"],
    ):
        assert app.run(words) == 0
    return root


def table(folder):
    return datasets.dataset(folder, exclude_invalid_files=True).to_table()


def update(sampled, out, *words):
    assert app.run(["train-step", f"{sampled}/advantages", "--out", str(out),
                    "--learning-rate=1e-3", *words]) == 0  # fmt: skip
    return out / "_checkpoint"


def changed(one, other):
    """The first parts of the names of weights that are not the same."""
    weights, others = (load_file(path / "model.safetensors") for path in (one, other))
    assert weights.keys() == others.keys()
    return {n.split(".")[0] for n in weights if not torch.equal(weights[n].float(), others[n])}


def test_stored_logps_are_those_of_the_sampler(sampled):
    rollouts, logprobs = table(sampled / "rollouts"), table(sampled / "logprobs")
    sampler = np.concatenate(rollouts["behaviour_logp"].to_pylist())
    trainer = np.concatenate(logprobs["old_logp"].to_pylist())
    np.testing.assert_allclose(sampler, trainer, atol=2e-5)


def test_prompt_tokens_are_as_the_policy_sees_them(sampled, qwen):
    processor = tokenizers.load_processor(policies.resolve(str(qwen)))
    rollouts = table(sampled / "rollouts").to_pylist()
    counts = [row["prompt_token_ids"].count(processor.image_token_id) for row in rollouts]
    assert counts[::4] == [4, 6, 0, 4, 10, 0]


def test_an_update_leaves_the_vision_part_as_it_is(sampled, tmp_path, qwen):
    assert changed(qwen, update(sampled, tmp_path)) == {"model"}


def test_train_vision_trains_all(sampled, tmp_path, qwen):
    assert changed(qwen, update(sampled, tmp_path, "--train-vision")) == {"model", "visual"}


def test_adapters_are_of_the_language_part(sampled, tmp_path):
    adapters = load_file(update(sampled, tmp_path, "--lora-rank=2") / "adapter_model.safetensors")
    assert adapters
    assert all(".language_model." in name for name in adapters)


def test_a_checkpoint_has_the_files_of_the_processor(sampled, tmp_path, qwen):
    checkpoint = update(sampled, tmp_path)
    for name in ("preprocessor_config.json", "processor_config.json", "chat_template.jinja"):
        assert filecmp.cmp(qwen / name, checkpoint / name, shallow=False)


@pytest.mark.slow
def test_a_run_that_was_stopped_resumes_with_the_same_bytes(root, tmp_path, qwen):
    words = [
        *("train", "--model", str(qwen), "--prompts", f"{root}/prompts", "--steps=2"),
        *("--heldout", f"{root}/prompts", "--allow-overlap", "--prompts-per-step=3", "-n2"),
        *("--max-new-tokens=6", "--eval-every=2", "--eval-num-generations=2", "--save-every=1"),
        *("--verifier", f"{root}/reward.py:share", "--learning-rate=1e-2"),
    ]
    assert app.run([*words, "--out", f"{tmp_path}/run"]) == 0
    shutil.copytree(tmp_path / "run", tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped/steps/000002/update")
    shutil.rmtree(tmp_path / "stopped/eval/000002")
    assert app.run([*words, "--out", f"{tmp_path}/stopped"]) == 0
    update = "steps/000002/update"
    for name in ("model.safetensors", "optimizer/adamw.safetensors"):
        one, other = (tmp_path / run / update / "_checkpoint" / name for run in ("run", "stopped"))
        assert filecmp.cmp(one, other, shallow=False)
    for name in (update, "eval/000002/rollouts", "eval/000002/logprobs"):
        digests = {Shards.open(tmp_path / run / name).digest for run in ("run", "stopped")}
        assert len(digests) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model=builtin"], "`rows-000001` has an image, and `builtin` reads only text"),
        (["--engine=graph"], "`rows-000001` has an image, and --engine graph decodes only"),
        (["--memory-model=auto"], "`rows-000001` has an image, and DLC's memory model reads only"),
    ],
)
def test_what_reads_text_alone_is_refused(root, tmp_path, refused, qwen, words, said):
    model = [] if "--model=builtin" in words else ["--model", str(qwen)]
    for command in (
        ["rollout", f"{root}/prompts", "-n2", "--max-new-tokens=8"],
        ["train", "--prompts", f"{root}/prompts", "--eval-every=0", "--steps=1",
         *(["--algo=grpo+dlc"] if "--memory-model=auto" in words else [])],
    ):  # fmt: skip
        code = 3 if "--model=builtin" in words else 2
        assert said in refused(code, *command, *model, *words, "--out", f"{tmp_path}/out")


def test_a_text_policy_gives_no_logps_of_image_tokens(sampled, tmp_path, refused):
    words = ["logprob", f"{sampled}/rollouts", "--model=builtin", "--out", f"{tmp_path}/out"]
    assert "reads only text" in refused(3, *words)


def test_a_prompt_that_is_too_long_keeps_its_images(root, vision):
    """A question is cut at its left end; where the images alone are too long, it is refused."""
    prompts = Shards.open(root / "prompts", "prompts")
    images = Images.of(prompts)
    row = questions.with_raw(prompts, [4]).to_pylist()[0]
    for kind in ("qwen2_vl", "gemma3", "smolvlm"):
        encoder = chat.encoder(policies.resolve(str(vision.policy(kind))))
        own = images.of_prompt(row["prompt_id"])
        full = encoder.encode(row["prompt_id"], row["messages"], images=own)
        fitted = encoder.fitted(row["prompt_id"], row["messages"], len(full) - 3, images=own)
        assert len(fitted) == len(full) - 3
        assert encoder.preview(row, own).count(" tokens>") == 2


def test_turns_in_text_are_not_lost_by_a_template_of_parts(vision):
    """SmolVLM's template writes nothing of a content that is no list."""
    encoder = chat.encoder(policies.resolve(str(vision.policy("smolvlm"))))
    messages = json.dumps([
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "1 + 1?"},
    ])  # fmt: skip
    text = encoder.preview({"prompt_id": "a", "messages": messages})
    assert "System: be brief" in text and "User: 1 + 1?" in text


def test_train_vision_is_refused_where_it_has_no_meaning(sampled, tmp_path, refused, qwen):
    words = ["train-step", f"{sampled}/advantages", "--train-vision", "--out", f"{tmp_path}/out"]
    said = refused(2, *words, "--trainer=deepspeed:zero=3")
    assert "keeps gradients of earlier updates" in said
    said = refused(2, *words, "--model=builtin", "--off-policy")
    assert "--train-vision is given, and `builtin` reads only text" in said


@pytest.mark.slow
def test_a_run_of_adapters_resumes_with_the_same_bytes(root, tmp_path, qwen):
    words = [
        *("train", "--model", str(qwen), "--prompts", f"{root}/prompts", "--steps=2", "-n2"),
        *("--eval-every=0", "--prompts-per-step=3", "--max-new-tokens=6", "--lora-rank=2"),
        *("--verifier", f"{root}/reward.py:share", "--learning-rate=1e-2"),
    ]
    assert app.run([*words, "--out", f"{tmp_path}/run"]) == 0
    shutil.copytree(tmp_path / "run", tmp_path / "stopped")
    shutil.rmtree(tmp_path / "stopped/steps/000002")
    assert app.run([*words, "--out", f"{tmp_path}/stopped"]) == 0
    one, other = (tmp_path / run / "steps/000002/update" for run in ("run", "stopped"))
    assert Shards.open(one).digest == Shards.open(other).digest
    names = json.loads((one / "_checkpoint/adapter_config.json").read_text())["target_modules"]
    assert sorted(names) == [
        *("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"),
    ]  # fmt: skip


def test_weights_of_a_vision_tower_without_gradients_do_not_stop_training(root, tmp_path, vision):
    """Gemma 3's tower ends with a layer that nothing is predicted from."""
    words = [
        "train",
        "--model",
        vision.policy("gemma3"),
        "--prompts",
        root / "prompts",
        "--steps=2",
        "-n2",
        "--eval-every=0",
        "--prompts-per-step=2",
        "--max-new-tokens=4",
        "--verifier",
        f"{root}/reward.py:share",
        "--train-vision",
        "--out",
        tmp_path / "run",
    ]
    assert app.run([str(word) for word in words]) == 0
    checkpoint = tmp_path / "run/steps/000002/update/_checkpoint"
    from transformers import AutoModelForImageTextToText, AutoProcessor

    assert type(AutoProcessor.from_pretrained(checkpoint)).__name__ == "Gemma3Processor"
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    assert type(model).__name__ == "Gemma3ForConditionalGeneration"


def test_an_update_stores_train_vision_only_where_it_applies(sampled, tmp_path):
    update(sampled, tmp_path / "frozen")
    update(sampled, tmp_path / "all", "--train-vision")
    update(sampled, tmp_path / "all")  # is complete, and stays what it was begun as
    stored = [Shards.open(tmp_path / name).params.get("train_vision") for name in ("frozen", "all")]
    assert stored == [None, True]
