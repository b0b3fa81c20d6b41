import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.cli import app
from rlvr_cli.stages import updates
from rlvr_cli.storage import columns, schema
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.verification.scoring import rewards

PLACEHOLDERS = {
    "K": r"\d+", "N": r"\d", "T": r"[\d.]+", "NAME": r".+", "QUERY": r"[\w-]+", "ACTION": r"\w+",
}  # fmt: skip


def every_objective():
    """Each objective, and each modifier on one that it goes with."""
    for name in registry.names("objectives"):
        yield objective.build(name)
    for name in registry.names("modifiers"):
        yield objective.build(f"grpo+{name}")


def is_described(kind: str, name: str) -> bool:
    """Whether a column beside those of its kind is one of the page's, as `pass@8` is `pass@K`."""
    for described in columns.EXTRA.get(kind, {}):
        pieces = re.split(r"(NAME|QUERY|ACTION|[KNT](?![\w-]))", described)
        pattern = "".join(PLACEHOLDERS.get(piece, re.escape(piece)) for piece in pieces)
        if re.fullmatch(pattern, name):
            return True
    return False


def snippets(text: str) -> dict[str, str]:
    """The page's Python by the first module that it imports."""
    found = re.findall(r"```python\n(.*?)```", text, re.S)
    modules = [re.findall(r"^(?:import|from) ([\w.]+)", code, re.M) for code in found]
    return {names[-1]: code for names, code in zip(modules, found, strict=True)}


def test_the_page_is_made_from_the_code(up_to_date):
    up_to_date("shards.md")


@pytest.mark.parametrize("kind", schema.KINDS)
def test_every_column_has_a_meaning(kind):
    names = schema.schema(kind, only=tuple(columns.MEANING[kind])).names
    assert set(names) == set(columns.MEANING[kind])
    assert set(schema.schema(kind).names) <= set(names)
    assert columns.ROWS[kind] and columns.WRITERS[kind]


def test_writers_are_commands(reference):
    assert {name for names in columns.WRITERS.values() for name in names} <= {
        *reference.command_paths()
    }


def test_the_columns_of_objectives_and_modifiers_are_on_the_page():
    built = list(every_objective())
    assert {name for one in built for name in one.columns} == columns.EXTRA["advantages"].keys()
    shares = {name for one in built for name in updates.share_names(one)}
    assert shares == columns.EXTRA["steps"].keys()


def test_the_columns_of_sums_of_verifiers_are_on_the_page():
    parts = rewards.build("0.9*math+0.1*format+0.1*math:percent=strict")
    assert all(is_described("scores", part.column) for part in parts)
    assert not is_described("scores", "other")


@pytest.mark.parametrize(
    "words",
    [
        ["eval-passk", "scores"],
        ["ucc", "scores", "--threshold", "0.6,0.8"],
        ["ucc", "scores"],
        ["diversity", "scores", "--logprobs", "logprobs", "--similarity", "tfidf,edit"],
        ["coverage", "prompts", "--model", "builtin", "--k", "1,4"],
        ["lab", "sharpening", "--algo=grpo", "--seeds=1", "--steps=2", "--jobs=1", "--format=none"],
        ["lab", "two-stage", "--algo=grpo", "--seeds=1", "--steps=2", "--jobs=1", "--format=none"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_the_columns_of_evaluations_are_on_the_page(copy, monkeypatch, words):
    monkeypatch.chdir(copy)
    assert app.run(["logprob", "rollouts"]) == 0
    assert app.run([*words, "--out", "out"]) == 0
    for path in (copy / "out").rglob(MANIFEST):
        made = Shards.open(path.parent)
        assert [name for name in made.manifest["extra"] if not is_described(made.kind, name)] == []


def test_every_key_of_the_manifest_and_of_the_metadata_is_on_the_page(chain):
    written = json.loads((chain / "scores" / MANIFEST).read_text())
    assert written.keys() == columns.MANIFEST.keys()
    metadata = pq.read_schema(chain / "scores" / "part-00000.parquet").metadata
    assert list(metadata) == [b"rlvr"]
    own = json.loads(metadata[b"rlvr"]).keys()
    assert columns.METADATA.keys() <= own <= columns.METADATA.keys() | columns.MANIFEST.keys()


@pytest.mark.parametrize(
    "module",
    ["polars", "duckdb", "pandas", "pyarrow.dataset", "datasets", "rlvr_cli.storage.shards"],
)
def test_a_library_reads_a_directory_as_the_page_says(
    reference, chain, tmp_path, monkeypatch, module
):
    library = pytest.importorskip(module)
    if module == "datasets":
        monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "run").symlink_to(chain)
    monkeypatch.chdir(tmp_path)
    code = snippets(reference.page("shards.md"))[module]
    made: dict = {}
    exec(code, made)
    expected = Shards.open(chain / "scores").table()
    if module == "duckdb":
        assert sum(count for _, count in made["by_status"].fetchall()) == len(expected)
        assert len(made["wrong"].fetchall()) == expected["correct"].to_pylist().count(False)
        return
    scores = made["scores"]
    assert len(scores) == len(expected)
    assert pa.array(list(scores["reward"])).to_pylist() == expected["reward"].to_pylist()


def test_the_metadata_is_read_as_the_page_says(reference, chain, tmp_path, monkeypatch):
    (tmp_path / "run").symlink_to(chain)
    monkeypatch.chdir(tmp_path)
    made: dict = {}
    exec(snippets(reference.page("shards.md"))["pyarrow.parquet"], made)
    assert made["made_by"] == "score"
    assert made["schema"].field("status").metadata[b"unit"]
