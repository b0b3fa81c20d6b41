from rlvr_cli.storage import run_folders


def test_steps_come_in_the_order_of_their_numbers_and_strangers_are_none(tmp_path):
    for name in (
        "000010",
        "000002",
        "1000000",
        "0000003",
        "000003 (1)",
        "000004.bak",
        "foo",
        "٠٠٠٠٠٥",
    ):
        (tmp_path / "steps" / name).mkdir(parents=True)
    for name in ("000001", ".DS_Store", "._000001", "notes.txt"):
        (tmp_path / "steps" / name).write_text("")
    steps = run_folders.steps(tmp_path)
    assert list(steps) == [2, 10, 1000000]
    assert [run_folders.name(step) for step in steps] == [path.name for path in steps.values()]


def test_a_run_without_steps_or_with_a_file_in_their_place_has_none(tmp_path):
    assert run_folders.steps(tmp_path) == {}
    (tmp_path / "eval").write_text("")
    assert run_folders.steps(tmp_path, "eval") == {}


def test_a_directory_is_complete_by_its_manifest(tmp_path):
    for step in ("000001", "000002"):
        (tmp_path / "eval" / step / "scores").mkdir(parents=True)
    (tmp_path / "eval" / "000002" / "scores" / "_manifest.json").write_text("{}")
    assert list(run_folders.complete(tmp_path, "eval", "scores")) == [2]
