import shlex

import pytest

from rlvr_cli.cli import app

LAB = ["--seeds=2", "--jobs=1"]
SMALL = {  # what makes an example cheap enough to run here
    "train": ["--steps=2", "--prompts-per-step=4", "-n4", "--eval-num-generations=2"],
    "branch": ["--at=1"],
    "lab sharpening": [*LAB, "--steps=5", "--format=none"],
    "lab squeeze": [*LAB, "--format=none"],
    "lab two-stage": [*LAB, "--steps=5", "--format=none"],
    "lab claims": LAB,
}
# The Hub, a terminal, a GGUF file, long, without an end, and a store.
PARSED_ONLY = ("bench", "view", "convert", "lab figures", "serve", "push", "pull")
SAMPLES = """\
{"id": "a", "prompt": "5=", "answer": "5", "completion": "2+3", "correct": true}
{"id": "a", "prompt": "5=", "answer": "5", "completion": "1+1", "correct": false}
"""


def test_the_page_is_made_from_the_code(up_to_date):
    up_to_date("cli.md")


def test_every_command_shows_an_example_of_itself(reference):
    for path in reference.command_paths():
        assert any(line.startswith(f"rlvr {path} ") for line in reference.examples(path)), path


def test_every_option_is_on_the_page(reference):
    text = reference.page("cli.md")
    for path in reference.command_paths():
        section = text.partition(f"## rlvr {path}\n")[2].partition("\n## ")[0]
        command = app._load(path.replace(" ", "/"))
        for name in {flag for p in command.params for flag in p.opts if flag.startswith("-")}:
            assert name == "--help" or f"`{name}`" in section, (path, name)


@pytest.mark.parametrize("path", PARSED_ONLY)
def test_an_example_that_is_not_run_has_options_that_exist(rlvr, reference, path):
    for line in reference.examples(path):
        assert rlvr(*shlex.split(line)[1:], "--help").code == 0, line


@pytest.mark.slow
def test_the_examples_run_one_after_another(rlvr, reference, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "samples.jsonl").write_text(SAMPLES)
    paths = reference.command_paths()
    for line in [line for path in paths for line in reference.examples(path)]:
        words = shlex.split(line)[1:]
        path = next(p for p in sorted(paths, reverse=True) if f"{shlex.join(words)} ".startswith(p))
        if path not in PARSED_ONLY:
            ran = rlvr(*words, *SMALL.get(path, []))
            assert ran.code == 0, (line, ran.err)
