"""Plots tell their values to the pointer and to the keys, and are enlarged."""

import json

import pytest

BOX = ".plot-box"  # the first is Pass@k by k
PLOT = f"{BOX} [role=img]"
TIP = f"document.querySelector('{BOX} .tip')"


@pytest.fixture
def desk(page, file):
    page.size(1200, 900)
    page.media(scheme="light")
    page.open(file)
    page.wait("document.documentElement.dataset.ready")
    return page


def told(page):
    return json.loads(page.run(f"document.querySelector('{BOX}').dataset.plot"))


def expected(plot, at):
    names = (series["name"] for series in plot["series"])
    values = (series["labels"][at] for series in plot["series"])
    return [plot["heads"][at], *(f"{n} {v}" for n, v in zip(names, values, strict=True))]


def said(page):
    return page.run(
        f"[...{TIP}.querySelectorAll('strong, li')].map((part) => part.textContent)"
        f".concat({TIP}.hidden ? ['hidden'] : [])"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_values_at_the_pointer_are_those_of_the_table_below(desk, scheme):
    desk.media(scheme=scheme)
    plot = told(desk)
    cells = desk.run(
        f"[...document.querySelector('{BOX}').closest('figure').querySelectorAll('tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    for at in (0, len(plot["x"]) - 1):
        desk.move(PLOT, plot["x"][at] / 1000)
        assert said(desk) == expected(plot, at)
        for series in plot["series"]:
            assert [
                series["name"],
                plot["heads"][at].removeprefix("k = "),
                series["labels"][at],
            ] in cells
        dots = desk.run(f"document.querySelectorAll('{PLOT} .dot').length")
        assert dots == len(plot["series"])
    desk.move("h1")
    assert said(desk)[-1] == "hidden"


def test_a_dot_lies_on_its_line(desk):
    desk.move(PLOT, told(desk)["x"][0] / 1000)
    middle = (
        "(el) => { const b = el.getBoundingClientRect();"
        " return [b.left + b.width / 2, b.top + b.height / 2]; }"
    )
    dots, marks = (
        desk.run(f"[...document.querySelectorAll('{PLOT} {what}')].map({middle})")
        for what in (".dot", "svg use")
    )
    assert len(dots) == 2
    for dot in dots:
        assert min(abs(x - dot[0]) + abs(y - dot[1]) for x, y in marks) < 2.5


def test_arrow_keys_walk_along_a_plot_and_escape_leaves_it(desk):
    plot = told(desk)
    desk.run(f"document.querySelector('{PLOT}').focus()")
    desk.press("ArrowRight", 39)
    assert said(desk) == expected(plot, 0)
    desk.press("ArrowRight", 39)
    assert said(desk) == expected(plot, 1)
    desk.press("Home", 36)
    desk.press("ArrowLeft", 37)
    assert said(desk) == expected(plot, 0)
    desk.press("End", 35)
    assert said(desk) == expected(plot, len(plot["x"]) - 1)
    desk.press("Escape", 27)
    assert said(desk)[-1] == "hidden"


@pytest.mark.parametrize("how", ["click", "Enter", "button"])
def test_a_plot_is_enlarged_and_comes_back(desk, how):
    width = f"document.querySelector('{PLOT}').getBoundingClientRect().width"
    small = desk.run(width)
    if how == "click":
        desk.click(PLOT)
    elif how == "button":
        desk.click(f"{BOX} .enlarge")
    else:
        desk.run(f"document.querySelector('{PLOT}').focus()")
        desk.press("Enter", 13, "\r")
    assert desk.run("document.getElementById('large').open")
    large = "document.querySelector('#large [role=img]').getBoundingClientRect().width"
    assert desk.run(large) > 1.5 * small
    assert desk.run("document.querySelector('#large h2').textContent") == "Pass@k"
    assert desk.run("document.querySelectorAll('#large .legend li').length") == 2
    plot = json.loads(desk.run(f"document.querySelector('#large {BOX}').dataset.plot"))
    desk.press("End", 35)
    tip = "document.querySelector('#large .tip').innerText"
    assert plot["heads"][-1] in desk.run(tip)
    desk.press("Escape", 27)  # the values
    desk.press("Escape", 27)  # the dialog
    desk.wait("document.activeElement.matches('figure [role=img]')")
    assert not desk.run("document.getElementById('large').open") and desk.run(width) == small


def test_every_plot_has_a_name_for_its_button_and_fits_when_it_is_enlarged_on_a_phone(page, file):
    page.size(390, 800, mobile=True)
    page.open(file)
    page.wait("document.documentElement.dataset.ready")
    names = page.run("[...document.querySelectorAll('.enlarge')].map((b) => b.textContent)")
    assert len(names) > 10 and len(set(names)) == len(names)
    page.run("document.querySelector('.enlarge').click()")
    box = "document.querySelector('#large [role=img]').getBoundingClientRect()"
    assert page.run(f"{box}.left >= 0 && {box}.right <= 390")
    assert page.run("document.querySelector('#large').getBoundingClientRect().width") == 390
