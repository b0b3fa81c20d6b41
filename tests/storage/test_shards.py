import builtins
import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.storage import atomic, schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import Share
from rlvr_cli.storage.writer import write_shards, write_shards_streaming

PARTS = 3
PART_NAMES = [f"part-{index:05d}.parquet" for index in range(PARTS)]


class Killed(BaseException):
    """Stands for SIGKILL: nothing may catch it and tidy up."""


def rows(index: int) -> pa.Table:
    columns = {
        "prompt_id": [f"p{index}"] * 4,
        "sample_index": list(range(4)),
        "reward": [1.0, 0.0, None, 0.5],
        "correct": [True, False, None, False],
        "extracted": ["3*8", None, "", "é"],
        "reason": [None, "cut", "it took too long", None],
        "status": ["ok", "ok", "timeout", "ok"],
    }
    return pa.table(columns, schema.schema("scores"))


def plan(parents=None, **params) -> Plan:
    return Plan("scores", "score", {"verifier": "expression", **params}, parents or {}, PARTS)


def content(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "_lock"
    }


def made_whole(folder: Path) -> Shards:
    shards = write_shards(folder, plan(), rows, summarise=lambda s: {"rows": s.rows})
    assert shards is not None
    return shards


def test_what_is_read_is_what_was_written(tmp_path):
    shards = made_whole(tmp_path / "a")
    assert shards.table().to_pylist() == pa.concat_tables(map(rows, range(PARTS))).to_pylist()
    assert (shards.kind, shards.rows, len(shards)) == ("scores", 12, PARTS)
    assert Shards.open(tmp_path / "a").manifest == shards.manifest


def test_a_part_says_what_it_is_and_who_made_it(tmp_path):
    made_whole(tmp_path / "a")
    metadata = pq.read_metadata(tmp_path / "a" / "part-00001.parquet").metadata
    origin = json.loads(metadata[b"rlvr"])
    assert origin["kind"] == "scores"
    assert origin["schema_version"] == schema.VERSION
    assert origin["params"] == {"verifier": "expression"}
    assert origin["part"] == 1
    assert origin["fingerprint"] == plan().fingerprint
    assert {"rlvr", "pyarrow", "python"} <= origin["versions"].keys()


def test_duckdb_style_readers_see_the_parts_alone(tmp_path):
    made_whole(tmp_path / "a")
    assert pq.read_table(tmp_path / "a").num_rows == 12
    assert all(p.name[0] == "_" or p.name.startswith("part-") for p in (tmp_path / "a").iterdir())


def test_running_again_makes_nothing_and_changes_nothing(tmp_path):
    made_whole(tmp_path / "a")
    before = content(tmp_path / "a")
    states = []
    write_shards(tmp_path / "a", plan(), pytest.fail, on_part=lambda i, state: states.append(state))
    assert states == ["kept"] * PARTS
    assert content(tmp_path / "a") == before


CALLS = {
    "open": (builtins, "open"), "write": (os, "write"),
    "fsync": (os, "fsync"), "link": (os, "link"), "unlink": (os, "unlink"),
    "rename": (os, "rename"),
}  # fmt: skip


def killed_at(folder: Path, call: str, fatal: int) -> bool:
    """Makes a directory in a process that dies at its so manieth call; whether it did die."""
    child = os.fork()
    if child == 0:
        place, name = CALLS[call]
        real, left = getattr(place, name), fatal

        def dying(*arguments, **options):
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(place, name, dying)
        made_whole(folder)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("call", CALLS)
def test_a_kill_at_any_call_loses_no_part_that_has_its_name(tmp_path, call):
    made_whole(tmp_path / "undisturbed")
    expected = content(tmp_path / "undisturbed")
    fatal = 1
    while killed_at(folder := tmp_path / f"killed-{fatal}", call, fatal):
        fatal += 1
        if (folder / "_manifest.json").exists():  # it came last: nothing lies beside it
            assert content(folder) == expected
        else:
            with pytest.raises(DataError):
                Shards.open(folder)
        there = {path.name for path in folder.glob("part-*.parquet")}
        computed = []
        make = lambda index, made=computed: made.append(index) or rows(index)  # noqa: E731
        write_shards(folder, plan(), make, summarise=lambda s: {"rows": s.rows})
        assert computed == [i for i in range(PARTS) if f"part-{i:05d}.parquet" not in there]
        assert content(folder) == expected
    assert fatal > 1 and content(folder) == expected


def later(index: int, asked: threading.Event, *, go_on: threading.Event):
    """The rows of a part, made only when another part has been asked for."""

    def compute() -> pa.Table:
        asked.set()
        assert go_on.wait(120)
        return rows(index)

    return compute


def test_parts_that_are_made_later_are_written_while_others_are_made(tmp_path):
    heard: list[tuple[int, str]] = []
    asked, go_on = threading.Event(), threading.Event()

    def make(missing):
        for index in missing:
            yield index, later(index, asked, go_on=go_on)
        assert asked.wait(120) and not heard  # the first is at work, and nothing waited for it
        go_on.set()

    directory = write_shards_streaming(
        tmp_path / "a", plan(), make, on_part=lambda *said: heard.append(said),
        summarise=lambda shards: {"rows": shards.rows},
    )  # fmt: skip
    assert directory is not None and heard == [(index, "written") for index in range(PARTS)]
    made_whole(tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_was_to_be_made_later_is_kept_if_the_rest_fails(tmp_path, interrupted):
    def broken() -> pa.Table:
        raise RuntimeError("no rows")

    def make(work):
        first = next(work)
        yield first, lambda: rows(first)
        if interrupted:
            raise KeyboardInterrupt
        yield next(work), broken

    with pytest.raises(KeyboardInterrupt if interrupted else RuntimeError):
        write_shards_streaming(tmp_path / "a", plan(), make)
    asked: list[int] = []
    again = write_shards(tmp_path / "a", plan(), lambda index: asked.append(index) or rows(index))
    assert again is not None and asked == [1, 2]


def test_an_unfinished_directory_is_refused_with_the_command_that_finishes_it(tmp_path):
    def make(index):
        if index == 2:
            raise Killed
        return rows(index)

    with pytest.raises(Killed):
        write_shards(tmp_path / "a", plan(), make)
    with pytest.raises(DataError, match="2 of 3 parts") as caught:
        Shards.open(tmp_path / "a")
    assert "rlvr score" in caught.value.hint


def test_a_flipped_byte_or_a_cut_is_never_read_and_is_mended_by_running_again(tmp_path):
    for name, damage in {
        "flip": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        "cut": lambda data: data[: len(data) // 2],
        "empty": lambda data: b"",
    }.items():
        shards = made_whole(tmp_path / name)
        before = content(tmp_path / name)
        part = tmp_path / name / "part-00001.parquet"
        part.write_bytes(damage(part.read_bytes()))
        with pytest.raises(DataError, match="does not match its checksum"):
            shards.table()
        states = []
        write_shards(
            tmp_path / name,
            plan(),
            rows,
            summarise=lambda s: {"rows": s.rows},
            on_part=lambda i, state: states.append(state),
        )
        assert states == ["kept", "rewritten", "kept"]
        assert content(tmp_path / name) == before


def test_every_flipped_byte_of_a_manifest_is_noticed(tmp_path):
    made_whole(tmp_path / "a")
    path = tmp_path / "a" / "_manifest.json"
    good = path.read_bytes()
    for position in range(0, len(good), 7):
        path.write_bytes(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        with pytest.raises(DataError):
            Shards.open(tmp_path / "a")
    path.write_bytes(good[:-20])
    with pytest.raises(DataError, match="cut or changed"):
        Shards.open(tmp_path / "a")


def test_a_part_that_is_gone_is_made_again(tmp_path):
    made_whole(tmp_path / "a")
    before = content(tmp_path / "a")
    (tmp_path / "a" / "part-00000.parquet").unlink()
    made_whole(tmp_path / "a")
    assert content(tmp_path / "a") == before


def test_another_schema_version_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", 7)
    made_whole(tmp_path / "a")
    monkeypatch.undo()
    with pytest.raises(DataError, match=f"schema version 7, this rlvr reads {schema.VERSION}"):
        Shards.open(tmp_path / "a")
    with pytest.raises(UsageError, match=f"schema_version was 7, is {schema.VERSION}"):
        write_shards(tmp_path / "a", plan(), rows)


def test_other_parameters_are_refused_by_name_with_both_values(tmp_path):
    made_whole(tmp_path / "a")
    before = content(tmp_path / "a")
    with pytest.raises(UsageError, match="verifier was expression, is math"):
        write_shards(tmp_path / "a", plan(verifier="math"), rows)
    assert content(tmp_path / "a") == before


def test_other_parameters_are_refused_before_the_directory_is_complete(tmp_path):
    with pytest.raises(Killed):
        write_shards(
            tmp_path / "a", plan(), lambda i: rows(i) if i < 1 else (_ for _ in ()).throw(Killed)
        )
    with pytest.raises(UsageError, match="verifier was expression, is math"):
        write_shards(tmp_path / "a", plan(verifier="math"), rows)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_shares_in_any_order_and_number_give_the_same_bytes(tmp_path, count):
    made_whole(tmp_path / "alone")
    finished = [
        write_shards(
            tmp_path / "shared",
            plan(),
            rows,
            share=Share(index, count),
            summarise=lambda s: {"rows": s.rows},
        )
        for index in reversed(range(count))
    ]
    assert [shards is not None for shards in finished].count(True) >= 1
    assert content(tmp_path / "shared") == content(tmp_path / "alone")


def test_a_share_goes_on_with_the_parts_that_nobody_has_taken(tmp_path):
    made_whole(tmp_path / "alone")
    heard: list[tuple[int, str]] = []
    shards = write_shards(
        tmp_path / "a", plan(), rows, share=Share(1, 2), summarise=lambda s: {"rows": s.rows},
        on_part=lambda *said: heard.append(said),
    )  # fmt: skip
    assert shards is not None and heard == [(1, "written"), (2, "written"), (0, "written")]
    assert content(tmp_path / "a") == content(tmp_path / "alone")


def test_processes_that_were_started_together_make_their_own_share_alone(tmp_path):
    made_whole(tmp_path / "alone")
    summarise = lambda s: {"rows": s.rows}  # noqa: E731
    folder = tmp_path / "a"
    for rank in (1, 0):
        share = Share.of_process(rank, 2)
        shards = write_shards(folder, plan(), rows, share=share, summarise=summarise)
        there = {path.name for path in folder.glob("part-*.parquet")}
        assert (shards is None) == (rank == 1)
        assert len(there) == (1 if rank else PARTS) and not list(folder.glob("_lease-*"))
    assert content(folder) == content(tmp_path / "alone")


@pytest.mark.parametrize("text", ["4/4", "-1/2", "1", "a/b", "1/0", ""])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="--shard"):
        Share.parse(text)


def test_a_share_leaves_to_others_what_they_are_making(tmp_path):
    inner = []

    def make(index):
        inner.append(write_shards(tmp_path / "a", plan(), rows, share=Share(1, 2)))
        return rows(index)

    assert write_shards(tmp_path / "a", plan(), make, share=Share(0, 2)) is not None
    assert inner == [None]
    assert {"_manifest.json", *PART_NAMES} == set(content(tmp_path / "a"))


def test_two_processes_without_a_share_divide_the_parts_and_both_end_with_all(tmp_path):
    made_whole(tmp_path / "alone")
    made: dict[str, list[int]] = {"one": [], "other": []}
    both = threading.Barrier(2)

    def run(name):
        def make(index):
            if not made[name]:
                both.wait(120)  # each has a part before either goes on
            made[name].append(index)
            return rows(index)

        return write_shards(
            tmp_path / "a", plan(), make, summarise=lambda s: {"rows": s.rows}
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        shards = list(pool.map(run, made))
    assert sorted(made["one"] + made["other"]) == list(range(PARTS))
    assert made["one"] and made["other"] and shards[0].manifest == shards[1].manifest
    assert content(tmp_path / "a") == content(tmp_path / "alone")


def test_what_lies_beside_the_parts_is_written_by_one_process_alone(tmp_path):
    def make(index):
        with pytest.raises(UserError, match="another process is writing"):
            write_shards(tmp_path / "a", plan(), rows, is_intact=lambda shards: True)
        return rows(index)

    assert write_shards(tmp_path / "a", plan(), make, is_intact=lambda shards: True) is not None


def test_another_plan_is_refused_while_a_process_is_at_the_first(tmp_path):
    def make(index):
        with pytest.raises(UsageError, match="verifier was expression, is math"):
            write_shards(tmp_path / "a", plan(verifier="math"), rows)
        return rows(index)

    assert write_shards(tmp_path / "a", plan(), make) is not None


@pytest.mark.parametrize("killed", [True, False])
def test_a_plan_of_which_nothing_came_binds_nobody(tmp_path, killed):
    child = os.fork()
    if child == 0:

        def make(index):
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            write_shards(tmp_path / "a", plan(), make)
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "a" / "_plan.json").exists() == killed
    assert write_shards(tmp_path / "a", plan(verifier="math"), rows) is not None
    write_shards(tmp_path / "b", plan(verifier="math"), rows)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def share_of(folder: Path, index: int, count: int, gate) -> None:
    def make(part):
        gate.wait()
        return rows(part)

    write_shards(
        folder, plan(), make, share=Share(index, count), summarise=lambda s: {"rows": s.rows}
    )


@pytest.mark.slow
def test_shares_that_finish_together_all_end_well(tmp_path):
    made_whole(tmp_path / "alone")
    context = multiprocessing.get_context("fork")
    for trial in range(20):
        gate, folder = context.Barrier(PARTS), tmp_path / str(trial)
        workers = [
            context.Process(target=share_of, args=(folder, index, PARTS, gate))
            for index in range(PARTS)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.exitcode for worker in workers] == [0] * PARTS
        assert content(folder) == content(tmp_path / "alone")
        assert not list(folder.glob("_lock*"))


def test_what_a_killed_process_left_is_swept_but_not_what_a_living_one_is_writing(tmp_path):
    made_whole(tmp_path / "alone")
    folder = tmp_path / "a"
    seen = []

    def make(index):
        (living,) = folder.glob("_writer-*")
        theirs = folder / f"_tmp-part-00009.parquet-{living.stem.removeprefix('_writer-')}"
        dead = folder / "_tmp-part-00009.parquet-1"
        for path in (theirs, dead):
            path.write_bytes(b"half")
        write_shards(folder, plan(), rows, share=Share(1, 2))
        seen.append((theirs.exists(), dead.exists()))
        return rows(index)

    write_shards(folder, plan(), make, share=Share(0, 2), summarise=lambda s: {"rows": s.rows})
    assert seen == [(True, False)]
    assert content(folder) == content(tmp_path / "alone")


def test_the_same_parameters_over_another_parent_are_refused(tmp_path):
    first = made_whole(tmp_path / "first")
    other = write_shards(tmp_path / "other", plan(verifier="math"), rows)
    write_shards(tmp_path / "a", plan({"rollouts": first}), rows)
    with pytest.raises(UsageError, match="parents was"):
        write_shards(tmp_path / "a", plan({"rollouts": other}), rows)


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        record = lambda *a, name=name, real=real: (calls.append(name), real(*a))[1]  # noqa: E731
        monkeypatch.setattr(os, name, record)
    atomic.write_atomic(tmp_path / "file", b"data")
    assert calls == ["fsync", "replace", "fsync"]


def test_what_lies_beside_the_parts_is_made_again_if_it_is_not_intact(tmp_path):
    beside = tmp_path / "a" / "_beside"

    def make(index):
        beside.write_text("good")
        return rows(index)

    def again(states):
        write_shards(
            tmp_path / "a",
            plan(),
            make,
            on_part=lambda i, state: states.append(state),
            is_intact=lambda shards: beside.exists() and beside.read_text() == "good",
        )
        return states

    assert again([]) == ["written"] * PARTS
    assert again([]) == ["kept"] * PARTS
    beside.write_text("bad")
    assert again([]) == ["rewritten"] * PARTS
    assert beside.read_text() == "good"


def test_a_child_finds_its_parents_after_both_moved(tmp_path):
    parent = made_whole(tmp_path / "run" / "scores")
    child = Plan("advantages", "advantage", {}, {"scores": parent}, 0)
    write_shards(tmp_path / "run" / "advantages", child, rows)
    (tmp_path / "run").rename(tmp_path / "moved")
    directory = Shards.open(tmp_path / "moved" / "advantages").parent("scores")
    assert directory.path == tmp_path / "moved" / "scores"


def test_a_parent_that_was_made_anew_otherwise_is_refused(tmp_path):
    parent = made_whole(tmp_path / "scores")
    write_shards(
        tmp_path / "advantages", Plan("advantages", "advantage", {}, {"scores": parent}, 0), rows
    )
    for path in (tmp_path / "scores").iterdir():
        path.unlink()
    write_shards(tmp_path / "scores", plan(verifier="math"), rows)
    with pytest.raises(DataError, match="is not the directory that"):
        Shards.open(tmp_path / "advantages").parent("scores")


def test_a_kind_that_was_not_expected_is_refused(tmp_path):
    made_whole(tmp_path / "a")
    with pytest.raises(DataError, match="holds scores, rollouts were expected"):
        Shards.open(tmp_path / "a", "rollouts")


def test_a_null_where_none_may_be_is_refused(tmp_path):
    def make(index):
        return rows(index).set_column(6, "status", pa.array(["ok", None, "ok", "ok"]))

    with pytest.raises(ValueError, match=r"status.*null values to non-nullable"):
        write_shards(tmp_path / "a", plan(), make)


def test_a_first_part_without_any_reward_does_not_lock_the_type(tmp_path):
    def make(index):
        table = rows(index)
        return table.set_column(2, "reward", pa.nulls(4)) if index == 0 else table

    shards = write_shards(tmp_path / "a", plan(), make)
    assert shards is not None
    assert shards.table()["reward"].to_pylist()[:5] == [None, None, None, None, 1.0]


def test_missing_and_foreign_directories_are_told_apart(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Shards.open(tmp_path / "absent")
    with pytest.raises(DataError, match="does not exist") as caught:
        Shards.open(Path("task:expression"))
    assert "`rlvr prompts task:expression --out prompts`" in caught.value.hint
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="is an empty folder"):
        Shards.open(tmp_path / "empty")
    with pytest.raises(DataError, match="is not a shard directory"):
        Shards.open(tmp_path)
    made = write_shards(tmp_path / "made", plan(), rows)
    with pytest.raises(DataError, match="is not a shard directory") as caught:
        Shards.open(tmp_path)
    assert f"as `{made.path}`" in caught.value.hint


def test_a_file_of_another_tool_is_answered_with_the_command_that_reads_it(tmp_path):
    (tmp_path / "rows.jsonl").touch()
    questions = f"`rlvr prompts {tmp_path}/rows.jsonl --out prompts`"
    completions = f"`rlvr import {tmp_path}/rows.jsonl --out imported`"
    others = f"if it holds completions: {completions}"
    for kinds, expected in (
        (["prompts"], f"if it holds questions: {questions}"),
        (["scores"], others),
        (["prompts", "scores"], both := f"if it holds questions: {questions}; {others}"),
        ([], both),
    ):
        with pytest.raises(DataError, match="is not a shard directory") as caught:
            Shards.open(tmp_path / "rows.jsonl", *kinds)
        assert caught.value.hint == expected


def test_of_a_folder_of_directories_the_one_that_is_wanted_is_named(tmp_path):
    def made(path, kind):
        plan = Plan(kind, kind, {}, {}, 1)
        write_shards(tmp_path / path, plan, lambda n: schema.schema(kind).empty_table())

    def hint(*kinds, path=tmp_path):
        with pytest.raises(DataError, match=r"expected|is not a shard directory") as caught:
            Shards.open(path, *kinds)
        return caught.value.hint.replace(str(tmp_path), "run")

    made("prompts", "prompts")
    assert hint("scores") == (
        "make scores from it with `rlvr rollout run/prompts | rlvr score`, or name others"
    )
    made("rollouts", "rollouts")
    assert hint("rollouts") == "name a directory of those in it, as `run/rollouts`"
    assert hint("prompts") == "name a directory of those in it, as `run/prompts`"
    assert hint("scores") == "make scores from it with `rlvr score run/rollouts`, or name others"
    assert "`rlvr score run/rollouts | rlvr advantage --algo grpo`" in hint("advantages")
    assert "`rlvr rollout run/prompts | rlvr score`" in hint("scores", path=tmp_path / "prompts")
    for step in (1, 2):
        made(f"steps/{step:06d}/scores", "scores")
    assert "rlvr score run/rollouts" in hint("scores")
    (tmp_path / "config.toml").touch()
    assert hint("scores") == "name a directory of those in it, as `run/steps/000002/scores`"


CHILD = """
import os, sys
sys.path.insert(0, os.environ["TESTS"])
from pathlib import Path
import importlib.util
spec = importlib.util.spec_from_file_location("t", os.environ["TESTS"] + "/test_shards.py")
t = importlib.util.module_from_spec(spec); spec.loader.exec_module(t)
from rlvr_cli import errors
from rlvr_cli.terminal import console
console.say("")
if os.environ.get("AS"):
    os.setgroups([]); os.setgid(int(os.environ["AS"])); os.setuid(int(os.environ["AS"]))
try:
    t.made_whole(Path(sys.argv[1]))
except errors.UserError as error:
    console.error(str(error), error.hint)
    sys.exit(error.exit_code)
"""


def run_child(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)],
        env={**os.environ, "TESTS": str(Path(__file__).parent), **environment},
        cwd="/",
        capture_output=True,
        text=True,
    )


def test_a_read_only_place_is_one_clear_line(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    nobody = {"AS": "65534"} if os.geteuid() == 0 else {}
    for parent in locked.parents:
        if nobody and parent.owner() == "root" and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o111)
    done = run_child(locked / "a", **nobody)
    assert done.returncode == 1, done.stderr
    assert "error: cannot write" in done.stderr and "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(disk)])
    if mounted.returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        (disk / "ballast").write_bytes(b"x" * 16384)
        done = run_child(disk / "a")
        assert done.returncode == 1, done.stderr
        assert "error: cannot write" in done.stderr and "No space left" in done.stderr
        assert "run the same command again" in done.stderr
        assert not list((disk / "a").glob("_tmp-*"))
        (disk / "ballast").unlink()
        done = run_child(disk / "a")
        assert done.returncode == 0, done.stderr
        made_whole(tmp_path / "undisturbed")
        assert content(disk / "a") == content(tmp_path / "undisturbed")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_columns_can_be_read_alone_in_the_order_asked(chain):
    scores = Shards.open(chain / "scores")
    table = scores.part(0, ["correct", "prompt_id"])
    assert table.column_names == ["correct", "prompt_id"]
    assert table.equals(scores.part(0).select(["correct", "prompt_id"]))
    assert scores.schema.equals(scores.part(0).schema)


def test_a_cut_part_is_refused_whatever_columns_are_read(copy):
    path = copy / "scores" / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="does not match its checksum"):
        Shards.open(copy / "scores").part(0, ["prompt_id"])
