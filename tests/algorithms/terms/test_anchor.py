"""APO's rectified ratio, by hand."""

import math

import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import TokenBatch, Totals
from rlvr_cli.algorithms.terms.anchor import Anchor, rectified

TOTALS = Totals(tokens=1, sequences=1, max_length=1)


def one_token(*, ratio=1.0, mass=0.5, z=0.5, advantage=-1.0):
    """A batch of one token with the policy's and the reference's mass on the anchor set."""

    def f64(value):
        return tensor([[value]], dtype=torch.float64)

    return TokenBatch(
        logp_BT=f64(math.log(ratio)).requires_grad_(),
        old_logp_BT=f64(0.0),
        mask_BT=tensor([[True]]),
        advantage_B=tensor([advantage], dtype=torch.float64),
        entropy_BT=f64(0.0),
        anchor_logp_BT=f64(math.log(mass) if mass else -math.inf).requires_grad_(),
        anchor_ref_logp_BT=f64(math.log(z) if z else -math.inf),
    )


def rectify(batch, lam=1.05, beta=0.1, z_floor=1e-6):
    log_ratio = batch.logp_BT - batch.old_logp_BT
    return rectified(batch, log_ratio, Anchor(8, lam, beta, z_floor)).item()


def loss_of(spec, batch):
    value = objective.loss(objective.build(spec), batch, TOTALS).value
    by_logp, by_anchor = torch.autograd.grad(value, (batch.logp_BT, batch.anchor_logp_BT))
    return float(value.detach()), float(by_logp), float(by_anchor)


def test_at_the_start_the_ratio_is_push_less_pull():
    assert rectify(one_token()) == pytest.approx(0.95, rel=1e-15)


def test_the_pull_is_the_policys_mass_over_the_references():
    assert rectify(one_token(ratio=2.0, mass=0.6, z=0.2)) == pytest.approx(2.1 - 0.3, rel=1e-14)


def test_an_empty_anchor_set_pulls_nothing():
    assert rectify(one_token(mass=0.0, z=0.0)) == pytest.approx(1.05, rel=1e-15)


def test_a_tiny_mass_of_the_reference_is_floored():
    ratio_BT = rectify(one_token(mass=1e-5, z=1e-9))
    assert ratio_BT == pytest.approx(1.05 - 0.1 * 1e-5 / 1e-6, rel=1e-14)


def test_an_error_costs_the_rectified_ratio_and_pulls_the_anchor_up():
    # Loss = r~ for A = -1; d r~ / d logp = lam r, d r~ / d anchor_logp = -beta r_anchor.
    result = loss_of("apo", one_token(ratio=1.1, mass=0.6, z=0.5))
    assert result == pytest.approx((1.05 * 1.1 - 0.12, 1.05 * 1.1, -0.12), rel=1e-14)


def test_an_error_below_the_lower_bound_is_flat_and_one_above_the_upper_is_not():
    assert loss_of("apo", one_token(mass=0.9, z=0.3)) == pytest.approx((0.8, 0, 0), rel=1e-14)
    above = loss_of("apo", one_token(ratio=2.0))
    assert above == pytest.approx((2.0, 2.1, -0.1), rel=1e-14)


def test_a_success_is_clipped_as_ever_and_moves_no_anchor():
    assert loss_of("apo", one_token(ratio=1.1, advantage=2.0)) == pytest.approx((-2.2, -2.2, 0))
    assert loss_of("apo", one_token(ratio=1.5, advantage=2.0)) == pytest.approx((-2.4, 0, 0))


def test_the_share_of_errors_that_the_anchor_alone_makes_flat_is_counted():
    goal = objective.build("apo")

    edge = objective.build("grpo:clip_low=0+anchor:lam=1")

    def counts(goal=goal, **values):
        batch = one_token(**values)
        metrics = objective.token_metrics(goal, batch, objective.loss(goal, batch, TOTALS))
        return metrics["anchor_flat"], metrics["anchor_flat_among"]

    assert counts(mass=0.9, z=0.3) == (1, 1)  # r~ = 0.75
    assert counts(mass=0.3, z=0.3) == (0, 1)
    assert counts(ratio=0.5, mass=0.3, z=0.3) == (0, 1)  # flat by its ratio, not by the anchor
    assert counts(mass=0.9, z=0.3, advantage=0.5) == counts(advantage=0.0) == (0, 0)
    assert counts(edge) == (1, 1)  # a ratio of 1 at the bound of 1 is not flat by itself
    assert counts(edge, mass=0) == (0, 1)  # and the anchor moves it nowhere


def test_the_bounds_are_those_of_the_base():
    wide = loss_of("dapo:clip_low=0.4+anchor", one_token(mass=0.9, z=0.3))
    assert wide == pytest.approx((0.75, 1.05, -0.3), rel=1e-14)


@pytest.mark.parametrize("option", ["k=0", "lam=0", "beta=-1", "z_floor=0", "lam=nan"])
def test_an_anchor_that_is_none_is_refused(option):
    with pytest.raises(objective.UsageError, match=r"k must be|lam"):
        objective.build(f"apo:{option}")


def test_without_a_pull_nothing_of_the_reference_is_needed():
    algo = objective.build("apo:beta=0")
    assert (algo.needs, algo.top_k) == (frozenset(), 0)
    assert (objective.build("apo").needs, objective.build("apo:k=4").top_k) == ({"ref_topk"}, 4)
