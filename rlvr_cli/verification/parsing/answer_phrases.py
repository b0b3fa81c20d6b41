"""What a text says after "the answer is", in English and the languages that models reason in."""

import re

_VERB = r"(?:is|are|equals|was|will be|would be|should be|must be|becomes|comes to)"
_MARK = r"[ \t]{0,3}(?:\*\*)?[ \t]{0,3}[:=：]"
_ENGLISH = (
    r"\b(?:answers?|ans)\b(?:\*\*)?[ \t]{0,3}"
    rf"(?:(?:(?:to|for|of|in)[ ][^.\n:=$\\]{{1,60}}?[ ])?{_VERB}\b[ \t]{{0,3}}:?|[:=：→⇒]|[-=]>"
    r"|[-—–](?=[ \t][$\\0-9*])|\n)"
    r"|\bans\.(?=[ \t]{1,3}[-−$\\0-9])"
)
_OTHERS = (
    r"(?:答案|答え|正解|最终结果|解答)[ ]{0,2}(?:应该|应当|应|就|便)?(?:是|为|為|は|[:：=])[:：]?"
    r"|【(?:参考|最终|正确)?答案】[:：]?|答[:：]"
    r"|(?:정답|답)(?:은|는|이)?[ ]{0,2}[:：]?(?=[ ]{0,3}[-−$\\0-9])"
    r"|\b(?:respuesta|solución)(?: (?:final|correcta))?(?: (?:es|será|sería)\b:?"
    rf"|{_MARK})"
    r"|\bresposta(?: (?:final|correta))?(?: (?:é|e|será)(?!\w):?"
    rf"|{_MARK})"
    r"|\bréponse(?: (?:finale|correcte))?(?: (?:est|sera)\b:?"
    rf"|{_MARK})"
    r"|\brisposta(?: (?:finale|corretta))?(?: (?:è|e')(?!\w):?"
    rf"|{_MARK})"
    r"|\b(?:antwort|lösung|ergebnis)(?: (?:ist|lautet|wäre|beträgt)\b:?"
    rf"|{_MARK})"
    rf"|\bantwoord(?: (?:is|luidt)\b:?|{_MARK})"
    rf"|\b(?:ответ(?:ом)?|відповідь)(?:[ ]{{0,2}}[:：=—–]|[ ]-"
    rf"|[ ](?:равен|будет|есть|является|это)(?!\w)|{_MARK})"
    rf"|\bodpowied[źz](?: (?:to|brzmi|jest)\b:?|{_MARK})"
    rf"|\b(?:odpověď|odpoveď)(?: (?:je|zní)\b:?|{_MARK})"
    rf"|\b(?:cevap|cevabı|yanıt)(?:[ ]{{0,2}}(?=[-−$\\0-9])|{_MARK})"
    r"|(?:الجواب|الإجابة|الاجابة)(?: النهائية| الصحيحة| النهائي)?[ ]{0,2}(?:هو|هي|[:：])"
    r"|उत्तर[ ]{0,2}(?:[:：]|(?:है[ ]{0,2})?(?=[ ]{0,2}[-−$\\0-9]))"
    rf"|\b(?:đáp án|đáp số|câu trả lời)(?: (?:cuối cùng|đúng))?(?: là\b:?|{_MARK})"
    rf"|\bjawaban(?:nya)?(?: (?:akhir|akhirnya))?(?: adalah\b:?|{_MARK})"
    rf"|\bsvar(?:et)?(?: (?:är|er|blir)\b:?|{_MARK})"
    r"|คำตอบ(?:สุดท้าย)?[ ]{0,2}(?:คือ|[:：])"
    rf"|\b(?:απάντηση)(?: (?:είναι)\b:?|{_MARK})|\bvastaus(?: on\b:?|{_MARK})"
    rf"|\brăspuns(?:ul)?(?: (?:este|final este)\b:?|{_MARK})|\bválasz{_MARK}"
    r"|התשובה[ ]{0,2}(?:היא|[:：])|(?:پاسخ|جواب)[ ]{0,2}(?:برابر|[:：])"
)
_PATTERNS = {
    "English": re.compile(_ENGLISH, re.IGNORECASE),
    "any": re.compile(f"{_ENGLISH}|{_OTHERS}", re.IGNORECASE),
}
_KEYS = [
    "答",
    "正解",
    "结果",
    "정답",
    "답",
    "respuesta",
    "solución",
    "resposta",
    "réponse",
    "risposta",
    "antwort",
    "lösung",
    "ergebnis",
    "antwoord",
    "ответ",
    "відповідь",
    "odpowied",
    "odpov",
    "cevap",
    "cevab",
    "yanıt",
    "الجواب",
    "الإجابة",
    "الاجابة",
    "उत्तर",
    "đáp",
    "câu",
    "jawaban",
    "svar",
    "คำตอบ",
    "απάντηση",
    "vastaus",
    "răspuns",
    "válasz",
    "התשובה",
    "پاسخ",
    "جواب",
]
_MATH = (("$$", "$$"), (r"\(", r"\)"), (r"\[", r"\]"), ("$", "$"))
_SENTENCE_END = re.compile(r"[.!?](?=\s|$|\*|<)|[。！？\n]")
_FILLER = re.compile(
    r"(?:\n[ \t]{0,3}[-•][ \t]+|,?[ \t]?of course\b,?|"
    r"(?:therefore|thus|then|hence|simply|just|indeed|given by|equal to|exactly|clearly|also|"
    r"probably|likely|most likely|definitely|certainly|obviously|actually|now|"
    r"approximately|about|found to be|donc|also|daher|somit|pues|entonces|por tanto|égale? à|"
    r"igual a|gleich|равен|equals)\b[,:]?|[:：=*_]|\s)+",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"</?(?:b|strong|em|i|u|p|span)>", re.IGNORECASE)
_REASON = re.compile(
    r"[ \t,;(]+(?:because|since|which|as|so|not|rather than|instead of|and not|but not|given that|"
    r"puesto que|porque|car|parce que|weil|denn|así que|no|nicht|а не|pas|не)[ \t]"
    r"|，(?:因为|而不是|不是|所以)"
)
_NEGATED = re.compile(
    r"(?:not|n't|never|neither|wrong|incorrect|unknown|unclear|nicht|pas|不是|не|no es|non è)\b"
    r"|不",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"not\s[^\s.,;]{1,40}?,?\s+but\s+(?:rather\s+)?", re.IGNORECASE)
_ASKED = re.compile(r"[^.!?\n]{0,80}\?(?=\s|$)")
_CORRECTED = re.compile(
    r"\s*(?:no|wait|actually)\b[^\n?]{0,40}?\b(?:it|that|this) is(?! not\b)\s", re.IGNORECASE
)
_ASIDE = re.compile(r"(?<=[0-9]) \([^()]*\)$")
_REMARK = re.compile(
    r"(?:clear|helpful|correct|right|reasonable|consistent|valid|verified|useful|complete|obvious)"
    r"\b\s*(?:[.!?,;]|$|as\b|because\b|since\b|and\b|to\b)",
    re.IGNORECASE,
)
_LINKS = re.compile(
    r"\s*(?:[,;、，]?\s*(?:and|or|und|oder|et|ou|y|o|и|или|和|或)\s+|[,;、，和或]\s*)"
)
_ENDINGS = re.compile(r"\s*(?:です|である|だ|입니다|이다|है)$")
_MONEY = re.compile(r"\$\s?[0-9][0-9,]*(?:\.[0-9]+)?(?=[\s.,;!?]|$)")
VOID_WORDS = (
    "if|whether|suppose|supposing|assume|assuming|unless|imagine|not|never|incorrect|wrong|doubt"
    "|disagree"
)
VOID_LINKS = (
    "that|the|a|my|our|this|is|be|final|correct|right|sure|certain|clear|confident|convinced|think"
    "|believe|say|agree"
)  # between such a word and the phrase
BACK = (
    r"(?:(?:but|wait|hmm+|no|oops|actually|sorry)\b[\s,.!…—–-]*){1,3}(?:that|this|it)"
    r"(?:['’]s|\s+(?:is|was|seems))\s+(?:wrong|incorrect|a\s+mistake|impossible"
    r"|not\s+(?:right|correct|possible))\b(?!-|\s+to\b)"
)
TAKEN_BACK = re.compile(rf"[\s$*.,;)\]}}\\]*{BACK}", re.IGNORECASE)
CORRECTION = re.compile(
    r"[\s$*.,;)\]}\\—–-]*(?:(?:but|wait|hmm+|no|oops|actually|sorry|correction)\b[\s,:.!…—–-]*)+"
    r"(?:(?:it|that)(?:['’]s|\s+(?:is|should\s+be))\s+)?\$?(-?[0-9][0-9,./]*)\$?[.!*\s]*\Z",
    re.IGNORECASE,
)  # a text that ends with another number
_VOID = re.compile(
    rf"(?:\b(?:{VOID_WORDS}"
    r"|(?:might|may|could|would)\s+(?:think|say|claim|guess|believe|argue))|n['’]t)"
    rf"[ \t]+(?:(?:{VOID_LINKS})\s+)*\Z",
    re.IGNORECASE,
)  # before a phrase that claims nothing, as in "if the answer is 5" and "I doubt that the answer"
_BEFORE = 60  # characters before a phrase that can make it void
_TAIL = 2000  # characters after an anchor that are read


def ends(text: str) -> list[int]:
    """Where each such phrase ends."""
    lowered = text.lower()
    is_other = any(key in lowered for key in _KEYS)
    if not is_other and "ans" not in lowered:
        return []
    pattern = _PATTERNS["any" if is_other else "English"]
    return [
        match.end()
        for match in pattern.finditer(text)
        if not _VOID.search(text[max(0, match.start() - _BEFORE) : match.start()])
    ]


def last(text: str, places: list[int] | None = None) -> str | None:
    """What follows the last such phrase; None without one, or if it denies the answer."""
    places = ends(text) if places is None else places
    for end in reversed(places[-4:]):
        tail = text[end : end + _TAIL]
        tail = _EMPHASIS.sub("", tail) if "</" in tail else tail
        if text[end - 1] == "\n":
            tail = "\n" + tail
        tail = tail[match.end() :] if (match := _FILLER.match(tail)) else tail
        if _REMARK.match(tail):
            continue
        if question := _ASKED.match(tail):
            corrected = _CORRECTED.match(tail, question.end())
            return _answer_of(tail[corrected.end() :]) if corrected else None
        if instead := _INSTEAD.match(tail):
            tail = tail[instead.end() :]
        stop = _SENTENCE_END.search(tail)
        if stop and (correction := CORRECTION.match(tail, stop.end())):
            return correction[1]
        if _NEGATED.match(tail) or (stop and TAKEN_BACK.match(tail, stop.end())):
            return None
        return _answer_of(tail)
    return None


def _answer_of(tail: str) -> str | None:
    """What follows: its mathematics if it begins so, else its sentence."""
    if not _MONEY.match(tail) or re.match(r"\$[^$\n]*\$(?![0-9])", tail):
        formulas = _formulas(tail)
        if formulas is not None:
            return ", ".join(formulas) or None
    sentence = _SENTENCE_END.split(tail, maxsplit=1)[0]
    if sentence[:1].isalpha() and sentence.isascii():
        sentence = sentence.rpartition(" is ")[2]
    sentence = _REASON.split(sentence, maxsplit=1)[0].strip("*_ \t.<>")
    sentence = _ENDINGS.sub("", sentence).strip()
    return _ASIDE.sub("", sentence) or None


def _formulas(tail: str) -> list[str] | None:
    """The formulas that a text begins with, as commas, `and` or `or` link them; None for none."""
    formulas: list[str] = []
    while True:
        formula, end = _formula(tail)
        if formula is None:
            return formulas or None
        if not formula and not formulas:
            return []
        formulas.append(formula)
        tail = tail[end:]
        link = _LINKS.match(tail)
        if not link:
            return formulas
        tail = tail[link.end() :]


def _formula(tail: str) -> tuple[str | None, int]:
    """The formula that a text begins with and where it ends; None if there is none."""
    for opening, closing in _MATH:
        if tail.startswith(opening):
            inside, closed, _ = tail[len(opening) :].partition(closing)
            end = len(opening) + len(inside) + len(closing)
            return (inside.strip(), end) if closed else (None, 0)
    return None, 0
