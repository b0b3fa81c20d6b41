"""Each tracker with its real library, offline, read back by that library."""

import subprocess
import sys

import pytest

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import ImageTracker, TrackedRun
from rlvr_cli.tracking import markdown
from tests import pictured

CONFIG = {"train": {"algo": "grpo", "steps": 3}, "rollout": {"top_p": 1.0}}
SAMPLES = [
    {"prompt": "1 | 2 = ?\n<b>", "completion": "a\\b", "reward": 1.0, "answer": None},
    {"prompt": "2", "completion": "", "reward": None, "answer": "3"},
]
STEPS = [
    (0, {"eval/pass@1": 0.25, "eval/pass@1_low": 0.125}, SAMPLES),
    (1, {"reward": 0.5, "seconds/rollout": 2.0}, []),
    (2, {"reward": 0.75, "eval/pass@1": 0.5}, SAMPLES[:1]),
]
NAMES = registry.names("trackers")


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A tracker that writes below a folder of this test; skipped without its package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))

    def of(name):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'rlvr[{name}]'")
        if name == "mlflow":
            pytest.importorskip("sqlalchemy", reason="mlflow-skinny has no database of its own")
            return f"mlflow:uri=sqlite:///{tmp_path}/mlflow.db"
        return "wandb:mode=offline" if name == "wandb" else name

    return of


def send(spec, tmp_path, steps, key=None, name="my run"):
    tracker = registry.build("trackers", spec)
    tracked = tracker.start(TrackedRun(name, tmp_path, CONFIG, key))
    for step in steps:
        tracker.log(*step)
    tracker.finish()
    return tracked


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_that_is_started_again_goes_on_with_its_run(spec, tmp_path, name):
    first = send(spec(name), tmp_path, STEPS[:2])
    again = send(spec(name), tmp_path, STEPS[2:], first.key)
    assert again.key == first.key
    assert first.last in (None, -1) and again.last in (None, 1)
    assert send(spec(name), tmp_path, [], first.key).last in (None, 2)
    kept = globals()[f"read_{name}"](tmp_path, first.key)
    for step, figures, samples in STEPS:
        assert kept[step]["figures"] == pytest.approx(figures), step
        assert kept[step]["samples"] == bool(samples), step
    assert sorted(kept) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_two_runs_of_one_name_are_two_runs(spec, tmp_path, name):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, second = (send(spec(name), folder, STEPS[:1]) for folder in folders)
    assert first.key != second.key
    assert send(spec(name), folders[0], STEPS[1:2], first.key).key == first.key


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tracker_keeps_the_images_of_prompts(spec, tmp_path, name):
    pytest.importorskip("PIL")
    images = [pictured.stored(pictured.drawn(count)) for count in (3, 4)]
    tracker = registry.build("trackers", spec(name))
    key = tracker.start(TrackedRun("my run", tmp_path, CONFIG)).key
    assert isinstance(tracker, ImageTracker)
    tracker.log_images(0, {"a/1": images})
    tracker.log(*STEPS[0])
    tracker.finish()
    assert globals()[f"images_{name}"](tmp_path, key) == 2


def images_tensorboard(tmp_path, key):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(key, {"images": 0}).Reload()
    found = [event for tag in events.Tags()["images"] for event in events.Images(tag)]
    assert {(event.width, event.height) for event in found} == {(32, 32)}
    return len(found)


def images_trackio(tmp_path, key):
    from trackio.sqlite_storage import SQLiteStorage

    logs = SQLiteStorage.get_logs("rlvr", key)
    files = [v["file_path"] for log in logs for v in log.values() if isinstance(v, dict)
             and v.get("_type") == "trackio.image"]  # fmt: skip
    return len(files)


def images_wandb(tmp_path, key):
    folder = tmp_path / "wandb"
    return len([*folder.glob(f"offline-run-*-{key}/files/media/images/images/a/*.png")])


def images_mlflow(tmp_path, key):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    return len(client.list_artifacts(key, "samples/images"))


def read_tensorboard(tmp_path, key):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(key, {"scalars": 0, "tensors": 0}).Reload()
    assert b"grpo" in events.Tensors("config")[0].tensor_proto.string_val[0]
    kept = {}
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            step = kept.setdefault(event.step, {"figures": {}, "samples": False})
            assert name not in step["figures"]
            step["figures"][name] = event.value
    for event in events.Tensors("samples"):
        kept[event.step]["samples"] = b"prompt" in event.tensor_proto.string_val[0]
    return kept


def read_trackio(tmp_path, key):
    from trackio.sqlite_storage import SQLiteStorage

    assert SQLiteStorage.get_run_config("rlvr", key)["train"]["algo"] == "grpo"
    kept = {}
    for entry in SQLiteStorage.get_logs("rlvr", key):
        step = entry.pop("step")
        table = entry.pop("samples", None)
        assert step not in kept
        figures = {name: v for name, v in entry.items() if name != "timestamp"}
        is_table = bool(table) and table["_value"][0]["prompt"] == SAMPLES[0]["prompt"]
        kept[step] = {"figures": figures, "samples": is_table}
    return kept


def read_wandb(tmp_path, key):
    from wandb.proto.wandb_internal_pb2 import Record

    kept = {}
    for path in sorted(tmp_path.glob(f"wandb/offline-run-*/run-{key}.wandb")):
        for data in logged(path.read_bytes()):
            record = Record.FromString(data)
            if not record.HasField("history"):
                continue
            items = {"/".join(i.nested_key) or i.key: i.value_json for i in record.history.item}
            step = record.history.step.num
            assert step not in kept
            table = {n: items.pop(n) for n in list(items) if n.startswith("samples")}
            figures = {n: float(v) for n, v in items.items() if not n.startswith("_")}
            kept[step] = {"figures": figures, "samples": "table-file" in "".join(table.values())}
    return kept


def logged(data, block=32768):
    """The records of wandb's file: seven bytes, then LevelDB's log format."""
    record, at = b"", 7
    while at + 7 <= len(data):
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind == 0 or block - at % block < 7:  # the padding of a block
            at += block - at % block
            continue
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # all of it, or its last piece
            yield record
            record = b""


def read_mlflow(tmp_path, key):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    run = client.get_run(key)
    assert run.data.params["train/algo"] == "grpo" and run.info.status == "FINISHED"
    kept = {}
    for name in set(run.data.metrics) - {"step"}:
        for metric in client.get_metric_history(key, name):
            step = kept.setdefault(metric.step, {"figures": {}, "samples": False})
            step["figures"][name.replace("_at_", "@")] = metric.value
    for artifact in client.list_artifacts(key, "samples"):
        kept[int(artifact.path[-9:-3])]["samples"] = True
    return kept


@pytest.mark.slow
def test_event_files_are_written_without_torch(spec, tmp_path):
    spec("tensorboard")
    code = f"""
import sys
from rlvr_cli import registry
from rlvr_cli.protocols import TrackedRun
from pathlib import Path
tracker = registry.build("trackers", "tensorboard")
tracker.start(TrackedRun("run", Path({str(tmp_path)!r}), {{}}))
tracker.log(0, {{"reward": 1.0}}, [])
tracker.finish()
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_event_files_that_a_killed_process_tore_are_gone_on_from(spec, tmp_path):
    first = send(spec("tensorboard"), tmp_path, STEPS[:2])
    (path,) = (tmp_path / "tensorboard").iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    again = send("tensorboard", tmp_path, [], first.key)
    assert again.last == 0


def test_a_tracker_whose_package_is_not_installed_says_which_extra_has_it(monkeypatch):
    monkeypatch.setattr("rlvr_cli.tracking.packages.find_spec", lambda name: None)
    for name in NAMES:
        with pytest.raises(UsageError, match=f"`{name}` needs a package") as caught:
            registry.build("trackers", name)
        assert caught.value.hint == f"pip install 'rlvr[{name}]'"


def test_a_table_in_markdown_keeps_line_feeds_and_bars_in_their_cell():
    assert markdown.table(SAMPLES).splitlines() == [
        "| prompt | completion | reward | answer |",
        "|---|---|---|---|",
        r"| 1 \| 2 = ?<br>&lt;b> | a\\b | 1.0 |  |",
        "| 2 |  |  | 3 |",
    ]
