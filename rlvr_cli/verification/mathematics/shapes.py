r"""How an answer is put together: lists, brackets, matrices, cases, `label = value`."""

import functools
import re
from dataclasses import dataclass

_OPENING, _CLOSING = "([{", ")]}"
_STEP = re.compile(
    r"\\begin\{[^{}]*\}|\\end\{[^{}]*\}|\\(?:langle|rangle|lfloor|rfloor|lceil|rceil)(?![a-zA-Z])"
    r"|\\[a-zA-Z]+|\\.|[()\[\]{}]|.",
    re.DOTALL,
)
_SEPARATOR = re.compile(
    r"\s*(?:[,;]|\\(?:lor|land|vee|wedge)(?![a-zA-Z])|\n)\s*(?:(?:\\text\s*\{)?\s*(?:and|or)\s*\}?(?![a-zA-Z]))?\s*"
    r"|\s*\\(?:text|mbox|textrm|mathrm)\s*\{\s*,?\s*(?:and|or|und|oder|et|ou|y|o)\s*\}\s*"
    r"|(?:\s+|(?<=[0-9})\]]))(?:and|or)(?:\s+|(?=[\\({\[0-9]))"
)
_GROUPS = re.compile(r"(?<![0-9.,])(?<![0-9], )[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?!,[0-9])")
_MATRIX = re.compile(
    r"\\begin\{([pbB]?(?:small)?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL
)
_CASES = re.compile(
    r"\\begin\{(cases|aligned|array|align\*?|gathered)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL
)
_EQUALS = re.compile(r"(?<![<>!\\:])[:]?=(?!=)|\\(?:equiv|coloneqq)(?![a-zA-Z])")
_NAME = (
    r"(?:\\(?:text|mathrm|textbf|mathbf|operatorname|overline|mathcal|mathbb|vec|hat|bar|tilde|mathit)\s*"
    r"\{[^{}]*\}|\\(?:angle|triangle|measuredangle|Delta|nabla|quad)\s*|\\[a-zA-Z]+(?![a-zA-Z{])|[a-zA-Z])"
)
_SUB = r"(?:\s*[_^]\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|[a-zA-Z0-9*']|\\[a-zA-Z]+))*'*"
_LABEL = re.compile(
    rf"\s*(?:\|?\s*(?:{_NAME}{_SUB}\s*:?\s*)+\|?\s*(?:[(\[][^()]*(?:\([^()]*\)[^()]*)*[)\]])?|\((?:\s*{_NAME}{_SUB}\s*,?)+\)"
    r"|\\[dt]?frac\s*\{\s*(?:d|\\partial)[^{}]*\}\s*\{\s*(?:d|\\partial)[^{}]*\})\s*"
)
_SUBSCRIPT = re.compile(r"_\{?([a-zA-Z0-9]+)\}?")


@dataclass(frozen=True)
class Listing:
    """Several values; `brackets` are those around them in one spelling, empty for none."""

    items: tuple[str, ...]
    brackets: str = ""


def _depths(text: str) -> list[int]:
    """How many brackets are open before each character."""
    depth, depths = 0, []
    for match in _STEP.finditer(text):
        token = match[0]
        opens = token in ("(", "[", "{", r"\{", r"\langle") or token.startswith(r"\begin")
        closes = token in (")", "]", "}", r"\}", r"\rangle") or token.startswith(r"\end")
        if closes:
            depth = max(0, depth - 1)
        depths += [depth + opens * (len(token) > 1)] * len(token) if opens else [depth] * len(token)
        if opens:
            depths[-len(token)] = depth
            depth += 1
    return depths


@functools.lru_cache(maxsize=4096)
def items(text: str, *, groups: bool = True) -> tuple[str, ...]:
    """The values that commas, semicolons, `and` or `or` separate outside of brackets.

    With `groups` a comma before three digits may be that of thousands.
    """
    if groups and _GROUPS.search(text):
        text = _GROUPS.sub(lambda match: match[0].replace(",", "{,}"), text)
    return parted(text, _SEPARATOR)


def parted(text: str, separator: re.Pattern[str]) -> tuple[str, ...]:
    """The non-empty parts between separators that are outside of brackets."""
    if not separator.search(text):
        return (text,)
    depths, parts, start = _depths(text), [], 0
    for match in separator.finditer(text):
        if depths[match.start()] == 0 and match.end() > match.start():
            parts.append(text[start : match.start()])
            start = match.end()
    parts.append(text[start:])
    return tuple(part.strip() for part in parts if part.strip())


@functools.lru_cache(maxsize=4096)
def listing(text: str) -> Listing:
    """The values of a text, without the brackets that are around all of them."""
    inside, brackets = without_brackets(text)
    if brackets:
        parts = items(inside, groups=", " in inside)
        if len(parts) > 1 or brackets in (r"\{", r"\langle", "["):
            return Listing(parts, brackets)
        return Listing((text,))
    return Listing(items(text))


_AROUND = {"(": ")", "[": "]", "{": "}", r"\{": r"\}", r"\langle": r"\rangle", "<": ">"}


def without_brackets(text: str) -> tuple[str, str]:
    """The text within brackets that enclose all of it, and the opening one; empty for none."""
    for opening, closing in _AROUND.items():
        if not (text.startswith(opening) and text.endswith(closing)):
            continue
        inside = text[len(opening) : len(text) - len(closing)]
        if opening == "<":
            return (inside.strip(), r"\langle") if "," in inside else (text, "")
        if closes_at_end(text):
            return inside.strip(), r"\{" if opening == "{" else opening
    return text, ""


def without_idle_brackets(text: str) -> str:
    """A text without round brackets that hold no list."""
    inside, brackets = without_brackets(text)
    return inside if brackets == "(" and len(items(inside, groups=False)) == 1 else text


def closes_at_end(text: str) -> bool:
    """Whether the bracket that opens a text closes at its end."""
    depth, last = 0, False
    for match in _STEP.finditer(text):
        token = match[0]
        if last:
            return False
        if token in ("(", "[", "{", r"\{", r"\langle"):
            depth += 1
        elif token in (")", "]", "}", r"\}", r"\rangle"):
            depth -= 1
            last = depth == 0
    return last


def matrix(text: str) -> tuple[str, tuple[tuple[str, ...], ...]] | None:
    """The name of a matrix's environment and its rows; None if the text is no matrix."""
    match = _MATRIX.fullmatch(text)
    if not match or r"\begin" in match[2]:
        return None
    rows = [row.strip() for row in re.split(r"\\\\(?:\[[^\]]*\])?|\\cr(?![a-z])", match[2])]
    cells = tuple(tuple(cell.strip() for cell in row.split("&")) for row in rows if row)
    return match[1], cells


def rows_of_cases(text: str) -> tuple[tuple[str, ...], ...] | None:
    """The rows of `cases` and their cells; None of a text that has none."""
    match = _CASES.search(text)
    if not match or match.end() < len(text.rstrip()):
        return None
    before, environment = text[: match.start()].strip(), match[1]
    if environment == "array" and not before.endswith(r"\{"):
        return None
    before = before.removesuffix(r"\{").strip()
    if before and not before.endswith("="):
        return None
    rows = [row.strip(" ,;.") for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2])]
    if environment not in ("cases", "array"):
        rows = [row.replace("&", "") for row in rows]
    return tuple(tuple(cell.strip(" ,;") for cell in row.split("&")) for row in rows if row)


@functools.lru_cache(maxsize=4096)
def sides(text: str) -> tuple[str, ...]:
    """What equals signs outside of brackets separate."""
    return parted(text, _EQUALS) if "=" in text or "equiv" in text else (text,)


def is_label(text: str) -> bool:
    """Whether a text names a value: `x`, `f(x)`, `V_{max}`, `(a, b)`, `\\angle ABC`."""
    return bool(_LABEL.fullmatch(text)) and "ldots" not in text


@functools.lru_cache(maxsize=4096)
def name_of(label: str) -> str:
    """A label in one spelling."""
    bare = re.sub(
        r"\\(?:text|mathrm|mathbf|operatorname|textbf|textit|mathit)\s*\{([^{}]*)\}", r"\1", label
    )
    bare = _SUBSCRIPT.sub(r"_\1", bare)
    return re.sub(r"[\s{}\\]", "", bare)


def labelled(text: str) -> tuple[str, str]:
    """The label and the value of a text; the label is empty where it has none."""
    parts = sides(text)
    if len(parts) < 2:
        return "", text
    if is_label(parts[0]):
        return name_of(parts[0]), parts[-1]
    if len(parts) > 2 and any(map(is_label, parts[:-1])):
        return "", parts[-1]
    if is_label(parts[-1]) and len(parts) == 2 and re.search("[0-9]", parts[0]):
        return name_of(parts[1]), parts[0]
    return "", text


def spread(text: str) -> str:
    """`(a, b) = (1, 2)` as `a=1, b=2`; any other text as it is."""
    parts = sides(text)
    if len(parts) != 2:
        return text
    (names, around), (values, brackets) = map(without_brackets, parts)
    labels, numbers = items(names), items(values, groups=False)
    if (
        around != "("
        or not brackets
        or len(labels) != len(numbers)
        or not all(map(is_label, labels))
    ):
        return text
    return ", ".join(f"{label}={number}" for label, number in zip(labels, numbers, strict=True))
