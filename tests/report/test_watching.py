"""A report that is written again while a run goes on."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlvr_cli.report import page, sources, watching
from rlvr_cli.storage import atomic, locks
from tests.report import browser as driver

RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]


@pytest.fixture
def early(trained, tmp_path):
    """A run after its first of two steps, and what lets it take the second."""
    run = shutil.copytree(trained, tmp_path / "run")
    last = shutil.move(run / "eval" / "000002", tmp_path / "later")
    step = shutil.move(run / "steps" / "000002", tmp_path / "step")
    log = run / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))

    def go_on() -> None:
        shutil.move(step, run / "steps" / "000002")
        with log.open("a") as file:
            file.write(lines[-1])
        shutil.move(last, run / "eval" / "000002")

    return run, go_on


@pytest.fixture
def watched(tmp_path):
    """Watches paths in a thread; its report once it has ended."""
    out = tmp_path / "r.html"
    results: list = []

    def start(*paths: Path) -> threading.Thread:
        def work() -> None:
            try:
                results.append(watching.watch(list(paths), out, page.make, every_s=0.05))
            except Exception as error:
                results.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    return start, out, results


def until(holds) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "waited for two minutes"
        time.sleep(0.02)


def holds(out: Path, text: str) -> bool:
    return out.exists() and text in out.read_text()


def test_a_run_that_goes_on_is_shown_at_each_step_until_it_ends(early, watched, report):
    run, go_on = early
    start, out, results = watched
    with locks.locked(run / "_lock"):
        thread = start(run)
        until(lambda: holds(out, "data-reload"))
        assert "step 1" in out.read_text() and "step 2" not in out.read_text()
        go_on()
        until(lambda: holds(out, "step 2"))
        assert holds(out, "data-reload") and thread.is_alive()
    thread.join(120)
    assert out.read_text() == results[0].html == report(run).html


@pytest.mark.slow
def test_what_did_not_change_is_not_written_again(early, watched):
    run, go_on = early
    start, out, _ = watched
    with locks.locked(run / "_lock"):
        thread = start(run)
        until(out.exists)
        with out.open() as first:  # while it is open, no other file has its number
            os.utime(run / "metrics.jsonl")  # looked at again, with the same outcome
            time.sleep(0.5)
            assert out.stat().st_ino == os.fstat(first.fileno()).st_ino
            go_on()
            until(lambda: out.stat().st_ino != os.fstat(first.fileno()).st_ino)
    thread.join(120)


@pytest.mark.slow
def test_a_run_that_stopped_before_its_last_step_is_no_longer_watched(early, watched):
    run, _ = early
    start, out, results = watched
    with locks.locked(run / "_lock"):
        thread = start(run)
        until(out.exists)
    thread.join(120)
    assert not thread.is_alive() and not holds(out, "data-reload") and len(results) == 1


@pytest.mark.slow
def test_a_run_that_no_process_works_on_is_awaited_and_that_is_said(early, watched, capsys):
    run, go_on = early
    start, out, _ = watched
    thread = start(run)
    until(lambda: "no process here works on it: it is awaited" in capsys.readouterr().err)
    assert thread.is_alive()
    go_on()
    thread.join(120)
    assert holds(out, "step 2") and not holds(out, "data-reload")


@pytest.mark.slow
def test_a_run_without_a_step_yet_is_awaited(early, watched, tmp_path, capsys):
    run, go_on = early
    start, out, _ = watched
    log, evaluations = run / "metrics.jsonl", run / "eval"
    text = log.read_text()
    log.unlink(), evaluations.rename(tmp_path / "evaluations")
    with locks.locked(run / "_lock"):
        thread = start(run)
        until(lambda: "has no finished step yet; it is looked at again" in capsys.readouterr().err)
        assert thread.is_alive() and not out.exists()
        (tmp_path / "evaluations").rename(evaluations), log.write_text(text)
        until(out.exists)
        go_on()
    thread.join(120)
    assert holds(out, "step 2")


def test_a_run_that_died_before_its_first_step_is_an_error(early, watched, capsys):
    run, _ = early
    start, out, results = watched
    shutil.rmtree(run / "eval"), (run / "metrics.jsonl").unlink()
    with locks.locked(run / "_lock"):
        thread = start(run)
        until(lambda: "has no finished step yet" in capsys.readouterr().err)
    thread.join(120)
    assert isinstance(results[0], sources.NothingYet) and not out.exists()


def test_damage_is_an_error_at_once(early, refused, tmp_path):
    run, _ = early
    (part,) = (run / "eval" / "000001" / "scores").glob("part-*")
    part.write_bytes(part.read_bytes()[:100])
    err = refused(3, "report", run, "--watch", "--out", tmp_path / "r.html")
    assert "does not match its checksum" in err


def test_a_path_that_is_wrong_is_an_error_at_once(early, refused, tmp_path):
    err = refused(3, "report", early[0], "nope", "--watch", "--out", tmp_path / "r.html")
    assert "`nope` does not exist" in err


def test_scores_alone_cannot_be_watched(refused, known, tmp_path):
    err = refused(2, "report", known, "--watch", "--out", tmp_path / "r.html")
    assert f"hint: leave --watch out: rlvr report {known}" in err


def test_a_finished_run_is_written_once(rlvr, trained, report, tmp_path):
    out = tmp_path / "r.html"
    ran = rlvr("report", trained, "--watch", "--out", out, "--json")
    assert ran.code == 0 and ran.err.count("shows step 2 of 2") == 1
    assert json.loads(ran.out)["path"] == str(out) and out.read_text() == report(trained).html


@pytest.mark.slow
def test_a_real_run_is_watched_from_its_start_to_its_end(tmp_path):
    run, out = tmp_path / "run", tmp_path / "r.html"
    words = ["--steps=3", "--prompts-per-step=2", "-n2", "--max-new-tokens=8", "--eval-every=1",
             "--eval-num-generations=2"]  # fmt: skip
    train = subprocess.Popen([*RLVR, "train", *words, "--out", run], stderr=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL)  # fmt: skip
    until(lambda: (run / "_lock").exists() or train.poll() is not None)
    watch = subprocess.Popen(
        [*RLVR, "report", run, "--watch", "--interval=1", "--out", out],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while watch.poll() is None:
        assert not out.exists() or out.read_text().rstrip().endswith("</html>")
        time.sleep(0.02)
    said, err = watch.communicate()
    assert train.wait() == 0 and (watch.returncode, said) == (0, f"{out}\n"), err
    assert "shows step 3 of 3" in err and not holds(out, "data-reload")


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_control_c_ends_it_with_a_page_that_no_longer_loads_itself(early, tmp_path, sent):
    run, _ = early
    out = tmp_path / "r.html"
    with locks.locked(run / "_lock"):
        watch = subprocess.Popen(
            [*RLVR, "report", run, "--watch", "--interval=60", "--out", out],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: holds(out, "data-reload") or watch.poll() is not None)
        watch.send_signal(sent)
        said, err = watch.communicate()
    assert (watch.returncode, said) == (0, f"{out}\n"), err
    assert "watching ended" in err and not holds(out, "data-reload")
    assert out.read_text().rstrip().endswith("</html>")


@pytest.mark.slow
@pytest.mark.skipif(driver.CHROMIUM is None, reason="chromium is not installed")
def test_an_open_page_loads_itself_again_where_the_reader_was(trained, tmp_path):
    out = tmp_path / "r.html"
    make = functools.partial(page.make, sources.open_all([trained]))
    ended = "document.readyState === 'complete' && !document.documentElement.dataset.reload"
    place = "scrollY > 1200 && scrollY < 1270 && location.hash"
    fold = "document.querySelectorAll('details')[1]"
    with driver.opened(tmp_path / "profile") as browser:
        browser.size(900, 600)
        out.write_text(make(reload_s=3).html)
        browser.open(out)
        eyebrow = browser.run("document.querySelector('.eyebrow').textContent")
        assert "live, loads itself again every 3 s" in eyebrow
        browser.run(f"location.hash = 'training'; {fold}.open = true; window.before = true")
        browser.run("scrollTo({ top: 1234, behavior: 'instant' })")
        browser.wait("window.before !== true")
        browser.wait(f"({place}) === '#training' && {fold}?.open")
        atomic.write_atomic(out, make().html.encode())
        browser.wait(ended)
        browser.wait(f"({place}) === '#training' && {fold}?.open")
        assert "live" not in browser.run("document.querySelector('.eyebrow').textContent")
        assert not browser.said
