"""Images of prompts on the page: small, once each, at their places."""

import re
import shutil
import sys

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.report import page as pages, pictures, sources, thumbnails
from rlvr_cli.report.texts import Setter
from tests import pictured
from tests.pictured import asked, drawn, stored
from tests.report.test_packing import held

pytest.importorskip("PIL")
SMALL, LARGE = stored(drawn(3)), stored(drawn(5, side=640, format="JPEG"))


@pytest.fixture(scope="module")
def page_of_images(tmp_path_factory):
    """A page of prompts that share one image; some have another, one has none."""
    root = tmp_path_factory.mktemp("pictured")
    rows = [asked(f"p{n}", "How many are in **this**?", SMALL, "And", LARGE) for n in range(4)]
    prompts = pictured.directory(root / "prompts", [*rows, asked("plain", "What is 1?")])
    done = pictured.answered(prompts, root / "done")
    return pages.make(sources.open_all([done]), most_examples=2).html


def urls(html):
    return re.findall(r"background-image:url\((data:[^)]*)\)", html)


def test_an_image_of_many_prompts_is_embedded_once(page_of_images):
    assert len(urls(page_of_images)) == 2 == page_of_images.count("data:image/")


def test_each_prompt_shows_its_images_at_their_places(page_of_images):
    _, found = held(page_of_images)
    for n in range(4):
        [(role, [head, *_, html])] = found[f"p{n}"]["prompt"]
        assert role == "user" and f"[image {SMALL.sha256[:12]}]" in head
        small, large = (f"i-{image.sha256[:12]}" for image in (SMALL, LARGE))
        places = [html.index(part) for part in ("<strong>this</strong>", small, "And", large)]
        assert places == sorted(places)
    assert found["plain"]["prompt"] == [["user", "What is 1?"]]
    examples = page_of_images.partition('id="examples"')[2].partition("</section>")[0]
    assert examples.count(f'class="image enlarged i-{SMALL.sha256[:12]}"') == 2
    assert "None" not in examples


def test_a_picture_says_in_words_what_it_is(page_of_images):
    alt = f'aria-label="image {LARGE.sha256[:12]}, JPEG, 640 × 640 pixels"'
    assert f'role="img" {alt}' in page_of_images


def test_a_large_image_is_made_small_and_a_small_one_stays_as_it_is_stored():
    assert thumbnails.is_small(SMALL, 256) and not thumbnails.is_small(LARGE, 256)
    assert thumbnails.size_in(LARGE, 128) == (128, 128)
    assert len(thumbnails.thumbnail(LARGE, 128)) < len(thumbnails.as_stored(LARGE))


@pytest.fixture
def many(tmp_path):
    """Prompts with an image of their own each."""
    images = [stored(drawn(n, side=300, format="JPEG")) for n in range(1, 13)]
    rows = [asked(f"p{n}", image, "?") for n, image in enumerate(images)]
    return pictured.directory(tmp_path / "prompts", rows)


def test_pictures_are_as_large_as_the_room_for_all_of_them(many):
    asked_for = many.table()["messages"].to_pylist()
    albums = [pictures.album([many], asked_for, room) for room in (10**6, 20_000, 3_000)]
    sizes = [sum(map(len, urls(album.css))) for album in albums]
    assert [len(urls(album.css)) for album in albums[:2]] == [12, 12]
    assert sizes[0] > sizes[1] and sizes[1] <= 20_000 and sizes[2] <= 3_000
    assert [album.note for album in albums[:2]] == ["", ""]
    left = 12 - len(urls(albums[2].css))
    assert left and albums[2].note.startswith(f"{left} image") and "--max-mb" in albums[2].note


def test_an_image_without_room_is_named_in_the_text(many):
    album = pictures.album([many], many.table()["messages"].to_pylist(), 0)
    setter = Setter(0)
    (name,) = many.part(0)["images"].to_pylist()[0]
    text = album.text(setter.text(f"[image {name[:12]}] < 2?", 100), [name])
    assert text.head_html == (
        f'<div class="as-is"><span class="no-image">[image {name[:12]}, JPEG, 300 × 300 pixels]'
        "</span> &lt; 2?</div>"
    )


def test_a_picture_whose_place_was_cut_comes_after_the_text(many):
    messages = many.table()["messages"].to_pylist()
    album = pictures.album([many], messages, 10**6)
    ((name,),) = pictures.of_messages(messages[0])
    text = album.text(Setter(0).text("a long question", 6), [name])
    assert text.tail_html.endswith("</span>") and f"i-{name[:12]}" in text.tail_html


def test_a_page_of_text_alone_has_no_style_for_pictures(report, imported):
    html = report(imported({"a": [("1", True), ("2", False)]})).html
    assert html.count("<style>") == 1 and "background-image" not in html and ".image" not in html


def test_a_page_whose_images_are_gone_names_them(tmp_path, report):
    prompts = pictured.directory(tmp_path / "old" / "prompts", [asked("a", SMALL, "?")])
    pictured.answered(prompts, tmp_path / "old" / "done")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    shutil.rmtree(tmp_path / "new" / "prompts" / "__images")
    html = report(tmp_path / "new" / "done").html
    assert "Images are named and not shown" in html and not urls(html)
    assert f'<span class="no-image">[image {SMALL.sha256[:12]}]</span>' in html


def test_an_image_that_cannot_be_read_is_an_error_with_a_hint():
    from rlvr_cli.storage import images

    broken = images.image(b"\x89PNG\r\n\x1a\n and no more", "PNG", 300, 300)
    with pytest.raises(DataError, match="Pillow cannot read image") as error:
        thumbnails.thumbnail(broken, 64)
    assert "rlvr prompts" in error.value.hint


def test_without_pillow_small_images_are_shown_and_others_named(tmp_path, monkeypatch):
    both = pictured.directory(tmp_path / "both", [asked("a", SMALL, LARGE, "?")])
    monkeypatch.setitem(sys.modules, "PIL", None)
    album = pictures.album([both], both.table()["messages"].to_pylist(), 10**6)
    assert len(urls(album.css)) == 1 and "pip install 'rlvr[images]'" in album.note
