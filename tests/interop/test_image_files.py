"""What bytes of an image are stored, and which are refused with their reason."""

import base64
import contextlib
import io
import json
import random
import tracemalloc

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from PIL import Image as pictures

from rlvr_cli.interop import data_sets, image_files, readers
from rlvr_cli.interop.image_files import Folder
from rlvr_cli.protocols import Unusable
from rlvr_cli.runtime import spooled
from rlvr_cli.runtime.spooled import Spooled


def encoded(picture, format="PNG", **options):
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def gradient(mode="RGB", size=(40, 20)):
    values = np.arange(size[0] * size[1] * 3, dtype=np.uint32).reshape(size[1], size[0], 3) % 251
    return pictures.fromarray(values.astype(np.uint8), "RGB").convert(mode)


def read(value, **options):
    return image_files.read(value, Folder(), **options)


def pixels(image):
    """The pixels of a stored image, which is a PNG in RGB."""
    picture = pictures.open(io.BytesIO(image.read()))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    assert picture.size == (image.width, image.height)
    return np.asarray(picture)


ROTATED = pictures.Exif()
ROTATED[0x0112] = 6  # turned a quarter


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_plain_frame_is_stored_as_it_was_given(format, mode):
    data = encoded(gradient(mode), format)
    if format == "WEBP" and mode == "L":  # which the format has in RGB alone
        assert pictures.open(io.BytesIO(data)).mode == "RGB"
    image = read(data)
    assert (image.read(), image.format) == (data, format)
    assert (image.width, image.height, image.size) == (40, 20, len(data))


def test_a_rotation_of_exif_is_carried_out():
    image = read(encoded(gradient(), "JPEG", exif=ROTATED, quality=100))
    assert (image.width, image.height) == (20, 40)
    upright = np.asarray(pictures.open(io.BytesIO(encoded(gradient(), "JPEG", quality=100))))
    assert (pixels(image) == np.rot90(upright, -1)).all()


def test_a_palette_is_expanded():
    picture = gradient().convert("P")
    assert (pixels(read(encoded(picture))) == np.asarray(picture.convert("RGB"))).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_laid_on_white(mode):
    clear = pictures.new(mode, (3, 2))  # black, and not to be seen
    assert (pixels(read(encoded(clear))) == 255).all()
    half = pictures.new("RGBA", (1, 1), (0, 0, 0, 128))
    assert pixels(read(encoded(half)))[0, 0].tolist() == [127, 127, 127]


@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_a_colour_that_is_declared_transparent_is_white(mode):
    picture = pictures.new(mode, (2, 2))
    data = encoded(picture, transparency=(0, 0, 0) if mode == "RGB" else 0)
    assert (pixels(read(data)) == 255).all()


def test_sixteen_bits_are_scaled_to_eight():
    values = np.array([[0, 257, 32768, 65535]], dtype=np.uint16)
    assert pixels(read(encoded(pictures.fromarray(values))))[0, :, 0].tolist() == [0, 1, 128, 255]


def test_other_modes_and_formats_become_png_in_rgb():
    assert pixels(read(encoded(gradient("CMYK"), "JPEG"))).any()
    assert pixels(read(encoded(gradient("1")))).max() == 255
    assert (pixels(read(encoded(gradient(), "BMP"))) == np.asarray(gradient())).all()


def test_an_image_of_pillow_is_stored_as_png():
    assert (pixels(read(gradient())) == np.asarray(gradient())).all()
    assert read(gradient()).sha256 == read(gradient()).sha256


@pytest.mark.parametrize(
    ("size", "most", "smaller"),
    [((40, 20), 200, (20, 10)), ((40, 20), 800, (40, 20)), ((1000, 1), 100, (100, 1)),
     ((1, 1000), 10, (1, 10)), ((30, 20), 7, (3, 2))],
)  # fmt: skip
def test_a_large_image_is_made_smaller_of_the_same_aspect(size, most, smaller):
    image = read(encoded(gradient(size=size)), max_pixels=most)
    assert (image.width, image.height) == smaller
    if size == smaller:
        assert image.read() == encoded(gradient(size=size))


ANIMATED = encoded(gradient(), "GIF", save_all=True, append_images=[pictures.new("RGB", (40, 20))])
REFUSED = {
    "animated": (ANIMATED, "has 2 frames"),
    "cut": (encoded(gradient())[:-20], "is damaged"),
    "a cut JPEG": (encoded(gradient(), "JPEG")[:-200], "is damaged"),
    "a cut head": (encoded(gradient())[:20], "is damaged"),
    "text": (b"no image at all", "15 bytes is of no format"),
    "empty": (b"", "0 bytes is of no format"),
    "a number": (5, "int, no bytes and no path"),
    "a link": ("https://example.org/a.png", "nothing is downloaded"),
    "a file that is not there": ("missing.png", "is not there"),
    "a folder": (".", "is no file"),
    "no base64": ("data:image/png;base64,????", "is not base64"),
    "a URL without data": ("data:image/png", "without data"),
    "a null byte": ("a\0b.png", "is not there"),
    "a file of another machine": ("file://[host/a.png", "is not there"),
    "a device": ("/dev/zero", "is no file"),
    "numbers": ({"bytes": [137, 80]}, "is list, no bytes"),
    "a number within": ({"url": 5}, "is int, no bytes"),
    "a long name": ("a" * 5000, "cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_image_makes_a_row_unusable_with_the_reason(name):
    value, reason = REFUSED[name]
    with pytest.raises(Unusable, match=reason):
        read(value)


SEEDS = [
    encoded(gradient()), encoded(gradient("P")), encoded(gradient(), "JPEG", exif=ROTATED),
    encoded(gradient("RGBA"), "WEBP"), encoded(gradient(), "TIFF"), ANIMATED,
]  # fmt: skip


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255))))
def test_a_changed_file_is_read_or_unusable_and_nothing_else(data, changes):
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(data)] = value
    with contextlib.suppress(Unusable):
        assert read(bytes(changed)).format in image_files.FORMATS


@pytest.mark.parametrize("data", [b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\0\0\1\0"])
def test_formats_that_start_programs_and_icons_are_not_read(data):
    with pytest.raises(Unusable, match="of no format that is known"):
        read(data + bytes(200))


def test_more_pixels_than_pillow_takes_make_a_row_unusable(monkeypatch):
    monkeypatch.setattr(pictures, "MAX_IMAGE_PIXELS", 700)
    with pytest.raises(Unusable, match="larger than Pillow's limit of 700 pixels"):
        read(encoded(gradient()))


def test_an_image_is_named_in_each_way_that_tools_have(tmp_path):
    data = encoded(gradient())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.png").write_bytes(data)
    text = base64.b64encode(data).decode()
    url = (tmp_path / "in" / "a b.png").as_uri()
    ways = [
        url.replace("file://", "file://localhost"), url.replace("file://", "file:"),
        data, bytearray(data), {"bytes": data, "path": "gone.png"}, text,
        f"data:image/png;base64,{text}", f"data:image/png;base64,{text}".replace("+", "%2B"),
        "in/a b.png", {"bytes": None, "path": "in/a b.png"}, url, tmp_path / "in" / "a b.png",
        str(tmp_path / "in" / "a b.png"),
    ]  # fmt: skip
    assert {image_files.read(way, Folder(tmp_path)).read() for way in ways} == {data}


@pytest.mark.parametrize("name", ["../secret.png", "/etc/secret.png", "in/../../secret.png"])
def test_downloaded_data_names_no_file_outside_of_its_folder(tmp_path, name):
    with pytest.raises(Unusable, match="leaves the folder"):
        image_files.read(name, Folder(tmp_path, is_confined=True))


@pytest.mark.parametrize(
    ("value", "is_one"),
    [(b"x", True), ({"bytes": None, "path": "a"}, True), ("images/1.JPG", True),
     ("data:image/png;base64,xx", True), ("https://x.org/1", True), (gradient(), True),
     ("swebench/sweb.eval:latest", False), ("a dog on a roof", False), (3, False), (None, False),
     ({"width": 3}, False), ({}, False)],
)  # fmt: skip
def test_a_column_counts_as_images_only_if_it_holds_some(value, is_one):
    assert image_files.is_image(value) is is_one


def test_images_that_are_read_wait_on_disk(tmp_path):
    """The long bytes of a Parquet file, at any depth, and what is stored of any image."""
    data = encoded(gradient(), "BMP")
    rows = [{"images": [{"bytes": data, "path": None}], "short": b"ab", "text": "x"}] * 3
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet", row_group_size=2)
    read = readers.read(tmp_path / "rows.parquet")
    assert [row | {"images": rows[0]["images"]} for row in read] == rows
    value = read[2]["images"][0]
    assert isinstance(value["bytes"], Spooled) and str(value["bytes"]) == str(data)
    image = image_files.read(value, Folder())
    assert image.format == "PNG" and image.read() == image_files.normalised(data).read()
    assert isinstance(image.read.__self__, Spooled)


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet", "saved"])
@pytest.mark.parametrize("head", ["", "data:image/bmp;base64,"])
def test_images_in_base64_wait_on_disk_and_are_the_same_text(tmp_path, kind, head):
    data = encoded(gradient(), "BMP")
    rows = [{"image": head + base64.b64encode(data).decode(), "question": "?"}] * 3
    read = data_sets.read(str(written(rows, tmp_path, kind))).rows
    assert [row | {"image": str(row["image"])} for row in read] == rows
    assert all(isinstance(row["image"], Spooled) for row in read)
    assert image_files.read(read[2]["image"], Folder()).read() == read_all(data)
    assert image_files.read(rows[2]["image"], Folder()).read() == read_all(data)


def test_an_image_that_comes_again_waits_on_disk_once():
    contents = (b"first" * 999, b"other", b"first" * 999)
    first, other, again = map(spooled.keep, contents)
    assert first == again and first.offset != other.offset
    assert (first.read(), other.read(), again.read()) == contents


def read_all(data):
    return image_files.normalised(data).read()


def written(rows, folder, kind):
    """A file of these rows, or what `save_to_disk` writes."""
    path = folder / f"rows.{kind}"
    saved = datasets.Dataset.from_list(rows)
    {"jsonl": saved.to_json, "csv": saved.to_csv, "parquet": saved.to_parquet,
     "saved": saved.save_to_disk, "json": lambda path: path.write_text(json.dumps(rows)),
     }[kind](path)  # fmt: skip
    return path


@pytest.mark.parametrize(
    "text",
    ["/9j/" + "A" * 2000 + "!", "data:image/png;base64,\n" + "A" * 2000, "Qk " * 800,
     "data:text/plain;base64," + "A" * 2000, "/9j/short"],
)  # fmt: skip
def test_text_that_is_no_base64_of_an_image_stays_text(text):
    row = {"image": [text], "content": "/9j/" + "A" * 2000}
    assert image_files.with_spooled(row) == row
    assert type(image_files.with_spooled(row)["image"][0]) is str


@pytest.mark.parametrize("kind", ["jsonl", "saved"])
def test_the_images_of_a_data_set_are_never_in_memory_at_once(tmp_path, kind):
    """30 images of 225,000 bytes: a line of JSON is one of them, a batch of Arrow all."""
    image = random.Random(0).randbytes(225_000)
    if kind == "jsonl":
        image = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    path = written([{"image": image}] * 30, tmp_path, kind)
    tracemalloc.start()
    try:
        rows = data_sets.read(str(path)).rows
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(rows) == 30 and held < 1_000_000
    assert kind == "saved" or most < 5_000_000
