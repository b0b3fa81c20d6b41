import pytest

from rlvr_cli.report import summary


@pytest.mark.parametrize(
    ("name", "cell", "verdict"),
    [
        ("pass@1", [0.2, 0.1, 0.3], "better"),
        ("ucc@8", [-0.2, -0.3, -0.1], "worse"),
        ("truncated", [0.2, 0.1, 0.3], "worse"),
        ("truncated", [-0.2, -0.3, -0.1], "better"),
        ("length", [5, 1, 9], "changed"),
        ("pass@1", [0.2, -0.1, 0.3], ""),
        ("pass@1", [0.2, 0.0, 0.3], ""),
        ("pass@1", [0.2, None, None], ""),
    ],
)
def test_a_difference_is_called_one_only_if_its_interval_leaves_0_out(name, cell, verdict):
    assert summary.verdict(name, cell) == verdict


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


def test_the_first_words_have_values_difference_and_interval(report, imported):
    before, after = (
        imported(texts(a=count, b=count, c=count), name) for name, count in (("x", 1), ("y", 3))
    )
    html = report(before, after, most_examples=0).html
    assert (
        "From x to y, over 3 prompts: Pass@1 25.0% → 75.0%, that is +50.0% [+50.0%, +50.0%], better"
        in html
    )
    assert "Pass@4 100.0% → 100.0%, that is +0.0% [+0.0%, +0.0%], no clear difference" in html


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
