import pytest


def texts(**right: int) -> dict[str, list]:
    """Four completions of each prompt, so many of them right, all different."""
    return {
        name: [(f"{name}{i} " * 3, i < count) for i in range(4)] for name, count in right.items()
    }


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        # Pass@k 50% at every k; 25%, 50%, 75%, 100%: equal at 2, higher from 3 on.
        ({"a": 4, "b": 0}, {"a": 1, "b": 1}, "From k = 3 on the mean Pass@k of after"),
        ({"a": 1, "b": 1}, {"a": 4, "b": 0}, "From k = 3 on the mean Pass@k of before"),
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, ""),
        ({"a": 1, "b": 1}, {"a": 1, "b": 1}, ""),
    ],
)
def test_where_the_curves_cross_for_the_last_time_is_said(report, imported, first, second, said):
    before, after = imported(texts(**first), "before"), imported(texts(**second), "after")
    html = report(before, after, most_examples=0).html
    assert said in html and ("From k = " in html) == bool(said)


@pytest.mark.parametrize(
    ("prompts", "ends", "word"),
    [(5, "−28.6%, +76.2%", "too few prompts to tell"), (12, "+10.1%, +63.3%", "better")],
)
def test_the_first_words_have_values_difference_interval_and_verdict(
    report, imported, prompts, ends, word
):
    names = "abcdefghijkl"[:prompts]
    before, after = (
        imported(texts(**dict.fromkeys(names, count)), name) for name, count in (("x", 1), ("y", 3))
    )
    html = report(before, after, most_examples=0).html
    assert (
        f"From x to y, over {prompts} prompts: Pass@1 25.0% → 75.0%, that is +50.0% [{ends}], "
        f"{word}" in html
    )


def test_a_difference_of_nothing_is_no_certainty(report, imported):
    same = texts(**dict.fromkeys("abcdefgh", 3))
    html = report(imported(same, "x"), imported(same, "y"), most_examples=0).html
    assert "that is +0.0% [−37.1%, +37.1%], no clear difference" in html


def test_of_three_runs_the_number_of_comparisons_is_said(report, imported):
    one, *others = (
        imported(texts(**dict.fromkeys("abcdefghijkl", count)), name)
        for name, count in (("x", 1), ("y", 3), ("z", 4))
    )
    made = report(one, *others, most_examples=0)
    assert "Verdicts hold for all 2 comparisons together (Holm" in made.html
    assert [pair["comparisons"] for pair in made.figures["differences"]] == [2, 2]
    assert made.figures["differences"][1]["verdicts"]["pass@1"] == "better"
    assert "comparisons together" not in report(one, others[0], most_examples=0).html


def test_each_source_has_a_row(report, known):
    from rlvr_cli.report import sources, subject, tables

    (source,) = sources.open_all([known])
    (found,) = source.lineages.values()
    made = subject.measure("known", found, threshold=0.8)
    assert tables.by_source(made) is None
    made.rows.source.update(a="amc", b="aime")
    title, table = tables.by_source(made)
    assert title == "known" and [row[:3] for row in table.rows] == [
        ["aime", "1", "25.0%"], ["amc", "1", "50.0%"],
    ]  # fmt: skip
    made.rows.source.update(b="amc", a="amc")
    assert tables.by_source(made) is None
