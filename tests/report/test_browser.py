"""The page in a real browser: it runs without a word, on any screen, by keys alone."""

import itertools
import json

import pytest

from rlvr_cli.terminal.escape import shown
from tests.report import test_typeset as typeset_cases

CONTRAST = """(() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) =>
    v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (el) => {
    for (; el; el = el.parentElement) {
      const c = parse(getComputedStyle(el).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const ratio = (a, b) => {
    const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const seen = {};
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const el of document.querySelectorAll("body *")) {
    const own = [...el.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const style = getComputedStyle(el);
    const svg = el.namespaceURI.endsWith("svg");
    if (own && !svg && !["SCRIPT", "STYLE"].includes(el.tagName)) {
      const r = ratio(parse(style.color), behind(el));
      const key = "text " + el.tagName + "." + el.className;
      seen[key] = Math.min(seen[key] ?? 99, r);
    } else if (svg && el.tagName === "text") {
      seen["plot text"] = Math.min(seen["plot text"] ?? 99, ratio(parse(style.fill), behind(el)));
    } else if (svg && el.tagName === "path") {
      const series = /(fill|stroke): var\\(--(?:s\\d|right|wrong|mixed)/;
      const [, kind] = (el.getAttribute("style") || "").match(series) || [];
      const opacity = +style.opacity * +(kind ? style[kind + "Opacity"] : 1);
      if (kind && opacity > 0.2) {  // a band has its line
        const ground = behind(el);
        const mixed = parse(style[kind]).map((v, i) => v * opacity + ground[i] * (1 - opacity));
        seen["plot mark"] = Math.min(seen["plot mark"] ?? 99, ratio(mixed, ground));
      }
    }
  }
  return seen;
})()"""


def where(page) -> str:
    return page.run("(document.activeElement.id || document.activeElement.textContent).trim()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1200])
def test_it_opens_without_a_word_and_fits_the_screen(page, file, scheme, width):
    page.size(width, 800, mobile=width < 500)
    page.media(scheme=scheme)
    page.open(file)
    page.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert page.run("document.documentElement.scrollWidth") == width
    assert page.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_can_be_read_on_their_ground(page, file, scheme):
    page.media(scheme=scheme)
    page.open(file)
    found = page.run(CONTRAST)
    assert len(found) > 20 and {"plot text", "plot mark"} <= set(found)
    low = {k: round(v, 2) for k, v in found.items() if v < (3 if k == "plot mark" else 4.5)}
    assert not low


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reader_can_be_read_on_its_ground(page, report, imported, tmp_path, scheme):
    program = "Look:\n\n```python\n@cache\ndef f(x):\n    # so\n    return str(x) + 'a' + 1.5\n```"
    texts = {"a": [(program, True), ("**no**, `x`\n\n> y", False), ("3", None)]}
    path = tmp_path / "code.html"
    path.write_text(report(imported(texts)).html)
    page.size(1200, 900)
    page.media(scheme=scheme)
    page.open(path)
    page.wait("document.documentElement.dataset.ready")
    page.run("document.querySelector('#prompt-table tbody a').click()")
    page.wait("document.getElementById('reader').open")
    page.run(
        "document.querySelectorAll('#reader details').forEach((fold) => { fold.open = true; })"
    )
    page.wait("document.querySelectorAll('#reader .member').length === 3")
    found = page.run(CONTRAST)
    assert {"text SPAN.k", "text SPAN.c", "text SPAN.verdict v0", "text TD.n"} <= set(found)
    assert not {k: round(v, 2) for k, v in found.items() if v < (3 if k == "plot mark" else 4.5)}


def test_the_scheme_is_followed_until_a_theme_is_chosen(fresh):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = fresh.run(ground)
    fresh.media(scheme="dark")
    dark = fresh.run(ground)
    assert light != dark
    for theme, colour in (("light", light), ("dark", dark), ("auto", dark)):
        fresh.run("document.getElementById('theme').click()")
        assert (fresh.run("document.documentElement.dataset.theme"), fresh.run(ground)) == (
            theme,
            colour,
        )


def test_all_of_it_is_reached_by_keys(fresh):
    fresh.press("Tab", 9)
    assert where(fresh) == "Skip to the report"
    seen = set()
    for _ in range(400):
        fresh.press("Tab", 9)
        seen.add(place := where(fresh))
        if place.startswith("Skip to the report") or fresh.run(
            "document.activeElement === document.body"
        ):
            break
    wanted = fresh.run(
        "[...document.querySelectorAll('a[href], button, summary, [tabindex=\"0\"]')]"
        ".filter((el) => el.checkVisibility()).length"
    )
    assert "theme" in seen and "Definitions" in seen and wanted > 30
    left = fresh.run(
        "[...document.querySelectorAll('[tabindex]')].filter((el) => el.tabIndex > 0).length"
    )
    assert left == 0


def test_keys_choose_the_theme_and_unfold_the_numbers(fresh):
    fresh.run("document.getElementById('theme').focus()")
    fresh.press("Enter", 13, "\r")
    assert fresh.run("document.documentElement.dataset.theme") == "light"
    fresh.run("document.querySelector('figure summary').focus()")
    fresh.press("Enter", 13, "\r")
    assert fresh.run("document.querySelector('figure details').open")
    ring = fresh.run("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"


def test_its_outline_and_its_names_are_there_for_those_who_hear_it(fresh):
    assert fresh.run("document.querySelectorAll('h1').length") == 1
    levels = fresh.run("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => +h.tagName[1])")
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    unnamed = (
        "[...document.querySelectorAll('[role=img], [role=region], nav, aside')]"
        ".filter((el) => !el.getAttribute('aria-label')).length"
    )
    assert fresh.run(unnamed) == 0 and fresh.run("document.documentElement.lang") == "en"
    assert fresh.run("[...document.querySelectorAll('th')].filter((th) => !th.scope).length") == 0


def test_it_prints_in_the_light_with_its_texts_unfolded(fresh):
    fresh.media("print", scheme="dark")
    assert fresh.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert fresh.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    fresh.media(scheme="dark")
    fresh.run("dispatchEvent(new Event('beforeprint'))")
    assert fresh.run("document.querySelectorAll('details.keep:not([open])').length") == 0
    fresh.run("dispatchEvent(new Event('afterprint'))")
    assert fresh.run("document.querySelectorAll('details.keep:not([open])').length") > 0
    assert fresh.pdf().startswith(b"%PDF") and fresh.said == []


def test_a_hostile_text_runs_nothing(page, report, hostile, tmp_path):
    path = tmp_path / "hostile.html"
    path.write_text(report(hostile).html)
    page.open(path)
    page.wait("document.documentElement.dataset.ready")
    assert page.run("window.pwned") is None and page.said == []


def test_completions_that_attack_the_reader_are_read(page, report, imported, tmp_path):
    names = {f"<b>{n}": text for n, text in enumerate(typeset_cases.HOSTILE)}
    texts = {name: [(text, True), (text + "2", False)] for name, text in names.items()}
    path = tmp_path / "hostile.html"
    path.write_text(report(imported(texts | {"long": [("x " * 500_000, False)]})).html)
    page.size(390, 800)
    page.open(path)
    page.wait("document.documentElement.dataset.ready")
    title = "document.querySelector('#reader h2').textContent"
    body = "document.querySelector('#reader .body')"
    unfold = f"{body}.querySelectorAll('details').forEach((fold) => {{ fold.open = true; }})"
    raw = f"{body}.querySelector('.member .raw pre, .member > pre').textContent"
    acting = "script, img, a, iframe, object, style, link, form, [onclick], [onerror], [href]"
    page.run("document.querySelector('#prompt-table tbody a').click()")
    page.wait("document.getElementById('reader').open")
    for name, text in names.items():
        page.wait(f"{title} === {json.dumps(name)}")
        page.run(unfold)
        page.wait(f"{body}.querySelectorAll('.member').length === 2")
        assert page.run(f"{body}.querySelectorAll('{acting}').length") == 0
        assert page.run(raw) == shown(text)
        assert page.run(f"{body}.scrollWidth <= {body}.clientWidth"), text
        page.press("ArrowRight", 39)
    page.wait(f"{title} === 'long'")
    assert "left out" in page.run("document.querySelector('#reader .side').textContent")
    assert page.run("window.pwned") is None and page.said == []
    page.press("Escape", 27)


def test_only_its_own_script_may_run(fresh):
    fresh.run(
        "document.body.append(Object.assign(document.createElement('script'),"
        "{textContent: 'window.pwned = 3'}))"
    )
    assert fresh.run("window.pwned") is None
    assert any("Content Security Policy" in said for said in fresh.said)
