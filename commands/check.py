"""Checks that a directory or a run is complete and intact.

It reads every part, compares it with its checksum, and shows which command wrote it. A damaged or
incomplete directory is an error with exit code 3.

    rlvr check demo/advantages
"""

from rlvr_cli.cli import options, sources
from rlvr_cli.errors import DataError
from rlvr_cli.terminal import console, plural, results

_SUMMARY = "{kind}, {rows:row}, {parts:part}"


def command(path: options.Source = None, json: options.Json = False) -> None:
    from rlvr_cli.loop import checking
    from rlvr_cli.storage import run_folders

    where = sources.source(path)
    if run_folders.is_run(where):
        damaged, facts = checking.run(where)
        for error in damaged[1:]:
            console.say(f"check: {error}")
        if damaged:
            raise DataError(str(damaged[0]), damaged[0].hint)
        if not json:
            count = plural.of(facts["directories"], "directory", "directories")
            console.say(f"`{facts['path']}` is complete and intact: {count}")
            console.remark("branched from", *checking.origins_of(where))
        return console.result(where, facts, as_json=json)
    facts = checking.directory(where)
    if not json:
        console.say(f"`{where}` is complete: {plural.filled(_SUMMARY, facts)}")
        results.facts(facts)
    console.result(where, facts, as_json=json)
