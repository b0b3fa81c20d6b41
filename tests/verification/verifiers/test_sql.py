"""The sql verifier: wrong, too long, refused and bad gold are distinguished."""

import json
import os
import sqlite3

import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.verification.parsing import query
from rlvr_cli.verification.verifiers.sql import EQUALITY, build

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT count(*) FROM t"


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("databases")
    with sqlite3.connect(folder / "shop.sqlite") as file:
        file.execute("create table item (name text, price real, n int)")
        rows = [("pen", 0.1, 3), ("ink", 0.2, None), ("pad", 3.0, 3)]
        file.executemany("insert into item values (?, ?, ?)", rows)
    file.close()
    return folder


@pytest.fixture
def verdict(databases):
    def ask(completion, gold, db="shop", **options):
        limit = 0.5 if ENDLESS in (completion, gold) else 60.0
        result = build(databases=str(databases), timeout_s=limit, **options)
        return result.judge(result.extract(completion, True), gold, {"db": db})

    return ask


NAMES = "SELECT name FROM item"
TABLE = [
    (NAMES, NAMES, "ok", True),
    (NAMES + " ORDER BY name DESC;", NAMES, "ok", True),
    (NAMES + " ORDER BY name", NAMES + " ORDER BY name DESC", "ok", False),
    (NAMES + " ORDER BY name", f"SELECT * FROM ({NAMES} ORDER BY name DESC)", "ok", True),
    (f"Here:\n```sql\n{NAMES};\n```\n", NAMES, "ok", True),
    ("```\nSELECT 1\n```\n```sql\nSELECT 2\n```", "SELECT 2", "ok", True),
    ("-- it is\nnothing", NAMES, "no_answer", False),
    ("", NAMES, "no_answer", False),
    ("SELECT n FROM item", "SELECT n FROM item WHERE n IS NOT NULL", "ok", False),
    ("SELECT n FROM item WHERE n = 3", "SELECT 3", "ok", False),  # a multiset, not a set
    ("SELECT 0.1 + 0.2", "SELECT 0.3", "ok", True),
    ("SELECT 3", "SELECT 3.0", "ok", True),
    ("SELECT '3'", "SELECT 3", "ok", False),
    ("SELECT name AS x FROM item", NAMES, "ok", True),
    ("SELECT name, n FROM item", NAMES, "ok", False),
    ("SELECT nothing FROM item", NAMES, "ok", False),
    ("SELEC name", NAMES, "no_answer", False),
    ("```sql\nSELEC name\n```", NAMES, "ok", False),
    ("```sql\nDROP TABLE item\n```", NAMES, "ok", False),
    ("```sql\nDELETE FROM item\n```", NAMES, "ok", False),
    ("```sql\nATTACH DATABASE '/tmp/rlvr-made' AS x\n```", NAMES, "ok", False),
    ("```sql\nPRAGMA writable_schema = 1\n```", NAMES, "ok", False),
    ("SELECT load_extension('/lib/x.so')", NAMES, "ok", False),
    ("SELECT 1; DROP TABLE item", "SELECT 1", "no_answer", False),
    ("SELECT '\x00'", NAMES, "ok", False),
    ("SELECT 1234567890123.0", "SELECT 1234567890123", "ok", True),
    ("SELECT 1234567890.1 + 0.2", "SELECT 1234567890.3", "ok", True),
    ("SELECT 2999999999.0", "SELECT 3000000000", "ok", False),
    (NAMES + " WHERE random() IS NOT NULL", NAMES, "ok", False),
    (NAMES, NAMES + " ORDER BY random()", "bad_gold", None),
    (ENDLESS, NAMES, "timeout", None),
    (NAMES, ENDLESS, "bad_gold", None),
    (NAMES, "SELECT nothing", "bad_gold", None),
    (NAMES, "", "bad_gold", None),
    (NAMES, json.dumps(["SELECT nothing", NAMES]), "ok", True),
    (NAMES, json.dumps(["SELECT 1", NAMES]), "ok", True),
    ("SELECT 2", json.dumps(["SELECT 1", NAMES]), "ok", False),
]


@pytest.mark.parametrize(("completion", "gold", "status", "correct"), TABLE)
def test_verdicts(verdict, databases, completion, gold, status, correct):
    before = (databases / "shop.sqlite").read_bytes()
    result = verdict(completion, gold)
    assert (result.status, result.correct) == (status, correct)
    assert result.reward == (None if correct is None else float(correct))
    assert (databases / "shop.sqlite").read_bytes() == before
    assert os.listdir(databases) == ["shop.sqlite"]
    assert not os.path.exists("/tmp/rlvr-made")


def test_a_query_that_takes_too_long_is_wrong_if_one_says_so(verdict):
    result = verdict(ENDLESS, NAMES, exceeding="wrong")
    assert (result.status, result.reward, result.correct) == ("timeout", 0.0, False)


def test_what_is_wrong_is_distinguished(verdict):
    assert verdict("SELECT 5", NAMES).reason == "another result"
    assert "no such column: size" in verdict("SELECT size FROM item", NAMES).reason
    assert "takes more than" in verdict(NAMES, ENDLESS).reason


def test_a_verdict_holds_the_query_and_the_reason(verdict):
    assert verdict("SELECT 5", NAMES).extracted == "SELECT 5"
    assert verdict(f"Here:\n```sql\n{NAMES};\n```", NAMES).extracted == NAMES
    assert verdict("no query", NAMES).reason == "it gives no query"
    several = verdict("```sql\nSELECT 1;\nSELECT 2;\n```", "SELECT 2")
    assert (several.status, several.reward) == ("no_answer", 0.0)
    assert several.reason == "it gives 2 statements, one query is an answer"


def test_what_is_extracted_is_the_query_as_a_completion_and_as_a_gold(verdict):
    extracted = verdict(f"{NAMES} ORDER BY name; -- sorted", NAMES).extracted
    assert verdict(EQUALITY(extracted), extracted).correct is True


ORDERED = f"{NAMES} ORDER BY n DESC"  # pen and pad have the same n
COMPARED = [  # (completion, gold, as rows, as bird, as spider)
    (ORDERED, ORDERED, True, True, True),
    ("SELECT name FROM item ORDER BY n DESC, name DESC", ORDERED, True, True, True),
    ("SELECT name FROM item ORDER BY n DESC, name", ORDERED, True, True, False),
    ("SELECT name FROM item ORDER BY n, name", ORDERED, False, True, False),
    ("SELECT n FROM item", "SELECT DISTINCT n FROM item", False, True, True),
    ("SELECT n FROM item UNION ALL SELECT n FROM item", "SELECT n FROM item", False, True, False),
    ("SELECT n, name FROM item", "SELECT name, n FROM item", False, False, True),
    ("SELECT name, name FROM item", "SELECT name, n FROM item", False, False, False),
    ("SELECT 0.1 + 0.2", "SELECT 0.3", True, False, False),
    ("SELECT 3.0", "SELECT 3", True, True, True),
    ("SELECT 1, 2 WHERE 0", "SELECT 1 WHERE 0", True, True, True),
    (
        "SELECT name FROM item WHERE n > = 3",
        "SELECT name FROM item WHERE n >= 3",
        False,
        False,
        True,
    ),
    (f"SELECT * FROM ({ORDERED})", f"SELECT * FROM ({ORDERED})", True, True, True),
]


TIES = "SELECT name FROM item ORDER BY"
OPEN = [  # (completion, gold, right)
    (f"{TIES} n DESC, name", f"{TIES} n DESC", True),
    (f"{TIES} n IS NULL, name", f"{TIES} n IS NULL", True),
    ("SELECT name, n FROM item ORDER BY 2 DESC, 1",
     "SELECT name, n FROM item ORDER BY 2 DESC", True),
    ("SELECT name AS a, n AS b FROM item ORDER BY b, a DESC",
     "SELECT name AS a, n AS b FROM item ORDER BY b", True),
    (f"{TIES} n", f"{TIES} n DESC", False),
    (NAMES, f"{TIES} name", False),
    (f"{TIES} price", f"{TIES} price NULLS LAST LIMIT 3", True),
    ("SELECT DISTINCT name FROM item ORDER BY name", f"{TIES} name", True),
]  # fmt: skip


@pytest.mark.parametrize(("completion", "gold", "right"), OPEN)
def test_rows_that_an_order_holds_equal_come_in_any_order(verdict, completion, gold, right):
    assert verdict(completion, gold).correct is right


@pytest.mark.parametrize(("completion", "gold", "rows", "bird", "spider"), COMPARED)
def test_rows_are_compared_as_rlvr_bird_or_spider_do(verdict, completion, gold, rows, bird, spider):
    for compare, right in (("rows", rows), ("bird", bird), ("spider", spider)):
        result = verdict(completion, gold, compare=compare)
        assert (result.status, result.correct) == ("ok", right), (compare, result.reason)


def test_many_columns_that_are_alike_end_in_a_verdict(verdict):
    columns = [", ".join(f"(x + {n % 2}) % 2" for n in range(count)) for count in (16, 15)]
    table = "(SELECT 0 AS x UNION ALL SELECT 1)"
    gold = f"SELECT {columns[0]} FROM {table}"
    other = f"SELECT {columns[1]}, 1 - x FROM {table}"
    assert verdict(other, gold, compare="spider").correct is True
    assert verdict(f"SELECT {columns[1]}, x FROM {table}", gold, compare="spider").status in (
        "ok",
        "error",
    )


def test_a_test_suite_is_every_database_in_the_folder_of_its_name(tmp_path):
    for name, n in (("shop", 1), ("shop_2", 2)):
        (tmp_path / "shop").mkdir(exist_ok=True)
        with sqlite3.connect(tmp_path / "shop" / f"{name}.sqlite") as file:
            file.execute("create table item (n int)")
            file.execute("insert into item values (?)", [n])
        file.close()

    def ask(completion, gold, compare):
        verifier = build(databases=str(tmp_path), compare=compare)
        return verifier.judge(verifier.extract(completion, True), gold, {"db": "shop"})

    assert ask("SELECT 1", "SELECT n FROM item", "rows").correct is True
    wrong = ask("SELECT 1", "SELECT n FROM item", "spider")
    assert (wrong.correct, wrong.reason) == (False, "another result on `shop_2.sqlite`")
    assert ask("SELECT max(n) FROM item", "SELECT n FROM item", "spider").correct is True


@pytest.mark.parametrize("db", ["none", "../shop", "", None])
def test_a_database_that_is_not_there_is_a_fault_of_the_gold(verdict, db):
    assert verdict(NAMES, NAMES, db=db).status == "bad_gold"


def test_a_folder_without_databases_is_refused(tmp_path):
    with pytest.raises(DataError, match="holds no SQLite database"):
        build(databases=str(tmp_path))
    with pytest.raises(UsageError, match="has no databases"):
        build()


def test_a_changed_database_changes_the_version(tmp_path):
    for size in (1, 2):
        (tmp_path / f"{size}.db").write_bytes(b"x" * size)
    versions = set()
    for _ in range(2):
        versions.add(build(databases=str(tmp_path)).version)
        (tmp_path / "1.db").write_bytes(b"longer")
    assert len(versions) == 2


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t order\n by a limit 3", True),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a)", False),
        ("SELECT 'ORDER BY' FROM t", False),
        ('SELECT "ORDER BY" FROM t -- ORDER BY a', False),
        ("SELECT row_number() OVER (ORDER BY a) FROM t /* ORDER BY a */", False),
        ("SELECT (1), a FROM t ORDER BY (a)", True),
    ],
)
def test_rows_are_in_order_only_by_an_order_by_at_the_top(text, ordered):
    assert query.is_ordered(text) is ordered
