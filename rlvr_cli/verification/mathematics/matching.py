"""Values that are compared one by one, each with one of the other side."""

from collections.abc import Callable

Again = Callable[[str, str], bool]  # whether two parts of the texts are equal


def matched(golds: list[str], answers: list[str], again: Again, *, ordered: bool) -> bool:
    """Whether each value has one that equals it, of its own place where the order counts."""
    if len(golds) != len(answers):
        return False
    if ordered:
        return all(map(again, golds, answers))
    left = list(answers)
    for gold in golds:
        place = next((i for i, answer in enumerate(left) if again(gold, answer)), None)
        if place is None:
            return False
        del left[place]
    return True
