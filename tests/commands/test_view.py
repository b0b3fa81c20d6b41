import os
import pty
import subprocess
import sys
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


def test_a_part_that_was_cut_is_refused(refused, copy):
    part = copy / "rollouts" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:100])
    assert "does not match its checksum" in refused(3, "view", copy)


@pytest.mark.slow
def test_it_runs_on_a_terminal_and_leaves_it_as_it_was(jsonl, rlvr, tmp_path):
    hostile = "\x1b]0;pwned\x07\x1b[5;5H"
    rows = [{"id": "a", "prompt": "?", "completion": hostile, "correct": True}]
    rlvr("import", jsonl(*rows), "--out", tmp_path / "i")
    main, side = pty.openpty()
    os.set_blocking(main, False)
    words = [sys.executable, "-c", "from rlvr_cli.cli.app import main; main()", "view"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    process = subprocess.Popen(
        [*words, str(tmp_path / "i")], stdin=side, stdout=side, stderr=side, env=environment,
        start_new_session=True,
    )  # fmt: skip
    os.close(side)
    written = b""
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
        written += _read(main)
        if b"pwned" in written:
            os.write(main, b"q")
    written += _read(main)
    os.close(main)
    assert process.wait() == 0, written[-2000:]
    assert b"\x1b[?1049h" in written and b"\x1b[?1049l" in written
    assert "␛]0;pwned␇".encode() in written
    assert b"\x1b]0;pwned" not in written and b"\x1b[5;5Hsample" not in written


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
