import json

import pytest


@pytest.mark.slow
def test_the_path_is_on_stdout_and_the_file_is_whole(rlvr, known, tmp_path):
    out = tmp_path / "report.html"
    ran = rlvr("report", known, "--out", out)
    assert (ran.code, ran.out) == (0, f"{out}\n") and ran.err.startswith("report: 0.")
    assert out.read_text().rstrip().endswith("</html>")


@pytest.mark.slow
def test_json_has_the_figures(rlvr, known, tmp_path):
    summary = json.loads(rlvr("report", known, "--out", tmp_path / "r.html", "--json").out)
    (subject,) = summary["subjects"].values()
    assert subject["metrics"]["pass@1"][0] == 0.375 and summary["differences"] == []


def test_a_report_is_written_over_and_another_file_is_not(rlvr, refused, known, tmp_path):
    out = tmp_path / "r.html"
    assert rlvr("report", known, "--out", out).code == 0
    assert rlvr("report", known, "--out", out, "--examples=0").code == 0
    out.write_text("<p>mine")
    assert "exists and is not a report" in refused(1, "report", known, "--out", out)
    assert out.read_text() == "<p>mine"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nope"], 3, "`nope` does not exist"),
        ([], 2, "`rlvr report` needs RUN|DIR..."),
        (["{known}", "{known}"], 2, "was given twice"),
        (["{known}"] * 7, 2, "7 directories were given, a report shows at most 6"),
        (["{known}/prompts"], 3, "holds prompts"),
        (["{known}", "--threshold=0"], 2, "threshold 0.0 is not in"),
        (["{known}", "--min-n=9"], 3, "has 9 completions with a verdict, the most is 4"),
    ],
)
def test_what_cannot_be_shown_is_refused(refused, known, tmp_path, words, code, message):
    words = [word.format(known=known) for word in words]
    assert message in refused(code, "report", *words, "--out", tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_rollouts_without_scores_are_refused_with_what_to_type(refused, copy, tmp_path):
    import shutil

    shutil.rmtree(copy / "scores")
    err = refused(3, "report", copy / "rollouts", "--out", tmp_path / "r.html")
    assert f"hint: score it: rlvr score {copy / 'rollouts'}" in err


def test_a_part_that_was_cut_is_refused(refused, copy, tmp_path):
    part = copy / "scores" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:100])
    err = refused(3, "report", copy, "--out", tmp_path / "r.html")
    assert "does not match its checksum" in err and not (tmp_path / "r.html").exists()


def test_no_verdict_at_all_is_refused(refused, rlvr, jsonl, tmp_path):
    rows = [{"id": "a", "prompt": "?", "completion": "x", "correct": None, "reward": None}]
    rlvr("import", jsonl(*rows, {**rows[0], "correct": True}), "--out", tmp_path / "i")
    rlvr("score", tmp_path / "i" / "rollouts", "--verifier=number", "--out", tmp_path / "s")
    err = refused(3, "report", tmp_path / "s", "--out", tmp_path / "r.html")
    assert "no prompt has a completion with a verdict" in err
