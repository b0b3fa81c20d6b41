"""Where a completion ends at a stop string."""

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from rlvr_cli.errors import UsageError
from rlvr_cli.models import stops
from rlvr_cli.protocols import Completion


def ids(loaded, text):
    return loaded.tokenizer(text)["input_ids"]


def completion(loaded, text):
    token_ids = ids(loaded, text)
    return Completion(token_ids, [-float(i) for i in range(len(token_ids))], "length")


@pytest.mark.parametrize(
    ("value", "strings", "spelled"),
    [
        ("", (), ""),
        ("Q:", ("Q:",), "Q:"),
        ("a, b", ("a, b",), "a, b"),
        ('"\\n\\n"', ("\n\n",), "\n\n"),
        ('["\\n\\n",Q:,Q:]', ("\n\n", "Q:"), '["\\n\\n",Q:]'),
        ('"[a]"', ("[a]",), '["[a]"]'),
    ],
)
def test_an_option_holds_one_string_or_a_list(value, strings, spelled):
    assert stops.read(value) == strings == stops.read(stops.spell(strings))
    assert stops.spell(strings) == spelled


@pytest.mark.parametrize("value", ['""', '["a",""]', "[[a]]", "[a"])
def test_what_is_no_list_of_strings_is_refused(value):
    with pytest.raises(UsageError):
        stops.read(value)


@pytest.mark.parametrize(
    ("text", "strings", "kept"),
    [
        ("2+3\n5+4", ("\n",), "2+3\n"),
        ("2+3\n5+4", ("5", "\n5"), "2+3\n5"),
        ("2+3 5+4", ("+4", "3 5"), "2+3 5"),
        ("2+3", ("9",), "2+3"),
        ("2+3<eos>", ("<eos>",), "2+3<eos>"),
        ("12121", ("21",), "121"),
    ],
)
def test_a_completion_ends_with_the_token_that_completes_the_first_string(
    loaded, text, strings, kept
):
    before = completion(loaded, text)
    cut = stops.StopStrings(loaded.tokenizer, strings).cut(before)
    assert loaded.tokenizer.decode(cut.token_ids) == kept
    assert cut.behaviour_logp == before.behaviour_logp[: len(cut.token_ids)]
    ends = any(string in text for string in strings)
    assert cut.finish_reason == ("stop" if ends else "length")


@pytest.fixture(scope="module")
def words():
    """A tokenizer of a few pieces, some of more than one character."""
    pieces = ("ans", "wer: 4\n\nQ", ": ", "x", "\n", "é")
    core = Tokenizer(WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="x"))
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, clean_up_tokenization_spaces=False)


def test_the_text_ends_with_the_string_and_the_tokens_stay_whole(words):
    stop = stops.StopStrings(words, ("\n\n",))
    cut = stop.cut(Completion([0, 1, 2, 3], [-1.0, -2.0, -3.0, -4.0], "length"))
    assert (cut.token_ids, cut.behaviour_logp) == ([0, 1], [-1.0, -2.0])
    assert stop.trimmed("answer: 4\n\nQ", cut.token_ids) == "answer: 4\n\n"
    assert stop.trimmed("ans", [0]) == "ans"


def test_a_string_over_many_tokens_and_one_that_is_not_ascii_are_found(words):
    stop = stops.StopStrings(words, ("\n" * 30, "xé"))
    assert stop.cut(Completion([0, *[4] * 40], [0.0] * 41, "length")).token_ids == [0, *[4] * 30]
    assert stop.cut(Completion([5, 3, 5, 5], [0.0] * 4, "length")).token_ids == [5, 3, 5]


def test_a_row_that_is_followed_as_it_grows_ends_at_the_same_token(words):
    scan = stops.StopScan(stops.StopStrings(words, ("\n\n",)))
    assert scan.add("a", [0], 1) is None
    assert scan.add("a", [5, 5, 0, 3], 2) is None
    assert scan.add("b", [4, 4, 4], 3) == 2
    assert scan.add("a", [3, 1, 2, 3], 5) == 3
