"""The KL penalty to the reference policy (k1, k2, k3; GRPO, arXiv:2402.03300, eq. 4)."""

import math

import numpy as np
import pytest

from rlvr_cli.algorithms import objective

DEFAULTS = "kl:beta=0.001,estimator=k3,on=all,unbiased=auto,aggregation=objective"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return "ref_logp" in objective.needs


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def divergence(row, estimator):
    """The estimate at each token, and its derivative by logp; x = log pi_ref - log pi."""
    x = row.ref_logp - row.logp
    return {
        "k1": (-x, np.ones(row.length)),
        "k2": (x**2 / 2, -x),
        "k3": (np.expm1(x) - x, -np.expm1(x)),
    }[estimator]


def cost(row, batch, *, beta, estimator, on, weight):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1.2) * a
    kl, slope = divergence(row, estimator)
    charge = beta if on == "all" or a < 0 else 0
    loss = -np.minimum(free, clipped) + charge * kl
    by_logp = -np.where(free <= clipped, free, 0) + charge * slope
    return weight(row, batch) * loss.sum(), weight(row, batch) * by_logp


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def constant(row, batch):
    return 1 / (batch.sequences * batch.max_length)


@pytest.mark.parametrize(
    "spec, beta, estimator, on, weight",
    [
        ("grpo+kl", 0.001, "k3", "all", sequence_mean),
        ("grpo+kl:beta=0.7,estimator=k1,unbiased=false", 0.7, "k1", "all", sequence_mean),
        ("grpo+kl:beta=0.7,estimator=k2", 0.7, "k2", "all", sequence_mean),
        ("grpo:aggregation=constant+kl:beta=0.7", 0.7, "k3", "all", constant),
        ("grpo+kl:beta=0.01,on=errors", 0.01, "k3", "errors", sequence_mean),
    ],
)
def test_kl_is_its_equation(matches, spec, beta, estimator, on, weight):
    options = {"beta": beta, "estimator": estimator, "on": on, "weight": weight}
    matches(spec, estimate, lambda row, batch: cost(row, batch, **options))


def reweighted(row, estimator):
    """The ratio to the old policy times the estimate, and what the divergence's gradient weighs."""
    ratio = np.exp(row.log_ratio)
    return ratio * divergence(row, estimator)[0], ratio * (row.logp - row.ref_logp)


def unbiased_cost(row, batch, *, estimator, baseline=0.0):
    """GRPO's and the charge's; `baseline` is what k1's gradient has more, whose mean is 0."""
    value, by_logp = cost(row, batch, beta=0, estimator=estimator, on="all", weight=sequence_mean)
    kl, slope = reweighted(row, estimator)
    weight = 0.7 * sequence_mean(row, batch)
    extra = baseline * np.exp(row.log_ratio)
    return value + np.sum(weight * kl), by_logp + weight * (slope + extra)


@pytest.mark.parametrize(
    "spec, estimator, baseline",
    [
        ("grpo+kl:beta=0.7,estimator=k3,unbiased=true", "k3", 0),
        ("grpo+kl:beta=0.7,estimator=k2,unbiased=true", "k2", 0),
        ("grpo+kl:beta=0.7,estimator=k1,unbiased=true", "k1", 1),
        ("grpo+kl:beta=0.7,estimator=k1", "k1", 1),
    ],
)
def test_an_unbiased_estimate_has_the_gradient_of_the_divergence(
    matches, spec, estimator, baseline
):
    matches(
        spec,
        estimate,
        lambda row, batch: unbiased_cost(row, batch, estimator=estimator, baseline=baseline),
    )


def gspo_with_tokens_charged(row, batch):
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - 3e-4, 1 + 4e-4) * a
    kl, slope = divergence(row, "k3")
    gain, by_gain = min(free, clipped), free if free <= clipped else 0
    loss = -gain / batch.sequences + 0.5 * np.sum(kl) / batch.tokens
    return loss, -by_gain / (row.length * batch.sequences) + 0.5 * slope / batch.tokens


def test_the_charge_can_be_the_mean_over_all_tokens_where_the_gain_is_of_completions(matches):
    matches("gspo+kl:beta=0.5,aggregation=token-mean", estimate, gspo_with_tokens_charged)


@pytest.mark.parametrize(
    "aggregation, weight",
    [
        ("token-mean", lambda row, batch: 1 / batch.tokens),
        ("seq-mean-token-mean", sequence_mean),
        ("seq-mean-token-sum", lambda row, batch: 1 / batch.sequences),
    ],
)
@pytest.mark.parametrize("on", ["all", "errors"])
def test_the_charge_has_an_aggregation_of_its_own(matches, aggregation, weight, on):
    def charged(row, batch):
        gain = {"beta": 0, "estimator": "k3", "on": "all", "weight": constant}
        value, by_logp = cost(row, batch, **gain)
        kl, slope = divergence(row, "k3")
        charge = 0.7 * weight(row, batch) * (on == "all" or row.advantage < 0)
        return value + np.sum(charge * kl), by_logp + charge * slope

    spec = f"grpo:aggregation=constant+kl:beta=0.7,aggregation={aggregation},on={on}"
    matches(spec, estimate, charged)


def test_what_an_earlier_version_stored_charges_k1_as_it_did():
    made_by = "grpo+kl:beta=0.1,estimator=k1,on=all"
    assert objective.canonical(made_by, made_by).endswith(
        "kl:beta=0.1,estimator=k1,on=all,unbiased=false,aggregation=objective"
    )


def gspo_cost(row, batch):
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - 3e-4, 1 + 4e-4) * a
    kl, slope = divergence(row, "k3")
    by_logp = -(free if free <= clipped else 0) + 0.5 * slope
    loss = -min(free, clipped) + 0.5 * np.mean(kl)
    return loss / batch.sequences, by_logp / (row.length * batch.sequences)


def test_a_sequence_objective_charges_the_mean_of_a_completion(matches):
    matches("gspo+kl:beta=0.5", estimate, gspo_cost)


@pytest.mark.parametrize(
    "estimator, value, slope",
    [("k1", math.log(2), 1), ("k2", math.log(2) ** 2 / 2, math.log(2)), ("k3", None, 0.5)],
)
def test_a_token_twice_as_likely_as_under_the_reference(gains, estimator, value, slope):
    value = 0.5 - 1 + math.log(2) if value is None else value
    spec = f"grpo+kl:beta=1,estimator={estimator},unbiased=false"
    gain = gains(spec, [1.0], [0.0], ref_logp=[-1 - math.log(2)])
    assert -gain.value == pytest.approx(value, rel=1e-12)
    assert -gain.slope == pytest.approx([slope], rel=1e-12)


def test_on_errors_charges_completions_below_zero_alone(gains):
    gain = gains("grpo+kl:beta=1,on=errors", [1.0] * 3, [1.0, 0.0, -1.0], ref_logp=[-2.0] * 3)
    drift = 1 - math.exp(-1)
    assert -gain.slope == pytest.approx([-1 / 3, 0, (1 + drift) / 3], rel=1e-12)
