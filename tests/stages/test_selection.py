"""Which prompts a step takes, and that it reads no others."""

import itertools

import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import seeds
from rlvr_cli.stages import prompt_rewards
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import rows
from tests.stages.definitions import selected

NAMES = [f"p{number}" for number in range(29)]
MANY = [f"p{number:05d}" for number in range(3000)]


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("limit", [None, 21, 500])
def test_a_step_takes_the_prompts_that_sorting_all_of_them_would_give(prompts_named, seed, limit):
    made = prompts_named(*NAMES)
    for step, size, draw in itertools.product([0, 1, 4, 9, 30], [1, 4, 20, None], [0, 1, 2, 5]):
        selection = Selection(seed, step, size, limit, draw)
        assert selection.of(made).tolist() == selected(selection, NAMES)


def test_a_step_of_more_prompts_than_there_are_is_refused(prompts_named):
    with pytest.raises(UsageError, match="a step takes 30 prompts, and there are 29"):
        Selection(prompts_per_step=30).of(prompts_named(*NAMES))


def test_steps_read_only_the_parts_that_hold_their_prompts(prompts_named):
    made = prompts_named(*MANY)
    known = rows.of(made)
    golds = prompt_rewards.check(made, verifier=None, allow_code=False)
    for number in (1, 2):
        (made.path / f"part-{number:05d}.parquet").unlink()
    steps = (Selection(step=step, prompts_per_step=2).of(made).tolist() for step in range(1, 40))
    (numbers,) = itertools.islice((s for s in steps if max(s) < 1024), 1)
    names = [MANY[number] for number in numbers]
    assert known.take(numbers, ["prompt_id"])["prompt_id"].to_pylist() == names
    again = prompt_rewards.check(made, verifier=None, allow_code=False)
    again.prepare(names)
    assert [again.of(name).answer for name in names] == names
    assert again.columns == golds.columns


def test_a_seed_derived_for_many_is_that_of_one():
    for name in ("p1", "", "ü\x1f", "\ud800"):
        assert seeds.deriving("order", 3, 0)(name) == seeds.derive("order", 3, 0, name)
