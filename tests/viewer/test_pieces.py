import math

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from rlvr_cli.viewer import pieces, screen
from rlvr_cli.viewer.styled import Styled, lines


def utf8(token_ids: list[int]) -> str:
    """A tokenizer whose tokens are bytes."""
    return bytes(token_ids).decode(errors="replace")


@given(st.text())
def test_pieces_of_bytes_join_to_the_text(text):
    made = pieces.decode(utf8, list(text.encode()))
    assert "".join(made) == text and len(made) == len(text.encode())


def test_a_character_of_several_tokens_is_with_the_last_of_them():
    assert pieces.decode(utf8, list("a漢b".encode())) == ["a", "", "", "漢", "b"]


def test_half_a_character_at_the_end_is_shown():
    made = pieces.decode(utf8, [*b"ab", 0xE6])
    assert made == ["a", "b", "\ufffd"]


def test_a_token_may_depend_on_the_one_before():
    words = {1: "a", 2: "b"}
    made = pieces.decode(lambda ids: " ".join(words[i] for i in ids), [1, 2, 1])
    assert made == ["a", " b", " a"]


def test_of_very_many_tokens_the_first_are_decoded():
    assert len(pieces.decode(utf8, [97] * (pieces.MOST + 5))) == pieces.MOST


@pytest.mark.parametrize(
    ("probability", "colour"), [(1, 0), (0.91, 0), (0.89, 1), (0.4, 2), (0.09, 3), (0.001, 4)]
)
def test_less_likely_tokens_have_warmer_colours(probability, colour):
    assert pieces.by_logp(math.log(probability)) == pieces.LOGP[colour]


def test_an_impossible_token_has_the_warmest_and_no_number_the_last():
    assert pieces.by_logp(-math.inf) == pieces.LOGP[4]


@pytest.mark.parametrize(("nats", "colour"), [(0, 0), (0.2, 1), (0.7, 2), (1.5, 3), (9, 4)])
def test_less_decided_tokens_have_deeper_colours(nats, colour):
    assert pieces.by_entropy(nats) == pieces.ENTROPY[colour]


@pytest.mark.parametrize("colour", [c for c in (*pieces.LOGP, *pieces.ENTROPY) if c])
def test_black_text_can_be_read_on_every_colour(colour):
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    light = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    assert (light + 0.05) / 0.05 > 4.5


@given(st.text("ab 漢\n é"), st.integers(2, 12))
def test_lines_fit_and_hold_all_of_the_text(text, width):
    made = lines(text, width)
    assert all(cell_len(text[a:b].rstrip(" ")) <= width for a, b in made)
    assert "".join(text[a:b] for a, b in made) == text.replace("\n", "")


def test_lines_break_between_words():
    text = "one two three\n\nfourteen"
    assert [text[a:b] for a, b in lines(text, 8)] == ["one two ", "three", "", "fourteen"]


@given(st.lists(st.tuples(st.text("ab\n", max_size=4), st.sampled_from(["red", "blue"]))))
def test_a_lines_segments_are_its_text_in_its_styles(parts):
    from rich.style import Style

    made = Styled()
    for text, colour in parts:
        made.add(text, Style(color=colour))
    wanted = [(c, colour) for text, colour in parts for c in text]
    found = [(c, s.style.color.name) for s in made.segments(0, len(made.text), []) for c in s.text]
    assert found == wanted


def test_marks_are_found_in_either_case_and_bounded():
    assert screen.places("Ab ab AB", "ab") == [(0, 2), (3, 5), (6, 8)]
    assert screen.places("a.c abc", "a.c") == [(0, 3)] and screen.places("abc", "") == []
    assert len(screen.places("a" * 20_000, "a")) == screen.MOST_MARKS


def test_of_a_very_long_text_the_middle_is_left_out_and_counted():
    from rlvr_cli.viewer.index import Detail

    long = "a" * 300_000 + "b" * 9_000_000 + "c" * 300_000
    detail = Detail(0, [], None, long, None, None, None, 1, None, None, None, None, {})
    made = screen.text(detail, None, None).text
    assert "… 9,200,000 characters are left out here …" in made and "b" not in made
    assert made.count("a") >= 200_000 and made.endswith("c" * 200_000)
    assert len(lines(made, 40)) > 10_000
