"""What a tracker is sent of a run, and what it is not sent again."""

import json

import pytest

from rlvr_cli.storage import atomic, locks


def steps(entries):
    return [entry["step"] for entry in entries]


def records(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def write(run, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    atomic.write_atomic(run / "metrics.jsonl", text.encode())


def test_a_tracker_of_ones_own_gets_the_run_its_figures_and_samples(rlvr, run, own, kept):
    ran = rlvr("track", run, "--to", own, "--samples", 3)
    assert (ran.code, ran.out) == (0, f"{run}\n"), ran.err
    assert kept("start")[0] | {"pid": 0} == {
        "start": "run", "key": None, "pid": 0, "algo": "grpo",
    }  # fmt: skip
    assert steps(kept("step")) == [0, 1, 2] and len(kept("finish")) == 1
    last = kept("step")[-1]
    record = records(run)[-1]
    assert last["figures"]["reward"] == record["reward"]
    assert last["figures"]["eval/pass@1_low"] == record["eval"]["pass@1"][1]
    assert len(last["samples"]) == 3
    assert {row["prompt_id"] for row in last["samples"]} == {
        row["prompt_id"] for row in kept("step")[0]["samples"]
    }
    assert all(row["reward"] in (0.0, 1.0) and row["completion"] for row in last["samples"])


def test_a_step_is_sent_once_however_often_the_command_runs(rlvr, run, own, kept):
    for _ in range(2):
        assert rlvr("track", run, "--to", own).code == 0
    assert steps(kept("step")) == [0, 1, 2]
    assert [entry["key"] for entry in kept("start")] == [None, "key of run"]


def test_another_name_is_another_run(rlvr, run, own, kept):
    for name in ("first", "second"):
        assert rlvr("track", run, "--to", own, "--name", name).code == 0
    assert [entry["start"] for entry in kept("start")] == ["first", "second"]
    assert steps(kept("step")) == [0, 1, 2] * 2


def test_a_tracker_that_fails_gets_the_rest_later(rlvr, refused, run, own, kept, tmp_path):
    (tmp_path / "down").write_text("1")
    err = refused(1, "track", run, "--to", own)
    assert "own.py` line 26: OSError: the line is down" in err
    assert f"`rlvr track {run} --to {own}`" in err
    assert steps(kept("step")) == [0] and len(kept("finish")) == 1
    (tmp_path / "down").unlink()
    assert rlvr("track", run, "--to", own).code == 0
    assert steps(kept("step")) == [0, 1, 2] and kept("start")[1]["key"] == "key of run"


def test_a_tracker_whose_code_was_mended_goes_on_with_its_run(rlvr, run, own, kept, tmp_path):
    for _ in range(2):
        assert rlvr("track", run, "--to", own).code == 0
        with open(tmp_path / "own.py", "a") as file:
            file.write("# mended\n")
    assert steps(kept("step")) == [0, 1, 2]


def test_a_killed_sender_that_tore_its_own_record_sends_that_step_again(rlvr, run, own, kept):
    assert rlvr("track", run, "--to", own).code == 0
    (state,) = (run / "track").glob("*.jsonl")
    state.write_text(state.read_text()[:-9])
    for _ in range(2):
        assert rlvr("track", run, "--to", own).code == 0
    assert steps(kept("step")) == [0, 1, 2, 2]


def test_steps_that_a_resumed_run_repeats_are_not_sent_again(rlvr, run, own, kept):
    lines = records(run)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("steps = 2", "steps = 4"))
    (run / "_run.json").unlink()  # its copy
    assert rlvr("track", run, "--to", own).code == 0
    write(run, [*lines, {**lines[2], "step": 3}])
    ran = rlvr("track", run, "--to", own)
    assert "1 step sent, 3 were there" in ran.err and "it is at step 3" in ran.err
    assert steps(kept("step")) == [0, 1, 2, 3]


def test_steps_that_were_repeated_with_other_figures_are_counted(rlvr, run, own, kept):
    assert rlvr("track", run, "--to", own).code == 0
    lines = records(run)
    lines[1]["reward"] += 0.5
    lines[2]["seconds"] = {"rollout": 99.0}
    write(run, lines)
    err = rlvr("track", run, "--to", own).err
    assert "1 step with other figures" in err and "the first is step 1" in err
    assert steps(kept("step")) == [0, 1, 2]


def test_evaluations_whose_shards_are_gone_are_sent_without_samples(rlvr, run, own, kept):
    part = run / "eval" / "000001" / "scores" / "part-00000.parquet"
    part.write_bytes(b"cut")
    err = rlvr("track", run, "--to", own).err
    assert "1 evaluation without samples; step 1: " in err and "checksum" in err
    assert [len(entry["samples"]) for entry in kept("step")] == [4, 0, 4]


def test_two_processes_do_not_send_a_run_to_one_tracker_at_once(refused, run, own, rlvr):
    assert rlvr("track", run, "--to", own).code == 0
    (state,) = (run / "track").glob("*.jsonl")
    with locks.locked(state.with_suffix(".lock")):
        assert "another process sends" in refused(1, "track", run, "--to", own)


@pytest.mark.parametrize("samples", [0, 1000])
def test_as_many_samples_are_sent_as_there_are(rlvr, run, own, kept, samples):
    assert rlvr("track", run, "--to", own, "--samples", samples).code == 0
    prompts = kept("step")[0]["samples"]
    assert len(prompts) == min(samples, len({row["prompt_id"] for row in prompts}))
    assert not samples or len(prompts) > 4
