"""Adapters of other trainers: refused as a policy, merged by `convert`, as peft computes them."""

import json
import shutil
import warnings

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr_cli.models import policy

peft = pytest.importorskip("peft", reason="the extra lora is not installed")
BUILTIN = policy.resolve("builtin").path
LAYERS = ["q_proj", "v_proj"]
IDS = torch.arange(5, 25)[None]


def lora(*others, **options):
    return peft.LoraConfig(r=4, target_modules=[*LAYERS, *others], task_type="CAUSAL_LM", **options)


KINDS = {
    "lora": (lora(), True),
    "rslora": (lora(use_rslora=True, lora_alpha=16), True),
    "dora": (lora(use_dora=True), True),
    "patterns": (lora(rank_pattern={"layers.0.self_attn.q_proj": 2}), True),
    "biases": (lora(bias="all"), True),
    "norm": (lora(modules_to_save=["norm"]), True),
    "some tokens": (lora(trainable_token_indices=[3, 4]), True),
    "embedding": (lora("embed_tokens"), False),
    "head": (lora("lm_head"), False),
    "stored embedding": (lora(modules_to_save=["embed_tokens"]), False),
    "both": (lora(modules_to_save=["embed_tokens", "lm_head"]), False),
    "ia3": (
        peft.IA3Config(target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]),
        True,
    ),
}


def write(path, config, base=BUILTIN, tokens=0):
    """Adapters with random weights, as peft saves them, and the logits that peft gives."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(base)
    if tokens:
        tokenizer.add_tokens([f"<new{number}>" for number in range(tokens)])
        model.resize_token_embeddings(len(tokenizer))
    adapted = peft.get_peft_model(model, config).eval()
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape))
        logits = adapted(IDS).logits
    adapted.save_pretrained(path, save_embedding_layers=bool(tokens) or "auto")
    tokenizer.save_pretrained(path)
    return logits


def logits_of(path):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(IDS).logits, model.config.tie_word_embeddings


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_merged_to_the_model_that_peft_computes(kind, rlvr, tmp_path):
    config, shares = KINDS[kind]
    expected = write(tmp_path / "adapters", config)
    words = ["--out", tmp_path / "merged", "--dtype", "float32", "--json"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        ran = rlvr("convert", tmp_path / "adapters", *words)
    assert ran.code == 0 and json.loads(ran.out)["merged"], ran.err
    logits, is_shared = logits_of(tmp_path / "merged")
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    assert is_shared == shares
    assert float((logits - logits_of(BUILTIN)[0]).abs().max()) > 1e-2


def test_a_vocabulary_that_was_extended_is_extended_in_the_base(rlvr, tmp_path):
    expected = write(tmp_path / "adapters", lora(), tokens=3)
    words = ["--out", tmp_path / "merged", "--dtype", "float32"]
    assert rlvr("convert", tmp_path / "adapters", *words).code == 0
    torch.testing.assert_close(logits_of(tmp_path / "merged")[0], expected, rtol=0, atol=1e-4)
    assert "<new2>" in (tmp_path / "merged/tokenizer.json").read_text()


def test_a_policy_must_be_merged_first_and_the_hint_works(copy, rlvr, refused, tmp_path):
    write(tmp_path / "adapters", lora())
    words = ["rollout", copy / "prompts", "-n2", "--max-new-tokens=4", "--out", tmp_path / "r"]
    said = refused(3, *words, "--model", tmp_path / "adapters")
    assert f"holds adapters of `{BUILTIN}`, no model" in said
    assert f"`rlvr convert {tmp_path / 'adapters'} --out DIR`" in said
    assert rlvr("convert", tmp_path / "adapters", "--out", tmp_path / "merged").code == 0
    assert rlvr(*words, "--model", tmp_path / "merged").code == 0


def test_a_base_may_lie_next_to_them_and_one_that_is_gone_is_named(rlvr, refused, tmp_path):
    base = shutil.copytree(BUILTIN, tmp_path / "base")
    write(tmp_path / "adapters", lora(), base)
    file = tmp_path / "adapters/adapter_config.json"
    config = json.loads(file.read_text())
    words = ["convert", tmp_path / "adapters", "--out", tmp_path / "merged"]
    file.write_text(json.dumps(config | {"base_model_name_or_path": "../gone/base"}))
    assert f"write its path as base_model_name_or_path into `{file}`" in refused(3, *words)
    file.write_text(json.dumps(config | {"base_model_name_or_path": "../base"}))
    assert rlvr(*words).code == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task_type": "SEQ_CLS"}, "for the task SEQ_CLS, not for a causal language model"),
        ({"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4}, "peft cannot merge"),
    ],
)
def test_adapters_of_another_kind_are_refused(values, message, refused, tmp_path):
    write(tmp_path / "adapters", lora())
    file = tmp_path / "adapters/adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    said = refused(3, "convert", tmp_path / "adapters", "--out", tmp_path / "merged")
    assert message in said and not (tmp_path / "merged").exists()
