"""What every implementation refuses, and in which words."""

import pytest
import torch
from torch import tensor

from rlvr_cli.kernels.checks import BadInput
from rlvr_cli.kernels.reference import sample, token_stats, top_k

NAN = tensor([[0.0, 0], [0, torch.nan], [0, 0]])
BAD = [
    ({"target_N": tensor([0, 5, 1])}, r"target_N\[1\] is 5, the vocabulary has 5 tokens"),
    ({"target_N": tensor([0, 1, -1])}, r"target_N\[2\] is -1"),
    ({"target_N": tensor([0, 3, 1]), "vocabulary": 3}, r"is 3, the vocabulary has 3 tokens"),
    ({"target_N": tensor([0, 1])}, r"of shape \[2\], 3 ids are needed"),
    ({"target_N": tensor([0.0, 1, 1])}, r"target_N is torch.float32"),
    ({"hidden_NH": NAN}, "hidden_NH holds NaN in row 1"),
    ({"hidden_NH": torch.zeros(3, 4)}, r"hidden_NH has shape \[3, 4\], head_VH \[5, 2\]"),
    ({"hidden_NH": torch.zeros(3, 2).double()}, "head_VH is torch.float32, hidden_NH is torch.fl"),
    ({"hidden_NH": torch.zeros(3, 2, device="meta")}, "head_VH is on cpu, hidden_NH on meta"),
    ({"target_N": torch.zeros(3, device="meta").long()}, "target_N is on meta, hidden_NH on cpu"),
    ({"bias_V": torch.zeros(4)}, r"bias_V has shape \[4\]"),
    ({"topk_NK": tensor([[2, 3], [2, -1], [4, 4]])}, r"topk_NK\[2\] holds 4 more than once"),
    ({"topk_NK": tensor([[2, 3], [2, 5], [4, 0]])}, r"topk_NK\[1\] holds 5, the vocabulary has 5"),
    ({"topk_NK": tensor([[2, 3], [1, 2], [4, 0]])}, r"topk_NK\[1\] holds the target 1"),
    ({"topk_NK": tensor([[2, 3]])}, r"topk_NK has shape \[1, 2\], 3 rows are needed"),
    ({"temperature": 0.0}, "temperature is 0.0, it must be above 0"),
    ({"softcap": -1.0}, "softcap is -1.0, it must be above 0"),
    ({"vocabulary": 6}, "vocabulary is 6, head_VH has 5 rows"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_what_is_wrong_is_said_with_where_and_the_value(bad, message):
    good = {
        "hidden_NH": torch.zeros(3, 2),
        "head_VH": torch.zeros(5, 2),
        "target_N": tensor([0, 1, 1]),
        "topk_NK": tensor([[1, 2], [-1, -1], [0, -1]]),
    }
    token_stats(**good)
    with pytest.raises(BadInput, match=message):
        token_stats(**good | bad)


@pytest.mark.parametrize("k", [0, 6])
def test_there_are_no_more_likeliest_tokens_than_tokens(k):
    with pytest.raises(BadInput, match=f"{k} likeliest tokens are requested, the vocabulary has 5"):
        top_k(torch.zeros(3, 2), torch.zeros(5, 2), k)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"min_prob": 1.5}, "min_prob 1.5"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"memory_BV": torch.zeros(2, 4)}, r"memory_BV has shape \[2, 4\], policy_BV \[2, 3\]"),
        ({"seed_B": tensor([1])}, r"of shape \[1\]"),
    ],
)
def test_a_draw_that_has_no_meaning_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        sample(torch.zeros(2, 3), options.pop("seed_B", tensor([1, 2])), 0, **options)
