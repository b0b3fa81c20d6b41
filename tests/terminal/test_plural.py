"""Numbers with the name of what they count."""

import pytest

from rlvr_cli.terminal import plural


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (plural.of(1, "row"), "1 row"),
        (plural.of(0, "row"), "0 rows"),
        (plural.of(2000, "row"), "2,000 rows"),
        (plural.of(1, "directory", "directories"), "1 directory"),
        (plural.of(2, "directory", "directories"), "2 directories"),
        (plural.filled("{a:update} on {b:token}, {c:.3g}", {"a": 1, "b": 2, "c": 0.12345}),
         "1 update on 2 tokens, 0.123"),
        (plural.filled("{a:token}, {b:.3g}, {c}", {"a": None, "b": None, "c": {"ok": 1}}),
         "unknown tokens, unknown, 1 ok"),
    ],
)  # fmt: skip
def test_what_is_counted_is_singular_where_it_is_one(said, text):
    assert said == text
