"""Programs as HTML with colours."""

import functools
import html
import re
from typing import Any

# What a completion may name after its fence; lexers of other names are not looked for, because
# some of them take quadratic time.
_LEXERS = {
    "": "python", "py": "python", "python": "python", "python3": "python", "c": "c", "cpp": "cpp",
    "c++": "cpp", "java": "java", "javascript": "javascript", "js": "javascript",
    "typescript": "typescript", "ts": "typescript", "sql": "sql", "bash": "bash", "sh": "bash",
    "shell": "bash", "json": "json", "go": "go", "rust": "rust",
}  # fmt: skip
_LINE_OF_CODE = re.compile(
    r"\s+\S|(?:async |await )?(?:def|class|import|from|for|while|if|elif|else|return|try|except|"
    r"finally|with|print|raise|assert|pass)\b|[@#)\]}]|[\w.]+(?:\[.*\])? ?[-+*/|&]?= ?\S"
)
_MOST = 20_000  # characters that are coloured


def is_program(text: str) -> bool:
    """Whether nearly all lines of a text read as a program's: a body of HumanEval has no fence."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 1 + (not text[:1].isspace()) or "```" in text or "\\[" in text:
        return False
    of_code = sum(1 for line in lines if _LINE_OF_CODE.match(line))
    opened = any(re.search(r"[:({\[]\s*$|\breturn\b|\w\(", line) for line in lines)
    return opened and of_code >= 0.9 * len(lines)


def highlighted(text: str, language: str) -> str:
    """A program in a `pre`; without colours where the language is not known or it is long."""
    lexer = _lexer(_LEXERS[language]) if language in _LEXERS and len(text) <= _MOST else None
    if lexer is None:
        return f'<pre class="program">{escaped(text)}</pre>'
    return f'<pre class="program">{"".join(_spans(lexer, text))}</pre>'


def escaped(text: str) -> str:
    return html.escape(text)


def _spans(lexer: Any, text: str) -> Any:
    from pygments.token import Comment, Keyword, Name, Number, String

    kinds = (
        (Comment, "c"), (Keyword, "k"), (String, "s"), (Number, "m"),
        (Name.Function, "f"), (Name.Class, "f"), (Name.Builtin, "b"), (Name.Decorator, "b"),
    )  # fmt: skip
    for token, piece in lexer.get_tokens(text):
        kind = next((short for parent, short in kinds if token in parent), None)
        yield f'<span class="{kind}">{escaped(piece)}</span>' if kind else escaped(piece)


@functools.cache
def _lexer(name: str) -> Any:
    try:
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return None
    return get_lexer_by_name(name, stripnl=False, ensurenl=False)
