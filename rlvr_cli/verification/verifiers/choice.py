"""Whether a text chooses the right option of a question, by its label or its text.

ARC (`choices`), MMLU-Pro (`options`, up to ten), and any other with the number of options given.
"""

from typing import Any

from rlvr_cli.protocols import Equality, Verdict, Verifier
from rlvr_cli.verification.parsing import claims, letters, options as question
from rlvr_cli.verification.parsing.options import Unreadable


def _stated(label: str) -> str:
    """A label as a completion that can be nothing else."""
    return f"({label})"


VERSION = 2
EQUALITY: Equality = _stated
EARLIER: dict[str, Any] = {"labels": ()}


def build(*, options: int = 0, labels: tuple[str, ...] = ()) -> Verifier:
    """The verifier of multiple choice.

    A prompt's options are its `options` or `choices` (see parsing/options.py). Else they are called
    `labels`, as in `labels=[i,ii,iii,iv]`, or by as many letters as `options` says; 0 means four.
    The gold is a label, a letter, or the text of one option.
    """
    if not 0 <= options <= question.MOST:
        raise ValueError(f"options must be from 0 to {question.MOST}")
    if labels and options:
        raise ValueError("say either options or labels")

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        try:
            known = question.read(extra, labels=labels, count=options)
        except Unreadable as error:
            return Verdict("bad_gold", reason=str(error)[:200])
        reader = letters.reader(known)
        gold = known.names.get(answer.strip().casefold())
        if gold is None:
            named = reader.read_all(answer)
            gold, reason = (named.place, named.reason) if named else (None, "")
        if gold is None:
            return Verdict("bad_gold", reason=(reason or f"it is none of {known}")[:200])
        claim = claims.choice(completion, reader)
        if claim.place is None:
            return Verdict("no_answer", reward=0.0, correct=False, reason=claim.reason[:200])
        correct = claim.place == gold
        return Verdict("ok", float(correct), correct, known.labels[claim.place])

    return verify
