"""What holds of every objective and modifier in the folders, and numbers for each.

Shapes: B rows, T completion tokens.
"""

import dataclasses
import importlib.util
import math
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Step, TokenBatch, Totals
from rlvr_cli.errors import UsageError
from rlvr_cli.specs import grammar

PUBLISHED_REFUSED = {
    *(f"{base}+anchor" for base in ("apmpo", "apo", "cispo", "gmpo", "gpg", "gspo", "psr")),
    *(f"{base}+dual-clip" for base in ("cispo", "gpg", "quatro")),
    *(f"{base}+kl" for base in ("apmpo", "reinforce-pp")),
    *("maxrl+overlong", "ce-gppo+anchor", "dppo-tv+dual-clip", "sapo+dual-clip"),
    *("quatro+anchor", "nsr+iac", "nsr+negative-only", "psr+negative-only", "nsr+up"),
    *(f"{base}+up" for base in ("cispo", "cppo", "gpg", "quatro", "sapo", "vespo")),
}


def facts(folder, name):
    """What the test file of an objective or a modifier says of it, for the tests of all.

    It may have `SHORT` (a spec that suits completions of a few tokens, and groups of two) and
    `trained` (the tokens that get a gradient); a modifier's `refuses` (whether it refuses an
    objective); an objective's `undrifted` (weight and advantage where the policy has not moved),
    `zeroes_equal` (whether a spec of it gives 0 to groups of equal rewards, as most do) and
    `ignores_shifts` (whether a constant added to all rewards changes nothing, as with most).
    """
    path = Path(__file__).parent / folder / f"test_{name.replace('-', '_')}.py"
    if not path.exists():
        return {}
    found = importlib.util.spec_from_file_location(f"facts_of_{path.stem}", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return vars(module)


def choices(folder, name):
    """A name with each choice of those of its options that are choices."""
    for key, option in registry.options(folder, name).items():
        if get_origin(option.annotation) is Literal:
            yield from (f"{name}:{key}={choice}" for choice in get_args(option.annotation))
        elif option.annotation is bool:
            yield from (f"{name}:{key}={choice}" for choice in ("true", "false"))


NAMES = registry.names("objectives")
MODIFIERS = registry.names("modifiers")
OF_OBJECTIVES = {name: facts("objectives", name) for name in NAMES}
SHORT = {name: OF_OBJECTIVES[name].get("SHORT", name) for name in NAMES}
BASES = list(SHORT.values()) + [
    spec.replace(name, SHORT[name], 1).replace(":", ",").replace(",", ":", 1)
    for name in NAMES
    for spec in choices("objectives", name)
]
PAIRS = {f"{base}+{modifier}": (base, modifier) for base in NAMES for modifier in MODIFIERS}
OF_MODIFIERS = {name: facts("modifiers", name) for name in MODIFIERS}
REFUSED = {
    pair
    for pair, (base, modifier) in PAIRS.items()
    if OF_MODIFIERS[modifier].get("refuses", lambda _: False)(objective.build(base))
}
SPECS = [
    *BASES,
    *(
        f"{SHORT[base]}+{OF_MODIFIERS[modifier].get('SHORT', modifier)}"
        for pair, (base, modifier) in PAIRS.items()
        if pair not in REFUSED
    ),
    *(f"grpo+{choice}" for name in MODIFIERS for choice in choices("modifiers", name)),
]


def holds(fact, spec):
    """Whether what most objectives do holds of a spec, as the test file of its objective says."""
    name = grammar.read(grammar.pieces(spec)[0]).name
    return OF_OBJECTIVES[name].get(fact, lambda _: True)(spec)


every_spec = pytest.mark.parametrize("spec", SPECS)
every_base = pytest.mark.parametrize("spec", BASES)


def is_relative(spec):
    """Whether its estimator compares the rewards of a group; so is one that cannot be built."""
    try:
        return objective.build(spec).group_relative
    except UsageError:  # the tests of this spec say so, and not their collection
        return True


def is_relative_to_zero(spec):
    """Whether its estimator needs rewards that count from 0, as where it divides by their mean."""
    return objective.build(spec).least_reward == 0


every_relative = pytest.mark.parametrize("spec", [spec for spec in SPECS if is_relative(spec)])


@pytest.mark.parametrize("pair", sorted(REFUSED))
def test_a_pairing_without_meaning_is_refused_with_the_reason(pair):
    assert pair in PAIRS
    with pytest.raises(UsageError) as caught:
        objective.build(pair)
    assert "this objective" in str(caught.value) and caught.value.hint


@pytest.mark.parametrize("pair", sorted(PAIRS.keys() - REFUSED))
def test_a_pairing_with_a_meaning_is_built(pair):
    """Where it is not, `refuses` in the modifier's test file must say of which objectives."""
    objective.build(pair)


def test_the_pairings_that_are_known_to_have_no_meaning_are_refused():
    assert REFUSED >= PUBLISHED_REFUSED


def chosen(*shape):
    """1 for a token and 0 for the others, every third one."""
    return (torch.arange(math.prod(shape)) % 3 == 0).view(shape).double()


CHOICES = ("cov_clipped", "cov_penalised", "m2_masked", "top_entropy")
OF_COLUMNS = {name: chosen for name in CHOICES}


def make_batch(goal, seed=0, *, drift=0.3, rows=7, width=6, dtype=torch.float64):
    """Random rows of 0 to `width` tokens, some within untrained, with garbage where masked."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    length_B = torch.randint(0, width + 1, (rows,), generator=rng)
    length_B[0], length_B[1] = width, 0
    mask_BT = torch.arange(width) < length_B[:, None]
    mask_BT &= torch.rand(rows, width, generator=rng) < 0.9
    logp_BT = -normal(rows, width).abs()
    anchor_BT = -normal(rows, width).abs()
    garbage_BT = 300 * normal(rows, width)

    def masked(value_BT):
        return torch.where(mask_BT, value_BT, garbage_BT).to(dtype)

    return TokenBatch(
        logp_BT=masked(logp_BT).requires_grad_(),
        old_logp_BT=masked(logp_BT - drift * normal(rows, width)),
        mask_BT=mask_BT,
        advantage_B=normal(rows).to(dtype),
        entropy_BT=masked(normal(rows, width).abs()).requires_grad_(),
        ref_logp_BT=masked(logp_BT - 0.5 * normal(rows, width)),
        behaviour_logp_BT=masked(logp_BT - drift * normal(rows, width)),
        anchor_logp_BT=masked(anchor_BT).requires_grad_(),
        anchor_ref_logp_BT=masked(anchor_BT + drift * normal(rows, width)),
        columns={name: 0.1 + normal(rows).abs().to(dtype) for name in goal.loss_columns},
        token_columns={
            name: masked(OF_COLUMNS.get(name, normal)(rows, width))
            for name, _ in goal.token_columns
        },
    )


def totals_of(batch):
    tokens, sequences = int(batch.mask_BT.sum()), len(batch.mask_BT)
    return Totals(tokens=tokens, sequences=sequences, max_length=2 * batch.mask_BT.shape[1])


def weights_of(goal, batch):
    return goal.weight(batch.mask_BT.double(), totals_of(batch))


def loss_and_gradients(goal, batch, totals=None):
    """The loss and its gradient by the log-probs, the entropies and the anchors, as leaves."""
    names = ("logp_BT", "entropy_BT", "anchor_logp_BT")
    leaves = {name: getattr(batch, name).detach().clone().requires_grad_() for name in names}
    batch = dataclasses.replace(batch, **leaves)
    value = objective.loss(goal, batch, totals or totals_of(batch)).value
    made = torch.autograd.grad(value, tuple(leaves.values()), allow_unused=True)
    zero_BT = torch.zeros_like(batch.logp_BT)
    return value.detach(), *(zero_BT if gradient is None else gradient for gradient in made)


def transform(batch, change):
    """The batch with a change made to each of its tensors, [B] ones as well as [B, T]."""
    made = {k: change(v) for k, v in vars(batch).items() if isinstance(v, torch.Tensor)}
    columns = {name: change(value) for name, value in batch.columns.items()}
    own = {name: change(value) for name, value in batch.token_columns.items()}
    return dataclasses.replace(batch, **made, columns=columns, token_columns=own)


def assert_same(made, expected):
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-15)


@every_spec
def test_splitting_a_batch_changes_nothing(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)
    totals = totals_of(batch)
    for cuts in ([0, 1, 2, 3, 4, 5, 6, 7], [0, 4, 7], [0, 2, 3, 7]):
        parts = []
        for start, end in pairwise(cuts):
            part = transform(batch, lambda value, rows=slice(start, end): value[rows])
            parts.append(loss_and_gradients(goal, part, totals))
        value = torch.stack([part[0] for part in parts]).sum()
        gradients = [torch.cat([part[i] for part in parts]) for i in (1, 2, 3)]
        assert_same((value, *gradients), loss_and_gradients(goal, batch))


@every_spec
def test_padding_changes_nothing(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)

    def widen(value):
        if value.ndim == 1:
            return value
        filler = torch.full((len(value), 3), False if value.dtype == torch.bool else 55.0)
        return torch.cat([value, filler.to(value.dtype)], 1)

    value, *gradients = loss_and_gradients(goal, transform(batch, widen), totals_of(batch))
    width = batch.mask_BT.shape[1]
    made = (value, *(gradient[:, :width] for gradient in gradients))
    assert_same(made, loss_and_gradients(goal, batch))
    assert all(bool((gradient[:, width:] == 0).all()) for gradient in gradients)


@every_spec
def test_the_order_of_the_rows_changes_nothing(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)
    order = tensor([3, 6, 0, 2, 5, 1, 4])
    value, *gradients = loss_and_gradients(goal, batch)
    expected = (value, *(gradient[order] for gradient in gradients))
    made = loss_and_gradients(goal, transform(batch, lambda value: value[order]))
    assert_same(made, expected)


@every_spec
def test_masked_tokens_get_no_gradient_and_trained_tokens_get_one(spec):
    goal = objective.build(spec)
    batch = make_batch(goal, drift=0.0)
    _, *gradients = loss_and_gradients(goal, batch)
    assert all(bool((gradient[~batch.mask_BT] == 0).all()) for gradient in gradients)
    trained_BT = batch.mask_BT
    for part in grammar.pieces(spec):
        trained = (OF_OBJECTIVES | OF_MODIFIERS)[grammar.read(part).name].get("trained")
        trained_BT = trained_BT & trained(batch) if trained else trained_BT
    assert bool((gradients[0][trained_BT] != 0).all())


@every_spec
def test_nothing_that_stands_at_a_masked_token_reaches_the_loss(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)
    mask_BT = batch.mask_BT
    spoilt = dataclasses.replace(
        batch,
        old_logp_BT=torch.where(mask_BT, batch.old_logp_BT, -torch.inf),
        ref_logp_BT=torch.where(mask_BT, batch.ref_logp_BT, torch.inf),
        entropy_BT=torch.where(mask_BT, batch.entropy_BT, torch.nan),
        behaviour_logp_BT=torch.where(mask_BT, batch.behaviour_logp_BT, torch.nan),
        anchor_logp_BT=torch.where(mask_BT, batch.anchor_logp_BT, torch.nan),
        anchor_ref_logp_BT=torch.where(mask_BT, batch.anchor_ref_logp_BT, torch.nan),
    )
    value, *gradients = loss_and_gradients(goal, spoilt)
    expected, *clean = loss_and_gradients(goal, batch)
    made = (value, *(gradient[mask_BT] for gradient in gradients))
    assert_same(made, (expected, *(gradient[mask_BT] for gradient in clean)))


@every_spec
def test_a_batch_without_a_trained_token_has_loss_and_gradient_zero(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)
    batch = dataclasses.replace(batch, mask_BT=torch.zeros_like(batch.mask_BT))
    made = loss_and_gradients(goal, batch)
    assert all(bool((value == 0).all()) for value in made)


@every_spec
def test_two_hundred_nats_of_drift_are_finite_in_float32(spec):
    goal = objective.build(spec)
    batch = make_batch(goal, dtype=torch.float32)
    drift_BT = torch.where(torch.arange(6) % 2 == 0, 200.0, -200.0).expand(7, 6)
    for sign in (1, -1):
        for pattern_BT in (drift_BT, drift_BT.abs()):
            moved = dataclasses.replace(
                batch,
                old_logp_BT=batch.logp_BT.detach() - sign * pattern_BT,
                ref_logp_BT=batch.logp_BT.detach() + sign * pattern_BT,
                behaviour_logp_BT=batch.logp_BT.detach() + sign * pattern_BT,
                anchor_logp_BT=pattern_BT.abs() * -1,
            )
            made = loss_and_gradients(goal, moved)
            assert all(bool(value.isfinite().all()) for value in made)


@every_base
def test_without_drift_the_gradient_is_minus_weight_times_advantage(spec):
    goal = objective.build(spec)
    batch = make_batch(goal, drift=0.0)
    batch = dataclasses.replace(batch, ref_logp_BT=batch.logp_BT.detach())
    weight_BT = weights_of(goal, batch)
    advantage_B1 = batch.advantage_B[:, None]
    if undrifted := OF_OBJECTIVES[grammar.read(spec).name].get("undrifted"):
        weight_BT, advantage_B1 = undrifted(spec, batch, weight_BT)
    _, by_logp, *_ = loss_and_gradients(goal, batch)
    assert_same([by_logp], [-weight_BT * advantage_B1])


@pytest.mark.parametrize(
    "spec",
    [base for base in BASES if "ref_logp" not in objective.build(base).needs],
)
def test_the_kl_modifier_adds_its_cost_with_the_objectives_own_weights(spec):
    plain, charged = objective.build(spec), objective.build(f"{spec}+kl:beta=0.5,estimator=k2")
    batch = make_batch(plain)
    weight_BT = weights_of(plain, batch)
    drift_BT = torch.where(batch.mask_BT, batch.logp_BT - batch.ref_logp_BT, 0.0).detach()
    before, after = (loss_and_gradients(goal, batch) for goal in (plain, charged))
    assert_same(
        (after[0] - before[0], after[1] - before[1]),
        ((weight_BT * 0.25 * drift_BT**2).sum(), weight_BT * 0.5 * drift_BT),
    )


@every_base
def test_the_entropy_modifier_takes_its_bonus_off_with_the_objectives_own_weights(spec):
    plain, bonus = objective.build(spec), objective.build(f"{spec}+entropy:coef=0.5")
    batch = make_batch(plain)
    weight_BT = weights_of(plain, batch)
    before, after = (loss_and_gradients(goal, batch) for goal in (plain, bonus))
    entropy_BT = torch.where(batch.mask_BT, batch.entropy_BT, 0.0).detach()
    assert_same(
        (after[0] - before[0], after[1], after[2]),
        (-(weight_BT * 0.5 * entropy_BT).sum(), before[1], -0.5 * weight_BT),
    )


def test_kl_on_errors_charges_completions_below_zero_alone():
    plain, everywhere, on_errors = (
        objective.build(f"grpo{modifier}")
        for modifier in ("", "+kl:beta=1", "+kl:beta=1,on=errors")
    )
    batch = make_batch(plain)
    zero_B = batch.advantage_B.clone()
    zero_B[3] = 0.0
    batch = dataclasses.replace(batch, advantage_B=zero_B)
    without, charged, errors = (
        loss_and_gradients(goal, batch)[1] for goal in (plain, everywhere, on_errors)
    )
    negative_B = batch.advantage_B < 0
    assert_same([errors[negative_B]], [charged[negative_B]])
    assert_same([errors[~negative_B]], [without[~negative_B]])


def test_what_the_loss_reads_is_declared():
    assert objective.build("grpo").needs == frozenset()
    assert objective.build("quatro+kl+entropy").needs == {"ref_logp", "entropy"}


def test_two_modifiers_both_count():
    batch = make_batch(objective.build("grpo"))
    plain, kl, entropy, both = (
        loss_and_gradients(objective.build(spec), batch)
        for spec in ("grpo", "grpo+kl", "grpo+entropy", "grpo+kl+entropy")
    )
    for i in range(3):
        assert_same([both[i] - plain[i]], [kl[i] - plain[i] + entropy[i] - plain[i]])


# Advantages of a rollout batch.


def step_of(reward, group, present=None):
    reward_N = tensor(reward, dtype=torch.float64)
    present_N = torch.ones(len(reward_N)).bool() if present is None else tensor(present)
    length_N = torch.arange(1, len(reward_N) + 1)
    truncated_N = torch.zeros_like(present_N)
    facts = (reward_N, present_N, reward_N > 0.5, tensor(group), length_N)
    kl_N = torch.zeros(len(reward_N), dtype=torch.float64)
    return Step(*facts, max_length=30, truncated_N=truncated_N, kl_N=kl_N)


@every_spec
def test_a_missing_reward_leaves_the_statistics_and_is_not_kept(spec):
    goal = objective.build(spec)
    present = [True, False, True, True, False, True, True]
    whole = step_of([1, 0, 0, 0, 0, 1, 0.5], [0, 0, 0, 1, 1, 1, 0], present)
    present_N = tensor(present)
    made = objective.advantages(goal, whole)
    without = objective.advantages(goal, whole.only(present_N))
    assert made["keep"][present_N].tolist() == without["keep"].tolist()
    assert not bool(made["keep"][~present_N].any())
    assert made["group_size"].tolist() == [3, 3, 3, 2, 2, 2, 3]
    assert made["group_mean"].tolist() == [0.5] * 7
    for name in ("advantage", *goal.columns):
        torch.testing.assert_close(made[name][present_N], without[name], rtol=0, atol=0)
        assert bool(made[name][~present_N].isnan().all())


@every_spec
def test_a_batch_without_any_reward_has_no_advantage(spec):
    goal = objective.build(spec)
    made = objective.advantages(goal, step_of([0, 0, 0], [0, 0, 1], [False] * 3))
    assert bool(made["advantage"].isnan().all())
    assert made["keep"].tolist() == [False] * 3
    assert made["group_size"].tolist() == [0] * 3
    assert bool(made["group_mean"].isnan().all()) and bool(made["group_std"].isnan().all())


@every_relative
def test_a_group_of_equal_rewards_gets_exactly_zero_and_stays(spec):
    goal = objective.build(spec)
    third, float32 = 1 / 3, float(torch.tensor(0.3))
    rewards = [0.3] * 6 + [third] * 3 + [1, 0] + [float32] * 6
    groups = [0] * 6 + [1] * 3 + [2] * 2 + [3] * 6
    made = objective.advantages(goal, step_of(rewards, groups))
    equal = tensor(groups) != 2
    if holds("zeroes_equal", spec):
        assert made["advantage"][equal].tolist() == [0] * 15
    else:
        assert len(set(made["advantage"][equal].tolist())) == 1
    assert bool((made["advantage"][~equal] != 0).all())
    assert made["constant"].tolist() == equal.tolist()
    assert bool(made["keep"].all())


@pytest.mark.parametrize("name", ["grpo", "lite-ppo", "maxrl", "pass-at-k"])
@pytest.mark.parametrize("eps", ["1e-12", "0"])
def test_no_eps_turns_equal_rewards_into_an_advantage(name, eps):
    # The float64 mean of ten times 0.1 is not 0.1, and 0 over 0 is no number.
    goal = objective.build(f"{name}:eps={eps}")
    for reward, size in [(0, 6), (0.1, 10), (0.3, 6), (float(torch.tensor(0.3)), 6), (0.7, 9)]:
        made = objective.advantages(goal, step_of([reward] * size, [0] * size))
        assert made["advantage"].tolist() == [0] * size


@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if is_relative(spec) and not is_relative_to_zero(spec)]
)
def test_a_constant_added_to_the_rewards_changes_no_advantage(spec):
    goal = objective.build(spec)
    reward, group = np.array([1, 0.25, 0, 0.5, 1, 0.0]), [0, 0, 1, 1, 1, 0]
    made = objective.advantages(goal, step_of(reward, group))["advantage"]
    moved = objective.advantages(goal, step_of(reward + 2, group))["advantage"]
    is_same = torch.allclose(moved, made, rtol=1e-12, atol=1e-14)
    assert is_same == holds("ignores_shifts", spec)


@every_spec
def test_every_declared_column_is_made_for_every_row(spec):
    goal = objective.build(spec)
    made = objective.advantages(goal, step_of([1, 0, 1, 0, 0], [0, 0, 1, 1, 1]))
    names = ("advantage", *goal.columns)
    assert {made[name].dtype for name in names} == {torch.float64}
    assert {made[name].shape for name in names} == {(5,)}


# Numbers of a micro-batch.


def four_tokens(spec, ratios, advantages, *, logp=-1.0, entropy=0.5):
    """The metrics of rows of one trained and one masked token, at these ratios."""
    rows = len(ratios)
    drift_BT = tensor([[math.log(ratio), 7.0] for ratio in ratios], dtype=torch.float64)
    goal = objective.build(spec)
    batch = TokenBatch(
        logp_BT=torch.full((rows, 2), logp, dtype=torch.float64, requires_grad=True),
        old_logp_BT=logp - drift_BT,
        mask_BT=tensor([[True, False]] * rows),
        advantage_B=tensor(advantages, dtype=torch.float64),
        entropy_BT=torch.full((rows, 2), entropy, dtype=torch.float64),
    )
    result = objective.loss(goal, batch, Totals(tokens=rows, sequences=rows, max_length=2))
    return objective.token_metrics(goal, batch, result)


def test_the_metrics_of_the_four_corners_of_the_clip():
    made = four_tokens("grpo", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    kl = [math.exp(x) - x - 1 for x in (math.log(1.5), math.log(0.5))]
    assert made == pytest.approx(
        {
            "loss": -(1.2 + 0.5 - 1.5 - 0.8) / 4,
            "entropy": 4 * 0.5,
            "clipped": 2,
            "clamped": 0,
            "kl": 2 * sum(kl),
            "ratio": 4,
            "ratio_min": 0.5,
            "ratio_max": 1.5,
        },
        rel=1e-12,
    )


def test_the_clip_fraction_uses_the_bound_of_its_own_side():
    made = four_tokens("grpo:clip_low=0.1,clip_high=0.3", [1.25, 1.35, 0.85, 0.95], [1, 1, -1, -1])
    assert made["clipped"] == 2


def test_an_advantage_of_zero_is_never_clipped():
    assert four_tokens("grpo", [1.5, 0.5], [0.0, 0.0])["clipped"] == 0


def test_an_objective_without_a_clip_clips_nothing():
    assert four_tokens("quatro", [9.0, 0.1], [1.0, -1.0])["clipped"] == 0


def test_a_divergence_clips_the_tokens_that_it_leaves_without_a_gradient():
    # From a probability of 1/2 by 0.1 and 0.3, each way; an error is held below alone.
    ratios = [0.5 / q for q in (0.4, 0.2, 0.6, 0.8)]
    logp = math.log(0.5)
    assert four_tokens("dppo-tv", ratios, [1.0] * 4, logp=logp)["clipped"] == 1
    assert four_tokens("dppo-tv", ratios, [-1.0] * 4, logp=logp)["clipped"] == 1
    assert four_tokens("dppo-tv:high=0.05", ratios, [1.0] * 4, logp=logp)["clipped"] == 2
    assert four_tokens("cppo:delta=0.05", ratios, [1.0] * 4, logp=logp)["clipped"] == 2


def test_successes_that_up_pulls_are_never_clipped():
    ratios, advantages = [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0]
    assert four_tokens("grpo+up", ratios, advantages)["clipped"] == 1


def test_clamped_tokens_are_counted_and_bound_the_ratios():
    made = four_tokens("grpo", [math.exp(21), math.exp(-25), math.exp(19.9)], [1.0, 1.0, 1.0])
    assert made["clamped"] == 2
    assert made["ratio_max"] == pytest.approx(math.exp(20))
    assert made["ratio_min"] == pytest.approx(math.exp(-20))
    assert made["kl"] == pytest.approx(
        (math.exp(20) - 21) + (math.exp(-20) + 19) + (math.exp(19.9) - 20.9)
    )


@every_spec
def test_a_micro_batch_without_a_trained_token_has_harmless_metrics(spec):
    goal = objective.build(spec)
    batch = make_batch(goal)
    batch = dataclasses.replace(batch, mask_BT=torch.zeros_like(batch.mask_BT))
    result = objective.loss(goal, batch, totals_of(batch))
    made = objective.token_metrics(goal, batch, result)
    assert (made.pop("ratio_min"), made.pop("ratio_max")) == (1, 1)
    assert set(map(float, made.values())) == {0}


@every_spec
def test_the_canonical_spelling_is_its_own(spec):
    made = objective.canonical(spec)
    assert objective.canonical(made) == made
    batch = make_batch(objective.build(spec))
    one, other = (loss_and_gradients(objective.build(s), batch) for s in (spec, made))
    assert_same(one, other)
