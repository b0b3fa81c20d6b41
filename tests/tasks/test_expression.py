"""The expression task."""

from itertools import pairwise, product

from rlvr_cli.tasks.expression import TARGETS, build
from rlvr_cli.verification.verifiers.expression import build as build_verifier


def test_every_target_is_in_one_split_only():
    answers = [int(row["answer"]) for split in ("train", "heldout") for row in build(split=split)]
    assert sorted(answers) == list(TARGETS)


def test_a_split_is_the_same_every_time():
    assert build(split="heldout") == build(split="heldout")


def test_held_out_prompts_are_many_and_lie_among_the_train_prompts():
    train, heldout = ([int(row["answer"]) for row in build(split=s)] for s in ("train", "heldout"))
    assert len(heldout) >= 40
    assert {target % 10 for target in heldout} == set(range(10))
    assert max(b - a for a, b in pairwise(heldout)) <= 3
    assert max(b - a for a, b in pairwise(train)) <= 2


def test_a_row_reads_as_documented():
    assert build()[0] == {
        "prompt_id": "expression-002",
        "prompt": "2=",
        "answer": "2",
        "verifier": "expression",
        "source": "expression-train",
        "extra": None,
    }


def test_every_target_has_at_least_a_dozen_right_answers():
    verify = build_verifier()
    answers: dict[int, set[str]] = {target: set() for target in TARGETS}
    for a, b, c, d in product(range(1, 10), repeat=4):
        for value, expression in (
            (a * b + c - d, f"{a}*{b}+{c}-{d}"),
            (a * b + c * d, f"{a}*{b}+{c}*{d}"),
        ):
            if value in answers and len(answers[value]) < 24:
                answers[value].add(expression)
    for target, expressions in answers.items():
        assert len(expressions) >= 12, target
        assert all(verify(e, answer=str(target), extra={}).correct for e in expressions)
