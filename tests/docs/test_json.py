"""The objects that commands print are those of docs/schemas, and the other way round."""

import json
import shutil
from pathlib import Path

import fsspec
import pytest
from PIL import Image

from rlvr_cli.models import policy
from rlvr_cli.terminal import console

jsonschema = pytest.importorskip("jsonschema")

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SAMPLED = "-n 4 --max-new-tokens 16"
LAB = "--seeds 1 --jobs 1 --format none --out lab"
# What each command is run as here, in a folder with the stages of six prompts, a run, and files.
RUNS = {
    "prompts": [
        "prompts --out made",
        "prompts --drop-easiest 0.25 --scores scores --out easy",
        "prompts --keep-rate 0,1 --scores scores --out rates",
        "some.jsonl more.jsonl --drop-unusable --drop-duplicates --without prompts --out mixed",
        "prompts --shard 0/2 --out share",
        "pictured.jsonl --out pictured",
    ],
    "rollout": [
        f"prompts {SAMPLED} --out made",
        f"prompts {SAMPLED} --max-draws 3 --prompts-per-step 3 --out drawn",
        f"prompts {SAMPLED} --prompts-per-part 3 --shard 0/2 --out share",
    ],
    "score": ["rollouts --out made", "rollouts --verifier math --out other"],
    "logprob": ["rollouts --ref-model builtin"],
    "advantage": ["scores --algo quatro --out made"],
    "train-step": ["advantages"],
    "memory-step": ["dlc"],
    "init": ["--model builtin --data prompts --slurm --docker"],
    "train": [
        f"--steps 2 --prompts-per-step 4 {SAMPLED} --eval-every 1 --eval-num-generations 2 "
        "--out run",
    ],
    "branch": ["run --at 1 --algo dapo --verifier= --verifier format --out branches"],
    "bench": ["sums.toml --model builtin --out bench"],
    "eval-passk": ["scores", "rows.jsonl --out made", "scores --power 0.05"],
    "ucc": ["scores", "rows.jsonl --threshold 0.5,0.8 --out made"],
    "diversity": ["scores", "rows.jsonl --out made"],
    "coverage": ["prompts --model builtin --k 1,4", "prompts --model builtin --out made"],
    "compare": ["run run run", "rows.jsonl rows.jsonl", "scores scores --equality none"],
    "report": ["run scores", "run later"],
    "track": ["run --to tracker.py:build --once"],
    "import": ["rows.jsonl --out one", "rows.jsonl --model builtin --out two"],
    "export": ["scores"],
    "convert": ["builtin --out weights", "run --out of-a-run"],
    "push": ["rows.jsonl memory://json/own.jsonl", "scores memory://json/scores"],
    "pull": ["memory://json/rows.jsonl made.jsonl"],
    "check": ["scores", "run/steps/000002/update", "run", "branches/dapo"],
    "doctor": ["", "--model builtin --max-new-tokens 16", "scores --model builtin"],
    "list": ["", "verifiers", "templates r1-zero", "recipes apo"],
    "lab claims": ["--only P1,Q2 --seeds 5 --out claims.md"],
    "lab sharpening": [f"--algo grpo --steps 2 {LAB}"],
    "lab squeeze": [LAB],
    "lab two-stage": [
        f"--algo grpo --rewards 1,1,0 --initial 0.4,0.4,0.2 --steps 2 {LAB}",
    ],
}
LIKE_ANOTHER = {"lab figures": "lab sharpening"}  # it takes minutes, and makes its object as that
SLOW = {"lab squeeze"}
NOT_RUN = {"convert": {"pushed"}}  # keys that take a network to make
BENCHMARK = """
summary = "sums"
verifier = "math"
[data]
path = "some.jsonl"
[rollout]
num_generations = 4
max_new_tokens = 8
"""
TRACKER = """
from rlvr_cli.protocols import Tracked
class Own:
    def start(self, run): return Tracked("key", 0)
    def log(self, step, figures, samples): pass
    def finish(self): pass
def build(): return Own()
"""


@pytest.fixture
def place(copy, trained, monkeypatch):
    """A folder with the directories and files that the commands here read; it is the current."""
    monkeypatch.chdir(copy)
    for name in ("run", "later"):
        shutil.copytree(trained, name)
    texts = {"a": {"2+3": True, "1+1": False}, "b": {"3+3": True, "5": False}}
    rows = [
        {"id": name, "source": f"s{name}", "prompt": f"{name}=", "answer": "5", "completion": text,
         "extracted": text, "correct": right, "finish_reason": "stop"}
        for name, completions in texts.items() for text, right in completions.items()
    ]  # fmt: skip
    questions = {n: [{"prompt": n, "answer": "1", "verifier": "math"}] for n in ("some", "more")}
    pictured = [{"prompt": "A?", "answer": "1", "verifier": "math", "image": "one.png"}]
    Image.new("RGB", (2, 2)).save("one.png")
    for name, lines in (questions | {"rows": rows, "pictured": pictured}).items():
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fsspec.filesystem("memory").pipe_file("/json/rows.jsonl", b"{}")
    return copy


def schemas(stem: str) -> dict:
    return json.loads((SCHEMAS / f"{stem}.json").read_text())


def described(schema: dict) -> set[str]:
    """The keys of an object that a schema describes, itself or by reference."""
    known = set(schema.get("properties", ()))
    for one in schema.get("allOf", ()):
        known |= schemas("common")["$defs"][one["$ref"].rpartition("/")[2]]["properties"].keys()
    return known


def complaints(command: str, made: dict) -> list[str]:
    """What is wrong with an object: the keys without a description by name, and all else."""
    from referencing import Registry, Resource

    common = Resource.from_contents(schemas("common"))
    stem = command.replace(" ", "-")
    registry = Registry().with_resource("common.json", common)
    said = {}  # by the place in the schema: once for all entries of a list or table
    validator = jsonschema.Draft202012Validator(schemas(stem), registry=registry)
    for error in validator.iter_errors(made):
        where = ".".join(map(str, error.absolute_path))
        if error.validator in ("additionalProperties", "unevaluatedProperties"):
            for key in sorted(error.instance.keys() - described(error.schema)):
                name = f"{where}.{key}".lstrip(".")
                said[*error.schema_path, key] = (
                    f"`{name}` of `rlvr {command} --json` is not described: do it in "
                    f"docs/schemas/{stem}.json, or in common.json for all that have it"
                )
        else:
            text = f"`{where}` of `rlvr {command} --json`: {error.message[:200]}"
            said[tuple(error.schema_path)] = text
    return [*said.values()]


def loaded(ran) -> dict:
    assert ran.code == 0, ran.err
    (line,) = ran.out.splitlines()
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in {line[:200]}"))


def test_the_page_is_made_from_the_schemas(up_to_date):
    up_to_date("json.md")


def test_every_command_with_json_has_a_schema_and_is_run_here(reference):
    paths = set(reference.json_command_paths())
    files = {path.stem for path in SCHEMAS.glob("*.json")} - {"common"}
    assert {path.replace(" ", "-") for path in paths} == files, "one file a command in docs/schemas"
    assert paths == RUNS.keys() | LIKE_ANOTHER.keys(), "name a run of it in RUNS"


@pytest.mark.parametrize(
    "command", [pytest.param(c, marks=[pytest.mark.slow] * (c in SLOW)) for c in RUNS]
)
def test_what_a_command_prints_is_described_and_occurs(rlvr, place, command):
    if command == "report":
        pytest.importorskip("jinja2")
    if command == "track":
        Path("tracker.py").write_text(TRACKER)
    if command == "bench":
        Path("sums.toml").write_text(BENCHMARK)
    if command == "memory-step":
        ran = rlvr("rollout", "prompts", *SAMPLED.split(), "--memory-model=builtin", "--out=dlc")
        assert ran.code == 0, ran.err
    if command == "check":
        assert (
            rlvr(*["branch", "run", "--at", "1", "--algo", "dapo", "--out", "branches"]).code == 0
        )
    made = []
    for words in RUNS[command]:
        made.append(loaded(rlvr(*command.split(), *words.split(), "--json")))
        assert not (said := complaints(command, made[-1])), "\n".join(said)
    found = {key for one in made for key in one}
    absent = schemas(command.replace(" ", "-"))["properties"].keys() - found
    assert absent == NOT_RUN.get(command, set()), "no run of RUNS prints what is described"


def test_commands_that_are_not_run_are_described_as_those_that_make_the_same():
    for command, other in LIKE_ANOTHER.items():
        one, same = (schemas(path.replace(" ", "-"))["properties"] for path in (command, other))
        assert one.pop("command")["const"] == command and same.pop("command")["const"] == other
        assert one == same


def test_a_key_without_a_description_is_named(rlvr, known):
    made = json.loads(rlvr("diversity", known / "scores", "--json").out)
    assert complaints("diversity", made) == []
    (said,) = complaints("diversity", made | {"surprise": 1})
    assert said.startswith("`surprise` of `rlvr diversity --json` is not described: do it in docs/")
    (said,) = complaints("diversity", made | {"lengths": made["lengths"] | {"p99": 1}})
    assert "`lengths.p99`" in said
    (said,) = complaints("diversity", made | {"repeated": None})
    assert said.startswith("`repeated` of `rlvr diversity --json`: None is not of type")


def parts_of(schema: object):
    """Every schema in a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            yield from parts_of(inner)


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_key_has_a_description_and_no_other_key_is_allowed(path):
    schema = json.loads(path.read_text())
    shared = schemas("common")["$defs"]
    jsonschema.Draft202012Validator.check_schema(schema)
    added_to = {"evaluation", "comparison", "update"}  # other keys go beside those of these
    opened = [schema.get("$defs", {}).get(name) for name in added_to]
    for part in parts_of(schema):
        if "$ref" in part:
            assert part["$ref"].removeprefix("common.json#/$defs/") in shared, part
        for keyword in ("additionalProperties", "unevaluatedProperties"):  # as ajv's strict mode
            assert keyword not in part or "object" in part["type"], part
        if "object" not in part.get("type", ()) or "properties" not in part:
            continue
        closed = part.get("additionalProperties") is False
        closed |= part.get("unevaluatedProperties") is False
        assert closed or part in opened, f"{path.name} allows any key: {sorted(part['properties'])}"
        assert set(part.get("required", ())) <= part["properties"].keys()
        for key, value in part["properties"].items():
            target = shared.get(str(value.get("$ref")).rpartition("/")[2], {})
            described = value.get("description") or target.get("description")
            assert described, f"`{key}` in docs/schemas/{path.name} has no description"


def test_an_object_says_what_the_command_was_given_to_read(rlvr, place, monkeypatch, tmp_path):
    def inputs(*words: object) -> list[str]:
        return json.loads(rlvr(*words, "--json").out)["inputs"]

    assert inputs("eval-passk", "scores") == ["scores"]
    rows = Path("rows.jsonl").read_text().splitlines(keepends=True)
    Path("b.jsonl").write_text("".join(rows[2:]))
    Path("a.jsonl").write_text("".join(rows[:2]))
    assert inputs("eval-passk", "a.jsonl", "b.jsonl") == ["a.jsonl", "b.jsonl"]
    assert inputs("compare", "run", place / "run") == ["run", str(place / "run")]
    assert inputs("list", "verifiers") == []
    for text, expected in (("scores\n", "scores"), ("".join(rows), "-")):
        piped = tmp_path / "piped"
        piped.write_text(text)
        for word in ([], ["-"]):
            with piped.open() as stdin:
                monkeypatch.setattr("sys.stdin", stdin)
                assert inputs("eval-passk", *word) == [expected]
    (tmp_path / "piped").write_text("scores\n")
    with (tmp_path / "piped").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert inputs("check") == ["scores"]


def test_what_is_no_number_is_never_printed(rlvr):
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.result(Path("made"), {"mean": float("nan")}, as_json=True)


def test_stdout_is_empty_where_a_command_fails_and_is_the_object_where_its_work_is_done(
    rlvr, refused, place
):
    refused(2, "eval-passk", "scores", "--k", "0", "--json")
    refused(3, "eval-passk", "absent", "--json")
    refused(2, "compare", "scores", "--json")
    refused(3, "check", "absent", "--json")
    Path("broken.py").write_text("def reward(completion):\n    raise RuntimeError\n")
    words = ("--verifier", "broken.py:reward", "--out", "failed", "--json")
    ran = rlvr("score", "rollouts", *words)
    assert ran.code == 4 and json.loads(ran.out)["missing"] == 24
    bad = {"prompt": "1 + 1?", "answer": "\\frac{1}{", "verifier": "math"}
    Path("bad.jsonl").write_text(json.dumps(bad) + "\n")
    shutil.copytree(policy.resolve("builtin").path, "endless")
    Path("endless/generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    for code, words in ((3, ["bad.jsonl"]), (1, ["--model", "endless"])):
        ran = rlvr("doctor", *words, "--json")
        assert ran.code == code, ran
        made = json.loads(ran.out)
        assert not complaints("doctor", made)
        assert "problem" in [finding["level"] for finding in made["findings"]]
