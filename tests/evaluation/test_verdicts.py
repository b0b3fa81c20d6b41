import pytest

from rlvr_cli.evaluation import verdicts


@pytest.mark.parametrize(
    ("name", "mean", "chance", "word"),
    [
        ("pass@1", 0.2, 0.01, "better"),
        ("maj@8", 0.2, 0.01, "better"),
        ("ucc@8", -0.2, 0.01, "worse"),
        ("truncated", 0.2, 0.01, "worse"),
        ("truncated", -0.2, 0.01, "better"),
        ("length", 5, 0.01, "changed"),
        ("pass@1", 0.2, 0.05, "no clear difference"),
        ("pass@1", 0.2, None, "too few prompts to tell"),
    ],
)
def test_a_difference_is_called_one_only_if_its_chance_is_small(name, mean, chance, word):
    assert verdicts.word(name, mean, chance) == word


def test_holms_correction_is_that_of_the_textbook():
    # Multiplied by 4, 3, 2 and 1, and none below one before it.
    assert verdicts.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert verdicts.holm([0.9, 0.8]) == [1.0, 1.0]
    assert verdicts.holm([0.04, None]) == [0.04, None]


def test_of_two_comparisons_a_small_chance_is_not_enough():
    alone = verdicts.of_comparisons([{"pass@1": 0.1}], [{"pass@1": 0.03}])
    together = verdicts.of_comparisons(
        [{"pass@1": 0.1}, {"pass@1": 0.1}], [{"pass@1": 0.03}, {"pass@1": 0.5}]
    )
    assert alone == [{"pass@1": "better"}]
    assert together == [{"pass@1": "no clear difference"}] * 2
