"""What an earlier version stored is read, resumed and finished by this one.

A folder here is named after the version that made it, and make.py says how. Its commands.json
lists the commands, which these tests run again on a copy. Parts that are listed as complete keep
their bytes. What torch computes anew is compared with nothing, since it depends on the machine.
"""

import hashlib
import importlib
import importlib.util
import json
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rlvr_cli

pytestmark = pytest.mark.slow

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/commands.json"))
LISTINGS = ("_manifest.json", "_partial*.json")
LEFTOVERS = ("_partial*.json", "_tmp-*", "_spool-*", "_lock*")
READING = (
    "compare whole/scores whole/scores-sum",
    "eval-passk runs/finished/eval/000003/scores",
    "ucc whole/dlc/scores",
    "export whole/scores --out new.jsonl",
    "doctor whole/scores",
    "score whole/dlc/rollouts --verifier format --out new/scores",
    "logprob whole/rollouts --out new/logprobs --columns entropy",
    "logprob runs/lora/steps/000002/rollouts --out new/logprobs",
    "advantage whole/scores-sum --algo dapo --out new/advantages",
    "train-step whole/dlc/advantages --learning-rate 1e-4 --out new/update",
    "memory-step whole/dlc/rollouts --memory-epochs 2 --out new/memory",
    "rollout whole/prompts --model whole/update --limit 2 --max-new-tokens 4 --out new",
    "rollout whole/prompts --model whole/update-lora --limit 2 --max-new-tokens 4 --out new",
    "rollout whole/prompts --model whole/model --limit 2 --max-new-tokens 4 --out new",
    "rollout whole/prompts --model policy --memory-model whole/dlc/memory --limit 2 "
    "--max-new-tokens 4 --out new",
)


def each(*states):
    """The entries of these states in every folder, as parameters."""
    found = [
        pytest.param(folder, entry, id=f"{folder.name}-{entry['directory']}")
        for folder in FOLDERS
        for entry in json.loads((folder / "commands.json").read_text())
        if entry["state"] in states
    ]
    return pytest.mark.parametrize(("folder", "entry"), found)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Copies a folder of an earlier version, and works in the copy."""

    def copy(folder: Path, entry: dict | None = None) -> Path:
        for package in (entry or {}).get("needs", ()):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
        root = shutil.copytree(folder, tmp_path / folder.name)
        monkeypatch.chdir(root)
        return root

    return copy


def hashes(root: Path) -> dict[str, str]:
    """The sha256 of every file by its path, without the empty files that are locked."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not path.name.startswith("_lock") and "__pycache__" not in path.parts
    }


def listings(root: Path) -> list[Path]:
    return sorted(path for pattern in LISTINGS for path in root.rglob(pattern))


def complete_parts(root: Path) -> dict[Path, str]:
    """The parts that the manifests below `root` list, complete ones or not, with their sha256."""
    return {
        path.parent / part["name"]: part["sha256"]
        for path in listings(root)
        for part in json.loads(path.read_text())["parts"]
    }


def changed(parts: dict[Path, str]) -> list[Path]:
    """The parts that have not the bytes that were listed."""
    return [
        path
        for path, expected in parts.items()
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != expected
    ]


def require_complete(rlvr, root: Path) -> None:
    """Every directory below is complete, as its manifest and `rlvr check` say; nothing is left."""
    manifests = sorted(root.rglob("_manifest.json"))
    assert manifests
    for path in manifests:
        manifest = json.loads(path.read_text())
        assert len(manifest["parts"]) == manifest["planned_parts"], path
        checked = rlvr("check", path.parent, "--json")
        assert checked.code == 0, checked.err
        assert json.loads(checked.out)["parts"] == manifest["planned_parts"]
    assert not changed(complete_parts(root))
    assert not [path for pattern in LEFTOVERS for path in root.rglob(pattern)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_complete_directory_passes_its_check(rlvr, stored, folder):
    root = stored(folder)
    require_complete(rlvr, root / "whole")
    require_complete(rlvr, root / "runs" / "finished")


@each("whole")
def test_a_complete_directory_is_left_as_it_is(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    before = hashes(root)
    ran = rlvr(*entry["command"])
    if ran.code:
        skip_where_last_digits_differ(rlvr, root, entry)
    assert ran.code == 0, ran.err
    assert "nothing left to do" in ran.err or "reused" in ran.err
    assert hashes(root) == before


def skip_where_last_digits_differ(rlvr, root: Path, entry: dict) -> None:
    """Skips if the figures of this machine are the stored ones but for their last digits.

    The identity of metrics and of checks holds a hash of their figures.
    """
    anew = [word.replace(entry["directory"], "anew") for word in entry["command"]]
    assert rlvr(*anew).code == 0
    for manifest in listings(root / "anew"):
        if json.loads(manifest.read_text())["kind"] not in ("metrics", "checks"):
            continue
        made = pq.read_table(manifest.with_name("part-00000.parquet"))
        place = root / entry["directory"] / manifest.parent.relative_to(root / "anew")
        before = pq.read_table(place / "part-00000.parquet")
        if made.equals(before) or made.schema.names != before.schema.names:
            continue
        if all(alike(made[name], before[name]) for name in made.schema.names):
            pytest.skip("figures of this machine differ from the stored ones in their last digits")


def alike(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    if not pa.types.is_floating(one.type):
        return one.equals(other)
    return np.allclose(one.to_numpy(), other.to_numpy(), rtol=1e-9, atol=1e-12, equal_nan=True)


@each("half")
def test_a_half_made_directory_is_finished_and_keeps_its_parts(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    directory = root / entry["directory"]
    kept, others = complete_parts(directory), without(hashes(root), entry["directory"])
    stored_parts = set(directory.rglob("part-*.parquet"))
    ran = rlvr(*entry["command"])
    if ran.code and (directory / "part-00000.parquet").exists():
        skip_where_last_digits_differ(rlvr, root, entry)
    assert ran.code == 0, ran.err
    assert not changed(kept)
    assert without(hashes(root), entry["directory"]) == others
    assert set(directory.rglob("part-*.parquet")) >= stored_parts
    require_complete(rlvr, directory)
    again = rlvr(*entry["command"])
    assert again.code == 0 and not changed(complete_parts(directory)), again.err


def without(found: dict[str, str], directory: str) -> dict[str, str]:
    return {name: value for name, value in found.items() if not name.startswith(f"{directory}/")}


@each("model")
def test_a_model_is_written_once(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    model, before = root / entry["directory"], hashes(root / entry["directory"])
    ran = rlvr(*entry["command"])
    assert ran.code == (2 if before else 0), ran.err
    assert (model / "config.json").exists() and not list(model.parent.glob("_tmp-*"))
    assert not before or hashes(model) == before


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_completions_that_were_spooled_without_a_checksum_are_sampled_again(
    rlvr, stored, folder, streaming
):
    root = stored(folder)
    directory = root / "half" / "rollouts-spooled"
    spooled = [
        row
        for path in sorted(directory.glob("_spool-*.arrow"))
        for row in pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all().to_pylist()
    ]
    listed = len(complete_parts(directory))
    entries = json.loads((folder / "commands.json").read_text())
    (entry,) = [e for e in entries if e["directory"] == "half/rollouts-spooled"]
    assert rlvr(*entry["command"]).code == 0
    parts = [pq.read_table(path) for path in sorted(directory.glob("part-*.parquet"))]
    rows = pa.concat_tables(parts).to_pylist()
    unfinished = [row for row in spooled if row["row"] >= listed * len(parts[0])]
    assert unfinished
    for row in unfinished:
        made = rows[row["row"]]
        names = ("token_ids", "finish_reason")
        assert [made[name] for name in names] == [row[name] for name in names]


@pytest.fixture
def streaming(monkeypatch):
    """The engine `graph` hands out completions one by one on a CPU too, and so spools."""
    package = Path(rlvr_cli.__file__).parent
    (file,) = package.rglob("rollout/graph.py")
    name = ".".join((package.name, *file.relative_to(package).with_suffix("").parts))
    always = property(lambda self: True, lambda self, value: None)
    engine = importlib.import_module(name).GraphEngine
    monkeypatch.setattr(engine, "supports_continuous_batching", always, raising=False)


@pytest.mark.parametrize("way", ["by the other shares", "as a whole"])
@each("shares")
def test_shares_that_are_missing_complete_the_first(rlvr, stored, folder, entry, way):
    root = stored(folder, entry)
    directory = root / entry["directory"]
    kept = complete_parts(directory)
    assert kept and not (directory / "_manifest.json").exists()
    whole = [word for word in entry["command"] if word not in ("--shard", "0/3")]
    for words in reversed(entry["finish"]) if way == "by the other shares" else [whole]:
        ran = rlvr(*words)
        assert ran.code == 0, ran.err
    assert not changed(kept)
    require_complete(rlvr, directory)


def last_checkpoint(run: Path) -> int:
    """The newest step whose policy, and memory model if there is one, was saved."""
    kinds = ("update", "memory") if list(run.glob("steps/*/memory")) else ("update",)
    saved = (
        step
        for step in run.glob("steps/*")
        if all((step / kind / "_manifest.json").exists() for kind in kinds)
        and all((step / kind / "_checkpoint").exists() for kind in kinds)
    )
    return max((int(step.name) for step in saved), default=0)


def lasting(run: Path, after: int) -> dict[Path, str]:
    """The listed parts of a run but for the updates after a step, which are made again."""
    return {
        path: value
        for path, value in complete_parts(run).items()
        if path.parent.name not in ("update", "memory") or int(path.parent.parent.name) <= after
    }


def require_same_run(run: Path, before: Path, after: int) -> None:
    """Configuration, inputs and the lines up to a step say what they said, if maybe more."""
    old = tomllib.loads((before / "config.toml").read_text())
    new = tomllib.loads((run / "config.toml").read_text())
    for table, values in old.items():
        kept = {key: value for key, value in values.items() if key not in ("steps", "keep")}
        assert kept.items() <= new[table].items()
    inputs = [json.loads((path / "inputs.json").read_text()) for path in (before, run)]
    assert inputs[0].items() <= inputs[1].items()
    lines = [(path / "metrics.jsonl").read_text().splitlines() for path in (before, run)]
    assert lines[1][:after] == lines[0][:after]
    last = [json.loads(text[after]) for text in lines if len(text) > after]
    evaluated = [record.pop("eval", {}).keys() for record in last]  # of figures that numpy makes
    assert len(last) == 1 or last[0].items() <= last[1].items()
    assert len(last) == 1 or evaluated[0] <= evaluated[1]


def require_all_steps(rlvr, run: Path, steps: int) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(steps + 1))
    require_complete(rlvr, run)
    assert last_checkpoint(run) == steps


def steps_of(words: list[str]) -> int:
    return int(words[words.index("--steps") + 1])


@each("killed")
def test_a_run_that_was_killed_between_checkpoints_ends(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    run = root / entry["directory"]
    after, steps = last_checkpoint(run), steps_of(entry["command"])
    assert 0 < after < steps
    kept = lasting(run, after)
    ran = rlvr(*entry["command"])
    assert ran.code == 0, ran.err
    assert not changed(kept)
    require_same_run(run, folder / entry["directory"], after)
    require_all_steps(rlvr, run, steps)


@each("finished")
def test_a_finished_run_has_nothing_left_to_do(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    run, steps = root / entry["directory"], steps_of(entry["command"])
    before = hashes(run)
    ran = rlvr(*entry["command"])
    assert ran.code == 0 and "nothing left to do" in ran.err, ran.err
    may_change = {"config.toml", "inputs.json", "metrics.jsonl", "_run.json", "_metrics.sha256"}
    now = hashes(run)
    assert {name for name in before | now if before.get(name) != now.get(name)} <= may_change
    require_same_run(run, folder / entry["directory"], steps)
    require_all_steps(rlvr, run, steps)


@each("finished")
def test_a_finished_run_takes_more_steps(rlvr, stored, folder, entry):
    root = stored(folder, entry)
    run, steps = root / entry["directory"], steps_of(entry["command"])
    kept, (words,) = lasting(run, steps), entry["finish"]
    ran = rlvr(*words)
    assert ran.code == 0, ran.err
    assert not changed(kept)
    require_same_run(run, folder / entry["directory"], steps)
    require_all_steps(rlvr, run, steps_of(words))


@pytest.mark.parametrize("text", READING)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_was_stored_is_read_by_later_commands(rlvr, stored, folder, text):
    if "lora" in text:
        pytest.importorskip("peft")
    root = stored(folder)
    before = hashes(root)
    ran = rlvr(*shlex.split(text))
    assert ran.code == 0, ran.err
    now = hashes(root)
    assert {name: now[name] for name in before} == before


def test_figures_of_an_earlier_definition_are_kept_and_named(rlvr, stored):
    """Self-BLEU and distinct-n of short completions have changed since 0.1.0."""
    root = stored(Path(__file__).parent / "0.1.0")
    words = ("diversity", "whole/scores", "--logprobs", "whole/logprobs", "--out")
    ran = rlvr(*words, "whole/diversity")
    assert ran.code == 0 and "keeps its figures, which are of an earlier definition" in ran.err
    assert "earlier definition" not in rlvr(*words, "new").err
    manifest = json.loads((root / "new" / "_manifest.json").read_text())
    assert manifest["behaviour"] == {"diversity": 2}
    refused = rlvr("diversity", "whole/scores-sum", "--out", "whole/diversity")
    assert refused.code == 2 and "was made with other parameters" in refused.err
