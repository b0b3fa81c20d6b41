"""Whether a paired difference is one, in words, with Holm's correction for several comparisons."""

from collections.abc import Mapping, Sequence

ALPHA = 0.05
BETTER, WORSE, CHANGED = "better", "worse", "changed"
UNCLEAR = "no clear difference"
TOO_FEW = "too few prompts to tell"
WORDS = (BETTER, WORSE, CHANGED, UNCLEAR, TOO_FEW)
MORE_IS_BETTER = ("pass@", "maj@", "avg@", "ucc@", "ucr")
LESS_IS_BETTER = ("truncated",)


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """The p-values of several comparisons, each for all of them together (Holm 1979).

    The smallest is multiplied by their number, the next by one less, and so on, and none is below
    one before it. None stays None, and counts as no comparison.
    """
    known = sorted((chance, at) for at, chance in enumerate(chances) if chance is not None)
    adjusted: list[float | None] = [None] * len(chances)
    least = 0.0
    for rank, (chance, at) in enumerate(known):
        least = max(least, min(1.0, chance * (len(known) - rank)))
        adjusted[at] = least
    return adjusted


def word(name: str, mean: float | None, chance: float | None) -> str:
    """What a difference of a metric is called, by its p-value."""
    if chance is None or mean is None:
        return TOO_FEW
    if chance >= ALPHA:
        return UNCLEAR
    if name.startswith(MORE_IS_BETTER):
        return BETTER if mean > 0 else WORSE
    if name.startswith(LESS_IS_BETTER):
        return WORSE if mean > 0 else BETTER
    return CHANGED


def of_comparisons(
    means: Sequence[Mapping[str, float | None]], chances: Sequence[Mapping[str, float | None]]
) -> list[dict[str, str]]:
    """The word for each metric of each comparison; Holm's correction is over the comparisons.

    `means` and `chances` have a mapping from metrics for each comparison.
    """
    words: list[dict[str, str]] = [{} for _ in means]
    for name in dict.fromkeys(name for one in means for name in one):
        having = [at for at, one in enumerate(means) if name in one]
        adjusted = holm([chances[at].get(name) for at in having])
        for at, chance in zip(having, adjusted, strict=True):
            words[at][name] = word(name, means[at][name], chance)
    return words
