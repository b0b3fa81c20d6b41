"""Chinese around numbers as LaTeX writes it: `42千米`, `42万`, `1或2`, `无解`, `共有42个苹果`."""

import re

_HAN = "一-鿿"
_NUMBER = r"-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
_SET = re.compile(rf"\\(?:text|mathrm|textbf|mbox)\s*\{{\s*([{_HAN}][{_HAN}\s]*)\}}")
_OR = re.compile(r"\s*(?:或者|或)\s*")
_AND = re.compile(r"\s*(?:以及|和|与|及|且)\s*")
_SCALES = {"万": 4, "亿": 8}
_SCALED = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(万亿|万|亿)")
_MARKED = re.compile(rf"(?<=[0-9}}])\s*([{_HAN}]{{1,6}})$")
_NO_UNIT = re.compile(
    "大于|小于|[不非无没至多少倍分超过约第千百十之半折成点或和与到以上下内外左右余几负减增降亏]"
)  # words that make another number of a number
_WORDS = {
    "无解": r"\emptyset", "无实数解": r"\emptyset", "空集": r"\emptyset",
    "不存在": "does not exist",
    "无穷大": r"\infty", "无穷多个": r"\infty", "无数个": r"\infty", "全体实数": r"\mathbb{R}",
    "任意实数": r"\mathbb{R}",
}  # fmt: skip
_UNITS = {
    "千米": "km", "公里": "km", "米": "m", "厘米": "cm", "毫米": "mm", "分米": "dm", "千克": "kg",
    "公斤": "kg", "克": "g", "毫克": "mg", "吨": "ton", "小时": "h", "分钟": "min", "分": "min",
    "秒": "s", "秒钟": "s", "升": "l", "毫升": "ml", "天": "day", "年": "year", "度": "degrees",
    "千瓦": "kW", "元": "yuan", "人民币": "yuan", "美元": "dollars", "角": "jiao",
}  # fmt: skip
_POWERS = {"平方": "^2", "立方": "^3"}
_SENTENCE = re.compile(rf"[{_HAN}，：\s]*?[{_HAN}：]\s*({_NUMBER})\s*([{_HAN}]*)")


def in_latex(text: str) -> str:
    r"""The text with its `或` and `和` as words, and what follows a number in `\text{}`."""
    bare = _SET.sub(r"\1", text).strip(" 。$")
    if bare in _WORDS:
        return _WORDS[bare]
    if number := _only_number(bare):
        return number
    bare = _SCALED.sub(_scaled, bare)
    bare = _AND.sub(r" \\text{ and } ", _OR.sub(r" \\text{ or } ", bare))
    unit = _MARKED.search(bare)
    name = _unit(unit[1]) if unit else None
    return rf"{bare[: unit.start()]}\text{{ {name}}}" if unit and name else bare


def _unit(said: str) -> str | None:
    """A unit as English writes it; any other noun as it is, None for what changes a number."""
    power = _POWERS.get(said[:2], "")
    known = _UNITS.get(said[2 * bool(power) :])
    if known:
        return known + power
    return None if _NO_UNIT.search(said) else said


def _scaled(match: re.Match[str]) -> str:
    return rf"{match[1]}\times 10^{{{sum(map(_SCALES.__getitem__, match[2]))}}}"


def _only_number(sentence: str) -> str | None:
    """The number of a sentence that states it and no other: 42 of `一共有42个苹果`."""
    match = _SENTENCE.fullmatch(sentence)
    if match is None or _NO_UNIT.search(sentence):
        return None
    return match[1]
