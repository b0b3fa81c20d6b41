"""What befalls the files of a run: one mutation each, drawn by chance."""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.storage.metrics_log import DIGESTS, METRICS

NOT_WRITTEN = ("_lock",)  # held by a process, and empty


@dataclass(frozen=True)
class Damage:
    """What was done: to which files of the run, and what was added to it."""

    kind: str
    changed: tuple[Path, ...]
    added: tuple[Path, ...] = ()


def linked_copy(source: Path, out: Path) -> None:
    """A copy that costs no bytes: the files are the same but for those that runs append to."""

    def copy(old: str, new: str) -> None:
        (shutil.copyfile if Path(old).name in (METRICS, DIGESTS) else os.link)(old, new)

    shutil.copytree(source, out, copy_function=copy)


def files(run: Path) -> list[Path]:
    """The files of a run, by their names in it."""
    found = (p for p in sorted(run.rglob("*")) if p.is_file() and p.name not in NOT_WRITTEN)
    return [path.relative_to(run) for path in found]


def kind_of(file: Path) -> str:
    """The kind of a file, for the rows of the table: without numbers of steps and parts."""
    parts = [part for part in file.parts if not part[:6].isdecimal()]
    name = parts[-1].partition("-0")[0] + file.suffix if "-0" in parts[-1] else parts[-1]
    if "_checkpoint" in parts:
        return f"checkpoint of {'memory' if 'memory' in parts else 'update'}: {name}"
    if "memory-model" in parts:
        return f"memory-model: {name}"
    if len(parts) == 1:
        return name
    return f"{parts[0]}: {name}"


def _replaced(path: Path, data: bytes) -> None:
    path.unlink()  # other runs have the same file
    path.write_bytes(data)


def _flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    place = chance.choice([chance.randrange(len(data)), 0, len(data) - 1])
    data[place] ^= 1 << chance.randrange(8)
    _replaced(path, bytes(data))


def _cut(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    _replaced(path, data[: chance.choice([0, 1, len(data) // 2, len(data) - 1])])


def _zero(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    start = chance.choice([0, len(data) // 2])
    _replaced(path, data[:start] + bytes(len(data) - start))


def _append(path: Path, chance: random.Random) -> None:
    _replaced(path, path.read_bytes() + bytes(chance.randbytes(chance.choice([1, 4096]))))


def _remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def _rename(path: Path, chance: random.Random) -> None:
    path.rename(path.with_name(_other_name(path, chance)))


def _pipe(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _other_name(path: Path, chance: random.Random) -> str:
    names = (f"{path.stem} (1){path.suffix}", f"{path.name}.bak", f"._{path.name}", f"{path.name}~")
    return chance.choice(names)


MUTATIONS: dict[str, Callable[[Path, random.Random], None]] = {
    "flip": _flip,
    "cut": _cut,
    "zero": _zero,
    "append": _append,
    "remove": _remove,
    "rename": _rename,
    "pipe": _pipe,
    "folder": _folder,
    "loop": _loop,
}
KINDS = (*MUTATIONS, "swap", "duplicate", "stranger")
_STRANGERS = (".DS_Store", "notes.txt", "Thumbs.db", "000001.bak", "foo", "._000001", ".a.swp")


def inflict(kind: str, run: Path, file: Path, chance: random.Random) -> Damage:
    """Does it to a file of a run; with `swap` to another of its suffix too."""
    path = run / file
    if kind == "swap":
        data = path.read_bytes()
        others = [other for other in files(run) if (run / other).read_bytes() != data]
        alike = [other for other in others if other.suffix == file.suffix]
        other = chance.choice(alike or others)
        _replaced(path, (run / other).read_bytes())
        _replaced(run / other, data)
        return Damage(kind, (file, other))
    if kind == "duplicate":
        twin = path.with_name(_other_name(path, chance))
        shutil.copyfile(path, twin)
        return Damage(kind, (), (twin.relative_to(run),))
    if kind == "stranger":
        folder = chance.choice([path, *list(path.parents)[: len(file.parts)]][1:])
        stranger = folder / chance.choice(_STRANGERS)
        if chance.random() < 0.3:
            shutil.copytree(path.parent, stranger)
        else:
            stranger.write_bytes(chance.choice([b"", b"a note\n", bytes(64)]))
        return Damage(kind, (), (stranger.relative_to(run),))
    MUTATIONS[kind](path, chance)
    return Damage(kind, (file,))
