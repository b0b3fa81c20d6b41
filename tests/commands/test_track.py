import json
import shutil

OWN = (
    "from rlvr_cli.protocols import Tracked\n"
    "class Own:\n"
    "    def start(self, run): return Tracked('k', 0)\n"
    "    def log(self, step, figures, samples): print(figures['reward'])\n"
    "    def finish(self): pass\n"
    "def build(): return Own()\n"
)


def test_a_run_is_sent_and_its_summary_is_json(rlvr, trained, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    run = shutil.copytree(trained, tmp_path / "run")
    ran = rlvr("track", run, "--to", f"{tmp_path}/own.py:build", "--once", "--json")
    made = json.loads(ran.out)
    assert made["path"] == str(run)
    assert (made["sent"], made["known"], made["last"]) == (2, 1, 2)


def test_the_last_step_of_a_run_that_has_logged_none_is_null(rlvr, trained, tmp_path):
    (tmp_path / "own.py").write_text(OWN.replace("'k', 0", "'k', None"))
    run = shutil.copytree(trained, tmp_path / "run")
    (run / "metrics.jsonl").write_text("")
    ran = rlvr("track", run, "--to", f"{tmp_path}/own.py:build", "--once", "--json")
    made = json.loads(ran.out)
    assert (made["sent"], made["known"], made["last"]) == (0, 0, None)


def test_a_folder_that_is_no_run_is_refused(refused, known, tmp_path):
    err = refused(3, "track", known, "--to", f"{tmp_path}/own.py:build")
    assert "is not a run of train: it has no config.toml" in err


def test_an_unknown_tracker_is_refused(refused, trained):
    assert "did you mean `wandb`?" in refused(2, "track", trained, "--to", "wand")


def test_a_tracker_must_be_named(refused, trained):
    assert "needs --to" in refused(2, "track", trained)
