"""Counts what a user writes for a first run of GRPO: `python -P benchmarks/first_hour.py`.

benchmarks/first_hour/ has a folder for rlvr, TRL and verl, each with the same task: from rows of
`question` and `answer` in gsm8k.jsonl and a model directory to a trained model in the format of
Hugging Face. run.sh holds the commands that are typed, the other files are those that the user
writes. Prints a Markdown table:

    files       that the user writes
    commands    that the user types; an end of line after a backslash ends none
    lines       of both that are neither blank nor a comment
    values      that the user sets: options and `key=value` of commands; keyword arguments of calls
                and keys of dicts in files
    characters  of those lines, without the space before and after them
"""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent / "first_hour"
TOOLS = ("rlvr", "trl", "verl")
_OPTION = re.compile(r"--\w[\w-]*|\w+(\.\w+)+=\S+")


def lines(path: Path) -> list[str]:
    """The lines that are neither blank nor a comment, stripped."""
    stripped = (line.strip() for line in path.read_text().splitlines())
    return [line for line in stripped if line and not line.startswith("#")]


def commands(path: Path) -> list[str]:
    """The commands of a script, each on one line."""
    return "\n".join(lines(path)).replace("\\\n", " ").splitlines()


def values(path: Path) -> int:
    if path.suffix == ".sh":
        words = " ".join(commands(path)).split()
        return sum(bool(_OPTION.fullmatch(word)) for word in words)
    nodes = list(ast.walk(ast.parse(path.read_text())))
    keywords = sum(len(node.keywords) for node in nodes if isinstance(node, ast.Call))
    return keywords + sum(len(node.keys) for node in nodes if isinstance(node, ast.Dict))


def counts(tool: str) -> dict[str, int]:
    """The figures of the module's docstring for one tool."""
    paths = sorted((HERE / tool).iterdir())
    kept = [line for path in paths for line in lines(path)]
    return {
        "files": len(paths) - 1,
        "commands": len(commands(HERE / tool / "run.sh")),
        "lines": len(kept),
        "values": sum(map(values, paths)),
        "characters": sum(map(len, kept)),
    }


def table() -> str:
    names = list(counts(TOOLS[0]))
    rows = [[f"`{tool}`", *map(str, counts(tool).values())] for tool in TOOLS]
    head = ["| " + " | ".join(["", *names]) + " |", "|---" + "|---:" * len(names) + "|"]
    return "\n".join([*head, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    print(table())
