"""Event files that `tensorboard --logdir` shows; torch is not needed to write them."""

import json
import time
from pathlib import Path
from typing import Any

from rlvr_cli.protocols import Tracked, TrackedRun
from rlvr_cli.tracking import markdown, packages


def build(*, folder: str = "") -> "TensorBoard":
    """The event files are in `folder`, in `tensorboard` within the run by default."""
    packages.require("tensorboard")
    return TensorBoard(folder)


class TensorBoard:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._writer: Any = None

    def start(self, run: TrackedRun) -> Tracked:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = Path(self._folder or run.path / "tensorboard")
        last = _last_step(folder)
        self._writer = EventFileWriter(str(folder))
        if last < 0:
            config = f"```\n{json.dumps(run.config, indent=1)}\n```"
            self._add(0, [_text("config", config)])
        return Tracked(str(folder), last)

    def log(self, step: int, figures: dict[str, float], samples: list[dict[str, Any]]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=v) for name, v in figures.items()]
        table = [_text("samples", markdown.table(samples))] if samples else []
        self._add(step, values + table)

    def log_images(self, step: int, images: dict[str, list[Any]]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(
                tag=f"images/{name}/{number}",
                image=Summary.Image(
                    width=image.width, height=image.height, encoded_image_string=image.read()
                ),
            )
            for name, own in images.items()
            for number, image in enumerate(own)
        ]
        self._add(step, values)

    def finish(self) -> None:
        self._writer.close()

    def _add(self, step: int, values: list[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        event = Event(step=step, wall_time=time.time(), summary=Summary(value=values))
        self._writer.add_event(event)
        self._writer.flush()


def _text(name: str, text: str) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util import tensor_util

    return Summary.Value(
        tag=name,
        metadata=create_summary_metadata(display_name=name, description=""),
        tensor=tensor_util.make_tensor_proto([text.encode()]),
    )


def _last_step(folder: Path) -> int:
    """The newest step that has figures in event files, -1 without any; a torn end is not read."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    steps = [
        event.step
        for path in sorted(folder.glob("events.out.tfevents.*"))
        for event in LegacyEventFileLoader(str(path)).Load()
        if any(value.HasField("simple_value") for value in event.summary.value)
    ]
    return max(steps, default=-1)
