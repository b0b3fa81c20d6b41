"""Adapters on the built-in policy: what they train, what their checkpoint holds."""

import json
import shutil
from dataclasses import replace

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.engines.training.local import LocalEngine
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import checkpoints, logprobs, lora, policy, tokenizers
from rlvr_cli.protocols import Row

LORA = UpdateOptions(lora_rank=4)
TOTALS = Totals(tokens=7, sequences=2, max_length=8)
ROWS = [Row([20, 30, 40], [9, 8, 7, 6, 1], 1.5), Row([3], [4, 1], -1.5)]


def start(name="builtin", options=LORA, seed=0):
    return LocalEngine(policy.load(policy.resolve(str(name))), options, seed=seed)


def train(engine, steps):
    """Updates on rows whose old log-probs are those of the first one; what each of them counts."""
    algo = objective.build("grpo")
    logps = engine.logp(ROWS, 1.0)
    rows = [replace(row, old_logp=logp) for row, logp in zip(ROWS, logps, strict=True)]
    results = []
    for _ in range(steps):
        results.append(engine.accumulate(rows, algo, TOTALS, 1.0) | {"norm": engine.update(1e-3)})
    return results


def weights(engine):
    return {name: value.detach().clone() for name, value in engine.loaded.model.named_parameters()}


def logps(model):
    with torch.no_grad():
        return logprobs.completion_stats(model, ROWS, temperature=1.0).logp_BT


def bytes_of(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of two updates on a base of its own beside it; not to be changed."""
    root = tmp_path_factory.mktemp("lora")
    shutil.copytree(policy.resolve("builtin").path, root / "base")
    engine = start(root / "base")
    train(engine, 2)
    engine.save(root / "made")
    return root


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


def test_new_adapters_change_nothing_and_the_first_ratio_is_exactly_one(loaded):
    engine = start()
    assert torch.equal(logps(engine.loaded.model), logps(loaded.model))
    first, second = train(engine, 2)
    assert (first["ratio_min"], first["ratio_max"], first["kl"]) == (1, 1, 0)
    assert second["ratio_min"] < 1 < second["ratio_max"]


def test_only_the_adapters_change():
    engine = start()
    before = weights(engine)
    train(engine, 2)
    changed = {name for name, after in weights(engine).items() if not after.equal(before[name])}
    assert changed == {name for name in before if "lora_" in name}
    assert engine.updates == 2


def test_new_adapters_depend_on_the_seed_alone():
    torch.manual_seed(1)
    one = weights(start())
    torch.manual_seed(2)
    state = torch.get_rng_state()
    same, other = weights(start()), weights(start(seed=1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one[name].equal(same[name]) for name in one)
    assert any(not one[name].equal(other[name]) for name in one)


@pytest.mark.slow
def test_two_updates_and_two_more_are_four(saved, tmp_path):
    complete, resumed = start(saved / "base"), start(saved / "made")
    train(complete, 2)
    assert resumed.updates == complete.updates == 2
    assert train(complete, 2) == train(resumed, 2)
    for name, engine in (("whole", complete), ("resumed", resumed)):
        engine.save(tmp_path / name)
    expected, result = bytes_of(tmp_path / "whole"), bytes_of(tmp_path / "resumed")
    assert result == expected
    names = {"adapter_config.json", "adapter_model.safetensors", "base.json"}
    names |= {"generation_config.json", "tokenizer.json", "tokenizer_config.json"}
    assert set(result) == names | {checkpoints.OPTIMIZER}


def test_the_checkpoint_loads_in_peft_and_its_merged_model_gives_the_same_log_probs(saved):
    base = policy.load(policy.resolve(str(saved / "base"))).model
    before = logps(base)
    merged = peft.PeftModel.from_pretrained(base, saved / "made").merge_and_unload()
    result = logps(policy.load(policy.resolve(str(saved / "made"))).model)
    torch.testing.assert_close(result, logps(merged), rtol=0, atol=1e-5)
    assert float((result - before).abs().max()) > 1e-3


def test_the_checkpoint_keeps_the_bases_tokenizer_context_and_ends(saved):
    base, result = (policy.resolve(str(saved / name)) for name in ("base", "made"))
    tokenizer, expected = tokenizers.load(result), tokenizers.load(base)
    assert tokenizer("47=6*8-1")["input_ids"] == expected("47=6*8-1")["input_ids"]
    assert policy.context_length(result) == policy.context_length(base)
    assert tokenizers.end_ids(result, tokenizer) == tokenizers.end_ids(base, expected)


def test_the_digest_is_of_adapters_and_base_and_not_of_where_the_base_lies(copy):
    before = policy.resolve(str(copy / "made")).digest
    base = json.loads((copy / "made" / "base.json").read_text())
    assert base["policy"] == "../base"
    shutil.move(copy / "base", copy / "moved")
    (copy / "made" / "base.json").write_text(json.dumps(base | {"policy": "../moved"}))
    assert policy.resolve(str(copy / "made")).digest == before
    assert policy.load(policy.resolve(str(copy / "made"))).policy.base.path == copy / "moved"
    (copy / "made" / "base.json").write_text(json.dumps(base | {"digest": "0" * 64}))
    assert policy.resolve(str(copy / "made")).digest != before
    shutil.copy(copy / "moved" / "tokenizer.json", copy / "made" / "adapter_config.json")
    assert policy.resolve(str(copy / "made")).digest != before


def test_a_base_that_is_gone_is_refused_with_where_to_say_its_place(copy):
    shutil.rmtree(copy / "base")
    result = policy.resolve(str(copy / "made"))
    with pytest.raises(
        DataError, match=r"holds adapters of `\.\./base`, and there is no"
    ) as caught:
        policy.load(result)
    assert "base.json" in caught.value.hint


def test_a_base_that_changed_is_refused(copy):
    with open(copy / "base" / "generation_config.json", "a") as file:
        file.write(" ")
    with pytest.raises(DataError, match="whose content has changed"):
        policy.load(policy.resolve(str(copy / "made")))


def test_a_builtin_base_is_recorded_by_its_name_whatever_lies_around(tmp_path, monkeypatch):
    (tmp_path / "builtin").mkdir()
    monkeypatch.chdir(tmp_path)
    start().save(tmp_path / "made")
    assert json.loads((tmp_path / "made" / "base.json").read_text())["policy"] == "builtin"
    assert policy.resolve("made").base.name == "builtin"


@pytest.mark.parametrize("damage", ["cut", "less", "more"])
def test_broken_adapters_are_refused(copy, damage):
    path = copy / "made" / "adapter_model.safetensors"
    stored = load_file(path)
    name = next(iter(stored))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    elif damage == "less":
        save_file({key: value for key, value in stored.items() if key != name}, path)
    else:
        save_file(stored | {"other": stored[name].clone()}, path)
    with pytest.raises(DataError, match="cannot load the adapters in"):
        policy.load(policy.resolve(str(copy / "made")))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, "the options are --lora-rank 0"),
        ({"lora_rank": 8}, "the options are --lora-rank 8 --lora-alpha 16"),
        ({"lora_rank": 4, "lora_alpha": 4}, "the options are --lora-rank 4 --lora-alpha 4"),
        ({"lora_rank": 4, "lora_targets": "q_proj"}, "--lora-targets q_proj"),
    ],
)
def test_going_on_with_other_adapters_is_refused_with_the_flags_of_those_held(saved, given, found):
    with pytest.raises(UsageError, match=found) as caught:
        lora.check(saved / "made", UpdateOptions(**given))
    assert "`--lora-rank 4 --lora-alpha 8 --lora-targets all-linear`" in caught.value.hint


@pytest.mark.parametrize("given", [{}, {"lora_alpha": 8.0}])
def test_going_on_with_the_same_adapters_is_accepted(saved, given):
    lora.check(saved / "made", replace(LORA, **given))


@pytest.mark.parametrize("given", [{"lora_alpha": 8.0}, {"lora_targets": "q_proj"}])
def test_the_knobs_of_adapters_without_a_rank_are_refused(saved, given):
    with pytest.raises(UsageError, match="--lora-rank is 0"):
        lora.check(saved / "base", UpdateOptions(**given))


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        ("q_projj", "no module `q_projj`"),
        ("q_proj,,v_proj", "no module ``"),
        ("lm_head", "`lm_head` is the output head or the embedding"),
        ("q_proj,embed_tokens", "`embed_tokens` is the output head or the embedding"),
        ("act_fn", "not supported"),
    ],
)
def test_targets_that_cannot_be_adapted_are_refused(targets, found):
    with pytest.raises(UsageError, match=found):
        start(options=replace(LORA, lora_targets=targets))


def test_named_targets_alone_are_adapted(tmp_path):
    engine = start(options=replace(LORA, lora_targets="q_proj, 0.mlp.up_proj"))
    adapted = {name.split(".lora_")[0] for name in weights(engine) if "lora_" in name}
    assert adapted == {"model.layers.0.mlp.up_proj"} | {
        f"model.layers.{layer}.self_attn.q_proj" for layer in range(3)
    }
    engine.save(tmp_path / "made")
    result = policy.load(policy.resolve(str(tmp_path / "made"))).model
    assert {name for name, _ in result.named_parameters()} == set(weights(engine))


def test_new_adapters_on_a_policy_with_a_history_start_their_own(tmp_path):
    engine = start(options=UpdateOptions())
    train(engine, 1)
    engine.save(tmp_path / "whole")
    assert start(tmp_path / "whole", UpdateOptions()).updates == 1
    assert start(tmp_path / "whole").updates == 0
