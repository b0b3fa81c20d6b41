import pytest
import torch

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.errors import UsageError
from rlvr_cli.lab.table import AdvantageTable


def test_a_group_has_the_advantages_of_its_own_rollout_batch():
    # rewards 0.5, 1 and 0: one of the first two, two of the last, one of the first and last
    table = AdvantageTable(objectives.build("dr-grpo"), torch.tensor([0.5, 1.0, 0.0]).double(), 2)
    made = table(torch.tensor([[1, 1, 0], [0, 0, 2], [1, 0, 1]]))
    advantage = made["advantage"]
    torch.testing.assert_close(advantage[0, :2], torch.tensor([-0.25, 0.25]).double())
    assert advantage[1, 2] == 0
    torch.testing.assert_close(advantage[2, ::2], torch.tensor([0.25, -0.25]).double())
    assert made["keep"].all()


def test_whitening_stays_within_a_seed():
    # one right of four: B = 3/4 and -1/4, variance 3/16; two right of four: +-1/2, variance 1/4
    table = AdvantageTable(objectives.build("reinforce-pp"), torch.tensor([0.0, 1.0]).double(), 4)
    made = table(torch.tensor([[3, 1], [2, 2]]))["advantage"]
    torch.testing.assert_close(made[0], torch.tensor([-1, 3]).double() / 3**0.5)
    torch.testing.assert_close(made[1], torch.tensor([-1, 1]).double())


def test_rows_that_an_objective_leaves_out_are_named_and_columns_come_along():
    nsr = AdvantageTable(objectives.build("nsr"), torch.tensor([0.0, 1.0]).double(), 2)
    assert nsr(torch.tensor([[1, 1]]))["keep"].tolist() == [[True, False]]
    quatro = AdvantageTable(objectives.build("quatro"), torch.tensor([0.0, 1.0]).double(), 8)
    lam = quatro(torch.tensor([[4, 4]]))["lam"]
    torch.testing.assert_close(lam, torch.full((1, 2), 1.060).double(), atol=1e-3, rtol=0)


def test_actions_of_equal_reward_are_one_level():
    table = AdvantageTable(objectives.build("grpo"), torch.full((5,), 0.7).double(), 3)
    assert table(torch.tensor([[1, 0, 0, 1, 1]]))["advantage"].tolist() == [[0.0] * 5]
    table = AdvantageTable(objectives.build("dr-grpo"), torch.tensor([1.0, 0.0, 1.0]).double(), 4)
    made = table(torch.tensor([[1, 2, 1], [2, 2, 0]]))["advantage"]  # one group, seen twice
    torch.testing.assert_close(made, torch.tensor([[0.5, -0.5, 0.5]] * 2).double())


def test_too_many_kinds_of_groups_are_refused():
    with pytest.raises(UsageError, match="too many to list"):
        AdvantageTable(objectives.build("grpo"), torch.arange(8).double(), 64)
