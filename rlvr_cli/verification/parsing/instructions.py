"""IFBench-Train's 29 instructions, as open-instruct and IF_multi_constraints name them.

No package has them. They check what the instruction says: words are words and no parts of others,
without the punctuation around them, and nothing is followed by a text that does not show it.
"""

import itertools
import re
from collections import Counter

from rlvr_cli.verification.parsing import sentences
from rlvr_cli.verification.parsing.constraints import Check, word_pattern

_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_DIVIDER = re.compile(r"\*[ \t]?\*[ \t]?\*")
_LOWER = re.compile(r"\b[a-z]+\b")
_PALINDROME_LENGTH = 3  # letters, as `a` and `I` are none that anybody asked for


def _words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [word.lower() for word in _WORD.findall(text)]


def _count(text: str, keyword: str) -> int:
    return len(word_pattern(keyword).findall(text))


def _related(count: int, number: int, relation: str) -> bool:
    known = {"at least": count >= number, "less than": count < number}
    if relation not in known:
        raise ValueError(f"the relation `{relation}` is none of {', '.join(known)}")
    return known[relation]


def _same(text: str, other: str) -> bool:
    return text.strip().lower() == other.strip().lower()


def _repeat_phrase(text: str, phrase: str, small_n: int) -> bool:
    """The phrase occurs so many times with one of its inner words replaced."""
    wanted, given = _words(phrase), _words(text)
    size, count = len(wanted), 0
    for start in range(len(given) - size + 1):
        window = given[start : start + size]
        if window[0] == wanted[0] and window[-1] == wanted[-1]:
            count += sum(a != b for a, b in zip(window, wanted, strict=True)) == 1
    return size > 2 and count == small_n


def _copy_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    """A span by its characters; whether the last one belongs to it, data sets do not agree."""
    return any(_same(text, prompt_to_repeat[n_start:end]) for end in (n_end, n_end + 1))


def _copying_multiple(text: str, prompt_to_repeat: str, N: int) -> bool:
    pieces = text.split("******")
    return len(pieces) == N and all(_same(piece, prompt_to_repeat) for piece in pieces)


def _sentence_hyphens(text: str) -> bool:
    pieces = re.split(r"(?<=[.!?])-(?=\S)", text.strip())
    return all(piece == piece.strip() and len(sentences.split(piece)) == 1 for piece in pieces)


def _no_consecutive(text: str) -> bool:
    """No two words next to each other begin with letters next to each other."""
    firsts = [ord(word[0]) for word in _words(text)]
    pairs = itertools.pairwise(firsts)
    return bool(firsts) and not any(chr(a).isalpha() and b - a == 1 for a, b in pairs)


def _square_brackets(text: str) -> bool:
    return all(re.fullmatch(r"\[[^\[\]]+\][.,!?;:]?", word) for word in text.split())


def _bigrams(text: str) -> bool:
    words = text.split()
    pairs = [words[i : i + 2] for i in range(0, len(words), 2)]
    return all(
        pair[0].startswith("<<") and pair[-1].rstrip(".,!?").endswith(">>") for pair in pairs
    )


def _two_paragraphs(pieces: list[str]) -> bool:
    if len(pieces) > 2 and not pieces[0].strip():
        pieces = pieces[1:]
    if len(pieces) > 2 and not pieces[-1].strip():
        pieces = pieces[:-1]
    return len(pieces) == 2 and all(piece.strip() for piece in pieces)


def _wanted(word: str) -> list[str]:
    if not (words := _words(word)):
        raise ValueError(f"`{word[:60]}` is no word")
    return words


def _first_word(text: str, first_word: str) -> bool:
    wanted = _wanted(first_word)
    return _words(text)[: len(wanted)] == wanted


def _last_word(text: str, last_word: str) -> bool:
    wanted = _wanted(last_word)
    return _words(text)[-len(wanted) :] == wanted


def _each_sentence(text: str, word: str, check: Check) -> bool:
    pieces = sentences.split(text)
    return bool(pieces) and all(check(piece, word) for piece in pieces)


def _first_words(text: str, first_word: str) -> bool:
    return _each_sentence(text, first_word, _first_word)


def _last_words(text: str, last_word: str) -> bool:
    return _each_sentence(text, last_word, _last_word)


def _composition(text: str, n_sent: int, n_words: int) -> bool:
    """Three paragraphs of so many sentences of so many words."""
    pieces = [sentences.split(piece) for piece in _DIVIDER.split(text) if piece.strip()]
    return len(pieces) == 3 and all(
        len(piece) == n_sent and all(len(_words(sentence)) == n_words for sentence in piece)
        for piece in pieces
    )


def _unique_words(text: str) -> bool:
    return max(Counter(_words(text)).values(), default=2) == 1


def _palindrome(text: str) -> bool:
    words = (word for word in _words(text) if len(word) >= _PALINDROME_LENGTH)
    return any(word == word[::-1] and word.isalpha() for word in words)


def _position(text: str, keyword: str, n: int, m: int) -> bool:
    if n < 1 or m < 1:
        raise ValueError(f"there is no word {m} of a sentence {n}")
    pieces, wanted = sentences.split(text), _wanted(keyword)
    words = _words(pieces[n - 1]) if len(pieces) >= n else []
    return words[m - 1 : m - 1 + len(wanted)] == wanted


def _start_end(text: str) -> bool:
    words = _words(text)
    return len(words) > 1 and words[0] == words[-1] and text.strip()[-1:].isalnum()


def _keyword_frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    return _related(_count(text, keyword), frequency, relation)


def _letter_frequency(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    if len(letter) != 1:
        raise ValueError(f"the letter `{letter[:60]}` is no single letter")
    return _related(text.lower().count(letter.lower()), let_frequency, let_relation)


def _letters(text: str, N: int, relation: str) -> bool:
    return _related(sum(map(str.isalpha, text)), N, relation)


def _copy(text: str, prompt_to_repeat: str) -> bool:
    return _same(text, prompt_to_repeat)


def _once(text: str, keyword: str) -> bool:
    return _count(text, keyword) == 1


def _without(text: str, keyword: str) -> bool:
    return _count(text, keyword) == 0


def _once_and_twice(text: str, keyword1: str, keyword2: str) -> bool:
    return (_count(text, keyword1), _count(text, keyword2)) == (1, 2)


def _few_lowercase(text: str, N: int) -> bool:
    return len(_LOWER.findall(text)) <= N


CHECKS: dict[str, Check] = {
    "copy:repeat_phrase": _repeat_phrase,
    "copy:copy": _copy,
    "new:copy_span_idx": _copy_span,
    "copy:copying_simple": _copy,
    "copy:copying_multiple": _copying_multiple,
    "detectable_format:sentence_hyphens": _sentence_hyphens,
    "detectable_format:square_brackets": _square_brackets,
    "detectable_format:bigram_wrapping": _bigrams,
    "keywords:no_adjacent_consecutive": _no_consecutive,
    "keywords:word_once": _once,
    "keywords:word_count_different_numbers": _keyword_frequency,
    "keywords:exclude_word_harder": _without,
    "keywords:palindrome": _palindrome,
    "keywords:keyword_specific_position": _position,
    "keywords:start_end": _start_end,
    "paragraphs:paragraphs": lambda text: _two_paragraphs(_DIVIDER.split(text)),
    "paragraphs:paragraphs2": lambda text: _two_paragraphs(re.split(r"\n[ \t]*\n\s*", text)),
    "first_word:first_word_sent": _first_words,
    "first_word:first_word_answer": _first_word,
    "last_word:last_word_sent": _last_words,
    "last_word:last_word_answer": _last_word,
    "punctuation:punctuation_dot": lambda text: "." not in text,
    "punctuation:punctuation_exclamation": lambda text: "!" not in text,
    "count:lowercase_counting": _few_lowercase,
    "count:counting_composition": _composition,
    "count:count_unique": _unique_words,
    "count:count_increment_word": _once_and_twice,
    "letters:letter_counting": _letters,
    "letters:letter_counting2": _letter_frequency,
}
"""By name, each called with the text and its arguments."""
