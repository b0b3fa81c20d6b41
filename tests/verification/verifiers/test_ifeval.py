"""The ifeval verifier: which instructions a text follows, and which golds cannot be checked."""

import json
import sys

import pytest

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.verification.parsing import constraints, instructions

nltk = pytest.importorskip("nltk")
pytest.importorskip("lm_eval", reason="needs lm-eval")
pytest.importorskip("langdetect")


pytestmark = pytest.mark.usefixtures("punkt")


def verdict(gold, completion, extra=None, options=""):
    built = registry.build("verifiers", f"ifeval{options}")
    answer = gold if isinstance(gold, str) else json.dumps(gold)
    return built.judge(built.extract(completion, True), answer, extra or {})


def ifeval(*instructions):
    names, kwargs = zip(*instructions, strict=True)
    return {"instruction_id_list": list(names), "kwargs": list(kwargs)}


NUMBER = {"num_words": 3, "relation": "at least"}
GERMAN = "Das ist ein ganz einfacher Satz, den man auf Deutsch geschrieben hat."
ENGLISH = "this is a plain sentence that somebody wrote in english without any capitals"
ROWS = [  # each of IFEval's 25 with a text that follows it, and one that does not
    ("keywords:existence", {"keywords": ["sun", "moon"]}, "the Sun and Moon", "the sun"),
    (
        "keywords:frequency",
        {"keyword": "a.b", "frequency": 1, "relation": "at least"},
        "a.b",
        "axb",
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["bad"]}, "a badge", "so bad"),
    (
        "keywords:letter_frequency",
        {"letter": "z", "let_frequency": 2, "let_relation": "at least"},
        "zz",
        "z",
    ),
    ("language:response_language", {"language": "de"}, GERMAN, ENGLISH),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "less than"},
        "Here is Mr. Smith. He left.",
        "One. Two. Three.",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n\nb"),
    ("length_constraints:number_words", NUMBER, "one two three", "one two"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "well"},
        "a\n\nWell, b",
        "Well\n\nb",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 1}, "[name]", "name"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "a\nP.S. b", "a"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b", "* a"),
    ("detectable_format:constrained_response", {}, "My answer is yes.", "Yes."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*a b*", "a b"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\nSection 2\nb",
        "Section 1\na",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "a: 1"),
    ("detectable_format:title", {}, "<<A>>\nb", "A\nb"),
    ("combination:two_responses", {}, "a******b", "a******a"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, "Say it. So", "So"),
    ("startend:end_checker", {"end_phrase": "The end."}, "a. The end.", "The end. a"),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        "ONE word",
        "TWO WORDS",
    ),
    ("change_case:english_capital", {}, ENGLISH.upper(), ENGLISH),
    ("change_case:english_lowercase", {}, ENGLISH, ENGLISH.upper()),
    ("punctuation:no_comma", {}, "a; b", "a, b"),
    ("startend:quotation", {}, '"a"', "a"),
]


@pytest.mark.parametrize(("name", "kwargs", "follows", "ignores"), ROWS)
def test_an_instruction_is_followed_or_named(name, kwargs, follows, ignores):
    gold = ifeval((name, kwargs))
    right, wrong = verdict(gold, follows), verdict(gold, ignores)
    assert (right.status, right.reward, right.correct, right.reason) == ("ok", 1.0, True, None)
    assert (wrong.status, wrong.reward, wrong.correct) == ("ok", 0.0, False)
    assert wrong.reason == f"it does not follow {name}"


def test_the_table_has_each_instruction_that_lm_eval_knows():
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

    assert {name for name, *_ in ROWS} == set(INSTRUCTION_DICT)


def test_all_instructions_must_be_followed_or_a_share_is_paid():
    gold = ifeval(("punctuation:no_comma", {}), ("length_constraints:number_words", NUMBER))
    assert verdict(gold, "one two three").reward == 1.0
    assert verdict(gold, "one, two, three").reward == 0.0
    half = verdict(gold, "one, two, three", options=":credit=share")
    assert (half.reward, half.correct) == (0.5, False)


def test_loose_overlooks_a_first_line_and_asterisks():
    gold = ifeval(("startend:quotation", {}))
    text = 'Here you are:\n**"a"**'
    assert verdict(gold, text).reward == 0.0
    assert verdict(gold, text, options=":mode=loose").reward == 1.0


GOLDS = [
    ({"instruction_id": ["punctuation:no_comma"], "kwargs": [None]}, {}),  # IF_multi_constraints
    ("[{'instruction_id': ['punctuation:no_comma'], 'kwargs': [None]}]", {}),
    (json.dumps(['{"instruction_id": ["punctuation:no_comma"], "kwargs": [{}]}']), {}),
    ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"num_words": None}]}, {}),
    ({"instruction_id_list": ["punctuation:no_comma"]}, {}),
    ({"func_name": "validate_no_commas", "N": None, "quantifier": None}, {}),  # RLVR-IFeval
    ("none", {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}),
]


@pytest.mark.parametrize(("gold", "extra"), GOLDS)
def test_golds_are_read_as_data_sets_have_them(gold, extra):
    assert verdict(gold, "a b", extra).reward == 1.0
    assert verdict(gold, "a, b", extra).reward == 0.0


def test_numbers_that_became_floats_are_read():
    gold = ifeval(("length_constraints:number_words", {"num_words": 3.0, "relation": "at least"}))
    assert verdict(gold, "one two three").reward == 1.0


BAD_GOLDS = [
    ("", "it is no JSON object of instructions"),
    ("42", "it is no JSON object of instructions"),
    ("{}", "it has neither `func_name` nor a list `instruction_id_list`"),
    (ifeval(("count:conjunctions", {})), "`count:conjunctions` is no instruction that is known"),
    ({"func_name": "verify_nothing"}, "`verify_nothing` is no constraint that is known"),
    (
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]},
        "it has 1 instructions, and not as many `kwargs`",
    ),
    (  # lm-eval would draw them at random
        ifeval(("length_constraints:number_words", {"num_words": 3})),
        "`length_constraints:number_words` has no `relation`",
    ),
    (
        ifeval(("length_constraints:number_words", {"num_words": 3, "relation": "exactly"})),
        "`length_constraints:number_words`: ValueError",
    ),
    (ifeval(("punctuation:no_comma", {"x": 1})), "`punctuation:no_comma`: TypeError"),
    ({"func_name": "validate_word_constraint", "N": 3}, "`validate_word_constraint`: its `quant"),
    (
        {"func_name": "validate_word_constraint", "N": 3, "quantifier": "over"},
        "`validate_word_constraint`: the quantifier `over` is none of",
    ),
    ({"func_name": "validate_paragraphs", "N": 1, "i": 2, "first_word": "a"}, "`validate_parag"),
    ({"func_name": "validate_response_language"}, "`validate_response_language`: its `language`"),
]


@pytest.mark.parametrize(("gold", "reason"), BAD_GOLDS)
def test_a_gold_that_cannot_be_checked_is_bad_and_says_why(gold, reason):
    for completion in ("a text", ""):
        result = verdict(gold, completion)
        assert (result.status, result.reward) == ("bad_gold", None)
        assert result.reason.startswith(reason)


@pytest.mark.parametrize("completion", ["", " \n"])
def test_an_empty_text_follows_nothing(completion):
    result = verdict(ifeval(("punctuation:no_comma", {})), completion)
    assert (result.status, result.reward) == ("no_answer", 0.0)


@pytest.mark.parametrize(
    "gold",
    [
        ifeval(("language:response_language", {"language": "de"})),
        {"func_name": "validate_response_language", "language": "de"},
    ],
)
def test_a_text_of_no_language_is_in_none(gold):
    assert verdict(gold, "12345 !!").reward == 0.0
    assert verdict(gold, GERMAN).reward == 1.0


def test_the_language_of_a_text_is_the_same_each_time():
    gold = ifeval(("language:response_language", {"language": "en"}))
    assert len({verdict(gold, "Hello world").reward for _ in range(20)}) == 1


CONSTRAINTS = [  # each of RLVR-IFeval's with a text that follows it, and one that does not
    ("verify_keywords", {"keyword_list": ["Sun"]}, "the sun", "the moon"),
    (
        "verify_keyword_frequency",
        {"word": "ice cream", "N": 1},
        "Ice cream!",
        "ice cream ice cream",
    ),
    ("validate_forbidden_words", {"forbidden_words": ["bad"]}, "a badge", "Bad."),
    ("verify_letter_frequency", {"letter": "a", "N": 2}, "aAa", "aaa"),
    ("verify_paragraph_count", {"N": 2}, "a\n* * *\nb", "a\n* * *\n"),
    ("validate_word_constraint", {"N": 20, "quantifier": "around"}, "a " * 22, "a " * 23),
    (
        "verify_sentence_constraint",
        {"N": 2, "quantifier": "at most"},
        "One. Two!",
        "One. Two. Three?",
    ),
    ("validate_paragraphs", {"N": 2, "i": 2, "first_word": "So"}, "a\n\nSo b", "So\n\na"),
    ("verify_postscript", {"postscript_marker": "P.S."}, "a P.S. b", "a P.S."),
    ("validate_placeholders", {"N": 1}, "[name]", "[]"),
    ("verify_bullet_points", {"N": 1}, "* a\n**b**\n---", "a"),
    ("validate_title", {}, "<<a>>", "<<>>"),
    ("validate_choice", {"options": ["A", "B"]}, "It is A.", "Apple"),
    ("validate_highlighted_sections", {"N": 1}, "**a b**", "2 * 3 * 4 **"),
    ("validate_sections", {"N": 1, "section_splitter": "SECTION"}, "Hi\nSECTION 1", "Hi"),
    ("validate_json_format", {}, '{"a": 1}', '{"a": NaN}'),
    ("validate_repeat_prompt", {"original_prompt": "Say it."}, "Say it. So", "So"),
    ("validate_two_responses", {}, "a ****** b", "a ******"),
    ("validate_uppercase", {}, "A 1", "1 2"),
    ("validate_lowercase", {}, "a 1", "1 2"),
    ("validate_frequency_capital_words", {"N": 2, "quantifier": "at least"}, "AN OX", "AN ox"),
    ("validate_end", {"end_phrase": "Bye."}, "a. Bye.\n", "Bye. a"),
    ("validate_quotation", {}, '"a"', '"'),
    ("validate_no_commas", {}, "a", ","),
]


@pytest.mark.parametrize(("name", "arguments", "follows", "ignores"), CONSTRAINTS)
def test_a_constraint_is_followed_or_not(name, arguments, follows, ignores):
    gold = {"func_name": name, "N": None, "word": None} | arguments
    assert verdict(gold, follows).reward == 1.0
    assert verdict(gold, ignores).reward == 0.0


def test_the_table_has_each_constraint():
    assert {name for name, *_ in CONSTRAINTS} == set(constraints.CHECKS)


TRAINED = [  # each of IFBench-Train's with a text that follows it, and one that does not
    (
        "copy:repeat_phrase",
        {"phrase": "the old red car", "small_n": 2},
        "The new red car. The old blue car.",
        "The old red car. The new red car.",
    ),
    ("copy:copy", {"prompt_to_repeat": "Say it."}, " say it.\n", "Say it. It."),
    (
        "new:copy_span_idx",
        {"prompt_to_repeat": "Say it now", "n_start": 4, "n_end": 6},
        "it",
        "it now",
    ),
    ("copy:copying_simple", {"prompt_to_repeat": "Say it."}, "Say it.", "It."),
    ("copy:copying_multiple", {"prompt_to_repeat": "A b", "N": 2}, "A b\n******\nA b", "A b"),
    ("detectable_format:sentence_hyphens", {}, "It is so.-It was so.", "It is so. It was so."),
    ("detectable_format:square_brackets", {}, "[It] [is] [so].", "[It is] so"),
    ("detectable_format:bigram_wrapping", {}, "<<I am>> <<at home>>", "<<I am>> at home"),
    ("keywords:no_adjacent_consecutive", {}, "The dog Cat", "a big dog"),
    ("keywords:word_once", {"keyword": "art"}, "An art, the earth.", "Art for art"),
    (
        "keywords:word_count_different_numbers",
        {"keyword": "so", "frequency": 2, "relation": "at least"},
        "So, so",
        "so also",
    ),
    ("keywords:exclude_word_harder", {"keyword": "bad"}, "a badge", "It is bad."),
    ("keywords:palindrome", {}, "A level.", "I am a man"),
    (
        "keywords:keyword_specific_position",
        {"keyword": "sun", "n": 2, "m": 3},
        "Look. Here, the sun, shines.",
        "Look at the sun. Here it is.",
    ),
    ("keywords:start_end", {}, "Home is home", "Home is home."),
    ("paragraphs:paragraphs", {}, "a\n* * *\nb", "a\n***\n"),
    ("paragraphs:paragraphs2", {}, "a\n\nb\n", "a\n\nb\n\nc"),
    ("first_word:first_word_sent", {"first_word": "so"}, "So it is. So, so.", "So it is. It is."),
    ("first_word:first_word_answer", {"first_word": "so"}, "So, it is", "It is so"),
    ("last_word:last_word_sent", {"last_word": "so"}, "It is so. Was it so?", "It is so. It is."),
    ("last_word:last_word_answer", {"last_word": "so"}, "It is so!", "So it is"),
    ("punctuation:punctuation_dot", {}, "It is", "It is."),
    ("punctuation:punctuation_exclamation", {}, "It is.", "It is!"),
    ("count:lowercase_counting", {"N": 1}, "IT is", "it is"),
    (
        "count:counting_composition",
        {"n_sent": 2, "n_words": 3},
        "It is so. It was so.\n* * *\nIt, too, is. I see it.\n***\nSo it is. And you are.",
        "It is so. It was so.\n* * *\nIt is. I see.\n* * *\nSo it is. And you are.",
    ),
    ("count:count_unique", {}, "One. Two. Three, four, five.", "One and one."),
    (
        "count:count_increment_word",
        {"keyword1": "sun", "keyword2": "sea"},
        "sun, sea, sea, sunny",
        "sun and sea",
    ),
    ("letters:letter_counting", {"N": 3, "relation": "less than"}, "a b 1", "abc"),
    (
        "letters:letter_counting2",
        {"letter": "a", "let_frequency": 2, "let_relation": "at least"},
        "Aa",
        "a",
    ),
]


@pytest.mark.parametrize(("name", "kwargs", "follows", "ignores"), TRAINED)
def test_an_instruction_of_ifbench_train_is_followed_or_not(name, kwargs, follows, ignores):
    gold = {"instruction_id": [name], "kwargs": [kwargs]}
    assert verdict(gold, follows).reward == 1.0
    assert verdict(gold, ignores).reward == 0.0
    if kwargs:
        lacking = {"instruction_id": [name], "kwargs": [dict(list(kwargs.items())[1:])]}
        assert verdict(lacking, follows).status == "bad_gold"


def test_the_table_has_each_instruction_of_ifbench_train():
    assert {name for name, *_ in TRAINED} == set(instructions.CHECKS) and len(TRAINED) == 29


@pytest.mark.parametrize("text", ["12345", "...", "!", "\n \n.", "<<", "[", "***", "******"])
def test_a_text_of_signs_alone_ends_no_check_in_an_error(text):
    for name, kwargs, *_ in [*ROWS, *TRAINED]:
        assert verdict(ifeval((name, kwargs)), text).status == "ok"
    for name, arguments, *_ in CONSTRAINTS:
        assert verdict({"func_name": name} | arguments, text).status == "ok"


@pytest.mark.parametrize("name", ["lm_eval", "nltk"])
def test_a_package_that_is_missing_is_named_with_what_to_install(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"needs {name}") as refused:
        registry.build("verifiers", "ifeval")
    assert refused.value.hint == "pip install 'rlvr[ifeval]'"


def test_data_of_nltk_is_asked_for_and_never_downloaded(monkeypatch):
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(UsageError, match="punkt_tab of nltk") as refused:
        registry.build("verifiers", "ifeval")
    assert "python -m nltk.downloader punkt_tab" in refused.value.hint


def test_what_lm_eval_would_replace_by_a_draw_is_checked_or_a_bad_gold():
    letters = {"letter": "#", "let_frequency": 2, "let_relation": "at least"}
    gold = ifeval(("keywords:letter_frequency", letters))
    assert verdict(gold, "#one #two").correct and not verdict(gold, "#one a b c").correct
    gold = ifeval(("keywords:letter_frequency", letters | {"letter": "ab"}))
    assert "is no single letter" in verdict(gold, "ab").reason
    paragraphs = {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"}
    gold = ifeval(("length_constraints:nth_paragraph_first_word", paragraphs))
    assert {verdict(gold, "a\n\na").status for _ in range(20)} == {"bad_gold"}


def test_marks_of_sections_and_postscripts_are_no_patterns():
    sections = {"section_spliter": "**Part**", "num_sections": 1}
    gold = ifeval(("detectable_format:multiple_sections", sections))
    assert verdict(gold, "**Part** 1").correct and not verdict(gold, "Part 1").correct
    gold = ifeval(("detectable_content:postscript", {"postscript_marker": "N.B."}))
    assert verdict(gold, "a\nN.B. b").correct and not verdict(gold, "a\nnobody").correct
