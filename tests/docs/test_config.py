import re
import tomllib
from dataclasses import fields

from rlvr_cli import config, run_config


def test_the_page_is_made_from_the_code(up_to_date):
    up_to_date("config.md")


def test_every_key_is_on_the_page(reference):
    text = reference.page("config.md")
    for stage in fields(config.RunConfig):
        for option in fields(type(stage.default)):
            assert f"| `{option.name}` |" in text


def test_every_family_of_recipes_has_an_example(reference):
    shown = {*reference.FAMILIES, *(r for f in reference.FAMILIES for r in reference.family(f))}
    assert shown == set(run_config.recipes())


def test_every_file_that_the_page_shows_can_be_loaded(reference, tmp_path):
    found = re.findall(r"```toml\n(.*?)```", reference.page("config.md"), re.S)
    assert len(found) > len(reference.FAMILIES)
    for text in found:
        (tmp_path / "run.toml").write_text(text)
        loaded = tomllib.loads(run_config.load([tmp_path / "run.toml"], {}).to_toml())
        for table, values in tomllib.loads(text).items():
            assert loaded[table].items() >= values.items()


def test_an_example_is_its_recipe_whole(reference, tmp_path):
    text = reference.page("config.md")
    for name in reference.FAMILIES:
        shown = re.search(rf"### `{name}`\n.*?```toml\n(.*?)```", text, re.S)[1]
        (tmp_path / "run.toml").write_text(shown)
        assert run_config.load([tmp_path / "run.toml"], {}) == run_config.recipe(name)[1]
