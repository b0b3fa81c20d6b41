"""The learning rate of each update, in numbers worked by hand: W 4, D 12, peak 0.8."""

import math

import pytest

from rlvr_cli.algorithms import lr_schedule
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import UsageError


def options(kind="constant", *, warmup=4, decay=12, least=0.0):
    return UpdateOptions(
        learning_rate=0.8,
        schedule=kind,
        warmup_updates=warmup,
        decay_updates=0 if kind == "constant" else decay,
        min_rate=least,
    )


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("update", "rate"), [(0, 0.2), (1, 0.4), (2, 0.6), (3, 0.8), (4, 0.8)])
def test_the_rate_rises_in_equal_steps_to_the_peak_and_is_there_once_more(kind, update, rate):
    assert lr_schedule.rate(options(kind), update) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "update", "rate"),
    [
        ("constant", 10**6, 0.8),
        ("linear", 5, 0.7),
        ("linear", 8, 0.4),
        ("linear", 11, 0.1),
        ("linear", 12, 0.0),
        ("linear", 10**6, 0.0),
        ("cosine", 6, 0.4 * (1 + math.sqrt(0.5))),
        ("cosine", 8, 0.4),
        ("cosine", 10, 0.4 * (1 - math.sqrt(0.5))),
        ("cosine", 12, 0.0),
        ("cosine", 10**6, 0.0),
    ],
)
def test_the_rate_falls_from_the_peak_to_nothing_and_stays(kind, update, rate):
    assert lr_schedule.rate(options(kind), update) == pytest.approx(rate, rel=1e-12, abs=1e-16)


@pytest.mark.parametrize(
    ("kind", "update", "rate"),
    [
        ("linear", 4, 0.8),
        ("linear", 8, 0.5),
        ("linear", 12, 0.2),
        ("cosine", 8, 0.5),
        ("cosine", 12, 0.2),
        ("cosine", 99, 0.2),
    ],
)
def test_the_rate_falls_to_its_share_of_the_peak(kind, update, rate):
    assert lr_schedule.rate(options(kind, least=0.25), update) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_without_a_warm_up_the_first_update_has_the_full_rate(kind):
    assert lr_schedule.rate(options(kind, warmup=0), 0) == 0.8
    assert lr_schedule.rate(options(kind, warmup=0), 6) == pytest.approx(0.4)


def test_by_default_every_update_has_the_learning_rate():
    assert {lr_schedule.rate(UpdateOptions(), update) for update in (0, 1, 10**6)} == {1e-6}


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("decay", [0, 3, 4])
def test_a_decay_that_ends_before_it_begins_is_refused(kind, decay):
    with pytest.raises(UsageError, match="--decay-updates is") as caught:
        lr_schedule.check(options(kind, decay=decay))
    assert "more than those of the warm-up" in caught.value.hint
    lr_schedule.check(options(kind, decay=5))


@pytest.mark.parametrize("knob", [{"decay_updates": 9}, {"min_rate": 0.1}])
def test_an_end_without_a_decay_is_refused(knob):
    with pytest.raises(UsageError, match="a constant rate does not fall"):
        lr_schedule.check(UpdateOptions(**knob))
