"""Prompts with small images that Pillow draws, and completions of them, for several test files."""

import io
import json
from pathlib import Path

from rlvr_cli.cli import app
from rlvr_cli.interop import image_files
from rlvr_cli.stages import prompts
from rlvr_cli.stages.prompts import Source
from rlvr_cli.storage.images import Image
from rlvr_cli.storage.shards import Shards


def drawn(count: int, side: int = 32, format: str = "PNG", mode: str = "RGB") -> bytes:
    """The file of an image with `count` squares on white."""
    import PIL.Image
    import PIL.ImageDraw

    image = PIL.Image.new(mode, (side, side), "white")
    draw = PIL.ImageDraw.Draw(image)
    for number in range(count):
        left, top = number % 4 * side // 4, number // 4 * side // 4
        draw.rectangle((left, top, left + side // 6, top + side // 6), "black" if mode == "L" else
                       ("red", "blue", "green")[number % 3])  # fmt: skip
    sink = io.BytesIO()
    image.save(sink, format)
    return sink.getvalue()


def stored(data: bytes) -> Image:
    return image_files.normalised(data)


def asked(prompt_id: str, *parts: str | Image, answer: str = "1") -> dict:
    """A row of a prompt whose question holds texts and images in this order."""
    content = [
        {"type": "text", "text": part} if isinstance(part, str)
        else {"type": "image", "image": part.sha256}
        for part in parts
    ]  # fmt: skip
    images = [part for part in parts if not isinstance(part, str)]
    messages = [{"role": "user", "content": content if images else parts[0]}]
    return {
        "prompt_id": prompt_id, "messages": json.dumps(messages), "answer": answer, "raw": False,
        "verifier": "number", "source": "squares", "extra": None, "images": images,
    }  # fmt: skip


def directory(out: Path, rows: list[dict]) -> Shards:
    """A directory of these prompts."""
    return prompts.make(Source(rows, {}), out)


def answered(prompts: Shards, out: Path) -> Path:
    """Four completions of each prompt, of which two are right, scored."""
    rows = [
        {"id": row["prompt_id"], "completion": f"I count {value}.", "correct": value == "1"}
        for row in prompts.table().to_pylist() for value in ("1", "1", "2", "3")
    ]  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    file = out.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["import", str(file), "--prompts", str(prompts.path), "--out", str(out)]
    assert app.run(words) == 0
    return out
