import json

import datasets
import pyarrow.parquet as pq
import pytest

from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.shards import Shards


def rows_of(path):
    return pq.read_table(path).to_pylist()


@pytest.fixture
def six(tmp_path):
    return ("prompts", "task:expression", "--limit", 6, "--out", tmp_path / "made")


def test_a_task_becomes_prompts_and_stdout_is_their_path(rlvr, six):
    ran = rlvr(*six)
    assert (ran.code, ran.out) == (0, f"{six[-1]}\n")
    assert ran.err.startswith("prompts: 6 prompts; ") and len(ran.err.splitlines()) == 1
    assert len(rows_of(six[-1])) == 6
    assert rows_of(six[-1])[0] == {
        "prompt_id": "expression-002",
        "messages": '"2="',
        "answer": "2",
        "verifier": "expression",
        "source": "expression-train",
        "extra": None,
        "raw": True,
    }


def test_json_is_one_object_with_the_path(rlvr, six):
    made = json.loads(rlvr(*six, "--json").out)
    assert (made["path"], made["prompts"]) == (str(six[-1]), 6)


def test_the_directory_is_called_prompts_unless_named(rlvr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rlvr("prompts", "task:expression").out == "prompts\n"
    assert (tmp_path / "prompts" / "_manifest.json").exists()


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, six):
    ran = rlvr(*six, "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"prompts: 6 prompts of `task:expression` would go to `{six[-1]}`\n"
    assert not six[-1].exists()


def test_running_again_changes_nothing_and_says_so(rlvr, six, files_of):
    rlvr(*six)
    before = files_of(six[-1])
    ran = rlvr(*six)
    assert (ran.code, ran.out) == (0, f"{six[-1]}\n")
    assert "nothing left to do" in ran.err
    assert files_of(six[-1]) == before


def test_another_limit_is_refused_with_the_old_and_the_new_one(rlvr, refused, six):
    rlvr(*six)
    err = refused(2, "prompts", "task:expression", "--limit", 5, "--out", six[-1])
    assert "limit was 6, is 5" in err and "another --out" in err


def test_a_directory_of_another_kind_is_not_written_into(refused, copy):
    err = refused(2, "prompts", "task:expression", "--out", copy / "scores")
    assert "kind was scores, is prompts" in err


def test_two_shares_make_the_bytes_of_one_run(rlvr, jsonl, tmp_path, files_of):
    source = jsonl(*({"prompt": f"{i}=", "answer": i} for i in range(1030)))
    for share in ("0/2", "1/2"):
        assert rlvr("prompts", source, "--out", tmp_path / "two", "--shard", share).code == 0
    rlvr("prompts", source, "--out", tmp_path / "one")
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")
    assert len(files_of(tmp_path / "one")) == 3


def test_a_share_says_that_parts_are_in_the_hands_of_others(rlvr, jsonl, tmp_path, files_of):
    source = jsonl(*({"prompt": f"{i}=", "answer": i} for i in range(1030)))
    rlvr("prompts", source, "--out", tmp_path / "one")
    (tmp_path / "two").mkdir()
    other = Leases(tmp_path / "two")
    other.open()
    assert other.acquire(1)
    words = ["prompts", source, "--out", tmp_path / "two", "--shard", "0/2"]
    ran = rlvr(*words)
    assert ran.code == 0 and "other processes are making the parts that are left" in ran.err
    other.close()
    assert rlvr(*words).code == 0  # and takes them when that process is gone
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")


def test_the_splits_of_the_task_share_no_prompt(rlvr, tmp_path):
    for split in ("train", "heldout"):
        rlvr("prompts", "task:expression", "--split", split, "--out", tmp_path / split)
    train, heldout = ({r["prompt_id"] for r in rows_of(tmp_path / s)} for s in ("train", "heldout"))
    assert len(train | heldout) == 99 and not train & heldout


@pytest.mark.parametrize(
    ("row", "messages", "answer"),
    [
        ({"prompt": "5=", "answer": "5"}, '"5="', "5"),
        ({"question": "5=", "solution": 5}, '"5="', "5"),
        ({"problem": "5=", "label": 2.5}, '"5="', "2.5"),
        ({"prompt": "5=", "reward_model": {"ground_truth": "5", "style": "x"}}, '"5="', "5"),
        ({"instruction": "5=", "ground_truth": ["5", "6"]}, '"5="', '["5", "6"]'),
        (
            {"messages": [{"role": "user", "content": "5="}], "answer": True},
            '[{"role": "user", "content": "5="}]',
            "true",
        ),
    ],
)
def test_columns_are_found_under_the_names_that_others_use(
    rlvr, jsonl, tmp_path, row, messages, answer
):
    rlvr("prompts", jsonl(row), "--out", tmp_path / "made")
    (row_read,) = rows_of(tmp_path / "made")
    assert (row_read["messages"], row_read["answer"]) == (messages, answer)
    assert (row_read["prompt_id"], row_read["source"]) == ("rows-000001", "rows")


def test_columns_can_be_named_and_the_rest_is_kept_as_extra(rlvr, jsonl, tmp_path):
    source = jsonl({"n": 7, "q": "5=", "a": "5", "level": 3, "digits": [2, 3]})
    words = ("--id-column", "n", "--prompt-column", "q", "--answer-column", "a")
    rlvr("prompts", source, "--out", tmp_path / "made", *words, "--verifier", "expression")
    (row,) = rows_of(tmp_path / "made")
    assert (row["prompt_id"], row["verifier"]) == ("7", "expression")
    assert json.loads(row["extra"]) == {"digits": [2, 3], "level": 3}


def test_a_data_set_folder_is_read_by_datasets(rlvr, jsonl, tmp_path):
    (tmp_path / "set").mkdir()
    jsonl({"prompt": "5=", "answer": "5"}, {"prompt": "6=", "answer": "6"}, name="set/train.jsonl")
    ran = rlvr("prompts", tmp_path / "set", "--split", "train", "--out", tmp_path / "made")
    assert ran.code == 0
    assert [r["answer"] for r in rows_of(tmp_path / "made")] == ["5", "6"]
    read, summary = ran.err.splitlines()
    assert read.startswith("prompts: reads the prompt from `prompt` and the answer from `answer`")
    assert summary.startswith("prompts: 2 prompts")


def test_a_split_that_the_data_set_lacks_is_refused(refused, jsonl, tmp_path):
    (tmp_path / "set").mkdir()
    jsonl({"prompt": "5=", "answer": "5"}, name="set/train.jsonl")
    err = refused(3, "prompts", tmp_path / "set", "--split", "test", "--out", tmp_path / "made")
    assert "split `test`" in err and "train" in err


@pytest.mark.parametrize("name", ["missing.jsonl", "./missing", "data/missing.parquet"])
def test_a_missing_file_is_named_without_asking_the_hub(refused, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: pytest.fail("asked the hub"))
    assert f"`{name}` does not exist" in refused(3, "prompts", name, "--out", "made")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty.jsonl", "", ["empty.jsonl", "no rows"]),
        ("empty.csv", "", ["empty.csv", "no rows"]),
        ("empty.parquet", "", ["empty.parquet", "Parquet"]),
        ("a.txt", "5=", ["a.txt", ".jsonl"]),
        ("a.jsonl", '{"prompt": "5=", "answer": "5"}\n\n{"prompt": \n', ["a.jsonl", "line 3"]),
        ("a.jsonl", '{"prompt": "5=", "answer": "5"}\n[1, 2]\n', ["row 2", "[1, 2]"]),
        ("a.json", '[{"prompt": "5=", "answer": "5"}, 3]', ["row 2", "3"]),
        ("a.jsonl", '{"prompt": "5=", "answer": "5"}\n{"prompt": "6="}\n', ["row 2", "`answer`"]),
        ("a.jsonl", '{"prompt": "5=", "answer": null}\n{"prompt": "", "answer": 1}', ["row 1"]),
        ("a.jsonl", '{"prompt": "", "answer": "5"}\n{"prompt": "6=", "answer": 1}', ["`prompt`"]),
        ("a.jsonl", '{"text": "5=", "n": 1}\n', ["none of the columns", "text, n", "--prompt-col"]),
        ("a.jsonl", '{"prompt": "5=", "n": 1}\n', ["none of the columns", "--answer-column"]),
        (
            "a.jsonl",
            '{"id": "x", "prompt": "5=", "answer": 1}\n{"id": "y", "prompt": "5=", "answer": 1}\n'
            '{"id": "x", "prompt": "6=", "answer": 1}\n',
            ["rows 1 and 3", "`x`"],
        ),
        ("a.csv", "prompt,answer\n5=,5\n6=,\n", ["row 2", "`answer`"]),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_where_it_is_bad(refused, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    err = refused(3, "prompts", tmp_path / name, "--out", tmp_path / "made")
    assert all(part in err for part in message), err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["level", "id"])
def test_a_csv_row_with_a_cell_too_many_is_refused_by_its_number(refused, tmp_path, name):
    (tmp_path / "a.csv").write_text(f"prompt,answer,{name},n\n5=,5,1,1\n6=,6,2,2,2\n")
    assert "row 2" in refused(3, "prompts", tmp_path / "a.csv", "--out", tmp_path / "made")


@pytest.mark.parametrize("flag", ["--id-column", "--prompt-column", "--answer-column"])
def test_an_unknown_column_is_answered_with_those_there_are(refused, jsonl, tmp_path, flag):
    source = jsonl({"id": "x", "prompt": "5=", "answer": "5"})
    err = refused(3, "prompts", source, flag, "nope", "--out", tmp_path / "made")
    assert "no column `nope`; it has id, prompt, answer" in err and flag in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task:expresion"], "did you mean `expression`?"),
        (["task:expression", "--split", "test"], "train, heldout"),
        (["task:expression", "--shard", "4/4"], "--shard is `4/4`"),
        (["task:expression", "--shard", "x"], "--shard is `x`"),
        (["task:expression", "--limit", "0"], "--limit"),
        (["task:expression", "--limit", "many"], "--limit"),
        (["task:expression", "--lmit", "1"], "--lmit"),
        (["task:expression", "--verifier", "expresion"], "did you mean `expression`?"),
        ([], "source"),
    ],
)
def test_a_wrong_word_is_a_usage_error(refused, tmp_path, words, message):
    assert message.lower() in refused(2, "prompts", *words, "--out", tmp_path / "made").lower()
    assert not (tmp_path / "made").exists()


def test_an_unknown_verifier_is_refused_before_anything_is_made(refused, jsonl, tmp_path):
    source = jsonl({"prompt": "5=", "answer": "5"})
    words = ("--verifier", "expresion", "--out", tmp_path / "made")
    assert "did you mean `expression`?" in refused(2, "prompts", source, *words)
    assert not (tmp_path / "made").exists()


def verdicts(jsonl, rlvr, folder, **correct):
    """A scores directory with the verdicts of each prompt, 1, 0 or None, as imported."""
    same = {"prompt": "5=", "answer": "5", "completion": "5"}
    rows = [
        {"id": name, **same, "correct": None if right is None else bool(right)}
        for name, given in correct.items()
        for right in given
    ]
    ran = rlvr("import", jsonl(*rows, name=f"{folder.name}.jsonl"), "--out", folder)
    assert ran.code == 0, ran.err
    return folder / "scores"


@pytest.fixture
def eight(rlvr, jsonl, tmp_path):
    """A prompts directory of a to h."""
    rows = [{"id": n, "prompt": "5=", "answer": "5", "verifier": "expression"} for n in "abcdefgh"]
    assert rlvr("prompts", jsonl(*rows), "--out", tmp_path / "prompts").code == 0
    return tmp_path / "prompts"


def ids_of(path):
    return "".join(row["prompt_id"] for row in rows_of(path))


def test_a_prompts_directory_is_a_source_and_its_rows_stay_as_they_are(rlvr, eight, tmp_path):
    out = tmp_path / "made"
    assert rlvr("prompts", eight, "--limit", 3, "--out", out).code == 0
    assert rows_of(out) == rows_of(eight)[:3]
    summary = json.loads(rlvr("check", out, "--json").out)
    assert summary["parents"] == {"prompts": "../prompts"}


def test_a_prompts_directory_can_get_another_verifier(rlvr, jsonl, tmp_path):
    source = jsonl({"prompt": "5=", "answer": "5"})
    rlvr("prompts", source, "--out", tmp_path / "without")
    rlvr("prompts", tmp_path / "without", "--verifier", "expression", "--out", tmp_path / "made")
    (row,) = rows_of(tmp_path / "made")
    assert row == {**rows_of(tmp_path / "without")[0], "verifier": "expression"}


@pytest.mark.parametrize("flag", ["--split", "--id-column"])
def test_a_prompts_directory_has_neither_splits_nor_columns(refused, eight, tmp_path, flag):
    err = refused(2, "prompts", eight, flag, "x", "--out", tmp_path / "made")
    assert "holds prompts already" in err and f"leave {flag} out" in err


def test_another_or_an_unfinished_directory_is_no_source(refused, chain, eight, tmp_path):
    words = ("--out", tmp_path / "made")
    assert "prompts were expected" in refused(3, "prompts", chain / "scores", *words)
    (eight / "_manifest.json").rename(eight / "_partial.json")
    assert "is not complete" in refused(3, "prompts", eight, *words)


def test_the_prompts_solved_most_often_are_left_out(rlvr, jsonl, eight, tmp_path):
    """By hand: a 2/2, c 2/3, b 1/2, d 0/2, e 3/4 over both directories; f to h have no verdict."""
    first = verdicts(jsonl, rlvr, tmp_path / "1", a=[1, 1], b=[1, 0, None], d=[0, 0], e=[1, 0])
    second = verdicts(jsonl, rlvr, tmp_path / "2", c=[1, 1, 0], e=[1, 1], f=[None], other=[1])
    words = ("--scores", first, "--scores", second, "--json")
    for share, kept, count, cut in (
        (0.0, "abcdefgh", 0, None),
        (0.124, "abcdefgh", 0, None),
        (0.125, "bcdefgh", 1, 1.0),
        (0.25, "bcdfgh", 2, 0.75),
        (0.49, "bdfgh", 3, 2 / 3),
        (0.99, "fgh", 5, 0.0),
    ):
        out = tmp_path / f"made-{share}"
        ran = rlvr("prompts", eight, "--drop-easiest", share, *words, "--out", out)
        summary = json.loads(ran.out)
        assert ids_of(out) == kept, share
        assert (summary["prompts"], summary["dropped"], summary["unjudged"]) == (
            len(kept),
            count,
            3,
        )
        assert summary["success_at_cut"] == cut


def test_the_summary_says_how_many_were_dropped_and_from_where(rlvr, jsonl, eight, tmp_path):
    scores = verdicts(jsonl, rlvr, tmp_path / "1", a=[1, 1], b=[1, 1, 0], c=[0, 0])
    words = ("--drop-easiest", 0.25, "--scores", scores, "--out", tmp_path / "made")
    dry = rlvr("prompts", eight, *words, "--dry-run")
    assert f"6 prompts of `{eight}` would go" in dry.err and not (tmp_path / "made").exists()
    message = "prompts: 6 prompts, dropped 2, solved at a rate of 0.667 or more"
    assert message in rlvr("prompts", eight, *words).err
    assert "nothing left to do" in rlvr("prompts", eight, *words).err
    params = json.loads(rlvr("check", tmp_path / "made", "--json").out)["params"]
    digest = json.loads(rlvr("check", scores, "--json").out)["digest"]
    assert (params["drop_easiest"], params["scores"]) == (0.25, [digest])


def test_the_share_is_the_decimal_that_was_typed(rlvr, jsonl, tmp_path):
    """In binary 0.29 * 100 is 28.999999999999996."""
    rows = [{"id": f"p{i}", "prompt": "5=", "answer": "5"} for i in range(100)]
    rlvr("prompts", jsonl(*rows), "--out", tmp_path / "prompts")
    scores = verdicts(jsonl, rlvr, tmp_path / "1", **{row["id"]: [0] for row in rows})
    words = ("--drop-easiest", 0.29, "--scores", scores, "--out", tmp_path / "made")
    rlvr("prompts", tmp_path / "prompts", *words)
    assert len(rows_of(tmp_path / "made")) == 71


def test_which_of_equals_go_depends_neither_on_order_nor_on_the_scores_order(rlvr, jsonl, tmp_path):
    names = [f"p{i}" for i in range(20)]
    scores = [
        verdicts(jsonl, rlvr, tmp_path / "1", **{name: [1, 0] for name in names}),
        verdicts(jsonl, rlvr, tmp_path / "2", **{name: [0, 1, 1, 0] for name in names}),
    ]
    kept, params = [], []
    for number, order in enumerate((names, names[::-1])):
        rows = [{"id": name, "prompt": "5=", "answer": "5"} for name in order]
        source = jsonl(*rows, name=f"rows-{number}.jsonl")
        words = [w for path in scores[:: 1 - 2 * number] for w in ("--scores", path)]
        out = tmp_path / f"made-{number}"
        assert rlvr("prompts", source, "--drop-easiest", 0.5, *words, "--out", out).code == 0
        kept.append([row["prompt_id"] for row in rows_of(out)])
        params.append(json.loads(rlvr("check", out, "--json").out)["params"]["scores"])
    assert kept[0] == kept[1][::-1] and params[0] == params[1]
    assert kept[0] not in (names[:10], names[10:])


def test_scores_given_twice_count_once(rlvr, jsonl, eight, tmp_path):
    first = verdicts(jsonl, rlvr, tmp_path / "1", a=[1, 0, 0], b=[1, 0])
    second = verdicts(jsonl, rlvr, tmp_path / "2", a=[1])
    words = ("--drop-easiest", 0.125, "--scores", second, "--scores", first, "--scores", first)
    summary = json.loads(rlvr("prompts", eight, *words, "--out", tmp_path / "made", "--json").out)
    assert summary["success_at_cut"] == 0.5


def test_the_scores_of_a_run_drop_prompts_of_its_task(rlvr, chain, tmp_path):
    words = ("--drop-easiest", 0.1, "--scores", chain / "scores", "--out", tmp_path / "made")
    assert rlvr("prompts", "task:expression", *words).code == 0
    assert len(rows_of(tmp_path / "made")) == 51
    assert rlvr("rollout", tmp_path / "made", "--limit", 1, "-n", 2).code == 0


def test_rates_keep_the_prompts_that_are_solved_so_often_and_those_without_a_verdict(
    rlvr, jsonl, eight, tmp_path
):
    scores = verdicts(jsonl, rlvr, tmp_path / "1", a=[1, 1], b=[1, 0], c=[0, 0], d=[0, 0, 0, 1])
    words = ("--scores", scores, "--out", tmp_path / "made")
    ran = rlvr("prompts", eight, "--keep-rate", "0.25,0.5", *words)
    assert ids_of(tmp_path / "made") == "bdefgh"
    said = "6 prompts, dropped 1 solved too often and 1 too rarely, kept 4 without a verdict"
    assert said in ran.err
    assert "nothing left to do" in rlvr("prompts", eight, "--keep-rate", "0.25,0.5", *words).err
    params = json.loads(rlvr("check", tmp_path / "made", "--json").out)["params"]
    assert params["keep_rate"] == [0.25, 0.5] and len(params["scores"]) == 1


def test_rates_that_keep_no_prompt_are_refused(rlvr, refused, jsonl, eight, tmp_path):
    scores = verdicts(jsonl, rlvr, tmp_path / "1", **{name: [1] for name in "abcdefgh"})
    words = ("--keep-rate", "0.1,0.9", "--scores", scores, "--out", tmp_path / "made")
    assert "8 have a higher one and 0 a lower one" in refused(3, "prompts", eight, *words)


def test_scores_of_other_prompts_are_refused(rlvr, refused, jsonl, eight, tmp_path):
    scores = verdicts(jsonl, rlvr, tmp_path / "1", other=[1])
    words = ("--drop-easiest", 0.25, "--scores", scores, "--out", tmp_path / "made")
    assert f"`{scores}` holds no completion of these" in refused(3, "prompts", eight, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--drop-easiest", 0.25], "name a scores directory"),
        (["--scores", "scores"], "--drop-easiest 0.25"),
        (["--keep-rate", "0.1,0.9"], "name a scores directory"),
        (["--keep-rate", "0.9,0.1", "--scores", "scores"], "--keep-rate is 0.9,0.1"),
        (["--keep-rate", "0.5", "--scores", "scores"], "--keep-rate is 0.5"),
        (["--keep-rate", "0,1.5", "--scores", "scores"], "--keep-rate is 0,1.5"),
        (
            ["--keep-rate", "0,1", "--drop-easiest", 0.1, "--scores", "scores"],
            "--drop-easiest and --keep-rate both",
        ),
        (["--drop-easiest", 1, "--scores", "scores"], "--drop-easiest is 1.0"),
        (["--drop-easiest", -0.1, "--scores", "scores"], "--drop-easiest is -0.1"),
        (["--drop-easiest", "nan", "--scores", "scores"], "--drop-easiest is nan"),
    ],
)
def test_a_share_and_scores_belong_together(refused, eight, tmp_path, words, message):
    assert message in refused(2, "prompts", eight, *words, "--out", tmp_path / "made")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("name", "message"), [("prompts", "scores were expected"), ("nope", "exist")]
)
def test_what_is_no_scores_directory_is_refused(refused, eight, tmp_path, name, message):
    words = ("--drop-easiest", 0.25, "--scores", tmp_path / name, "--out", tmp_path / "made")
    assert message in refused(3, "prompts", eight, *words)


@pytest.mark.parametrize("source", ["rows.jsonl", "task:expression"])
def test_the_first_rows_and_the_rest_are_all_rows_and_share_none(
    rlvr, jsonl, tmp_path, monkeypatch, source
):
    monkeypatch.chdir(tmp_path)
    jsonl(*({"question": f"{n}=", "answer": str(n)} for n in range(7)))

    def ids(*words):
        assert rlvr("prompts", source, *words, "--out", "-".join(["p", *words])).code == 0
        return [row["prompt_id"] for row in rows_of("-".join(["p", *words]))]

    whole, first, rest = ids(), ids("--limit", "3"), ids("--skip", "3")
    assert first + rest == whole and len(first) == 3
    assert ids("--skip", "3", "--limit", "2") == rest[:2]


def test_leaving_out_all_rows_is_refused(refused, jsonl, tmp_path):
    data = jsonl({"question": "4=", "answer": "4"})
    said = refused(2, "prompts", data, "--skip", 1, "--out", tmp_path / "made")
    assert "--skip is 1" in said and "has 1 row" in said and not (tmp_path / "made").exists()


def test_a_gold_that_is_stored_as_messages_is_their_text(rlvr, jsonl, tmp_path):
    row = {"prompt": "1 + 1?", "completion": [{"role": "assistant", "content": "2"}]}
    words = ("--answer-column", "completion", "--verifier", "number")
    assert rlvr("prompts", jsonl(row), *words, "--out", tmp_path / "p").code == 0
    assert Shards.open(tmp_path / "p").table()["answer"].to_pylist() == ["2"]


def test_prompts_without_golds_are_made_where_that_is_said(rlvr, refused, jsonl, tmp_path):
    words = ("prompts", jsonl({"prompt": "Why does it rain?"}), "--out", tmp_path / "p")
    assert "or say --answer-column none for a verifier that reads no gold" in refused(3, *words)
    spec = "text:words=[1,50]"
    ran = rlvr(*words, "--answer-column", "none", "--verifier", spec)
    assert ran.code == 0, ran.err
    assert [row["answer"] for row in rows_of(tmp_path / "p")] == [""]
    assert rlvr("doctor", tmp_path / "p").code == 0
    assert (
        "`math` cannot read 1 of 1 golds"
        in rlvr("doctor", tmp_path / "p", "--verifier", "math").out
    )


def test_the_columns_that_nobody_named_are_said(rlvr, jsonl, tmp_path):
    source = jsonl({"question": "1?", "solution": "It is 1.", "answer": "1"})
    said = "prompts: reads the prompt from `question` and the answer from `answer` ("
    assert said in rlvr("prompts", source, "--out", tmp_path / "a").err
    ran = rlvr("prompts", source, "--answer-column", "solution", "--out", tmp_path / "b")
    assert "reads the prompt from `question` (--prompt-column for others)" in ran.err
    words = ("--prompt-column", "question", "--answer-column", "solution")
    assert "reads the" not in rlvr("prompts", source, *words, "--out", tmp_path / "c").err


def test_ids_that_repeat_are_replaced_by_numbers_as_the_hint_says(rlvr, refused, jsonl, tmp_path):
    source = jsonl(*({"id": "a", "prompt": f"{n}?", "answer": str(n)} for n in range(2)))
    said = refused(3, "prompts", source, "--out", tmp_path / "p")
    assert "rows 1 and 2 both have the id `a`" in said
    assert "with --id-column, or none to number the rows" in said
    ran = rlvr("prompts", source, "--id-column", "none", "--out", tmp_path / "p")
    assert ran.code == 0, ran.err
    ids = pq.read_table(tmp_path / "p")["prompt_id"].to_pylist()
    assert ids == [f"{source.stem}-{n:06d}" for n in (1, 2)]


@pytest.mark.parametrize("columns", [("question", "answer"), ("problem", "answer", "solution")])
def test_a_gold_that_is_nan_is_none(rlvr, refused, tmp_path, columns):
    """As pandas writes it where there was none."""
    source = tmp_path / "rows.jsonl"
    row = dict.fromkeys(columns, "1") | {"answer": float("nan")}
    rows = (row, dict.fromkeys(columns, "1"))
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = refused(3, "prompts", source, "--out", tmp_path / "p")
    assert "row 1 cannot be a prompt: its" in said and "is NaN" in said
    assert rlvr("prompts", source, "--drop-unusable", "--out", tmp_path / "p").code == 0


@pytest.mark.parametrize("between", [";", "\t"])
def test_a_table_that_semicolons_or_tabs_separate_is_read(rlvr, tmp_path, between):
    source = tmp_path / "rows.csv"
    source.write_text(f'question{between}answer\n"a, b{between}c?"{between}1\n')
    assert rlvr("prompts", source, "--out", tmp_path / "p").code == 0
    (row,) = pq.read_table(tmp_path / "p").to_pylist()
    assert (json.loads(row["messages"]), row["answer"]) == (f"a, b{between}c?", "1")


def test_a_question_that_is_no_text_is_not_asked(refused, jsonl, tmp_path):
    source = jsonl({"question": {"text": "1?"}, "answer": ["1", "one"]})
    said = refused(3, "prompts", source, "--out", tmp_path / "p")
    assert "its `question` is no text" in said
