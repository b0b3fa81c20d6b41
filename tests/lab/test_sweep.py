import numpy as np
import pytest

from rlvr_cli.errors import UsageError
from rlvr_cli.lab import outcome, panels, sharpening, sweep, two_stage
from rlvr_cli.lab.bandit import Trajectories, simulate
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.systems import bandit, classes
from rlvr_cli.storage.shards import Shards

RUNS = [
    sweep.LabRun(
        "three", bandit((0.5, 1.0, 0.0), (0.5, 0.05, 0.45)), Settings("dr-grpo", 2, 0.1, 60)
    ),
    sweep.LabRun("classes", classes(), Settings("grpo", 4, 1.0, 20)),
]


def test_the_shards_hold_what_was_simulated(tmp_path):
    made = sweep.make(tmp_path / "t", "lab test", RUNS, seeds=3, jobs=1)
    trajectories = sweep.read(Shards.open(tmp_path / "t", "trajectories"), RUNS)
    for run in RUNS:
        alone = simulate(run.system, run.settings, range(3))
        np.testing.assert_array_equal(trajectories(run.name).step_R, alone.step_R)
        np.testing.assert_array_equal(
            trajectories(run.name).probability_SRQA, alone.probability_SRQA
        )
    table = made.table()
    assert table["run"].unique().to_pylist() == ["three", "classes"]
    assert table["a1"].null_count == 3 * 21 and table["persian_cat"].null_count == 3 * 61


@pytest.mark.slow
def test_runs_are_resumed_and_processes_change_no_byte(tmp_path, files_of):
    states = []
    for name, jobs in (("one", 1), ("two", 2)):
        sweep.make(tmp_path / name, "lab test", RUNS, seeds=2, jobs=jobs)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    (tmp_path / "one" / "part-00001.parquet").unlink()
    sweep.make(
        tmp_path / "one", "lab test", RUNS, seeds=2, jobs=1,
        on_part=lambda index, state: states.append(state),
    )  # fmt: skip
    assert states == ["kept", "rewritten"]
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    with pytest.raises(UsageError, match=r"other parameters: seeds was 2, is 3$"):
        sweep.make(tmp_path / "one", "lab test", RUNS, seeds=3, jobs=1)
    found = r"parameters: runs was \['three', 'classes'\], is \['three'\]; systems was"
    with pytest.raises(UsageError, match=found):
        sweep.make(tmp_path / "one", "lab test", RUNS[:1], seeds=2, jobs=1)


def test_a_spec_that_cannot_run_is_refused_before_anything_is_made(tmp_path):
    runs = [*RUNS, sweep.LabRun("bad", classes(), Settings("apo"))]
    with pytest.raises(UsageError, match="anchors to 8"):
        sweep.make(tmp_path / "t", "lab test", runs, seeds=2, jobs=1)
    assert not (tmp_path / "t").exists()


def test_outcomes_of_probabilities_known_by_hand():
    cat_dog_persian = [[0.4, 0.2, 0.4, 0], [0.9, 0.04, 0.06, 0], [0.97, 0.01, 0.02, 0]]
    made = Trajectories(np.array([0, 10, 20]), np.array([cat_dog_persian])[:, :, None, :])
    system = classes()
    assert outcome.curve(system, made, "success")[0] == pytest.approx([0.8, 0.96, 0.99])
    assert outcome.curve(system, made, "share")[0] == pytest.approx([0.5, 0.9 / 0.96, 0.97 / 0.99])
    assert outcome.curve(system, made, "smaller")[0] == pytest.approx([0.4, 0.06, 0.02])
    assert outcome.curve(system, made, "reward")[0] == pytest.approx([0.8, 0.96, 0.99])
    assert outcome.curve(system, made, "entropy")[0, 0] == pytest.approx(1.0549, abs=1e-4)
    assert (outcome.solved_step(system, made), outcome.collapse_step(system, made)) == (10, 20)
    value = outcome.curve(system, made, "larger")
    assert outcome.at_step(made, value, np.array([10.0])) == pytest.approx([0.9])
    assert outcome.at_step(made, value, np.array([np.inf])) == pytest.approx([0.97])
    summary = outcome.summary(system, Trajectories(made.step_R[:2], made.probability_SRQA[:, :2]))
    assert summary["collapsed"] == 0 and summary["collapse_step"] is None


def test_a_mean_over_time_is_of_all_steps_and_not_of_those_recorded():
    made = Trajectories(np.array([0, 1, 11]), np.zeros((1, 3, 1, 4)))
    assert outcome.over_time(made, np.array([[0.0, 1.0, 1.0]])) == pytest.approx([10.5 / 11])


def test_every_published_panel_is_there():
    figures = sharpening.published(sharpening.SharpeningSweep())
    assert [len(figure.panels) for figure in figures] == [3, 3, 2, 2, 4]
    assert len(panels.runs_of(figures)) == 3 * 4 + 0 + 2 * 4 + 2 * 4 + 4 * 4
    figures = two_stage.published(two_stage.TwoStageSweep())
    assert [len(figure.panels) for figure in figures] == [3, 3, 4, 4, 1, 1]


def test_a_sweep_is_every_combination():
    chosen = sharpening.SharpeningSweep(
        algos=("grpo", "rloo"), group_sizes=(2, 4), learning_rates=(0.1, 1)
    )
    assert [f.name for f in sharpening.swept(chosen, held_out=False)] == ["sharpening-modes"]
    modes, held_out = sharpening.swept(chosen, held_out=True)
    assert (len(modes.panels), len(held_out.panels)) == (4, 12)
    assert len(panels.runs_of([modes, held_out])) == 8


def test_the_temperature_does_not_shorten_the_paper_s_step():
    (panel,) = two_stage.TwoStageSweep(temperatures=(5.0,)).panels()
    assert panel.lines[0].run.settings.learning_rate == 0.5
