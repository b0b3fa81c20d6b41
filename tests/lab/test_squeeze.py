"""The checks of the softmax identities tell a right formula from a wrong one."""

import pytest
import torch

from rlvr_cli.lab import squeeze
from rlvr_cli.lab.settings import Settings


def states(checks):
    return [made.state for made in checks]


@pytest.mark.slow
def test_the_identities_hold_and_the_claims_that_are_wrong_do_not():
    assert states(squeeze.lemma_1()) == ["holds"]
    assert states(squeeze.theorem_1("rloo", 8, 1.0)) == ["holds"]
    assert states(squeeze.theorem_1("dr-grpo", 2, 1.0)) == ["fails"]
    assert states(squeeze.theorem_1("dr-grpo", 2, 0.5)) == ["holds"]
    assert states(squeeze.expected_signs()) == ["holds", "holds"]
    assert states(squeeze.passive_suppression()) == ["holds", "fails"]
    assert states(squeeze.squeezing()) == ["holds", "holds", "fails"]
    assert states(squeeze.pull_identity()) == ["holds", "holds"]
    assert states(squeeze.collinear()) == ["holds", "fails"]
    assert states(squeeze.persistent_pull()) == ["fails"]
    assert states(squeeze.clipped_updates()) == ["fails"]


def test_an_update_by_hand():
    # pi = 1/2 each; A = 1 for the sampled action: dz = (1/2, -1/2) at a rate of 1
    change_SA, action_SG = squeeze.updated(
        Settings("reinforce", 1, 1.0, 1), (1.0, 1.0), torch.zeros(8, 2).double(), "by hand"
    )
    expected = torch.where(torch.arange(2) == action_SG, 0.5, -0.5).double()
    torch.testing.assert_close(change_SA, expected)


def test_a_rare_action_gains_when_another_rare_one_is_rewarded():
    # d log pi_k = eta A (sum pi^2 - pi_k - pi_v): above 0 here, against Proposition B.2
    pi_A = torch.tensor([0.97, 0.02, 0.01]).double()
    after_A = (pi_A.log() + 1e-3 * (torch.tensor([0.0, 1, 0]) - pi_A)).softmax(-1)
    assert after_A[2] > pi_A[2] and after_A[0] < pi_A[0]
