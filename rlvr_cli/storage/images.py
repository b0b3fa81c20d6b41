"""The images of prompts: a directory `images` in that of the prompts, and looking them up there.

A prompt's messages name each of its images by the sha256 of its stored bytes. `PROMPTS/__images/`
holds each once, in the order in which they first occur.
"""

import bisect
import functools
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.storage import manifest as manifests, schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import write_all_shards

KIND = COLUMN = "images"
FOLDER = "__images"  # a name that pyarrow, Spark and `datasets` leave out of a directory's rows
"""The directory in that of the prompts, its kind, and the column of the prompts."""
BYTES_PER_PART = 16 * 2**20
_HELD_BYTES = 256 * 2**20  # of recently used images to keep in memory


@dataclass(frozen=True)
class Image:
    """An image as it is stored; its bytes are read on demand."""

    sha256: str
    format: str  # PNG, JPEG or WEBP
    width: int
    height: int
    size: int  # bytes
    read: Callable[[], bytes] = field(repr=False, compare=False)


def image(data: bytes, format: str, width: int, height: int) -> Image:
    """The image of these bytes."""
    sha256 = hashlib.sha256(data).hexdigest()
    return Image(sha256, format, width, height, len(data), lambda: data)


def write(prompts: Path, images: Iterable[Image]) -> Shards:
    """The directory of these images in that of the prompts, each once, in the order given."""
    unique = list({one.sha256: one for one in images}.values())
    groups = _groups(unique)
    digest = hashlib.sha256("".join(one.sha256 for one in unique).encode()).hexdigest()
    plan = Plan(KIND, "prompts", {"images": len(unique), "content": digest}, {}, len(groups))
    return write_all_shards(
        prompts / FOLDER,
        plan,
        lambda index: _table(groups[index]),
        summarise=lambda shards: {"bytes": sum(one.size for one in unique)},
    )


def _groups(images: list[Image]) -> list[list[Image]]:
    """The images of each part, of at most so many bytes unless it is one image."""
    groups: list[list[Image]] = [[]]
    size = 0
    for one in images:
        if groups[-1] and size + one.size > BYTES_PER_PART:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size += one.size
    return groups


def _table(images: list[Image]) -> pa.Table:
    columns = {
        "sha256": [one.sha256 for one in images],
        "bytes": [one.read() for one in images],
        "format": [one.format for one in images],
        "width": [one.width for one in images],
        "height": [one.height for one in images],
    }
    return pa.table(columns, schema.schema(KIND))


class Images:
    """The images of a directory of prompts, looked up by their sha256 or by the prompt's id.

    So many bytes of those that were looked up stay in memory; the others are read again.
    """

    @staticmethod
    def of(prompts: Shards) -> "Images | None":
        """Those of a directory of prompts, or of several read as one; None where it has none.

        The index is read once for the same content in the same place.
        """
        places = tuple((one.path.absolute(), one.digest) for one in prompts.inputs
                       if KIND in one.manifest["parents"])  # fmt: skip
        return _of(places) if places else None

    def __init__(self, prompts: Iterable[Shards]) -> None:
        self._rows: dict[str, tuple[_Directory, int]] = {}
        self._prompts: dict[str, tuple[str, ...]] = {}
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._held_bytes = 0
        for one in prompts:
            self._add(one)

    def _add(self, prompts: Shards) -> None:
        directory = _Directory(of(prompts))
        for number, sha256 in enumerate(directory.names):
            self._rows.setdefault(sha256, (directory, number))
        for index in range(len(prompts)):
            table = prompts.part(index, ["prompt_id", COLUMN])
            for name, own in zip(*(column.to_pylist() for column in table.columns), strict=True):
                if own:
                    self._prompts.setdefault(name, tuple(own))

    def of_prompt(self, prompt_id: str) -> tuple[bytes, ...]:
        """The stored bytes of a prompt's images in the order of its messages; empty without any."""
        return tuple(self.bytes(sha256) for sha256 in self._prompts.get(prompt_id, ()))

    def bytes(self, sha256: str) -> bytes:
        """The stored bytes of an image; an error if they are not those that were written."""
        if sha256 in self._held:
            self._held.move_to_end(sha256)
            return self._held[sha256]
        directory, number = self._row(sha256)
        data = directory.bytes(number)
        if hashlib.sha256(data).hexdigest() != sha256:
            raise DataError(
                f"`{directory.shards.path}` holds other bytes than those of image {sha256[:12]}",
                manifests.remake_hint(directory.shards.path.parent),
            )
        self._held[sha256] = data
        self._held_bytes += len(data)
        while self._held_bytes > _HELD_BYTES and len(self._held) > 1:
            self._held_bytes -= len(self._held.popitem(last=False)[1])
        return data

    def image(self, sha256: str) -> Image:
        """An image with its format and its size in pixels; its bytes are read on demand."""
        directory, number = self._row(sha256)
        row = directory.facts.slice(number, 1).to_pylist()[0]
        return Image(sha256, **row, read=functools.partial(self.bytes, sha256))

    def images_of(self, prompt_id: str) -> tuple[Image, ...]:
        """A prompt's images in the order of its messages."""
        return tuple(self.image(sha256) for sha256 in self._prompts.get(prompt_id, ()))

    def pixels_of(self, prompt_id: str) -> int:
        """How many pixels a prompt's images have together."""
        return sum(one.width * one.height for one in self.images_of(prompt_id))

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._rows

    def __len__(self) -> int:
        """How many different images there are."""
        return len(self._rows)

    def _row(self, sha256: str) -> "tuple[_Directory, int]":
        if sha256 not in self._rows:
            where = " or ".join(f"`{one.shards.path}`" for one in self._directories())
            raise DataError(
                f"image {sha256[:12]} is not in {where}",
                "make the prompts again with `rlvr prompts`",
            )
        return self._rows[sha256]

    def _directories(self) -> "Iterable[_Directory]":
        return {id(one): one for one, _ in self._rows.values()}.values()


def of(prompts: Shards) -> Shards:
    """The directory of images of one of prompts, which has some."""
    if not (folder := prompts.path / FOLDER).is_dir():
        raise DataError(
            f"`{folder}` is not there, which holds the images of `{prompts.path}`",
            "copy the prompts with all folders in them, or make them again with `rlvr prompts`",
        )
    return prompts.parent(KIND)


def require_intact(prompts: Shards) -> None:
    """An error if an image of a directory of prompts is not there, or is not as it was written."""
    if KIND not in prompts.manifest["parents"]:
        return
    images = Images([prompts])
    for names in images._prompts.values():
        for sha256 in names:
            images._row(sha256)
    for sha256 in images._rows:
        images.bytes(sha256)


class _Directory:
    """A directory of images, all of whose parts were compared with their checksums.

    Facts are in memory; bytes are read on demand, a few images at a time.
    """

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        self._read: tuple[int, pa.ChunkedArray] = (0, pa.chunked_array([], pa.binary()))
        tables = [self._facts(index) for index in range(len(shards))]
        self._ends = functools.reduce(lambda ends, t: [*ends, ends[-1] + len(t)], tables, [0])
        table = pa.concat_tables(tables).combine_chunks()
        self.names: list[str] = table["sha256"].to_pylist()
        self.facts = table.drop_columns("sha256")

    def _facts(self, index: int) -> pa.Table:
        table = self.shards.part(index, ["sha256", "bytes", "format", "width", "height"])
        sizes = pc.cast(pc.binary_length(table["bytes"]), pa.int64())
        return table.set_column(1, "size", sizes)

    def bytes(self, number: int) -> bytes:
        """The bytes of an image as they are now; whether they are its own is for who asks."""
        first, column = self._read
        if not first <= number < first + len(column):
            self._read = first, column = self._group_of(number)
        data: bytes = column[number - first].as_py()
        return data

    def _group_of(self, number: int) -> tuple[int, pa.ChunkedArray]:
        """The row group that holds an image: the number of its first one, and the bytes of each."""
        part = bisect.bisect_right(self._ends, number) - 1
        path = self.shards.path / self.shards.manifest["parts"][part]["name"]
        first = self._ends[part]
        why = "it has fewer images than it had"
        try:
            with pq.ParquetFile(path, memory_map=True) as file:
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    if number < first + rows:
                        return first, file.read_row_group(group, columns=["bytes"])["bytes"]
                    first += rows
        except (pa.ArrowException, OSError, ValueError) as error:
            why = first_line(error)
        raise DataError(f"`{path}` cannot be read: {why}", manifests.remake_part_hint(path))


@functools.lru_cache(maxsize=4)
def _of(places: tuple[tuple[Path, str], ...]) -> Images:
    return Images(Shards.open(path, "prompts") for path, _ in places)
