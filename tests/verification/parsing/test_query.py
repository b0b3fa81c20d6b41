"""The query that a completion gives."""

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.parsing import query

TABLE = [  # (completion, query)
    ("SELECT name FROM item", "SELECT name FROM item"),
    ("SELECT name FROM item;", "SELECT name FROM item"),
    ("select name from item", "select name from item"),
    (
        "Here is the query:\n\n```sql\nSELECT name FROM item;\n```\n\nIt returns names.",
        "SELECT name FROM item",
    ),
    ("Here is the query: SELECT name FROM item", "SELECT name FROM item"),
    ("The query is `SELECT name FROM item`.", "SELECT name FROM item"),
    ("**Query:**\nSELECT name FROM item;\n\nThis lists the names.", "SELECT name FROM item"),
    ("SELECT name FROM item\nThis query returns the names.", "SELECT name FROM item"),
    ("SELECT name FROM item;\n\nname\n----\npen\nink", "SELECT name FROM item"),
    ("SELECT name FROM item\n\n| name |\n|---|\n| pen |", "SELECT name FROM item"),
    ("```sql\nSELECT name FROM item\n```\nResult:\n```\nname\npen\n```", "SELECT name FROM item"),
    ("```\nSELECT name FROM item\n```\nOutput:\n```\nname | n\n```", "SELECT name FROM item"),
    (
        "```python\nsql = 'SELECT 1'\n```\n```sql\nSELECT name FROM item\n```",
        "SELECT name FROM item",
    ),
    (
        "```sql\nSELECT name FROM item\n```\n```python\nwith open('x') as f: pass\n```",
        "SELECT name FROM item",
    ),
    ("```python\nwith open('x') as f:\n  pass\n```", None),
    ("```sqlite\nSELECT name FROM item\n```", "SELECT name FROM item"),
    ("~~~sql\nSELECT name FROM item\n~~~", "SELECT name FROM item"),
    ("  ```sql\n  SELECT name FROM item\n  ```", "SELECT name FROM item"),
    ("```sql SELECT name FROM item```", "SELECT name FROM item"),
    ("```SELECT name FROM item```", "SELECT name FROM item"),
    ("```sql\nSELECT name FROM item", "SELECT name FROM item"),
    ("```sql\nSELECT name FROM item```", "SELECT name FROM item"),
    ("<answer>SELECT name FROM item</answer>", "SELECT name FROM item"),
    ("<answer>\n```sql\nSELECT name FROM item\n```\n</answer>", "SELECT name FROM item"),
    ("<sql>SELECT name FROM item;</sql>", "SELECT name FROM item"),
    ('{"sql": "SELECT name FROM item"}', "SELECT name FROM item"),
    ('```json\n{"query": "SELECT a\\nFROM t"}\n```', "SELECT a\nFROM t"),
    ("-- the names\nSELECT name FROM item", "-- the names\nSELECT name FROM item"),
    ("/* x */ SELECT name FROM item", "/* x */ SELECT name FROM item"),
    ("SELECT name FROM item -- done\n", "SELECT name FROM item -- done"),
    ("WITH t AS (SELECT 1) SELECT * FROM t", "WITH t AS (SELECT 1) SELECT * FROM t"),
    ("With this query we get the names.", None),
    ("With t as the table, we have:\nSELECT name FROM item", "SELECT name FROM item"),
    ("I select the names.", None),
    ("Select the names from the table.", None),
    ("Select the names first.\n\nSELECT name FROM item", "SELECT name FROM item"),
    (
        "SELECT a,\n  b\nFROM t\n\nWHERE a = 1\nORDER BY b",
        "SELECT a,\n  b\nFROM t\n\nWHERE a = 1\nORDER BY b",
    ),
    ("SELECT a FROM (\n\nSELECT 1 AS a\n\n)", "SELECT a FROM (\n\nSELECT 1 AS a\n\n)"),
    ("SELECT a FROM t\nUNION\n\nSELECT b FROM t", "SELECT a FROM t\nUNION\n\nSELECT b FROM t"),
    ("SELECT ';' FROM t; done", "SELECT ';' FROM t"),
    ("SELECT 1; SELECT 2", "SELECT 1; SELECT 2"),
    ("SELECT 1;\nSELECT 2", "SELECT 1;\nSELECT 2"),
    ("SELECT 1;\n\n-- Write one SQLite query that answers: what?\nSELECT 2;", "SELECT 1"),
    ("First: SELECT 1;\nFinally: SELECT 2;", "SELECT 2"),
    ("```sql\nSELECT 1;\nSELECT 2;\n```", "SELECT 1;\nSELECT 2"),
    ("```sql\nDROP TABLE t\n```", "DROP TABLE t"),
    ("```sql\nSELECT 1\n```\nand an index:\n```sql\nCREATE INDEX x ON t(a)\n```", "SELECT 1"),
    ("no query", None),
    ("", None),
    ("SELEC name", None),
    ("```\nfoo\n```", None),
    ("SELECT `name` FROM `item`", "SELECT `name` FROM `item`"),
    ("SELECT name FROM item WHERE x = 'a\n\nb'", "SELECT name FROM item WHERE x = 'a\n\nb'"),
    ("VALUES (1)", "VALUES (1)"),
    ("(SELECT 1)", "(SELECT 1)"),
    ("> SELECT 1", "SELECT 1"),
    ("1. SELECT 1 FROM t", "SELECT 1 FROM t"),
    ("- `SELECT 1 FROM t`", "SELECT 1 FROM t"),
    (
        "SELECT CASE WHEN a THEN 1\nELSE 2 END\nFROM t",
        "SELECT CASE WHEN a THEN 1\nELSE 2 END\nFROM t",
    ),
    ("SELECT\n  COUNT(*)\nFROM t", "SELECT\n  COUNT(*)\nFROM t"),
    ("SELECT a\n-- comment\nFROM t", "SELECT a\n-- comment\nFROM t"),
    ("**SELECT 1 FROM t**", "SELECT 1 FROM t"),
    ("SQL: `SELECT 1 FROM t`;", "SELECT 1 FROM t"),
    ("\\boxed{SELECT 1 FROM t}", "SELECT 1 FROM t"),
    ("```sql\nSELECT 1\n```\nIt is $\\boxed{3}$.", "SELECT 1"),
    ("<answer>42</answer>", None),
    (
        "SELECT t1.name, t2.n FROM a AS t1\n     JOIN b t2 ON t1.x = t2.x\nThe result is 3.",
        "SELECT t1.name, t2.n FROM a AS t1\n     JOIN b t2 ON t1.x = t2.x",
    ),
]


@pytest.mark.parametrize(("completion", "text"), TABLE)
def test_a_query_is_found_without_what_stands_around_it(completion, text):
    assert query.of(completion) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1", 1),
        ("SELECT ';' -- ; SELECT 2", 1),
        ("SELECT 1; -- done", 1),
        ("SELECT 1; SELECT 2;", 2),
        ("/* ; */ SELECT 1;\n\n;", 1),
        ("-- nothing", 0),
    ],
)
def test_statements_are_counted_without_comments(text, count):
    assert len(query.statements(text)) == count


def test_distinct_is_dropped_outside_strings():
    text = query.without_distinct("SELECT DISTINCT a, 'distinct', count(distinct b) FROM t")
    assert "".join(text.split()) == "SELECTa,'distinct',count(b)FROMt"


@given(st.text() | st.text("`\n ;'\"([{SELECT FROM-*/<sql>", max_size=80))
def test_it_never_raises(completion):
    text = query.of(completion)
    query.statements(text or "")
