import numpy as np

from rlvr_cli.report import comparing, subject
from rlvr_cli.report.rows import ENTROPY_BIN, ScoredRows


def test_buckets_are_those_of_the_paper_and_flips_are_counted():
    before = np.array([0, 8, 9, 32, 33, 128, 129, 256, 0]) / 256
    after = np.array([0, 0, 9, 0, 33, 128, 129, 0, 1]) / 256
    made = comparing._buckets(before, after)
    assert [(b.name, b.prompts, b.gained, b.lost) for b in made] == [
        ("very hard", 3, 1, 1), ("hard", 2, 0, 1), ("medium", 2, 0, 0), ("easy", 2, 0, 1),
    ]  # fmt: skip
    assert made[1].before[0] == (9 + 32) / 2 / 256 and made[1].after[0] == 9 / 2 / 256


def test_an_empty_bucket_has_no_mean():
    made = comparing._buckets(np.array([1.0]), np.array([1.0]))
    assert [b.before for b in made] == [None, None, None, [1.0, None, None]]


def test_all_k_up_to_32_then_about_as_many_with_the_powers_of_two():
    assert subject.spaced_ks(3) == [1, 2, 3] and subject.spaced_ks(1) == [1]
    ks = subject.spaced_ks(1000)
    assert {1, 2, 4, 256, 512, 1000} <= set(ks) and len(ks) < 45 and ks == sorted(ks)


def test_entropies_of_all_parts_are_counted_once(chain, rlvr, tmp_path):
    from rlvr_cli.report import rows
    from rlvr_cli.storage import lineage

    out = tmp_path / "logprobs"
    rlvr("logprob", chain / "rollouts", "--model=builtin", "--out", out)
    found = lineage.find(out)
    made = rows.read(found, threshold=0.8)
    values = np.concatenate([np.array(v) for v in found.logprobs.table()["entropy"].to_pylist()])
    assert made.entropy_count.sum() == len(values) == made.length_N.sum()
    first = (values < ENTROPY_BIN).sum()
    assert made.entropy_count[0] == first
    total = sum(sum_ for sum_, _ in made.entropy.values())
    assert np.isclose(total, values.sum(dtype=np.float64))


def test_rows_begin_empty():
    assert ScoredRows().prompt_id == [] and len(ScoredRows().verdict_N) == 0
