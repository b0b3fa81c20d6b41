import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def better(rlvr, jsonl, tmp_path):
    """The prompts of `known` with every completion right."""
    rows = [
        {"id": name, "prompt": f"{answer}=", "answer": str(answer), "correct": True,
         "completion": f"{answer - i}+{i}"}
        for name, answer in (("b", 6), ("a", 5)) for i in range(1, 5)
    ]  # fmt: skip
    rlvr("import", jsonl(*rows), "--out", tmp_path / "better")
    return tmp_path / "better" / "scores"


def test_the_difference_is_second_minus_first(rlvr, known, better):
    ran = rlvr("compare", known / "scores", better)
    assert ran.code == 0 and ran.err == ""
    (row,) = [line for line in ran.out.splitlines() if line.startswith("pass@1")]
    assert "37.5%" in row and "100.0%" in row and "+62.5%" in row


def test_json_is_one_object_with_both_and_the_difference(rlvr, known, better):
    summary = json.loads(rlvr("compare", known / "scores", better, "--json").out)
    cells = summary["metrics"]["pass@1"]
    assert [cells[name][0] for name in ("first", "second", "difference")] == [0.375, 1, 0.625]


def test_what_changed_is_named_by_prompt_and_by_difficulty(rlvr, jsonl):
    first = jsonl(*({"id": i, "correct": c} for i, c in enumerate([[0, 0], [1, 0], [1, 1]])))
    rows = ({"id": i, "correct": c} for i, c in enumerate([[1, 0], [0, 0], [1, 1]]))
    second = jsonl(*rows, name="second.jsonl")
    summary = json.loads(rlvr("compare", first, second, "--json").out)
    assert (summary["gained"], summary["lost"], summary["crossings"]) == (["0"], ["1"], [])
    assert [(b["prompts"], b["gained"], b["lost"]) for b in summary["flips"]] == [
        (1, 1, 0), (0, 0, 0), (0, 0, 0), (1, 0, 1), (1, 0, 0),
    ]  # fmt: skip
    out = rlvr("compare", first, second).out
    assert "gained: 0" in out and "lost: 1" in out and "neither is ahead at k = 1" in out


def test_prompts_are_paired_whatever_their_order(rlvr, jsonl):
    rows = [{"id": i, "correct": [i % 2, 0]} for i in range(6)]
    turned = jsonl(*rows[::-1], name="turned.jsonl")
    summary = json.loads(rlvr("compare", jsonl(*rows), turned, "--json").out)
    assert {cells["difference"][0] for cells in summary["metrics"].values()} == {0}
    assert summary["gained"] == summary["lost"] == []


def test_three_are_compared_with_the_first_and_drawn(rlvr, jsonl):
    paths = [
        jsonl(*({"id": i, "correct": [1] * c + [0] * (4 - c)} for i, c in enumerate(counts)),
              name=f"{name}.jsonl")
        for name, counts in (("base", [1, 1]), ("sharp", [4, 0]), ("worse", [1, 0]))
    ]  # fmt: skip
    ran = rlvr("compare", *paths, "--plot")
    assert ran.out.count("second - first") == 2 and ran.code == 0
    assert "second is ahead at k = 1, first from k = 3" in ran.out
    assert "Pass@K against Pass@1" in ran.out
    summary = json.loads(rlvr("compare", *paths, "--json").out)
    assert [on for *_, on in summary["frontier"]] == [True, True, False]
    assert len(summary["others"]) == 1


def test_a_directory_differs_in_nothing_from_itself(rlvr, known):
    summary = json.loads(rlvr("compare", known / "scores", known / "scores", "--json").out)
    assert {cells["difference"][0] for cells in summary["metrics"].values()} == {0}
    assert {cells["verdict"] for cells in summary["metrics"].values()} == {
        "too few prompts to tell"
    }


def test_a_verdict_is_that_of_the_exact_test_of_mcnemar(rlvr, jsonl):
    def file(name: str, right: int):
        return jsonl(*({"id": i, "correct": int(i < right)} for i in range(20)), name=name)

    for gained, word in ((5, "no clear difference"), (6, "better")):  # of none lost: 2 / 2**gained
        paths = file("first.jsonl", 10), file("second.jsonl", 10 + gained)
        cells = json.loads(rlvr("compare", *paths, "--json").out)["metrics"]["pass@1"]
        assert cells["p"] == pytest.approx(2 / 2**gained, rel=0.03)
        assert (cells["interval"], cells["verdict"]) == ("Gaffke", word)
        assert (cells["difference"][1] > 0) == (word == "better")
        assert f"{word}: pass@1" in rlvr("compare", *paths).out


def test_more_than_two_runs_are_judged_together(rlvr, jsonl):
    paths = [
        jsonl(*({"id": i, "correct": int(i < right)} for i in range(20)), name=f"{right}.jsonl")
        for right in (10, 16, 17)
    ]
    ran = rlvr("compare", *paths)
    assert "verdicts hold for 2 comparisons together (Holm); each interval is 95%" in ran.out
    # 2 / 2**7 is below 0.05 / 2 and the next, 2 / 2**6, below 0.05.
    assert ran.out.count("better: pass@1") == 2
    lines = rlvr("compare", paths[0], paths[1], paths[0]).out
    assert "better: pass@1" not in lines and "[+2.3%" in lines


def test_other_prompts_are_refused_with_one_of_each(refused, known, chain):
    err = refused(3, "compare", known / "scores", chain / "scores")
    assert "have no prompt in common: the first has `a`, the second `expression-" in err


def asked(ids, *, text="{}+1", gold="{}", n=2, **more):
    """Rows of these ids, each with its text and its gold, right every other time."""
    made = {"prompt": text, "answer": gold, **more}
    return [
        {name: value.format(i) for name, value in made.items() if value}
        | {"id": i, "completions": [f"{i} {j}" for j in range(n)],
           "correct": [j % 2 == 0 for j in range(n)]}
        for i in ids
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "apart"),
    [
        ({"text": "{}*7", "gold": "{}7"}, "`0` has another text and gold"),
        ({"text": "What is {}+1?"}, "`0` has another text"),
        ({"text": "", "gold": "{}7"}, "`0` has another gold"),
        ({"source": "aime"}, "`0` has another source"),
    ],
)
def test_equal_ids_of_other_prompts_are_refused(refused, jsonl, second, apart):
    first = jsonl(*asked(range(20), source="gsm8k"))
    other = jsonl(*asked(range(20), **second), name="other.jsonl")
    err = refused(3, "compare", first, other)
    assert "use the same ids for other prompts: " + apart in err


def test_golds_that_agree_by_chance_pair_nothing_where_no_text_is_known(refused, jsonl):
    first = jsonl(*({"id": i, "answer": i % 4, "correct": [1, 0]} for i in range(20)))
    rows = ({"id": i, "answer": i % 3, "correct": [1, 0]} for i in range(20))
    assert "`3` has another gold" in refused(3, "compare", first, jsonl(*rows, name="second.jsonl"))


def test_the_hint_of_a_refusal_pairs_what_is_the_same(rlvr, refused, jsonl):
    first = jsonl(*asked(range(5)))
    other = jsonl(*asked(range(5), text="Reckon {}+1."), name="other.jsonl")
    hint = refused(3, "compare", first, other).splitlines()[-1]
    flag = hint[hint.index("--pair-by") :].split()
    ran = rlvr("compare", first, other, *flag)
    assert flag == ["--pair-by", "id,source,gold"] and ran.code == 0
    assert "prompts are paired by id and gold" in ran.out


def test_two_tasks_of_lm_eval_are_not_paired(refused, jsonl):
    paths = [
        jsonl(
            *(
                {"doc_id": i, "doc": {}, "target": "A", "filter": "none", "exact_match": i % 2,
                 "arguments": [[f"{task} {i}", {}]], "resps": [["A"]], "filtered_resps": ["A"],
                 "metrics": ["exact_match"]}
                for i in range(20)
            ),
            name=f"samples_{task}_2026-01-01T00-00-00.jsonl",
        )
        for task in ("mmlu_law", "mmlu_physics")
    ]  # fmt: skip
    err = refused(3, "compare", *paths)
    assert "`0` has another source and text" in err and "--pair-by" not in err


def lm_eval(question, arguments):
    """Documents of lm-eval; `arguments` makes the requests from a question."""
    return [
        {"doc_id": i, "doc": {}, "target": f"{i}", "filter": "none", "exact_match": i % 2,
         "arguments": arguments(question.format(i)), "resps": [[f"{i}"]],
         "filtered_resps": [f"{i}"], "metrics": ["exact_match"]}
        for i in range(6)
    ]  # fmt: skip


def test_a_chat_template_of_lm_eval_is_paired_and_another_wording_is_not(rlvr, refused, jsonl):
    """The requests of lm-eval 0.4.9: by name, and chats as JSON within them."""

    def chat(text):
        messages = [{"role": "system", "content": "Think."}, {"role": "user", "content": text}]
        return {"gen_args_0": {"arg_0": [json.dumps(messages)], "arg_1": {"until": []}}}

    name = "samples_gsm8k_2026-01-0{}T00-00-00.000001.jsonl"
    plain = jsonl(*lm_eval("Q: {}+0", lambda text: [[text, {}]]), name=name.format(1))
    chats = jsonl(*lm_eval("Q: {}+0", chat), name=name.format(2))
    assert "paired by id, source, text and gold\n" in rlvr("compare", plain, chats).out
    shots = jsonl(*lm_eval("Q: 1+1 A: 2 Q: {}+0", chat), name=name.format(3))
    err = refused(3, "compare", plain, shots)
    assert "`0` has another text" in err and "--pair-by id,source,gold" in err


def test_the_common_prompts_are_compared_and_the_others_counted(rlvr, jsonl):
    first = jsonl(*asked(range(12)))
    second = jsonl(*asked(range(5, 14)), *asked([3], text="{}+2"), name="second.jsonl")
    ran = rlvr("compare", first, second)
    assert ran.out.startswith("7 prompts")
    assert "paired by id, text and gold; 1 with one id and another text (3)" in ran.out
    assert f"5 of `{first}` (0, 1, 2, …); 3 of `{second}` (12, 13, 3)" in ran.out
    summary = json.loads(rlvr("compare", first, second, "--json").out)
    assert len(summary["remarks"]) == 2


def test_prompts_without_texts_are_paired_by_what_there_is(rlvr, jsonl):
    plain = jsonl(*({"id": i, "correct": [1, 0]} for i in range(4)))
    said = rlvr("compare", plain, plain).out
    assert "paired by id alone, as not both hold each text and gold" in said


def test_messages_and_the_spelling_of_a_gold_do_not_matter(rlvr, jsonl, tmp_path):
    text = jsonl(*asked(range(4)))
    chats = [
        {**row, "prompt": [{"role": "system", "content": "Think."},
                           {"role": "user", "content": row["prompt"]}],
         "answer": float(row["answer"])}
        for row in asked(range(4))
    ]  # fmt: skip
    chat = jsonl(*chats, name="chat.jsonl")
    assert "paired by id, text and gold\n" in rlvr("compare", text, chat).out
    rlvr("import", text, "--out", tmp_path / "one")
    rlvr("import", chat, "--out", tmp_path / "two")
    ran = rlvr("compare", tmp_path / "one" / "scores", tmp_path / "two" / "scores", text)
    assert ran.out.count("by id, text and gold\n") == 2


def test_the_answers_within_a_chat_are_no_part_of_what_is_asked(rlvr, refused, jsonl, tmp_path):
    """Each row has its own answer as the last turn; ShareGPT's turns are compared as they are."""
    chats = [
        {"id": i, "answer": f"{i}", "completion": f"{i}{j}", "correct": j,
         "messages": [{"role": "user", "content": f"{i}+0"},
                      {"role": "assistant", "content": f"{i}{j}"}]}
        for i in range(3) for j in range(2)
    ]  # fmt: skip
    text = jsonl(*asked(range(3), text="{}+0"))
    ran = rlvr("compare", text, jsonl(*chats, name="chats.jsonl"))
    assert "paired by id, text and gold\n" in ran.out, ran.err
    first, second = (
        jsonl(*({"id": i, "correct": [1, 0], "conversations": [{"from": "human", "value": q}]}
                for i, q in enumerate(questions)), name=f"{questions}.jsonl")
        for questions in ("ab", "cd")
    )  # fmt: skip
    assert "`0` has another text" in refused(3, "compare", first, second)
    assert "paired by id and text" in rlvr("compare", first, first).out


def test_sources_tell_equal_ids_apart(rlvr, refused, jsonl):
    both = [*asked(range(3), source="a"), *asked(range(3), text="{}-1", source="b", n=4)]
    one = jsonl(*both)
    only_b = jsonl(*asked(range(3), text="{}-1", source="b"), name="b.jsonl")
    ran = rlvr("compare", one, only_b)
    assert ran.out.startswith("3 prompts") and "4 in `" in ran.out
    unnamed = jsonl(*({"id": i, "correct": [1, 0]} for i in range(3)), name="unnamed.jsonl")
    err = refused(3, "compare", one, unnamed)
    assert "the id `0` belongs to several prompts" in err and "--source-column" in err


def test_one_id_with_two_golds_is_refused(refused, jsonl):
    rows = jsonl(*asked([1, 2]), *asked([2], gold="7"))
    err = refused(3, "compare", rows, rows)
    assert "two golds" in err and "`2`" in err and "--id-column" in err


def test_pair_by_takes_the_names_of_fields_alone(refused, known):
    for word in ("gold", "id,texts", ""):
        err = refused(2, "compare", known / "scores", known / "scores", "--pair-by", word)
        assert f"--pair-by is `{word}`" in err and "--pair-by id" in err


def test_no_prompt_that_all_have_is_refused(refused, jsonl):
    paths = [jsonl(*asked(ids), name=f"{len(ids)}.jsonl") for ids in ([0, 1, 2], [1], [2, 0])]
    assert "no prompt is in all of" in refused(3, "compare", *paths)


def test_k_is_a_list_and_too_large_a_one_names_what_works(rlvr, refused, jsonl):
    one, two = jsonl(*asked(range(5), n=4)), jsonl(*asked(range(4), n=4), *asked([4], n=2),
                                                   name="two.jsonl")  # fmt: skip
    summary = json.loads(rlvr("compare", one, two, "--k", "1,2", "--json").out)
    assert [n for n in summary["metrics"] if "@" in n] == [
        "pass@1", "pass@2", "avg@k", "ucc@1", "ucc@2",
    ]  # fmt: skip
    err = refused(3, "compare", one, two, "--k", "4")
    assert "leave out the 1 of 5 prompts with fewer: --min-n 4" in err
    ran = rlvr("compare", one, two, "--k", "4", "--min-n", "4")
    assert ran.out.startswith("4 prompts") and "pass@4" in ran.out
    assert f"1 prompt of `{two}` with fewer than 4 verdicts left out (4)" in ran.out


def test_a_short_prompt_that_is_left_out_makes_no_n_unequal(rlvr, jsonl):
    one = jsonl(*asked(range(3), n=4), *asked([3], n=2))
    two = jsonl(*asked(range(3), n=4), name="two.jsonl")
    ran = rlvr("compare", one, two, "--json")
    assert json.loads(ran.out)["unlike"] == []


def test_a_function_that_has_changed_is_another_verifier(rlvr, chain, tmp_path):
    file = tmp_path / "reward.py"
    for share in ("0.0", "1.0"):
        file.write_text(
            f"def score(completions, **columns):\n    return [{share}] * len(completions)\n"
        )
        words = ("--verifier", f"{file}:score", "--trust-file", file)
        ran = rlvr("score", chain / "rollouts", *words, "--out", tmp_path / share)
        assert ran.code == 0, ran.err
    (line,) = json.loads(rlvr("compare", tmp_path / "0.0", tmp_path / "1.0", "--json").out)[
        "unlike"
    ]
    assert "the verdicts come from different verifiers" in line and line.count("with sha256") == 2


def test_a_hint_at_min_n_works_for_both_sides(rlvr, refused, jsonl):
    one = jsonl(*asked(range(3), n=4), *asked([3], n=2))
    two = jsonl(*asked(range(1), n=2), *asked(range(1, 4), n=4), name="two.jsonl")
    err = refused(3, "compare", one, two, "--k", "4")
    assert "the 2 of 4 prompts with fewer: --min-n 4" in err
    assert rlvr("compare", one, two, "--k", "4", "--min-n", "4").out.startswith("2 prompts")
    short = jsonl(*asked(range(4)), name="short.jsonl")
    assert "--min-n" not in refused(3, "compare", one, short, "--k", "4")
    err = refused(3, "compare", one, short, "--min-n", "4")
    assert f"no prompt of `{short}` has 4 completions" in err and "`--min-n` up to 2" in err


@pytest.mark.parametrize("format", ["evalplus", "jsonl", "lighteval", "lm-eval", "trl", "verl"])
def test_what_other_tools_hold_of_the_same_prompts_is_paired(rlvr, known, tmp_path, format):
    names = {"evalplus": "x_eval_results.json", "lighteval": "x.parquet", "trl": "x.parquet",
             "verl": "x.parquet"}  # fmt: skip
    out = tmp_path / names.get(format, "samples_x.jsonl")
    assert rlvr("export", known / "scores", "--format", format, "--out", out).code == 0
    ran = rlvr("compare", known / "scores", out)
    by = "id alone, as not both hold each text and gold" if format == "evalplus" else (
        "id, text and gold"
    )  # fmt: skip
    assert ran.code == 0 and "2 prompts, Pass@k" in ran.out, ran.err
    assert f"prompts are paired by {by}\n" in ran.out and "left out" not in ran.out


def test_prompts_that_were_moved_away_leave_the_id(rlvr, known, tmp_path):
    copy = shutil.copytree(known, tmp_path / "copy")
    shutil.rmtree(copy / "prompts")
    ran = rlvr("compare", known / "scores", copy / "scores")
    assert ran.code == 0 and "paired by id alone, as not both hold each text and gold" in ran.out


def test_what_depends_on_n_is_of_equal_n(rlvr, jsonl):
    """Both have each completion right with a chance of 1/16, all different."""
    rows = [asked([i], n=1)[0] | {"completions": [f"{i} {j}" for j in range(16)],
                                  "correct": [j == i % 16 for j in range(16)]}
            for i in range(320)]  # fmt: skip
    one = [row | {"completions": row["completions"][:1], "correct": row["correct"][:1]}
           for row in rows]  # fmt: skip
    first, second = jsonl(*rows), jsonl(*one, name="one.jsonl")
    summary = json.loads(rlvr("compare", first, second, "--json").out)
    (line,) = summary["unlike"]
    assert f"differ: 16 in `{first}`, 1 in `{second}`" in line
    assert list(summary["metrics"]) == ["pass@1", "avg@k", "ucc@1", "clusters", "ucr"]
    for name in ("pass@1", "clusters", "ucr"):
        assert abs(summary["metrics"][name]["difference"][0]) < 0.05, name
    assert len(summary["lost"]) < 40  # of 320 with a right one among 16


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--temperature=0.5", "--max-new-tokens=8"],
         "sampled differently: temperature 1.0 and 0.5, max_new_tokens 16 and 8"),
        (["--top-p=0.9"], "sampled differently: top_p 1.0 and 0.9"),
    ],
)  # fmt: skip
def test_other_sampling_is_said(rlvr, chain, tmp_path, words, said):
    out = tmp_path / "other" / "rollouts"
    rlvr("rollout", chain / "prompts", "-n4", "--max-new-tokens=16", *words, "--out", out)
    rlvr("score", out)
    ran = rlvr("compare", chain / "scores", tmp_path / "other" / "scores")
    assert ran.code == 0 and said in ran.out


def test_other_verifiers_are_said(rlvr, chain, tmp_path):
    rlvr("score", chain / "rollouts", "--verifier=number", "--out", tmp_path / "number")
    ran = rlvr("compare", chain / "scores", tmp_path / "number")
    assert "the verdicts come from different verifiers" in ran.out and "`number" in ran.out
    same = rlvr("compare", tmp_path / "number", tmp_path / "number", "--json").out
    assert json.loads(same)["unlike"] == []


def test_other_steps_stand_in_the_headline(rlvr, trained, tmp_path):
    early = shutil.copytree(trained, tmp_path / "early")
    shutil.rmtree(early / "eval" / "000002")
    ran = rlvr("compare", early, trained)
    head, line, *_ = ran.out.splitlines()
    assert head.endswith(f"`{early}` at step 1, second `{trained}` at step 2")
    assert line.startswith(f"the steps differ: `{early}` is at step 1, `{trained}` at step 2")
    summary = json.loads(rlvr("compare", early, trained, "--json").out)
    assert summary["steps"] == [1, 2] and summary["unlike"] == [line]
    assert json.loads(rlvr("compare", trained, trained, "--json").out)["unlike"] == []
    assert f"`{trained}` is given twice: it is compared with itself" in rlvr(
        "compare", trained, trained
    ).out.replace("\n", " ")


def test_a_run_has_the_figures_that_train_logged(rlvr, trained):
    last = json.loads((trained / "metrics.jsonl").read_text().splitlines()[-1])["eval"]
    metrics = json.loads(rlvr("compare", trained, trained, "--json").out)["metrics"]
    for name in ("pass@1", "pass@2", "ucc@2", "entropy", "kl"):
        assert metrics[name]["first"][0] == pytest.approx(last[name][0], abs=1e-12), name


@pytest.mark.parametrize(
    ("second", "message"), [("rollouts", "scores were expected"), ("nope", "does not exist")]
)
def test_another_directory_than_scores_is_refused(refused, known, second, message):
    assert message in refused(3, "compare", known / "scores", known / second)


def test_a_run_without_an_evaluation_is_refused(refused, known, tmp_path):
    (tmp_path / "config.toml").write_text("")
    assert "no complete evaluation" in refused(3, "compare", known / "scores", tmp_path)


def test_one_path_is_not_enough(refused, known):
    assert "takes two arguments or more" in refused(2, "compare", known / "scores")


def test_files_of_other_tools_can_lack_completions(rlvr, known, jsonl):
    rows = [{"id": i, "correct": [True, False]} for i in "ab"]
    summary = json.loads(rlvr("compare", known / "scores", jsonl(*rows), "--json").out)
    assert set(summary["metrics"]) == {"pass@1", "pass@2", "avg@k"}


def test_rollouts_that_are_gone_are_named(refused, known, tmp_path):
    shutil.copytree(known / "scores", tmp_path / "scores")
    err = refused(3, "compare", known / "scores", tmp_path / "scores")
    assert f"`{tmp_path / 'rollouts'}`, which `" in err and "is not there" in err


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_files_that_name_their_step_have_it_in_the_headline(rlvr, tmp_path, ending):
    paths = [tmp_path / f"{step}.{ending}" for step in (10, 20)]
    for step, path in zip((10, 20), paths, strict=True):
        rows = [{"id": i, "correct": (i + j) % 2 == 0, "step": step}
                for i in range(4) for j in range(2)]  # fmt: skip
        if ending == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = rlvr("compare", *paths)
    assert f"`{paths[0]}` at step 10, second `{paths[1]}` at step 20" in ran.out


def test_equal_success_rates_are_said_next_to_an_interval_that_has_a_width(rlvr, tmp_path):
    rows = [{"id": i, "completion": "x", "correct": i > 0} for i in range(8)]
    for name, last in (("a", True), ("b", True), ("c", False)):
        lines = [*rows, {"id": 9, "completion": "x", "correct": last}]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    a, b, c = (tmp_path / f"{name}.jsonl" for name in "abc")
    assert "both have the same success rate in all 9 prompts; an interval" in (
        rlvr("compare", a, b).out
    )
    assert "same success rate" not in rlvr("compare", a, c).out
