import sys
from html.parser import HTMLParser

import hypothesis
import pytest
from hypothesis import strategies as st

from rlvr_cli.report import code, typeset
from rlvr_cli.terminal.escape import shown

SAFE = {
    "p", "br", "strong", "em", "code", "pre", "span", "ul", "ol", "li", "blockquote", "hr",
    "table", "thead", "tbody", "tr", "th", "td", *typeset._ELEMENTS,
}  # fmt: skip
SAFE_ATTRIBUTES = {"class", "style", "start", *typeset._ATTRIBUTES}
HOSTILE = [
    "<script>alert(1)</script> **x**",
    "</script><script>alert(1)</script>\n\n# x",
    "**<img src=x onerror=alert(1)>**",
    "[x](javascript:alert(1)) `a`",
    "[x](https://example.com) and <https://example.com> and https://example.com/`a`",
    "![x](https://example.com/a.png) `a`",
    "[x]: javascript:alert(1)\n\n[x] and **b**",
    "<a href='javascript:alert(1)'>x</a>\n\n<div onclick=alert(1)>",
    "$\\href{javascript:alert(1)}{x}$",
    "$\\text{<img src=x onerror=alert(1)>}$",
    "$\\text{&lt;img src=x onerror=alert(1)&gt;}$",
    "$\\style{background:url(https://example.com)}{x}$ $\\class{a}{x}$ $\\id{a}{x}$",
    "$\\color{url(https://example.com)}{x}$ $\\mathchoice{<script>}{b}{c}{d}$",
    "$\\begin{array}{c\" onload=\"alert(1)}x\\end{array}$",
    "```<script>alert(1)</script>\nx\n```",
    "```html\n<script>alert(1)</script>\n```",
    "```python\nx = '</pre><script>alert(1)</script>'\n```",
    "| <script> | b |\n|---|:-:|\n| <img onerror=x> | d |",
    "    <script>alert(1)</script>\n    return 1\n",
    "a\x00b **\u202ereversed** \u2066 \x1b[31m",
    "$" * 2000, "\\[" * 2000, "*" * 3000, "_" * 3000, "[" * 3000, "`" * 3001, "> " * 1500,
    "- " * 1500, "{" * 1999, "$" + "{" * 1900 + "$", "$" + "\\frac" * 300 + "$", "|" * 3000,
    "\\begin{align}" * 200, "1. " * 900, "```\n" * 900, "&#x3c;script&#x3e; **x**",
]  # fmt: skip


class Elements(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def is_safe(html):
    for tag, attributes in Elements(html).found:
        assert tag in SAFE, (tag, html)
        assert set(attributes) <= SAFE_ATTRIBUTES, (attributes, html)
        if "style" in attributes:
            assert attributes["style"].startswith("text-align:"), html
        assert not any("url" in (value or "") for value in attributes.values())
    return True


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_an_element_that_acts_or_loads(text):
    made = typeset.typeset(shown(text))
    assert made is None or is_safe(made)


@hypothesis.given(st.lists(st.sampled_from([*HOSTILE[:18], "\n\n", "- ", "> ", "$", "\\(", "\\)",
                                            "```", "|", "\n", "x"]), max_size=8))  # fmt: skip
@hypothesis.settings(max_examples=60)
def test_no_mixture_of_them_does(parts):
    made = typeset.typeset(shown("".join(parts)))
    assert made is None or is_safe(made)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**so** and *so*", "<p><strong>so</strong> and <em>so</em></p>"),
        ("# Title\n\ntext", '<p class="heading">Title</p>\n<p>text</p>'),
        ("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"),
        ("one\n\ntwo", "<p>one</p>\n<p>two</p>"),
        ("a `b < c` d", "<p>a <code>b &lt; c</code> d</p>"),
        ("I had $5 and got $6", "<p>I had $5 and got $6</p>"),
        ("[x](https://a.b) `c`", "<p>[x](https://a.b) <code>c</code></p>"),
        ("- a\n\n      indented", "<ul>\n<li>\n<p>a</p>\n<p>indented</p>\n</li>\n</ul>"),
    ],
)
def test_markdown_is_set(text, expected):
    assert typeset.typeset(text).strip() == expected


@pytest.mark.parametrize("text", ["42", "The answer is 42.", "", "a < b & c"])
def test_a_plain_text_stays_what_it_is(text):
    assert typeset.typeset(text) is None


@pytest.mark.parametrize(
    ("text", "expected", "displayed"),
    [
        ("so \\(x + 1\\).", "x+1", False),
        ("so $x^2$.", "x2", False),
        ("so\n\\[\n- x\n= 3\n\\]\nthen", "−x=3", True),
        ("$$\\frac{1}{2}$$", "12", True),
        ("1. First:\n   \\[ y \\]\n2. Then", "y", True),
        ("\\begin{align*}\na &= b \\\\\nc &= d\n\\end{align*}", "a=bc=d", True),
        ("\\(\\boxed{420}\\)", "420", False),
    ],
)
def test_formulas_become_mathml(text, expected, displayed):
    pytest.importorskip("latex2mathml")
    made = typeset.typeset(text)
    start, end = made.index("<math"), made.index("</math>")
    words = "".join(piece.partition(">")[2] for piece in made[start:end].split("<"))
    assert words.replace(" ", "") == expected
    assert ('display="block"' in made) == displayed


@pytest.mark.parametrize("latex", ["\\frac{", "\\left(", "\\begin{array}", "{", "x" * 3000])
def test_a_formula_that_cannot_be_set_stays_as_it_was_written(latex):
    made = typeset.typeset(f"so \\({latex}\\), *then*")
    assert "<em>then</em>" in made and ("<math" in made or latex[:10] in made)


def test_without_the_package_formulas_stay_as_they_were_written(monkeypatch):
    monkeypatch.setitem(sys.modules, "latex2mathml", None)
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    for cached in (typeset._converter, typeset.mathml):
        cached.cache_clear()
    try:
        assert not typeset.available()
        assert typeset.typeset("so \\(x^2\\)") == "<p>so <code>\\(x^2\\)</code></p>\n"
    finally:
        for cached in (typeset._converter, typeset.mathml):
            cached.cache_clear()


def test_a_fence_is_coloured_and_keeps_its_text():
    made = typeset.typeset("So:\n\n```python\ndef f(x):\n    return x < 1  # so\n```")
    assert '<span class="k">def</span>' in made and '<span class="c"># so</span>' in made
    text = "".join(piece.partition(">")[2] for piece in made.split("<"))
    assert "def f(x):\n    return x &lt; 1  # so" in text


def test_a_language_that_is_not_known_has_no_colours():
    made = typeset.typeset("```brainfuck\n+-<\n```")
    assert made == '<pre class="program">+-&lt;\n</pre>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("    for i in range(3):\n        x += i\n    return x\n", True),
        ("    return False\n", True),
        ("def f():\n    return 1\n", True),
        ("import re\n\nprint(re.sub('a', 'b', 'c'))", True),
        ("To do so we take x = 3.\nThen it is so.", False),
        ("42", False),
        ("  42", False),
        ("x = 5", False),
        ("Here:\n```python\nx = 1\n```", False),
        ("1. First\n   - so\n   - then", False),
    ],
)
def test_a_program_without_a_fence_is_known_by_its_lines(text, expected):
    assert code.is_program(text) == expected
