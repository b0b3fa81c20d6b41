"""Whether a text follows its instructions: IFEval's, IFBench-Train's, those of RLVR-IFeval.

As in "answer in German", "at least 300 words", "no commas"; package `rlvr[ifeval]`.
"""

import ast
import functools
import importlib.metadata
import importlib.util
import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.parsing import constraints, instructions

EQUALITY: Equality = "none"  # a text is no answer to vote on

_LOGIC = "2"  # raised with each change of what this file, `constraints` or `instructions` decides
_PACKAGES = ("lm_eval", "langdetect", "immutabledict", "nltk")
_BY_LANGUAGE = ("language:", "change_case:english_")
_PATTERNS = {
    "keywords:existence": {"keywords"},
    "keywords:frequency": {"keyword"},
    "keywords:forbidden_words": {"forbidden_words"},
    "detectable_format:multiple_sections": {"section_spliter"},
    "detectable_content:postscript": {"postscript_marker"},
}
_SPECIAL = ("P.S.", "P.P.S")  # for which lm-eval has patterns of its own
_SAME_AS = {"keywords:letter_frequency": "letters:letter_counting2"}
"""Checked here, as lm-eval draws another letter in place of one like `#` or `é`."""
_IDS = ("instruction_id_list", "instruction_id")
_REASON = 200  # characters of a reason

Check = Callable[[str], bool]


class _Unreadable(Exception):
    """Why a gold's instructions cannot be checked."""


def build(
    *,
    mode: Literal["strict", "loose"] = "strict",
    credit: Literal["all", "share"] = "all",
    timeout_s: float = 10.0,
) -> Isolated:
    """The verifier of instructions.

    The gold is JSON: `instruction_id_list` (or `instruction_id`) and `kwargs`, as in google/IFEval
    and IF_multi_constraints, or `func_name` with its arguments, as in RLVR-IFeval; or these are
    columns of the prompt. `loose` also tries the text without its first line, its last line, its
    asterisks. A text is correct if it follows all instructions; with `credit=share` the reward is
    the share that it follows.
    """
    if timeout_s <= 0:
        raise ValueError("timeout_s must be above 0")
    _check_installed()

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        try:
            checks = _checks(answer, extra)
            if extracted is None:
                return Verdict("no_answer", 0.0, False, reason="it is empty")
            texts = _variants(extracted) if mode == "loose" else [extracted]
            follows = [any(check(t) for t in texts if t.strip()) for _, check in checks]
        except _Unreadable as error:
            return Verdict("bad_gold", reason=str(error)[:_REASON])
        missed = [name for (name, _), does in zip(checks, follows, strict=True) if not does]
        correct = not missed
        reward = follows.count(True) / len(follows) if credit == "share" else float(correct)
        reason = None if correct else f"it does not follow {', '.join(missed)}"[:_REASON]
        return Verdict("ok", reward, correct, reason=reason)

    return Isolated(
        extract=lambda completion, finished: completion if completion.strip() else None,
        judge=judge,
        limits=Limits(timeout_s, 2 << 30, first_seconds=60.0),
        version=_version(),
        reads=("prompt", "kwargs", *_IDS),
        imports=("lm_eval.tasks.ifeval.instructions_registry", "langdetect"),
    )


def _check_installed() -> None:
    """An error with what to do where the packages, or the data of nltk, are not there."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"`ifeval` needs {', '.join(missing)}: not installed",
            "pip install 'rlvr[ifeval]'",
        )
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError as error:  # lm-eval would download it when it is imported
        raise UsageError(
            "`ifeval` counts sentences with punkt_tab of nltk, which is not on this machine",
            "`python -m nltk.downloader punkt_tab` downloads it; without a network copy it, and "
            "set NLTK_DATA to the folder that has tokenizers/",
        ) from error


@functools.cache
def _version() -> str:
    return " ".join([_LOGIC, *(f"{n} {importlib.metadata.version(n)}" for n in _PACKAGES)])


def _checks(answer: str, extra: dict[str, Any]) -> list[tuple[str, Check]]:
    """The name and the check of each instruction. Raises _Unreadable."""
    gold = _gold(answer)
    if not _has_instructions(gold) and _has_instructions(extra):
        gold = extra
    if not isinstance(gold, dict):
        raise _Unreadable("it is no JSON object of instructions")
    if "func_name" in gold:
        return [(str(gold["func_name"]), _constraint(gold))]
    names = next((_parsed(gold[key]) for key in _IDS if gold.get(key) is not None), None)
    given = _parsed(gold.get("kwargs"))
    if not isinstance(names, list) or not names:
        raise _Unreadable("it has neither `func_name` nor a list `instruction_id_list`")
    given = [{}] * len(names) if given is None else given
    if not isinstance(given, list) or len(given) != len(names):
        raise _Unreadable(f"it has {len(names)} instructions, and not as many `kwargs`")
    prompt = str(extra.get("prompt") or "")
    return [
        (str(name), _instruction(str(name), _parsed(arguments) or {}, prompt))
        for name, arguments in zip(names, given, strict=True)
    ]


def _has_instructions(value: Any) -> bool:
    return isinstance(value, dict) and ("func_name" in value or any(value.get(k) for k in _IDS))


def _gold(answer: str) -> Any:
    """A gold's object; open-instruct stores some as a list of one, in Python's spelling."""
    value = _parsed(answer)
    if isinstance(value, list) and len(value) == 1:
        value = _parsed(value[0])
    return value


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _constraint(gold: dict[str, Any]) -> Check:
    name = str(gold["func_name"])
    if name == "validate_response_language":
        language = gold.get("language")
        if not language or not isinstance(language, str):
            raise _Unreadable(f"`{name}`: its `language` is {language!r:.60}")
        return lambda text: _language(text) == language
    if name not in constraints.CHECKS:
        raise _Unreadable(f"`{name[:80]}` is no constraint that is known")
    return _bound(name, constraints.CHECKS[name], gold)


def _bound(name: str, check: constraints.Check, given: dict[str, Any]) -> Check:
    try:
        return constraints.bound(check, given)
    except ValueError as error:
        raise _Unreadable(f"`{name}`: {error}") from error


def _instruction(name: str, arguments: Any, prompt: str) -> Check:
    """The check of an instruction; lm-eval would draw an argument that is missing at random."""
    from lm_eval.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

    if not isinstance(arguments, dict):
        raise _Unreadable(f"the kwargs of `{name}` are no object")
    own = _SAME_AS.get(name, name)
    if own in instructions.CHECKS:
        return _bound(name, instructions.CHECKS[own], arguments)
    if name not in INSTRUCTION_DICT:
        raise _Unreadable(f"`{name[:80]}` is no instruction that is known")
    given = {key: _whole(value) for key, value in arguments.items() if value is not None}
    for key in given.keys() & _PATTERNS.get(name, set()):
        given[key] = given[key] if given[key] in _SPECIAL else _escaped(given[key])
    instruction = INSTRUCTION_DICT[name](name)
    missing = [key for key in instruction.get_instruction_args_keys() if key not in given]
    if missing:
        raise _Unreadable(f"`{name}` has no `{missing[0]}`")
    try:
        instruction.build_description(**given)
        drawn = instruction.get_instruction_args() or {}
        if given.get("nth_paragraph", 0) > given.get("num_paragraphs", math.inf):
            drawn["nth_paragraph"] = None  # whatever was drawn: it may be the number itself
        for key, value in given.items():
            if isinstance(value, int) and drawn.get(key, value) != value:
                raise ValueError(f"its `{key}` is {value}")
        if "prompt" in (instruction.get_instruction_args() or {}):
            instruction.build_description(prompt=prompt)
    except Exception as error:
        raise _Unreadable(f"`{name}`: {type(error).__name__}: {error}") from error

    def check(text: str) -> bool:
        if name.startswith(_BY_LANGUAGE) and _language(text) is None:
            return False  # lm-eval takes a text of no language for one of any
        _seed()
        return bool(instruction.check_following(text))

    return check


def _escaped(value: Any) -> Any:
    """Keywords as the patterns that lm-eval takes them for, so that `C++` is no `C`."""
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return re.escape(value.strip()) if isinstance(value, str) else value


def _whole(value: Any) -> Any:
    """A whole number that became a float on its way through a table."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _seed() -> None:
    """Has langdetect, which draws at random, say the same of a text each time."""
    import langdetect

    langdetect.DetectorFactory.seed = 0


def _language(text: str) -> str | None:
    """The language of a text as langdetect has it; None where it finds none, as in digits."""
    import langdetect

    _seed()
    try:
        return str(langdetect.detect(text))
    except langdetect.LangDetectException:
        return None


def _variants(text: str) -> list[str]:
    """What IFEval's loose accuracy looks at: 8 texts, with and without lines and asterisks."""
    lines = text.split("\n")
    shorter = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    return [variant for t in (text, *shorter) for variant in (t, t.replace("*", ""))]
