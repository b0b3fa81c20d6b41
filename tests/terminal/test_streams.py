"""The streams of a process, as a shell may leave them."""

import fcntl
import os
import subprocess
import sys

import pytest

RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]


def ran(words, redirect="", **options):
    """A command of a shell with the streams redirected."""
    shell = ["bash", "-c", f'set -o pipefail; "$@" {redirect}', "bash", *map(str, words)]
    return subprocess.run(shell, capture_output=True, timeout=300, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="sets the size of a pipe")
def test_what_ends_reading_early_ends_the_command_without_a_word():
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)  # a pipe of usual size may take all of the list
    with subprocess.Popen([*RLVR, "list"], stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        with open(read, "rb", buffering=0) as pipe:
            assert pipe.read(11) == b"objectives\n"
        assert (process.wait(300), process.stderr.read()) == (141, b"")


@pytest.mark.parametrize(
    ("words", "redirect", "why"),
    [
        (["list"], ">/dev/full", b"No space left on device"),
        (["list", "tasks", "--json"], ">/dev/full", b"No space left on device"),
        (["--version"], ">/dev/full", b"No space left on device"),
        (["score", "--help"], ">/dev/full", b"No space left on device"),
        (["list"], ">&-", b"Bad file descriptor"),
    ],
)
def test_a_result_that_cannot_be_printed_is_an_error(words, redirect, why):
    made = ran([*RLVR, *words], redirect)
    assert made.returncode == 1
    error, hint = made.stderr.splitlines()
    assert error == b"error: cannot write to stdout: " + why and hint.startswith(b"hint: ")


def test_messages_that_cannot_be_printed_change_nothing_else(tmp_path):
    made = ran([*RLVR, "prompts", "task:expression", "--limit", "3"], "2>/dev/full", cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, b"prompts\n")


@pytest.mark.parametrize("redirect", ["2>/dev/full", "2>&-", "2> >(true)"])
def test_an_error_that_cannot_be_printed_is_in_the_exit_code(redirect):
    assert ran([*RLVR, "nope"], redirect).returncode == 2


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    """Else what a library prints would stand in the file that was opened first."""
    code = "import os, sys; from rlvr_cli.terminal import streams; streams.settle();"
    code += "sys.exit(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY))"
    made = ran([sys.executable, "-P", "-c", code, tmp_path / "new"], "<&- >&- 2>&-")
    assert made.returncode == 3  # the descriptor that the file got


def test_a_path_that_is_no_utf8_is_shown_as_text(tmp_path):
    made = ran([*RLVR, "check"], "$'a\\xff\\x1b[31m'", cwd=tmp_path)
    assert made.returncode == 3
    assert made.stderr.startswith("error: `a⟨U+DCFF⟩␛[31m` does not exist".encode())


@pytest.mark.parametrize(
    "settings",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "xx_YY.UTF-8"},
        {"PYTHONIOENCODING": "ascii"},
    ],
)
def test_any_locale_prints_what_it_can_and_escapes_the_rest(settings):
    words, env = [*RLVR, "list", "é\x1b"], {**os.environ, **settings}
    made = subprocess.run(words, env=env, capture_output=True)
    assert made.returncode == 2 and made.stdout == b""
    assert made.stderr.startswith((b"error: ", "é␛".encode())) and b"\x1b" not in made.stderr


def test_a_path_is_printed_exactly_where_the_encoding_lacks_it():
    code = "from rlvr_cli.terminal import streams, console; streams.settle();"
    code += "console.document('\\udcff\\xe9\\n')"
    words = [sys.executable, "-P", "-c", code]
    assert ran(words, env={**os.environ, "PYTHONIOENCODING": "ascii"}).stdout == b"\xff\\xe9\n"
    assert ran(words, env={**os.environ, "PYTHONIOENCODING": "utf-8"}).stdout == b"\xff\xc3\xa9\n"


@pytest.mark.parametrize("size", ["1", "1000000000", "²", "-1"])
def test_a_size_of_the_terminal_that_is_none_is_not_used(size):
    code = "import os; from rlvr_cli.terminal import streams; streams.settle();"
    code += "print(os.environ.get('COLUMNS'))"
    words = [sys.executable, "-P", "-c", code]
    for given, expected in ((size, "None"), ("100", "100")):
        made = ran(words, env={**os.environ, "COLUMNS": given})
        assert made.stdout.decode().split() == [expected]


def test_what_libraries_print_and_log_is_safe_and_keeps_its_colours():
    code = (
        "import logging, sys, warnings\n"
        "from rlvr_cli.terminal import streams\n"
        "streams.settle()\n"
        "logging.warning('\\x1b[31mred\\x1b[0m \\x1b[2J \\x1b[8mhidden \\x1b]0;title\\x07')\n"
        "warnings.warn('\\x9b2J')\n"
        "raise ValueError('\\x1b]8;;http://a\\x07')\n"
    )
    err = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True).stderr.decode()
    assert "\x1b[31mred\x1b[0m ␛[2J ␛[8mhidden ␛]0;title␇" in err
    assert "⟨U+009B⟩2J" in err and "ValueError: ␛]8;;http://a␇" in err
