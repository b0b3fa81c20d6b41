"""Paired differences of two runs over the same prompts.

Takes two run directories of train (their last evaluations), or two scores directories.
"""

from pathlib import Path

from rlvr_cli import console, options


def command(a: Path, b: Path, json: options.Json = False) -> None:
    from rlvr_cli import reporting
    from rlvr_cli.stages import comparison

    made = comparison.compare(a, b)
    if json:
        return console.result(b, made.as_json(), as_json=True)
    rows = dict(made.rows)
    console.stdout().print(f"{made.title}, mean [95% interval]", markup=False)
    console.stdout().print(reporting.comparison_table(["first", "second"], rows, "second - first"))
