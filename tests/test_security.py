"""Nothing that is read runs: completions, golds, templates, names of files (docs/security.md)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rlvr_cli
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, Untrusted
from rlvr_cli.models import chat, policy, tokenizers
from rlvr_cli.specs import trust, user_code
from rlvr_cli.verification.scoring import rewards
from rlvr_cli.verification.scoring.scorer import Question, Scorer

ROOT = Path(rlvr_cli.__file__).parents[1]
MARK = "__import__('pathlib').Path('ran').touch()"
EVIL = (
    MARK, rf"\boxed{{{MARK}}}", f"<answer>{MARK}</answer>", f"The answer is {MARK}",
    rf"$\input{{|touch ran}}$ \write18{{touch ran}} \boxed{{\text{{{MARK}}}}}",
    f"```python\n{MARK}\n```", f"<tool_call>{MARK}</tool_call>", f'{{"a": {MARK}}}',
    "!!python/object/apply:os.system ['touch ran']", "$(touch ran) `touch ran` ; touch ran",
)  # fmt: skip
VERIFIERS = ("math:timeout_s=60", "number", "choice", "expression", "qa", "text",
             "text:match=regex,timeout_s=60", "json:timeout_s=60",
             "json:against=schema,timeout_s=60", "json:against=calls,timeout_s=60", "format",
             "code:timeout_s=60")  # fmt: skip
TEMPLATE = (
    "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    "{{ ''.__class__.__base__.__subclasses__() }}"
    "{{ cycler.__init__.__globals__.os.popen('touch ran').read() }}"
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_no_verifier_runs_what_a_completion_or_a_gold_holds(here):
    built = [part for spec in VERIFIERS for part in rewards.build(spec)]
    questions = [
        Question(part.spec, part.verifier, text, True, gold, {"prompt": EVIL[0]})
        for part in built
        for text in EVIL
        for gold in (text, "4")
    ]
    with Scorer(workers=1) as scorer:
        verdicts = scorer.verdicts(questions)
    assert len(verdicts) == len(questions) and not (here / "ran").exists()
    assert {verdict.status for verdict in verdicts} <= {"ok", "no_answer", "bad_gold", "error"}


@pytest.mark.parametrize("template", re.findall(r"{{.*?}}(?={{|$)", TEMPLATE))
def test_templates_of_chats_are_rendered_in_a_sandbox(here, template):
    tokenizer = tokenizers.load(policy.resolve("builtin"))
    source = here / "t.jinja"
    source.write_text(template + "{{ messages }}")
    options = RolloutOptions(template=str(source))
    with pytest.raises(DataError):
        chat.Encoder(tokenizer, options).encode("a", json.dumps("5="), raw=False)
    assert not (here / "ran").exists()


def test_a_trusted_file_that_is_replaced_while_a_command_runs_is_refused(here):
    (here / "good.py").write_text("def f(completion, answer, extra):\n    return 1\n")
    (here / "evil.py").write_text(MARK)
    (here / "link.py").symlink_to("good.py")
    with trust.trusting(trust.named_in(["--verifier", "good.py:f", "./link.py:f"])):
        (here / "link.py").unlink()
        (here / "link.py").symlink_to("evil.py")
        with pytest.raises(Untrusted, match=r"link\.py` is code that a specification names"):
            user_code.of_file("link.py", "f")
        (here / "good.py").write_text(MARK)
        for use in (lambda: user_code.of_file("good.py", "f"), lambda: rewards.build("good.py:f")):
            with pytest.raises(DataError, match="has changed since this command began"):
                use()
    assert not (here / "ran").exists()


def test_the_name_of_a_file_that_a_shell_expands_trusts_no_other_file(here):
    (here / "evil.py").write_text(MARK)
    for name in ("evil.py:f", "custom:path=evil.py", "x=evil.py:f", "all:of=[evil.py:f]"):
        (here / name).write_text("{}")
        assert trust.named_in([name]) == trust.Named([], [], [], [])


def test_a_text_that_may_be_read_may_not_run(here):
    (here / "rubric").write_text(MARK)
    with trust.trusting(trust.named_in(["judge:model=m,url=http://h,rubric=rubric"])):
        trust.require_text("rubric")
        with pytest.raises(Untrusted):
            rewards.build("custom:path=rubric")
    assert not (here / "ran").exists()


@pytest.mark.slow
def test_python_in_the_current_folder_is_imported_by_no_process(here):
    """As where a data set is unpacked: also not by the processes that libraries start."""
    for name in ("sitecustomize", "usercustomize", "conftest", "json", "numpy", "torch", "rlvr_cli",
                 "multiprocessing", "encodings", "datasets"):  # fmt: skip
        (here / f"{name}.py").write_text(f"open({str(here / 'ran')!r}, 'w')\nraise SystemExit(9)\n")
    info = here / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlvr.verifiers]\nevil = json:x\n")
    row = {"id": "a", "prompt": "5=", "answer": "5", "completion": "$5$"}
    (here / "rows.jsonl").write_text(json.dumps(row) + "\n")
    command = [str(Path(sys.executable).with_name("rlvr"))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for words in (
        ["import", "rows.jsonl", "--out=i"],
        ["score", "i/rollouts", "--out=s", "--verifier=math"],
        ["list", "verifiers"],
    ):
        ran = subprocess.run(
            [*command, *words], capture_output=True, text=True, env=environment, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert "evil" not in ran.stdout
    assert not (here / "ran").exists()


@pytest.mark.slow
def test_processes_that_multiprocessing_starts_import_nothing_from_the_current_folder(
    here, tmp_path_factory
):
    (here / "multiprocessing.py").write_text(f"open({str(here / 'ran')!r}, 'w')\n")
    script = tmp_path_factory.mktemp("bin") / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "from rlvr_cli.cli import app\n"
        "def run(words):\n"
        "    child = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    child.start(), child.join()\n"
        "    return child.exitcode\n"
        "app.run = run\n"
        "if __name__ == '__main__':\n"
        "    app.main()\n"
    )
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert not (here / "ran").exists()
