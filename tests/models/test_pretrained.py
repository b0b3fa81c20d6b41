"""Models whose files name code: of their own, of the hub, of a pickle. None of it runs."""

import ast
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

import rlvr_cli
from rlvr_cli.models import policy

ROOT = Path(rlvr_cli.__file__).parent
AUTO_MAP = {
    "AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", "evil.T"],
}  # fmt: skip
TINY = ["-n2", "--max-new-tokens=4"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A directory of the built-in policy with code beside it, which leaves a file where it runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 100))
    path = shutil.copytree(policy.resolve("builtin").path, tmp_path / "model")
    (path / "evil.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
        "from transformers import LlamaConfig as C, LlamaForCausalLM as M\n"
        "from transformers import PreTrainedTokenizerFast as T\n"
    )
    (path / "custom_generate").mkdir()
    shutil.copy(path / "evil.py", path / "custom_generate" / "generate.py")
    return path


def configure(model, name="config.json", **values):
    path = model / name
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def ways(model):
    return (
        ["rollout", "copy/prompts", *TINY, "--model", model, "--out", "r"],
        ["train", "--prompts", "copy/prompts", "--model", model, *TINY, "--eval-every=0",
         "--prompts-per-step=2", "--out", "t"],
        ["doctor", "--model", model],
        ["logprob", "copy/rollouts", "--ref-model", model, "--out", "l"],
        ["convert", model, "--out", "c"],
    )  # fmt: skip


def test_python_beside_a_model_is_not_run_whatever_stdin_says(model, copy, refused):
    configure(model, auto_map=AUTO_MAP, model_type="evil", architectures=["EvilForCausalLM"])
    for words in ways(model):
        said = refused(3, *words)
        assert "which only Python of its own could load (`auto_map` of its config.json)" in said
    assert not Path("ran").exists()


def test_a_model_that_transformers_knows_is_loaded_without_the_python_beside_it(model, copy, rlvr):
    configure(model, auto_map=AUTO_MAP)
    configure(
        model, "tokenizer_config.json", tokenizer_class="Own",
        auto_map={"AutoTokenizer": ["evil.T", "evil.T"]},
    )  # fmt: skip
    for words in ways(model):
        if "train" not in words:
            assert rlvr(*words).code == 0, words
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "values",
    [
        {"architectures": ["Qwen2ForSequenceClassification"]},
        {"architectures": ["Qwen2ForRewardModel"]},
        {"architectures": ["BertForMaskedLM"]},
        {"architectures": ["T5Model"], "is_encoder_decoder": True},
    ],
)
def test_a_model_of_another_kind_is_not_sampled_from_as_a_language_model(
    model, copy, refused, values
):
    configure(model, **values)
    for words in ways(model):
        said = refused(3, *words)
        named = values["architectures"][0]
        assert f"is not a causal language model: its config.json says `{named}`" in said


def test_a_decoder_that_names_no_head_is_loaded_where_its_embeddings_are_the_head(
    model, copy, rlvr
):
    configure(model, architectures=["Qwen2Model"])
    assert rlvr("rollout", "copy/prompts", *TINY, "--model", model, "--out", "r").code == 0


@pytest.mark.parametrize(
    "values",
    [
        {"attn_implementation": "owner/kernel"},
        {"attn_implementation": {"": "owner/kernel@main"}},
        {"text_config": {"attn_implementation": "owner/kernel:name"}},
        {"_attn_implementation_internal": "owner/kernel"},
        {"experts_implementation": "owner/kernel"},
    ],
)
def test_a_kernel_of_the_hub_that_a_model_names_is_refused(model, copy, refused, values):
    configure(model, **values)
    for words in ways(model):
        said = refused(3, *words)
        assert "names code of the hub" in said and "owner/kernel" in said


class _Evil:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_weights_that_are_a_pickle_of_more_than_tensors_are_refused(model, copy, refused):
    (model / "model.safetensors").unlink()
    torch.save({"weight": _Evil()}, model / "pytorch_model.bin")
    for words in ways(model):
        if "doctor" not in words:
            assert "cannot load `" in refused(3, *words)
    assert not Path("ran").exists()


def test_what_transformers_loads_by_name_is_loaded_in_few_places_and_runs_no_code_of_a_model():
    """So that none of it forgets to say that code of the model's own may not run."""
    found = {
        (path.relative_to(ROOT).as_posix(), ast.unparse(call.func.value), call)
        for path in ROOT.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("from_pretrained", "from_config")
        and isinstance(call.func.value, ast.Name | ast.Call)
    }
    names = {name for _, name, _ in found}
    assert names == {"AutoConfig", "AutoTokenizer", "_auto(reads_images)", "AutoImageProcessor",
                     "AutoVideoProcessor", "config_class"}  # fmt: skip
    files = {file for file, name, _ in found if name.startswith(("Auto", "_auto("))}
    assert files == {
        "models/pretrained.py", "models/processors.py", "engines/rollout/_vllm_images.py"
    }  # fmt: skip
    for _, name, call in found:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if name != "config_class":
            assert ast.unparse(given["trust_remote_code"]) == "False"
