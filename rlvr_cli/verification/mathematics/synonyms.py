"""Words that mean the same as answers: "DNE" and "does not exist", "Mon" and "Monday"."""

import re

_SAME = {
    "dne": "does not exist", "doesn't exist": "does not exist", "not defined": "undefined",
    "divergent": "diverges", "convergent": "converges", "not possible": "impossible",
    "not enough information": "cannot be determined", "can't be determined": "cannot be determined",
    "insufficient information": "cannot be determined", "cannot determine": "cannot be determined",
    "not enough information to determine": "cannot be determined",
    "mon": "monday", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday", "thu": "thursday",
    "thur": "thursday", "thurs": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday",
} | {
    name: f"quadrant {number}"
    for number, roman, *ordinals in (
        ("1", "i", "first", "1st"), ("2", "ii", "second", "2nd"),
        ("3", "iii", "third", "3rd"), ("4", "iv", "fourth", "4th"),
    )
    for name in (f"quadrant {roman}", *(f"{ordinal} quadrant" for ordinal in ordinals))
}  # fmt: skip
_PAIRS = [  # each of two, though not of three: "undefined" is not "no solution"
    {"does not exist", r"\emptyset"},
    {"does not exist", "undefined"},
    {"impossible", r"\emptyset"},
]
_SUBJECT = re.compile(
    r"(?:(?:the|this|it|an?|infinite|improper|series|sequence|limit|sum|integral|function|value"
    r"|solution) ){1,3}(?=(?:does not exist|doesn't exist|diverges|converges)$)"
)
_ONLY = re.compile(
    r"only (?:option |choice |statement )?\(?([a-j])\)?(?: (?:satisf(?:ies|y)|works?|holds?|fits?"
    r"|qualifies|is (?:correct|true|right|valid|possible))"
    r"(?: (?:the|this|all|both|every)(?: [a-z]+)+)?)?"
    r"|(?:option |choice )?\(?([a-j])\)? only"
)
_TRIANGLE = re.compile(r"(isosceles|equilateral|scalene|acute|obtuse|right(?:-angled)?) triangle")
_NEITHER = re.compile(r"neither [a-z ]+ nor [a-z ]+")


def folded(words: str) -> str:
    """One of the words in small letters that mean the same; "only c works" is c."""
    words = _SUBJECT.sub("", words)
    if only := _ONLY.fullmatch(words):
        return only[1] or only[2]
    if triangle := _TRIANGLE.fullmatch(words):
        return triangle[1]
    return _SAME.get(words, words)


def are_two_of_a_kind(words: str, others: str) -> bool:
    """Whether two folded texts mean the same although neither is the usual form of the other."""
    if {words, others} in _PAIRS:
        return True
    return "neither" in (words, others) and bool(
        _NEITHER.fullmatch(words) or _NEITHER.fullmatch(others)
    )
