"""The imports that LeetCode and LiveCodeBench's runner put before a program.

Only those that a program needs: it reads a name that it defines nowhere.
"""

import functools
import importlib

from rlvr_cli.verification.parsing import fences, python_names

# As LiveCodeBench's runner imports all of each, so that a later module's name wins.
_MODULES = ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random",
            "statistics", "itertools", "functools", "operator", "io", "sys", "json",
            "typing")  # fmt: skip


@functools.cache
def _sources() -> dict[str, str]:
    """The module that a name is imported from."""
    sources: dict[str, str] = {}
    for name in _MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]
        sources |= dict.fromkeys(public, name)
    return sources


def of(program: str) -> str:
    """Lines of Python that import what a program needs and does not import; maybe none."""
    known = python_names.of(program)
    if known is None:
        return ""
    lines = []
    for name in sorted(known.needs):
        if name in _MODULES:
            lines.append(f"import {name}\n")
        elif name in _sources():
            lines.append(f"from {_sources()[name]} import {name}\n")
    return "".join(lines)


def before(program: str, lines: str) -> str:
    """A program with lines before it, but after those that must be first."""
    if not lines:
        return program
    if "__future__" not in program:
        return lines + program
    try:
        body = fences.parsed(program).body
    except SyntaxError:
        return program
    last = max((n.end_lineno or 0 for n in body if getattr(n, "module", "") == "__future__"),
               default=0)  # fmt: skip
    split = program.split("\n")
    return "\n".join(split[:last]) + "\n" * bool(last) + lines + "\n".join(split[last:])
