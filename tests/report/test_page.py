import re
import shutil
import sys
from html.parser import HTMLParser

import pytest

from rlvr_cli.cli import app
from rlvr_cli.errors import UsageError
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.evaluation.measures import joined
from rlvr_cli.report import glossary, panels, training
from rlvr_cli.storage.shards import Shards

RIGHT, WRONG = ("1", True), ("2", False)


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_the_figures_are_those_of_eval_passk_and_ucc(report, known):
    tallied = pass_at_k.of_scores(Shards.open(known / "scores"), texts=True)
    expected = joined(
        pass_at_k.pass_measures(tallied, [1, 2, 3, 4]),
        pass_at_k.ucc_measures(tallied, [1, 2, 3, 4]),
    ).intervals()
    (made,) = report(known).figures["subjects"].values()
    assert made["prompts"] == 2
    for name, cell in expected.items():
        assert made["metrics"][name] == pytest.approx(cell), name


@pytest.mark.slow
def test_the_figures_of_a_run_are_those_that_train_logged(of_run, trained):
    last = pass_at_k.run_measures(trained / "eval" / "000002").intervals()
    metrics = of_run.figures["subjects"]["step 2"]["metrics"]
    for name in ("pass@1", "pass@2", "ucc@2", "entropy"):
        assert metrics[name] == pytest.approx(last[name]), name


def test_the_same_directories_give_the_same_bytes(report, known):
    assert report(known).html == report(known).html


def test_a_report_of_a_run_shows_all_of_it(of_run):
    html = of_run.html
    others = ("Groups that carry signal", "Clamped tokens")  # drawn as a band; where there are any
    titles = [title for title, _, _ in training.PANELS if title not in others]
    for title in (*titles, "Groups by verdict", "Pass@k", "Flips", "Token entropy", "Examples"):
        assert f">{title}</h" in html, title
    assert "Configuration of the run" in html and "Seconds by stage" in html


def test_a_page_refers_to_nothing_outside_itself(of_run):
    html = of_run.html
    found = Elements(html)
    values = [v or "" for _, attributes in found.found for k, v in attributes.items()
              if k in ("src", "href", "xlink:href", "srcset", "action", "data")]  # fmt: skip
    assert values and all(v.startswith(("#", "data:,")) for v in values)
    assert not re.search(r"url\((?!#)|@import", html)


def test_every_id_is_there_once_and_every_reference_has_its_target(of_run):
    html = of_run.html
    found = Elements(html)
    ids = [a["id"] for _, a in found.found if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a[k] for _, a in found.found for k in ("href", "xlink:href") if a.get(k)}
    targets = {t for t in targets if not t.startswith("#open=")}  # a prompt of the table
    targets |= set(re.findall(r"url\((#[^)]+)\)", html))
    assert {t.removeprefix("#") for t in targets if t.startswith("#")} <= set(ids)


def test_texts_of_a_model_are_text(report, hostile):
    html = report(hostile, title="<script>alert(1)</script>").html
    found = Elements(html)
    assert len([a for a in found.of("script") if a.get("type") != "text/plain"]) == 1
    assert not found.of("img")
    assert not [a for _, a in found.found for k in a if k.startswith("on")]
    assert "{{ 12345 * 54321 }}" in found.text and str(12345 * 54321) not in found.text
    assert "␛[31m ␀ ⟨U+202E⟩" in found.text and not re.search("[\x00-\x08\x0b-\x1f\u202e]", html)


def test_what_is_left_out_of_a_long_text_is_counted(report, hostile):
    assert "… 1,000 characters left out …" in report(hostile).html


def test_every_plot_and_tile_has_its_definition():
    keys = {key for _, key, _ in training.PANELS} | {"signal", "spread", "length", "entropy"}
    names = ("pass@1", "ucc@4", "ucr", "truncated", "length", "entropy", "avg@k", "clusters")
    keys |= {glossary.of_metric(name) for name in names}
    assert keys <= set(glossary.ENTRIES)


def test_gained_and_lost_prompts_and_the_difference(report, imported):
    before = imported({"a": [RIGHT, WRONG], "b": [WRONG, WRONG], "c": [RIGHT, RIGHT]}, "before")
    after = imported({"a": [WRONG, WRONG], "b": [RIGHT, WRONG], "c": [RIGHT, RIGHT]}, "after")
    made = report(before, after)
    (pair,) = made.figures["differences"]
    assert (pair["gained"], pair["lost"], pair["prompts"]) == (["b"], ["a"], 3)
    assert pair["metrics"]["pass@1"][0] == pytest.approx(0)
    assert "1 gained" in made.html and "1 lost" in made.html


def test_equal_names_of_other_prompts_are_not_compared(report, imported):
    texts = {"a": [RIGHT, WRONG], "b": [WRONG, RIGHT]}
    made = report(imported(texts, "one"), imported(texts, "two", answer="7"))
    assert made.figures["differences"] == []
    said = "use the same ids for other prompts: `a` has another gold: they are not compared"
    assert said in made.html


def test_prompts_of_one_side_alone_are_left_out_and_counted(report, imported):
    one = imported({"a": [RIGHT, WRONG], "b": [WRONG, RIGHT]}, "one")
    two = imported({"a": [RIGHT, RIGHT], "c": [RIGHT, RIGHT], "d": [WRONG, WRONG]}, "two")
    made = report(one, two)
    assert made.figures["differences"][0]["prompts"] == 1
    said = "Left out because not both have them: 1 of one (b); 2 of two (c, d)."
    assert said in made.html and said in made.figures["differences"][0]["notes"]
    alone = report(imported({"z": [RIGHT, WRONG]}, "three"), two)
    assert "have no prompt in common" in alone.html and alone.figures["differences"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"a": [RIGHT, ("3", None)], "b": [RIGHT, WRONG]}, "no verdict: 1 of 4 completions"),
        ({"a": [("3", None)], "b": [RIGHT, WRONG]}, "too few verdicts: 1 of 2 prompts, a"),
        ({"a": [RIGHT] * 3, "b": [RIGHT, WRONG]},
         "Prompts have 2 to 3 completions, so k ends at 2; --min-n 3 leaves out the 1 with fewer"),
        ({"a": [RIGHT, WRONG]}, "One prompt has no interval over prompts"),
        ({"a": [RIGHT, RIGHT], "b": [RIGHT, RIGHT]}, "Pass@1 is 100.0% [15.8%, 100.0%]"),
        ({"a": [WRONG], "b": [WRONG]}, "Pass@1 is 0.0% [0.0%, 84.2%]"),
        ({"a": [("", True), ("", False)], "b": [WRONG, RIGHT]}, "(nothing)"),
    ],
)  # fmt: skip
def test_what_is_odd_about_the_data_is_said(report, imported, texts, said):
    assert said in report(imported(texts)).html


def test_a_run_without_evaluation_and_with_a_torn_log_shows_its_training(report, trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "run")
    shutil.rmtree(copy / "eval")
    with open(copy / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "rew')
    made = report(copy)
    assert made.figures == {"subjects": {}, "differences": []}
    assert "no evaluation on held-out prompts" in made.html and "Training reward" in made.html
    assert "incomplete lines of metrics.jsonl, skipped: 1" in made.html


@pytest.mark.slow
def test_several_runs_are_compared_by_their_last_evaluations(report, trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "copy")
    made = report(trained, copy)
    assert list(made.figures["subjects"]) == ["run", "copy"]
    assert {v[0] for v in made.figures["differences"][0]["metrics"].values()} == {0}
    assert "run · Pass@1" in made.html and "Groups by verdict, copy" in made.html


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_its_extra(report, known, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError) as caught:
        report(known)
    assert caught.value.hint == "pip install 'rlvr[report]'"


def test_signal_adds_up_to_the_share_that_train_logged(trained):
    from rlvr_cli.report import sources

    (source,) = sources.open_all([trained])
    found = training.signal(source.run)
    logged = [r["informative"] for r in source.run.records if "informative" in r]
    assert found.mixed == pytest.approx(logged)
    sums = zip(found.right, found.mixed, found.wrong, strict=True)
    assert all(sum(shares) == pytest.approx(1) for shares in sums)


def test_a_table_of_many_steps_keeps_the_last():
    curve = training.Curve("reward", list(range(1000)), [0.5] * 1000)
    rows = panels._curve_rows("run", curve, ["0.5"] * 1000)
    assert len(rows) <= panels._TABLE_ROWS + 1 and rows[-1][1] == "999"


def test_app_makes_the_same_report_from_a_prompt_of_dashes(imported, tmp_path):
    folder = imported({"--x": [RIGHT, WRONG], "=1+1": [RIGHT, RIGHT]})
    assert app.run(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 0


def test_runs_at_different_steps_say_so_in_the_headline(report, trained, tmp_path):
    early = shutil.copytree(trained, tmp_path / "early")
    shutil.rmtree(early / "eval" / "000002")
    made = report(trained, early, most_examples=0)
    assert "From run at step 2 to early at step 1, over " in made.html
    assert "The steps differ: run is at step 2, early at step 1" in made.html
    assert made.figures["differences"][0]["steps"] == [2, 1]
    own = report(trained, most_examples=0)
    assert "From step 0 to step 2, over " in own.html and "The steps differ" not in own.html


def test_at_unequal_n_what_depends_on_n_is_of_equal_n_or_left_out(report, imported):
    ever = [WRONG] * 15 + [RIGHT]
    many = imported({str(i): ever for i in range(40)}, "many")
    few = imported({str(i): [WRONG] for i in range(40)}, "few")
    made = report(many, few, most_examples=0)
    (pair,) = made.figures["differences"]
    assert len(pair["lost"]) < 10  # about 40 / 16, and not all
    assert "ucr" not in pair["metrics"] and "pass@1" in pair["metrics"]
    assert (
        "16 in many, 1 in few; flips, gained and lost use equally many on both sides" in made.html
    )


def test_short_prompts_are_left_out_if_asked(report, imported):
    made = imported({"a": [RIGHT] * 4, "b": [WRONG] * 4, "c": [WRONG]})
    assert "pass@4" not in report(made).figures["subjects"]["imported"]["metrics"]
    page = report(made, min_n=4)
    (subject,) = page.figures["subjects"].values()
    assert subject["metrics"]["pass@4"][0] == 0.5 and subject["prompts"] == 2
    assert "too few verdicts: 1 of 3 prompts, c" in page.html


def test_prompts_that_were_moved_away_are_paired_by_id_and_it_is_said(report, known, tmp_path):
    copy = shutil.copytree(known, tmp_path / "copy")
    shutil.rmtree(copy / "prompts")
    made = report(known, copy, most_examples=0)
    (pair,) = made.figures["differences"]
    (note,) = pair["notes"]
    assert "are paired by id alone, as not both hold each text and gold." in note
    assert note in made.html
