"""The folder listing as a registry, and the grammar of specs."""

import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import rlvr_cli
from rlvr_cli import registry
from rlvr_cli.errors import UsageError


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A folder of two toys, beside the project's own."""
    files = {
        "spinning_top": '''
            """A toy that spins."""

            from typing import Literal


            def build(
                *,
                turns: int = 3,
                speed: float = 0.5,
                wound: bool = False,
                colour: Literal["red", "deep-blue"] = "red",
                label: str = "",
            ):
                """Its options, or an error if it cannot turn."""
                if turns < 0:
                    raise ValueError("turns must not be below 0")
                return (turns, speed, wound, colour, label)
        ''',
        "ball": '"""A toy without options."""\n\n\ndef build():\n    return "ball"\n',
        "_private": "",
    }
    folder = tmp_path / "toys"
    folder.mkdir()
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(textwrap.dedent(text).strip() + "\n")
    monkeypatch.setattr(registry, "_ROOT", tmp_path)
    monkeypatch.setattr(rlvr_cli, "__path__", [*rlvr_cli.__path__, str(tmp_path)])
    yield folder
    for name in [name for name in sys.modules if name.startswith("rlvr_cli.toys")]:
        del sys.modules[name]
    vars(rlvr_cli).pop("toys", None)


def refusal(spec, folder="toys"):
    with pytest.raises(UsageError) as caught:
        registry.build(folder, spec)
    return str(caught.value), caught.value.hint


@pytest.mark.parametrize("folder", ["objectives", "modifiers", "rollout", "tasks", "verifiers"])
def test_each_file_of_a_folder_is_a_name_with_a_summary_and_options(folder):
    names = registry.names(folder)
    stems = {
        path.stem
        for path in (Path(rlvr_cli.__file__).parent / registry.package(folder)).glob("[a-z]*.py")
    }
    assert {name.replace("-", "_") for name in names} == stems
    for name in names:
        assert registry.summary(folder, name)
        assert all(
            option.default is not option.empty for option in registry.options(folder, name).values()
        )


def test_names_are_in_kebab_case_sorted_and_without_private_files(toys):
    assert registry.names("toys") == ["ball", "spinning-top"]


def test_a_new_file_is_a_new_name(toys):
    (toys / "kite.py").write_text("def build():\n    return 'kite'\n")
    assert registry.build("toys", "kite") == "kite"


def test_a_summary_is_read_without_importing(toys):
    (toys / "broken.py").write_text('"""First line.\n\nMore."""\n\nraise RuntimeError\n')
    assert registry.summary("toys", "broken") == "First line."
    assert registry.summary("toys", "spinning-top") == "A toy that spins."


def test_values_have_the_types_their_options_declare(toys):
    spec = "spinning-top:turns=7,speed=2,wound=True,colour=deep-blue,label=4"
    assert registry.parse("toys", spec) == (
        "spinning-top",
        {"turns": 7, "speed": 2.0, "wound": True, "colour": "deep-blue", "label": "4"},
    )
    assert isinstance(registry.parse("toys", spec)[1]["speed"], float)
    assert registry.build("toys", spec) == (7, 2.0, True, "deep-blue", "4")


def test_defaults_stand_for_what_is_not_given(toys):
    for spec in ("spinning-top", "spinning-top:", " spinning-top "):
        assert registry.build("toys", spec) == (3, 0.5, False, "red", "")


def test_a_value_may_hold_an_equals_sign(toys):
    assert registry.parse("toys", "spinning-top:label=a=b")[1]["label"] == "a=b"


def test_an_unknown_name_is_refused_with_the_nearest(toys):
    assert refusal("spining-top:turns=2") == (
        "unknown toy `spining-top`",
        "did you mean `spinning-top`?",
    )


def test_swapped_letters_in_the_name_of_an_objective_are_recognised():
    assert refusal("grop", "objectives") == ("unknown objective `grop`", "did you mean `grpo`?")


def test_an_unknown_name_like_none_is_refused_with_all(toys):
    assert refusal("xyz") == ("unknown toy `xyz`", "there are ball, spinning-top")


def test_a_file_name_is_no_name(toys):
    assert refusal("spinning_top") == (
        "unknown toy `spinning_top`",
        "did you mean `spinning-top`?",
    )


def test_a_path_is_no_name(toys):
    assert refusal("../toys/ball")[0] == "unknown toy `../toys/ball`"


def test_an_unknown_option_is_refused_with_the_known_ones(toys):
    assert refusal("spinning-top:weight=2") == (
        "`spinning-top` has no option `weight`",
        "the options of `spinning-top` are turns, speed, wound, colour, label",
    )


def test_a_misspelt_option_is_refused_with_the_nearest(toys):
    message, hint = refusal("spinning-top:turn=2")
    assert message == "`spinning-top` has no option `turn`"
    assert hint == (
        "did you mean `turns`? the options of `spinning-top` are turns, speed, wound, colour, label"
    )


def test_the_example_of_a_hint_is_no_default_of_nothing():
    """0 stands for "as the model has it" there."""
    assert refusal("vllm:max_length=long", "rollout")[1] == "write `vllm:max_length=1`"


def test_the_example_of_a_choice_is_a_word():
    assert refusal("wandb:mode=off", "trackers")[1] == "write `wandb:mode=online`"


def test_the_example_of_a_range_rises():
    hint = refusal("judge:scale=wide", "verifiers")[1]
    assert hint == "write `judge:scale=[0.5,1.5]`"
    registry.build("verifiers", "judge:url=http://localhost/v1,model=m,scale=[0.5,1.5]")


def test_an_option_of_a_name_without_options_is_refused(toys):
    assert refusal("ball:size=2")[1] == "the options of `ball` are none"


def test_an_option_without_a_value_is_refused(toys):
    assert refusal("spinning-top:speed") == (
        "option `speed` of `spinning-top` has no value",
        "write `spinning-top:speed=0.5`",
    )


@pytest.mark.parametrize(
    "item, expected",
    [
        ("turns=two", "an integer"),
        ("turns=2.5", "an integer"),
        ("turns=", "an integer"),
        ("speed=fast", "a number"),
        ("wound=yes", "true or false"),
        ("colour=green", "one of red, deep-blue"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(toys, item, expected):
    key, _, value = item.partition("=")
    message, hint = refusal(f"spinning-top:{item}")
    assert message == f"option `{key}` of `spinning-top` is `{value}`, {expected} was expected"
    assert hint.startswith(f"write `spinning-top:{key}=")


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("any:of=math", "write `any:of=[math]`"),
        ("text:words=[50]", "write `text:words=[1,1]`"),
        ("text:words=50", "write `text:words=[1,1]`"),
        ("code:packages=numpy", "write `code:packages=[numpy]`"),
    ],
)
def test_the_hint_of_a_list_is_a_list_that_is_accepted(spec, hint):
    with pytest.raises(UsageError) as caught:
        registry.parse("verifiers", spec)
    assert caught.value.hint == hint
    registry.parse("verifiers", hint.removeprefix("write ").strip("`"))


def test_the_value_that_a_hint_proposes_is_accepted(toys):
    for item in ("turns=two", "speed=fast", "wound=yes", "colour=green"):
        _, hint = refusal(f"spinning-top:{item}")
        registry.build("toys", hint.removeprefix("write ").strip("`"))


def test_nan_is_no_number(toys):
    assert "a number was expected" in refusal("spinning-top:speed=nan")[0]


def test_an_option_given_twice_is_refused(toys):
    assert "turns" in refusal("spinning-top:turns=1,turns=2")[0]


def test_what_build_refuses_is_a_usage_error_that_names_the_spec(toys):
    assert refusal("spinning-top:turns=-1") == (
        "`spinning-top:turns=-1`: turns must not be below 0",
        "see `rlvr list toys spinning-top`",
    )


def test_the_canonical_spelling_writes_every_option_in_the_order_of_the_signature(toys):
    assert registry.canonical("toys", "ball") == "ball"
    assert registry.canonical("toys", "spinning-top:wound=TRUE,turns=07") == (
        "spinning-top:turns=7,speed=0.5,wound=true,colour=red,label="
    )


@given(turns=st.integers(0, 10**9), speed=st.floats(-1e15, 1e15))
def test_the_canonical_spelling_keeps_every_digit(turns, speed):
    values = {"clip_low": speed, "seed": turns}
    spec = f"pass-at-k:{','.join(f'{key}={value!r}' for key, value in values.items())}"
    canonical = registry.canonical("objectives", spec)
    assert registry.parse("objectives", canonical) == registry.parse("objectives", spec)
    assert registry.parse("objectives", canonical)[1]["clip_low"] == speed
    assert registry.canonical("objectives", canonical) == canonical
