"""The harness of the oracles: random rollouts, and objectives held to equations within 1e-9.

An oracle is two functions in numpy, of rows that all have a reward. `estimate(batch)` gives
advantages [N] (or a dict of columns, `keep` among them); `cost(row, batch)` gives what one row
adds to the loss (or what each of its tokens does, [T], where those cancel), and the gradient of
that by the row's logp [T] (or by each leaf, in a dict).

Shapes: N completions, B rows of a micro-batch, T completion tokens.
"""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Part, Step, TokenBatch, Tokens, Totals

MOST_WITH_OPTIONS = 100  # batches for a spec that names options
LONGEST = 40  # tokens
SUM_LIMIT = 19.0  # nats; the log ratio of a completion stays within the clamp at 20
LEAVES = ("logp", "entropy", "anchor_logp")
FIELDS = (*LEAVES, "old_logp", "ref_logp", "behaviour_logp", "anchor_ref_logp")
STORED = {
    "old_logp": "old_logp",
    "behaviour_logp": "behaviour_logp",
    "ref_logp": "ref_logp",
    "entropy": "old_entropy",
    "collision": "old_collision",
}
WEIGHTS = (0.7, -1.3)  # of the parts of a reward
GARBAGE = 55.0  # stands in the padding


@dataclass(frozen=True)
class Rollouts:
    """The completions an oracle sees; `rows` holds the tokens of each.

    `parts` are two rewards of each, NaN where a completion is not judged, `columns` what the
    estimate of an oracle says of them, and `whole` what it has worked out of all tokens.
    """

    reward: np.ndarray
    correct: np.ndarray
    group: np.ndarray
    length: np.ndarray
    truncated: np.ndarray
    rows: list
    max_length: int
    parts: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    columns: dict = field(default_factory=dict)
    whole: dict = field(default_factory=dict)

    def take(self, which_N) -> "Rollouts":
        rows = [row for row, taken in zip(self.rows, which_N, strict=True) if taken]
        columns = (self.reward, self.correct, self.group, self.length, self.truncated)
        parts = self.parts[which_N] if len(self.parts) else self.parts
        return Rollouts(*(column[which_N] for column in columns), rows, self.max_length, parts)

    @property
    def tokens(self) -> int:
        return int(self.length.sum())

    @property
    def sequences(self) -> int:
        return len(self.rows)

    def by_group(self, estimate, reward=None) -> np.ndarray:
        """`estimate` of the rewards of each group, 0 where all of a group are equal."""
        reward_N = self.reward if reward is None else reward
        out_N = np.zeros(len(reward_N))
        for group in np.unique(self.group):
            rewards = reward_N[self.group == group]
            if rewards.max() > rewards.min():
                out_N[self.group == group] = estimate(rewards)
        return out_N


def random_rewards(rng, size):
    """Binary, graded or real rewards of a group, or all alike."""
    kind = rng.choice(["binary", "graded", "real", "equal"], p=[0.4, 0.2, 0.2, 0.2])
    if kind == "binary":
        return (rng.random(size) < rng.choice([0.15, 0.5, 0.85])).astype(float)
    if kind == "graded":
        return rng.integers(0, 5, size) / 4
    return rng.random(size) if kind == "real" else np.full(size, rng.choice([0, 1, 0.3, 1 / 3]))


def drifts(rng, lengths, scales):
    """Per-token differences of log-probs in nats, some exactly 0, of one scale a batch."""
    drift = rng.choice(scales) * rng.uniform(-1, 1, lengths.sum())
    drift[rng.random(len(drift)) < 0.1] = 0.0
    rows = np.split(drift, np.cumsum(lengths)[:-1])
    return np.concatenate([row * min(1, SUM_LIMIT / max(abs(row.sum()), 1)) for row in rows])


def anchor_masses(rng, count):
    """Log of the policy's and of the reference policy's mass on the anchor set, some empty."""
    tiny = 10 ** rng.uniform(-9, -3, count)
    ref = np.where(rng.random(count) < 0.3, tiny, rng.uniform(0.05, 0.95, count))
    near = np.minimum(ref * np.exp(rng.uniform(-3, 3, count)), 0.99)
    mass = np.where(rng.random(count) < 0.2, rng.uniform(0.01, 0.9, count), near)
    empty = rng.random(count) < 0.1
    with np.errstate(divide="ignore"):
        return np.log(np.where(empty, 0, mass)), np.log(np.where(empty, 0, ref))


def random_rollouts(rng):
    """Groups of 2 to 16 in any order, and which of their rows have a reward."""
    sizes = rng.integers(2, 17, size=rng.integers(1, 5))
    order = rng.permutation(sizes.sum())
    reward = np.concatenate([random_rewards(rng, size) for size in sizes])[order]
    group = np.repeat(rng.permutation(len(sizes)), sizes)[order]
    present = rng.random(len(order)) < rng.choice([0.8, 1.0])
    present[0] = True
    correct = rng.random(len(order)) < rng.choice([0.1, 0.5, 0.9], len(sizes))[group]
    lengths = rng.integers(1, LONGEST + 1, size=len(order))
    logp = -rng.exponential(size=lengths.sum())
    old_logp = logp - drifts(rng, lengths, [1e-3, 0.02, 0.3, 1, 3])
    mass, ref_mass = anchor_masses(rng, len(logp))
    tokens = {
        "logp": logp,
        "old_logp": old_logp,
        "ref_logp": logp - drifts(rng, lengths, [0.1, 3]),
        "behaviour_logp": old_logp - drifts(rng, lengths, [0.02, 0.3, 1, 3]),
        "entropy": rng.exponential(size=len(logp)),
        "anchor_logp": mass,
        "anchor_ref_logp": ref_mass,
    }
    split = {name: np.split(v, np.cumsum(lengths)[:-1]) for name, v in tokens.items()}
    rows = [SimpleNamespace(length=n) for n in lengths]
    for i, row in enumerate(rows):
        vars(row).update({name: split[name][i] for name in FIELDS})
        row.log_ratio = row.logp - row.old_logp
    reward[~present] = 0.0
    max_length = LONGEST + int(rng.integers(0, 9))
    for row in rows:
        row.old_entropy = np.round(rng.exponential(size=row.length), rng.choice([1, 9]))
        row.old_collision = np.exp(row.old_logp) ** 2 + rng.random(row.length) * 0.5
    parts = np.stack(
        [np.concatenate([random_rewards(rng, size) for size in sizes])[order] for _ in WEIGHTS], 1
    )
    parts[rng.random(parts.shape) < rng.choice([0, 0.1])] = np.nan
    truncated = rng.random(len(order)) < rng.choice([0, 0.2, 1], p=[0.3, 0.6, 0.1])
    return Rollouts(reward, correct, group, lengths, truncated, rows, max_length, parts), present


def random_micro_batches(rng, count):
    """The rows of 1 to 3 micro-batches, in any order."""
    cuts = rng.integers(0, count + 1, size=rng.integers(0, 3))
    return np.split(rng.permutation(count), np.sort(cuts))


def padded(rollouts):
    """The tokens of all rows as [N, T] tensors."""
    made = {name: np.full((len(rollouts.rows), LONGEST), GARBAGE) for name in FIELDS}
    for i, row in enumerate(rollouts.rows):
        for name in FIELDS:
            made[name][i, : row.length] = getattr(row, name)
    return {name: torch.from_numpy(value) for name, value in made.items()}


@dataclass(frozen=True)
class Case:
    rollouts: Rollouts
    present: np.ndarray
    micro_batches: list
    tensors: dict


def random_case(rng):
    rollouts, present = random_rollouts(rng)
    micro_batches = random_micro_batches(rng, len(present))
    return Case(rollouts, present, micro_batches, padded(rollouts))


def measured_advantages(goal, rollouts, present):
    columns = (rollouts.reward, present, rollouts.correct, rollouts.group, rollouts.length)
    tensors = (torch.from_numpy(np.ascontiguousarray(column)) for column in columns)
    parts = tuple(
        Part(weight, torch.from_numpy(np.ascontiguousarray(reward)))
        for weight, reward in zip(WEIGHTS, rollouts.parts.T, strict=bool(len(rollouts.parts)))
    )
    kl_N = np.array([np.sum(row.old_logp - row.ref_logp) for row in rollouts.rows])
    step = Step(
        *tensors,
        max_length=rollouts.max_length,
        parts=parts,
        truncated_N=torch.from_numpy(rollouts.truncated),
        kl_N=torch.from_numpy(kl_N) if len(kl_N) else None,
    )
    return objective.advantages(goal, step)


def token_columns(goal, case, made):
    """What is made of the tokens of all kept rows together, [N, T] each."""
    keep, rollouts = made["keep"].numpy(), case.rollouts
    length = np.where(keep, rollouts.length, 0)
    row_K = torch.from_numpy(np.repeat(np.arange(len(keep)), length))
    kept = [row for row, is_kept in zip(rollouts.rows, keep, strict=True) if is_kept]
    tokens = Tokens(
        row_K=row_K,
        group_K=torch.from_numpy(rollouts.group)[row_K],
        place_K=torch.from_numpy(np.concatenate([np.arange(n) for n in length])),
        advantage_K=made["advantage"][row_K],
        stored={
            name: torch.from_numpy(np.concatenate([np.empty(0), *(vars(r)[f] for r in kept)]))
            for name, f in STORED.items()
        },
    )
    where_NT = torch.from_numpy(np.arange(LONGEST) < length[:, None])
    empty_NT = torch.full((len(keep), LONGEST), GARBAGE, dtype=torch.float64)
    values = objective.token_values(goal, tokens)
    return {name: empty_NT.masked_scatter(where_NT, value) for name, value in values.items()}


def micro_batch(goal, case, made, tokens, rows):
    length_B = case.rollouts.length[rows]
    width = length_B.max(initial=1)
    rows_B = torch.from_numpy(rows)
    fields = {name: value[rows_B, :width] for name, value in case.tensors.items()}
    return TokenBatch(
        **{f"{n}_BT": v.requires_grad_(n in LEAVES) for n, v in fields.items()},
        mask_BT=torch.from_numpy(np.arange(width) < length_B[:, None]),
        advantage_B=made["advantage"][rows_B],
        columns={name: made[name][rows_B] for name in goal.loss_columns},
        token_columns={name: value[rows_B, :width] for name, value in tokens.items()},
    )


def with_wholes(goal, case, made, tokens):
    """The columns of all rows with the numbers of the whole batch, that of the kept rows."""
    keep = made["keep"].numpy().nonzero()[0]
    unnumbered = replace(goal, batch_columns=())
    batch = micro_batch(unnumbered, case, made, tokens, keep)
    batch = replace(batch, logp_BT=batch.old_logp_BT)
    numbers = {name: number(batch) for name, number in goal.batch_columns}
    ones_N = torch.ones(len(made["keep"]), dtype=torch.float64)
    return made | {name: number * ones_N for name, number in numbers.items()}


def measured_loss(goal, case, made):
    """The loss over all micro-batches, and its gradients by the leaves, [N, T] each."""
    keep = made["keep"].numpy()
    kept = case.rollouts.take(keep)
    totals = Totals(kept.tokens, kept.sequences, case.rollouts.max_length)
    tokens = token_columns(goal, case, made)
    made = with_wholes(goal, case, made, tokens)
    value, gradients = 0.0, {name: np.zeros((len(keep), LONGEST)) for name in LEAVES}
    for chosen in case.micro_batches:
        rows = chosen[keep[chosen]]
        batch = micro_batch(goal, case, made, tokens, rows)
        part = objective.loss(goal, batch, totals).value
        leaves = [getattr(batch, f"{name}_BT") for name in LEAVES]
        slopes = torch.autograd.grad(part, leaves, allow_unused=True)
        value += part.item()
        for name, slope in zip(LEAVES, slopes, strict=True):
            if slope is not None:
                gradients[name][rows, : slope.shape[1]] = slope.numpy()
    return value, gradients


def true_loss(cost, batch, columns):
    """The costs of the rows or of their tokens, and the gradients by the leaves, [N, T] each."""
    costs = []
    gradients = {name: np.zeros((batch.sequences, LONGEST)) for name in LEAVES}
    for i, tokens in enumerate(batch.rows):
        row = SimpleNamespace(i=i, **vars(tokens), **{n: v[i] for n, v in columns.items()})
        of_row, by_leaf = cost(row, batch)
        costs.append(np.atleast_1d(of_row))
        for name, slope in (by_leaf if isinstance(by_leaf, dict) else {"logp": by_leaf}).items():
            gradients[name][i, : row.length] = slope
    return np.concatenate(costs), gradients


def assert_close(made, truth, what, *, scale=None):
    """Within 1e-9 of each number, or 1e-13 of the largest: what rounding leaves where terms
    cancel. NaN where the truth is."""
    scale = np.nanmax(np.abs(truth), initial=0) if scale is None else scale
    np_options = {"rtol": 1e-9, "atol": 1e-13 * scale + 1e-16}
    if not np.isclose(made, truth, equal_nan=True, **np_options).all():
        np.testing.assert_allclose(made, truth, err_msg=what, **np_options)


def check(goal, case, estimate, cost):
    batch = case.rollouts.take(case.present)
    columns = estimate(batch)
    columns = dict(columns) if isinstance(columns, dict) else {"advantage": columns}
    keep = np.array(columns.pop("keep", np.ones(batch.sequences)), dtype=bool)
    made = measured_advantages(goal, case.rollouts, case.present)
    assert made["keep"].numpy().tolist() == _spread(keep, case.present, False).tolist()
    assert bool(made["advantage"][torch.from_numpy(~case.present)].isnan().all())
    for name, value in columns.items():
        ours = made[name].numpy()[case.present]
        assert_close(ours[keep], value[keep], name)
    if not keep.any():
        return
    kept = _spread(keep, case.present, False)
    columns = {name: value[keep] for name, value in columns.items()}
    costs, gradients = true_loss(cost, replace(batch.take(keep), columns=columns), columns)
    value, made_gradients = measured_loss(goal, case, made)
    assert_close(value, costs.sum(), "loss", scale=np.abs(costs).sum())
    for name in LEAVES:
        assert_close(made_gradients[name][kept], gradients[name], f"gradient by {name}")
        assert not made_gradients[name][~kept].any()


def _spread(value, present, rest):
    out = np.full(len(present), rest)
    out[present] = value
    return out


@pytest.fixture(scope="session")
def pool(request):
    rng = np.random.default_rng(20261127)
    return [random_case(rng) for _ in range(request.config.getoption("batches"))]


@pytest.fixture
def matches(pool):
    """Holds a spec to an oracle on `--batches` random ones, at most 100 where it names options."""

    def run(spec, estimate, cost):
        goal = objective.build(spec)
        for i, case in enumerate(pool[: MOST_WITH_OPTIONS if ":" in spec else None]):
            try:
                check(goal, case, estimate, cost)
            except AssertionError as error:
                raise AssertionError(f"`{spec}` on batch {i}: {error}") from error

    return run


@pytest.fixture
def advantages():
    """The columns of completions of one token each, from rewards and the sizes of their groups."""

    def run(spec, reward, *sizes, correct=None, lengths=None, truncated=None, max_length=LONGEST):
        reward = np.array(reward, dtype=float)
        group = np.repeat(np.arange(len(sizes) or 1), sizes or [len(reward)])
        correct = reward > 0 if correct is None else np.array(correct, dtype=bool)
        lengths = np.ones(len(reward)) if lengths is None else lengths
        lengths = np.array(lengths, dtype=int)
        truncated = np.zeros(len(reward), dtype=bool) if truncated is None else np.array(truncated)
        rollouts = Rollouts(reward, correct, group, lengths, truncated, [], max_length)
        present = np.ones(len(reward), dtype=bool)
        made = measured_advantages(objective.build(spec), rollouts, present)
        return {name: value.tolist() for name, value in made.items()}

    return run


@pytest.fixture
def gains():
    """Minus the loss and its gradients by the leaves, of rows of tokens at these ratios."""

    def run(spec, ratios, advantages, *, max_length=LONGEST, columns=None, own=None, **tokens):
        ratio_BT = torch.tensor(ratios, dtype=torch.float64)
        ratio_BT = ratio_BT[:, None] if ratio_BT.ndim == 1 else ratio_BT
        fields = {name: torch.full_like(ratio_BT, -1.0) for name in FIELDS}
        for name, value in tokens.items():
            value_BT = torch.as_tensor(value, dtype=torch.float64)
            value_BT = value_BT[:, None] if value_BT.ndim == 1 else value_BT
            fields[name] = value_BT.expand_as(ratio_BT).clone()
        fields["old_logp"] = fields["logp"] - ratio_BT.log()
        for name in LEAVES:
            fields[name].requires_grad_()
        columns = {n: torch.tensor(v, dtype=torch.float64) for n, v in (columns or {}).items()}
        batch = TokenBatch(
            **{f"{name}_BT": value for name, value in fields.items()},
            mask_BT=torch.ones_like(ratio_BT, dtype=torch.bool),
            advantage_B=torch.tensor(advantages, dtype=torch.float64),
            columns=columns,
            token_columns={
                n: torch.tensor(v, dtype=torch.float64).view_as(ratio_BT)
                for n, v in (own or {}).items()
            },
        )
        totals = Totals(ratio_BT.numel(), len(ratio_BT), max_length)
        value = -objective.loss(objective.build(spec), batch, totals).value
        leaves = [fields[name] for name in LEAVES]
        made = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
        by_leaf = {name: g.squeeze(-1).numpy() for name, g in zip(LEAVES, made, strict=True)}
        return SimpleNamespace(value=value.item(), slope=by_leaf["logp"], by=by_leaf)

    return run


@pytest.fixture
def counted():
    """How many tokens a choice of them counts as chosen and in all: one of two, and one masked."""

    def run(spec, column):
        batch = TokenBatch(
            logp_BT=torch.zeros(1, 3, requires_grad=True),
            old_logp_BT=torch.zeros(1, 3),
            mask_BT=torch.tensor([[True, True, False]]),
            advantage_B=torch.ones(1),
            entropy_BT=torch.zeros(1, 3),
            token_columns={column: torch.tensor([[1.0, 0.0, 1.0]])},
        )
        goal = objective.build(spec)
        result = objective.loss(goal, batch, Totals(tokens=2, sequences=1, max_length=3))
        metrics = objective.token_metrics(goal, batch, result)
        return metrics[column], metrics[f"{column}_among"]

    return run
