"""Any model that transformers loads, as a directory; GGUF files too."""

import importlib.util
import json
import resource
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr_cli.cli import app
from rlvr_cli.models import policy, tokenizers

needs_gguf = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("gguf", "accelerate")),
    reason="gguf and accelerate are not installed",
)
BUILTIN = policy.resolve("builtin").path
HEADS, KV_HEADS, HIDDEN, FEED, LAYERS = 4, 2, 64, 96, 2


def token_list():
    return ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b"]


def write_gguf(path, seed=0):
    """A tiny llama with random weights, as llama.cpp lays one out; its tensors by their names."""
    import gguf

    tokens = token_list()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    kinds = gguf.TokenType
    writer.add_token_types(
        [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256 + [kinds.NORMAL] * 3
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    rng = np.random.default_rng(seed)
    kv = HIDDEN * KV_HEADS // HEADS
    shapes = {"token_embd.weight": (len(tokens), HIDDEN), "output_norm.weight": (HIDDEN,),
              "output.weight": (len(tokens), HIDDEN)}  # fmt: skip
    for layer in range(LAYERS):
        for name, shape in {
            "attn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (kv, HIDDEN),
            "attn_v": (kv, HIDDEN), "attn_output": (HIDDEN, HIDDEN), "ffn_norm": (HIDDEN,),
            "ffn_gate": (FEED, HIDDEN), "ffn_up": (FEED, HIDDEN), "ffn_down": (HIDDEN, FEED),
        }.items():  # fmt: skip
            shapes[f"blk.{layer}.{name}.weight"] = shape
    tensors = {n: rng.normal(0, 0.1, shape).astype(np.float32) for n, shape in shapes.items()}
    for name, value in tensors.items():
        writer.add_tensor(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


@pytest.mark.slow
@needs_gguf
def test_a_gguf_file_becomes_a_policy_with_its_weights(rlvr, tmp_path):
    tensors = write_gguf(tmp_path / "tiny.gguf")
    ran = rlvr(
        "convert",
        tmp_path / "tiny.gguf",
        "--out",
        tmp_path / "made",
        "--dtype",
        "float32",
        "--json",
    )
    assert ran.code == 0, ran.err
    model_loaded = policy.load(policy.resolve(str(tmp_path / "made")))
    assert model_loaded.eos_ids == (2,) and json.loads(ran.out)["eos"] == 2
    model = model_loaded.model.model
    for name, weight in (
        ("token_embd.weight", model.embed_tokens.weight),
        ("blk.1.ffn_down.weight", model.layers[1].mlp.down_proj.weight),
        ("blk.0.attn_v.weight", model.layers[0].self_attn.v_proj.weight),
        ("output.weight", model_loaded.model.lm_head.weight),
    ):
        assert np.array_equal(weight.detach().numpy(), tensors[name]), name
    config = json.loads((tmp_path / "made" / "config.json").read_text())
    assert "quantization_config" not in config


@needs_gguf
def test_a_broken_gguf_file_is_one_line(refused, tmp_path):
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00")
    err = refused(3, "convert", tmp_path / "cut.gguf", "--out", tmp_path / "made")
    assert "transformers cannot load" in err and not (tmp_path / "made").exists()


def test_a_directory_keeps_its_logits_and_all_ids_that_end_a_completion(rlvr, loaded, tmp_path):
    source = shutil.copytree(BUILTIN, tmp_path / "source")
    ends = {"eos_token_id": [5, 1], "pad_token_id": 0}
    (source / "generation_config.json").write_text(json.dumps(ends))
    words = ["convert", source, "--out", tmp_path / "made", "--dtype", "bfloat16"]
    ran = rlvr(*words)
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n"), ran.err
    model_loaded = policy.load(policy.resolve(str(tmp_path / "made")))
    assert model_loaded.eos_ids == (5, 1)
    stored = load_file(tmp_path / "made" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.bfloat16}
    with torch.no_grad():
        token_ids = torch.tensor([[20, 30, 8]])
        assert torch.equal(model_loaded.model(token_ids).logits, loaded.model(token_ids).logits)
    assert (
        model_loaded.model.lm_head.weight.data_ptr()
        == model_loaded.model.model.embed_tokens.weight.data_ptr()
    )


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [("config.json", 2, "is a file"), (".", 3, "transformers cannot load")],
)
def test_what_is_no_model_is_refused(refused, tmp_path, name, code, message):
    (tmp_path / "config.json").write_text("{}")
    assert message in refused(code, "convert", tmp_path / name, "--out", tmp_path / "made")


def test_what_is_there_is_not_written_over(refused, tmp_path):
    assert "exists" in refused(2, "convert", BUILTIN, "--out", tmp_path)


def logits(path):
    model = policy.load(policy.resolve(str(path))).model
    with torch.no_grad():
        return model(torch.tensor([[20, 30, 8, 41, 7]])).logits


def train(*words):
    small = ["--prompts-per-step=3", "-n4", "--max-new-tokens=8", "--eval-every=0", "--steps=1"]
    small += ["--learning-rate=1e-2"]
    assert app.run(["train", "--algo=grpo", *small, *map(str, words)]) == 0


@pytest.mark.slow
def test_adapters_are_merged_into_their_base(rlvr, tmp_path):
    base = shutil.copytree(BUILTIN, tmp_path / "base")
    (base / "chat_template.jinja").write_text("{{ messages[0].content }}")
    ends = {"eos_token_id": [5, 1], "pad_token_id": 0, "do_sample": True, "temperature": 0.6}
    (base / "generation_config.json").write_text(json.dumps(ends))
    words = ["--prompts", tmp_path / "prompts", "--model", base, "--lora-rank", 4]
    assert app.run(["prompts", "task:expression", "--out", str(tmp_path / "prompts")]) == 0
    train(*words, "--out", tmp_path / "run")
    update = tmp_path / "run" / "steps" / "000001" / "update"
    words = ["--out", tmp_path / "made", "--dtype", "float32", "--json"]
    ran = rlvr("convert", update, *words)
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert (summary["merged"], summary["chat_template"]) == (True, True)
    assert summary["source"] == str(update / "_checkpoint") and summary["eos"] == [5, 1]
    torch.testing.assert_close(logits(tmp_path / "made"), logits(update), rtol=0, atol=1e-5)
    assert float((logits(update) - logits(base)).abs().max()) > 1e-2
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    assert (model.generation_config.temperature, model.generation_config.do_sample) == (0.6, True)
    assert AutoTokenizer.from_pretrained(tmp_path / "made").chat_template
    names = {"chat_template.jinja", "config.json", "generation_config.json", "model.safetensors"}
    names |= {"tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in (tmp_path / "made").iterdir()} == names


@pytest.mark.slow
def test_a_checkpoint_becomes_weights_alone(rlvr, tmp_path):
    train("--out", tmp_path / "run")
    update = tmp_path / "run" / "steps" / "000001" / "update"
    whole = AutoModelForCausalLM.from_pretrained(update / "_checkpoint", dtype="auto").state_dict()
    assert {value.dtype for value in whole.values()} == {torch.float32}
    for name in (update, update / "_checkpoint", tmp_path / "run"):
        ran = rlvr("convert", name, "--out", tmp_path / "made")
        assert ran.code == 0, ran.err
        assert f"456,704 parameters of `{update / '_checkpoint'}`, in bfloat16" in ran.err
        made = AutoModelForCausalLM.from_pretrained(tmp_path / "made", dtype="auto").state_dict()
        assert made.keys() == whole.keys()
        assert all(value.equal(whole[key].bfloat16()) for key, value in made.items())
        shutil.rmtree(tmp_path / "made")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 4])
def test_a_policy_that_reads_images_is_converted_with_its_processor(rlvr, tmp_path, rank):
    words = ["--prompts", "task:shapes", "--lora-rank", rank, "--out", tmp_path / "run"]
    train(*words)
    update = tmp_path / "run" / "steps" / "000001" / "update"
    ran = rlvr("convert", tmp_path / "run", "--out", tmp_path / "made", "--dtype", "float32")
    assert ran.code == 0, ran.err
    torch.testing.assert_close(logits(tmp_path / "made"), logits(update), rtol=0, atol=1e-5)
    made = policy.resolve(str(tmp_path / "made"))
    assert tokenizers.load_processor(made).image_token
    names = {path.name for path in made.path.iterdir()}
    assert {"preprocessor_config.json", "chat_template.jinja", "tokenizer.json"} <= names


def test_a_model_in_several_files_is_converted(rlvr, loaded, tmp_path):
    loaded.model.save_pretrained(tmp_path / "sharded", max_shard_size="400KB")
    loaded.tokenizer.save_pretrained(tmp_path / "sharded")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 2
    words = ["--out", tmp_path / "made", "--dtype", "float32"]
    ran = rlvr("convert", tmp_path / "sharded", *words)
    assert ran.code == 0, ran.err
    assert torch.equal(logits(tmp_path / "made"), logits(BUILTIN))


def test_a_model_that_lacks_a_weight_is_refused_and_not_filled_at_random(refused, tmp_path):
    source = shutil.copytree(BUILTIN, tmp_path / "source")
    weights = load_file(source / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, source / "model.safetensors", {"format": "pt"})
    err = refused(3, "convert", source, "--out", tmp_path / "made")
    assert "lacks 1 of the model's weights" in err and not (tmp_path / "made").exists()


def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(refused, tmp_path):
    """A limit on the size of files stands for it."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, limits[1]))
    try:
        err = refused(1, "convert", "builtin", "--out", tmp_path / "made")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"cannot write `{tmp_path / 'made'}`: File too large" in err
    assert not list(tmp_path.iterdir())


def test_a_step_is_found_by_its_number_without_zeros(rlvr, trained, tmp_path):
    last = max(int(path.name) for path in (trained / "steps").iterdir())
    for name in (f"steps/{last}", f"steps/{last}/update"):
        out = tmp_path / name.replace("/", "-")
        assert rlvr("convert", trained / name, "--out", out).code == 0
        assert (out / "model.safetensors").exists()
