"""Texts of models as HTML: Markdown, formulas as MathML, code with colours.

What a model wrote is hostile: HTML in it is text, links and images stay the text they are, and of
a formula only known elements and attributes of MathML pass.
"""

import functools
import re
from typing import Any
from xml.etree import ElementTree

from rlvr_cli.report import code

MOST_FORMULA = 2000  # characters; a longer one stays text
_MARKED = re.compile(r"[\\$*_`#|>~]|^[ \t]*(?:[-+]|\d+[.)])\s|\n\s*\n", re.M)
_ELEMENTS = {
    "math", "mfrac", "mi", "mn", "mo", "mover", "mpadded", "mphantom", "mroot", "mrow", "ms",
    "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr",
    "munder", "munderover", "menclose",
}  # fmt: skip
_ATTRIBUTES = {
    "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display",
    "displaystyle", "fence", "form", "height", "linethickness", "lspace", "mathvariant",
    "maxsize", "minsize", "movablelimits", "notation", "rowlines", "rowspacing", "rspace",
    "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width",
}  # fmt: skip
_VALUE = re.compile(r"[\w .%+-]{0,60}")


def available() -> bool:
    """Whether formulas can be set."""
    return _converter() is not None


def typeset(text: str) -> str | None:
    """The text as HTML; None where it is plain, so that the text itself says as much.

    `text` has its control characters made visible already (terminal.escape.shown).
    """
    if code.is_program(text):
        return code.highlighted(text, "python")
    return str(_markdown().render(text)) if _MARKED.search(text) else None


def paragraphs(text: str) -> str:
    """A plain text as HTML."""
    return f"<p>{code.escaped(text)}</p>" if text else ""


@functools.cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    # Indented lines are no code here: models indent formulas and the lines of a list.
    markdown.disable(
        ["link", "image", "autolink", "reference", "html_inline", "html_block", "code"]
    )
    markdown.inline.ruler.before("escape", "formula", _inline_rule)
    markdown.block.ruler.before(
        "fence", "display", _block_rule, {"alt": ["paragraph", "blockquote", "list"]}
    )
    markdown.add_render_rule("formula", _render_formula)
    markdown.add_render_rule("fence", _render_fence)
    # Headings of a completion are none of the page.
    markdown.add_render_rule("heading_open", lambda *_: '<p class="heading">')
    markdown.add_render_rule("heading_close", lambda *_: "</p>\n")
    return markdown


# Opening, closing, and whether the formula is displayed; an environment keeps its delimiters.
_DELIMITERS = (("$$", "$$", True), ("\\[", "\\]", True), ("\\(", "\\)", False), ("$", "$", False))
_BEGIN = re.compile(r"\\begin\{((?:align|aligned|equation|gather|cases|array|[bpvBV]?matrix)\*?)\}")


def _formula_at(source: str, at: int, end: int) -> tuple[str, int, bool] | None:
    """The formula that begins at a place, where it ends, and whether it is displayed."""
    if begin := _BEGIN.match(source, at, end):
        closing = f"\\end{{{begin[1]}}}"
        close = source.find(closing, begin.end(), min(end, at + MOST_FORMULA))
        stop = close + len(closing)
        return (source[at:stop], stop, True) if close >= 0 else None
    for opening, closing, displayed in _DELIMITERS:
        if source.startswith(opening, at, end):
            start = at + len(opening)
            close = source.find(closing, start, min(end, start + MOST_FORMULA))
            if close <= start or (opening == "$" and not _is_dollar_pair(source, start, close)):
                return None
            return source[start:close], close + len(closing), displayed
    return None


def _is_dollar_pair(source: str, start: int, close: int) -> bool:
    """Whether two dollars enclose a formula: `$5 and $6` are prices (the rule of pandoc)."""
    inside = source[start:close]
    after = source[close + 1 : close + 2]
    return not (inside[0].isspace() or inside[-1].isspace() or after.isdigit() or "\n\n" in inside)


def _inline_rule(state: Any, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$":
        return False
    formula = _formula_at(state.src, state.pos, state.posMax)
    if formula is None:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.meta = formula[0], {"displayed": formula[2]}
        token.markup = state.src[state.pos : formula[1]]
    state.pos = formula[1]
    return True


def _block_rule(state: Any, start_line: int, end_line: int, silent: bool) -> bool:
    """A displayed formula that has its lines for itself, whatever these lines begin with."""
    start = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith(("\\[", "$$", "\\begin{"), start):
        return False
    formula = _formula_at(state.src, start, state.eMarks[end_line - 1])
    if formula is None:
        return False
    line = next(n for n in range(start_line, end_line) if formula[1] <= state.eMarks[n])
    if state.src[formula[1] : state.eMarks[line]].strip(" .,;"):
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.meta = formula[0], {"displayed": True}
        token.markup = state.src[start : state.eMarks[line]]
        token.block, token.map = True, [start_line, line + 1]
        state.line = line + 1
    return True


def _render_formula(_: Any, tokens: Any, index: int, *rest: Any) -> str:
    token = tokens[index]
    html = mathml(token.content, token.meta["displayed"])
    return html or f"<code>{code.escaped(token.markup)}</code>"


def _render_fence(_: Any, tokens: Any, index: int, *rest: Any) -> str:
    token = tokens[index]
    return code.highlighted(token.content, token.info.strip().partition(" ")[0].lower())


@functools.lru_cache(maxsize=1 << 16)
def mathml(latex: str, displayed: bool) -> str | None:
    """A formula as MathML; None if it cannot be typeset or may hold unsafe markup."""
    converter = _converter()
    if converter is None or len(latex) > MOST_FORMULA:
        return None
    try:
        html = converter(latex.strip(), display="block" if displayed else "inline")
        root = ElementTree.fromstring(
            html.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
        )
    except Exception:  # a third party's parser of hostile input: whatever it raises, text remains
        return None
    for element in root.iter():
        if element.tag not in _ELEMENTS:
            return None
        for name, value in list(element.attrib.items()):
            if name not in _ATTRIBUTES or not _VALUE.fullmatch(value):
                del element.attrib[name]
    return ElementTree.tostring(root, encoding="unicode")


@functools.cache
def _converter() -> Any:
    try:
        from latex2mathml.converter import convert
    except ImportError:
        return None
    return convert
