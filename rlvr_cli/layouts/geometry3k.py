r"""Geometry3K, as hiyouga/geometry3k and as its authors have it (arXiv:2105.04165).

The first has `images`, `problem` with `<image>` in it, and `answer`, the value; newer versions also
have its `choices`. The second has a folder for each problem, called by its `id`: data.json with
`problem_text`, `choices` and the letter `answer`, and img_diagram.png. It is read by a pattern, as
in `rlvr prompts 'geometry3k/train/*/data.json'`; the images are looked for where it begins.
"""

import string
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = (
    "the gold is the value of `answer`, of a letter that of its choice, the verifier math "
    "(--layout geometry3k:choices=true asks for a letter)"
)
IMAGE = "img_diagram.png"
_PLACE = "<image>"
_TEXTS = ("annotat_text", "problem_text", "problem")


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    if _common.has(first, "problem_text", "choices", "answer", "problem_type_graph"):
        return True
    is_problem = _common.has(first, "images", "problem", "answer")
    return is_problem and not _common.has(first, "solution") and _PLACE in str(first["problem"])


def build(*, choices: bool = False) -> Layout:
    """With `choices` the prompt lists them, and the gold is the letter and its value.

    An answer that is either is right; the verifier is any:of=[choice,math],golds=each.
    """

    def read(row: dict[str, Any]) -> dict[str, Any]:
        value, letter, options = _gold(row)
        problem = _problem(row)
        fields: dict[str, Any] = {"answer": value, "verifier": "math", "used": {*_TEXTS, "answer"}}
        if choices:
            if letter is None:
                raise Unusable("it has no `choices`")
            letters = string.ascii_uppercase[: len(options)]
            lines = [f"{label}. {text}" for label, text in zip(letters, options, strict=True)]
            problem = "\n".join([problem, "", *lines])
            fields |= {
                "answer": [letter, value],
                "verifier": "any:of=[choice,math],golds=each",
                "used": {*_TEXTS, "answer", "choices", "ground_truth"},
                "extra": {"options": options},
            }
        return fields | {"prompt": _with_image(row, problem)}

    return read


def _problem(row: dict[str, Any]) -> str:
    """The text, of the authors' files that with the formulas in LaTeX, as hiyouga took it."""
    name = next((name for name in _TEXTS if row.get(name)), "problem")
    return str(_common.value(row, name)).strip()


def _with_image(row: dict[str, Any], problem: str) -> Any:
    """The problem; in the authors' files it follows the image in the problem's folder."""
    if "problem_text" not in row:
        return problem
    image = {"type": "image", "path": f"{_common.value(row, 'id')}/{IMAGE}"}
    text = {"type": "text", "text": problem}
    return [{"role": "user", "content": [image, text]}]


def _gold(row: dict[str, Any]) -> tuple[str, str | None, list[str]]:
    """The value, and the letter and texts of its choices; no letter where there are none."""
    answer = _common.answered(row)
    options = [str(option).strip() for option in row.get("choices") or []]
    if not options:
        return answer, None, []
    letters = string.ascii_uppercase[: len(options)]
    letter = str(row.get("ground_truth") or (answer if "problem_text" in row else "")).strip()
    if not letter:
        if options.count(answer) != 1:
            raise Unusable(f"its answer `{answer[:40]}` is not one of its choices")
        letter = letters[options.index(answer)]
    if len(letter) != 1 or letter not in letters:
        raise Unusable(f"its answer `{letter[:40]}` is none of {len(options)} choices")
    value = options[letters.index(letter)]
    if not value:
        raise Unusable(f"its choice {letter} is empty")
    if "problem_text" not in row and answer != value:
        raise Unusable(f"its answer is `{answer[:40]}`, and its choice {letter} `{value[:40]}`")
    return value, letter, options
