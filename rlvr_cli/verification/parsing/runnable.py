"""The program that is run: the code of a completion, after the code that it continues.

And the tests that call it, where a gold has arguments and results.
"""

import json
import re
from typing import Any, Literal

from rlvr_cli.verification.parsing import programs, python_names, usual_imports
from rlvr_cli.verification.parsing.cases import Calls, Script
from rlvr_cli.verification.parsing.program_golds import Gold

_ENTRY = re.compile(r"^(?:(?P<owner>\w+)(?:\(\))?\.)?(?P<method>\w+)$")
_SOLUTION = re.compile(r"\bSolution\(")
_NODES = frozenset({"ListNode", "TreeNode", "Node"})  # which LeetCode defines
_CALLING = """
import json as _json
from rlvr_cli.verification.sandbox import comparing as _comparing
_given, _wanted = {cases}
def _passes(number):
    given = _comparing.arguments(_given[number], has_text_keys={has_text_keys})
    if isinstance(given, dict):
        result = {name}(**given)
    else:
        result = {name}(*given)
    right = _comparing.same_value(result, _wanted[number], {tolerance})
    if not right and {is_wrapped}:
        right = _comparing.same_value(result, _wanted[number][0], {tolerance})
    assert right, f"test {{number + 1}}: it returned {{_shown(result)}}, expected {{_shown(_wanted[number])}}"
def _shown(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
"""  # noqa: E501


def program_of(
    extracted: str, gold: Gold, prompt: str, imports: Literal["auto", "none", "all"]
) -> tuple[str, str | None]:
    """The program, and the name at its top of the function that is tested.

    A program that continues the prompt is put after it. One that defines the function itself goes
    after the imports and helpers above it in the prompt. A method is given a name at the top.
    """
    if isinstance(gold, Script):
        program = programs.chosen(extracted, (), is_script=True)
        return _with_imports(program, imports == "all"), None
    entry = gold.function if isinstance(gold, Calls) else gold.entry
    owner, method = _split(entry)
    wanted = {method} if isinstance(gold, Calls) else gold.wanted
    program = programs.chosen(extracted, filter(None, wanted), is_script=False)
    if method:
        program = _after_prompt(program, method, owner, prompt)
        program = _named(program, method, owner)
    return _with_imports(
        program, imports == "all" or (imports == "auto" and _is_usual(gold))
    ), method


def is_lazy(program: str, gold: Gold, prompt: str) -> bool:
    """Whether the annotations of a program stay text: they are of classes of its tests or prompt.

    Python refuses any other name that is not defined.
    """
    annotated = python_names.annotated(program)
    defined = python_names.classes(prompt)
    defined |= _NODES if _is_usual(gold) else frozenset()
    defined |= frozenset() if isinstance(gold, Script | Calls) else python_names.classes(gold.text)
    return bool(annotated) and annotated <= defined


def _is_usual(gold: Gold) -> bool:
    """Whether a judge of LeetCode's style would run the program."""
    if isinstance(gold, Script | Calls):
        return isinstance(gold, Calls)
    return bool(_split(gold.entry)[0] or _SOLUTION.search(gold.text))


def _split(entry: str | None) -> tuple[str | None, str | None]:
    """The class and the function of `f`, `Solution().f` or `Solution.f`."""
    parts = _ENTRY.match(entry) if entry else None
    return (parts["owner"], parts["method"]) if parts else (None, entry)


def _with_imports(program: str, is_asked: bool) -> str:
    return usual_imports.before(program, usual_imports.of(program)) if is_asked else program


def _begins(name: str) -> re.Pattern[str]:
    return re.compile(rf"^(?:async\s+)?(?:def|class)\s+{re.escape(name)}\b", re.MULTILINE)


def _defines(program: str, name: str) -> bool:
    known = python_names.of(program)
    if known is None:
        return _begins(name).search(program) is not None
    return name in known.defines | known.imports or bool(python_names.defined_within(program, name))


def _after_prompt(program: str, name: str, owner: str | None, prompt: str) -> str:
    """The program after what the prompt gives of it."""
    if not _defines(program, name):
        joined = prompt + program
        is_known = python_names.of(program) is not None and python_names.of(joined) is None
        return program if is_known else joined
    begun = _begins(owner or name).search(prompt)
    above = prompt[: begun.start()] if begun else ""
    given = prompt if not begun and owner and _only_defines(prompt) else above
    return usual_imports.before(program, given) if python_names.of(given) is not None else program


def _only_defines(text: str) -> bool:
    """Whether a text is Python that imports and defines, and no sentence that happens to parse."""
    known = python_names.of(text)
    return known is not None and not known.shows and bool(known.defines | known.imports)


def _named(program: str, method: str, owner: str | None) -> str:
    """The program with a function of a method's name, which makes an object for each call."""
    known = python_names.of(program)
    if known is None or method in known.defines:
        return program
    owners = python_names.defined_within(program, method)
    if not owners:
        return program
    wanted = owner or "Solution"
    class_name = wanted if wanted in owners else owners[-1]
    line = f"def {method}(*given, **named): return {class_name}().{method}(*given, **named)\n"
    return usual_imports.before(program, line)


def calling(gold: Calls, name: str, tolerance: float) -> str:
    """Python that defines `_passes(number)`, which calls the program for a test and asserts."""
    cases = [gold.arguments, gold.results]
    return _CALLING.format(
        cases=_spelled(cases),
        name=name,
        tolerance=tolerance,
        is_wrapped=gold.is_wrapped,
        has_text_keys=gold.has_text_keys,
    )


def _spelled(value: Any) -> str:
    """An expression of a value: short to compile where JSON can write it."""
    try:
        text = json.dumps(value)
        if json.loads(text) == value:
            return f"_json.loads({text!r})"
    except (TypeError, ValueError, RecursionError):
        pass
    return repr(value)
