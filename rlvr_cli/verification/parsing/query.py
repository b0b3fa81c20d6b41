"""SQL as text: the query that a completion ends with, and whether its rows are in order."""

import re

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
_START = re.compile(r"\s*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/|[()]|\w+", re.DOTALL
)
_MOST = 20_000  # characters of a query


def of(completion: str) -> str | None:
    """The last fenced block, or the completion if it begins as a query."""
    blocks = _FENCE.findall(completion) if "```" in completion else []
    text = blocks[-1] if blocks else completion
    if len(text) > _MOST or not (blocks or _START.match(text)):
        return None
    return text.strip().rstrip(";").strip() or None


def is_ordered(query: str) -> bool:
    """Whether ORDER BY stands outside all parentheses, strings and comments."""
    depth, before = 0, ""
    for token in _TOKEN.findall(query):
        word = token.upper()
        depth += (word == "(") - (word == ")")
        if depth == 0 and (before, word) == ("ORDER", "BY"):
            return True
        before = word
    return False
