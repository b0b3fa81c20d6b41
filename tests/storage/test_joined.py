"""Several directories read as one."""

import json
import shutil

import pyarrow as pa
import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.stages import prompts
from rlvr_cli.storage import joined, manifest
from rlvr_cli.storage.shards import Shards


@pytest.fixture
def both(chain, known):
    """Scores of a chain and of an import, as one."""
    return joined.opened([chain / "scores", known / "scores"], "scores")


def prompts_of(out, *pairs, answer="1"):
    rows = [
        {"prompt_id": name, "messages": json.dumps(text), "answer": answer, "verifier": "text",
         "source": "s", "extra": None, "raw": None}
        for name, text in pairs
    ]  # fmt: skip
    return prompts.make_all_parts(rows, out, params={"limit": len(rows)})


def test_the_parts_of_all_come_one_after_the_other_in_the_order_given(both, chain, known):
    each = [Shards.open(path / "scores") for path in (chain, known)]
    assert both.table().equals(pa.concat_tables(part for one in each for part in one.parts()))
    assert (len(both), both.rows) == (3, 32)
    assert [both.input_of(part) for part in range(3)] == [0, 0, 1]
    assert both.as_argument == f"{chain / 'scores'} {known / 'scores'}"


def test_the_parents_line_up_with_what_was_made_of_them(both, chain, known):
    rollouts = both.parent("rollouts")
    assert [one.path.name for one in rollouts.inputs] == ["rollouts", "rollouts"]
    for part in range(len(both)):
        key = ["prompt_id", "sample_index"]
        assert rollouts.part(part, key).equals(both.part(part, key))


def test_one_directory_is_itself_and_those_of_several_are_not_nested(both, chain):
    alone = joined.opened([chain / "scores"], "scores")
    assert alone.inputs == (alone,) and type(alone) is Shards
    assert len(joined.join([both, alone]).inputs) == 3


def test_another_order_is_another_digest(both):
    assert joined.join([*reversed(both.inputs)]).digest != both.digest


def test_a_param_that_differs_is_refused_where_it_is_asked_for(both):
    assert both.parent("rollouts").params.get("nothing") is None
    with pytest.raises(DataError, match=r"the temperature of .* is 1\.0, .* is not recorded"):
        both.parent("rollouts").params.get("temperature")
    with pytest.raises(DataError, match=r"the num_generations of `.*` is 4, that"):
        both.parent("rollouts").params["num_generations"]
    assert "temperature" not in dict(both.parent("rollouts").params)


def test_a_directory_that_is_given_twice_is_refused(copy, chain):
    for path in (chain / "scores", copy / "scores"):
        with pytest.raises(UsageError, match=r"given twice|once more"):
            joined.opened([chain / "scores", path], "scores")


def test_an_incomplete_one_of_several_is_refused_by_name(chain, copy):
    (copy / "scores" / "_manifest.json").unlink()
    with pytest.raises(DataError, match=f"`{copy / 'scores'}` has parts, and lost"):
        joined.opened([chain / "scores", copy / "scores"], "scores")


def test_an_empty_one_of_several_is_refused_by_name(tmp_path):
    full, empty = prompts_of(tmp_path / "a", ("x", "1")), prompts_of(tmp_path / "b")
    with pytest.raises(DataError, match=f"`{empty.path}` holds no rows"):
        joined.opened([full.path, empty.path], "prompts")


def test_a_prompt_that_two_directories_have_is_there_once(tmp_path):
    first = prompts_of(tmp_path / "a", ("x", "1"), ("y", "2"))
    second = prompts_of(tmp_path / "b", ("y", "2"), ("z", "3"))
    both = joined.join([first, second, first])
    assert both.table()["prompt_id"].to_pylist() == ["x", "y", "z"] and both.rows == 3
    assert both.part(1, ["messages"])["messages"].to_pylist() == ['"3"']


@pytest.mark.parametrize("change", [{"answer": "2"}, {}])
def test_two_prompts_of_one_id_are_refused(tmp_path, change):
    first = prompts_of(tmp_path / "a", ("x", "1"))
    second = prompts_of(tmp_path / "b", ("x", "1" if change else "2"), **change)
    with pytest.raises(joined.TwoPrompts, match=r"`x` is one prompt in .* and another in"):
        joined.join([first, second])


def test_each_of_several_parents_is_found_where_it_moved(rlvr, copy, known, tmp_path):
    out = tmp_path / "m" / "scores"
    mine = shutil.copytree(known, tmp_path / "known")
    assert rlvr("score", copy / "rollouts", mine / "rollouts", "--verifier", "number",
                "--out", out).code == 0  # fmt: skip
    for folder, name in ((copy, "r1"), (mine, "r2")):
        shutil.move(folder / "rollouts", tmp_path / name)
    with pytest.raises(DataError, match=r"rollouts`, which .* was made from, is not there"):
        Shards.open(out).parent("rollouts")
    words = ("advantage", out, "--rollouts", tmp_path / "r2", "--rollouts", tmp_path / "r1")
    assert rlvr(*words).code == 0
    shutil.move(tmp_path / "r1", copy / "rollouts")
    words = ("advantage", out, "--rollouts", tmp_path / "r2", "--out", tmp_path / "one-moved")
    assert rlvr(*words).code == 0


def test_a_listing_of_several_parents_is_as_strict_as_that_of_one():
    good = {"path": "../a", "digest": "0" * 64}
    fits = manifest._SHAPE["parents"]
    assert fits({"rollouts": good}) and fits({"rollouts": [good, good]})
    for bad in ([], [good], [good, {"path": "a"}], [good, "a"], "a", [good, {**good, "path": 1}]):
        assert not fits({"rollouts": bad})


def test_prompts_of_one_of_several_inputs_are_found_where_they_moved(rlvr, refused, copy, known):
    mine = shutil.copytree(known, copy / "known")
    (copy / "prompts").rename(copy / "moved")
    pair = (mine / "rollouts", copy / "rollouts", "--verifier", "number", "--out", copy / "s")
    assert "say where it is now: `--prompts DIR`" in refused(3, "score", *pair)
    assert rlvr("score", *pair, "--prompts", copy / "moved").code == 0
