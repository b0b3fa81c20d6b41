"""Prompts of reasoning-gym; those that need the package are skipped where it is not installed."""

import json
import subprocess
import sys
from collections import Counter
from importlib import metadata

import pytest

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.tasks import _reasoning_gym, reasoning_gym

try:
    _reasoning_gym.require()
    WHY = ""
except UsageError as error:
    WHY = str(error)
needs_package = pytest.mark.skipif(bool(WHY), reason=WHY or "reasoning-gym is installed")


def entry_of(row):
    return _reasoning_gym.decoded(row["extra"]["reasoning_gym"]["entry"])


def refusal(spec):
    with pytest.raises(UsageError) as caught:
        registry.build("tasks", spec)
    return str(caught.value)


def test_a_package_that_is_not_there_is_named_with_how_to_install_it(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(
        UsageError, match="reasoning-gym needs reasoning-gym, which is not"
    ) as caught:
        registry.build("tasks", "reasoning-gym")
    assert caught.value.hint == "pip install 'rlvr[reasoning-gym]'"


def test_another_version_is_refused_as_its_problems_and_scorers_are_others(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: "0.2.0")
    with pytest.raises(UsageError, match=r"reasoning-gym 0\.2\.0 is installed") as caught:
        registry.build("tasks", "reasoning-gym")
    assert caught.value.hint == "pip install reasoning-gym==0.1.25"


@pytest.mark.parametrize(
    "entry",
    [
        {
            "answer": None,
            "metadata": {"a": (1, (2.5, "x")), "b": [[], ()], "order": {"z": 1, "a": 2}},
        },
        {"metadata": {"edges": {0: [1], 10: [], 2: (3,)}, "mixed": {None: 1, True: 2, (1, 2): 3}}},
        {"metadata": {"tuple": [1]}, "dict": {"dict": []}, "x": {"tuple": (1,)}},
    ],
)
def test_an_entry_survives_as_text_with_its_types_and_the_order_of_its_keys(entry):
    made = _reasoning_gym.decoded(_reasoning_gym.encoded(entry))
    assert repr(made) == repr(entry)


def test_an_entry_of_an_unknown_type_is_refused():
    with pytest.raises(ValueError, match="holds a set"):
        _reasoning_gym.encoded({"metadata": {1, 2}})


def test_weights_share_the_size_out_without_losing_any():
    assert reasoning_gym._shares(10, [3, 1], 2) == [8, 2]
    assert sum(reasoning_gym._shares(101, None, 7)) == 101
    with pytest.raises(ValueError, match="weights has 1 numbers"):
        reasoning_gym._shares(10, [1], 2)


@needs_package
def test_the_problems_are_those_of_create_dataset():
    import reasoning_gym as package

    theirs = package.create_dataset("countdown", seed=7, size=4, max_numbers=4)
    rows = registry.build("tasks", "reasoning-gym:size=4,seed=7,config={max_numbers=4}")
    assert [entry_of(row) for row in rows] == [theirs[i] for i in range(4)]
    assert [row["answer"] for row in rows] == [theirs[i]["answer"] for i in range(4)]
    assert rows[0]["prompt"][-1] == {"role": "user", "content": theirs[0]["question"]}
    assert "<answer>" in rows[0]["prompt"][0]["content"]
    assert [row["prompt_id"] for row in rows][:2] == [
        "countdown-train-000000",
        "countdown-train-000001",
    ]


@needs_package
@pytest.mark.slow
def test_every_generator_makes_the_same_prompts_whatever_seed_hashes_have(tmp_path):
    code = (
        "import json, sys; from rlvr_cli.tasks import reasoning_gym as task;"
        "rows = task.build(name='all', size=210, seed=3);"
        "json.dump([row['extra'] for row in rows], sys.stdout)"
    )
    made = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True, cwd=tmp_path,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    first, second = (json.loads(text[text.index("[{") :]) for text in made)
    assert first == second
    counts = Counter(extra["reasoning_gym"]["name"] for extra in first)
    assert len(counts) == 105 and set(counts.values()) == {2}


@needs_package
def test_the_held_out_split_draws_with_seeds_that_training_never_has():
    spec = "reasoning-gym:name=complex_arithmetic,size=30"
    train, heldout = (registry.build("tasks", f"{spec},split={s}") for s in ("train", "heldout"))
    texts = [{row["prompt"][-1]["content"] for row in rows} for rows in (train, heldout)]
    assert len(texts[0]) == len(texts[1]) == 30 and not texts[0] & texts[1]
    assert heldout[0]["extra"]["reasoning_gym"]["seed"] == 2**31


@needs_package
def test_a_level_of_difficulty_is_that_of_the_generators_curriculum():
    spec = "reasoning-gym:name=gcd,size=20,difficulty="
    easy, hard = (registry.build("tasks", f"{spec}{level}") for level in (0, 3))
    largest = [
        max(max(entry_of(row)["metadata"]["numbers"]) for row in rows) for rows in (easy, hard)
    ]
    assert largest[0] * 10 < largest[1]
    assert easy[0]["prompt_id"] == "gcd-level-0-train-000000"


@needs_package
def test_several_generators_share_the_size_and_are_sources_of_their_own():
    rows = registry.build("tasks", "reasoning-gym:name=[gcd,lcm],size=8,weights=[3,1],system=none")
    assert Counter(row["source"] for row in rows) == {
        "reasoning-gym/gcd": 6,
        "reasoning-gym/lcm": 2,
    }
    assert [message["role"] for message in rows[0]["prompt"]] == ["user"]


@needs_package
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("name=gcdd", "reasoning-gym has no generator `gcdd`; it has ab, acre"),
        ("name=composite", "reasoning-gym has no generator `composite`"),
        ("name=[gcd,gcd]", "several different ones"),
        ("name=gcd,difficulty=4", "difficulty is 4, that of `gcd` goes from 0 to 3"),
        ("name=acre,difficulty=0", "`acre` has no levels of difficulty"),
        ("name=knight_swap,difficulty=0", "refuses its values at difficulty 0: min_nodes must be"),
        ("name=gcd,config={size=3}", "`gcd` has no value `size`; it has max_numbers"),
        ("name=gcd,config={min_numbers=9,max_numbers=3}", "`gcd` refuses its values: max_numbers"),
        ("name=[gcd,lcm],config={max_numbers=3}", "`config` cannot be the same"),
        ("size=0", "size must be 1 or more"),
        ("seed=2147483647", "seed 0 to"),
    ],
)
def test_what_a_generator_does_not_have_is_refused(spec, words):
    assert words in refusal(f"reasoning-gym:{spec}")
