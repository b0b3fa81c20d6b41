import unicodedata

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.terminal.escape import clipped, redacted, shown


def test_an_escape_sequence_is_seen_and_does_nothing():
    assert shown("\x1b[31mred\x1b]0;title\x07\x9b2J") == "␛[31mred␛]0;title␇⟨U+009B⟩2J"


def test_what_turns_or_hides_text_shows_its_code():
    assert shown("a\u202eb\u200bc\ufeff\U000e0041") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩⟨U+E0041⟩"


def test_lines_and_tabs_stay_and_carriage_returns_are_seen():
    assert shown("a\n\tb\r\nc\x00\x7f") == "a\n\tb␍\nc␀␡"


def test_letters_of_all_scripts_and_emoji_stay():
    text = "é 漢字 ليل हिन्दी 👩‍👩‍👧 ∀x∈ℝ"
    assert shown(text) == text


@given(st.text())
def test_no_control_character_is_left_but_lines_and_tabs(text):
    assert not {c for c in shown(text) if unicodedata.category(c) == "Cc"} - {"\n", "\t"}


def test_what_is_left_out_is_counted():
    assert clipped("abcdef", 4) == ("abcd", 2) and clipped("ab", 4) == ("ab", 0)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("sftp://me:pass@word@host/x", "sftp://***@host/x"),
        ("at https://token@host/x and s3://b/x", "at https://***@host/x and s3://b/x"),
        ("https://h/x?a=1&X-Amz-Signature=ab%2F&b=2", "https://h/x?a=1&X-Amz-Signature=***&b=2"),
        ("https://h/x?sv=1&sig=ab", "https://h/x?sv=1&sig=***"),
        ("abfss://container@account.dfs.core.windows.net/x", None),
        ("hf://datasets/u/x@main/a:b@c", None),
        ("judge:url=http://localhost:8000", None),
        ("1:2@3 at s3://b/x", None),
    ],
)
def test_passwords_and_signatures_of_urls_are_left_out(text, safe):
    assert redacted(text) == (safe or text)
