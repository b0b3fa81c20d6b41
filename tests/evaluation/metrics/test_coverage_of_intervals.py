"""95% intervals hold the true mean 93 times in 100 or more, near 0 and 1 and with few prompts too.

The simulation is that of docs/evaluation.md, with fewer draws.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from rlvr_cli.evaluation.metrics import bootstrap

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "interval_coverage.py"
SPEC = importlib.util.spec_from_file_location("interval_coverage", SCRIPT)
simulation = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(simulation)
DRAWS = 200
# Fewer hits than this have a chance of 1 in 100,000 where 93 in 100 intervals hold.
LEAST = stats.binom.ppf(1e-5, DRAWS, 0.93) / DRAWS

pytestmark = pytest.mark.slow


def kinds(n: int) -> list[int]:
    return [1, n] if n > 1 else [1]


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("p", simulation.MEANS)
def test_the_interval_of_a_run_holds(p, n):
    rng, held = np.random.default_rng(0), []
    for prompts in simulation.PROMPTS:
        for k in kinds(n):
            for value, truth in simulation.alone(p, prompts, n, k, DRAWS, rng):
                ends = simulation.ours_alone(value)
                assert np.all(ends[0] < ends[1])
                held.append(simulation.held(ends, truth))
    assert min(held) >= LEAST
    assert np.mean(held) >= 0.945


@pytest.mark.parametrize("n", [1, 4, 16])
@pytest.mark.parametrize("p", simulation.MEANS)
def test_the_interval_of_a_paired_difference_holds(p, n):
    rng, held = np.random.default_rng(1), []
    for prompts in simulation.PROMPTS:
        for k in kinds(n):
            for first, second, truth in simulation.paired(p, prompts, n, k, DRAWS, rng):
                ends = simulation.ours_paired(first, second)
                assert np.all(ends[0] < ends[1])
                held.append(simulation.held(ends, truth))
    assert min(held) >= LEAST
    assert np.mean(held) >= 0.945


def test_the_simulation_finds_what_does_not_hold():
    rng = np.random.default_rng(0)
    value, truth = next(iter(simulation.alone(0.98, 43, 1, 1, DRAWS, rng)))
    made = bootstrap.mean_interval(value, resamples=500)
    assert simulation.held((made.low_M, made.high_M), truth) < 0.7
    assert np.mean(made.low_M == made.high_M) > 0.3
    first, second, truth = list(simulation.paired(0.98, 43, 1, 1, DRAWS, rng))[-1]
    assert simulation.held(simulation.student(second - first), truth) < 0.7


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("population", simulation.ALONE)
def test_the_truth_of_the_simulation_is_that_of_many_prompts(population, k):
    rng = np.random.default_rng(0)
    rate = population(0.9, rng, (200_000, 1))
    drawn = simulation.outcomes(rate, 4, k, rng).mean()
    assert drawn == pytest.approx(1 - simulation.fail(population, 0.9, k), abs=0.004)
