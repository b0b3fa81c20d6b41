"""SQL as text: the query that a completion gives, its statements, and what ORDER BY it has.

A query is in a tag (`<answer>`, `<sql>`), in JSON, in the last fenced block that begins as one,
in inline code, on lines of its own, or it is the completion. What follows it (prose, results, a
second question) is left out.
"""

import itertools
import json
import re
from collections.abc import Iterator

from rlvr_cli.verification.parsing import boxed

_MOST = 20_000  # characters of a query
_SQL = {"sql", "sqlite", "sqlite3", "postgresql", "postgres", "psql", "mysql", "tsql", "plsql",
        "duckdb", "bigquery", "snowflake"}  # fmt: skip
_FENCE = re.compile(r"^[ \t>]*(```+|~~~+)[ \t]*([\w+-]*)(.*)$", re.MULTILINE)
_TAG = re.compile(r"<(answer|sql|query|final_answer)>", re.IGNORECASE)
_FIELD = re.compile(
    r'"(?:sql|query|sql_query|answer|final_sql)"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.)*")', re.I
)
_COMMENT = r"(?>(?:\s|--[^\n]*(?:\n|\Z)|/\*.{0,2000}?\*/)*)"
_NAME = r"(?:\w+|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])"
_QUERY = (
    rf"(?:SELECT\b(?![ \t]+(?:the|all[ \t]+the|from[ \t]+the)\b)|VALUES\s*\("
    rf"|WITH\s+(?:RECURSIVE\s+)?{_NAME}\s*(?:\([^()]*\)\s*)?AS\s+(?:NOT\s+)?(?:MATERIALIZED\s*)?\()"
)
_FURTHER = re.compile(
    r"[ \t]*\n?[ \t]*(?:(?:DROP|DELETE|INSERT|UPDATE|CREATE|ALTER|ATTACH|PRAGMA|REPLACE)[ \t]+\w"
    rf"|{_QUERY})",
    re.IGNORECASE,
)
_START = re.compile(_COMMENT + r"\(?[ \t\n]{0,20}" + _QUERY, re.IGNORECASE | re.DOTALL)
_LINE = re.compile(
    rf"^[ \t>*-]{{0,8}}(?:\d{{1,2}}[.)][ \t])?(?=(?:{_QUERY}))", re.IGNORECASE | re.MULTILINE
)
_COLON = re.compile(rf"(?<=:)[ \t]{{0,4}}[*_`]{{0,2}}(?=(?:{_QUERY}))", re.IGNORECASE)
_INLINE = re.compile(rf"(?<!`)`(?=\s?(?:{_QUERY}))([^`]+)`(?!`)", re.IGNORECASE)
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]\n]*\]|--[^\n]*|/\*.*?\*/|[();]|\w+|\n",
    re.DOTALL,
)
_TERM = re.compile(rf"{_TOKEN.pattern}|,", re.DOTALL)
_DIRECTION = re.compile(r"(?:\s+(?:ASC|DESC|NULLS\s+(?:FIRST|LAST)))+\s*\Z", re.IGNORECASE)
_CLAUSE = re.compile(
    r"[ \t]*(?:(?:FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|OFFSET|UNION|INTERSECT|EXCEPT|JOIN|LEFT|"
    r"RIGHT|INNER|OUTER|CROSS|NATURAL|FULL|ON|USING|AND|OR|NOT|AS|CASE|WHEN|THEN|ELSE|END|IN|IS|LIKE|"
    r"BETWEEN|WINDOW|VALUES|DESC|ASC|NULLS|COLLATE|GLOB|EXISTS)\b|[,()=<>+*/%'\"`\[]|\|\||--|/\*|-\s)",
    re.IGNORECASE,
)
_OPEN_END = re.compile(
    r"(?:[,(=<>+*/|-]|\b(?:SELECT|DISTINCT|FROM|WHERE|BY|HAVING|LIMIT|OFFSET|UNION|ALL|INTERSECT|"
    r"EXCEPT|JOIN|ON|AND|OR|NOT|AS|CASE|WHEN|THEN|ELSE|IN|IS|LIKE|BETWEEN|VALUES|WITH))\s*\Z",
    re.IGNORECASE,
)


def of(completion: str) -> str | None:
    """The query that a completion gives; None if it gives none.

    Where one block holds several statements they are all returned: see `statements`.
    """
    for tag in list(_TAG.finditer(completion))[-1:]:
        inside = completion[tag.end() :].partition(f"</{tag[1]}>")[0]
        if query := of_plain(inside):
            return query
    box = boxed.last_box(completion) if "\\boxed" in completion else None
    return (box and of_plain(box)) or of_plain(completion)


def of_plain(text: str) -> str | None:
    """The query of a text without tags."""
    text = _fenced(text) or _field(text) or _loose(text) or ""
    return text.strip().rstrip(";").strip() or None if len(text) <= _MOST else None


def _fenced(text: str) -> str | None:
    """The last fenced block that begins as a query, else the last one that says it is SQL."""
    named = None
    for language, block in reversed(list(_blocks(text))):
        block = (_field(block) or block) if language == "json" else block
        if _START.match(block) and language != "python":
            return block
        if language in _SQL and block.strip():
            named = named or block
    return named


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The language and the content of each fenced block; the last one may have no end."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        mark, language, rest = fence[1], fence[2], fence[3]
        if opened is None:
            inside, closed, _ = rest.partition(mark)
            if closed:  # all on one line
                yield (
                    (language.lower(), inside)
                    if language.lower() in _SQL
                    else ("", language + inside)
                )
            else:
                opened = fence
        elif fence[0].strip(" \t>") == fence[1] and mark.startswith(opened[1]):
            yield opened[2].lower(), _inside(text, opened, fence.start())
            opened = None
    if opened:
        yield opened[2].lower(), _inside(text, opened, len(text))


def _inside(text: str, opened: re.Match[str], end: int) -> str:
    """The content of a block, with the text after its opening mark if that is no attribute."""
    rest = opened[3] if _START.match(opened[3]) else ""
    content = rest + text[opened.end() : end]
    return content.partition(opened[1])[0]  # a mark that ends its last line


def _field(text: str) -> str | None:
    """The query in a JSON field."""
    for quoted in reversed(_FIELD.findall(text)[-20:]):
        try:
            value = json.loads(quoted, strict=False)
        except (ValueError, RecursionError):
            continue
        if _START.match(value):
            return str(value)
    return None


def _loose(text: str) -> str | None:
    """The query that a text begins with, or the last one in inline code or on lines of its own."""
    if _START.match(text):
        return _statement(text)
    places = [match.end() for pattern in (_LINE, _COLON) for match in pattern.finditer(text)]
    inline = list(_INLINE.finditer(text))[-1:]
    if inline and inline[0].end() > max(places, default=0):
        return inline[0][1]
    return _statement(text[max(places) :]) if places else None


def _statement(text: str) -> str:
    """The statement that a text begins with, and others that follow in the same paragraph.

    It ends with a semicolon, or with the line after which no clause continues.
    """
    depth, end, seen = 0, len(text), False
    for token in _TOKEN.finditer(text):
        mark = token[0]
        depth += (mark == "(") - (mark == ")")
        seen = seen or mark[:2] not in ("--", "/*", "\n")
        if mark == ";" and not _FURTHER.match(text, token.end(), token.end() + 400):
            end = token.start()
            break
        if mark == "\n" and seen and depth <= 0 and not _goes_on(text, token):
            end = token.start()
            break
    statement = re.sub(r"\*{2}\s*\Z", "", text[:end])
    return statement.rstrip().removesuffix("`") if statement.count("`") % 2 else statement


def _goes_on(text: str, newline: re.Match[str]) -> bool:
    """Whether the line after a line's end belongs to the same query."""
    before, after = (
        text[max(0, newline.start() - 40) : newline.start()],
        text[newline.end() :][:400],
    )
    if _OPEN_END.search(before) or re.search(r";[ \t]*\Z", before):
        return True
    return bool(_CLAUSE.match(after.lstrip()))


def statements(text: str) -> list[str]:
    """The statements of a text, without those that are only comments."""
    parts, start, is_empty = [], 0, True
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            parts += [] if is_empty else [text[start : token.start()].strip()]
            start, is_empty = token.end(), True
        elif token[0][:2] not in ("--", "/*") and token[0] != "\n":
            is_empty = False
    return parts if is_empty else [*parts, text[start:].strip()]


def is_ordered(query: str) -> bool:
    """Whether ORDER BY is outside all parentheses, strings and comments."""
    depth, before = 0, ""
    for token in _TOKEN.findall(query):
        word = token.upper()
        depth += (word == "(") - (word == ")")
        if depth == 0 and (before, word) == ("ORDER", "BY"):
            return True
        before = before if word == "\n" or word[:2] in ("--", "/*") else word
    return False


def order_terms(query: str) -> tuple[list[str], int | None]:
    """The terms of the ORDER BY outside all parentheses, and where the FROM of its SELECT begins.

    The place is None where a column cannot be added in front of it: in a compound or DISTINCT.
    """
    depth, begin, at, before, marks = 0, 0, None, "", []
    words = []
    for token in _TERM.finditer(query):
        word = token[0].upper()
        depth += (word == "(") - (word == ")")
        if depth or word == ")" or word[:2] in ("--", "/*"):
            continue
        words.append(word)
        at = token.start() if word == "FROM" and at is None else at
        if (before, word) == ("ORDER", "BY"):
            begin, marks = token.end(), [token.end()]
        elif begin and word in (",", "LIMIT"):
            marks += [token.start()]
            begin = 0 if word == "LIMIT" else begin
        before = word
    if begin:
        marks.append(len(query))
    terms = [query[start:end].strip(", \n\t;") for start, end in itertools.pairwise(marks)]
    is_single = not {"UNION", "INTERSECT", "EXCEPT", "DISTINCT"} & {*words}
    return [_DIRECTION.sub("", term).strip() for term in terms], at if is_single else None


def without_distinct(query: str) -> str:
    """The query without the word DISTINCT outside strings and comments."""
    return _TOKEN.sub(lambda token: "" if token[0].upper() == "DISTINCT" else token[0], query)
