"""Phrases with which a text says, doubts or takes back what it chooses.

In these patterns a space means a space or a tab.
"""

import re

from rlvr_cli.verification.parsing import choice_words
from rlvr_cli.verification.parsing.answer_phrases import VOID_LINKS, VOID_WORDS

_NOUNS = choice_words.alternation(choice_words.NOUNS)
_CHOSEN = choice_words.alternation(choice_words.CHOSEN)
_COPULAS = choice_words.alternation(choice_words.COPULAS)
_NAMES = choice_words.alternation(choice_words.NAMES)
_LATIN = "[A-Za-zÀ-ɏ]"
_NO_WORD_AROUND = rf"(?:(?<!{_LATIN})|(?!{_LATIN}))"  # between letters of which one is not Latin


def _compile(pattern: str) -> re.Pattern[str]:
    flags = re.IGNORECASE | re.MULTILINE
    spaced = pattern.replace("\n", "").replace(r"[ \t]", " ").replace(" ", r"[ \t]")
    return re.compile(spaced, flags)


HEAD = _compile(rf"""
(?<!{_LATIN})(?:answers?
|(?:correct|right|best|appropriate|accurate|suitable|proper|chosen|selected|final) 
(?:option|choice|letter|one|statement|alternative|response|selection)
|(?:my|final|the|best) (?:choice|pick|selection|guess)|(?:die )?richtige option
|(?:opción|opcion|alternativa|option|opzione|opção) (?:correcta|correta|correcte|corretta)
|ans\b\.?|final(?=[*_]{{0,2}}:)|正确(?:的)?选项|正確(?:的)?選項|{_NOUNS})|{_CHOSEN}""")
"""What an answer is called."""

IS = _compile(rf"""
[*_`"')\]]{{0,4}}
(?: (?:choice|option|letter|key|correct[ae]?|correta|corretta|finale?|đúng|الصحيحة|النهائية)\b)?
(?:,? (?:to|of|for|from|among|in|on|that|which|here|then|therefore|thus|hence)\b
[^.\n:;?!=]{{0,80}}?)?
[*_`"')\]]{{0,4}} {{0,3}}
(?P<is>(?P<hedge>(?<!{_LATIN})(?:seems|appears|might|may|could)(?: to)? be\b)
|(?:(?<!{_LATIN})(?:{_COPULAS})|(?<=odpowiedź) to\b|['’]s){_NO_WORD_AROUND}
|】|[:=]|[-=]+>|→|⇒|[-–—](?= ))
[*_`]{{0,4}} {{0,3}}:?[*_`]{{0,4}}\s{{0,4}}
(?:(?:most likely|likely|probably|clearly|definitely|therefore|thus|then|hence|indeed|simply
|obviously|actually|also|certainly|now)\b,? {{1,3}})?
(?:not [^\s.]{{1,5}}?,? but (?:rather )?)?
(?P<article>(?:the|la|le|el|die|der|[ao](?= (?:letra|opção|alternativa))|l['’]) ?)?
(?:(?:{_NAMES}|one)(?:\b|(?<=[一-鿿])) {{0,3}}[:#]? {{0,3}})?""")
"""What may be between that and the answer."""

NEXT = _compile(r"""[*_`"')\]:]{0,4} {0,3}\n\s{0,3}|[*_`]{0,4} {1,3}(?:is )?""")
"""The same without a verb or colon, as in a headline."""

CHOSEN = _compile(_CHOSEN)
"""Heads that are verbs."""

ASKED = _compile(r"\b(?:to|can|could|will|not|I|we|you|please) *\Z")
"""What makes "answer" a verb."""

VOID = _compile(rf"""
(?:\b(?:{VOID_WORDS}
|false|worst|opposite|previous|earlier|initial|original|first|anything|everything|all|none
|nothing|any|students?['’]?s?|except|except for|besides|excluding|apart from
|(?:might|may|could|would|some|people|students|they|he|she|one) +(?:\w+ +)?
(?:think|say|claim|believe|argue|assume|guess)s?)\b|n['’]t\b|不|非)
[ \t]*(?:(?:{VOID_LINKS}|was|best|option|choice|answer|it|only|necessarily)\s+)*\Z""")
"""What comes before a phrase that claims nothing."""

VOID_CONCLUSION = _compile(r"\b(?:if|whether|anything|everything|all|none|nothing|any)[\s,]*\Z")

WEAK = _compile(r"""
(?:(?P<so>
(?:\b(?:therefore|thus|hence|so|consequently|accordingly|finally|donc|also|daher|no|wait
|actually|rather|sorry|instead|but|I mean|in conclusion
|by (?:process of )?elimination)\b[,:;—–.\s]{1,3}
|(?:因此|所以|故)[，,]?)(?:(?:it|that)(?:['’]s| is| must be| should be) )?
|\bit(?:['’]s| (?:is|must be|should be|has to be)) (?:(?:definitely|clearly|certainly|obviously) )?)
|(?:(?:\b(?:I|we)(?:['’](?:d|ll|m|re|ve))?(?: (?:would|will|must|should|can|am|are|have))?
(?: \w{1,12}ly)? |\blet['’]?s |^ *)(?:rather )?
(?:choose|chose|pick|picked|select|selected|say|answer|guess|conclude|opt for|vote for
|settle on|go with|lean towards?)
|\bgo(?:ing)? with|\bleav(?:es?|ing)(?: us)?(?: with)?(?: only)?)
(?: that)?(?: it(?:['’]s| is))?(?: |:){1,2}
|(?P<last>(?:\b(?:this|that|which|it)(?:['’]s| is| must be| matches| corresponds to| gives| means)
|\b(?:i\.e\.|namely|matching),?) (?=(?:the )?(?:option|choice|answer)\b)))
(?:the )?(?:(?:option|choice|letter|answer) )?""")
"""Conclusions and choices: "therefore, B", "it is B", "I would go with B".

`last` are those that count at the text's end only: "which is option B"."""

RIGHT = _compile(r"""
 +(?:is|must be|would be|has to be|seems(?: to be)?|looks|appears to be) +
(?:(?:therefore|thus|clearly|indeed|definitely|obviously|also|the|only|most|one|my|our) +)*
(?:correct|right|best|final|answer|appropriate|one)\b
(?: +(?:answer|option|choice|one|response|statement)\b)?
(?= *(?:$|[\n.,;:!)*]|because|since|as\b|for\b|here\b|to\b|among|and\b|but\b))
|(?P<only> +(?:satisfies|works|holds|fits|meets|matches|remains
|is +(?:consistent|compatible|possible|plausible|true|valid))\b)
|(?:选项|項|项)?(?:是|为)?正确(?:的|答案|选项|(?= *(?:$|[。，,.;；\n])))""")
"""What follows a label: "B is the correct answer"; `only` where "only" must stand before it."""

ONLY = _compile(r"\bonly +\Z")

SENTENCE_END = _compile(
    r""" *(?:$|\n|[.!。；;](?:[\s*)"']|\Z)|[,—–-]? *(?:because|since|as|not)\b)"""
)

TURN = _compile(r"""
\b(?:wait|no|actually|but|however|wrong|incorrect|mistake\w*|instead|correction|sorry|hmm+
|re-?(?:consider|check|read|evaluat)\w*|therefore|thus|hence|so|overall|finally|conclusion)\b
|不对|错|但|因此|所以|故""")
"""Words between two claims of which the later one counts."""
