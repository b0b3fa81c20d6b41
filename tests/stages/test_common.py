"""Log-probs that do not fit their tokens or are no numbers are refused by the row's name."""

import math
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.stages import common
from rlvr_cli.storage import schema

NAMES = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
TOKENS = [[5, 6, 7], [], [8], [9, 9]]
GOOD = [[-0.5, -1.0, -2.0], [], [0.0], [-3.0, -4.0]]


def table(values, *, name="old_logp", tokens=TOKENS, chunks=1):
    """A table of four completions, the second without tokens, in so many chunks."""
    kinds = schema.schema("logprobs", only=(name,), top_k=2)
    columns = {
        "prompt_id": pa.array([prompt_id for prompt_id, _ in NAMES]),
        "sample_index": pa.array([sample for _, sample in NAMES], pa.int32()),
        "token_ids": pa.array(tokens, pa.list_(pa.int32())),
        name: pa.array(values, kinds.field(name).type),
    }
    columns_table = pa.table(columns)
    step = -(-4 // chunks)
    return pa.concat_tables([columns_table.slice(at, step) for at in range(0, 4, step)])


def refusal(columns_table, name="old_logp"):
    with pytest.raises(DataError) as caught:
        common.require_logps(columns_table, name, "`dir`", "make it again")
    assert caught.value.hint == "make it again"
    return str(caught.value)


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_finite_log_probs_of_the_right_number_pass(chunks):
    common.require_logps(table(GOOD, chunks=chunks), "old_logp", "`dir`", "")
    common.require_logps(table([None] * 4, chunks=chunks), "old_logp", "`dir`", "")
    common.require_logps(table(GOOD, chunks=chunks).slice(0, 0), "old_logp", "`dir`", "")


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("row", [0, 2, 3])
def test_a_log_prob_that_is_not_finite_is_refused_by_its_row(row, value, chunks):
    values = [list(value_T) for value_T in GOOD]
    values[row][-1] = value
    prompt_id, sample = NAMES[row]
    assert refusal(table(values, chunks=chunks)) == (
        f"`old_logp` of `dir` holds a log-prob of {value} for sample {sample} of prompt "
        f"`{prompt_id}`"
    )


def test_nulls_before_it_do_not_shift_the_name_of_the_row():
    values = [None, None, [0.0], [-1.0, math.nan]]
    assert "sample 1 of prompt `b`" in refusal(table(values, chunks=2))


def test_the_first_of_several_is_named():
    values = [[0.0, math.inf, 0.0], [], [math.nan], [0.0, 0.0]]
    assert "holds a log-prob of inf for sample 0 of prompt `a`" in refusal(table(values))


@pytest.mark.parametrize(("name", "noun"), [("entropy", "an entropy"), ("max_prob", "a prob")])
def test_other_columns_are_called_by_their_names(name, noun):
    values = [*GOOD[:2], [math.nan], GOOD[3]]
    assert f"`{name}` of `dir` holds {noun}" in refusal(table(values, name=name), name)


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize(
    ("row", "values", "message"),
    [
        (0, [-0.5, -1.0], "holds 2 values for sample 0 of prompt `a`, which has 3 token_ids"),
        (1, [-0.5], "holds 1 values for sample 1 of prompt `a`, which has 0 token_ids"),
        (3, [], "holds 0 values for sample 1 of prompt `b`, which has 2 token_ids"),
    ],
)
def test_another_number_than_that_of_the_tokens_is_refused(row, values, message, chunks):
    rows = [*GOOD[:row], values, *GOOD[row + 1 :]]
    assert refusal(table(rows, chunks=chunks)) == f"`old_logp` of `dir` {message}"


def test_lengths_that_are_wrong_only_row_by_row_are_found():
    """The column has as many values as there are tokens, at other rows."""
    values = [GOOD[0][:2], [0.0], GOOD[2], GOOD[3]]
    assert "holds 2 values for sample 0 of prompt `a`" in refusal(table(values))


def pairs(last):
    """Two likeliest tokens for each token, `last` at the end of the third row."""
    return [[[-1.0, -math.inf]] * 3, [], [[-0.1, last]], [[-1.0, -2.0]] * 2]


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_a_likeliest_token_may_be_impossible(chunks):
    name = "ref_topk_logp"
    rows = table(pairs(-math.inf), name=name, chunks=chunks)
    common.require_logps(rows, name, "`dir`", "")
    assert np.isneginf(common.flat(rows[name])).sum() == 4


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_other_numbers_of_a_likeliest_token_are_refused(value, chunks):
    name = "ref_topk_logp"
    error = refusal(table(pairs(value), name=name, chunks=chunks), name)
    assert f"holds a log-prob of {value} for sample 0 of prompt `b`" in error


@pytest.mark.parametrize("name", schema.TOP_K)
def test_likeliest_tokens_are_counted_by_token(name):
    values = [[[1, 2]] * 3, [], [[1, 2]], [[1, 2]]]
    error = refusal(table(values, name=name), name)
    assert "holds 1 values for sample 1 of prompt `b`, which has 2 token_ids" in error


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_flat_values_are_in_the_order_of_the_rows_and_by_token(chunks):
    assert common.flat(table(GOOD, chunks=chunks)["old_logp"]).tolist() == list(chain(*GOOD))
    values = [[[1, 2], [3, 4], [5, 6]], [], [[7, 8]], [[9, 10], [11, 12]]]
    rows = table(values, name="ref_topk_ids", chunks=chunks)
    assert common.flat(rows["ref_topk_ids"]).tolist() == list(chain(*values))
    assert common.flat(rows.slice(1, 3)["ref_topk_ids"]).tolist() == list(chain(*values[1:]))
    assert common.flat(rows.filter([True, True, False, True])["ref_topk_ids"]).shape == (5, 2)
    assert common.flat(rows.slice(1, 1)["ref_topk_ids"]).shape == (0, 2)


def test_a_policys_own_log_prob_that_is_not_finite_is_refused_by_its_prompt():
    common.require_finite([[-1.0], []], ["a", "b"])
    with pytest.raises(DataError, match="a log-prob of nan to a completion of `b`"):
        common.require_finite([[-1.0], [-1.0, math.nan]], ["a", "b"])
    with pytest.raises(DataError, match="a log-prob of -inf to a completion of `a`"):
        common.require_finite([[-math.inf], [math.nan]], ["a", "b"])
