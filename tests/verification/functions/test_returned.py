"""What a reward function may return."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from rlvr_cli.protocols import Verdict
from rlvr_cli.verification.functions import returned

UNIT = (0.0, 1.0)


@dataclass
class Result:
    score: float
    cost: float = 0.0


@pytest.mark.parametrize(
    "value",
    [
        True, 1, 1.0, np.bool_(True), np.float32(1), np.int64(1), np.array(1.0), np.array([1]),
        torch.tensor(1.0), torch.tensor([True]), torch.tensor(1, dtype=torch.bfloat16),
        {"score": 1}, {"reward": np.bool_(True)}, {"score": torch.tensor([1.0]), "note": "x"},
        Result(1.0), Result(torch.tensor(1.0)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_numbers_of_every_kind_are_rewards(value):
    assert returned.verdict(value, UNIT) == Verdict("ok", 1.0, True)


@pytest.mark.parametrize(
    "value",
    [None, "1", [1.0], (1.0,), {}, {"scores": 1}, np.array([1.0, 0.0]), torch.ones(2), Result("x"),
     object(), float("nan"), torch.tensor(float("inf")), 2, {"score": -1}],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_reward_is_an_error_and_never_a_0(value):
    verdict = returned.verdict(value, UNIT)
    assert (verdict.status, verdict.reward, verdict.correct) == ("error", None, None)


def test_a_dict_of_verl_says_what_is_correct_and_what_was_read():
    given = {"score": -1.0, "acc": np.bool_(False), "pred": "[INVALID]"}
    assert returned.verdict(given, (-1, 1)) == Verdict("ok", -1.0, False, "[INVALID]")
    assert returned.verdict({"score": 0.5, "acc": True}, UNIT).correct is True


@pytest.mark.parametrize(
    "values",
    [[1, 0.0, True], (1.0, 0, 1), np.array([1, 0, 1]), torch.tensor([1.0, 0.0, 1.0]),
     [torch.tensor(1.0), np.bool_(False), {"score": 1}]],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_batch_is_a_list_an_array_or_a_tensor(values):
    verdicts = returned.verdicts(values, 3, UNIT, may_skip=True)
    assert [v.reward for v in verdicts] == [1.0, 0.0, 1.0]


def test_none_skips_a_completion_where_the_library_says_so():
    verdicts = returned.verdicts([None, 1.0], 2, UNIT, may_skip=True)
    assert verdicts == [Verdict("skipped"), Verdict("ok", 1.0, True)]
    assert returned.verdicts([None, 1.0], 2, UNIT, may_skip=False)[0].status == "error"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "it returned 1 rewards for 2 completions"),
        ([1.0] * 3, "it returned 3 rewards for 2 completions"),
        (torch.ones(3), "it returned 3 rewards for 2 completions"),
        (1.0, "it returned 1.0, a list of 2 rewards was expected"),
        ("ab", "it returned 'ab', a list"),
        (None, "it returned None, a list"),
        ({"score": [1, 2]}, "a list of 2 rewards was expected"),
        (torch.tensor(1.0), "a list of 2 rewards was expected"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_batch_of_another_length_is_an_error_of_every_row(values, words):
    verdicts = returned.verdicts(values, 2, UNIT, may_skip=True)
    assert [v.status for v in verdicts] == ["error"] * 2
    assert all(words in v.reason for v in verdicts)
