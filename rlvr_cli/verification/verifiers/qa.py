"""Whether a short answer is one of the golds, after SQuAD's normalisation: exact match or token F1.

Natural Questions, HotpotQA, TriviaQA, SQuAD, and the golds of Search-R1 and open-instruct.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Verdict, Verifier
from rlvr_cli.verification.parsing import short_answer, short_golds, squad_tokens

_NAMES = ("golden_answers", "targets", "aliases")  # of `extra`, with more golds
_CLOSED = {("yes",), ("no",), ("noanswer",)}


def _stated(answer: str) -> str:
    """A completion that gives this answer."""
    return f"<answer>{answer}</answer>"


EQUALITY: Equality = _stated


def build(
    *,
    metric: Literal["em", "f1", "contains"] = "em",
    threshold: float = 1.0,
    whole: int = 20,
) -> Verifier:
    """The verifier of short answers.

    `answer` is a text or a JSON list of texts, of which one suffices; `golden_answers`, `targets`
    and `aliases` in `extra` are golds too. What is read is the last `<answer>`, else a box, else
    what follows "the answer is", else a text of at most `whole` words. The reward of `em` and
    `contains` is 0 or 1, that of `f1` the token F1 with the nearest gold, and `threshold` is the F1
    from which an answer is correct.
    """
    if not 0 < threshold <= 1:
        raise ValueError("threshold must be above 0 and at most 1")
    if whole < 0:
        raise ValueError("whole must be at least 0")

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        try:
            wanted = [squad_tokens.of(gold) for gold in short_golds.texts(answer, extra, _NAMES)]
        except short_golds.Unreadable as error:
            return Verdict("bad_gold", reason=str(error))
        wanted = [gold for gold in wanted if gold]
        if not wanted:
            return Verdict("bad_gold", reason="it holds punctuation alone")
        text, reason = short_answer.read(completion, whole)
        given = squad_tokens.of(text) if text else []
        if not given:
            reason = reason or "its answer holds punctuation alone"
            return Verdict("no_answer", 0.0, False, reason=reason)
        if metric == "f1":
            reward = max(f1(given, gold) for gold in wanted)
            return Verdict("ok", reward, reward >= threshold, text)
        correct = any(given == g if metric == "em" else _contains(given, g) for g in wanted)
        return Verdict("ok", float(correct), correct, text)

    return verify


def f1(given: Sequence[str], gold: Sequence[str]) -> float:
    """2 P R / (P + R) of two lists of tokens as multisets.

    Where a side is yes, no or noanswer, only the same answer counts, as in HotpotQA's evaluation.
    """
    if {tuple(given), tuple(gold)} & _CLOSED:
        return float(given == gold)
    same = (Counter(given) & Counter(gold)).total()
    return 2 * same / (len(given) + len(gold))


def _contains(given: list[str], gold: list[str]) -> bool:
    """Whether the gold's tokens are consecutive within those of the answer."""
    return f" {' '.join(gold)} " in f" {' '.join(given)} "
