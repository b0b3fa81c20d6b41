r"""Characters beyond ASCII as the LaTeX that they stand for: `x²³`, `a₁`, `∛27`, `⌊2⌋`, `２`."""

import re
import unicodedata

_FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_FRACTIONS = {
    sign: rf"\frac{{{above}}}{{{below}}}"
    for sign, above, below in (
        "½12", "⅓13", "⅔23", "¼14", "¾34", "⅕15", "⅖25", "⅗35", "⅘45", "⅙16", "⅚56", "⅐17",
        "⅛18", "⅜38", "⅝58", "⅞78", "⅑19",
    )
}  # fmt: skip
_GREEK = {
    name: rf"\{spelled} "
    for name, spelled in (
        ("π", "pi"), ("α", "alpha"), ("β", "beta"), ("γ", "gamma"), ("δ", "delta"),
        ("ε", "epsilon"), ("ζ", "zeta"), ("η", "eta"), ("θ", "theta"), ("κ", "kappa"),
        ("λ", "lambda"), ("ν", "nu"), ("ξ", "xi"), ("ρ", "rho"), ("σ", "sigma"), ("τ", "tau"),
        ("φ", "phi"), ("ϕ", "phi"), ("χ", "chi"), ("ψ", "psi"), ("ω", "omega"), ("Γ", "Gamma"),
        ("Δ", "Delta"), ("∆", "Delta"), ("Θ", "Theta"), ("Λ", "Lambda"), ("Φ", "Phi"),
        ("Ψ", "Psi"), ("Ω", "Omega"),
    )
}  # fmt: skip
_SIGNS = {
    "−": "-", "–": "-", "‐": "-", "‑": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
    "∙": r"\cdot ", "∗": "*", "÷": r"\div ", "⁄": "/", "∕": "/", "∶": ":", "√": r"\sqrt ",
    "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ",
    "⩾": r"\ge ", "≦": r"\le ", "≧": r"\ge ", "≠": r"\neq ", "∈": r"\in ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "∅": r"\emptyset ", "±": r"\pm ", "∓": r"\mp ", "≈": r"\approx ", "≡": r"\equiv ",
    "∖": r"\setminus ", "∧": r"\land ", "∨": r"\lor ", "∣": "|", "。": ".", "、": ",",
    "∠": r"\angle ", "△": r"\triangle ", "⟨": r"\langle ", "⟩": r"\rangle ", "…": r"\ldots ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "′": "'", "″": "''",
    "º": "°", "˚": "°", "\u00a0": " ", "\u202f": " ", "\u2002": " ", "\u2003": " ",
    "\u2009": " ", "\u3000": " ", "\u200b": "",
}  # fmt: skip
_LATEX = str.maketrans({**_FULL_WIDTH, **_FRACTIONS, **_GREEK, **_SIGNS})
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿⁱ"
_LOWERED = "₀₁₂₃₄₅₆₇₈₉₊₋ₙₐₓ"
_LEVEL = str.maketrans(_RAISED + _LOWERED, "0123456789+-ni0123456789+-nax")
_RAISED_RUN = re.compile(f"[{_RAISED}]+")
_LOWERED_RUN = re.compile(f"[{_LOWERED}]+")
_DEGREES = {"∛": "3", "∜": "4"}
_ROOT = re.compile(r"([∛∜])\s*(?:([0-9]+(?:\.[0-9]+)?|[a-zA-Z])|\(([^()]*)\))")
_DIGIT = re.compile(r"(?![0-9])\d")  # of other scripts


def in_latex(text: str) -> str:
    """A text of any characters with those of mathematics as LaTeX writes them."""
    if text.isascii():
        return text
    text = _RAISED_RUN.sub(lambda run: f"^{{{run[0].translate(_LEVEL)}}}", text)
    text = _LOWERED_RUN.sub(lambda run: f"_{{{run[0].translate(_LEVEL)}}}", text)
    text = _ROOT.sub(lambda m: rf"\sqrt[{_DEGREES[m[1]]}]{{{m[2] or m[3]}}}", text)
    text = text.translate(_LATEX)
    return _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)
