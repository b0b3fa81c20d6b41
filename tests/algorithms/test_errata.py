"""What docs/errata.md says of the papers, in numbers; a test is named at each entry.

Shapes: N completions, B rows, T completion tokens, V actions, K values of k, C counts.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import tensor

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Step, TokenBatch, Totals
from rlvr_cli.algorithms.terms import penalty
from rlvr_cli.evaluation.metrics import passk, ucc

PAGE = (Path(__file__).parents[2] / "docs" / "errata.md").read_text()
KS = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def advantages(spec, reward, group=None):
    """The columns of an advantages shard; one group unless told otherwise."""
    reward_N = tensor(reward, dtype=torch.float64)
    step = Step(
        reward_N=reward_N,
        present_N=torch.ones(len(reward)).bool(),
        correct_N=reward_N > 0.5,
        group_N=tensor(group or [0] * len(reward)),
        length_N=torch.full((len(reward),), 10),
        max_length=100,
    )
    return objective.advantages(objective.build(spec), step)


def loss(spec, drift, advantage, *, columns=None, anchor=None):
    """The loss of one completion and its gradient by the log-prob of each token.

    `drift` has log pi_theta - log pi_old of each token, `anchor` the masses that the policy and
    the reference policy put on the anchor set of every token.
    """
    drift_BT = tensor([drift], dtype=torch.float64)
    logp_BT = torch.full_like(drift_BT, -1.0).requires_grad_()
    mass, z = (torch.full_like(drift_BT, math.log(m)) if anchor else None for m in anchor or (1, 1))
    batch = TokenBatch(
        logp_BT=logp_BT,
        old_logp_BT=-1.0 - drift_BT,
        mask_BT=torch.ones_like(drift_BT).bool(),
        advantage_B=tensor([advantage], dtype=torch.float64),
        entropy_BT=torch.zeros_like(drift_BT),
        anchor_logp_BT=mass,
        anchor_ref_logp_BT=z,
        columns={k: tensor([v], dtype=torch.float64) for k, v in (columns or {}).items()},
    )
    totals = Totals(tokens=len(drift), sequences=1, max_length=100)
    value = objective.loss(objective.build(spec), batch, totals).value
    value.backward()
    return value.item(), logp_BT.grad[0].tolist()


def softmax_gradient(logits, mass):
    """The gradient of a function of the probabilities by the logits."""
    z_V = tensor(logits, dtype=torch.float64, requires_grad=True)
    mass(z_V.softmax(0)).backward()
    return z_V.grad


# The page.


def test_every_option_that_the_page_names_exists():
    objectives, modifiers = (registry.names(folder) for folder in ("objectives", "modifiers"))
    given = re.findall(r"`([a-z][a-z-]*)((?:[:+][^`\s]*)?)`", PAGE)
    specs = [name + rest for name, rest in given if rest or name in objectives + modifiers]
    assert len(specs) > 30
    for spec in specs:
        alone = re.match(r"[a-z-]+", spec)[0] in modifiers
        objective.build(objective.canonical(f"grpo+{spec}" if alone else spec))


def test_every_flag_that_the_page_names_exists(rlvr, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    typed = re.findall(r"`rlvr ([a-z-]+)([^`]*)`", PAGE)
    assert typed
    for command, words in typed:
        shown = rlvr(command, "--help").out
        assert all(flag in shown for flag in re.findall(r"--[a-z-]+", words)), command


def test_every_entry_of_the_page_has_its_number_and_its_tests():
    numbers = re.findall(r"^- \*\*([A-Z]\d+) ", PAGE, re.M)
    assert numbers == [
        f"{n[0]}{i}"
        for _, run in itertools.groupby(numbers, lambda n: n[0])
        for i, n in enumerate(run, start=1)
    ]
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    here = {name for name in globals() if name.startswith("test_")}
    assert named == {name for name in here if not re.match(r"test_every_\w+_the_page", name)}


# All papers.


def test_the_float32_deviation_of_equal_rewards_is_not_zero():
    reward_N = torch.full((6,), 0.3)
    naive_N = (reward_N - reward_N.mean()) / (reward_N.std() + 1e-9)
    assert naive_N.abs().max() == pytest.approx(0.886, abs=1e-3)
    assert advantages("grpo:eps=1e-9", reward_N.tolist())["advantage"].tolist() == [0] * 6


def two_tokens(tokens):
    """A policy's logits and a reference's log-probs, at every beginning of a completion."""
    rng = torch.Generator().manual_seed(5)
    shape = (2, 2**tokens - 1, 2)  # the next token after each beginning
    logits = torch.randn(shape, generator=rng, dtype=torch.float64)
    return logits[0].requires_grad_(), logits[1].log_softmax(-1)


def log_probs(table, tokens):
    """The log-probs [C, tokens] of all completions of a table of next-token log-probs."""
    rows = []
    for completion in itertools.product((0, 1), repeat=tokens):
        starts = [int("1" + "".join(map(str, completion[:t])), 2) - 1 for t in range(tokens)]
        rows.append(torch.stack([table[s, y] for s, y in zip(starts, completion, strict=True)]))
    return torch.stack(rows)


def mean_gradient(tokens, cost):
    """The mean over the policy's completions of the gradient of a cost, by the policy's logits."""
    logits, ref = two_tokens(tokens)
    logp_CT, ref_CT = log_probs(logits.log_softmax(-1), tokens), log_probs(ref, tokens)
    p_C = logp_CT.sum(-1).exp().detach()
    (made,) = torch.autograd.grad((p_C * cost(logp_CT, ref_CT)).sum(), logits)
    return made


def test_k1_in_the_loss_regularises_nothing():
    def charged(estimator):
        return lambda logp, ref: getattr(penalty, estimator)(logp, ref).sum(-1)

    assert mean_gradient(3, charged("k1")).abs().max() < 1e-15
    logits, ref = two_tokens(1)
    logp = logits.log_softmax(-1)
    for estimator, cost in (
        ("k2", (logp.exp() * (logp - ref)).sum()),
        ("k3", (ref.exp() * (ref - logp)).sum()),
    ):
        (truth,) = torch.autograd.grad(cost, logits, retain_graph=True)
        torch.testing.assert_close(mean_gradient(1, charged(estimator)), truth)


# QUATRO.


def test_only_the_whole_ratio_comes_to_rest_at_the_advantage():
    at_rest = [0.3 / 5] * 5  # a log ratio of 0.3 over five tokens
    assert loss("quatro", at_rest, 0.3)[1] == pytest.approx([0] * 5)
    assert max(loss("quatro:ratio=length-normalized", at_rest, 0.3)[1]) < -0.01
    assert loss("quatro:ratio=length-normalized", [0.3] * 5, 0.3)[1] == pytest.approx([0] * 5)


def test_one_error_in_sixteen_has_no_multiplier():
    assert math.log(16 / 15) < 0.1 < math.log(8 / 7)
    columns = advantages("quatro", [1] * 15 + [0])
    right, wrong = columns["advantage"][0], columns["advantage"][-1]
    assert (right, right - wrong) == (pytest.approx(math.log(16 / 15)), pytest.approx(20))
    assert float(columns["achieved_kl"][0]) == pytest.approx(math.log(16 / 15))
    assert float(advantages("quatro", [1] * 7 + [0])["achieved_kl"][0]) == pytest.approx(0.1)


def test_equal_rewards_pull_a_drifted_policy_back():
    columns = advantages("quatro", [1] * 8)
    assert columns["advantage"].tolist() == [0] * 8 and bool(columns["keep"].all())
    assert loss("quatro", [0.2], 0.0)[1][0] > 0 > loss("quatro", [-0.2], 0.0)[1][0]


def test_the_undetached_loss_pushes_every_completion_down_by_one():
    for advantage in (0.36, -0.58):
        assert loss("quatro", [0.0], advantage)[1] == pytest.approx([-advantage])
        assert loss("quatro:detach=false", [0.0], advantage)[1] == pytest.approx([1 - advantage])


def test_the_loss_of_quatro_falls_as_a_success_gets_likelier():
    assert loss("quatro", [0.0], 0.36)[1][0] < 0 < loss("quatro", [0.0], -0.58)[1][0]


def test_the_multiplier_does_not_follow_the_variance():
    lam = {c: float(advantages("quatro", [1] * c + [0] * (8 - c))["lam"][0]) for c in range(1, 8)}
    assert (lam[1], lam[7]) == (pytest.approx(0.934, abs=1e-3), pytest.approx(0.361, abs=1e-3))
    assert lam[1] == pytest.approx(lam[5], abs=0.003)
    assert max(lam, key=lam.__getitem__) == 3


def test_errors_are_pushed_harder_the_more_completions_are_right():
    results = [advantages("quatro", [1] * c + [0] * (8 - c))["advantage"] for c in range(1, 8)]
    right, wrong = [float(a[0]) for a in results], [float(-a[-1]) for a in results]
    assert right == sorted(right, reverse=True) and wrong == sorted(wrong)
    assert (wrong[0], wrong[-1]) == (pytest.approx(0.215, abs=1e-3), pytest.approx(2.644, abs=1e-3))


def test_the_printed_ucc_breaks_every_bound_and_5_80_none():
    for sizes in ([3, 1, 40], [100, 90], [1] * 60):
        made_K = ucc.ucc_at_k(256, sizes, [16, 32, 64])
        assert made_K[0] <= made_K[1] <= made_K[2] <= 2 * made_K[1] <= 4 * made_K[0]
        assert made_K[1] <= 32 * sum(sizes) / 256 + 1e-9
    at_16, at_64, best_pass_at_1 = 2.98, 11.32, 0.3202

    def fits(at_32):
        return at_32 <= at_64 <= 2 * at_32 and at_32 <= min(2 * at_16, 32 * best_pass_at_1)

    assert fits(5.80) and not fits(15.80)
    assert max(at_64, 2 * at_16, 32 * best_pass_at_1) < 15.80


def mixture(printed, digits):
    """Whether Pass@k as printed can be a mean over prompts of 256 completions each."""
    ks = [k for k in KS if k in printed]
    table_KC = np.stack([passk.pass_at_k(256, c, ks) for c in range(257)], axis=1)
    printed_K = np.array([printed[k] for k in ks]) / 100
    slack = 0.51 * 10**-digits / 100
    return {
        "A_ub": np.vstack([table_KC, -table_KC]),
        "b_ub": np.concatenate([printed_K + slack, slack - printed_K]),
        "A_eq": np.ones((1, 257)),
        "b_eq": [1],
    }


def is_possible(row, digits):
    return linprog(np.zeros(257), **mixture(dict(zip(KS, row, strict=True)), digits)).status == 0


def test_three_printed_rows_are_no_pass_at_k_of_256_completions():
    assert is_possible([69.97, 75.23, 79.04, 82.02, 84.43, 86.30, 87.68, 88.81, 90.00], 2)
    assert not is_possible([67.84, 74.30, 78.93, 82.46, 85.30, 87.85, 89.41, 90.92, 92.00], 2)
    assert not is_possible([32.11, 37.86, 42.98, 47.73, 51.33, 54.83, 58.02, 61.03, 63.80], 2)
    assert is_possible([23.6, 33.4, 41.8, 47.5, 51.9, 56.7, 61.8, 67.3, 73.3], 1)
    assert not is_possible([23.3, 31.1, 42.1, 48.8, 54.3, 59.4, 64.4, 69.6, 73.3], 1)


def test_the_missing_entry_lies_between_its_neighbours():
    row = {1: 12.28, 2: 17.74, 4: 22.74, 8: 27.51, 32: 37.98, 64: 42.70, 128: 48.34, 256: 56.67}
    at_16_C = np.array([passk.pass_at_k(256, c, [16])[0] for c in range(257)])
    low, high = (
        sign * linprog(sign * at_16_C, **mixture(row, 2)).fun * 100 for sign in (1.0, -1.0)
    )
    assert (low, high) == (pytest.approx(32.6, abs=0.02), pytest.approx(32.95, abs=0.02))


def test_gpg_counts_completions_of_mixed_groups_and_not_rewards():
    reward, group = [1, 0, 0, 0, 1, 1, 1, 1], [0] * 4 + [1] * 4
    made_N = advantages("gpg", reward, group)["advantage"]
    published, by_rewards = 8 / 4, 8 / 5
    assert made_N[0] == pytest.approx(published * 0.75) != pytest.approx(by_rewards * 0.75)
    verls_N = advantages("gpg:alpha=nonzero", reward, group)["advantage"]
    assert verls_N[0] == pytest.approx(by_rewards * 0.75)


def test_a_clip_of_a_fifth_is_out_of_reach_for_a_whole_completion():
    drift = [0.1] * 500  # 50 nats in all
    assert loss("gspo:clip_low=0.2,clip_high=0.2", drift, 1.0)[1][0] < 0
    assert loss("gspo", drift, 1.0)[1][0] == 0
    assert 500 * math.log(1.2) > 91


def test_a_completion_beyond_twenty_nats_is_pulled_back_only_without_the_clamp():
    drift = [0.05] * 500  # 25 nats, a twentieth a token
    assert loss("quatro", drift, 0.36)[1] == [0] * 500
    expected = math.exp(20) * (25 - 0.36)
    assert loss("quatro:clamp=false", drift, 0.36)[1] == pytest.approx([expected] * 500)


def test_a_floor_keeps_the_weight_of_a_token_that_got_unlikely():
    drift = [math.log(0.1)]
    assert loss("cispo", drift, 1.0)[1] == pytest.approx([-0.1])
    assert loss("cispo:cap=1.2,floor=0.8", drift, 1.0)[1] == pytest.approx([-0.8])


def test_a_token_of_a_long_completion_is_charged_less_by_a_mean_over_completions():
    def charges(spec):
        """What a nat more costs at a token of a completion of one token, and of one of four."""
        mask_BT = tensor([[True, False, False, False], [True] * 4])
        logp_BT = torch.full((2, 4), -1.0, dtype=torch.float64).requires_grad_()
        batch = TokenBatch(
            logp_BT=logp_BT,
            old_logp_BT=logp_BT.detach(),
            mask_BT=mask_BT,
            advantage_B=torch.zeros(2).double(),
            entropy_BT=torch.zeros(2, 4).double(),
            ref_logp_BT=torch.full((2, 4), -2.0).double(),
        )
        totals = Totals(tokens=5, sequences=2, max_length=4)
        value = objective.loss(objective.build(spec), batch, totals).value
        (slope_BT,) = torch.autograd.grad(value, logp_BT)
        return slope_BT[:, 0].tolist()

    kl = "gspo+kl:beta=1,estimator=k2"
    assert charges(kl) == pytest.approx([1 / 2, 1 / 8])
    assert charges(f"{kl},aggregation=token-mean") == pytest.approx([1 / 5, 1 / 5])


# APMPO.


def bound(spec, reward, group=None):
    return advantages(f"apmpo:{spec}", reward, group)["clip_high"].tolist()


def test_batch_and_group_statistics_give_other_bounds():
    reward, group = [1, 1, 1, 0, 0, 0, 0, 1], [0] * 4 + [1] * 4
    batch, by_group = bound("stats=batch", reward, group), bound("stats=group", reward, group)
    assert batch == pytest.approx([0.2 + 0.2 * math.tanh(1)] * 8, abs=1e-5)
    assert by_group[0] == pytest.approx(0.2 + 0.2 * math.tanh(3**0.5), abs=1e-5)
    assert by_group[-1] == pytest.approx(0.2 + 0.2 * math.tanh(3**-0.5), abs=1e-5)


def test_without_tanh_the_bound_exceeds_its_own_maximum():
    mostly_right = [1] * 8 + [0] * 2
    assert bound("tanh=false", mostly_right)[0] == pytest.approx(0.6, abs=1e-5)
    assert bound("tanh=true", mostly_right)[0] <= 0.4
    assert bound("tanh=false,stats=group", [1] * 8)[0] == pytest.approx(0.2 + 0.2 * 1e6)


def test_an_unstable_batch_gets_the_least_bound_and_not_the_middle():
    assert bound("tanh=true", [0] * 8) == [0.2] * 8
    assert 0.2 < bound("tanh=true", [0] * 999 + [1])[0] < 0.21


def test_the_adaptive_bound_is_never_below_the_fixed_one():
    for right in range(9):
        assert bound("bounds=both", [1] * right + [0] * (8 - right))[0] >= 0.2


COLUMNS = {"clip_low": 0.2, "clip_high": 0.3}


def test_the_power_mean_is_homogeneous_in_the_advantage():
    drift = [0.1, -0.3, 0.25, 0.0]
    for power in (0.45, 0.8, 1.0):
        one, three = (
            loss("apmpo:kl=0", drift, a, columns=COLUMNS | {"power": power}) for a in (0.7, 2.1)
        )
        assert three[0] == pytest.approx(3 * one[0])
        assert three[1] == pytest.approx([3 * slope for slope in one[1]])


def test_in_one_update_a_batch_apmpo_is_grpo():
    for advantage, power in itertools.product((1.0, -1.0), (0.45, 1.0)):
        columns = COLUMNS | {"power": power}
        result = loss("apmpo:kl=0", [0.0] * 3, advantage, columns=columns)
        assert result[1] == pytest.approx(loss("grpo", [0.0] * 3, advantage)[1])


def test_an_error_is_flat_below_the_clip_and_not_above():
    columns = COLUMNS | {"power": 1.0}
    below, above = math.log(0.7), math.log(1.5)
    assert loss("apmpo:kl=0", [below], -1.0, columns=columns)[1] == [0]
    assert loss("apmpo:kl=0", [above], -1.0, columns=columns)[1] == pytest.approx([1.5])


def test_the_exponent_stays_far_from_zero():
    assert advantages("apmpo", [1] * 8)["power"][0] == pytest.approx(math.exp(-0.8))
    assert math.exp(-0.8) > 0.449


def test_the_linear_exponent_reaches_zero_where_the_formula_ends():
    assert advantages("apmpo:exponent=linear,gamma=1", [1] * 8)["power"].tolist() == [0] * 8
    drift = [0.1, -0.2]
    result = loss("apmpo:kl=0", drift, 1.0, columns=COLUMNS | {"power": 0.0})[0]
    assert result == pytest.approx(-math.exp(-0.05))


def test_an_advantage_of_zero_is_no_special_case():
    value, gradient = loss("apmpo:kl=0", [0.1, -0.2], 0.0, columns=COLUMNS | {"power": 0.5})
    assert (value, gradient) == (0, [0, 0])
    phi = tensor(0.0, requires_grad=True)
    (phi**0.5).backward()
    assert phi.grad == math.inf


def test_the_stability_of_binary_rewards_is_their_mean_in_disguise():
    for right in (1, 3, 7):
        mean = right / 8
        stability = (bound("tanh=false", [1] * right + [0] * (8 - right))[0] - 0.2) / 0.2
        assert stability == pytest.approx(math.sqrt(mean / (1 - mean)), rel=1e-5)


def test_the_inverse_deviation_saturates():
    least = min(bound("fss=inverse-std", [1] * c + [0] * (8 - c))[0] for c in range(9))
    assert least == pytest.approx(0.2 + 0.2 * math.tanh(2), abs=1e-5) and least > 0.392
    assert max(bound("fss=mean", [1] * c + [0] * (8 - c))[0] for c in range(9)) < 0.353


def test_gmpo_as_printed_makes_wrong_answers_likelier():
    d_T = tensor([0.1, -0.2], dtype=torch.float64, requires_grad=True)
    advantage = -1.0
    ratio_T = torch.exp(d_T * math.copysign(1, advantage))
    clipped_T = ratio_T.clamp(math.exp(-0.4), math.exp(0.4))
    printed = torch.minimum(ratio_T, clipped_T).prod() ** (1 / 2) * advantage
    printed.backward()
    assert d_T.grad.min() > 0  # maximised, so the wrong answer's log-probs rise
    assert min(loss("gmpo", [0.1, -0.2], advantage)[1]) > 0  # minimised, so they fall


def test_printed_averages_of_apmpo_are_not_those_of_their_rows():
    for row, printed in (
        ([75.2, 13.3, 13.3, 52.5, 29.4, 39.0], 37.5),  # Table 6; Table 1 has 37.1
        ([81.4, 20.0, 23.3, 62.5, 32.4, 46.3], 44.4),  # Table 3
        ([68.2, 10.0, 10.0, 42.5, 27.6, 32.9], 31.8),  # Table 3
        ([80.7, 20.0, 23.3, 60.0, 31.6, 45.8], 43.5),  # Table 10
    ):
        assert abs(np.mean(row) - printed) > 0.06


# APO.


def test_above_the_clip_an_error_is_still_pushed_down():
    result = loss("apo", [math.log(1.5)], -1.0, anchor=(0.5, 0.5))[1]
    assert result == pytest.approx([1.05 * 1.5])
    assert loss("apo", [math.log(0.8)], -1.0, anchor=(0.5, 0.5))[1] == [0]


def test_a_tiny_reference_mass_switches_an_error_off():
    anchor = (3e-3, 1e-3)  # r_anchor = 3
    assert loss("apo", [0.0], -1.0, anchor=anchor)[1] == [0]
    assert loss("apo:z_floor=1e-2", [0.0], -1.0, anchor=anchor)[1] == pytest.approx([1.05])
    for mass, is_flat in ((2.49e-3, False), (2.51e-3, True)):
        assert (loss("apo", [0.0], -1.0, anchor=(mass, 1e-3))[1] == [0]) == is_flat


def test_the_rectified_ratio_starts_below_one():
    assert loss("apo", [0.0], -1.0, anchor=(0.5, 0.5))[0] == pytest.approx(1.05 - 0.1)
    without_anchor = math.log(0.8 / 1.05)
    assert loss("apo", [without_anchor + 1e-6], -1.0, anchor=(1e-12, 0.5))[1][0] > 0
    assert loss("apo", [without_anchor - 1e-6], -1.0, anchor=(1e-12, 0.5))[1][0] == 0


def test_the_pull_is_not_collinear_with_support_coverage():
    logits = [2.0, 1.0, 0.0, 0.0]  # the sampled token, an anchor token, two outside the top 2
    coverage_V = softmax_gradient(logits, lambda p_V: p_V[:2].sum())
    pull_V = softmax_gradient(logits, lambda p_V: p_V[1])
    assert coverage_V[0] > 0 > pull_V[0]
    assert torch.cosine_similarity(coverage_V, pull_V, dim=0) < 0.5


def test_the_pull_vanishes_with_the_token_it_should_restore():
    slopes = []
    for p in (1e-2, 1e-4, 1e-6):
        logits = [math.log(1 - p), math.log(p)]
        slopes.append(float(softmax_gradient(logits, lambda p_V: p_V[1])[1]))
        assert slopes[-1] == pytest.approx(p * (1 - p))
    assert slopes[0] / slopes[2] == pytest.approx(1e4, rel=0.02)


def drift(policy, sampled, advantage, rate=1e-6):
    """The change of each log-prob by a small step of the policy gradient over its rate, and the
    step of each logit."""
    logits_V = np.log(policy)
    gradient_V = softmax_gradient(logits_V, lambda p_V: advantage * p_V[sampled].log()).numpy()
    after_V = tensor(logits_V + rate * gradient_V).log_softmax(0).numpy()
    return (after_V - logits_V) / rate, gradient_V


def test_a_reward_lifts_a_rare_action_that_was_not_sampled():
    policy = np.array([0.90, 0.08, 0.02])
    change_V, step_V = drift(policy, sampled=1, advantage=1.0)
    assert step_V[0] < 0 and step_V[2] < 0, "the logits fall, as the proofs say"
    assert change_V[2] > 0 > change_V[0]
    first_order = (policy**2).sum() - policy - policy[1]
    np.testing.assert_allclose(change_V[[0, 2]], first_order[[0, 2]], atol=1e-5)


def test_a_penalty_lowers_a_rare_action_beside_a_dominant_one():
    policy = np.array([0.90, 0.08, 0.02])
    change_V, step_V = drift(policy, sampled=1, advantage=-1.0)
    np.testing.assert_allclose(step_V[[0, 2]], policy[[0, 2]])  # in proportion, and up
    assert change_V[2] < 0 < change_V[0]
    first_order = policy + policy[1] - (policy**2).sum()
    np.testing.assert_allclose(change_V[[0, 2]], first_order[[0, 2]], atol=1e-5)
    even, _ = drift(np.array([0.4, 0.3, 0.3]), sampled=1, advantage=-1.0)
    assert even[2] > 0, "without a dominant action the rare one gains"


def test_printed_numbers_of_apo_are_no_shares_of_272_problems():
    for printed in (60.02, 65.15, 66.12, 66.37, 43.65):
        assert abs(round(printed * 2.72) / 2.72 - printed) > 0.05
    assert np.mean([6.81, 0.15, 24.38, 44.57, 17.62]) == pytest.approx(18.71, abs=0.005) != 18.79
    assert np.mean([36.67, 30.0, 85.0, 75.6, 48.53]) == pytest.approx(55.16, abs=0.005) != 55.11


# IAC.


def test_iac_breaks_the_balance_that_its_derivation_uses():
    for right in range(1, 8):
        reward = [1] * right + [0] * (8 - right)
        plain_N, scaled_N = (advantages(s, reward)["advantage"] for s in ("grpo", "grpo+iac"))
        assert float(plain_N.sum()) == pytest.approx(0, abs=1e-12)
        assert float(scaled_N[0] / plain_N[0]) == pytest.approx(8 - right)
        assert float(scaled_N.sum()) == pytest.approx(float((7 - right) * plain_N[:right].sum()))


def test_the_order_of_iac_and_overlong_does_not_matter():
    reward = [1, 1, 0, 0]
    one, other = (
        advantages(f"dapo+{spec}", reward)["advantage"].tolist()
        for spec in ("overlong:buffer=95+iac", "iac+overlong:buffer=95")
    )
    assert one == other


def test_equation_3_has_no_maximum_and_equation_4_is_that_of_another():
    ref_V, shift_V, beta = np.array([0.5, 0.3, 0.2]), np.array([0.6, -0.4, 0.0]), 0.5

    def printed(p_V):
        return shift_V @ np.log(p_V) - beta * p_V @ np.log(p_V / ref_V)

    def linear(p_V):
        return shift_V @ p_V - beta * p_V @ np.log(p_V / ref_V)

    best_V = ref_V * np.exp(shift_V / beta)
    best_V /= best_V.sum()
    rng = np.random.default_rng(0)
    others = rng.dirichlet([1, 1, 1], size=1000)
    assert all(linear(p_V) <= linear(best_V) for p_V in others)
    assert any(printed(p_V) > printed(best_V) for p_V in others)
    values = [printed(np.array([0.7 - p, p, 0.3])) for p in (1e-10, 1e-50, 1e-200)]
    assert values[0] < values[1] < values[2] and values[2] > 100


def test_the_printed_ratio_falls_where_the_text_says_it_rises():
    persian = np.array([0.75, 0.5, 0.25, 0.1])
    siamese = {"high": [0.25, 0.5, 0.75, 0.1], "mid": [0.1, 0.5, 0.9, 0.1], "low": [0, 0.5, 1, 0.1]}
    ratio = {name: persian @ persian / (persian @ np.array(v)) for name, v in siamese.items()}
    assert persian @ persian == pytest.approx(0.885)  # printed as 0.8775
    assert list(ratio.values()) == pytest.approx([1.394, 1.580, 1.735], abs=5e-4)
    push = {name: 4 * (0.25 * (r + 8 - 1) - 1) for name, r in ratio.items()}  # Corollary 2.2
    assert push["high"] < push["mid"] < push["low"]


def test_the_printed_corollary_lacks_a_factor():
    n, y, total, lam, rho, size = 3, 0.2, 1.0, 1.0, 0.4, 8
    reach = lam + (size - 1) * rho
    case_1 = rho * total / reach
    case_2 = n * (y - rho * total / reach)
    printed = n * y / total * reach / rho - 1
    assert case_2 / case_1 == pytest.approx(n * (y / total * reach / rho - 1))
    assert printed - case_2 / case_1 == pytest.approx(n - 1)


def test_printed_numbers_of_aime_are_no_shares_of_30_problems():
    def is_share(printed, of):
        return abs(round(printed * of / 100) * 100 / of - printed) < 0.0051

    assert all(is_share(v, 240) for v in (34.58, 32.50, 36.25, 35.42, 37.08, 54.17, 56.67))
    assert not any(is_share(v, 240) for v in (40.68, 53.45, 54.85))
    of_30 = [47.37, 43.65, 50.54, 47.02, 52.28, 52.36, 50.92, 55.24, 52.25, 52.67]
    assert not any(is_share(v, 30) for v in [*of_30, 70.44, 73.18, 71.71, 71.83, 78.07])


def test_drawing_with_replacement_loses_a_third_of_a_single_success():
    assert passk.pass_at_k(8, 1, [8])[0] == pytest.approx(1)
    with_replacement = 1 - (7 / 8) ** 8
    assert with_replacement == pytest.approx(0.656, abs=1e-3)


def test_whitening_moves_groups_of_equal_rewards_with_the_others():
    reward = tensor([1, 0, 1, 1, 0, 0]).double()
    step = Step(
        reward_N=reward,
        present_N=torch.ones(6).bool(),
        correct_N=reward > 0.5,
        group_N=tensor([0, 0, 1, 1, 2, 2]),
        length_N=tensor([3, 9, 4, 4, 5, 5]),  # the error is longer
        max_length=10,
    )
    published, zeroed = (
        objective.advantages(objective.build(spec), step)["advantage"]
        for spec in ("reinforce-pp", "reinforce-pp:zero_equal=true")
    )
    assert bool((published[2:] > 0).all()) and zeroed[2:].tolist() == [0] * 4
    assert published[:2].tolist() == zeroed[:2].tolist()
    assert float(step.length_N.double() @ published) == pytest.approx(0, abs=1e-12)
    assert float(step.length_N.double() @ zeroed) < -1


def test_kl_in_the_reward_is_kl_in_the_loss_for_one_token_only():
    def in_loss(logp, ref):
        return penalty.k2(logp, ref).sum(-1)

    def in_reward(logp, ref):
        return (logp - ref).sum(-1).detach() * logp.sum(-1)

    one, other = mean_gradient(1, in_loss), mean_gradient(1, in_reward)
    torch.testing.assert_close(one, other)
    one, other = mean_gradient(3, in_loss), mean_gradient(3, in_reward)
    torch.testing.assert_close(one[-4:], other[-4:])  # the last token leads to nothing
    assert (one[:3] - other[:3]).abs().max() > 0.1


def test_what_came_before_a_token_changes_no_mean():
    def of_completions(logp, ref):
        return ((logp - ref).sum(-1, keepdim=True).detach() * logp).sum(-1)

    def of_tokens(logp, ref):
        ahead = (logp - ref).flip(-1).cumsum(-1).flip(-1)
        return (ahead.detach() * logp).sum(-1)

    made = mean_gradient(3, of_tokens)
    torch.testing.assert_close(made, mean_gradient(3, of_completions))
    assert made.abs().max() > 0.1


# Two-stage.


def test_the_printed_softmax_does_not_sum_to_one():
    weight_V = np.exp([2.0, 0.0, 1.0])
    assert sum(w / (weight_V.sum() - w) for w in weight_V) > 2


def test_theorem_1_is_too_large_by_g_over_g_minus_1():
    policy_V, reward_V = np.array([0.6, 0.1, 0.3]), np.array([0.5, 1.0, 0.0])
    theorem_V = policy_V * (reward_V - policy_V @ reward_V)
    pairs = list(itertools.product(range(3), repeat=2))  # every group of G = 2
    reward, group = [reward_V[u] for pair in pairs for u in pair], [i // 2 for i in range(18)]
    for spec, factor in (("dr-grpo", 1 / 2), ("rloo", 1)):
        result = advantages(spec, reward, group)["advantage"].reshape(-1, 2).numpy()
        update_V = np.zeros(3)
        for pair, advantage in zip(pairs, result, strict=True):
            chance = policy_V[list(pair)].prod()
            for u, a in zip(pair, advantage, strict=True):
                update_V += chance * a / 2 * (np.eye(3)[u] - policy_V)
        np.testing.assert_allclose(update_V, factor * theorem_V, atol=1e-12)


def test_negative_only_is_not_nsr():
    all_wrong = [0] * 4
    assert advantages("grpo+negative-only", all_wrong)["advantage"].tolist() == [0] * 4
    assert advantages("nsr", all_wrong)["advantage"].tolist() == [-1] * 4
    assert loss("grpo+negative-only", [0.0], 1.0)[1] == [0]
    assert advantages("nsr", [1, 1, 0, 0])["keep"].tolist() == [False, False, True, True]
    assert advantages("grpo+negative-only", [1, 1, 0, 0])["keep"].tolist() == [True] * 4


def test_the_printed_answer_entropy_is_in_bits():
    assert math.log(256) < 6.062 < math.log2(256)


def test_the_base_model_wins_at_large_k_on_an_in_domain_benchmark():
    base = [40.7, 51.5, 58.9, 64.1, 68.5, 72.9, 77.9, 83.2, 88.0]
    gspo_n = [54.1, 58.8, 62.0, 64.1, 65.9, 67.6, 69.5, 71.5, 73.4]
    ahead = [k for k, b, n in zip(KS, base, gspo_n, strict=True) if b > n]
    assert ahead == [16, 32, 64, 128, 256]
