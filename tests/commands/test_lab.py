import importlib.util
import json

import pytest

from rlvr_cli.storage.shards import Shards

SHARP = ("lab", "sharpening", "--seeds", "4", "--steps", "12", "--jobs", "1", "--group-size", "2,4")
plotting = importlib.util.find_spec("matplotlib") is not None


def test_a_sweep_is_kept_as_shards_and_drawn(rlvr, tmp_path):
    out = tmp_path / "lab"
    words = (*SHARP, "--algo", "grpo", "--format", "none", "--out", out)
    ran = rlvr(*words)
    assert ran.code == 0 and ran.out == f"{out}\n"
    assert "grpo, sgd 1: the larger and the smaller" in ran.err and "larger, G=2" in ran.err
    assert "Siamese" not in ran.err, "the held-out class was not asked for"
    assert "lab sharpening: 2 runs, 0 files" in ran.err
    (row,) = (line for line in ran.err.splitlines() if line.startswith("grpo G=2"))
    directory = Shards.open(out / "trajectories", "trajectories")
    assert directory.rows == 2 * 4 * 13
    again = rlvr(*words, "--json")
    assert "2 runs (2 reused)" in again.err
    outcomes = json.loads(again.out)["outcomes"]
    assert set(outcomes) == {f"grpo G={size} sgd lr=1" for size in (2, 4)}
    assert f"{outcomes['grpo G=2 sgd lr=1']['success']:.4g}" in row


@pytest.mark.slow
@pytest.mark.skipif(not plotting, reason="matplotlib is not installed")
def test_figures_are_files_and_the_same_bytes_again(rlvr, tmp_path):
    words = ("lab", "two-stage", "--seeds", "3", "--steps", "20", "--jobs", "1")
    words = (*words, "--rewards", "0.5,1,0", "--initial", "0.6,0.1,0.3")
    for name in ("a", "b"):
        assert rlvr(*words, "--out", tmp_path / name).code == 0
    for kind in ("svg", "png"):
        first, second = ((tmp_path / n / f"two-stage-sweep.{kind}").read_bytes() for n in "ab")
        assert first == second and len(first) > 1000
    assert "a2, r=1" in (tmp_path / "a" / "two-stage-sweep.svg").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sharpening", "--format", "gif"), "write svg, png"),
        (("sharpening", "--group-size", "4,x"), "--group-size is `4,x`, hint: write integers"),
        (("sharpening", "--learning-rate", "-1"), "--learning-rate is `-1`"),
        (("sharpening", "--similarity", "hihg"), "--similarity is `hihg`"),
        (("sharpening", "--init", "zero"), "--init is `zero`"),
        (("sharpening", "--algo", "apo"), "anchors to 8 tokens, there are 4 actions"),
        (("sharpening", "--optimizer", "lion"), "unknown optimizer `lion`"),
        (("two-stage", "--rewards", "1,2"), "2 rewards, but 3 initial probabilities"),
        (("two-stage", "--initial", "0.5,0.1,0.1"), "must be above 0 and sum to 1"),
        (("sharpenin",), "did you mean `rlvr lab sharpening`?"),
    ],
)
def test_what_is_refused_is_said_in_a_line(refused, tmp_path, words, message):
    out = () if words == ("sharpenin",) else ("--out", tmp_path / "x")
    said = refused(2, "lab", *words, *out).replace("\nhint:", ", hint:")
    assert message in said


def test_lab_alone_lists_its_commands(rlvr):
    ran = rlvr("lab", "--help")
    assert ran.code == 0 and "sharpening" in ran.out and "two-stage" in ran.out


def test_some_claims_alone_make_a_page(rlvr, refused, tmp_path):
    ran = rlvr("lab", "claims", "--only", "P1,Q2", "--out", tmp_path / "c.md", "--json")
    assert json.loads(ran.out)["verdicts"] == {"P1": "holds", "Q2": "holds"}
    assert "P1. At p = 1 the objective is GRPO's: holds" in ran.err
    assert "difference of the losses" in ran.err
    page = (tmp_path / "c.md").read_text()
    assert "--only P1,Q2" in page and "### Q2" in page
    assert "no claim `P99`" in refused(2, "lab", "claims", "--only", "P99")
    said = refused(3, "lab", "claims", "--language", tmp_path / "absent", "--out", tmp_path / "x")
    assert "head_to_head.py --record" in said
