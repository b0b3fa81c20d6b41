"""The images of prompts in the terminal: a line each, files, and drawings where it can."""

import fcntl
import io
import os
import re
import shutil
import struct
import termios
import threading
import tty

import numpy as np
import pytest

from rlvr_cli.stages import exchange
from rlvr_cli.storage import images
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import plural
from rlvr_cli.viewer import graphics, pictures
from tests import pictured
from tests.pictured import asked, drawn, stored

PIL = pytest.importorskip("PIL.Image")
ONE, OTHER = stored(drawn(3)), stored(drawn(5, side=40, format="JPEG"))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Completions of a prompt with two images and of one without."""
    root = tmp_path_factory.mktemp("pictured")
    rows = [asked("a", "Which of ", ONE, OTHER, "has more?"), asked("b", "What is 1?")]
    return pictured.answered(pictured.directory(root / "prompts", rows), root / "done")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_each_image_has_a_line_and_a_key_writes_its_file(view, done):
    async def act(screen):
        text = screen.text("#text")
        assert f"[image {ONE.sha256[:12]}]" in text and "2 images" not in text
        assert f"{ONE.sha256[:12]}  PNG 32 × 32" in text
        assert f"{OTHER.sha256[:12]}  JPEG 40 × 40" in text
        assert not pictures.path(ONE).exists()
        await screen.press("i")
        assert pictures.path(ONE).read_bytes() == ONE.read()
        assert pictures.path(OTHER).suffix == ".jpg"
        assert str(pictures.path(ONE)) in screen.text("#text").replace("\n", "")
        assert str(pictures.path(OTHER)) in screen.said[-1]

    view(done, act, size=(200, 30))


def test_a_prompt_without_images_says_so(view, done):
    async def act(screen):
        await screen.press("down")
        assert "images" not in screen.text("#text")
        await screen.press("i")
        assert screen.said == ["this prompt has no images"]

    view(done, act)


def test_prompts_whose_images_are_gone_are_shown_without_them(view, tmp_path):
    prompts = pictured.directory(tmp_path / "old" / "prompts", [asked("a", ONE, "?")])
    pictured.answered(prompts, tmp_path / "old" / "done")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    shutil.rmtree(tmp_path / "new" / "prompts" / "__images")

    async def act(screen):
        assert "── images ──" in screen.text("#text") and "cannot be read" in screen.text("#text")
        await screen.press("i")
        assert screen.said == ["this prompt has no images"]

    view(tmp_path / "new" / "done", act)


def test_bytes_in_a_file_of_another_tool_are_named_by_size_and_digest(view, done, tmp_path):
    file = tmp_path / "x.parquet"
    exchange.send_out(Shards.open(done / "scores"), file, "verl")

    async def act(screen):
        text = screen.text("#text")
        assert f"{plural.size(ONE.size)}, {ONE.sha256[:12]}" in text and "x89PNG" not in text
        assert "Which of <image><image>has more?" in text

    view(file, act, size=(160, 40))


def test_what_a_directory_says_of_an_image_cannot_steer_the_terminal(tmp_path):
    hostile = images.Image("../" * 20 + "x", "\x1b[2JPNG", 1, 1, 1, lambda: b"")
    assert "\x1b" not in pictures.line(hostile)
    assert pictures.path(hostile).resolve().parent == tmp_path / "cache" / "rlvr" / "images"


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns and 24 lines that answers the first question as it is told."""
    monkeypatch.setattr(graphics, "_WAIT_S", 120.0)  # it may be slow
    outer, inner = os.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 640, 384))
    tty.setraw(inner)
    heard = bytearray()

    def start(answer: bytes, *, draws: bool) -> bytearray:
        def run() -> None:
            while b"\x1b[c" not in heard:
                heard.extend(os.read(outer, 1 << 16))
            os.write(outer, answer)
            while draws and b"any key" not in heard:
                heard.extend(os.read(outer, 1 << 16))
            if draws:
                os.write(outer, b"q")

        threading.Thread(target=run, daemon=True).start()
        return heard

    yield start, inner
    os.close(inner)
    os.close(outer)


@pytest.mark.parametrize(
    ("answer", "drawing"),
    [(b"\x1b_Gi=31;OK\x1b\\\x1b[?62;c", b"\x1b_Ga=T,f=100"), (b"\x1b[?62;4;22c", b"\x1bP0;1q")],
    ids=["kitty", "sixel"],
)
def test_a_terminal_that_can_draws_the_images(terminal, answer, drawing):
    start, inner = terminal
    heard = start(answer, draws=True)
    assert pictures.Terminal().draw([ONE, OTHER], inner, inner)
    assert heard.count(drawing) == 2 and ONE.sha256[:12].encode() in heard


@pytest.mark.parametrize("answer", [b"\x1b[?62;22c", b"\x1b[?64c"])
def test_a_terminal_that_cannot_is_left_as_it_is(terminal, answer):
    start, inner = terminal
    heard = start(answer, draws=False)
    assert not pictures.Terminal().draw([ONE], inner, inner)
    assert b"\x1b[2J" not in heard


def test_a_silent_terminal_is_not_waited_for(terminal, monkeypatch):
    monkeypatch.setattr(graphics, "_WAIT_S", 0.05)
    _, inner = terminal
    assert graphics.ask(inner, inner) == ""


def test_kitty_gets_the_image_as_png_in_small_pieces():
    import base64

    large = stored(drawn(9, side=300, format="JPEG"))
    pieces = list(graphics.drawn(large, "kitty", 300, 300))
    assert all(len(piece) < 4200 for piece in pieces) and pieces[-1].startswith(b"\x1b_Gq=2,m=0;")
    data = b"".join(piece.partition(b";")[2].removesuffix(b"\x1b\\") for piece in pieces)
    assert PIL.open(io.BytesIO(base64.b64decode(data))).size == (300, 300)


def read_sixels(data):
    """The pixels of sixels, read as the manual says."""
    width, height = map(int, re.search(rb'"1;1;(\d+);(\d+)', data).groups())
    image = np.zeros((-(-height // 6) * 6, width, 3), dtype=int)
    palette, colour, x, top = {}, 0, 0, 0
    body = data.partition(b"\x1bP0;1q")[2].removesuffix(b"\x1b\\").decode()
    body = body[re.match(r'"[\d;]+', body).end() :]
    for token in re.findall(r"#\d+;2;\d+;\d+;\d+|#\d+|!\d+.|[?-~]|\$|-", body):
        if token[0] == "#":
            number, *rgb = map(int, token[1:].split(";"))
            colour = number
            if rgb:
                palette[number] = rgb[1:]
        elif token == "$":
            x = 0
        elif token == "-":
            x, top = 0, top + 6
        else:
            count = int(token[1:-1]) if token[0] == "!" else 1
            for bit in range(6):
                if (ord(token[-1]) - 63) >> bit & 1:
                    image[top + bit, x : x + count] = palette[colour]
            x += count
    return image[:height]


def test_sixels_hold_every_pixel_of_the_image():
    index_HW = np.random.default_rng(0).integers(0, 5, (20, 33)).astype(np.uint8)
    index_HW[7:9] = 2  # a run
    palette = np.array([[0, 0, 0], [255, 255, 255], [255, 0, 0], [0, 51, 0], [102, 153, 204]])
    expected = np.round(palette[index_HW] * 100 / 255)
    assert np.array_equal(read_sixels(graphics.sixels(index_HW, palette)), expected)


def test_an_image_is_fitted_into_the_terminal_and_never_enlarged():
    large = stored(drawn(2, side=400))
    assert graphics.box(large, 80, 10, (8, 16)) == (160, 160)
    assert graphics.box(ONE, 80, 10, (8, 16)) == (32, 32)
    assert graphics.cell(80, 24, 640, 384) == (8, 16)
    assert graphics.cell(80, 24, 0, 0) == (10, 20)
