"""DLC changes what may be sampled from, never the loss (Algorithm 1 of When Sharpening ...)."""

import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import TokenBatch, Totals

DEFAULTS = "dlc"


def loss_and_gradient(spec):
    generator = torch.Generator().manual_seed(0)
    logp_BT, old_BT, ref_BT, behaviour_BT = -torch.rand(4, 6, 5, generator=generator).double()
    logp_BT.requires_grad_()
    batch = TokenBatch(
        logp_BT=logp_BT,
        old_logp_BT=old_BT,
        mask_BT=torch.rand(6, 5, generator=generator) < 0.8,
        advantage_B=torch.randn(6, generator=generator).double(),
        entropy_BT=torch.zeros(6, 5).double(),
        ref_logp_BT=ref_BT,
        behaviour_logp_BT=behaviour_BT,
    )
    result = objective.loss(objective.build(spec), batch, Totals(20, 6, 5))
    return result.value, torch.autograd.grad(result.value, logp_BT)[0]


@pytest.mark.parametrize("spec", ["grpo", "dapo+iac", "quatro:delta=0.01+kl", "cispo"])
def test_the_loss_is_that_of_the_objective_alone_and_its_ratio_over_the_old_policy(spec):
    alone, with_dlc = loss_and_gradient(spec), loss_and_gradient(f"{spec}+dlc")
    assert all(torch.equal(one, other) for one, other in zip(alone, with_dlc, strict=True))
    assert float(alone[1].abs().sum()) > 0


def test_only_an_objective_with_it_takes_samples_of_another_distribution():
    assert objective.build("grpo+iac+dlc").decoupled
    assert not objective.build("grpo+iac").decoupled


def test_the_correction_by_what_was_sampled_goes_with_it():
    corrected, plain = (loss_and_gradient(f"grpo{m}") for m in ("+dlc+is-correction", "+dlc"))
    assert not torch.equal(corrected[1], plain[1])
    alone = loss_and_gradient("grpo+is-correction")
    assert torch.equal(corrected[0], alone[0])
