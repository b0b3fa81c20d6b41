"""The string of a reward: one verifier, or a weighted sum."""

import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import Verdict
from rlvr_cli.specs import trust
from rlvr_cli.verification.scoring import rewards


def test_one_verifier_is_spelled_as_its_spec():
    assert rewards.canonical("number") == "number"
    assert rewards.canonical(" 1*expression ") == "expression"


def test_a_sum_is_spelled_with_all_weights():
    assert rewards.canonical("0.90*number + expression") == "0.9*number+1*expression"
    assert rewards.canonical("0.5*number") == "0.5*number"
    made = rewards.canonical("number+-1e-3*expression")
    assert made == "1*number+-0.001*expression" == rewards.canonical(made)


def test_parts_of_one_name_have_columns_of_their_own():
    parts = rewards.build("number+0.5*number+expression")
    assert [p.column for p in parts] == ["reward_number", "reward_number_2", "reward_expression"]
    assert [p.weight for p in parts] == [1, 0.5, 1]


def test_the_weights_are_by_the_columns_of_the_parts():
    spec = "-2*number+0.5*number+expression+3*text"
    assert rewards.weights(spec) == {p.column: p.weight for p in rewards.build(spec)}
    assert rewards.weights("1*math+0.5*./mine.py:short") == {"reward_math": 1, "reward_short": 0.5}
    assert rewards.weights("1*math+0.5*any:of=[math,choice]") == {}


def test_a_function_of_a_file_is_a_verifier(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def score(completion, *, answer, extra): return 1")
    other = tmp_path / "other.py"
    other.write_text("def score(completion, *, answer, extra): return 0")
    spec = rewards.canonical(f"{path}:score,timeout_s=2")
    assert spec.startswith(f"custom:path={path},function=score,timeout_s=2.0,")
    with trust.trusting(trust.Named([path, other])):
        (part,) = rewards.build(f"{path}:score")
        assert part.name == "score"
        assert part.verifier.version != rewards.build(f"{other}:score")[0].verifier.version


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nan*number", "unknown verifier `nan*number`"),
        ("1.2.3*number", "has the weight `1.2.3`"),
        ("1e999*number", "has the weight `1e999`"),
        ("number+", "unknown verifier ``"),
        ("numbr", "unknown verifier `numbr`"),
        ("custom", "has no file"),
    ],
)
def test_what_is_no_reward_is_refused(text, words):
    with pytest.raises(UsageError) as caught:
        rewards.build(text)
    assert words in str(caught.value)


def test_a_file_that_is_not_there_is_named():
    with (
        trust.trusting(trust.Named(["nowhere.py"])),
        pytest.raises(DataError, match=r"cannot read the verifier `nowhere\.py`"),
    ):
        rewards.build("nowhere.py:score")


def test_the_sum_has_the_first_parts_answer_and_correctness():
    parts = rewards.build("0.9*number+0.1*expression")
    verdicts = [Verdict("ok", 1.0, True, "5"), Verdict("no_answer", 0.0, False)]
    assert rewards.combine(parts, verdicts) == Verdict("ok", 0.9, True, "5")
    assert rewards.combine(parts, verdicts[::-1]) == Verdict("no_answer", 0.1, False)


def test_a_fault_of_any_part_is_a_fault_of_the_sum():
    parts = rewards.build("number+expression")
    broken = Verdict("timeout")
    for verdicts in ([Verdict("ok", 1.0, True), broken], [broken, Verdict("ok", 1.0, True)]):
        assert rewards.combine(parts, verdicts) == broken


def test_a_weight_keeps_all_its_digits_and_may_have_a_large_exponent_sign():
    third = rewards.canonical(f"{1 / 3}*number+1E-3*expression")
    assert third == "0.3333333333333333*number+0.001*expression" == rewards.canonical(third)
    assert rewards.build(third)[0].weight == 1 / 3


def test_a_weight_that_was_stored_with_six_digits_is_the_one_that_was_meant():
    stored = "0.333333*number+1*expression"
    assert rewards.canonical(f"{1 / 3}*number+expression", stored) == stored
    assert rewards.canonical("0.333334*number+expression", stored) != stored


def test_a_part_that_skips_a_completion_adds_nothing_to_a_sum():
    parts = rewards.build("0.9*number+0.1*expression")
    skipped, right = Verdict("skipped"), Verdict("ok", 1.0, True, "5")
    assert rewards.combine(parts, [skipped, right]) == Verdict("ok", 0.1, True, "5")
    assert rewards.combine(parts, [right, skipped]) == Verdict("ok", 0.9, True, "5")
    assert rewards.combine(parts, [skipped, skipped]) == skipped
