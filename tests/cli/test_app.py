import ast
import io
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_cli.cli import app

BIN = Path(sys.executable).parent
COMMANDS = Path(app.__file__).parents[1] / "commands"
HEAVY = {"torch", "transformers", "pyarrow", "numpy", "sklearn", "scipy", "datasets"}


def python(code: str, **options):
    """A fresh process; its stdout."""
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True, **options).stdout


def test_help_and_list_load_nothing_heavy(tmp_path):
    code = (
        "import sys; from rlvr_cli.cli import app;"
        " assert app.run(['--help']) == app.run(['list']) == 0"
        "; print('\\n' + ' '.join(sys.modules))"
    )
    loaded = set(python(code, cwd=tmp_path).splitlines()[-1].split())
    assert "typer" in loaded and not HEAVY & loaded


FILES = sorted([*COMMANDS.glob("[a-z]*.py"), *COMMANDS.glob("*/[a-z]*.py")])


def name_of(path: Path) -> str:
    """The command's name; `folder/name` in a folder of commands."""
    stem = path.stem.strip("_").replace("_", "-")
    return stem if path.parent == COMMANDS else f"{path.parent.name}/{stem}"


def test_the_folder_is_the_list_of_commands():
    stems = {path.stem.rstrip("_") for path in COMMANDS.glob("[a-z]*.py")}
    stems |= {path.parent.name for path in COMMANDS.glob("*/__init__.py")}
    assert sorted(stem.replace("_", "-") for stem in stems) == sorted(app.command_names())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_command_file_is_short_and_says_what_it_does(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    first = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    assert first.endswith(".") and first == app.summary(name_of(path))


@pytest.mark.parametrize("name", sorted({*app.command_names(), *map(name_of, FILES)}))
def test_a_command_explains_itself_and_each_option(rlvr, name):
    ran = rlvr(*name.split("/"), "--help")
    assert ran.code == 0 and ran.err == ""
    assert " ".join(app.summary(name).split()[:4]) in ran.out
    command = app._load(name)
    assert all(subcommand in ran.out for subcommand in app.subcommand_names(name))
    assert [p.name for p in command.params if not getattr(p, "help", "")] == []


def test_help_lists_every_command(rlvr):
    out = rlvr("--help").out
    assert all(name in out for name in app.command_names())


def test_version_is_one_line_on_stdout(rlvr):
    assert rlvr("--version").out.startswith("rlvr ")


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_no_command_shows_the_help_as_it_is(rlvr, words):
    ran = rlvr(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[0].split() == [
        "Usage:",
        "rlvr",
        *words,
        "[OPTIONS]",
        "COMMAND",
        "[ARGS]...",
    ]
    assert ran.err.split() == rlvr(*words, "--help").out.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["promts"], "did you mean `rlvr prompts`?"),
        (["train_step"], "did you mean `rlvr train-step`"),
        (["frobnicate"], "see `rlvr --help`"),
        (["--frobnicate"], "--frobnicate"),
        (["score", "--frobnicate"], "see `rlvr score --help`"),
        (["check", "a", "b"], "(b)"),
        (
            ["init"],
            "hint: as in `rlvr init --model builtin --data demo/prompts --out demo/run.toml`",
        ),
        (["compare"], "`rlvr compare` needs RUNS"),
        (["train", "--prompts"], "see `rlvr train --help`"),
        (["lab", "claims", "--seeds"], "see `rlvr lab claims --help`"),
        (["serve", "builtin", "--nnodes", 2], "`rlvr serve` has no option `--nnodes`"),
        (["doctor", "--nnodes", 2], "`rlvr doctor` has no option `--nnodes`"),
    ],
)
def test_a_wrong_word_is_answered_with_a_hint(refused, words, found):
    assert found in refused(2, *words)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("command", ["rollout", "score", "advantage", "train-step", "check", "ucc"])
def test_no_directory_on_a_terminal_is_a_usage_error(refused, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert "no directory was given" in refused(2, command)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("\n \n", 0), ("a\nb\n", 2)])
@pytest.mark.parametrize("words", [["check"], ["check", "-"]])
def test_stdin_must_hold_the_path_of_one_directory(refused, monkeypatch, text, count, words):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert f"stdin holds {count} lines" in refused(2, *words)


@pytest.mark.parametrize("words", [["check"], ["check", "-"]])
def test_the_path_can_come_from_stdin(rlvr, chain, monkeypatch, words):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{chain / 'scores'}\n"))
    assert rlvr(*words).out == f"{chain / 'scores'}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"), [(["list"], 0), (["promts"], 2), (["check", "nope"], 3)]
)
def test_the_process_ends_with_the_code_of_its_error(tmp_path, words, code):
    ran = subprocess.run([BIN / "rlvr", *words], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == code
    assert bool(ran.stdout) == (code == 0)
    assert [line.partition(" ")[0] for line in ran.stderr.splitlines()] == (
        ["error:", "hint:"] if code else []
    )


def test_an_interrupt_keeps_what_is_done_and_says_how_to_go_on(rlvr, monkeypatch):
    class Stopped(io.StringIO):
        def read(self, *_):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Stopped())
    ran = rlvr("check")
    assert (ran.code, ran.out) == (75, "")
    assert ran.err == (
        "error: interrupted; finished parts are kept\nhint: resume with `rlvr check`\n"
    )


def test_a_path_with_a_line_end_comes_through_a_pipe(rlvr, chain, tmp_path, monkeypatch):
    folder = tmp_path / "a\nb"
    shutil.copytree(chain, folder)
    for command in ("check", "eval-passk"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{folder}/scores\n"))
        ran = rlvr(command, "-")
        assert ran.code == 0, ran.err


@pytest.mark.parametrize("command", ["check", "eval-passk"])
def test_paths_with_nul_between_them_are_refused(refused, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\0b\0"))
    assert "stdin holds a NUL character" in refused(2, command, "-")


def test_an_interrupt_names_the_directory_that_came_through_the_pipe(
    rlvr, chain, tmp_path, monkeypatch
):
    (tmp_path / "stop.py").write_text("def build():\n    raise KeyboardInterrupt\n")
    words = ("advantage", "--algo", f"{tmp_path}/stop.py:build", "--out", tmp_path / "a")
    for given in ((), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{chain}/scores\n"))
        ran = rlvr(*words, *given)
        command = shlex.join(["rlvr", *map(str, words), f"{chain}/scores"])
        assert ran.err.endswith(f"hint: resume with `{command}`\n"), ran.err


def test_a_command_ends_without_the_destructors_of_libraries():
    """Those of pyarrow abort at times: `terminate called without an active exception`, code 134."""
    code = (
        "import sys\n"
        "class Noisy:\n"
        "    def __del__(self): print('torn down', flush=True)\n"
        "sys.noisy = Noisy()\n"
        "from rlvr_cli.cli import app\n"
        "sys.argv = ['rlvr', *sys.argv[1:]]\n"
        "app.main()\n"
    )
    for arguments, expected in ((["list", "tasks", "--json"], 0), (["score", "nothing"], 3)):
        words = [sys.executable, "-P", "-c", code, *arguments]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert ran.returncode == expected, ran.stderr
        assert "torn down" not in ran.stdout
