"""The stage on rows without tokens, on broken policies, and its files in other readers."""

import dataclasses

import numpy as np
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import policy
from rlvr_cli.stages import common, logprob
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards, seal

EMPTY = {"completion": "", "finish_reason": "length"}


@pytest.fixture(scope="module")
def builtin():
    return policy.resolve("builtin")


@pytest.fixture
def rollouts(chain):
    return Shards.open(chain / "rollouts", "rollouts")


def make(rollouts, out, builtin, **options):
    """Every column of the built-in policy as policy and reference, with 4 likeliest tokens."""
    options = {"columns": logprob.COLUMNS, "ref_top_k": 4, "micro_batch_tokens": 1000} | options
    return logprob.run(rollouts, out, policy=builtin, reference=builtin, **options)


@pytest.fixture
def sparse(rlvr, jsonl, tmp_path):
    """Rollouts of two prompts, one with an empty completion, one with nothing else."""
    rows = [
        {"id": "a", "prompt": "5=", "completion": "2+3"},
        {"id": "a", "prompt": "5=", **EMPTY},
        {"id": "b", "prompt": "6=", **EMPTY},
        {"id": "b", "prompt": "6=", "completion": "1+2+3"},
    ]
    assert rlvr("import", jsonl(*rows), "--out", tmp_path, "--model", "builtin").code == 0
    return Shards.open(tmp_path / "rollouts", "rollouts")


def test_rows_without_tokens_have_empty_lists(sparse, builtin, tmp_path):
    table = make(sparse, tmp_path / "made", builtin).table()
    lengths = pc.list_value_length(sparse.table()["token_ids"]).to_pylist()
    assert lengths[1] == lengths[2] == 0
    for name in logprob.COLUMNS:
        assert pc.list_value_length(table[name]).to_pylist() == lengths
        assert table[name].null_count == 0


def test_a_directory_without_a_single_token_can_be_made_and_read(rlvr, jsonl, tmp_path, builtin):
    rows = [{"id": "a", "prompt": "5=", **EMPTY}] * 2
    assert rlvr("import", jsonl(*rows), "--out", tmp_path, "--model", "builtin").code == 0
    logprobs = make(Shards.open(tmp_path / "rollouts"), tmp_path / "made", builtin)
    assert logprobs.table().to_pylist()[1] == {
        "prompt_id": "a", "sample_index": 1, **{name: [] for name in logprob.COLUMNS},
    }  # fmt: skip
    assert logprobs.summary["tokens"] == 0


@pytest.mark.parametrize("tokens", [1, 40, 100])
def test_the_cut_into_micro_batches_changes_nothing(rollouts, builtin, tmp_path, tokens):
    whole = make(rollouts, tmp_path / "whole", builtin).table()
    cut = make(rollouts, tmp_path / "cut", builtin, micro_batch_tokens=tokens).table()
    for name in logprob.COLUMNS:
        one, other = common.flat(whole[name]), common.flat(cut[name])
        if name == "ref_topk_ids":
            assert np.array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_likeliest_tokens_agree_with_the_other_columns(rollouts, builtin, tmp_path):
    logprobs = make(rollouts, tmp_path / "made", builtin, ref_top_k=20)
    table = logprobs.table()
    ids, logp = (common.flat(table[name]) for name in logprob.TOP_K)
    assert ids.shape == logp.shape == (logprobs.summary["tokens"], 20)
    assert (np.diff(logp) <= 0).all()
    np.testing.assert_allclose(np.exp(logp[:, 0]), common.flat(table["max_prob"]), rtol=1e-6)
    sampled = common.flat(rollouts.table()["token_ids"])
    row, place = np.nonzero(ids == sampled[:, None])
    assert len(row) > len(sampled) / 2
    assert np.array_equal(logp[row, place], common.flat(table["ref_logp"])[row])


def test_the_collision_is_that_of_all_tokens(rollouts, builtin, tmp_path):
    """With as many likeliest tokens as the vocabulary has."""
    logprobs = make(rollouts, tmp_path / "made", builtin, ref_top_k=64)
    table = logprobs.table()
    logp = common.flat(table["ref_topk_logp"])
    expected = np.exp(logp.astype(np.float64)) ** 2
    made = common.flat(table["collision"])
    assert np.abs(np.exp(logp).sum(1) - 1).max() < 0.05
    np.testing.assert_allclose(made, expected.sum(1), rtol=1e-3)
    assert (made <= common.flat(table["max_prob"]) + 1e-6).all()


def test_the_summary_has_no_mean_of_ids(rollouts, builtin, tmp_path):
    logprobs = make(rollouts, tmp_path / "made", builtin)
    assert not {"ref_topk_ids", "ref_topk_logp"} & logprobs.summary.keys()
    columns = logprob.TOP_K
    only = make(rollouts, tmp_path / "only", builtin, columns=columns).summary
    assert only == {"tokens": logprobs.summary["tokens"]}


def test_other_readers_take_the_files(rollouts, builtin, tmp_path):
    import datasets

    table = make(rollouts, tmp_path / "made", builtin).table()
    files = [str(path) for path in sorted((tmp_path / "made").glob("*.parquet"))]
    scanned = ds.dataset(files, format="parquet").to_table()
    assert scanned["ref_topk_logp"].to_pylist() == table["ref_topk_logp"].to_pylist()
    loaded = datasets.Dataset.from_parquet(files, cache_dir=str(tmp_path / "cache"))
    assert loaded[3]["ref_topk_ids"] == table["ref_topk_ids"][3].as_py()


def test_a_file_is_typed_by_its_k(rollouts, builtin, tmp_path):
    make(rollouts, tmp_path / "made", builtin)
    kind = pq.read_schema(tmp_path / "made" / "part-00000.parquet").field("ref_topk_ids").type
    assert str(kind) == ("list<element: fixed_size_list<element: int32 not null>[4] not null>")


def test_another_k_than_the_manifests_is_refused_on_read(rollouts, builtin, tmp_path):
    logprobs = make(rollouts, tmp_path / "made", builtin)
    assert logprobs.params["ref_top_k"] == 4
    path = tmp_path / "made" / "_manifest.json"
    path.write_bytes(seal(logprobs.manifest | {"params": logprobs.params | {"ref_top_k": 5}}))
    with pytest.raises(DataError, match="has other columns than its kind"):
        Shards.open(tmp_path / "made").part(0)


def test_k_decides_whether_a_directory_may_be_gone_on_with(rollouts, builtin, tmp_path):
    make(rollouts, tmp_path / "made", builtin)
    with pytest.raises(UsageError, match="ref_top_k was 4, is 3"):
        make(rollouts, tmp_path / "made", builtin, ref_top_k=3)


def test_the_schema_of_a_plan_has_its_k():
    for k in (1, 7):
        plan = Plan("logprobs", "logprob", {"ref_top_k": k}, {}, 1, only=("ref_topk_logp",))
        assert plan.schema.field("ref_topk_logp").type.value_type.list_size == k
    plan = Plan("logprobs", "logprob", {"ref_top_k": None}, {}, 1, only=("ref_logp",))
    assert plan.schema.names == ["prompt_id", "sample_index", "ref_logp"]


class Broken(torch.nn.Module):
    """An output head that spoils one token's logit."""

    def __init__(self, head, token, value):
        super().__init__()
        self.weight = head.weight
        self.bias = torch.zeros(head.weight.shape[0])
        self.bias[token] = value


def spoiled(loaded, monkeypatch, token, value):
    head = Broken(loaded.model.get_output_embeddings(), token, value)
    monkeypatch.setattr(loaded.model, "get_output_embeddings", lambda: head)
    return loaded


@pytest.mark.parametrize("columns", [("old_logp",), ("ref_logp",), ("entropy",), logprob.TOP_K])
def test_what_is_no_number_is_refused_by_its_row_and_nothing_is_made(
    rollouts, builtin, tmp_path, monkeypatch, columns
):
    loaded = spoiled(policy.load(builtin), monkeypatch, 0, torch.nan)
    with pytest.raises(DataError) as caught:
        make(
            rollouts, tmp_path / "made", builtin, columns=columns, load=lambda _: loaded,
            ref_top_k=4 if columns == logprob.TOP_K else 0,
        )  # fmt: skip
    name, noun = columns[-1], "an entropy" if columns == ("entropy",) else "a log-prob"
    first = rollouts.table()["prompt_id"][0]
    assert str(caught.value) == (
        f"`{name}` of `{rollouts.path}` under `builtin` holds {noun} of nan for sample 0 of "
        f"prompt `{first}`"
    )
    assert caught.value.hint
    assert not (tmp_path / "made" / "_manifest.json").exists()


def test_a_sampled_token_that_the_policy_cannot_give_is_refused(
    rollouts, builtin, tmp_path, monkeypatch
):
    table = rollouts.table()
    row = next(i for i, ids in enumerate(table["token_ids"].to_pylist()) if 7 in ids)
    loaded = spoiled(policy.load(builtin), monkeypatch, 7, -torch.inf)
    name, sample = (table[key][row].as_py() for key in common.KEY)
    message = f"holds a log-prob of -inf for sample {sample} of prompt `{name}`"
    with pytest.raises(DataError, match=message):
        make(
            rollouts, tmp_path / "made", builtin, columns=("ref_logp",), ref_top_k=0,
            load=lambda _: loaded,
        )  # fmt: skip


def test_likeliest_tokens_may_be_impossible_ones(rollouts, builtin, tmp_path, monkeypatch):
    loaded = spoiled(policy.load(builtin), monkeypatch, 50, -torch.inf)
    size = loaded.model.config.vocab_size
    table = make(
        rollouts, tmp_path / "made", builtin, columns=logprob.TOP_K, ref_top_k=size,
        load=lambda _: loaded,
    ).table()  # fmt: skip
    ids, logp = (common.flat(table[name]) for name in logprob.TOP_K)
    assert (ids[:, -1] == 50).all() and np.isneginf(logp[:, -1]).all()
    assert np.isfinite(logp[:, :-1]).all()


def test_a_policy_is_loaded_only_for_the_columns_it_gives(rollouts, builtin, tmp_path):
    loads = []

    def load(source):
        loads.append(source)
        return policy.load(source)

    other = dataclasses.replace(builtin, name="other")
    options = {"micro_batch_tokens": 1000, "load": load, "policy": builtin, "reference": other}
    for columns, k in ((("entropy",), 0), (("ref_logp",), 0), (logprob.TOP_K, 2)):
        out = tmp_path / columns[0]
        logprob.run(rollouts, out, columns=columns, ref_top_k=k, **options)
    assert loads == [builtin, other, other]


def test_more_tokens_than_the_vocabulary_has_are_refused_before_anything_is_made(
    rollouts, builtin, tmp_path, loaded
):
    size = loaded.model.get_output_embeddings().weight.shape[0]
    with pytest.raises(UsageError, match=f"is {size + 1}, the vocabulary of `builtin` has {size}"):
        make(rollouts, tmp_path / "made", builtin, ref_top_k=size + 1)
    assert not (tmp_path / "made").exists()
    logprobs = make(rollouts, tmp_path / "made", builtin, columns=logprob.TOP_K, ref_top_k=size)
    logp = common.flat(logprobs.table()["ref_topk_logp"])
    np.testing.assert_allclose(np.exp(logp.astype(np.float64)).sum(-1), 1, rtol=0, atol=1e-5)


def test_the_columns_that_an_objective_needs_of_the_reference():
    assert logprob.reference_columns({"entropy", "correct", "behaviour_logp"}) == ()
    assert logprob.reference_columns({"ref_logp"}) == ("ref_logp",)
    assert logprob.reference_columns({"ref_topk", "entropy"}) == logprob.TOP_K
    assert logprob.reference_columns({"ref_topk", "ref_logp"}) == logprob.REFERENCE_COLUMNS
