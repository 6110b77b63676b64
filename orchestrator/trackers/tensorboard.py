"""TensorBoard: event files in the folder `tensorboard` of the run.  `tensorboard --logdir outputs` compares runs."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from orchestrator.callbacks import RunEnd, RunInfo
from orchestrator.trackers import Tracker

FOLDER = "tensorboard"
PNG_SIZE = slice(16, 24)  # width and height, in the first chunk


class TensorboardTracker(Tracker):
    """Figures as scalars, plots as images; settings and the report as text."""

    name: ClassVar[str] = "tensorboard"

    def begin(self, run: RunInfo) -> None:
        self._writer, self._step = EventFileWriter(str(run.folder / FOLDER)), run.done
        self._write_text("settings", "\n".join(f"{name} = {value}" for name, value in run.settings.items()))
        self._writer.flush()

    def metrics(self, step: int, figures: Mapping[str, float]) -> None:
        self._step = step
        self._write(*(Summary.Value(tag=name, simple_value=value) for name, value in figures.items()))
        self._writer.flush()

    def artifacts(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if path.suffix == ".png":
                png = path.read_bytes()
                width, height = struct.unpack(">II", png[PNG_SIZE])
                image = Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
                self._write(Summary.Value(tag=path.stem, image=image))
            elif path.name == "report.txt":
                self._write_text("report", path.read_text("utf-8"))

    def finish(self, end: RunEnd, summary: str) -> None:
        self._write_text("end", f"{end.state}: {summary}" if summary else end.state)
        self._writer.close()

    def _write_text(self, tag: str, text: str) -> None:
        """TensorBoard shows Markdown; indented, its lines stay as they are."""
        block = "".join(f"    {line}\n" for line in text.splitlines())
        tensor = TensorProto(dtype=DT_STRING, string_val=[block.encode()])
        metadata = create_summary_metadata(display_name=tag, description="")
        self._write(Summary.Value(tag=tag, tensor=tensor, metadata=metadata))

    def _write(self, *values: Summary.Value) -> None:
        self._writer.add_event(Event(wall_time=time.time(), step=self._step, summary=Summary(value=values)))
