"""Many policies at once against one seed at a time, and against the papers' own loops."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Step, TokenBatch, Totals
from rlvr_cli.errors import UsageError
from rlvr_cli.lab import bandit, systems
from rlvr_cli.lab.bandit import at_rates, simulate, uniforms
from rlvr_cli.lab.settings import OPTIMIZERS, Settings

CLASSES = systems.classes()
THREE = systems.bandit((0.5, 1.0, 0.0), (0.5, 0.05, 0.45))
ANCHORED = systems.bandit((0.0, 1.0, 0.0, 0.0), (0.9, 0.02, 0.04, 0.04), (0.3, 0.4, 0.2, 0.1))


def one_at_a_time(system, settings, seed):
    """The plain loop of one policy: every group goes to the estimator in the order sampled."""
    objective = objectives.build(settings.algo)
    feature_D = torch.tensor(next(iter(system.queries.values())), dtype=torch.float64)
    weight_AD = torch.tensor(system.start, dtype=torch.float64, requires_grad=True)
    memory_AD = torch.zeros_like(weight_AD)
    reference_AD = torch.tensor(system.reference or system.start, dtype=torch.float64)
    optimizer = OPTIMIZERS[settings.optimizer]([weight_AD], settings.learning_rate)
    reward_A = torch.tensor(system.reward, dtype=torch.float64)
    heat, size = settings.temperature, settings.group_size
    ref_A = (reference_AD @ feature_D / heat).log_softmax(-1)
    top = ref_A.topk(objective.top_k).indices.tolist()
    for uniform_SG in uniforms(0, [seed], settings.steps, size):
        with torch.no_grad():
            old_A = (weight_AD @ feature_D / heat).log_softmax(-1)
            mixed_A = (weight_AD - settings.memory * memory_AD) @ feature_D / heat
            behaviour_A = mixed_A.log_softmax(-1)
        total = behaviour_A.exp().cumsum(0).tolist()
        picked = [next(a for a, c in enumerate([*total[:-1], 2]) if u < c) for u in uniform_SG[0]]
        action_N = torch.tensor(picked)
        ones_N = torch.ones_like(action_N)
        reward_N = reward_A[action_N]
        step = Step(reward_N, ones_N.bool(), reward_N > 0, 0 * ones_N, ones_N, 1)
        made = objectives.advantages(objective, step)
        kept = int(made["keep"].sum())
        for _ in range(settings.epochs if kept else 0):
            logp_A = (weight_AD @ feature_D / heat).log_softmax(-1)
            others = [[t for t in top if t != a] for a in picked]
            batch = TokenBatch(
                logp_BT=logp_A[action_N][:, None],
                old_logp_BT=old_A[action_N][:, None],
                mask_BT=made["keep"][:, None],
                advantage_B=made["advantage"],
                entropy_BT=-(logp_A.exp() * logp_A).sum().expand(size)[:, None],
                ref_logp_BT=ref_A[action_N][:, None],
                behaviour_logp_BT=behaviour_A[action_N][:, None],
                anchor_logp_BT=torch.stack([logp_A[o].logsumexp(0) for o in others])[:, None]
                if top
                else None,
                anchor_ref_logp_BT=torch.stack([ref_A[o].logsumexp(0) for o in others])[:, None]
                if top
                else None,
                columns={name: made[name] for name in objective.columns},
            )
            optimizer.zero_grad()
            objectives.loss(objective, batch, Totals(kept, kept, 1)).value.backward()
            optimizer.step()
        if not kept:  # nothing to learn from: plain gradient descent stays where it is
            assert settings.optimizer == "sgd"
        with torch.no_grad():
            share_A = torch.bincount(action_N, minlength=len(reward_A)).double() / size
            off_A = (share_A - (memory_AD @ feature_D / heat).softmax(-1)) / heat
            memory_AD += settings.memory_learning_rate * off_A[:, None] * feature_D
    return (weight_AD @ feature_D / heat).softmax(-1).detach().numpy()


CASES = [
    (CLASSES, Settings("reinforce", 4, 1.0, 30)),
    (CLASSES, Settings("grpo", 4, 1.0, 30, optimizer="momentum")),
    (CLASSES, Settings("grpo:ddof=0+kl:beta=0.1", 4, 0.1, 30, optimizer="adamw")),
    (CLASSES, Settings("rloo+entropy:coef=0.1", 4, 1.0, 30)),
    (CLASSES, Settings("reinforce-pp", 6, 1.0, 30, epochs=3)),
    (CLASSES, Settings("nsr", 3, 1.0, 30)),
    (CLASSES, Settings("psr", 3, 1.0, 30)),
    (CLASSES, Settings("w-reinforce", 5, 1.0, 30, temperature=2.0)),
    (CLASSES, Settings("quatro", 8, 1.0, 20, epochs=3)),
    (CLASSES, Settings("apmpo", 8, 1.0, 20, epochs=3)),
    (CLASSES, Settings("gspo:clip_low=0.2,clip_high=0.2+iac", 4, 1.0, 30, epochs=2)),
    (CLASSES, Settings("grpo+iac+is-correction", 4, 1.0, 30, memory=0.5)),
    (CLASSES, Settings("gpg", 4, 1.0, 30, memory=0.5, temperature=1.5)),
    (THREE, Settings("dr-grpo+negative-only", 5, 0.5, 30)),
    (THREE, Settings("cispo", 10, 0.5, 30, optimizer="adam")),
    (ANCHORED, Settings("apo:k=2", 6, 0.5, 30, epochs=2)),
    (ANCHORED, Settings("dapo+anchor:k=3", 6, 0.5, 30)),
]


@pytest.mark.parametrize(
    ("system", "settings"), CASES, ids=lambda v: getattr(v, "algo", getattr(v, "name", ""))
)
def test_policies_trained_at_once_are_those_trained_one_at_a_time(system, settings):
    seeds = [3, 0, 7]
    made = simulate(system, settings, seeds).probability_SRQA[:, -1, 0]
    alone = np.stack([one_at_a_time(system, settings, seed) for seed in seeds])
    start = torch.tensor(system.start) @ torch.tensor(next(iter(system.queries.values())))
    moved = np.abs(alone - (start / settings.temperature).softmax(-1).numpy()).max()
    assert moved > 1e-3, "a policy that stays where it is shows nothing"
    np.testing.assert_allclose(made, alone, atol=1e-6)  # kept as float32


def test_the_mean_shifted_policy_gradient_is_algorithm_1_of_the_two_stage_paper():
    rate, size, steps = 0.1, 2, 300
    r, z = np.array(THREE.reward), np.log([0.5, 0.05, 0.45])
    for uniform_SG in uniforms(0, [5], steps, size):
        pi = np.exp(z) / np.exp(z).sum()
        sampled = np.searchsorted(pi.cumsum(), uniform_SG[0].numpy(), side="right")
        g = np.zeros(3)
        for a in sampled:
            advantage = r[a] - r[sampled].mean()
            g[a] += (1 - pi[a]) * advantage
            g[np.arange(3) != a] -= pi[np.arange(3) != a] * advantage
        z = z + rate * g / size
    made = simulate(THREE, Settings("dr-grpo", size, rate, steps), [5])
    expected = np.exp(z) / np.exp(z).sum()
    np.testing.assert_allclose(made.probability_SRQA[0, -1, 0], expected, atol=1e-6)


def test_a_policy_does_not_depend_on_the_other_seeds_or_their_order():
    settings = Settings("grpo", 4, 1.0, 80)
    whole = simulate(CLASSES, settings, [0, 1, 2]).probability_SRQA
    np.testing.assert_array_equal(simulate(CLASSES, settings, [2, 0]).probability_SRQA, whole[::-2])
    other = simulate(CLASSES, settings, [0], run_seed=1).probability_SRQA
    assert not np.array_equal(other[0], whole[0])


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adamw"])
def test_learning_rates_trained_at_once_are_to_the_bit_those_trained_alone(optimizer):
    rates = (0.01, 1.0, 10.0)
    settings = Settings("grpo+iac", 4, steps=60, optimizer=optimizer, memory=0.5)
    for rate, made in zip(rates, at_rates(CLASSES, settings, rates, range(3)), strict=True):
        alone = simulate(CLASSES, replace(settings, learning_rate=rate), range(3))
        np.testing.assert_array_equal(made.probability_SRQA, alone.probability_SRQA)
        np.testing.assert_array_equal(made.step_R, alone.step_R)


def test_held_out_queries_are_seen_through_the_trained_weights():
    made = simulate(CLASSES, Settings("reinforce", 8, 1.0, 40), range(4))
    assert made.probability_SRQA.shape == (4, 41, 4, 4)
    start_QA = made.probability_SRQA[0, 0]
    np.testing.assert_allclose(start_QA, 0.25)
    assert (made.probability_SRQA[:, -1, 1, 3] < 0.25).all()  # Siamese, never rewarded


def test_the_memory_takes_one_step_towards_what_was_sampled():
    system = systems.bandit((1.0, 0.0), (1 - 1e-12, 1e-12))
    policies = bandit.Policies(system, Settings("grpo", 4, 1.0, 1, memory=0.5), 1)
    policies.train(torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64))
    np.testing.assert_allclose(policies._memory_SAD.numpy(), [[[0.5], [-0.5]]])  # 1 - 1/2, 0 - 1/2


def test_recorded_steps_are_all_the_first_and_then_two_percent_apart():
    steps = bandit.recorded_steps(500)
    assert steps[:51] == list(range(51)) and steps[-1] == 500 and steps == sorted(set(steps))
    assert max(b / a for a, b in itertools.pairwise(steps[50:])) < 1.021
    assert bandit.recorded_steps(3) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("algo", "found"),
    [
        ("grpo+overlong:buffer=1", "one token"),
        ("grpo+mask-truncated", "leave mask-truncated out"),
        ("grpo+is-correction:normalize=true", "leave normalize=true out"),
        ("apo", "anchors to 8"),
        ("grop", "did you mean"),
        ("otb", "treats actions of equal reward differently"),
        ("pass-at-k:form=full", "treats actions of equal reward differently"),
    ],
)
def test_an_objective_without_meaning_for_actions_is_refused(algo, found):
    with pytest.raises(UsageError) as error:
        simulate(CLASSES, Settings(algo), [0])
    assert found in f"{error.value} {error.value.hint}"


@pytest.mark.parametrize(
    "options",
    [{"group_size": 0}, {"steps": 0}, {"epochs": 0}, {"temperature": 0.0}, {"memory": -1.0},
     {"learning_rate": 0.0}, {"optimizer": "lion"}],
)  # fmt: skip
def test_settings_that_train_nothing_are_refused(options):
    with pytest.raises(UsageError):
        Settings(**options)


@pytest.mark.parametrize("initial", [(0.5, 0.5), (0.5, 0.6, -0.1), (0.5, 0.2, 0.2), (1.0, 0, 0)])
def test_probabilities_that_are_none_are_refused(initial):
    with pytest.raises(UsageError, match="probabilities"):
        systems.bandit((0.5, 1.0, 0.0), initial)
