import json

import pyarrow.parquet as pq
import pytest

ROWS = [{"id": "a", "correct": c} for c in (True, True, False, False)] + [
    {"id": "b", "correct": c} for c in (True, False, False, False)
]


def test_known_verdicts_give_the_exact_figures(rlvr, known):
    ran = rlvr("eval-passk", known / "scores", "--k", "1,2,4")
    assert ran.code == 0 and ran.err == ""
    lines = {line.split()[0]: line.split()[1] for line in ran.out.splitlines() if "@" in line}
    assert lines["pass@1"] == "37.5%"
    assert lines["pass@2"] == "66.7%"  # the mean of 5/6 and 1/2
    assert lines["pass@4"] == "100.0%"
    assert "2 prompts, 4 completions each, 0 excluded" in ran.out


def test_json_is_one_object_with_intervals(rlvr, known):
    summary = json.loads(rlvr("eval-passk", known / "scores", "--json").out)
    assert (summary["prompts"], summary["n"], summary["excluded"]) == (2, [4, 4], 0)
    assert list(summary["metrics"]) == ["pass@1", "pass@2", "pass@4", "avg@k"]
    mean, low, high = summary["metrics"]["pass@2"]
    assert mean == pytest.approx(2 / 3) and low <= mean <= high


def test_out_keeps_one_row_a_prompt_and_stdout_is_its_path(rlvr, known, tmp_path):
    ran = rlvr("eval-passk", known / "scores", "--k", "2", "--out", tmp_path / "made")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    assert "pass@2" in ran.err
    rows = pq.read_table(tmp_path / "made").to_pylist()
    assert [(r["prompt_id"], r["n"], r["correct"]) for r in rows] == [("a", 4, 2), ("b", 4, 1)]
    assert [r["pass@2"] for r in rows] == pytest.approx([5 / 6, 1 / 2])


def test_json_names_the_directory_that_was_made(rlvr, known, tmp_path):
    ran = rlvr("eval-passk", known / "scores", "--out", tmp_path / "made", "--json")
    assert json.loads(ran.out)["path"] == str(tmp_path / "made")


def test_running_again_changes_nothing_and_says_so(rlvr, known, tmp_path, files_of):
    words = ("eval-passk", known / "scores", "--out", tmp_path / "made")
    rlvr(*words)
    before = files_of(tmp_path / "made")
    ran = rlvr(*words)
    assert files_of(tmp_path / "made") == before
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    assert "nothing left to do" in ran.err


def test_other_ks_are_refused_with_the_old_and_the_new_ones(rlvr, refused, known, tmp_path):
    rlvr("eval-passk", known / "scores", "--k", "1,2", "--out", tmp_path / "made")
    words = ("--k", "1", "--out", tmp_path / "made")
    assert "k was [1, 2], is [1]" in refused(2, "eval-passk", known / "scores", *words)


def test_a_file_of_rows_gives_the_figures_of_its_scores(rlvr, jsonl):
    summary = json.loads(rlvr("eval-passk", jsonl(*ROWS), "--k", "2", "--json").out)
    assert summary["metrics"]["pass@2"][0] == pytest.approx(2 / 3)


def test_a_completion_without_a_verdict_is_excluded_and_counted(rlvr, jsonl):
    source = jsonl(*ROWS, {"id": "a", "correct": None}, {"id": "b", "correct": "nan"})
    summary = json.loads(rlvr("eval-passk", source, "--k", "2", "--json").out)
    assert (summary["excluded"], summary["n"]) == (2, [4, 4])
    assert summary["metrics"]["pass@2"][0] == pytest.approx(2 / 3)


def test_a_prompt_with_an_empty_list_is_not_lost(refused, jsonl):
    source = jsonl({"id": "a", "correct": []}, {"id": "b", "correct": [True]})
    assert "`a`" in refused(3, "eval-passk", source)


def test_a_prompt_without_any_verdict_is_left_out_and_named(rlvr, jsonl):
    source = jsonl({"id": "a", "correct": None}, {"id": "b", "correct": True})
    assert "1 prompt without any verdict left out" in rlvr("eval-passk", source).out
    summary = json.loads(rlvr("eval-passk", source, "--json").out)
    assert (summary["left_out"], summary["prompts"], summary["metrics"]["pass@1"][0]) == (
        ["a"],
        1,
        1.0,
    )


def test_other_content_of_the_same_file_is_refused_and_not_taken_for_done(
    rlvr, refused, jsonl, tmp_path
):
    out = ("--out", tmp_path / "made")
    assert rlvr("eval-passk", jsonl({"id": "a", "correct": True}), *out).code == 0
    source = jsonl({"id": "a", "correct": False})
    assert "was made with other parameters: content was" in refused(2, "eval-passk", source, *out)


def test_prompts_that_all_lack_a_verdict_are_refused(refused, jsonl):
    err = refused(3, "eval-passk", jsonl({"id": "a", "correct": ""}))
    assert "no prompt has a completion with a verdict" in err


@pytest.mark.parametrize("k", ["x", "0", "-1", "1.5", "1,,2", ""])
def test_a_k_that_is_no_number_from_1_on_is_refused(refused, known, k):
    err = refused(2, "eval-passk", known / "scores", f"--k={k}")
    assert f"--k is `{k}`" in err and "as in --k 1,8,64" in err


def test_a_k_above_the_smallest_group_is_refused(refused, known):
    err = refused(3, "eval-passk", known / "scores", "--k", "1,8")
    assert "`pass@8` needs 8 completions" in err and "up to 4" in err


SHORT = [{"id": i, "correct": [True, False] * (1 if i == 2 else 4)} for i in range(5)]


def test_one_short_prompt_forbids_no_larger_k(rlvr, refused, jsonl):
    source = jsonl(*SHORT)
    err = refused(3, "eval-passk", source, "--k", "1,8")
    assert "use `--k` up to 2, or leave out the 1 of 5 prompts with fewer: --min-n 8" in err
    ran = rlvr("eval-passk", source, "--k", "1,8", "--min-n", "8")
    assert ran.code == 0 and "1 prompt with fewer than 8 verdicts left out (2)" in ran.out
    summary = json.loads(rlvr("eval-passk", source, "--min-n", "3", "--json").out)
    assert list(summary["metrics"])[:4] == ["pass@1", "pass@2", "pass@4", "pass@8"]
    assert (summary["prompts"], summary["left_out"]) == (4, ["2"])


def test_more_completions_than_any_prompt_has_are_refused(rlvr, refused, jsonl):
    source = jsonl(*SHORT)
    err = refused(3, "eval-passk", source, "--min-n", "9")
    assert "no prompt has 9 completions with a verdict, the most is 8" in err
    assert rlvr("eval-passk", source, "--min-n", "8").code == 0
    assert "--min-n" not in refused(3, "eval-passk", source, "--k", "9")


def test_a_directory_of_fewer_prompts_is_another_one(rlvr, refused, jsonl, tmp_path):
    words = ("eval-passk", jsonl(*SHORT), "--k", "1", "--out", tmp_path / "made")
    assert rlvr(*words).code == 0
    assert "min_n was not set, is 8" in refused(2, *words, "--min-n", "8")
    fewer = (*words[:-1], tmp_path / "fewer")
    assert rlvr(*fewer, "--min-n", "8").code == 0
    assert "nothing left to do" in rlvr(*fewer, "--min-n", "8").err
    assert "min_n was 8, is not set" in refused(2, *fewer)


def test_another_directory_than_scores_is_refused(refused, known):
    said = refused(3, "eval-passk", known / "rollouts")
    assert "scores were expected" in said
    assert f"make scores from it with `rlvr score {known / 'rollouts'}`" in " ".join(said.split())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ([{"id": "a", "completion": "x"}], "it has id, completion"),
        ([{"correct": True}], "--id-column"),
        ([{"id": None, "correct": True}, {"id": "a", "correct": True}], "row 1 has no `id`"),
        ([{"id": "a", "correct": "maybe"}], "`correct` = `maybe`"),
        ([{"id": "a", "correct": 2}], "`correct` = `2`"),
        ([{"id": "a", "reward": "high"}], "`reward` = `high`"),
        ([{"id": "a", "reward": 1e999}], "`reward` = `inf`"),
        ([{"id": "a", "completion": ["x", "y"], "correct": [True]}], "row 1 holds lists"),
    ],
)
def test_a_bad_row_is_refused_where_it_is_bad(refused, jsonl, rows, message):
    assert message in refused(3, "eval-passk", jsonl(*rows))


def test_a_hint_names_only_flags_that_the_command_has(rlvr, refused, jsonl):
    hint = refused(3, "eval-passk", jsonl({"id": "a", "reward": "high"})).splitlines()[-1]
    flags = [word.strip(".,`") for word in hint.split() if word.startswith("--")]
    usage = rlvr("eval-passk", "--help").out
    assert all(flag in usage for flag in flags), hint


def test_an_unknown_column_is_answered_with_those_there_are(refused, jsonl):
    for flag in ("--id-column", "--correct-column"):
        err = refused(3, "eval-passk", jsonl(*ROWS), flag, "nope")
        assert "no column `nope`; it has id, correct" in err and flag in err


def test_a_missing_path_is_named(refused):
    assert "`nope.jsonl` does not exist" in refused(3, "eval-passk", "nope.jsonl")


def test_each_source_has_its_own_figures(rlvr, jsonl, tmp_path):
    rows = [{"id": 0, "correct": c, "source": s} for s, c in
            (("aime", True), ("aime", False), ("gsm8k", True), ("gsm8k", True))]  # fmt: skip
    ran = rlvr("eval-passk", jsonl(*rows), "--k", "2")
    assert "`aime`, 1 prompt\n" in ran.out and "`gsm8k`, 1 prompt\n" in ran.out
    words = ("--json", "--out", tmp_path / "made", "--k", "1")
    summary = json.loads(rlvr("eval-passk", jsonl(*rows), *words).out)
    assert summary["metrics"]["pass@1"][0] == 0.75
    assert summary["sources"]["aime"]["metrics"]["pass@1"] == [0.5, None, None]
    table = pq.read_table(tmp_path / "made")
    assert table["prompt_id"].to_pylist() == ["aime/0", "gsm8k/0"]
    assert table["source"].to_pylist() == ["aime", "gsm8k"]


def test_the_source_of_scores_is_that_of_their_prompts(rlvr, known, tmp_path):
    rlvr("eval-passk", known / "scores", "--out", tmp_path / "made")
    assert pq.read_table(tmp_path / "made")["source"].to_pylist() == ["rows", "rows"]


def test_majorities_are_counted_where_answers_are_stored(rlvr, jsonl):
    answers = [("5", True), ("5.0", True), ("6", False), (None, False)]
    rows = [{"id": "a", "extracted": answer, "correct": right} for answer, right in answers]
    summary = json.loads(rlvr("eval-passk", jsonl(*rows), "--k", "1,2,4", "--json").out)["metrics"]
    means = {k: summary[f"maj@{k}"][0] for k in (1, 2, 4)}
    assert means == pytest.approx({1: 0.5, 2: (1 + 2 / 2 + 2) / 6, 4: 1.0})


def test_the_estimator_and_the_standard_error_are_named(rlvr, known):
    summary = json.loads(rlvr("eval-passk", known / "scores", "--k", "1", "--json").out)
    assert "2107.03374" in summary["estimator"]
    assert summary["standard_error"]["pass@1"] == pytest.approx(0.125)  # 0.5 and 0.25


@pytest.mark.parametrize(("right", "ends"), [(True, [1, 0.6915, 1.0]), (False, [0, 0, 0.3085])])
def test_all_right_and_all_wrong_are_no_certainty(rlvr, jsonl, right, ends):
    rows = [{"id": i, "correct": [right] * 4} for i in range(10)]
    ran = rlvr("eval-passk", jsonl(*rows), "--json")
    summary = json.loads(ran.out)
    for cell in summary["metrics"].values():
        assert cell == pytest.approx(ends, abs=1e-4)
    assert set(summary["interval"].values()) == {"Clopper-Pearson"}
    assert "95% intervals: Clopper-Pearson" in ran.err


def test_each_metric_names_the_method_of_its_interval(rlvr, jsonl):
    rows = [{"id": i, "correct": [i % 3 > 0, True]} for i in range(12)]
    made = json.loads(rlvr("eval-passk", jsonl(*rows), "--json").out)["interval"]
    assert made == {"pass@1": "Gaffke", "pass@2": "Clopper-Pearson", "avg@k": "Gaffke"}


def test_one_prompt_has_a_mean_and_no_interval(rlvr, jsonl):
    ran = rlvr("eval-passk", jsonl({"id": "a", "correct": [True, False]}), "--k", "1")
    assert "pass@1                50.0%               -" in ran.out


def test_unequal_numbers_are_said_and_bound_the_default_k(rlvr, jsonl):
    rows = [{"id": "a", "correct": [True] * 8}, {"id": "b", "correct": [False] * 3}]
    ran = rlvr("eval-passk", jsonl(*rows))
    assert "3 to 8 completions each" in ran.out and "pass@3" in ran.out and "@4" not in ran.out


def test_rows_that_repeat_a_sample_are_said(rlvr, jsonl):
    rows = [{"id": "a", "sample_index": i, "correct": True} for i in (0, 0, 1)]
    ran = rlvr("eval-passk", jsonl(*rows), "--repeats", "keep")
    assert "1 row with the prompt and sample index" in ran.out


def test_the_plot_goes_where_the_table_goes(rlvr, known):
    assert "Pass@k against log2 k" in rlvr("eval-passk", known / "scores", "--plot").out


def test_a_file_that_was_cut_is_refused_at_its_line(refused, jsonl):
    path = jsonl(*ROWS)
    path.write_bytes(path.read_bytes()[:-9])
    assert f"line {len(ROWS)} is not JSON" in refused(3, "eval-passk", path)


def test_mixed_types_are_read_value_by_value(rlvr, jsonl):
    rows = [{"id": i, "correct": c} for i, c in ((1, True), ("1", "true"), (1.0, 0), ("1", None))]
    summary = json.loads(rlvr("eval-passk", jsonl(*rows), "--k", "1", "--json").out)
    assert (summary["prompts"], summary["n"], summary["excluded"]) == (1, [3, 3], 1)


def test_the_prompts_that_a_difference_takes_are_said(rlvr, jsonl):
    rows = [{"id": i, "correct": [j < i % 5 for j in range(4)]} for i in range(25)]
    path = jsonl(*rows)
    made = json.loads(rlvr("eval-passk", path, "--power", "0.1", "--json").out)["power"]
    assert list(made["prompts"]) == ["1", "4", "16", "64"] and made["difference"] == 0.1
    by_n = list(zip(*made["prompts"].values(), strict=True))
    assert all(list(needed) == sorted(needed, reverse=True) for needed in by_n)
    out = rlvr("eval-passk", path, "--power", "0.1").out
    assert "a paired difference of 10 points of Pass@1 80 times in 100" in out
    assert "25 prompts with 4 completions show" in out
    assert json.loads(rlvr("eval-passk", path, "--json").out)["power"] is None


def test_without_answers_the_absence_of_a_majority_is_said(rlvr, jsonl):
    said = "maj@k: not measured: there are no extracted answers"
    source = jsonl(*ROWS)
    ran = rlvr("eval-passk", source)
    assert said in ran.out and "maj@1" not in ran.out
    assert rlvr("compare", source, source).out.count(said) == 1
    assert "maj@" not in rlvr("eval-passk", source, "--equality", "none").out


def test_scores_of_programs_have_no_majority_and_say_so(rlvr, jsonl, tmp_path):
    rows = [
        {"id": i, "prompt": "f", "answer": "assert f(2) == 4", "completion": f"```\n{text}\n```"}
        for i in "ab"
        for text in ("def f(x): return 2 * x", "def f(x): return x", "def f(x): return 3")
    ]
    rlvr("import", jsonl(*rows), "--out", tmp_path / "i")
    out = tmp_path / "s"
    words = ("--verifier=code", "--allow-code-execution", "--unsafe-no-sandbox", "--out", out)
    assert rlvr("score", tmp_path / "i" / "rollouts", *words).code == 0
    for ran in (rlvr("eval-passk", out), rlvr("compare", out, out)):
        assert "maj@k: not measured" in ran.out and "maj@1" not in ran.out


def test_prompts_with_few_completions_end_the_default_k_and_the_output_says_so(rlvr, jsonl):
    rows = [{"id": i, "correct": j % 2 == 0} for i in range(4) for j in range(8 if i else 2)]
    source = jsonl(*rows)
    said = "k ends at 2, the fewest completions of a prompt: --min-n leaves such prompts out"
    assert said in rlvr("eval-passk", source).out
    assert said not in rlvr("eval-passk", source, "--k", "1").out
    longer = rlvr("eval-passk", source, "--min-n", "8").out
    assert said not in longer and "pass@8" in longer


@pytest.mark.parametrize("command", ["eval-passk", "ucc", "diversity"])
def test_a_folder_that_holds_scores_is_refused_with_one_of_them(rlvr, jsonl, tmp_path, command):
    made = tmp_path / "run" / "eval" / "000003"
    source = jsonl(*({**row, "completion": "x"} for row in ROWS))
    for out in (made, tmp_path / "run" / "steps" / "000003"):
        assert rlvr("import", source, "--out", out).code == 0
    ran = rlvr(command, tmp_path / "run")
    assert (
        ran.code == 2 and f"`{tmp_path / 'run'}` is not a scores directory, but holds 2" in ran.err
    )
    assert f"hint: name one, as in `{made / 'scores'}`" in ran.err


@pytest.mark.parametrize("command", ["eval-passk", "diversity"])
def test_a_folder_that_holds_rollouts_without_scores_says_how_to_make_them(
    rlvr, jsonl, tmp_path, command
):
    source = jsonl(*({**row, "completion": "x"} for row in ROWS))
    made = tmp_path / "one" / "rollouts"
    assert rlvr("import", source, "--out", tmp_path / "whole").code == 0
    (tmp_path / "whole" / "rollouts").rename((tmp_path / "one").mkdir() or made)
    ran = rlvr(command, tmp_path / "one")
    assert ran.code == 2 and "holds directories of rlvr, and no scores" in ran.err
    assert f"`rlvr score {made}`" in ran.err


def test_sources_of_one_file_with_the_same_prompts_are_one_draw_a_prompt(rlvr, jsonl):
    rows = [
        {"id": str(p), "prompt": f"{p}?", "gold": str(p), "model_name": model, "correct": p % 3 < m}
        for m, model in enumerate(("base", "trained", "best"))
        for p in range(12)
    ]
    words = ("--source-column", "model_name", "--json")
    ran = rlvr("eval-passk", jsonl(*rows), *words)
    found = json.loads(ran.out)
    assert found["prompts"] == 12 and "a prompt counts once" in ran.err
    assert [source["prompts"] for source in found["sources"].values()] == [12] * 3
    assert found["metrics"]["pass@1"][0] == pytest.approx(1 / 3)
    others = [{**row, "prompt": f"{row['prompt']} {row['model_name']}"} for row in rows]
    ran = rlvr("eval-passk", jsonl(*others, name="others.jsonl"), *words)
    assert json.loads(ran.out)["prompts"] == 36 and "counts once" not in ran.err
    assert json.loads(ran.out)["standard_error"]["pass@1"] < found["standard_error"]["pass@1"]


def test_scores_whose_prompts_moved_name_the_flag_that_brings_their_sources_back(rlvr, copy):
    (copy / "prompts").rename(copy / "moved")
    ran = rlvr("eval-passk", copy / "scores")
    assert ran.code == 0 and "without sources and golds of prompts" in ran.err
    assert "say where it is now: `--prompts DIR`" in ran.err
    ran = rlvr("eval-passk", copy / "scores", "--prompts", copy / "moved")
    assert ran.code == 0 and "without sources" not in ran.err
