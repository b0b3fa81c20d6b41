"""OpenCompass: the JSON of its predictions, and of its results with details.

Source: `openicl/icl_inferencer/icl_base_inferencer.py`, `openicl/icl_evaluator/
icl_base_evaluator.py` and `tasks/openicl_eval.py` of open-compass/opencompass.
"""

from collections.abc import Callable
from typing import Any

from rlvr_cli.interop.formats._common import Row, correct_by, named

_FIGURES = ("accuracy", "score", "G-Pass@", "mG-Pass@", "extract_rate")
_VERDICTS = ("correct", "is_correct", "cascade_correct")


def recognises(names: set[str]) -> bool:
    """Rows under `0`, `1` and so on; a row with `origin_prompt`; `details` with a figure."""
    numbered = bool(names) and all(name.isdecimal() for name in names)
    has_figure = any(name.startswith(_FIGURES) or "pass@" in name for name in names)
    return numbered or {"origin_prompt", "prediction"} <= names or (
        "details" in names and has_figure
    )  # fmt: skip


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Predictions have no verdicts, and ids by their prompts, as repeated ones are written again.

    Details have one value of each completion of a prompt, and the prompt's name, or its number.
    """

    def read(row: Row) -> list[Row]:
        if "details" in row:
            return _details(row["details"])
        if "prediction" in row:
            return [_prediction(row)]
        if not all(isinstance(one, dict) for one in row.values()):
            return [row]
        return [_prediction(one) if "prediction" in one else {"prompt_id": key} | one
                for key, one in row.items()]  # fmt: skip

    return read


def _prediction(row: Row) -> Row:
    """`prediction` is a text, or a list if several were requested at once."""
    prompt, text = row.get("origin_prompt"), row["prediction"]
    fields: Row = {"prompt_id": named(prompt), "prompt": _messages(prompt)}
    fields["completions" if isinstance(text, list) else "completion"] = text
    return row | fields | {"answer": _first(row.get("gold"))}


def _messages(prompt: Any) -> Any:
    """OpenCompass' turns, `HUMAN` and `BOT`, as messages."""
    roles = {"HUMAN": "user", "BOT": "assistant", "SYSTEM": "system"}
    if not isinstance(prompt, list) or not all(isinstance(turn, dict) for turn in prompt):
        return prompt
    return [{"role": roles.get(turn.get("role", ""), turn.get("role")),
             "content": turn.get("prompt", turn.get("content"))} for turn in prompt]  # fmt: skip


def _details(details: Any) -> list[Row]:
    if isinstance(details, dict):
        listed = {key: one for key, one in details.items() if isinstance(one, dict)}
    else:
        listed = {str(one.get("example_abbr", at)): one for at, one in enumerate(details)}
    return [{"prompt_id": key} | _detail(one) for key, one in listed.items()]


def _detail(one: Row) -> Row:
    """The fields of a prompt; lists hold one value of each completion, in newer versions."""
    fields: Row = {key: value for key, value in one.items() if not isinstance(value, dict | list)}
    verdict = next((name for name in _VERDICTS if one.get(name) is not None), None)
    if verdict:
        fields |= correct_by(verdict, one[verdict])
    columns = {
        "completion": ("origin_prediction", "prediction"),
        "extracted": ("pred", "predictions"),
    }
    for column, names in columns.items():
        value = next((one[name] for name in names if name in one), None)
        if _is_text(value) and (
            verdict is None or isinstance(value, list) == isinstance(one[verdict], list)
        ):
            fields[column] = value
    gold = next((one[name] for name in ("answer", "references", "gold") if name in one), None)
    fields["answer"] = _first(gold)
    prompt = one.get("prompt", one.get("origin_prompt"))
    return fields | ({} if prompt is None else {"prompt": _messages(_first_prompt(prompt))})


def _is_text(value: Any) -> bool:
    """Whether a value is an answer or a list of them, and not what was measured of choices."""
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(
        text is None or isinstance(text, str | int | float) for text in texts
    )


def _first_prompt(prompt: Any) -> Any:
    is_repeated = isinstance(prompt, list) and prompt and not isinstance(prompt[0], dict)
    return prompt[0] if is_repeated else prompt


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value
