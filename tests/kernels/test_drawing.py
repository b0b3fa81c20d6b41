"""The noise of version 2 and what is kept of a distribution, against what others publish."""

import math

import pytest
import torch
from scipy import stats
from torch import tensor

from rlvr_cli.kernels import checks, drawing

# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, output
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


@pytest.mark.parametrize("counter, key, output", KNOWN)
def test_the_bits_are_those_of_the_papers_authors(counter, key, output):
    counter, key, output = (
        tuple(tensor([int(word, 16)]) for word in words.split()) for words in (counter, key, output)
    )
    assert drawing.philox(counter, key) == output
    arrays = (tuple(word.numpy() for word in part) for part in (counter, key))
    assert drawing.philox(*arrays) == output


def test_each_row_position_and_token_has_bits_of_its_own_whatever_is_beside_it():
    seed_B, position_B = tensor([5, 5, 6, -(2**63)]), tensor([0, 1, 0, 0])
    high_BV, low_BV = drawing.words(seed_B, position_B, 5000)
    every = set(zip(high_BV.flatten().tolist(), low_BV.flatten().tolist(), strict=True))
    assert len(every) == 4 * 5000
    for i in range(4):
        alone = drawing.words(seed_B[i : i + 1], position_B[i : i + 1], 1500)
        assert torch.equal(alone[0][0], high_BV[i, :1500])
        assert torch.equal(alone[1][0], low_BV[i, :1500])


def test_waits_are_exponential_and_reach_the_tail_that_lets_a_rare_token_win():
    """9.6e6 draws, seeded: of each octave of the tail as many as expected, down to 2^-20."""
    count = 0
    bins = torch.zeros(22, dtype=torch.int64)
    values = []
    for i in range(8):
        waits = drawing.log2_waits(torch.arange(8) + 8 * i, torch.full((8,), i), 150_000)
        nats = waits + math.log2(math.log(2))  # log2 of the wait in nats
        bins += torch.histc((-nats).clamp(-1, 20.99), 22, -1, 21).long()
        values.append((nats[0, :2000]).exp2())
        count += waits.numel()
    share = -(-(2.0 ** -torch.arange(-1, 22.0, dtype=torch.float64))).expm1()  # P(wait < 2^-e)
    expected = share[:-1] - share[1:]
    expected[0], expected[-1] = 1 - share[1], share[-2]
    assert float(expected[-1]) * count > 4  # the rarest bin is of waits below 2^-20
    assert stats.chisquare(bins.tolist(), (expected * count).tolist()).pvalue > 1e-3
    assert stats.kstest(torch.cat(values).tolist(), "expon").pvalue > 1e-3


def test_both_ends_of_the_bits_are_exact(monkeypatch):
    ends = tensor([[0, 0, 2**32 - 1, 2**32 - 1, 2**31 - 1, 2**31]])
    low = tensor([[0, 1, 2**32 - 1, 2**32 - 2, 2**32 - 1, 0]])
    monkeypatch.setattr(drawing, "words", lambda *_: (ends, low))
    waits = drawing.log2_waits(tensor([0]), tensor([0]), 6).exp2()[0]
    expected = [2.0**-65 / math.log(2), 3 * 2.0**-65 / math.log(2), 65, 65 - math.log2(3), 1, 1]
    assert waits.tolist() == pytest.approx(expected, rel=1e-12)


def test_a_token_of_probability_1e_minus_9_is_drawn_where_its_noise_says_so(monkeypatch):
    """24 bits of noise stop at a wait of 2^-24, with which no such token ever wins."""
    logits = torch.zeros(1, 2)
    logits[0, 1] = math.log(1e-9)
    for high, token in ((2, 0), (1, 1)):  # of 2^32
        words = (tensor([[2**30, high]]), tensor([[0, 0]]))
        monkeypatch.setattr(drawing, "words", lambda *_, words=words: words)
        drawn = drawing.draw(logits, tensor([0]), tensor([0]))
        assert drawn.token_B.tolist() == [token]
    assert float(drawn.logp_B) == pytest.approx(math.log(1e-9), abs=1e-5)


def kept(logits, **options):
    """The tokens that a row gives, over many seeds; each has at least 1 in 40."""
    rows = 800
    drawn = drawing.draw(
        tensor(logits).expand(rows, -1).contiguous(), torch.arange(rows), torch.zeros(rows).long(),
        **options,
    )  # fmt: skip
    return set(drawn.token_B.tolist())


def test_equals_of_the_last_kept_token_are_kept():
    logits = [2.0, 1, 1, 1, -1, 0]
    assert kept(logits, top_k=2) == kept(logits, top_k=4) == {0, 1, 2, 3}
    assert kept(logits, top_k=5) == {0, 1, 2, 3, 5}
    assert kept(logits, top_k=0) == kept(logits, top_k=9) == set(range(6))
    assert kept(logits, top_p=0.4) == {0} and kept(logits, top_p=0.5) == {0, 1, 2, 3}
    assert kept(logits, top_k=4, top_p=0.99) == {0, 1, 2, 3}
    assert kept([-math.inf, 0.0, -math.inf], top_k=2) == {1}


def test_halves_of_the_mass_are_cut_to_the_token():
    logits = [math.log(x) for x in (0.5, 0.25, 0.125, 0.125)]
    assert kept(logits, top_p=0.5) == {0}
    assert kept(logits, top_p=0.5001) == {0, 1}
    assert kept(logits, top_p=0.75) == {0, 1}
    assert kept(logits, top_p=0.76) == {0, 1, 2, 3}


def test_tokens_are_as_frequent_as_the_distribution_says():
    logits = tensor([0.3, -1.0, 2.0, 0.0, -4.0])
    drawn = drawing.draw(
        logits.expand(20_000, -1).contiguous(), torch.arange(20_000), torch.arange(20_000) % 7,
        temperature=1.5,
    )  # fmt: skip
    expected = (logits / 1.5).double().softmax(-1) * 20_000
    counts = torch.bincount(drawn.token_B, minlength=5)
    assert stats.chisquare(counts.tolist(), expected.tolist()).pvalue > 1e-3


def test_log_probs_are_those_of_what_is_sampled_and_of_the_policy():
    rng = torch.Generator().manual_seed(0)
    policy, memory = torch.randn(2, 4, 50, generator=rng)
    drawn = drawing.draw(
        policy, torch.arange(4), torch.arange(4), memory_BV=memory, mu=0.5, temperature=0.7,
        min_prob=0.05,
    )  # fmt: skip
    wide = policy.double() / 0.7
    mixed = wide - 0.5 * memory.double() / 0.7
    mixed[wide < wide.amax(-1, keepdim=True) + math.log(0.05)] = -math.inf
    for made, logits in ((drawn.logp_B, mixed), (drawn.policy_logp_B, wide)):
        truth = logits.log_softmax(-1).gather(-1, drawn.token_B[:, None])[:, 0]
        torch.testing.assert_close(made.double(), truth, rtol=0, atol=5e-6)


def test_positions_and_numbers_that_make_no_sense_are_refused():
    logits, seeds = torch.zeros(2, 5), torch.arange(2)
    with pytest.raises(checks.BadInput, match="position_B"):
        drawing.draw(logits, seeds, torch.zeros(2))
    with pytest.raises(checks.BadInput, match="top_k is -1"):
        drawing.draw(logits, seeds, seeds, top_k=-1)
