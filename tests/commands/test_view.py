import fcntl
import io
import os
import pty
import subprocess
import sys
import termios
import time

import pytest


def test_without_a_terminal_it_is_refused_with_what_to_type(refused, known):
    err = refused(2, "view", known)
    assert "needs a terminal" in err and f"hint: write a file instead: rlvr report {known}" in err


@pytest.mark.parametrize(
    ("name", "message"),
    [("nope", "does not exist"), ("prompts", "holds prompts"), ("nope.jsonl", "does not exist")],
)
def test_what_cannot_be_read_is_refused(refused, known, name, message):
    assert message in refused(3, "view", known / name)


def test_more_than_two_paths_are_refused_with_what_to_type(refused):
    assert "hint: name two of them: rlvr view a c" in refused(2, "view", "a", "b", "c")


def test_stdin_without_a_terminal_is_refused_with_a_command_that_measures_it(refused, monkeypatch):
    row = '{"id": "a", "completion": "x", "correct": true}'
    monkeypatch.setattr(sys, "stdin", io.StringIO(row))
    assert "hint: measure it instead: rlvr eval-passk -" in refused(2, "view", "-")
    assert "`-` is named twice" in refused(2, "view", "-", "-")


def test_a_file_without_a_terminal_is_refused_with_a_command_that_measures_it(refused, rlvr, jsonl):
    path = jsonl({"id": "a", "completion": "x", "correct": True})
    assert f"hint: measure it instead: rlvr eval-passk {path}" in refused(2, "view", path)
    assert rlvr("eval-passk", path).code == 0
    assert "hint" not in refused(2, "view", jsonl({"id": "a", "completion": "x"}))


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--completion-column=nope"], "has no column `nope`"), ([], "has none of the columns")],
)
def test_columns_that_are_not_there_are_refused(refused, jsonl, words, message):
    row = {"id": "a", "completion": "x"} if words else {"completion": "x"}
    assert message in refused(3, "view", jsonl(row), *words)


def test_a_part_that_was_cut_is_refused(refused, copy):
    part = copy / "rollouts" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:100])
    assert "does not match its checksum" in refused(3, "view", copy)


HOSTILE = "\x1b]0;pwned\x07\x1b[5;5H"
ROW = {"id": "a", "prompt": "?", "completion": HOSTILE, "correct": True}


def run_until(
    seen: bytes, *words: object, piped: object = None, **variables: str
) -> tuple[int, bytes]:
    """Runs the viewer on a terminal of its own until it shows something, then quits it.

    A file that is `piped` is its stdin, in place of the terminal.
    """
    main, side = pty.openpty()
    os.set_blocking(main, False)
    command = [sys.executable, "-c", "from rlvr_cli.cli.app import main; main()", "view"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    stdin = os.open(str(piped), os.O_RDONLY) if piped else side
    process = subprocess.Popen(
        [*command, *map(str, words)], stdin=stdin, stdout=side, stderr=side,
        env=environment | variables, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    for descriptor in {side, stdin}:
        os.close(descriptor)
    written = b""
    end = time.monotonic() + 120
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.1)
        written += _read(main)
        if seen in written:
            os.write(main, b"q")
    written += _read(main)
    os.close(main)
    return process.returncode, written


@pytest.mark.slow
@pytest.mark.parametrize("is_imported", [True, False])
def test_it_runs_on_a_terminal_and_leaves_it_as_it_was(jsonl, rlvr, tmp_path, is_imported):
    path = jsonl(ROW)
    if is_imported:
        rlvr("import", path, "--out", tmp_path / "i")
    code, written = run_until(b"pwned", tmp_path / "i" if is_imported else path)
    assert code == 0, written[-2000:]
    assert b"\x1b[?1049h" in written and b"\x1b[?1049l" in written
    assert "␛]0;pwned␇".encode() in written
    assert b"\x1b]0;pwned" not in written and b"\x1b[5;5Hsample" not in written


@pytest.mark.slow
@pytest.mark.parametrize("is_path", [True, False])
def test_keys_come_from_the_terminal_where_stdin_is_data(jsonl, rlvr, tmp_path, is_path):
    piped = jsonl(ROW)
    if is_path:  # as the command before in a pipe prints it
        ran = rlvr("import", piped, "--out", tmp_path / "i")
        piped = tmp_path / "path"
        piped.write_text(ran.out)
    code, written = run_until(b"pwned", "-", piped=piped)
    assert code == 0, written[-2000:]


@pytest.mark.slow
def test_no_color_is_no_end_of_it(jsonl):
    code, written = run_until(b"pwned", jsonl(ROW), NO_COLOR="1")
    assert code == 0 and b"Traceback" not in written


@pytest.mark.slow
def test_a_terminal_in_another_encoding_gets_letters_that_it_has(jsonl):
    code, written = run_until(b"pwned", jsonl(ROW), PYTHONIOENCODING="latin-1")
    assert code == 0, written[-2000:]
    assert b"+ right" in written and written.decode("latin-1").isascii()


@pytest.mark.slow
def test_an_error_in_a_later_row_is_the_last_word_and_the_exit_code(jsonl):
    path = jsonl(*[ROW] * 300)
    with path.open("a") as file:
        file.write("{broken\n")
    code, written = run_until(b"before an error", path)
    assert code == 3 and b"line 301 is not JSON" in written.rpartition(b"\x1b[?1049l")[2]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 20)
    except (BlockingIOError, OSError):
        return b""


def test_a_missing_package_is_named_with_its_extra(known, monkeypatch):
    pytest.importorskip("pandas")  # loaded: else pyarrow would learn here that it is absent
    from rlvr_cli.errors import UsageError
    from rlvr_cli.viewer import start

    class Terminal:
        def isatty(self) -> bool:
            return True

    for name in ("__stdin__", "__stderr__"):
        monkeypatch.setattr(sys, name, Terminal())
    monkeypatch.setitem(sys.modules, "textual", None)
    for name in [n for n in sys.modules if n.startswith(("textual.", "rlvr_cli.viewer.app"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "rlvr_cli.viewer.panes", raising=False)
    with pytest.raises(UsageError) as caught:
        start.view([known], None, {})
    assert caught.value.hint == "pip install 'rlvr[view]'"
