"""The text of each token, and the colour that its number gives it.

A token may be part of a character: the text then belongs to the token that ends the character.
"""

import bisect
import math
from collections.abc import Callable, Sequence

Decoder = Callable[[list[int]], str]

MOST = 8192  # tokens that are coloured; decoding takes about 0.1 ms each
_HALF = "\ufffd"

# Backgrounds of black text, all of the palette of 256 colours: less would merge two of them.
LOGP = ("", "#ffffaf", "#ffd787", "#ffaf5f", "#ff5f5f")
ENTROPY = ("", "#d7ffff", "#afd7ff", "#87afff", "#5f87ff")
_LOGP_EDGES = tuple(math.log(probability) for probability in (0.01, 0.1, 0.5, 0.9))
_ENTROPY_EDGES = (0.1, 0.5, 1.0, 2.0)


def decode(decoder: Decoder, token_ids: Sequence[int]) -> list[str]:
    """The text that each of the first MOST tokens adds.

    Tokens are decoded with those before them since the last complete character, since a token's
    text may depend on its neighbours and a character may need several tokens.
    """
    texts: list[str] = []
    start, done = 0, 0
    before = ""
    for end in range(1, min(len(token_ids), MOST) + 1):
        text = decoder(list(token_ids[start:end]))
        if len(text) > len(before) and not text.endswith(_HALF):
            texts.append(text[len(before) :])
            start, done = done, end
            before = decoder(list(token_ids[start:done]))
        else:
            texts.append("")
    if texts and done < len(texts):  # the last ones never became a complete character
        texts[-1] = decoder(list(token_ids[start : len(texts)]))[len(before) :]
    return texts


def by_logp(value: float) -> str:
    """The colour of a log-prob: none for what the policy was sure of."""
    return LOGP[len(_LOGP_EDGES) - bisect.bisect_right(_LOGP_EDGES, value)]


def by_entropy(value: float) -> str:
    """The colour of an entropy in nats: none where the policy was decided."""
    return ENTROPY[bisect.bisect_right(_ENTROPY_EDGES, value)]


SCALES: dict[str, tuple[Callable[[float], str], list[tuple[str, str]]]] = {
    "log-prob": (
        by_logp,
        list(zip((">0.9", ">0.5", ">0.1", ">0.01", "less"), LOGP, strict=True)),
    ),
    "entropy": (
        by_entropy,
        list(zip(("<0.1", "<0.5", "<1", "<2", "more"), ENTROPY, strict=True)),
    ),
}
