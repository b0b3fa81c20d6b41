"""Natural Questions, HotpotQA, TriviaQA, SQuAD and FlashRAG: `question`, and one gold or several.

The golds are `golden_answers` (FlashRAG, Search-R1), a list `answer` (NQ-open), `answers.text`
(SQuAD), `answer.value` and its aliases (TriviaQA), or a text `answer` next to `supporting_facts`
(HotpotQA). A `context` that is a text is put above the question, as in SQuAD.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "a list of golds, any of which counts, the verifier qa"


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    if "question" not in first or "options" in first or "choices" in first:
        return False
    answer, answers = first.get("answer"), first.get("answers")
    return (
        isinstance(first.get("golden_answers"), list)
        or _is_texts(answer)
        or (isinstance(answer, dict) and "aliases" in answer)
        or (isinstance(answers, dict) and "text" in answers)
        or (isinstance(answer, str) and _common.has(first, "supporting_facts", "context"))
    )


def build(*, paragraphs: bool = False) -> Layout:
    """`paragraphs` puts HotpotQA's paragraphs above the question."""

    def read(row: dict[str, Any]) -> dict[str, Any]:
        above = _context(row.get("context"), paragraphs)
        question = _common.text(row, "question")
        return {
            "prompt": f"{above}\n\n{question}" if above else question,
            "answer": _golds(row),
            "verifier": "qa",
            "used": {"question", "golden_answers", "answer", "answers"}
            | ({"context"} if above else set()),
        }

    return read


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, str) for v in value)


def _golds(row: dict[str, Any]) -> list[str]:
    answer, answers = row.get("answer"), row.get("answers")
    golds: list[Any]
    if row.get("golden_answers") is not None:
        golds = list(row["golden_answers"])
    elif isinstance(answers, dict):
        golds = list(answers.get("text") or [])
    elif isinstance(answer, dict):
        golds = [answer.get("value"), *(answer.get("aliases") or [])]
    else:
        golds = answer if isinstance(answer, list) else [answer]
    known = list(
        dict.fromkeys(str(gold) for gold in golds if gold is not None and str(gold).strip())
    )
    if not known:
        raise Unusable("it has no answer")
    return known


def _context(value: Any, with_paragraphs: bool) -> str:
    """The text above the question: `context`, or paragraphs with their titles if wanted."""
    if isinstance(value, str):
        return value.strip()
    if not with_paragraphs:
        return ""
    if isinstance(value, dict):  # of HotpotQA on the Hub; its own files have pairs
        value = list(zip(value.get("title") or [], value.get("sentences") or [], strict=True))
    if not isinstance(value, list) or not value:
        raise Unusable("it has no paragraphs in `context`")
    return "\n\n".join(f"{title}\n{''.join(lines).strip()}" for title, lines in value)
