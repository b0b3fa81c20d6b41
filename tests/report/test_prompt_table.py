"""The table of prompts and the reader, driven in a browser as a person would."""

import json

import pytest

from rlvr_cli.cli import app
from rlvr_cli.report import page as pages, sources

PROMPTS = 230
HEADS = ["prompt", "source", "before", "after", "difference", "solutions", "truncated"]


def rows(shift):
    """Prompt i asks for i; of its four completions some are right, some 1 or 2 too much."""
    for i in range(PROMPTS):
        right = min(4, (i * 7 + shift) % 6)
        texts = [f"So \\(x = {i}\\), and **{i}** is it. The answer is {i}" for _ in range(right)]
        texts += [
            f"I take `{i + 1 + n % 2}`. The answer is {i + 1 + n % 2}" for n in range(4 - right)
        ]
        yield {
            "id": f"p{i}", "prompt": f"What is {i}? {'A triangle.' if i % 50 == 3 else ''}",
            "answer": str(i), "source": "easy" if i % 4 else "hard", "completions": texts,
        }  # fmt: skip


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The report of two scored sets of completions of the same prompts."""
    root = tmp_path_factory.mktemp("two")
    for name, shift in (("before", 0), ("after", 3)):
        path = root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(shift)))
        assert app.run(["import", str(path), "--out", str(root / name)]) == 0
        assert app.run(["score", str(root / name / "rollouts"), "--verifier", "number"]) == 0
    made = pages.make(sources.open_all([root / "before", root / "after"]))
    out = root / "report.html"
    out.write_text(made.html)
    return out


@pytest.fixture
def desk(page, two):
    """The report on a desk, its table drawn."""
    page.size(1200, 900)
    page.media(scheme="light")
    page.open(two)
    page.wait("document.documentElement.dataset.ready")
    return page


def column(page, number):
    cell = "cells[0].querySelector('a')" if number == 0 else f"cells[{number}]"
    rows = "[...document.querySelectorAll('#prompt-table tbody tr')]"
    return page.run(f"{rows}.map((row) => row.{cell}.textContent)")


def found(page):
    return page.run("document.getElementById('found').textContent")


def choose(page, name, value):
    page.run(
        f"(() => {{ const field = document.getElementById('find').elements.{name};"
        f" field.value = {json.dumps(value)};"
        " field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def focused(page):
    return page.run("document.activeElement.textContent")


def test_it_shows_every_prompt_with_its_rates_as_far_as_one_looks(desk):
    heads = "[...document.querySelectorAll('#prompt-table thead button')].map((b) => b.textContent)"
    assert desk.run(heads) == HEADS and found(desk) == f"{PROMPTS} prompts"
    ids = column(desk, 0)
    assert ids == [f"p{i}" for i in range(100)]
    expected = [min(4, (i * 7) % 6) / 4 for i in range(100)]
    shown = [float(text.rstrip("%")) / 100 for text in column(desk, 2)]
    assert shown == expected
    desk.click("#more")
    assert len(column(desk, 0)) == 200
    desk.run("(() => { const box = document.querySelector('.rows'); box.scrollTop = 1e9; })()")
    desk.wait(f"document.querySelectorAll('#prompt-table tbody tr').length === {PROMPTS}")
    assert desk.run("document.getElementById('more').hidden")


def test_a_share_that_nothing_says_is_no_share(desk):
    assert set(column(desk, HEADS.index("truncated"))) == {"–"}


def test_a_heading_sorts_all_of_it_and_again_the_other_way(desk):
    desk.click("[data-key=diff] button")
    sort = "document.querySelector('[data-key=diff]').ariaSort"
    assert desk.run(sort) == "descending"
    differences = [float(t.replace("−", "-").rstrip("%")) for t in column(desk, 4)]
    assert differences == sorted(differences, reverse=True) and differences[0] > 0
    desk.click("[data-key=diff] button")
    assert desk.run(sort) == "ascending" and column(desk, 4)[0].startswith("−")
    desk.click("[data-key=id] button")
    others = "document.querySelectorAll('#prompt-table th[aria-sort=none]').length"
    assert desk.run(sort) == "none" and desk.run(others) == len(HEADS) - 1
    assert column(desk, 0)[:11] == [f"p{i}" for i in range(11)]  # p10 after p9


def test_search_and_filters_narrow_it_together(desk):
    desk.run("document.querySelector('[name=q]').focus()")
    desk.write("triangle")
    desk.wait("document.getElementById('found').textContent.startsWith('5 of')")
    assert column(desk, 0) == ["p3", "p53", "p103", "p153", "p203"]
    choose(desk, "q", "")
    desk.wait(f"document.getElementById('found').textContent === '{PROMPTS} prompts'")
    choose(desk, "show", "gained")
    desk.wait("document.getElementById('found').textContent.includes(' of ')")
    assert column(desk, 0) and set(column(desk, 2)) == {"0%"} and "0%" not in column(desk, 3)
    before = int(found(desk).split()[0])
    choose(desk, "source", "easy")
    desk.wait(f"!document.getElementById('found').textContent.startsWith('{before} ')")
    assert set(column(desk, 1)) == {"easy"} and int(found(desk).split()[0]) < before


def test_what_only_a_completion_says_is_found_if_one_asks_for_it(desk):
    choose(desk, "q", "I take `18`.")
    desk.wait("document.getElementById('found').textContent.startsWith('0 of')")
    desk.click("[name=deep]")
    desk.wait("document.getElementById('found').textContent.startsWith('2 of')")
    assert column(desk, 0) == ["p16", "p17"]


def test_a_row_opens_its_completions_side_by_side_with_its_mistakes_counted(desk):
    choose(desk, "q", "p8")
    desk.wait("document.getElementById('found').textContent.includes(' of ')")
    desk.click("#prompt-table tbody a")
    desk.wait("document.getElementById('reader').open")
    sides = desk.run("[...document.querySelectorAll('#reader .side')].map((s) => s.innerText)")
    # 8 * 7 % 6 = 2 right before; (8 * 7 + 3) % 6 = 5, so all 4 right after.
    assert (
        "before" in sides[0] and "2 of 4 right, 1 solution, 2 different wrong answers" in sides[0]
    )
    assert "wrong 9 · 1 completion" in sides[0] and "wrong 10 · 1 completion" in sides[0]
    assert "4 of 4 right, 1 solution" in sides[1] and "1 of 4" in sides[1]
    left = desk.run("[...document.querySelectorAll('#reader .side')].map((s) => s.offsetLeft)")
    assert left[0] < left[1]
    assert desk.run("document.querySelector('#reader .gold, #reader .body').innerText").count("8")


def test_completions_are_set_and_their_raw_text_is_one_click_away(desk):
    desk.click("#prompt-table tbody tr:nth-child(9) a")
    desk.wait("document.getElementById('reader').open")
    assert desk.run("document.querySelector('#reader .side .set strong').textContent") == "8"
    raw = "#reader .side .raw"
    assert not desk.run(f"document.querySelector('{raw} pre').checkVisibility()")
    desk.click(f"{raw} summary")
    assert desk.run(f"document.querySelector('{raw} pre').checkVisibility()")
    text = desk.run(f"document.querySelector('{raw} pre').textContent")
    assert text == "So \\(x = 8\\), and **8** is it. The answer is 8"


def test_formulas_are_mathml(desk):
    pytest.importorskip("latex2mathml")
    desk.click("#prompt-table tbody tr:nth-child(9) a")
    desk.wait("document.getElementById('reader').open")
    math = "document.querySelector('#reader .set math')"
    assert desk.run(f"{math}.namespaceURI").endswith("MathML")
    assert desk.run(f"{math}.textContent") == "x=8"


def test_one_steps_through_the_completions_of_a_group(desk):
    desk.click("#prompt-table tbody tr:nth-child(9) a")
    desk.wait("document.getElementById('reader').open")
    facts = "document.querySelector('#reader .member .small').textContent"
    assert "Sample 0" in desk.run(facts) and "1 of 2" in desk.run(facts)
    desk.run("[...document.querySelectorAll('#reader .step')].at(1).click()")
    assert "Sample 1" in desk.run(facts) and "2 of 2" in desk.run(facts)


def test_keys_alone_search_walk_read_turn_and_come_back(desk):
    desk.run("document.querySelector('[name=q]').focus()")
    desk.press("ArrowDown", 40)
    assert focused(desk) == "p0"
    for _ in range(3):
        desk.press("ArrowDown", 40)
    desk.press("ArrowUp", 38)
    assert focused(desk) == "p2"
    desk.press("End", 35)
    assert focused(desk) == "p99"
    desk.press("ArrowDown", 40)
    assert focused(desk) == "p100"  # of the rows that were not drawn yet
    desk.press("Home", 36)
    desk.press("Enter", 13, "\r")
    desk.wait("document.getElementById('reader').open")
    title = "document.querySelector('#reader h2').textContent"
    assert desk.run(title) == "p0" and "open=p0" in desk.run("location.hash")
    desk.press("ArrowRight", 39)
    desk.wait(f"{title} === 'p1'")
    desk.press("ArrowRight", 39)
    desk.wait(f"{title} === 'p2'")
    desk.press("ArrowLeft", 37)
    desk.wait(f"{title} === 'p1'")
    desk.press("Escape", 27)
    desk.wait("document.activeElement.textContent === 'p1'")
    assert not desk.run("document.getElementById('reader').open || location.hash.includes('open')")
    assert desk.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_reload_and_a_link_show_what_was_chosen(desk, two):
    choose(desk, "show", "worse")
    desk.wait("document.getElementById('found').textContent.includes(' of ')")
    desk.click("[data-key=rate0] button")
    ids, said = column(desk, 0), found(desk)
    desk.run("(() => { window.before = true; location.reload(); })()")
    desk.wait("!window.before && document.documentElement?.dataset.ready")
    assert (column(desk, 0), found(desk)) == (ids, said)
    assert desk.run("document.querySelector('[data-key=rate0]').ariaSort") == "descending"
    desk.run("(() => { location.hash = '#open=p7'; })()")
    desk.wait("document.getElementById('reader').open")
    assert desk.run("document.querySelector('#reader h2').textContent") == "p7"


def test_a_page_that_is_written_anew_loads_itself_again_where_the_reader_was(page, two, tmp_path):
    path = tmp_path / "live.html"
    html = two.read_text().replace('data-theme="auto"', 'data-theme="auto" data-reload="3"', 1)
    path.write_text(html)
    page.size(1200, 900)
    page.open(path)
    page.wait("document.documentElement.dataset.ready")
    choose(page, "show", "worse")
    page.wait("document.getElementById('found').textContent.includes(' of ')")
    said = found(page)
    page.run("scrollTo({top: 700, behavior: 'instant'})")
    path.write_text(html.replace("<h1>", "<h1>Newer ", 1))
    page.wait("document.querySelector('h1')?.textContent.startsWith('Newer')")
    page.wait("document.documentElement.dataset.ready && scrollY > 600")
    assert found(page) == said and abs(page.run("scrollY") - 700) < 5
    page.open(two)


def test_a_prompt_of_the_flips_and_of_the_examples_leads_to_its_completions(desk):
    desk.run("document.querySelector('#flips ~ details a').click()")
    desk.wait("document.getElementById('reader').open")
    linked = desk.run("document.querySelector('#flips ~ details a').textContent")
    assert desk.run("document.querySelector('#reader h2').textContent") == linked


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_table_and_reader_fit(page, two, scheme):
    page.size(390, 800, mobile=True)
    page.media(scheme=scheme)
    page.open(two)
    page.wait("document.documentElement.dataset.ready")
    assert page.run("document.documentElement.scrollWidth") == 390
    over = (
        "[...document.querySelectorAll('.rows *, .controls *')].filter((el) =>"
        " el.checkVisibility() && el.getBoundingClientRect().right > 390).length"
    )
    assert page.run(over) == 0
    page.run("document.querySelector('#prompt-table tbody a').click()")
    page.wait("document.getElementById('reader').open")
    assert page.run("document.querySelector('#reader').getBoundingClientRect().width") == 390
    body = "document.querySelector('#reader .body')"
    assert page.run(f"{body}.scrollWidth <= {body}.clientWidth")
    assert page.said == []


def test_the_menu_of_a_phone_shows_where_it_goes_on(page, two):
    page.size(390, 800, mobile=True)
    page.open(two)
    page.wait("document.documentElement.dataset.ready")
    seen = "[...document.querySelectorAll('nav .edge')].map((edge) => !edge.hidden)"
    page.wait(f"{seen}.join() === 'false,true'")
    page.run("document.querySelector('nav .right').click()")
    page.wait(f"{seen}[0]")
    page.run("document.querySelector('nav ul').scrollLeft = 1e6")
    page.wait(f"{seen}.join() === 'true,false'")
    page.size(1200, 900)
    page.wait(f"{seen}.join() === 'false,false'")


def test_the_table_prints_in_the_light(desk):
    desk.media("print", scheme="dark")
    assert desk.run("getComputedStyle(document.querySelector('.rows')).maxHeight") == "none"
    assert desk.run("getComputedStyle(document.getElementById('find')).display") == "none"
    ground = "getComputedStyle(document.querySelector('#prompt-table th')).backgroundColor"
    assert desk.run(ground) == "rgb(255, 255, 255)"
    assert desk.pdf().startswith(b"%PDF")
