"""The images of prompts: stored once each, and looked up by prompt and by sha256."""

import io
import json

import datasets
import duckdb
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from PIL import Image as pictures

from rlvr_cli.errors import DataError
from rlvr_cli.stages import prompts
from rlvr_cli.storage import images as stored
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.joined import opened
from rlvr_cli.storage.shards import Shards


def png(red, size=(8, 6)):
    file = io.BytesIO()
    pictures.new("RGB", size, (red, 0, 0)).save(file, "PNG")
    return file.getvalue()


def row(name, *reds):
    """A row of prompts; text alone without images."""
    own = [stored.image(png(red), "PNG", 8, 6) for red in reds]
    parts = [{"type": "image", "image": one.sha256} for one in own]
    return {
        "prompt_id": name, "answer": "1", "verifier": None, "source": "s", "extra": None,
        "raw": False, "images": own,
        "messages": json.dumps([{"role": "user", "content": parts}] if own else "1+1?"),
    }  # fmt: skip


@pytest.fixture
def three(tmp_path):
    rows = [row("a", 1, 2), row("b"), row("c", 2)]
    return prompts.make_all_parts(rows, tmp_path / "prompts", params={"limit": 3})


def test_each_image_is_stored_once_and_found_by_its_prompt(three):
    images = Images.of(three)
    assert len(images) == 2
    assert images.of_prompt("a") == (png(1), png(2))
    assert images.of_prompt("c") == (png(2),) and images.of_prompt("b") == ()
    assert [(one.format, one.width, one.height) for one in images.images_of("c")] == [("PNG", 8, 6)]
    assert three.parent("images").path == three.path / "__images"


def test_prompts_without_images_have_neither_the_column_nor_the_directory(tmp_path):
    made = prompts.make_all_parts([row("b")], tmp_path / "p", params={})
    assert "images" not in made.schema.names and not (made.path / "__images").exists()
    assert made.manifest["only"] is None and Images.of(made) is None


def test_duckdb_joins_prompts_with_their_images(three):
    found = duckdb.sql(
        f"SELECT p.prompt_id, i.width, octet_length(i.bytes) FROM '{three.path}/part-*.parquet' p "
        f"JOIN '{three.path}/__images/*.parquet' i ON list_contains(p.images, i.sha256) "
        "WHERE p.prompt_id = 'c'"
    ).fetchall()
    assert found == [("c", 8, len(png(2)))]


def test_readers_of_a_whole_directory_read_the_prompts_alone(three, tmp_path):
    assert pq.read_table(three.path).num_rows == 3
    assert pyarrow.dataset.dataset(three.path).count_rows() == 3
    loaded = datasets.load_dataset(str(three.path), split="train", cache_dir=str(tmp_path / "c"))
    assert loaded.num_rows == 3


def test_images_of_several_directories_are_found_in_each(three, tmp_path):
    other = prompts.make_all_parts([row("d", 9)], tmp_path / "more", params={})
    images = Images.of(opened([three.path, other.path], "prompts"))
    assert images.of_prompt("d") == (png(9),) and images.of_prompt("c") == (png(2),)


def test_images_are_packed_into_parts_of_bounded_size(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BYTES_PER_PART", 2 * len(png(1)))
    rows = [row(str(number), number) for number in range(5)]
    made = prompts.make_all_parts(rows, tmp_path / "p", params={})
    assert [part["rows"] for part in made.parent("images").manifest["parts"]] == [2, 2, 1]
    images = Images.of(made)
    assert [images.of_prompt(str(number)) for number in range(5)] == [(png(n),) for n in range(5)]


def test_a_damaged_part_of_images_is_an_error(three):
    part = three.path / "__images" / "part-00000.parquet"
    data = bytearray(part.read_bytes())
    data[20] ^= 1
    part.write_bytes(bytes(data))
    with pytest.raises(DataError, match="does not match its checksum"):
        Images.of(Shards.open(three.path)).of_prompt("a")


def test_a_directory_moves_with_its_images(three, tmp_path):
    moved = three.path.rename(tmp_path / "elsewhere")
    assert Images.of(Shards.open(moved)).of_prompt("c") == (png(2),)


def test_an_image_that_changed_since_the_index_was_read_is_an_error(three):
    images = Images.of(three)
    part = three.path / "__images" / "part-00000.parquet"
    data = part.read_bytes()
    part.write_bytes(data[:50])
    with pytest.raises(DataError, match=r"part-00000.parquet` cannot be read"):
        images.of_prompt("c")
    part.write_bytes(data.replace(png(1)[:60], png(1)[:59] + b"?"))
    with pytest.raises(DataError, match=r"images` holds other bytes than those of image"):
        images.of_prompt("a")


def test_images_are_found_across_row_groups_and_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "BYTES_PER_PART", 4 * len(png(1)))
    monkeypatch.setattr("rlvr_cli.storage.encoding._BYTES_PER_GROUP", 3 * len(png(1)))
    rows = [row(str(number), number) for number in range(11)]
    images = Images.of(prompts.make_all_parts(rows, tmp_path / "p", params={}))
    for number in (10, 3, 4, 0, 9, 2, 1, 8, 5, 7, 6):
        assert images.of_prompt(str(number)) == (png(number),)
