import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from rlvr_cli.viewer import plain


@given(st.text(), st.sampled_from(["latin-1", "ascii", "cp1252"]))
def test_text_fits_any_encoding_and_keeps_its_width(text, encoding):
    made = plain.plain(text, encoding)
    made.encode(encoding)
    assert cell_len(made) == cell_len(text) or not text.isprintable()


def test_marks_and_lines_look_alike():
    assert plain.plain("✓ ✗ │ … ↑↓ “é”", "latin-1") == '+ x | ~ ^v "é"'


def test_escape_sequences_stay_as_they_are():
    assert plain.plain("\x1b[1m漢\x1b[0m", "ascii") == "\x1b[1m??\x1b[0m"


@pytest.mark.parametrize(
    ("encoding", "known"), [("utf-8", True), ("UTF8", True), ("latin-1", False), ("ascii", False)]
)
def test_unicode_encodings_are_known(encoding, known):
    assert plain.is_unicode(encoding) is known
