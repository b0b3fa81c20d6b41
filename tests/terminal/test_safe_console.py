"""Text of data on a terminal: it is read, and does nothing else."""

import ast
import io
import os
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.style import Style
from rich.table import Table
from rich.text import Text

import rlvr_cli
from rlvr_cli.terminal import console
from rlvr_cli.terminal.braille_plot import line_plot
from rlvr_cli.terminal.safe_console import SafeConsole

EVIL = (
    "\x1b[2J\x1b]8;;http://a\x07b\x9b31m\x08\r\x00\u202e\ud800[red]x[/red][link=http://a]y[/link]"
)
SEEN = "␛[2J␛]8;;http://a␇b⟨U+009B⟩31m␈␍␀⟨U+202E⟩⟨U+D800⟩[red]x[/red][link=http://a]y[/link]"


def terminal() -> SafeConsole:
    return SafeConsole(file=io.StringIO(), force_terminal=True, width=400, color_system=None)


def printed(*what: object) -> str:
    made = terminal()
    for one in what:
        made.print(one, soft_wrap=True)
    return made.file.getvalue()


def table() -> Table:
    made = Table(EVIL, title=EVIL, box=None)
    made.add_row(EVIL)
    made.add_row(Text(EVIL))
    return made


@pytest.mark.parametrize("what", [EVIL, Text(EVIL), table()], ids=["text", "rich", "table"])
def test_control_characters_and_markup_are_shown_and_do_nothing(what):
    out = printed(what)
    assert SEEN in out or isinstance(what, Text)  # which leaves \a, \b and \r out itself
    assert not {c for c in out if ord(c) < 32 or 127 <= ord(c) < 160} - {"\n"}


def test_a_table_is_as_wide_as_what_it_shows():
    made = Table("a", "b", box=None)
    made.add_row("\x1b\u202e", "x")
    made.add_row("1", "x")
    assert len({line.rfind("x") for line in printed(made).splitlines()[1:]}) == 1


def test_a_link_of_a_style_is_left_out():
    made = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="truecolor")
    made.print(Text("here", Style(link="http://a/\x1b[2J", bold=True)))
    assert made.file.getvalue() == "\x1b[1mhere\x1b[0m\n"


def test_the_text_of_a_live_bar_is_safe_too():
    made = terminal()
    with Progress(TextColumn("{task.description}", markup=False), console=made) as progress:
        progress.add_task(EVIL, total=1)
    assert "␛[2J" in made.file.getvalue() and "\x1b[2J" not in made.file.getvalue()


def test_what_a_library_prints_while_a_bar_is_live_is_safe_too():
    made = terminal()
    with Progress(console=made):
        made.print(Text.from_ansi("\x1b]8;;http://a\x1b\\b\x1b]8;;\x1b\\"))
    assert "http://a" not in made.file.getvalue()


def test_the_names_of_a_plot_are_safe_and_its_colours_stay():
    plot = line_plot({EVIL: [(0.0, 0.0), (1.0, 1.0)]}, title=EVIL, width=200, colour=True)
    made = SafeConsole(file=io.StringIO(), force_terminal=True, width=400, color_system="standard")
    console.draw(made, plot)
    assert made.file.getvalue().count(SEEN) == 2
    assert "\x1b[34m" in made.file.getvalue() and "\x1b[2J" not in made.file.getvalue()


def test_an_error_is_one_line_whatever_it_quotes(capsys):
    console.error(f"{EVIL}\nerror: not mine", f"{EVIL}\n\x1b[31m")
    assert capsys.readouterr().err == f"error: {SEEN} error: not mine\nhint: {SEEN} ␛[31m\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_result_is_exact_in_a_pipe_and_safe_on_a_terminal(monkeypatch):
    for stream, expected in ((io.StringIO(), "a\x1b[2Jb\n"), (Terminal(), "a␛[2Jb\n")):
        monkeypatch.setattr("sys.stdout", stream)
        console.document("a\x1b[2Jb\n")
        assert stream.getvalue() == expected


# Elsewhere nothing prints: what is printed passes the console. The lab's page and the log of
# `rlvr track`'s process are files, and a program under test has streams of its own.
ALLOWED = {
    "cli/app.py", "terminal/console.py", "terminal/streams.py", "terminal/safe_console.py",
    "tracking/process.py", "fixtures/make_policy.py", "fixtures/make_vision_policy.py",
}  # fmt: skip
OUT = {"print", "echo", "secho", "print_exc", "print_exception", "print_json"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}


def ways_out(tree: ast.Module):
    """The calls that print past the console: `print(...)`, `sys.stderr.write(...)`, `Console()`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in OUT | {"Console"}:
            yield node.lineno, called.id
        if not isinstance(called, ast.Attribute):
            continue
        of = ast.unparse(called.value)
        if called.attr in OUT - {"print"} or of in ("rich", "pprint"):
            yield node.lineno, ast.unparse(called)
        if called.attr in ("write", "writelines") and of.startswith("sys.std"):
            yield node.lineno, ast.unparse(called)
        if any(k.arg == "file" and "sys." in ast.unparse(k.value) for k in node.keywords):
            yield node.lineno, ast.unparse(called)
        if called.attr == "Console":
            yield node.lineno, ast.unparse(called)


def test_nothing_prints_but_through_the_console():
    root, found = Path(rlvr_cli.__file__).parent, []
    for folder, _, names in os.walk(root, followlinks=True):
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            place = path.relative_to(root).as_posix()
            if place not in ALLOWED and not place.startswith("verification/sandbox/"):
                found += [(place, *way) for way in ways_out(ast.parse(path.read_text()))]
    assert found == []


@pytest.mark.parametrize(
    "code",
    ["print(1)", "sys.stderr.write('')", "Console()", "typer.echo(1)", "rich.print(1)",
     "x.f(file=sys.stderr)", "traceback.print_exc()"],
)  # fmt: skip
def test_each_way_out_is_recognised(code):
    assert len(list(ways_out(ast.parse(code)))) >= 1
