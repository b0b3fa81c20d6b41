"""DLC: sampling from the policy less a memory model (When Sharpening Becomes Collapse, 3.2)."""

import copy
import dataclasses
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from scipy import stats

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.cli import app
from rlvr_cli.config import RolloutOptions, UpdateOptions
from rlvr_cli.engines.rollout import graph, transformers
from rlvr_cli.engines.rollout._step import draw
from rlvr_cli.models import memory_model, policy
from rlvr_cli.protocols import Request, SamplingParams
from rlvr_cli.stages import batch, rollout_options
from rlvr_cli.storage.shards import Shards

FLAGS = ["--prompts-per-step", "3", "-n", "4", "--max-new-tokens", "8", "--prompts-per-part", "2"]
ENGINES = {
    "transformers": lambda loaded, memory: transformers.TransformersEngine(
        loaded, memory_model=memory
    ),
    "graph": lambda loaded, memory: graph.GraphEngine(loaded, 8, noise=1, memory_model=memory),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Where a memory model for the built-in policy lies, of random weights that differ a lot."""
    path = tmp_path_factory.mktemp("memory") / "small"
    memory_model.make(policy.resolve("builtin"), path, seed=3)
    return path


@pytest.fixture(scope="module")
def memory(small):
    model_loaded = policy.load(policy.resolve(str(small)))
    with torch.no_grad():
        model_loaded.model.get_output_embeddings().weight.mul_(20)
    return model_loaded


def sample(engine, requests, sampling):
    by_index = dict(engine.generate(requests, sampling))
    return [by_index[index] for index in range(len(requests))]


def requests_of(loaded, count=24):
    texts = ["2=", "47=", "113=", "9*9-1"]
    prompts = [loaded.tokenizer(text)["input_ids"] for text in texts]
    return [Request(prompts[seed % len(prompts)], seed) for seed in range(count)]


@pytest.mark.parametrize("temperature, mu, min_prob", [(1, 0.5, 0), (0.7, 1.5, 0.05), (2, 0, 0)])
def test_200_000_draws_are_as_frequent_as_the_exact_softmax_says(temperature, mu, min_prob):
    rng = np.random.default_rng(5)
    policy_V, memory_V = rng.normal(0, 1.5, (2, 12))
    share_V = np.exp(policy_V / temperature - (policy_V / temperature).max())
    weight_V = np.exp((policy_V - mu * memory_V) / temperature) * (share_V >= min_prob)
    exact_V = weight_V / weight_V.sum()
    count = 200_000
    rows = [torch.tensor(value, dtype=torch.float32).expand(count, -1)
            for value in (policy_V, memory_V)]  # fmt: skip
    sampling = SamplingParams(1, temperature, mu=mu, min_prob=min_prob)
    drawn = draw(rows[0], torch.arange(count), sampling, memory_BV=rows[1])
    counts_V = np.bincount(drawn.token_B.numpy(), minlength=12)
    allowed = exact_V > 0
    assert counts_V[~allowed].sum() == 0 and allowed.sum() >= (12 if not min_prob else 3)
    assert stats.chisquare(counts_V[allowed], count * exact_V[allowed]).pvalue > 1e-3
    own_V = policy_V / temperature
    logp_V = own_V - np.log(np.exp(own_V).sum())
    np.testing.assert_allclose(drawn.logp_B, np.log(exact_V[drawn.token_B]), atol=1e-5)
    np.testing.assert_allclose(drawn.policy_logp_B, logp_V[drawn.token_B], atol=1e-5)


@pytest.mark.filterwarnings("error::FutureWarning")
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("min_prob", [0.0, 0.2])
def test_both_log_probs_are_those_of_the_models_own_forward_passes(loaded, memory, name, min_prob):
    sampling = SamplingParams(8, 1.3, mu=0.7, min_prob=min_prob)
    requests = requests_of(loaded)
    completions = sample(ENGINES[name](loaded, memory), requests, sampling)
    for request, completion in zip(requests, completions, strict=True):
        token_ids = torch.tensor([[*request.prompt_token_ids, *completion.token_ids]])
        first = len(request.prompt_token_ids)
        with torch.no_grad():
            own_TV, other_TV = (
                model(token_ids).logits[0, first - 1 : -1].double() / 1.3
                for model in (loaded.model, memory.model)
            )
        policy_TV = own_TV.log_softmax(-1)
        kept_TV = policy_TV.exp() >= min_prob * policy_TV.exp().amax(-1, keepdim=True)
        mixed_TV = (own_TV - 0.7 * other_TV).masked_fill(~kept_TV, -torch.inf).log_softmax(-1)
        target_T1 = token_ids[0, first:, None]
        for logps, exact_TV in (
            (completion.behaviour_logp, mixed_TV),
            (completion.policy_logp, policy_TV),
        ):
            assert logps == pytest.approx(exact_TV.gather(-1, target_T1)[:, 0].tolist(), abs=1e-4)


def test_both_engines_sample_the_same_whatever_the_padding_and_stop_at_the_same_ends(
    loaded, memory
):
    ends = (loaded.eos_ids[0], *loaded.tokenizer("13579")["input_ids"])
    some = dataclasses.replace(loaded, eos_ids=ends)
    sampling, requests = SamplingParams(8, 1.5, mu=0.5), requests_of(loaded)
    one, other = (sample(make(some, memory), requests, sampling) for make in ENGINES.values())
    assert [c.token_ids for c in one] == [c.token_ids for c in other]
    assert {c.finish_reason for c in one} == {"stop", "length"}
    for mine, its in zip(one, other, strict=True):
        assert mine.behaviour_logp == pytest.approx(its.behaviour_logp, abs=1e-4)
        assert mine.policy_logp == pytest.approx(its.policy_logp, abs=1e-4)
        assert len(mine.policy_logp) == len(mine.token_ids)
        assert not any(token in ends for token in mine.token_ids[:-1])
        assert (mine.token_ids[-1] in ends) == (mine.finish_reason == "stop")
    plain = sample(transformers.TransformersEngine(some), requests, SamplingParams(8, 1.5))
    assert [c.token_ids for c in plain] != [c.token_ids for c in one]


def padded(loaded):
    """A model whose output head has rows behind the tokenizer's, which its logits favour."""
    model = copy.deepcopy(loaded.model)
    size = model.get_output_embeddings().weight.shape[0]
    model.resize_token_embeddings(size + 8, mean_resizing=False)
    with torch.no_grad():
        model.get_output_embeddings().weight[size:].copy_(
            3 * model.get_output_embeddings().weight[:8]
        )
    return dataclasses.replace(loaded, model=model)


@pytest.mark.parametrize("name", ENGINES)
def test_a_head_that_is_padded_changes_nothing(loaded, memory, name):
    sampling, requests = SamplingParams(8, 1.5, mu=0.5), requests_of(loaded, 8)
    plain = sample(ENGINES[name](loaded, memory), requests, sampling)
    for models in ((padded(loaded), memory), (loaded, padded(memory))):
        completions = sample(ENGINES[name](*models), requests, sampling)
        assert [c.token_ids for c in completions] == [c.token_ids for c in plain]
        for mine, its in zip(completions, plain, strict=True):
            assert mine.behaviour_logp == pytest.approx(its.behaviour_logp, abs=1e-4)
            assert mine.policy_logp == pytest.approx(its.policy_logp, abs=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mu_of_0_gives_the_bytes_of_plain_sampling(rlvr, chain, small, tmp_path, engine):
    words = ["-n2", "--max-new-tokens=8", "--limit=3", "--engine", engine]
    for name, more in (("plain", []), ("zero", ["--memory-model", small, "--mu", "0"])):
        ran = rlvr("rollout", chain / "prompts", "--out", tmp_path / name, *words, *more)
        assert ran.code == 0, ran.err
    one, other = (sorted((tmp_path / name).iterdir()) for name in ("plain", "zero"))
    assert [path.name for path in one] == [path.name for path in other]
    for mine, its in zip(one, other, strict=True):
        assert mine.read_bytes() == its.read_bytes()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps of grpo+iac+dlc; not to be changed."""
    out = tmp_path_factory.mktemp("dlc") / "run"
    assert train(out, "--steps", "2") == 0
    return out


def train(out, *words, algo="grpo+iac+dlc"):
    words = [*words, "--eval-every", "0", "--keep", "9", "--learning-rate", "3e-4"]
    return app.run(["train", "--algo", algo, "--out", str(out), *FLAGS, *words])


def files_of(folder):
    paths = (p for p in folder.rglob("*") if p.is_file() and p.name != "metrics.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_memory_model_learns_what_was_sampled_and_each_step_samples_with_it(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines[2]["memory_loss"] < lines[1]["memory_loss"]
    first, second = (Shards.open(run / f"steps/00000{n}/rollouts", "rollouts") for n in (1, 2))
    assert first.params["memory_model"] == policy.resolve(str(run / "memory-model")).digest
    trained = Shards.open(run / "steps/000001/memory", "steps")
    assert second.params["memory_model"] == trained.summary["policy"]
    assert max(line["sampler_gap"] for line in lines[1:]) < 1e-4  # of the policy's log-probs
    for rollouts in (first, second):
        table = rollouts.table()
        assert table["policy_logp"].to_pylist() != table["behaviour_logp"].to_pylist()


@pytest.mark.slow
def test_stages_typed_by_hand_make_the_bytes_of_train(rlvr, run, tmp_path):
    hand, model, memory = tmp_path / "hand", "builtin", "auto"
    shutil.copytree(run / "prompts", hand / "prompts")
    shutil.copytree(run / "memory-model", hand / "memory-model")
    for step in (1, 2):
        here = hand / f"steps/00000{step}"
        memory = hand / "memory-model" if step == 1 else hand / f"steps/00000{step - 1}/memory"
        for words in (
            ["rollout", hand / "prompts/train", "--model", model, "--memory-model", memory,
             "--step", step, "--out", here / "rollouts", *FLAGS],
            ["score", here / "rollouts"],
            ["advantage", here / "scores", "--algo", "grpo+iac+dlc"],
            ["train-step", here / "advantages", "--learning-rate", "3e-4",
             "--mini-batch-prompts", "4"],
            ["memory-step", here / "rollouts", "--memory-learning-rate", "1e-3",
             "--memory-epochs", "4"],
        ):  # fmt: skip
            ran = rlvr(*words)
            assert ran.code == 0, ran.err
        model = here / "update"
    by_hand, expected = files_of(hand / "steps"), files_of(run / "steps")
    assert by_hand.keys() == expected.keys()
    assert [name for name in by_hand if by_hand[name] != expected[name]] == []


@pytest.mark.parametrize("lost", ["memory", "memory/_checkpoint/model.safetensors", "rollouts"])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bytes(run, tmp_path, lost):
    """Between the policy's update and the memory's, within the latter, or in the first stage."""
    again = shutil.copytree(run, tmp_path / "run")
    for path in again.glob(f"steps/000002/{lost}"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if lost == "rollouts":
        shutil.rmtree(again / "steps/000002")
    assert train(again, "--steps", "2") == 0
    assert files_of(again) == files_of(run)


def test_the_denominator_is_the_policys_and_the_correction_is_by_what_was_sampled(run):
    here = run / "steps/000001"
    advantages, rollouts = Shards.open(here / "advantages"), Shards.open(here / "rollouts")
    objective = objectives.build("grpo+iac+dlc+is-correction")
    options = UpdateOptions(old_logprobs="rollout")
    table = rollouts.table()
    update_batch = batch.read(advantages, rollouts, None, objective, options)
    assert len(update_batch.rows) == table.num_rows
    for i, row in enumerate(update_batch.rows):
        assert row.old_logp.tolist() == table["policy_logp"][i].as_py()
        assert row.behaviour_logp.tolist() == table["behaviour_logp"][i].as_py()
        assert update_batch.sampler_logp[i].tolist() == table["policy_logp"][i].as_py()


def test_a_memory_that_is_made_is_a_quarter_of_the_policy_and_the_same_each_time(loaded, tmp_path):
    source = policy.resolve("builtin")
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        memory_model.make(source, tmp_path / name, seed)
    one, again, other = (
        policy.resolve(str(tmp_path / n)).digest for n in ("one", "again", "other")
    )
    assert one == again != other
    model_loaded = policy.load(policy.resolve(str(tmp_path / "one")))
    layers = [m.config.num_hidden_layers for m in (model_loaded.model, loaded.model)]
    assert layers == [max(1, layers[1] // 4), layers[1]] and layers[0] < layers[1]
    assert model_loaded.eos_ids == loaded.eos_ids


def test_samples_less_a_memory_are_refused_by_an_objective_of_samples_of_the_policy(
    refused, run, tmp_path
):
    here = shutil.copytree(run / "steps/000001", tmp_path / "step")
    shutil.rmtree(here / "advantages")
    assert app.run(["advantage", str(here / "scores"), "--algo", "grpo"]) == 0
    err = refused(
        2, "train-step", here / "advantages", "--model", "builtin", "--out", here / "more"
    )
    assert "0.5 times a memory" in err and "+dlc" in err


@pytest.mark.parametrize(
    "words, message",
    [
        (["--memory-model", "auto", "--temperature", "0", "-n1"], "temperature above 0"),
        (["--memory-model", "auto", "--top-k", "5"], "top_k 5"),
        (["--dlc-min-prob", "0.1"], "no memory model is subtracted"),
        (["--memory-model", "auto", "--mu", "0", "--dlc-min-prob", "0.1"], "no memory model is"),
    ],
)
def test_what_does_not_go_with_two_models_is_refused(refused, chain, words, message):
    assert message in refused(2, "rollout", chain / "prompts", *words)


def test_vllm_samples_from_one_model(monkeypatch):
    monkeypatch.setattr(registry, "build", lambda *_: None)
    options = RolloutOptions(engine="vllm:eager=true", memory_model="auto")
    with pytest.raises(Exception, match="--engine vllm samples from one model"):
        rollout_options.check(options)


def test_a_memory_model_without_dlc_in_the_algorithm_is_refused(refused, tmp_path):
    words = ["--algo", "grpo", "--memory-model", "builtin", "--out", tmp_path / "run"]
    err = refused(2, "train", *words)
    assert "grpo+dlc" in err


def test_another_tokenizer_is_refused(refused, chain, small, tmp_path):
    other = shutil.copytree(small, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    name = next(iter(vocabulary))
    vocabulary["zz"] = vocabulary.pop(name)
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    words = ["--memory-model", other, "--out", tmp_path / "rollouts"]
    assert "the tokenizer of" in refused(2, "rollout", chain / "prompts", *words)


def test_rollouts_of_the_policy_itself_name_no_memory_model_to_train(refused, chain, tmp_path):
    err = refused(2, "memory-step", chain / "rollouts", "--out", tmp_path / "memory")
    assert "was not sampled with a memory model" in err and "--memory-model" in err


def test_it_adds_nothing_to_the_rows_of_plain_rollouts(chain):
    assert "policy_logp" not in pq.read_table(chain / "rollouts/part-00000.parquet").column_names
