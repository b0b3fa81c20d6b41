"""The task whose prompts are pictures of shapes."""

import hashlib
import io
import subprocess
import sys

import pytest
from PIL import Image

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.tasks import shapes
from rlvr_cli.verification.verifiers.expression import build as build_verifier


def images(**options):
    return [row["prompt"][0]["content"][0]["image"] for row in shapes.build(**options)]


def islands(picture, colour):
    """How many regions of one colour a picture has: those that hang together."""
    left = {
        (x, y)
        for x in range(picture.width)
        for y in range(picture.height)
        if picture.getpixel((x, y)) == colour
    }
    count = 0
    while left:
        count += 1
        edge = [left.pop()]
        while edge:
            x, y = edge.pop()
            near = {(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)} & left
            left -= near
            edge += near
    return count


def test_a_picture_has_the_shapes_that_the_answer_counts():
    rng = shapes.random.Random(0)
    for _ in range(20):
        drawn = shapes.drawn(rng, 6)
        picture = Image.open(io.BytesIO(shapes.png(drawn.shapes)))
        assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (64, 64))
        for colour, value in shapes.COLOURS.items():
            own = [shape for shape in drawn.shapes if shape.colour == colour]
            assert islands(picture, value) == len(own)
        assert len(drawn.counted) > 1


def test_the_answer_is_the_number_of_corners_of_the_colour_that_is_asked_for():
    square, circle = (shapes.Shape(form, "red", 8, 8, 6) for form in ("square", "circle"))
    other = shapes.Shape("hexagon", "blue", 24, 8, 6)
    picture = shapes.Picture((square, circle, other, square), "red")
    assert picture.counted == [4, 4]


def test_forms_differ_and_a_larger_one_covers_more():
    covered = {(form, radius): shapes._pixels(form, radius) for form in shapes.CORNERS
               for radius in (5, 6)}  # fmt: skip
    assert len(set(covered.values())) == len(covered)
    assert all(set(covered[f, 5]) < set(covered[f, 6]) for f in shapes.CORNERS)


def test_the_bytes_are_the_same_on_every_machine():
    digest = hashlib.sha256(b"".join(images(count=50))).hexdigest()
    assert digest == "69ba811b03c6fa513a5aeddebfedc5f24bf7af3cb3c382879919648126f5fd6e"


def test_it_needs_no_pillow():
    code = (
        "import sys; sys.modules['PIL'] = None; from rlvr_cli.tasks import shapes; "
        "print(len(shapes.build(count=3)))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert ran.stdout == "3\n", ran.stderr


def test_splits_share_no_picture_and_are_the_same_every_time():
    train, heldout = images(count=300), images(count=100, split="heldout")
    assert not set(train) & set(heldout)
    assert images(count=300) == train and images(count=50) == train[:50]
    assert images(count=300, seed=1) != train


@pytest.mark.parametrize("option", ["largest=2", "largest=17", "count=-1", "count=100001"])
def test_options_without_sense_are_refused(option):
    with pytest.raises(UsageError, match="largest must be"):
        registry.build("tasks", f"shapes:{option}")


def test_the_verifier_takes_the_sum_and_other_expressions_but_no_wrong_one():
    verify = build_verifier()
    for row in shapes.build(count=20):
        gold = int(row["answer"])
        least = "+".join(["1"] * gold)
        assert verify(least, answer=row["answer"], extra={}).correct
        assert not verify(least + "+1", answer=row["answer"], extra={}).correct
