"""The definitions of token statistics and of the sampling noise."""

import math

import pytest
import torch
from scipy import stats
from torch import tensor

from rlvr_cli.kernels import reference, sizes
from rlvr_cli.kernels.reference import gumbel, token_stats

SIZES = [(1, 8, 11), (7, 16, 63), (5, 4, 252)]


def problem(rows, hidden, vocabulary, *, seed=0, dtype=torch.float64):
    rng = torch.Generator().manual_seed(seed)
    hidden_NH = torch.randn(rows, hidden, generator=rng, dtype=torch.float64)
    head_VH = torch.randn(vocabulary, hidden, generator=rng, dtype=torch.float64) / hidden**0.5
    bias_V = torch.randn(vocabulary, generator=rng, dtype=torch.float64)
    target_N = torch.randint(vocabulary, (rows,), generator=rng)
    return hidden_NH.to(dtype), head_VH.to(dtype), bias_V.to(dtype), target_N


def direct(hidden_NH, head_VH, bias_V, target_N, temperature):
    """Log-prob, entropy and largest probability, by exponentials and sums."""
    logits_NV = (hidden_NH @ head_VH.T + bias_V) / temperature
    weight_NV = (logits_NV - logits_NV.max(-1, keepdim=True).values).exp()
    prob_NV = weight_NV / weight_NV.sum(-1, keepdim=True)
    logp_N = prob_NV[torch.arange(len(target_N)), target_N].log()
    entropy_N = -torch.special.xlogy(prob_NV, prob_NV).sum(-1)
    return logp_N, entropy_N, prob_NV.max(-1).values


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_statistics_are_those_of_the_softmax(sizes, temperature):
    hidden, head, bias, target = problem(*sizes)
    result = token_stats(hidden, head, target, bias_V=bias, temperature=temperature)
    for one, other in zip(result[:3], direct(hidden, head, bias, target, temperature), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"temperature": 0.3}, {"softcap": 1.5, "vocabulary": 50}])
def test_the_collision_is_the_sum_of_squared_probabilities(monkeypatch, options):
    hidden, head, bias, _ = problem(7, 16, 63)
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", 3 * 63)
    made = reference.collision(hidden, head, bias_V=bias, **options)
    logits = (hidden @ head.T + bias)[:, : options.get("vocabulary")]
    if cap := options.get("softcap"):
        logits = cap * (logits / cap).tanh()
    expected = (logits / options.get("temperature", 1)).softmax(-1).square().sum(-1)
    torch.testing.assert_close(made, expected, rtol=1e-12, atol=0)


def test_a_hand_worked_token():
    # Logits log 1, log 2, log 5 at temperature 1: probabilities 1/8, 1/4, 5/8.
    head = tensor([[math.log(1)], [math.log(2)], [math.log(5)]], dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    result = token_stats(one, head, tensor([1]))
    entropy = math.log(8) / 8 + math.log(4) / 4 + 5 / 8 * math.log(8 / 5)
    assert [float(value) for value in result[:3]] == pytest.approx([-math.log(4), entropy, 5 / 8])
    # Halving the temperature squares the weights: 1, 4, 25.
    result = token_stats(one, head, tensor([1]), temperature=0.5)
    assert float(result.logp_N) == pytest.approx(math.log(4 / 30))


def gradients(hidden, head, bias, target, *, entropy_gradient, of):
    leaves = [value.detach().clone().requires_grad_() for value in (hidden, head, bias)]
    result = token_stats(
        leaves[0], leaves[1], target, bias_V=leaves[2], temperature=0.7,
        entropy_gradient=entropy_gradient,
    )  # fmt: skip
    return torch.autograd.grad(of(result).sum(), leaves)


def test_the_gradient_of_the_log_prob_is_the_indicator_less_the_probability():
    hidden, head, bias, target = problem(5, 4, 9)
    result = gradients(hidden, head, bias, target, entropy_gradient=False, of=lambda s: s.logp_N)
    prob_NV = torch.softmax((hidden @ head.T + bias) / 0.7, -1)
    by_logits_NV = (torch.nn.functional.one_hot(target, 9) - prob_NV) / 0.7
    expected = by_logits_NV @ head, by_logits_NV.T @ hidden, by_logits_NV.sum(0)
    for one, other in zip(result, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_the_gradients_are_those_of_finite_differences():
    hidden, head, bias, target = problem(3, 4, 6)

    def both(hidden, head, bias):
        result = token_stats(
            hidden, head, target, bias_V=bias, temperature=0.7, entropy_gradient=True
        )
        return result.logp_N, result.entropy_N

    leaves = [value.requires_grad_() for value in (hidden, head, bias)]
    assert torch.autograd.gradcheck(both, leaves)


def test_the_entropy_has_a_gradient_only_if_asked_and_the_largest_probability_never():
    hidden, head, bias, target = problem(3, 4, 6)
    result = token_stats(hidden.requires_grad_(), head, target, bias_V=bias)
    assert result.logp_N.requires_grad and not result.entropy_N.requires_grad
    result = token_stats(hidden, head, target, bias_V=bias, entropy_gradient=True)
    assert result.entropy_N.requires_grad and not result.max_prob_N.requires_grad
    with torch.no_grad():
        result = token_stats(hidden, head, target, bias_V=bias, entropy_gradient=True)
    assert not any(value.requires_grad for value in result[:3])


@pytest.mark.parametrize("chunk_rows", [1, 2, 3, 6])
@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_chunks_of_rows_change_nothing(monkeypatch, chunk_rows, entropy_gradient):
    values = problem(7, 8, 21)

    def mix(made):
        entropy_N = made.entropy_N if entropy_gradient else 0.0
        return made.logp_N * torch.arange(1, 8) + 3 * entropy_N

    complete = token_stats(*values[:2], values[3], bias_V=values[2])
    by_whole = gradients(*values, entropy_gradient=entropy_gradient, of=mix)
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", 21 * chunk_rows)
    chunked = token_stats(*values[:2], values[3], bias_V=values[2])
    by_chunked = gradients(*values, entropy_gradient=entropy_gradient, of=mix)
    for one, other in zip((*chunked[:3], *by_chunked), (*complete[:3], *by_whole), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_a_vocabulary_beyond_the_chunk_size_is_done_row_by_row(monkeypatch):
    hidden, head, bias, target = problem(4, 8, 21)
    complete = token_stats(hidden, head, target, bias_V=bias)
    monkeypatch.setattr(sizes, "CHUNK_ELEMENTS", 5)
    chunked = token_stats(hidden, head, target, bias_V=bias)
    for one, other in zip(chunked[:3], complete[:3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-13)


def test_no_rows_have_no_statistics():
    hidden, head, _, target = problem(3, 4, 6)
    result = token_stats(hidden[:0].requires_grad_(), head, target[:0])
    assert [value.shape for value in result[:3]] == [(0,)] * 3
    result.logp_N.sum().backward()


def test_half_precision_inputs_give_float32_statistics_near_the_truth():
    hidden, head, bias, target = problem(64, 32, 99, dtype=torch.bfloat16)
    result = token_stats(hidden, head, target, bias_V=bias)
    assert {value.dtype for value in result[:3]} == {torch.float32}
    truth = direct(hidden.double(), head.double(), bias.double(), target, 1.0)
    # Logits of at most 8 are rounded to bf16, by 2^-9 of their size.
    for one, other in zip(result[:3], truth, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=8 * 2.0**-8)


def test_float32_is_within_its_rounding_of_float64():
    hidden, head, bias, target = problem(64, 32, 99, dtype=torch.float32)
    result = token_stats(hidden, head, target, bias_V=bias)
    truth = direct(hidden.double(), head.double(), bias.double(), target, 1.0)
    for one, other in zip(result[:3], truth, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_logits_of_minus_infinity_add_nothing_and_keep_gradients_finite(dtype):
    hidden, head, bias, target = problem(5, 4, 9, dtype=dtype)
    bias[[2, 5]] = -torch.inf
    target = tensor([0, 1, 3, 4, 8])
    kept = tensor([0, 1, 3, 4, 6, 7, 8])
    where = tensor([0, 1, 2, 3, 6])
    result = token_stats(hidden, head, target, bias_V=bias)
    without = token_stats(hidden, head[kept], where, bias_V=bias[kept])
    for one, other in zip(result[:3], without[:3], strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-3 if dtype == torch.float16 else 1e-6, atol=0
        )
    by = gradients(
        hidden, head, bias, target, entropy_gradient=True, of=lambda s: s.logp_N + s.entropy_N
    )
    assert all(bool(value.isfinite().all()) for value in by)


def test_a_target_of_minus_infinity_has_log_prob_minus_infinity():
    hidden, head, bias, _ = problem(1, 4, 9)
    bias[2] = -torch.inf
    result = token_stats(hidden, head, tensor([2]), bias_V=bias)
    assert float(result.logp_N) == -math.inf and math.isfinite(float(result.entropy_N))


def test_extreme_logits_stay_finite():
    head = tensor([[1e4], [-1e4], [0.0]])
    result = token_stats(torch.ones(3, 1), head, tensor([0, 1, 2]))
    assert result.logp_N.tolist() == [0, -2e4, -1e4]
    assert result.entropy_N.tolist() == [0, 0, 0]


@pytest.mark.parametrize("softcap", [None, 1.5])
def test_the_logsumexp_is_that_of_the_capped_logits_and_padding_is_no_token(softcap):
    hidden, head, bias, target = problem(5, 4, 9)
    leaves = [value.requires_grad_() for value in (hidden, head, bias)]
    options = {"temperature": 0.7, "softcap": softcap, "vocabulary": 6}
    target = target % 6
    result = token_stats(hidden, head, target, bias_V=bias, **options)
    logits_NV = (hidden @ head.T + bias)[:, :6]
    if softcap:
        logits_NV = softcap * torch.tanh(logits_NV / softcap)
    logits_NV = logits_NV / 0.7
    torch.testing.assert_close(result.logsumexp_N, logits_NV.logsumexp(-1), rtol=1e-12, atol=0)
    logp_N = logits_NV.log_softmax(-1)[range(5), target]
    torch.testing.assert_close(result.logp_N, logp_N, rtol=1e-12, atol=0)

    def function(*values):
        result = token_stats(
            *values[:2], target, bias_V=values[2], entropy_gradient=True, **options
        )
        return result.logp_N, result.entropy_N, result.logsumexp_N

    assert torch.autograd.gradcheck(function, leaves)
    _, by_head, _ = torch.autograd.grad(result.logp_N.sum(), leaves)
    assert by_head[:6].any() and not by_head[6:].any()


# The draw.


def drawn(logits_V, count=4000, **options):
    """How often each token is drawn, by as many seeds."""
    logits_BV = tensor(logits_V).expand(count, -1)
    completions = reference.sample(logits_BV, torch.arange(count), 0, **options)
    return torch.bincount(completions.token_B, minlength=len(logits_V)).numpy(), completions


def test_a_draw_is_from_the_policy_less_its_memory():
    # exp(f - mu m) = 1, 2, 4 and 1 of weights 4, 4, 8 and 1 less memories 4, 2, 2 and 1 at mu 1.
    policy, memory = tensor([4.0, 4, 8, 1]).log(), tensor([4.0, 2, 2, 1]).log()
    counts, result = drawn(policy.tolist(), memory_BV=memory.expand(4000, -1), mu=1.0)
    assert stats.chisquare(counts, 4000 * tensor([1, 2, 4, 1]).numpy() / 8).pvalue > 1e-3
    by_sample, by_policy = tensor([1.0, 2, 4, 1]) / 8, tensor([4.0, 4, 8, 1]) / 17
    torch.testing.assert_close(result.logp_B.exp(), by_sample[result.token_B])
    torch.testing.assert_close(result.policy_logp_B.exp(), by_policy[result.token_B])


def test_a_draw_without_memory_is_the_argmax_of_noisy_logits():
    logits = torch.randn(6, 30, generator=torch.Generator().manual_seed(0))
    completions = reference.sample(logits, torch.arange(6), 3, temperature=0.5)
    logp = (logits / 0.5).log_softmax(-1)
    expected = (logp.double() + gumbel(torch.arange(6), 3, 30)).argmax(-1)
    assert torch.equal(completions.token_B, expected)
    assert torch.equal(completions.logp_B, logp[range(6), expected])
    assert torch.equal(completions.policy_logp_B, completions.logp_B)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"top_p": 0.5}, [0, 3]),  # 0.4 is not enough
        ({"top_p": 0.8}, [0, 1, 2, 3]),  # of the two of 0.15 both
        ({"top_p": 0.3}, [0]),
        ({"min_prob": 0.3}, [0, 1, 2, 3]),  # 0.3 * 0.4 = 0.12
        ({"min_prob": 0.5, "top_p": 0.5}, [0]),  # 0.4 of 0.65
    ],
)
def test_only_likely_tokens_are_drawn(options, kept):
    prob = tensor([0.4, 0.15, 0.15, 0.25, 0.0, 0.05])
    counts, result = drawn(prob.log().tolist(), count=600, **options)
    assert counts.nonzero()[0].tolist() == kept
    torch.testing.assert_close(
        result.logp_B.exp(), (prob / prob[kept].sum())[result.token_B], rtol=1e-5, atol=0
    )


# The noise.


def test_the_noise_of_today_is_that_of_tomorrow():
    pinned = [
        [-1.2149679724652325, 1.7942544308345005, -0.8519845508918],
        [0.23124927467106673, 0.82318679679626, 0.11838992989750721],
        [1.0153948476070707, 0.7991195348663997, 1.819015283376308],
    ]
    result = gumbel(tensor([0, 1, 2**63 - 1]), 5, 3)
    torch.testing.assert_close(result, tensor(pinned, dtype=torch.float64), rtol=1e-12, atol=0)


def splitmix(value):
    """The finaliser of splitmix64, on Python's integers."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
    return value ^ (value >> 31)


def test_the_wrapping_hash_is_splitmix_on_unsigned_integers():
    for seed, position in [(0, 0), (1824301373495888834, 3), (2**63 - 1, 511), (2**62, 2**31)]:
        key = splitmix(seed ^ splitmix(position))
        bits = [splitmix((key + (token + 1) * 0x9E3779B97F4A7C15) % 2**64) for token in range(50)]
        expected = [-math.log(-math.log(((b >> 11) + 0.5) / 2**53)) for b in bits]
        assert gumbel(tensor([seed]), position, 50)[0].tolist() == pytest.approx(
            expected, rel=1e-12
        )


def test_a_rows_noise_has_the_same_bits_whatever_its_batch_mates():
    seeds = tensor([12345678901234567, 5, 2**62 + 1])
    together = gumbel(seeds, 9, 40)
    for row in range(3):
        assert torch.equal(gumbel(seeds[row : row + 1], 9, 40)[0], together[row])
    assert torch.equal(gumbel(seeds.flip(0), 9, 40).flip(0), together)


def test_a_tokens_noise_does_not_depend_on_the_size_of_the_vocabulary():
    assert torch.equal(gumbel(tensor([7]), 3, 99)[:, :40], gumbel(tensor([7]), 3, 40))


def test_seeds_positions_and_tokens_all_have_noise_of_their_own():
    noise = torch.stack([gumbel(torch.arange(50), position, 40) for position in range(20)])
    assert len(noise.unique()) == noise.numel()


def uniforms(noise):
    return (-(-noise).exp()).exp().flatten()


def test_the_noise_is_gumbel_distributed():
    u = uniforms(torch.cat([gumbel(torch.arange(500), position, 40) for position in range(10)]))
    assert u.min() > 0 and u.max() < 1
    assert float(u.mean()) == pytest.approx(1 / 2, abs=4 * (1 / 12 / len(u)) ** 0.5)
    assert float(u.var()) == pytest.approx(1 / 12, abs=4 * (1 / 180 / len(u)) ** 0.5)
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3


def test_neighbouring_counters_are_not_correlated():
    count = 1000
    u = torch.stack([uniforms(gumbel(tensor([seed]), 0, count)) for seed in range(3)])
    bound = 4 / count**0.5
    assert abs(float(torch.corrcoef(u)[0, 1])) < bound
    assert abs(float(torch.corrcoef(torch.stack([u[0, 1:], u[0, :-1]]))[0, 1])) < bound
    by_position = torch.cat([uniforms(gumbel(tensor([1]), p, 1)) for p in range(count)])
    pairs = torch.stack([by_position[1:], by_position[:-1]])
    assert abs(float(torch.corrcoef(pairs)[0, 1])) < bound


@pytest.mark.parametrize("vary", ["seed", "position"])
def test_the_argmax_of_noisy_logits_is_a_sample_of_the_softmax(vary):
    prob = tensor([0.4, 0.3, 0.15, 0.1, 0.04, 0.01], dtype=torch.float64)
    count = 6000 if vary == "seed" else 1500
    if vary == "seed":
        noise = gumbel(torch.arange(count), 0, 6)
    else:
        noise = torch.cat([gumbel(tensor([3]), position, 6) for position in range(count)])
    drawn = torch.bincount((prob.log() + noise).argmax(-1), minlength=6)
    assert stats.chisquare(drawn.numpy(), (prob * count).numpy()).pvalue > 1e-3
