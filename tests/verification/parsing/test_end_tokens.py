"""Special tokens at the end of a text."""

import pytest

from rlvr_cli.verification.parsing.end_tokens import stripped


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("5<|im_end|>", "5"),
        ("5 </s> </s>\n", "5"),
        ("5 <eos> 6", "5 <eos> 6"),
        ("<1, 2>", "<1, 2>"),
        ("B <|begin_of_box|>B<|end_of_box|>", "B <|begin_of_box|>B<|end_of_box|>"),
        ("</s>", ""),
        ("", ""),
        (" \n", " \n"),
        (" " * 200_000 + ">", " " * 200_000 + ">"),
        ("5" + "</s> " * 40_000, "5"),
    ],
)
def test_tokens_that_end_a_turn_are_taken_off_its_end_in_linear_time(text, left):
    assert stripped(text) == left
